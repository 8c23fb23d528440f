// Package claudecode reads the transcripts of Claude Code: the files SESSION.jsonl below ~/.claude/projects, those of
// its sub-agents, and large outputs of tools. The format is internal to that program and changes; dialects/README.md
// says what is inferred and what is lost.
//
//	for _, family := range families {
//		for ev, err := range family.Events(claudecode.Agent.NewDecoder()) { ... }
//	}
//
// where families comes from [transcript.Find] and [Agent]. A single file is read with Events, as that of any dialect.
package claudecode

import (
	"bytes"
	"cmp"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// minID is how long an id of a reply is at least that no other reply has: some gateways give all the same.
const minID = 20

// maxSides is how many sub-agents in line, compactions and titles of a file are remembered.
const maxSides = 4096

// family is what the files of a session, of its sub-agents and of its forks share.
type family struct {
	talks map[*transcript.Thread]*talk // what is known of a thread
	side  string                       // the last sub-agent in line
	rank  map[string]int               // of the facts of a session
}

// file is one of them.
type file struct {
	*transcript.Decoder
	*family
	transcript.File
	session string
	agent   string            // the sub-agent whose file it is
	titles  map[string][]byte // of the history that ends with a line
	at      time.Time         // of the last line that had one
}

// open reads a file. An input without a name is of the session that its lines name.
func open(d *transcript.Decoder, f transcript.File) (input.Reader, func() error) {
	all, _ := d.Shared.(*family)
	if all == nil {
		all = &family{talks: map[*transcript.Thread]*talk{}, rank: map[string]int{}}
		d.Shared = all
	}
	r := &file{Decoder: d, family: all, File: f, session: cmp.Or(f.ID, d.Settings.Session), titles: map[string][]byte{}}
	if agent, ok := strings.CutPrefix(f.ID, agentPrefix); ok {
		r.session, r.agent, _ = strings.Cut(agent, " ")
	}
	return input.Reader{Line: d.Objects("type!", r.line), End: r.end}, nil
}

// end reports what the end of a file shows. The next line may be written yet while Settings.Live is set.
func (d *file) end() {
	for t, k := range d.talks {
		if !d.Settings.Live {
			k.settle(nil, false)
		}
		if t.Name != "" && d.Spawned(t.Session, t.Run()).Done {
			t.Over(time.Time{}, event.RunResult{})
		}
	}
	d.Finish()
}

// Names of their own: of lines and sub-agents, as a prompt's line is also its run; of sub-agents in line, and of their
// lines and calls; of calls that may spawn sub-agents, and of what these ask for; of lines below which a prompt is.
const linePrefix, agentPrefix, inLine, sidePrefix = "line ", "agent ", "in line ", "side "
const callName, promptName, belowName = "call ", "said ", "below "

// Agent says where Claude Code keeps its sessions.
var Agent = transcript.Agent{Dialect: "claude-code", Open: open, Env: "CLAUDE_CONFIG_DIR", Below: []string{"projects"},
	Home: []string{".claude/projects", ".config/claude/projects",
		"Library/Application Support/Claude/local-agent-mode-sessions",
		"Library/Developer/Xcode/CodingAssistant/ClaudeAgentConfig/projects"},
	Names: regexp.MustCompile(`\.jsonl(\.zst)?$`), Head: headOf, NextTo: "agent-*.jsonl*"}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// headOf finds the session in the name of a file or in its lines, and what it has in common with others: the first line
// and the first reply of a history, and the session from which it was forked.
func headOf(path string, head []byte, _ input.Outline) (h transcript.Head) {
	session := ""
	for line := range bytes.Lines(head) {
		o, _ := object.Parse(bytes.TrimSpace(line)) // the last one may be cut
		if session == "" && Recognise(input.OutlineOf(line)) != "" {
			session = o.String("sessionId")
		}
		if at := input.Time(o.Raw("timestamp")); h.Started.IsZero() && !at.IsZero() && o.String("uuid") != "" {
			h.Started, h.Parent = at, from(o)
			if !o.Has("parentUuid") {
				h.Keys = []string{linePrefix + o.String("uuid")}
			}
		}
		if id := o.Object("message").String("id"); len(id) >= minID { // resumed sessions may have other uuids
			h.Keys = append(h.Keys, callName+id)
			break
		}
	}
	if session == "" {
		return transcript.Head{}
	}
	stem := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".zst"), ".jsonl")
	agent, isAgent := strings.CutPrefix(stem, "agent-")
	if !isAgent {
		if h.ID, h.Folder = session, filepath.Join(filepath.Dir(path), stem); uuid.MatchString(stem) {
			h.ID = stem
		}
		return h
	}
	if before, _, ok := strings.Cut(filepath.ToSlash(path), "/subagents/"); ok {
		h.Folder = filepath.FromSlash(before)
		if name := filepath.Base(h.Folder); uuid.MatchString(name) {
			session = name
		}
	}
	h.ID, h.Part, h.Keys, h.Parent = agentPrefix+session+" "+agent, true, []string{session}, session
	h.Sessions = h.Keys
	if isCompaction(agent) { // read before the session, whose compaction takes its tokens
		h.Started, h.Parent = time.Time{}, ""
	}
	return h
}

