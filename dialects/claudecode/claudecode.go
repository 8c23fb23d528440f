// Package claudecode reads the transcripts of Claude Code: the files SESSION.jsonl below ~/.claude/projects, those of
// its sub-agents, and large outputs of tools. The format is internal to that program and changes; dialects/README.md
// says what is inferred and what is lost.
//
//	for _, family := range families {
//		for ev, err := range family.Events(claudecode.NewDecoder()) { ... }
//	}
//
// where families comes from [transcript.Find] and [Layout]. A single file is read with Events, as that of any dialect.
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

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "claude-code"

// maxSides is how many sub-agents in line, compactions and titles of a file are remembered.
const maxSides = 4096

// family is what the files of a session, of its sub-agents and of its forks share.
type family struct {
	*transcript.Emitter
	talks map[*transcript.Thread]*talk  // what is known of a thread
	sides map[string]*transcript.Thread // threads of sub-agents in line, by their lines
	calls map[string]*transcript.Thread // and by the call that spawned them
	side  *transcript.Thread            // the last one
	below map[string]bool               // lines below which a prompt stands
	rank  map[string]int                // of the title of a session
}

// file is one of them.
type file struct {
	*family
	transcript.File
	session string
	agent   string            // the sub-agent whose file it is
	titles  map[string][]byte // of the history that ends with a line
}

// NewDecoder returns a Decoder of the files of a family. An input without a name is of the session that its lines name.
func NewDecoder(opts ...input.Option) *transcript.Decoder {
	return transcript.NewDecoder(Dialect, opts, func(e *transcript.Emitter) transcript.Format {
		d := &family{Emitter: e, talks: map[*transcript.Thread]*talk{}, sides: map[string]*transcript.Thread{},
			calls: map[string]*transcript.Thread{}, below: map[string]bool{}, rank: map[string]int{}}
		return func(f transcript.File) transcript.Reader {
			d := &file{family: d, File: f, session: cmp.Or(f.ID, e.Settings.Session), titles: map[string][]byte{}}
			if agent, ok := strings.CutPrefix(f.ID, agentPrefix); ok {
				d.session, d.agent, _ = strings.Cut(agent, " ")
			}
			return transcript.Reader{Reader: input.Reader{Line: e.Objects("type!", d.line), End: d.end}}
		}
	})
}

// end reports what the end of a file shows.
func (d *file) end() {
	for t, k := range d.talks {
		k.endCompaction(nil)
		if t.Name != "" && d.Spawned(t.Session, t.Run()).Done {
			t.Over(time.Time{}, event.RunResult{})
		}
	}
	d.Finish()
}

// Ids of lines and sub-agents are remembered under names of their own: a prompt's line is also its run.
const linePrefix, agentPrefix = "line ", "agent "

// Layout is where Claude Code keeps its sessions.
var Layout = transcript.Layout{Dialect: Dialect, Env: "CLAUDE_CONFIG_DIR", Below: []string{"projects"},
	Home: []string{".claude/projects", ".config/claude/projects",
		"Library/Application Support/Claude/local-agent-mode-sessions",
		"Library/Developer/Xcode/CodingAssistant/ClaudeAgentConfig/projects"},
	Names: regexp.MustCompile(`\.jsonl(\.zst)?$`), Head: headOf, NextTo: "agent-*.jsonl*"}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// headOf finds the session in the name of a file or in its lines, and what it has in common with others: the first line
