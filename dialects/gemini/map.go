package gemini

import (
	"cmp"
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

// session is the session of a file.
type session struct {
	*transcript.Thread // nil before its head

	e       *transcript.Emitter
	parent  string // the session that spawned it
	kind    []byte
	last    time.Time // of all that was read
	before  time.Time // that of all before the message at hand
	begun   bool
	known   map[string][]byte // facts that wait for a run
	context []event.Message   // injected before the next prompt
	met     []string          // ids of prompts and replies, in order
	turn    turn
	refused map[string]bool // calls of which the arguments are not known
	// stopped and failing say that the run at hand was cancelled, or had an error.
	stopped, failing bool
}

// turn is the last reply of the run at hand; its id is empty before the first one.
type turn struct {
	id         string
	said, uses [][]byte        // blocks of the reply
	calls      map[string]bool // of tools, by id
	speaks     bool            // it has a text
	failed     bool            // it has nothing
	halted     bool            // the last call was cancelled
	final      bool            // a tool ended the sub-agent
}

// see notes a time and returns it; the latest one for the zero time.
func (s *session) see(t time.Time) time.Time {
	s.last = transcript.Later(s.last, t)
	if t.IsZero() {
		return s.last
	}
	return t
}

// facts states what a head or a change says of the session, as soon as that has a run.
func (s *session) facts(o *object.Object) {
	s.see(o.Time("lastUpdated"))
	o.Use("sessionId", "projectHash", "startTime", "kind", "messages")
	if s.known == nil {
		s.known = map[string][]byte{}
	}
	for _, key := range []string{"summary", "directories"} {
		if value := o.Raw(key); value != nil {
			s.known[key] = slices.Clone(value)
		}
	}
	s.state()
	s.keep("gemini.session", o)
}

func (s *session) state() {
	for _, key := range []string{"summary", "directories"} {
		if s.begun && s.known[key] != nil {
			s.e.Fact(s.Session, key, s.known[key], s.last)
			delete(s.known, key)
		}
	}
}

// keep keeps the members of a record that were not read.
func (s *session) keep(typ string, o *object.Object) {
	if rest := o.Rest(); rest != nil {
		s.Other(typ, rest, s.last)
	}
}

// message reads a message that was appended.
func (s *session) message(o *object.Object) {
	s.e.Stats.Events++
	s.before = s.last
	id, typ, at := o.String("id"), o.String("type"), s.see(o.Time("timestamp"))
	content := o.Raw("content")
	switch typ {
	case "user":
		o.Use("displayContent")
		s.user(id, at, content)
		s.keep("user.unknown_keys", o)
	case "gemini":
		s.reply(id, at, content, o)
		s.keep("gemini.unknown_keys", o)
	default:
		switch said := text(content); {
		case typ == "error":
			s.Fail(said)
			s.failing = true
		case typ == "info" && strings.HasPrefix(said, "Request cancelled"):
			s.stopped = true
		}
		o.Keep(o.Keys()...)
		s.Other("gemini."+cmp.Or(typ, "record"), o.Rest(), at)
	}
}

const (
	injected = "<session_context>"
	snapshot = "<state_snapshot>"
)

// user reads a message of the user: a prompt, results of tools, or what Gemini CLI injects.
func (s *session) user(id string, at time.Time, content []byte) {
	said, results := text(content), false
	for _, p := range parts(content) {
		if r := p.Object("functionResponse"); r != nil {
			results = true
			s.answer(r, at)
		}
	}
	m := event.Message{Raw: message(id, "user", blocks(content)), Role: "user", Time: at}
	switch {
	case strings.HasPrefix(said, snapshot):
		s.compact(id, at, said)
	case strings.HasPrefix(said, injected):
		s.context = append(s.context, m)
	case id != "" && id == s.Run():
	case results && said != "":
		s.Message(m)
	case !results:
		s.prompt(id, at, m)
	}
}

// prompt begins a run.
func (s *session) prompt(id string, at time.Time, m event.Message) {
	s.endRun(time.Time{})
	info := event.RunInfo{ID: id, Config: input.Members("kind", s.kind)}
	trigger := spans.TriggerUser
	if s.parent != "" && !s.begun {
		info.ParentSessionID, trigger = s.parent, spans.TriggerSubAgent
	}
	if s.Begin(transcript.Run{RunInfo: info, At: at, Trigger: trigger}) {
		s.begun = true
		s.state()
		s.remember(id)
	}
	for _, c := range s.context {
		s.Message(c)
	}
	s.context = nil
	s.Message(m)
}

// remember notes the id of a prompt or reply.
func (s *session) remember(id string) {
	if len(s.met) == maxMessages {
		s.met = s.met[1:]
	}
	s.met = append(s.met, id)
}

// over reports whether the last reply of the run ended it.
func (s *session) over() bool {
	u := &s.turn
	return s.stopped || u.halted || u.final || u.speaks && len(u.calls) == 0
}

// endRun ends the run at hand, if there is one, as its last reply says; with the zero time after all that it has.
func (s *session) endRun(at time.Time) {
	var res event.RunResult
	switch u := &s.turn; {
	case s.stopped || u.halted:
		res.Status = spans.RunStatusCancelled
	case s.failing: // with what the error says
	case u.failed:
		res.Status = spans.RunStatusError
	case !s.over():
		res.Status = spans.RunStatusAborted
	}
	s.End(at, res)
	s.turn, s.stopped, s.failing = turn{}, false, false
}

// reply reads a message of the model, which stands again when it has grown. One that has nothing but calls of tools and
// no tokens belongs to the reply before it.
func (s *session) reply(id string, at time.Time, content []byte, o *object.Object) {
	u := &s.turn
	said, usage, calls := blocks(content), usageOf(o.Object("tokens")), o.Objects("toolCalls")
	speaks := len(said) > 0
	for i, t := range o.Objects("thoughts") {
		thought := t.String("description")
		if subject := t.String("subject"); subject != "" {
			thought = "**" + subject + "** " + thought
		}
		said = slices.Insert(said, i, input.Members("type", "thinking", "thinking", thought))
	}
	empty := usage == nil && len(said) == 0
	switch {
	case empty && len(calls) > 0 && u.id != "" && u.id != id:
		id = u.id
	case id == "" || id != u.id:
		*u = turn{id: id, calls: map[string]bool{}, failed: empty && len(calls) == 0}
		s.failing = false
		s.remember(id)
		fallthrough
	default:
		u.said, u.speaks, u.failed = said, speaks, u.failed && empty && len(calls) == 0
	}
	for _, c := range calls {
		if !u.calls[c.String("id")] {
			u.uses = append(u.uses, input.Members("type", "tool_use", "id", c.Raw("id"), "name", c.Raw("name"),
				"input", c.Raw("args")))
		}
	}
	call := transcript.Call{ID: id, At: at, Start: event.Bound(s.before), TurnResult: event.TurnResult{
		Model: o.String("model"), Usage: usage, Failed: u.failed}}
	if !u.failed {
		call.Reply = message(id, "assistant", append(slices.Clip(u.said), u.uses...))
	}
	if !s.Call(call) {
		return
	}
	s.begun = true
	for _, c := range calls {
		s.tool(c, at)
	}
}

// tool reads a call of a tool as it was last seen.
func (s *session) tool(c *object.Object, at time.Time) {
	u := &s.turn
	id, name, status := c.String("id"), c.String("name"), c.String("status")
	if !u.calls[id] {
		u.calls[id] = true
		s.Tool(event.ToolCall{ID: id, Name: name, Args: c.Raw("args"), Start: event.Bound(at)}, at)
	}
	end := transcript.Later(at, c.Time("timestamp"))
	r := transcript.Result{CallID: id, Name: name, At: s.see(end)}
	r.ChildSessionID = c.String("agentId")
	if r.ChildSessionID == s.Session {
		r.ChildSessionID = ""
	}
	switch status {
	case "success":
		u.final = name == "complete_task" && s.parent != ""
	case "error":
		r.Outcome = spans.OutcomeError
	case "cancelled":
		r.Outcome = spans.OutcomeCancelled
	default: // it runs, or waits
		return
	}
	value := c.Raw("result")
	list := parts(value)
	if len(list) == 1 && list[0].Has("functionResponse") {
		value = list[0].Object("functionResponse").Raw("response")
	}
	s.end(&r, value)
}

// answer reads the result of a call in a message of the user. It is known already, but for a call that was refused.
func (s *session) answer(r *object.Object, at time.Time) {
	u := &s.turn
	id, name := r.String("id"), r.String("name")
	if u.id == "" || u.calls[id] {
		return
	}
	if s.refused == nil || len(s.refused) == maxMessages {
		s.refused = map[string]bool{}
	}
	u.calls[id], s.refused[id] = true, true
	s.Tool(event.ToolCall{ID: id, Name: name, Start: event.Bound(at)}, at)
	s.end(&transcript.Result{CallID: id, Name: name, At: at}, r.Raw("response"))
}

// refusals are texts of errors that say who refused a call, or that the run was stopped.
var refusals = transcript.Refusals{
	{Text: regexp.MustCompile(`(?i)denied by policy`), Source: "permission-rule"},
	{Text: regexp.MustCompile(`(?i)canceled by the user|user denied|denied execution|did not allow|declined|rejected`),
		Source: "user-rejected"},
}

// end ends a call with its result: {output}, {error}, or any other value.
func (s *session) end(r *transcript.Result, value []byte) {
	o := object.Of("", value)
	if failure := o.Raw("error"); failure != nil {
		value, r.Error = failure, text(failure)
		r.Outcome = cmp.Or(r.Outcome, spans.OutcomeError)
	} else if output := o.Raw("output"); output != nil {
		value = output
	}
	if r.Outcome != "" {
		r.Denied = refusals.Find(r.Error)
	}
	s.turn.halted = r.Outcome == spans.OutcomeCancelled
	r.ToolResult.Result = value
	s.Result(*r)
}

// set reads a change of the session. A list of messages repeats the history, after a compaction, or after it took
// back a prompt that has no reply.
func (s *session) set(o *object.Object) {
	s.see(o.Time("lastUpdated"))
	list := o.Objects("messages")
	compacted, run := false, s.Run()
	here := run == "" || s.turn.id != "" || list == nil
	for _, m := range list {
		id, said := m.String("id"), ""
		here = here || id == run
		if m.String("type") == "user" {
			said = text(m.Raw("content"))
		}
		for _, p := range parts(m.Raw("content")) {
			c := p.Object("functionCall")
			if call := c.String("id"); s.refused[call] {
				delete(s.refused, call)
				s.e.FactOf(s.Session, "tool_call/"+call, "arguments", c.Raw("args"), s.last)
			}
		}
		switch at := m.Time("timestamp"); {
		case strings.HasPrefix(said, snapshot):
			compacted = true
			s.compact(id, s.see(at), said)
		case strings.HasPrefix(said, injected):
			if origin, _ := s.e.First(s.Session, "context "+said); origin == transcript.New {
				s.context = append(s.context, event.Message{Raw: message(id, "user", blocks(m.Raw("content"))), Role: "user",
					Time: at})
			}
		}
	}
	if !here && !compacted {
		s.stopped = true
		s.endRun(s.last)
	}
	s.facts(o)
}

// compact reports a compaction, of which the summary is known, once.
func (s *session) compact(id string, at time.Time, said string) {
	if origin, _ := s.e.First(s.Session, "compaction "+said); origin != transcript.New {
		return
	}
	if s.over() {
		s.endRun(time.Time{})
	}
	s.Compact(id, at, event.Compaction{Kind: spans.CompactionKindSummary}, event.CompactionResult{Applied: new(true),
		Summary: rawjson.Quote(nil, said)})
	s.begun = true
	s.state()
}

// rewind takes back a message and all that follow it; all messages where it is not known.
func (s *session) rewind(id string) {
	s.endRun(time.Time{})
	from := max(slices.Index(s.met, id), 0)
	for _, m := range s.met[from:] {
		s.e.Hide(s.Session, m, s.last, s.last)
	}
	s.met = s.met[:from]
}

// message returns a message in the form of other providers.
func message(id, role string, blocks [][]byte) []byte {
	return input.Members("id", id, "role", role, "content", input.Array(blocks))
}

// blocks returns the blocks of a content, which is a text, a part, or an array of parts. It omits calls and results,
// which stand elsewhere.
func blocks(content []byte) (list [][]byte) {
	if s, ok := rawjson.String(content); ok {
		if s == "" {
			return nil
		}
		return [][]byte{input.Members("type", "text", "text", content)}
	}
	for _, p := range parts(content) {
		data, file := p.Object("inlineData"), p.Object("fileData")
		kind := "file"
		if strings.HasPrefix(data.String("mimeType"), "image/") {
			kind = "image"
		}
		switch {
		case p.Has("functionCall"), p.Has("functionResponse"):
		case p.Has("text") && string(p.Raw("thought")) == "true":
			list = append(list, input.Members("type", "thinking", "thinking", p.Raw("text")))
		case p.Has("text"):
			list = append(list, input.Members("type", "text", "text", p.Raw("text")))
		case data != nil:
			list = append(list, input.Members("type", kind, "mimeType", data.Raw("mimeType"), "data", data.Raw("data")))
		case file != nil:
			list = append(list, input.Members("type", kind, "mimeType", file.Raw("mimeType"), "url", file.Raw("fileUri")))
		default:
			p.Keep(p.Keys()...)
			list = append(list, p.Rest())
		}
	}
	return list
}

// usageOf returns the tokens of a reply: cached ones are input, thoughts are no output. They are nil when all are zero:
// the reply failed, or they stand elsewhere. Prompts of tools of the model come on top of the input where the total has
// them.
func usageOf(o *object.Object) *event.Usage {
	keys := input.UsageKeys{Input: "input", Output: "output", Reasoning: "thoughts", CacheRead: "cached", Total: "total"}
	u, tool := keys.Read(o, spans.UsageRuleExcludesReasoning), o.Count("tool")
	if u == nil || u.Input|u.Output|u.Reasoning|u.CacheRead|u.Total == 0 {
		return nil
	}
	if tool != nil && u.Total == u.Input+u.Output+u.Reasoning+*tool {
		u.Input += *tool
	}
	return u
}