// from returns the session from which a line was copied, as far as it says so.
func from(o *object.Object) (of string) {
	if of = o.String("session_id"); of == o.String("sessionId") {
		of = ""
	}
	return cmp.Or(o.Object("forkedFrom").String("sessionId"), of)
}

// isCompaction reports whether a sub-agent is the call that writes the summary of a compaction.
func isCompaction(agent string) bool { return strings.HasPrefix(agent, "acompact") }

// Recognise returns why a line, which may be cut, is one of Claude Code; empty when it is not. Lines of Gemini CLI,
// Qwen Code and iFlow look alike.
func Recognise(o input.Outline) (why string) {
	id, prefixed := strings.CutPrefix(o.Text("", "sessionId"), "session-")
	kind := o.Text("", "type")
	switch _, known := kinds[kind]; {
	case o.Has("", "projectHash", "systemPayload"), o.Has("message", "parts"), prefixed && uuid.MatchString(id):
	case known && o.Has("", "sessionId"),
		kind == "file-history-snapshot" && o.Has("", "messageId"), kind == "summary" && o.Has("", "leafUuid"):
		return "lines with type " + kind + " and sessionId"
	}
	return ""
}

// row is a line while it is read.
type row struct {
	*object.Object
	t    *transcript.Thread
	k    *talk
	text []byte // the whole line
	kind string // type and subtype
	uuid string
	at   time.Time
}

// kinds are the lines that are known, by type and subtype. One without a function is kept as it is, as all others are.
var kinds = map[string]func(*file, *row){
	"user":                      (*file).user,
	"assistant":                 (*file).assistant,
	"attachment":                nil,
	"attachment.queued_command": (*file).user,
	"progress": func(d *file, r *row) {
		r.t.Progress(r.String("parentToolUseID"), d.Name+"."+r.kind, r.Raw("data"), r.at)
	},
	"progress.agent_progress":      omitted, // repeats the lines of a sub-agent
	"file-history-snapshot":        omitted,
	"last-prompt":                  omitted, // repeats a prompt
	"queue-operation":              nil,
	"permission-mode":              omitted, // line reads it
	"mode":                         nil,
	"summary":                      (*file).summary,
	"custom-title":                 stated("customTitle", "title", 3),
	"ai-title":                     stated("aiTitle", "title", 2),
	"agent-name":                   stated("agentName", "agent_name", 0),
	"pr-link":                      stated("prUrl", "pr", 0),
	"system":                       nil,
	"system.compact_boundary":      (*file).boundary,
	"system.microcompact_boundary": (*file).boundary,
	"system.api_error": func(d *file, r *row) { // the call is repeated; its record is kept, as no other may follow
		d.other(r)
		r.t.Discard(event.DiscardedAttempt{At: event.Moment{Time: r.at}, Reason: "api_error", Error: string(r.Raw("error"))})
	},
	"system.turn_duration":     func(d *file, r *row) { r.t.End(r.at, event.RunResult{}) },
	"system.stop_hook_summary": func(d *file, r *row) { d.other(r); r.t.Over(time.Time{}, event.RunResult{}) },
}

func omitted(*file, *row) {}