// of a history, and the session from which it was forked.
func headOf(path string, head []byte) (h transcript.Head) {
	session := ""
	for line := range bytes.Lines(head) {
		o, err := object.Parse(bytes.TrimSpace(line))
		if err != nil {
			continue
		}
		if session == "" && known(o.String("type")) {
			session = o.String("sessionId")
		}
		at := transcript.Time(o.Raw("timestamp"))
		if at.IsZero() || o.String("uuid") == "" {
			continue
		}
		h.Started, h.Parent = at, from(o)
		if !o.Has("parentUuid") {
			h.Keys = []string{linePrefix + o.String("uuid")}
		}
		break
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
	h.Part = true
	if h.ID, h.Keys = agentPrefix+session+" "+agent, []string{session}; isCompaction(agent) {
		h.Started, h.Parent = time.Time{}, "" // read before the session, whose compaction takes its tokens
	} else {
		h.Parent = session
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

// Recognise returns why a line, which may be cut, is one of Claude Code; empty when it is none.
func Recognise(o input.Outline) (why string) {
	switch kind := o.Text("", "type"); {
	case known(kind) && o.Has("", "sessionId") && !o.Has("", "projectHash"),
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

// kinds are the lines that have a meaning here, by type and subtype; all others are kept as they are. A nil one is
// known and adds nothing.
var kinds = map[string]func(*file, *row){
	"user":                         (*file).user,
	"assistant":                    (*file).assistant,
	"attachment":                   (*file).other,
	"attachment.queued_command":    (*file).queued,
	"progress":                     (*file).progress,
	"progress.agent_progress":      nil, // repeats the lines of a sub-agent
	"file-history-snapshot":        nil,
	"last-prompt":                  nil, // repeats a prompt
	"queue-operation":              (*file).other,
	"permission-mode":              nil, // state reads it
	"mode":                         (*file).other,
	"summary":                      (*file).summary,
	"custom-title":                 titled("customTitle", 3),
	"ai-title":                     titled("aiTitle", 2),
	"agent-name":                   stated("agentName", "agent_name"),
	"pr-link":                      stated("prUrl", "pr"),
	"system":                       (*file).other,
	"system.compact_boundary":      (*file).boundary,
	"system.microcompact_boundary": (*file).microcompact,
	"system.api_error":             (*file).retried,
	"system.turn_duration":         func(d *file, r *row) { r.t.End(r.at, event.RunResult{}) },
	"system.stop_hook_summary":     func(d *file, r *row) { d.other(r); r.t.Over(time.Time{}, event.RunResult{}) },
}

// known reports whether lines of that type are of Claude Code.
func known(kind string) bool { _, ok := kinds[kind]; return ok }

// line reads one line.
func (d *file) line(o *object.Object, text []byte) string {
	typ := o.String("type")
	r := &row{Object: o, text: text, kind: typ, uuid: o.String("uuid"), at: transcript.Time(o.Raw("timestamp"))}
	d.place(r)
	if r.uuid != "" {
		met, _ := d.First(r.t.Session, linePrefix+r.uuid)
		said := typ == "user" || typ == "assistant"
		if met == transcript.Repeated || met == transcript.Again && (said || uuid.MatchString(r.uuid)) {
			return ""
		}
	}
	for _, sub := range []string{o.String("subtype"), sub(o, "data"), sub(o, "attachment")} {
		if sub != "" {
			r.kind += "." + sub
			break
		}
	}
	d.state(r)
	read, ok := kinds[r.kind]
	if !ok {
		read, ok = kinds[typ]
	}
	switch {
	case !ok:
		d.other(r)
	case read != nil:
		read(d, r)
	}
	d.title(d.titles[r.uuid], 1, time.Time{})
	return typ
}

// sub returns the type of a part of a line.
func sub(o *object.Object, key string) string {
	if v := o.Raw(key); len(v) > 0 && v[0] == '{' {
		return object.Of("", v).String("type")
	}
	return ""
}

// place finds the session and the thread of a line: a sub-agent's by its id; in line, by the line above it.
func (d *file) place(r *row) {
	id, above := r.String("sessionId"), r.String("parentUuid")
	if id != "" && (d.session == "" || d.Path == "" && r.kind == "user" && above == "" && id != d.session) {
		d.session = id
	}
	agent, side := cmp.Or(r.String("agentId"), d.agent), r.Bool("isSidechain")
	switch {
	case agent != "" && (r.kind == "user" || r.kind == "assistant" || side != nil):
		r.t = d.Thread(d.session, agent)
	case side != nil && *side:
		if r.t = d.sides[above]; r.t == nil && above == "" && r.kind == "user" || r.t == nil && d.side == nil {
			if len(d.sides) > 16*maxSides {
				clear(d.sides)
			}
			r.t = d.Thread(d.session, "in line "+r.uuid)
		} else if r.t == nil {
			r.t = d.side
		}
		d.sides[r.uuid], d.side = r.t, r.t
	default:
		r.t = d.Thread(d.session, "")
	}
	if r.k = d.talks[r.t]; r.k == nil {
		if len(d.talks) > maxSides {
			clear(d.talks)
		}
		r.k = &talk{}
		d.talks[r.t] = r.k
	}
}

// state keeps what the envelope of a line says, and states what is a fact of the session.
func (d *file) state(r *row) {
	for _, c := range []struct {
		key, fact string
		to        *string
	}{{"permissionMode", "", &r.k.mode}, {"version", "", &r.k.version}, {"effort", "", &r.k.effort},
		{"cwd", "cwd", &r.k.cwd}, {"gitBranch", "git_branch", &r.k.branch}} {
		v := r.Raw(c.key)
		if len(v) == 0 || v[0] != '"' || string(v) == *c.to {
			continue
		}
		if *c.to = string(v); c.fact != "" && r.t.Name == "" && r.uuid != "" {
			d.Fact(r.t.Session, c.fact, v, r.at)
		}
	}
}

// other keeps a line as it is.
func (d *file) other(r *row) { r.t.Other(Dialect+"."+r.kind, r.text, r.at) }

// stated makes a fact of a member.
func stated(key, fact string) func(*file, *row) {
	return func(d *file, r *row) { d.Fact(r.t.Session, fact, r.Raw(key), r.at) }
}

// titled makes the title of a member. Of the titles of a session the one of the highest rank counts, then the last.
func titled(key string, rank int) func(*file, *row) {
	return func(d *file, r *row) { d.title(r.Raw(key), rank, r.at) }
}

func (d *file) title(text []byte, rank int, at time.Time) {
	if text != nil && rank >= d.rank[d.session] {
		d.rank[d.session] = rank
		d.Fact(d.session, "title", text, at)
	}
}

// summary keeps the title of the history that ends with a line until that is read: files may also hold those of earlier
// sessions.
func (d *file) summary(r *row) {
	leaf, text := r.String("leafUuid"), r.Raw("summary")
	if met, _ := d.Met(d.session, linePrefix+leaf); met == transcript.Again || met == transcript.Repeated {
		d.title(text, 1, time.Time{})
	} else if leaf != "" && len(d.titles) < maxSides {
		d.titles[leaf] = bytes.Clone(text)
	}
}

// progress reports what a tool or hook says while it runs.
func (d *file) progress(r *row) {
	r.t.Progress(r.String("parentToolUseID"), Dialect+"."+r.kind, r.Raw("data"), r.at)
}

// queued reads a prompt or notice that waited in the queue: it steers the run, or begins one where none is at work.
func (d *file) queued(r *row) {
	a := r.Object.Object("attachment")
	content := a.Raw("prompt")
	if content == nil {
		d.other(r)
		return
	}
	m := event.Message{Raw: input.Members("role", "user", "content", content), Role: "user", Time: r.at}
	if text := transcript.Text(content); r.t.Idle() && classify(text) != prompt {
		d.begin(r, triggers[classify(text)], m)
		return
	}
	r.t.Message(m)
}

// boundary begins a compaction: its summary is the next message.
func (d *file) boundary(r *row) {
	r.k.endCompaction(nil)
	meta := r.Object.Object("compactMetadata")
	c := event.Compaction{Kind: spans.CompactionKindSummary, Trigger: meta.String("trigger"),
		InputTokens: meta.Count("preTokens")}
	res := event.CompactionResult{OutputTokens: meta.Count("postTokens"), Usage: d.claim(r.t.Session, r.at)}
	r.k.compaction = func(summary []byte) {
		res.Summary = summary
		r.t.Compact(r.uuid, r.at, c, res)
	}
}

// endCompaction reports the compaction that waits for its summary.
func (k *talk) endCompaction(summary []byte) {
	if end := k.compaction; end != nil {
		k.compaction = nil
		end(summary)
	}
}

// microcompact reports that results of tools were dropped.
func (d *file) microcompact(r *row) {
	meta := r.Object.Object("microcompactMetadata")
	r.t.Compact(r.uuid, r.at, event.Compaction{Kind: spans.CompactionKindPrune, Trigger: meta.String("trigger"),
		InputTokens: meta.Count("preTokens")}, event.CompactionResult{TokensGone: meta.Count("tokensSaved")})
}

// retried reports a call that failed and is repeated. Its record is kept, as no other call may follow.
func (d *file) retried(r *row) {
	d.other(r)
	r.t.Discard(event.DiscardedAttempt{At: event.Moment{Time: r.at}, Reason: "api_error", Error: string(r.Raw("error"))})
}

// talk is what is known of a thread.
type talk struct {
	mode, version, effort, cwd, branch string // as JSON

	command    *command     // a slash command that may be a prompt
	compaction func([]byte) // ends the one whose summary may follow

	summed string // the model call of a compaction, which has a file of its own
	at     time.Time
	usage  *event.Usage
}

// command is a slash command, which is a prompt if a reply follows, and what it adds to the context.
type command struct {
	row      row
	messages []event.Message
}

// What a user's line is, if it holds no result.
const (
	prompt = iota
	command_
	notice
	teammate
	interrupted
	local
	summary
)

// beginnings say what a user's line is by how its text begins.
var beginnings = []struct {
	text string
	is   int
}{
	{"[Request interrupted", interrupted}, {"<command-message>", command_}, {"<command-name>", command_},
	{"<task-notification>", notice}, {"<teammate-message", teammate}, {"<local-command-", local}, {"<bash-", local},
	{"Caveat: The messages below were generated by the user while running local commands", local},
	{"This session is being continued", summary},
}

// triggers are what runs begin with that no person began.
var triggers = map[int]spans.Trigger{prompt: spans.TriggerUser, command_: spans.TriggerUser,
	notice: "notification", teammate: "teammate"}

func classify(text string) int {
	text = strings.TrimLeft(text, " \n\t")
	for _, b := range beginnings {
		if strings.HasPrefix(text, b.text) {
			return b.is
		}
	}
	return prompt
}

// user reads a line of the user's side: results of tools, a prompt, or something else that was put there.
func (d *file) user(r *row) {
	m := r.Object.Object("message")
	content := m.Raw("content")
	if len(content) > 0 && content[0] == '[' && d.results(r, m) {
		return
	}
	is := classify(transcript.Text(content))
	message := event.Message{Raw: r.Raw("message"), Role: "user", Time: r.at}
	switch {
	case message.Raw == nil:
		d.other(r)
	case transcript.True(r.Object, "isCompactSummary") || is == summary:
		if r.k.compaction == nil {
			r.t.Message(message)
		}
		r.k.endCompaction(message.Raw)
	case is == interrupted:
		r.t.End(r.at, event.RunResult{Status: spans.RunStatusCancelled, Word: "interrupted"})
	case is == local:
		d.dropCommand(r.k)
		d.other(r)
	case isCompaction(r.t.Name):
	case transcript.True(r.Object, "isMeta"):
		if r.k.command != nil {
			message.Raw = bytes.Clone(message.Raw)
			r.k.command.messages = append(r.k.command.messages, message)
			return
		}
		r.t.Message(message)
	case is == command_ && r.t.Name == "":
		d.dropCommand(r.k)
		message.Raw = bytes.Clone(message.Raw)
		r.k.command = &command{row: *r, messages: []event.Message{message}}
		r.k.command.row.text = bytes.Clone(r.text)
	case (is == notice || is == teammate) && !r.t.Idle(), r.t.Name != "" && r.t.Run() != "":
		r.t.Message(message)
	default:
		d.begin(r, triggers[is], message)
	}
}

// begin begins a run with a prompt.
func (d *file) begin(r *row, trigger spans.Trigger, messages ...event.Message) {
	r.k.endCompaction(nil)
	d.dropCommand(r.k)
	run := transcript.Run{At: r.at, Trigger: trigger, From: from(r.Object)}
	run.ID, run.Agent = cmp.Or(r.String("promptId"), r.uuid), Dialect
	if met, _ := d.Met(r.t.Session, transcript.RunPrefix+run.ID); met == transcript.Again { // a second prompt of that id
		run.ID = r.uuid
	}
	if r.t.Name != "" {
		run.Trigger = spans.TriggerSubAgent
		d.spawned(r, &run, transcript.Text(object.Of("", messages[0].Raw).Raw("content")))
	} else if above := r.String("parentUuid"); above != "" {
		key := r.t.Session + " " + above
		if d.below[key] {
			run.Continuation = spans.ContinuationBranch
		} else if len(d.below) < 16*maxSides {
			d.below[key] = true
		}
	}
	run.Config = input.Members("permissionMode", []byte(r.k.mode), "version", []byte(r.k.version),
		"effort", []byte(r.k.effort))
	r.t.Begin(run)
	for _, m := range messages {
		r.t.Message(m)
	}
}

// agents are the types of sub-agents that come with the program. The name of any other is content.
var agents = map[string]bool{"general-purpose": true, "Explore": true, "Plan": true, "fork": true,
	"statusline-setup": true, "output-style-setup": true, "claude-code-guide": true}

// spawned says of the run of a sub-agent which call it comes from: the result of that names it, or its meta file names
// the call, or it has the call's prompt.
func (d *file) spawned(r *row, run *transcript.Run, text string) {
	id, inLine := strings.CutPrefix(r.t.Name, "in line ")
	run.ID = id
	var meta *object.Object
	if !inLine && d.Folder != "" {
		path := strings.TrimSuffix(strings.TrimSuffix(d.Path, ".zst"), ".jsonl") + ".meta.json"
		if side := d.Side(path); rawjson.Valid(side, object.MaxDepth) == nil {
			meta = object.Of("", side)
		}
	}
	call := meta.String("toolUseId")
	l := d.Spawned(r.t.Session, id)
	for _, name := range []string{callName + call, promptName + text} {
		if l == (transcript.Link{}) && len(name) > len(promptName) {
			l = d.Spawned(r.t.Session, name)
		}
	}
	run.ParentID, run.ParentToolCallID = l.Run, cmp.Or(l.Call, call)
	d.Spawn(r.t.Session, id, l)
	if inLine && l.Call != "" && len(d.calls) < maxSides {
		d.calls[l.Call] = r.t
	}
	if kind := meta.String("agentType"); agents[kind] {
		run.Agent = kind
	} else if kind != "" {
		run.Metadata = input.Members("agentType", kind)
	}
}

// Names under which the calls that may spawn sub-agents are remembered.
const callName, promptName = "call ", "said "

// dropCommand keeps a command to which nobody replied as it is.
func (d *file) dropCommand(k *talk) {
	if c := k.command; c != nil {
		k.command = nil
		d.other(&c.row)
	}
}

// assistant reads one record of a model call.
func (d *file) assistant(r *row) {
	m := r.Object.Object("message")
	if transcript.True(r.Object, "isApiErrorMessage") {
		r.t.Over(time.Time{}, event.RunResult{Status: spans.RunStatusError, Error: transcript.Text(m.Raw("content"))})
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
		d.sum(r, id, usage)
		return
	}
	r.k.endCompaction(nil)
	if c := r.k.command; c != nil {
		r.k.command = nil
		d.begin(&c.row, spans.TriggerUser, c.messages...)
	}
	run := r.uuid
	if r.t.Name != "" {
		run = strings.TrimPrefix(r.t.Name, "in line ")
	}
	provider := ""
	if strings.HasPrefix(id, "msg_01") { // ids of other providers begin otherwise
		provider = "anthropic"
	}
	var blocks [][]byte
	if text := m.Raw("content"); len(text) > 0 && text[0] == '"' {
		blocks = [][]byte{transcript.Block("text", text)}
	} else {
		blocks = m.List("content")
	}
	if !r.t.Call(transcript.Call{ID: id, At: r.at, Run: run, Blocks: blocks, TurnResult: event.TurnResult{
		Model: m.String("model"), StopReason: stop, Provider: provider, Usage: usage}}) {
		return
	}
	for _, b := range blocks {
		o := object.Of("", b)
		if o.String("type") != "tool_use" {
			continue
		}
		call, args := o.String("id"), o.Raw("input")
		r.t.Tool(event.ToolCall{ID: call, Name: o.String("name"), Args: args}, r.at)
		if text := object.Of("", args).String("prompt"); text != "" {
			l := transcript.Link{Session: r.t.Session, Run: r.t.Run(), Call: call}
			d.Spawn(r.t.Session, callName+call, l)
			d.Spawn(r.t.Session, promptName+text, l)
		}
	}
}

var keys = input.UsageKeys{Input: "input_tokens", Output: "output_tokens", CacheRead: "cache_read_input_tokens",
	CacheWrite: "cache_creation_input_tokens"}

// denials are texts of results of calls that were not allowed, with the kind that newer versions state.
var denials = transcript.Refusals{
	{Text: regexp.MustCompile("^The user doesn't want to proceed with this tool use"), Source: "user-rejected"},
	{Text: regexp.MustCompile("^(Claude requested permissions to|Permission to use) "), Source: "permission-rule"},
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
		text := transcript.Text(res.Result)
		if path := whole.String("persistedOutputPath"); path != "" {
			if full := d.Side(path); full != nil {
				res.Result, res.Truncated = rawjson.Quote(nil, strings.ToValidUTF8(string(full), "\uFFFD")), new(true)
			}
		}
		if transcript.True(o, "is_error") {
			res.Outcome, res.Error, res.Denied = spans.OutcomeError, text, denials.Find(text)
			if kind := r.String("toolDenialKind"); kind != "" {
				res.Denied = &event.PermissionEvaluation{Source: spans.PermissionSource(kind), Reason: text}
			}
		}
		res.ChildRunID = whole.String("agentId")
		if res.ChildRunID == "" {
			_, behind, _ := strings.Cut(text, "\nagentId: ")
			res.ChildRunID, _, _ = strings.Cut(behind, " ")
		}
		if t := d.calls[res.CallID]; t != nil && res.CallID != "" {
			res.ChildRunID = cmp.Or(t.Run(), res.ChildRunID)
			t.End(time.Time{}, event.RunResult{})
		}
		res.Done = whole.String("status") == "completed"
		if !r.t.Result(res) {
			d.other(r)
		}
	}
	return any
}

// sum adds up the records of a call of a compaction.
func (d *file) sum(r *row, id string, u *event.Usage) {
	k := r.k
	if met, _ := d.First(r.t.Session, id); met == transcript.New {
		k.summed, k.at, k.usage = id, r.at, u
	} else if met == transcript.Again && k.summed == id {
		k.at, k.usage = r.at, transcript.Greatest(k.usage, u)
	}
}

// claim returns the usage of the compaction that ended at a time: of the calls of its session the last one before.
func (d *file) claim(session string, at time.Time) *event.Usage {
	last := &talk{}
	for t, k := range d.talks {
		if t.Session == session && k.summed != "" && !k.at.After(at.Add(time.Second)) && k.at.After(last.at) {
			last = k
		}
	}
	last.summed = ""
	return last.usage
}
