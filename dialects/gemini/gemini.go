// Package gemini reads the chats that Gemini CLI keeps and turns them into events of package otelagent: one JSON
// document a session (to 0.39), or a log of changes as JSON lines.
//
//	for ev, err := range gemini.Agent.NewDecoder().Events(file) { ... }
//
// A run begins with a message of the user that is no result of a tool, and each message of the model with tokens is a
// turn. In a log the appended messages alone are events: a list of messages that $set repeats adds nothing but a
// compaction, or that a prompt was taken back. dialects/README.md says what is inferred.
//
// # Limits
//
//   - A line, and a document as a whole: MaxLine bytes (64 MiB unless input.Settings set another number).
//   - Nesting of JSON: object.MaxDepth.
//   - Messages of a list: 65,536. Messages that a rewind reaches: the last 65,536 of a session.
//
// A *input.LineError reports what is beyond a limit. The Decoder holds one turn, and a document whole.
package gemini

import (
	"bytes"
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

const maxMessages = 1 << 16 // of a session that a rewind reaches

// Agent says where Gemini CLI keeps its chats: tmp/PROJECT/chats/session-TIME-ID.json and .jsonl below its folder, and
// the sub-agents of a session in a folder that has the session's id as its name.
var Agent = transcript.Agent{Dialect: "gemini-cli", Open: open, Env: "GEMINI_CLI_HOME", Below: []string{".gemini/tmp"},
	Home: []string{".gemini/tmp"}, Names: regexp.MustCompile(`(/chats/[^\n]*|session[^/]*)\.jsonl?$`),
	Recognise: Recognise, Head: headOf}

// parentOf returns the session that spawned the one of a chat: it has the name of the folder. It is empty without any.
func parentOf(path string) string {
	if folder := filepath.Dir(path); filepath.Base(filepath.Dir(folder)) == "chats" {
		return filepath.Base(folder)
	}
	return ""
}

func headOf(path string, _ []byte, o input.Outline) (h transcript.Head) {
	h.ID, h.Parent = o.Text("", "sessionId"), parentOf(path)
	h.Folder = filepath.Join(filepath.Dir(path), filepath.Base(h.ID))
	h.Started, _ = time.Parse(time.RFC3339Nano, o.Text("", "startTime"))
	return h
}

// open reads a chat. Stats.Lines counts lines; of a document messages.
func open(d *transcript.Decoder, f transcript.File) (input.Reader, func() error) {
	s := &session{d: d, parent: parentOf(f.Path)}
	return input.Reader{Line: d.Objects("", s.line), End: d.Finish, Document: s.document,
		IsDocument: func(o input.Outline) bool { return RecogniseDocument(o) != "" }}, nil
}

// session is the session of a file.
type session struct {
	*transcript.Thread // nil before its head

	d       *transcript.Decoder
	parent  string // the session that spawned it
	kind    []byte
	last    time.Time       // of all that was read
	before  time.Time       // that of all before the current message
	met     []string        // ids of prompts and replies, in order
	context []event.Message // injected before the next prompt
	reply   string          // id of the last one of the current run; empty before that
	failed  bool            // it has nothing
}

// line reads one line: the head of a session, a message, a change, or a rewind.
func (s *session) line(o *object.Object, _ []byte) string {
	if id := s.d.Settings.Session; s.Thread == nil && id != "" {
		s.Thread = s.d.Thread(id, "")
	}
	switch {
	case o.Has("sessionId") && !o.Has("id"):
		s.head(o)
	case s.Thread == nil:
		o.Fail("sessionId", "of no session: its head has to stand before")
	case o.Has("$rewindTo"):
		s.endRun()
		from := max(slices.Index(s.met, o.String("$rewindTo")), 0) // of one that is not known all messages are taken back
		for _, m := range s.met[from:] {
			s.d.Hide(s.Session, m, true, s.last)
		}
		s.met = s.met[:from]
		s.keep("gemini.rewind", o)
	case o.Has("$set"):
		if set := o.Object("$set"); set != nil {
			s.set(set)
		}
	default:
		s.message(o)
	}
	return ""
}

// document reads a session that is one document.
func (s *session) document(value []byte) {
	o := object.Of("", value)
	if s.head(o) {
		s.d.Counts.Events++
		for _, m := range o.Objects("messages") {
			s.d.Counts.Lines++
			if s.d.Seq = s.d.Counts.Lines; m != nil {
				s.d.Counts.Events++
				s.message(m)
			}
		}
	}
	s.d.RejectProblems("", o)
}

// head reads the head of a session, which is repeated where the session was resumed. It reports whether it is one.
func (s *session) head(o *object.Object) bool {
	id := o.String("sessionId")
	if id == "" {
		o.Fail("sessionId", "want a string that is not empty")
		return false
	}
	if s.Thread == nil || s.Session != id {
		s.d.Finish()
		*s = session{d: s.d, parent: s.parent, Thread: s.d.Thread(id, "")}
	}
	s.kind = bytes.Clone(o.Raw("kind"))
	s.see(o.Time("startTime"))
	s.facts(o)
	return true
}

// Recognise returns why a line, which may be cut, is the head of a session; empty when it is not.
func Recognise(o input.Outline) (why string) {
	if o.First("", "sessionId") == '"' && o.First("", "projectHash") == '"' {
		return "lines with sessionId and projectHash"
	}
	return ""
}

// RecogniseDocument returns why an input is a session as one document; empty when it is not.
func RecogniseDocument(o input.Outline) (why string) {
	if Recognise(o) != "" && o.First("", "messages") == '[' {
		return "an object with sessionId, projectHash and messages"
	}
	return ""
}

// see notes a time and returns it; the latest one for the zero time.
func (s *session) see(t time.Time) time.Time {
	s.last = input.Later(s.last, t)
	return cmp.Or(t, s.last)
}

// facts states what a head or a change says of the session.
func (s *session) facts(o *object.Object) {
	s.see(o.Time("lastUpdated"))
	o.Use("sessionId", "projectHash", "startTime", "kind", "messages")
	for _, key := range []string{"summary", "directories"} {
		s.d.Fact(s.Session, key, o.Raw(key), s.last)
	}
	s.keep("gemini.session", o)
}

// keep keeps the members of a record that were not read.
func (s *session) keep(typ string, o *object.Object) {
	if rest := o.Rest(); rest != nil {
		s.Other(typ, rest, s.last)
	}
}

// message reads a message that was appended.
func (s *session) message(o *object.Object) {
	s.before = s.last
	id, typ, at := o.String("id"), o.String("type"), s.see(o.Time("timestamp"))
	content := o.Raw("content")
	switch typ {
	case "user":
		o.Use("displayContent")
		s.user(id, at, content)
		s.keep("user.unknown_keys", o)
	case "gemini":
		s.replied(id, at, content, o)
		s.keep("gemini.unknown_keys", o)
	default:
		switch said := input.Texts(content); {
		case typ == "error":
			s.Over(time.Time{}, event.RunResult{Status: spans.RunStatusError, Error: said})
		case typ == "info" && strings.HasPrefix(said, "Request cancelled"):
			s.Over(time.Time{}, cancelled)
		}
		o.Keep(o.Keys()...)
		s.Other("gemini."+cmp.Or(typ, "record"), o.Rest(), at)
	}
}

var cancelled = event.RunResult{Status: spans.RunStatusCancelled}

const (
	injected = "<session_context>"
	snapshot = "<state_snapshot>"
	refused  = "refused " // before the ids of calls, where the Decoder remembers them
)

// user reads a message of the user: a prompt, which begins a run, results of tools, or what Gemini CLI injects.
func (s *session) user(id string, at time.Time, content []byte) {
	said, results := input.Texts(content), false
	for _, p := range parts(content) {
		r := p.Object("functionResponse")
		if results = results || r != nil; r != nil && s.reply != "" && !s.Knows(r.String("id")) {
			s.d.First(s.Session, refused+r.String("id")) // its arguments are not known
			s.Tool(s.tool(r, at), at)
		}
	}
	switch {
	case strings.HasPrefix(said, snapshot):
		s.compact(id, at, said)
		return
	case strings.HasPrefix(said, injected):
		s.inject(id, at, content)
		return
	case id != "" && id == s.Run(), results && said == "":
		return
	case !results:
		s.endRun()
		s.Parent = s.parent
		if s.Begin(transcript.Run{RunInfo: event.RunInfo{ID: id, Config: input.Members("kind", s.kind)}, At: at,
			Trigger: spans.TriggerUser}) {
			s.met = append(s.met[max(0, len(s.met)+1-maxMessages):], id)
		}
	}
	s.inject(id, at, content)
	for _, m := range s.context {
		s.Message(m)
	}
	s.context = nil
}

// inject keeps what Gemini CLI puts before the next prompt.
func (s *session) inject(id string, at time.Time, content []byte) {
	raw := input.Members("id", id, "role", "user", "content", input.Array(blocks(content)))
	m := event.Message{Raw: raw, Role: "user", Time: at}
	s.context = append(s.context[max(0, len(s.context)+1-maxMessages):], m)
}

// endRun ends the current run, if there is one.
func (s *session) endRun() {
	s.Cut()
	s.reply = ""
}

// replied reads a message of the model, which is repeated when it has grown. One that has nothing but calls of tools
// and no tokens belongs to the reply before it. One that is repeated after the next reply says nothing new.
func (s *session) replied(id string, at time.Time, content []byte, o *object.Object) {
	if owner, _ := s.d.Met(id); owner == s.Session && id != s.reply {
		return
	}
	calls, said := o.Objects("toolCalls"), blocks(content)
	call := transcript.Call{At: at, Start: event.Bound(s.before), TurnResult: event.TurnResult{Model: o.String("model"),
		Usage: usageOf(o.Object("tokens"))}}
	speaks := len(said) > 0
	for i, t := range o.Objects("thoughts") {
		thought := t.String("description")
		if subject := t.String("subject"); subject != "" {
			thought = "**" + subject + "** " + thought
		}
		said = slices.Insert(said, i, transcript.Block("thinking", thought))
	}
	empty := call.Usage == nil && len(said) == 0
	if !empty || len(calls) == 0 || s.reply == "" || s.reply == id {
		if id == "" || id != s.reply {
			s.reply, s.failed = id, true
			s.met = append(s.met[max(0, len(s.met)+1-maxMessages):], id)
		}
		if s.failed = s.failed && empty && len(calls) == 0; !s.failed {
			call.Said = append([][]byte{}, said...)
		}
	}
	for _, c := range calls {
		t := s.tool(c, at)
		t.Block = input.Members("type", "tool_use", "id", c.Raw("id"), "name", c.Raw("name"), "input", t.Args)
		call.Tools = append(call.Tools, t)
	}
	if call.ID, call.ResponseID, call.Failed = s.reply, s.reply, s.failed; !s.Call(call) {
		return
	}
	switch {
	case s.failed:
		s.Over(time.Time{}, event.RunResult{Status: spans.RunStatusError})
	case speaks && s.Idle():
		s.Over(time.Time{}, event.RunResult{})
	}
	for _, t := range call.Tools {
		switch r := t.Result; {
		case r == nil:
		case r.Outcome == spans.OutcomeCancelled:
			s.Over(time.Time{}, cancelled)
		case r.Outcome == "" && t.Name == "complete_task" && s.parent != "":
			s.Over(time.Time{}, event.RunResult{})
		}
	}
}

// outcomes are those of calls that have ended, by their status.
var outcomes = map[string]spans.Outcome{"success": "", "error": spans.OutcomeError,
	"cancelled": spans.OutcomeCancelled}

// refusals are texts of errors that say who refused a call, or that the run was stopped.
var refusals = transcript.Refusals{
	{Text: regexp.MustCompile(`(?i)denied by policy`), Source: "permission-rule"},
	{Text: regexp.MustCompile(`(?i)canceled by the user|user denied|denied execution|did not allow|declined|rejected`),
		Source: "user-rejected"},
}

// tool reads a call of a tool as it was last seen, or the result that a message of the user has of one that was
// refused. The result is {output}, {error}, or any other value.
func (s *session) tool(c *object.Object, at time.Time) (t transcript.Tool) {
	t.ID, t.Name, t.Args, t.Start = c.String("id"), c.String("name"), c.Raw("args"), event.Bound(at)
	r := &transcript.Result{CallID: t.ID, Name: t.Name, At: s.see(input.Later(at, c.Time("timestamp")))}
	if child := c.String("agentId"); child != s.Session {
		r.ChildSessionID = child
	}
	ended := false
	if r.Outcome, ended = outcomes[c.String("status")]; !ended && !c.Has("response") { // it runs, or waits
		return t
	}
	t.Result = r
	if list := parts(c.Raw("result")); len(list) == 1 && list[0].Has("functionResponse") {
		c = list[0].Object("functionResponse")
	}
	if r.ToolResult.Result = c.Raw("response"); r.ToolResult.Result == nil {
		r.ToolResult.Result = c.Raw("result")
	}
	o := object.Of("", r.ToolResult.Result)
	if failure := o.Raw("error"); failure != nil {
		r.ToolResult.Result, r.Error = failure, input.Texts(failure)
		r.Outcome = cmp.Or(r.Outcome, spans.OutcomeError)
	} else if output := o.Raw("output"); output != nil {
		r.ToolResult.Result = output
	}
	if r.Outcome != "" {
		r.Denied = refusals.Find(r.Error)
	}
	return t
}

// set reads a change of the session. A list of messages repeats the history, after a compaction, or after it took
// back a prompt that has no reply.
func (s *session) set(o *object.Object) {
	s.see(o.Time("lastUpdated"))
	list := o.Objects("messages")
	compacted, run := false, s.Run()
	here := run == "" || s.reply != "" || list == nil
	for _, m := range list {
		id, said := m.String("id"), ""
		here = here || id == run
		if m.String("type") == "user" {
			said = input.Texts(m.Raw("content"))
		}
		for _, p := range parts(m.Raw("content")) {
			c := p.Object("functionCall")
			call := c.String("id")
			if owner, _ := s.d.Met(refused + call); owner != "" {
				s.d.FactOf(s.Session, "tool_call/"+call, "arguments", c.Raw("args"), s.last)
			}
		}
		switch at := m.Time("timestamp"); {
		case strings.HasPrefix(said, snapshot):
			compacted = true
			s.compact(id, s.see(at), said)
		case strings.HasPrefix(said, injected):
			if owner, _ := s.d.First(s.Session, "context "+said); owner == "" {
				s.inject(id, at, m.Raw("content"))
			}
		}
	}
	if !here && !compacted {
		s.End(s.last, cancelled)
		s.reply = ""
	}
	s.facts(o)
}

// compact reports a compaction, of which the summary is known, once.
func (s *session) compact(id string, at time.Time, said string) {
	if owner, _ := s.d.First(s.Session, "compaction "+said); owner != "" {
		return
	}
	if s.Done() {
		s.endRun()
	}
	s.Compact(id, at, event.Compaction{Kind: spans.CompactionKindSummary}, event.CompactionResult{Applied: new(true),
		Summary: rawjson.Quote(nil, said)})
}

// parts returns the parts of a content that is one, or an array of them.
func parts(content []byte) (list []*object.Object) {
	if len(content) > 0 && content[0] == '{' {
		content = input.Array([][]byte{content})
	}
	list = object.Of("", input.Members("parts", content)).Objects("parts")
	return slices.DeleteFunc(list, func(o *object.Object) bool { return o == nil })
}

// blocks returns the blocks of a content, which is a text, a part, or an array of parts. It omits calls and results,
// which are elsewhere.
func blocks(content []byte) (list [][]byte) {
	if len(content) > len(`""`) && content[0] == '"' {
		return [][]byte{transcript.Block("text", content)}
	}
	for _, p := range parts(content) {
		kind, data := "file", cmp.Or(p.Object("inlineData"), p.Object("fileData"))
		if strings.HasPrefix(data.String("mimeType"), "image/") {
			kind = "image"
		}
		switch {
		case p.Has("functionCall"), p.Has("functionResponse"):
		case p.Has("text") && p.True("thought"):
			list = append(list, transcript.Block("thinking", p.Raw("text")))
		case p.Has("text"):
			list = append(list, transcript.Block("text", p.Raw("text")))
		case data != nil:
			list = append(list, input.Members("type", kind, "mimeType", data.Raw("mimeType"), "data", data.Raw("data"), "url",
				data.Raw("fileUri")))
		default:
			p.Keep(p.Keys()...)
			list = append(list, p.Rest())
		}
	}
	return list
}

// usageOf returns the tokens of a reply: cached ones are input, thoughts are no output. They are nil when all are zero:
// the reply failed, or they are elsewhere. Prompts of tools of the model come on top of the input where the total has
// them.
func usageOf(o *object.Object) *event.Usage {
	keys := event.UsageKeys{Input: "input", Output: "output", Reasoning: "thoughts", CacheRead: "cached", Total: "total"}
	u, tool := transcript.Counted(keys.Read(o, spans.UsageRuleExcludesReasoning)), o.Count("tool")
	if u != nil && tool != nil && u.Total == u.Input+u.Output+u.Reasoning+*tool {
		u.Input += *tool
	}
	return u
}