// line reads one line.
func (d *file) line(o *object.Object, text []byte) string {
	typ := o.String("type")
	r := &row{Object: o, text: text, kind: typ, uuid: o.String("uuid"), at: input.Time(o.Raw("timestamp"))}
	d.at = cmp.Or(r.at, d.at)
	d.place(r)
	if r.uuid != "" {
		owner, here := d.First(r.t.Session, linePrefix+r.uuid)
		said := typ == "user" || typ == "assistant"
		if owner != "" && owner == r.t.Session && (!here || said || uuid.MatchString(r.uuid)) {
			return ""
		}
	}
	sub := cmp.Or(object.Of("", o.Raw("data")), object.Of("", o.Raw("attachment"))).String("type")
	if sub = cmp.Or(o.String("subtype"), sub); sub != "" {
		r.kind += "." + sub
	}
	for i, key := range config {
		if v := r.Raw(key); len(v) > 0 && v[0] == '"' && string(v) != string(r.k.config[i]) {
			r.k.config[i] = bytes.Clone(v)
		}
	}
	if r.t.Name == "" && r.uuid != "" {
		d.Fact(r.t.Session, "cwd", r.Raw("cwd"), r.at)
		d.Fact(r.t.Session, "git_branch", r.Raw("gitBranch"), r.at)
	}
	read := (*file).other
	for _, kind := range [...]string{typ, r.kind} {
		if known := kinds[kind]; known != nil {
			read = known
		}
	}
	read(d, r)
	d.fact("title", d.titles[r.uuid], 1, time.Time{})
	return typ
}

// place finds the session and the thread of a line: a sub-agent's by its id; in line, by the line above it.
func (d *file) place(r *row) {
	id, above := r.String("sessionId"), r.String("parentUuid")
	if id != "" && (d.session == "" || d.Path == "" && r.kind == "user" && above == "" && id != d.session) {
		d.session = id
	}
	agent := cmp.Or(r.String("agentId"), d.agent)
	switch {
	case agent != "" && (r.kind == "user" || r.kind == "assistant" || r.Has("isSidechain")):
		r.t = d.Thread(d.session, agent)
	case r.True("isSidechain"):
		name := cmp.Or(d.Spawned(d.session, sidePrefix+above).Run, d.side)
		if above == "" && r.kind == "user" || name == "" {
			name = inLine + r.uuid
		}
		r.t, d.side = d.Thread(d.session, name), name
		d.Spawn(d.session, sidePrefix+r.uuid, transcript.Link{Run: name})
	default:
		r.t = d.Thread(d.session, "")
	}
	if r.k = d.talks[r.t]; r.k == nil {
		r.k = &talk{}
		input.Put(d.talks, maxSides, r.t, r.k)
	}
}

// other keeps a line as it is. One without an id and a time says how the session is since the line before it.
func (d *file) other(r *row) {
	if r.uuid == "" && r.at.IsZero() && !d.at.IsZero() {
		d.fact(d.Name+"."+r.kind, r.text, 0, d.at)
		return
	}
	r.t.Other(d.Name+"."+r.kind, r.text, r.at)
}

// stated makes a fact of a member. Of the titles of a session the one of the highest rank counts, then the last.
func stated(key, fact string, rank int) func(*file, *row) {
	return func(d *file, r *row) { d.fact(fact, r.Raw(key), rank, r.at) }
}

func (d *file) fact(key string, text []byte, rank int, at time.Time) {
	if of := d.session + " " + key; text != nil && rank >= d.rank[of] {
		d.rank[of] = rank
		d.Fact(d.session, key, text, cmp.Or(at, d.at))
	}
}

// summary keeps the title of the history that ends with a line until that is read: files may also hold those of earlier
// sessions.
func (d *file) summary(r *row) {
	leaf, text := r.String("leafUuid"), r.Raw("summary")
	if owner, _ := d.Met(linePrefix + leaf); owner != "" && owner == d.session {
		d.fact("title", text, 1, time.Time{})
	} else if leaf != "" && len(d.titles) < maxSides {
		d.titles[leaf] = bytes.Clone(text)
	}
}

// boundary begins a compaction, whose summary is the next message, or reports that results of tools were dropped.
func (d *file) boundary(r *row) {
	r.k.settle(nil, false)
	meta := cmp.Or(r.Object.Object("compactMetadata"), r.Object.Object("microcompactMetadata"))
	c := event.Compaction{Kind: spans.CompactionKindSummary, Trigger: meta.String("trigger"),
		InputTokens: meta.Count("preTokens")}
	res := event.CompactionResult{OutputTokens: meta.Count("postTokens"), TokensGone: meta.Count("tokensSaved")}
	if r.Has("microcompactMetadata") {
		c.Kind = spans.CompactionKindPrune
		r.t.Compact(r.uuid, r.at, c, res)
		return
	}
	of := &talk{} // of the calls that made summaries the last one before
	for t, k := range d.talks {
		if t.Session == r.t.Session && k.usage != nil && !k.at.After(r.at.Add(time.Second)) && k.at.After(of.at) {
			of = k
		}
	}
	res.Usage, of.usage = of.usage, nil
	r.k.waits = func(summary []byte, _ bool) {
		res.Summary = summary
		r.t.Compact(r.uuid, r.at, c, res)
	}
}

// config are the members of the envelope of a line that say how the model is called.
var config = [...]string{"permissionMode", "version", "effort"}

// talk is what is known of a thread.
type talk struct {
	config [len(config)][]byte
	// waits ends what waits for the next line: a compaction for its summary, a slash command for a reply, which makes it
	// a prompt. Command is that, and what it adds to the context.
	waits   func(summary []byte, replied bool)
	command []event.Message

	at    time.Time // of the model call of a compaction, which has a file of its own
	usage *event.Usage
}

// settle ends what waits, if anything does.
func (k *talk) settle(summary []byte, replied bool) {
	if end := k.waits; end != nil {
		k.waits = nil
		end(summary, replied)
	}
}

// What a user's line is, if it holds no result: what a run begins with, or none.
const (
	prompt      = spans.TriggerUser
	slash       = spans.Trigger("command")
	notice      = spans.Trigger("notification")
	teammate    = spans.Trigger("teammate")
	interrupted = spans.Trigger("interrupted")
	local       = spans.Trigger("local")
	summary     = spans.Trigger("summary")
)

// beginnings say what a user's line is by how its text begins.
var beginnings = []struct {
	text string
	is   spans.Trigger
}{
	{"[Request interrupted", interrupted}, {"<command-message>", slash}, {"<command-name>", slash},
	{"<task-notification>", notice}, {"<teammate-message", teammate}, {"<local-command-", local}, {"<bash-", local},
	{"Caveat: The messages below were generated by the user while running local commands", local},
	{"This session is being continued", summary}, {"Another Claude session sent a message", teammate},
	{"<cross-session-message", teammate},
}

// origins are the values of origin.kind by which newer versions mark a line that no person wrote.
var origins = map[string]spans.Trigger{"task-notification": notice, "peer": teammate, "coordinator": teammate}

// user reads a line of the user's side: results of tools, a prompt, or something else that was put there. A prompt that
// waited in the queue steers the run, but for a notice.
func (d *file) user(r *row) {
	m, queued := r.Object.Object("message"), r.Object.Object("attachment").Raw("prompt")
	content := m.Raw("content")
	if len(content) > 0 && content[0] == '[' && d.results(r, m) {
		return
	}
	message := event.Message{Raw: r.Raw("message"), Role: "user", Time: r.at}
	if queued != nil {
		content, message.Raw = queued, input.Members("role", "user", "content", queued)
	}
	is, text := prompt, strings.TrimLeft(input.Texts(content), " \n\t")
	for _, b := range beginnings {
		if strings.HasPrefix(text, b.text) {
			is = b.is
		}
	}
	is = cmp.Or(origins[r.Object.Object("origin").String("kind")], is)
	noted := is == notice || is == teammate
	switch {
	case queued != nil && !noted:
		r.t.Message(message)
	case message.Raw == nil, is == local:
		r.k.settle(nil, false)
		d.other(r)
	case r.True("isCompactSummary") || is == summary:
		if r.k.waits == nil || r.k.command != nil {
			r.t.Message(message)
		}
		r.k.settle(message.Raw, false)
	case is == interrupted:
		r.t.End(r.at, event.RunResult{Status: spans.RunStatusCancelled, Word: "interrupted"})
	case isCompaction(r.t.Name):
	case r.True("isMeta"):
		if r.k.command == nil {
			r.t.Message(message)
		} else if len(r.k.command) < maxSides {
			message.Raw = bytes.Clone(message.Raw)
			r.k.command = append(r.k.command, message)
		}
	case is == slash && r.t.Name == "":
		r.k.settle(nil, false)
		r.text = bytes.Clone(r.text)
		r.Object = object.Of("", r.text)
		message.Raw = r.Raw("message")
		r.k.command = []event.Message{message}
		r.k.waits = func(_ []byte, replied bool) {
			messages := r.k.command
			if r.k.command = nil; replied {
				d.begin(r, prompt, messages...)
			} else {
				d.other(r)
			}
		}
	case noted && !r.t.Idle(), r.t.Name != "" && r.t.Run() != "":
		r.t.Message(message)
	default:
		d.begin(r, is, message)
	}
}

// begin begins a run with a prompt.
func (d *file) begin(r *row, trigger spans.Trigger, messages ...event.Message) {
	r.k.settle(nil, false)
	run := transcript.Run{At: r.at, Trigger: trigger}
	run.ID, run.ForkParentID = cmp.Or(r.String("promptId"), r.uuid), from(r.Object)
	run.Taken = run.ForkParentID != ""
	if owner, here := d.Met(transcript.RunPrefix + run.ID); owner == r.t.Session && here { // a second prompt of that id
		run.ID = r.uuid
	}
	if r.t.Name != "" {
		// the result of the call that it comes from names it, or its meta file names the call, or it has the call's prompt
		id, isLine := strings.CutPrefix(r.t.Name, inLine)
		path := strings.TrimSuffix(strings.TrimSuffix(d.Path, ".zst"), ".jsonl") + ".meta.json"
		meta, _ := object.Parse(d.Side(path))
		call, said := meta.String("toolUseId"), input.Texts(object.Of("", messages[0].Raw).Raw("content"))
		l := cmp.Or(d.Spawned(r.t.Session, id), d.Spawned(r.t.Session, callName+call),
			d.Spawned(r.t.Session, callName+filepath.Base(filepath.Dir(d.Path))), d.Spawned(r.t.Session, promptName+said))
		run.ID, run.ParentID, run.ParentToolCallID = id, l.Run, cmp.Or(l.Call, call)
		d.Spawn(r.t.Session, id, l)
		if isLine && l.Call != "" {
			d.Spawn(r.t.Session, sidePrefix+l.Call, transcript.Link{Run: r.t.Name})
		}
		run.Trigger = spans.TriggerSubAgent
		if kind := meta.String("agentType"); agents[kind] {
			run.Agent = kind
		} else if kind != "" {
			run.Metadata = input.Members("agentType", kind)
		}
	} else if above := r.Spelled("parentUuid"); above != nil { // null is above the first prompt
		if owner, _ := d.First(r.t.Session, belowName+r.t.Session+" "+string(above)); owner != "" {
			run.Continuation = spans.ContinuationBranch
		}
	}
	run.Config = input.Members(config[0], r.k.config[0], config[1], r.k.config[1], config[2], r.k.config[2])
	r.t.Begin(run)
	for _, m := range messages {
		r.t.Message(m)
	}
}

// agents are the types of sub-agents that come with the program. The name of any other is content.
var agents = map[string]bool{"general-purpose": true, "Explore": true, "Plan": true, "fork": true, "claude": true,
	"statusline-setup": true, "output-style-setup": true, "claude-code-guide": true, "workflow-subagent": true}

// assistant reads one record of a model call.
func (d *file) assistant(r *row) {
	m := r.Object.Object("message")
	if r.True("isApiErrorMessage") {
		r.t.Over(time.Time{}, event.RunResult{Status: spans.RunStatusError, Error: input.Texts(m.Raw("content"))})
	}
	if m == nil || m.String("model") == "<synthetic>" {
		d.other(r)
		return
	}
	id, stop := m.String("id"), m.String("stop_reason")
	usage := keys.Read(m.Object("usage"), spans.UsageRuleExcludesCache)
	if usage != nil {
		usage.LowerBound = stop == ""
	}
	if isCompaction(r.t.Name) {
		r.k.at, r.k.usage = r.at, transcript.Greatest(r.k.usage, usage)
		return
	}
	r.k.settle(nil, true)
	run := cmp.Or(strings.TrimPrefix(r.t.Name, inLine), r.uuid)
	provider := map[bool]string{true: "anthropic"}[strings.HasPrefix(id, "msg_01")] // ids of others begin otherwise
	var blocks [][]byte
	if text := m.Raw("content"); len(text) > 0 && text[0] == '"' {
		blocks = [][]byte{transcript.Block("text", text)}
	} else {
		blocks = m.List("content")
	}
	if !r.t.Call(transcript.Call{ID: id, At: r.at, Run: run, Blocks: blocks, TurnResult: event.TurnResult{
		ResponseID: id, Model: m.String("model"), StopReason: stop, Provider: provider, Usage: usage}}) {
		return
	}
	for _, b := range blocks {
		o := object.Of("", b)
		typ := o.String("type")
		if typ == "text" && stop == "" { // older versions state no reason: the run is over if nothing follows
			r.t.Over(time.Time{}, event.RunResult{})
		}
		if typ != "tool_use" {
			continue
		}
		call, args := o.String("id"), o.Raw("input")
		r.t.Tool(transcript.Tool{ToolCall: event.ToolCall{ID: call, Name: o.String("name"), Args: args}}, r.at)
		if text := object.Of("", args).String("prompt"); text != "" && call != "" {
			l := transcript.Link{Session: r.t.Session, Run: r.t.Run(), Call: call}
			d.Spawn(r.t.Session, callName+call, l)
			d.Spawn(r.t.Session, promptName+text, l)
		}
	}
}

var keys = event.UsageKeys{Input: "input_tokens", Output: "output_tokens", CacheRead: "cache_read_input_tokens",
	CacheWrite: "cache_creation_input_tokens"}

// denials are texts of results of calls that were not allowed, with the kind that newer versions state.
var denials = transcript.Refusals{
	{Text: regexp.MustCompile("^The user doesn't want to (proceed with this tool use|take this action right now)"),
		Source: "user-rejected"},
	{Text: regexp.MustCompile("^(Claude requested permissions to|Permission to use) |^This command requires approval|" +
		"^This Bash command contains multiple operations|^.* was blocked. For security, Claude Code may only"),
		Source: "permission-rule"},
	{Text: regexp.MustCompile(`^PreToolUse:\S+ hook error: |^Hook PreToolUse:\S+ denied`), Source: "hook"},
	{Text: regexp.MustCompile("^Permission for this action has been denied"), Source: "automode-blocked"},
}

// results reads the results of tools in a line, and reports whether it has any.
func (d *file) results(r *row, m *object.Object) (any bool) {
	blocks := m.Objects("content")
	list := m.List("content")
	whole := object.Of("", r.Raw("toolUseResult")) // nil of one that is a text
	for i, o := range blocks {
		if o.String("type") != "tool_result" {
			continue
		}
		any = true
		res := transcript.Result{CallID: o.String("tool_use_id"), At: r.at, Message: r.Raw("message")}
		if len(blocks) > 1 {
			res.Message = input.Members("role", "user", "content", input.Array(list[i:i+1]))
		}
		res.Result = o.Raw("content")
		text := input.Texts(res.Result)
		if path := whole.String("persistedOutputPath"); path != "" {
			if full := d.Side(path); full != nil {
				res.Result, res.Truncated = rawjson.Quote(nil, strings.ToValidUTF8(string(full), "\uFFFD")), new(true)
			}
		}
		if o.True("is_error") {
			res.Outcome, res.Error, res.Denied = spans.OutcomeError, text, denials.Find(text)
			switch kind := r.String("toolDenialKind"); {
			case kind == "interrupted", kind == "cancelled", strings.HasPrefix(text, "[Request interrupted"):
				res.Outcome, res.Denied = spans.OutcomeCancelled, nil
			case kind != "":
				res.Denied = &event.PermissionEvaluation{Source: spans.PermissionSource(kind), Reason: text}
			}
		}
		_, behind, _ := strings.Cut(text, "\nagentId: ")
		named, _, _ := strings.Cut(behind, " ")
		res.ChildRunID = cmp.Or(whole.String("agentId"), named)
		if name := d.Spawned(r.t.Session, sidePrefix+res.CallID).Run; name != "" && res.CallID != "" {
			t := d.Thread(r.t.Session, name)
			res.ChildRunID = cmp.Or(t.Run(), res.ChildRunID)
			t.End(time.Time{}, event.RunResult{})
		}
		if id := whole.String("runId"); id != "" { // a workflow: its sub-agents have that folder
			d.Spawn(r.t.Session, callName+id, transcript.Link{Session: r.t.Session, Run: r.t.Run(), Call: res.CallID})
		}
		res.Done = whole.String("status") == "completed"
		if !r.t.Result(res) {
			d.other(r)
		}
	}
	return any
}
