package opencode

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// session is the session at hand.
type session struct {
	*transcript.Thread
	parent           string
	info             *object.Object
	created, updated time.Time
	// revert is the message from which on all are taken back, reverted whether it was met.
	revert   string
	reverted bool
	// compaction is the message that asked for a summary which was not met yet.
	compaction *message
}

// message is a message with its parts.
type message struct {
	*object.Object
	id, role           string
	created, completed time.Time
	parts              []*part
	of                 map[string][]*part // by kind
}

// part is a part of a message.
type part struct {
	*object.Object
	state      *object.Object // of a tool call
	kind       string
	start, end time.Time
}

// beginSession begins a session.
func (d *reader) beginSession(o *object.Object) {
	d.endSession()
	id := o.String("id")
	if id == "" {
		o.Fail("id", "want a string that is not empty")
		return
	}
	when := o.Object("time")
	d.session = &session{Thread: d.Thread(id, ""), parent: cmp.Or(o.String("parentID"), o.String("parent_id")), info: o,
		revert:  object.Of("revert", valueOf(o, "revert")).String("messageID"),
		created: cmp.Or(transcript.Time(when.Raw("created")), transcript.Time(o.Raw("time_created"))),
		updated: cmp.Or(transcript.Time(when.Raw("updated")), transcript.Time(o.Raw("time_updated")))}
}

// valueOf returns a member of a session. In a database the columns of JSON are strings.
func valueOf(o *object.Object, key string) []byte {
	text, _ := rawjson.String(o.Raw(key))
	if inner := jsonIn(text); inner != nil {
		return inner
	}
	return o.Raw(key)
}

// jsonIn returns a text that is a JSON object or array; nil of any other.
func jsonIn(text string) []byte {
	if text == "" || text[0] != '{' && text[0] != '[' || rawjson.Valid([]byte(text), object.MaxDepth-1) != nil {
		return nil
	}
	return []byte(text)
}

// endSession emits what is known of the session at hand.
func (d *reader) endSession() {
	d.endMessage()
	d.Finish()
	d.session = nil
}

// beginMessage begins a message, and reports whether it is one of the session at hand.
func (d *reader) beginMessage(o *object.Object, id string) bool {
	d.endMessage()
	of := o.String("sessionID")
	if d.session == nil || id == "" || of != "" && of != d.session.Session {
		o.Fail("sessionID", "of no session: that has to stand before its messages, and a message has an id")
		return false
	}
	when := o.Object("time")
	d.held, d.message = 0, &message{Object: o, id: id, role: o.String("role"), of: map[string][]*part{},
		created: transcript.Time(when.Raw("created")), completed: transcript.Time(when.Raw("completed"))}
	return true
}

// addPart adds a part to the message at hand, and reports whether it is one of it.
func (d *reader) addPart(o *object.Object) bool {
	m, of := d.message, o.String("messageID")
	switch {
	case m == nil || of != "" && of != m.id:
		o.Fail("messageID", "of no message, which has to stand before its parts")
		return false
	case len(m.parts) == maxParts || d.held > d.Settings.MaxLine:
		o.Fail("", "beyond the limits of a message")
		return false
	}
	state := o.Object("state")
	when := cmp.Or(state.Object("time"), o.Object("time"))
	p := &part{o, state, o.String("type"), transcript.Time(when.Raw("start")), transcript.Time(when.Raw("end"))}
	m.parts, m.of[p.kind] = append(m.parts, p), append(m.of[p.kind], p)
	return true
}

// endMessage emits the message at hand, which has all its parts.
func (d *reader) endMessage() {
	m, s := d.message, d.session
	if d.message = nil; m == nil {
		return
	}
	switch {
	case m.role == "assistant" && string(m.Raw("summary")) == "true":
		d.compact(m)
	case m.role == "assistant":
		d.reply(m)
	case m.of["compaction"] != nil:
		s.endRun()
		s.compaction = m
	default:
		d.prompt(m)
	}
	if s.reverted = s.reverted || m.id == s.revert; s.reverted {
		d.Hide(s.Session, m.id, true, s.updated)
	}
	d.keep(m)
}

// fields are those of a message that the mapper reads, or that stand elsewhere: path, mode and the sums of changes.
var fields = []string{"id", "sessionID", "parentID", "role", "time", "agent", "mode", "model", "modelID", "providerID",
	"variant", "finish", "tokens", "cost", "error", "path", "summary", "system", "tools", "format"}

// keep keeps parts and fields of a message that have no place among the events, and reports what is wrong in it.
func (d *reader) keep(m *message) {
	for _, p := range m.parts {
		switch p.kind {
		case "text", "reasoning", "file", "tool", "step-start", "step-finish", "compaction", "retry":
		default:
			p.Keep(p.Keys()...)
			p.Use("id", "sessionID", "messageID")
			d.session.Other("opencode."+cmp.Or(p.kind, "part"), p.Rest(), m.created)
		}
		d.RejectProblems("part", p.Object)
	}
	if m.Use(fields...); m.Rest() != nil {
		d.session.Other("message.unknown_keys", m.Rest(), m.created)
	}
	d.RejectProblems("message", m.Object)
}

// endRun ends the run at hand as its last reply says; one that was cut off is aborted.
func (s *session) endRun() { s.End(time.Time{}, event.RunResult{Status: spans.RunStatusAborted}) }

// prompt begins a run.
func (d *reader) prompt(m *message) {
	s := d.session
	s.endRun()
	model := m.Object.Object("model")
	info := event.RunInfo{ID: m.id, Agent: m.String("agent"), Model: model.String("modelID"),
		Provider: model.String("providerID"), Rules: valueOf(s.info, "permission"),
		Config: input.Members("version", s.info.Raw("version"), "agent", m.Raw("agent"))}
	trigger := spans.TriggerUser
	written := func(p *part) bool { return !transcript.True(p.Object, "synthetic") }
	switch texts := m.of["text"]; {
	case s.parent != "" && s.Fresh():
		info.ParentSessionID, trigger = s.parent, spans.TriggerSubAgent
	case len(texts) > 0 && !slices.ContainsFunc(texts, written): // by OpenCode itself
		trigger = spans.TriggerContinuation
	}
	d.begin(info, m, trigger)
	d.Fact(s.Session, "title", s.info.Raw("title"), s.updated)
	d.Fact(s.Session, "cwd", s.info.Raw("directory"), s.updated)
	raw := input.Members("id", m.id, "role", m.role, "content", input.Array(m.blocks()))
	s.Message(event.Message{Raw: raw, Role: m.role, Time: m.created})
}

// begin begins a run with a message. A message that is older than its session is the copy that a fork has of one of its
// parent's; it has another id and the same time.
func (d *reader) begin(info event.RunInfo, m *message, trigger spans.Trigger) {
	s, first := d.session, d.session.Fresh()
	owner, _ := d.First(s.Session, "at "+m.created.String()+" "+m.role)
	copied := m.created.Before(s.created) && !m.created.IsZero()
	if copied && owner != "" && owner != s.Session {
		info.Copied, info.ForkParentID = true, owner
	}
	if s.Begin(transcript.Run{RunInfo: info, At: m.created, Trigger: trigger}) && copied && !info.Copied && first {
		d.Emit(&event.DefectFound{Meta: event.Meta{Session: s.Session, Run: m.id, Time: m.created, Seq: d.Seq},
			Code: spans.DefectEventLost, Detail: "parent missing"})
	}
}

// blocks returns what a message says and calls.
func (m *message) blocks() (blocks [][]byte) {
	for _, p := range m.parts {
		var b []byte
		switch text := p.Raw("text"); p.kind {
		case "text":
			b = transcript.Block(p.kind, text)
		case "reasoning":
			b = transcript.Block("thinking", text)
		case "file":
			b = input.Members("type", p.kind, "mediaType", p.Raw("mime"), "filename", p.Raw("filename"), "url", p.Raw("url"))
		case "tool":
			b = input.Members("type", "tool_use", "id", p.Raw("callID"), "name", p.Raw("tool"), "input", p.state.Raw("input"))
		}
		if b != nil {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

var keys = input.UsageKeys{Input: "input", Output: "output", Reasoning: "reasoning", CacheRead: "cache.read",
	CacheWrite: "cache.write", Total: "total"}

// usage returns the tokens of a message and their cost; nil when they are zero, as before the reply is there. A message
// of several steps, as old versions wrote them, has the tokens of the last.
func (m *message) usage() (*event.Usage, *float64) {
	u := keys.Read(m.Object.Object("tokens"), spans.UsageRuleExcludesCacheAndReasoning)
	if u == nil || u.Input|u.Output|u.Reasoning|u.CacheRead|u.CacheWrite == 0 {
		return nil, nil
	}
	u.LowerBound = len(m.of["step-finish"]) > 1
	return u, m.Float("cost")
}

// failure returns the name of the error of a message or part, and what it says.
func failure(of *object.Object) (name, text string) {
	o := of.Object("error")
	return o.String("name"), cmp.Or(o.Object("data").String("message"), o.String("name"))
}

// reply emits a message of the assistant: a call of the model, and the calls of tools that it asked for.
func (d *reader) reply(m *message) {
	s, at := d.session, m.completed
	call := transcript.Call{ID: m.id, Start: event.Moment{Time: m.created}, Run: m.String("parentID"),
		Variant: m.String("variant"), TurnResult: event.TurnResult{Model: m.String("modelID"),
			Provider: m.String("providerID"), StopReason: m.String("finish"), Currency: "USD"}}
	call.Usage, call.Cost = m.usage()
	if blocks := m.blocks(); blocks != nil {
		call.Reply = input.Members("id", m.id, "role", m.role, "content", input.Array(blocks))
	}
	for _, p := range m.parts {
		if m.completed.IsZero() {
			at = transcript.Later(at, p.end)
		}
		if took := p.start.Sub(m.created); p.kind != "tool" && took > 0 && !m.created.IsZero() {
			call.FirstChunk = cmp.Or(call.FirstChunk, took)
			if m.of["tool"] == nil {
				call.ModelCall = max(took, p.end.Sub(m.created))
			}
		}
	}
	call.At = transcript.Later(at, m.created)
	name, text := failure(m.Object)
	call.Failed, call.Cancelled, call.Error = text != "", name == "MessageAbortedError", text
	for _, p := range m.of["retry"] {
		name, text := failure(p.Object)
		s.Discard(event.DiscardedAttempt{At: event.Moment{Time: transcript.Time(p.Object.Object("time").Raw("created"))},
			Reason: name, Error: text})
	}
	if !s.Call(call) {
		return
	}
	for _, p := range m.of["tool"] {
		s.tool(p, call.At)
	}
	switch {
	case call.Cancelled:
		s.Over(call.At, event.RunResult{Status: spans.RunStatusCancelled})
	case text != "":
		s.Over(call.At, event.RunResult{Status: spans.RunStatusError, Error: text})
	case !m.completed.IsZero() && call.StopReason != "tool-calls":
		s.Over(call.At, event.RunResult{})
	}
}

// tool emits a call of a tool and its result. Bound stands for times that it lacks.
func (s *session) tool(p *part, bound time.Time) {
	state := p.state
	id, name, status := p.String("callID"), p.String("tool"), state.String("status")
	s.Tool(event.ToolCall{ID: id, Name: name, Args: state.Raw("input")}, cmp.Or(p.start, bound))
	if status != "completed" && status != "error" {
		return
	}
	r := transcript.Result{CallID: id, Name: name, At: cmp.Or(p.end, bound)}
	meta := state.Object("metadata")
	r.Truncated = meta.Bool("truncated")
	if child := cmp.Or(meta.String("sessionId"), meta.String("sessionID")); child != s.Session {
		r.ChildSessionID = child
	}
	text := state.Raw("output")
	if status == "error" {
		text = state.Raw("error")
		fail(&r, state.String("error"))
	} else if exit := meta.Int("exit"); exit != nil && *exit != 0 {
		r.Outcome, r.Error = spans.OutcomeError, "exit code "+strconv.FormatInt(*exit, 10)
	}
	if r.Result = text; state.Has("attachments") {
		r.Result = input.Members("output", text, "attachments", state.Raw("attachments"))
	}
	s.Result(r)
}

// refusals are what the error of a call says that a person or a rule refused, with the reason or the rules.
var refusals = transcript.Refusals{
	{Text: regexp.MustCompile(`^The user rejected permission`), Source: "user-rejected"},
	{Text: regexp.MustCompile(`^The user has specified a rule which prevents you`), Source: "permission-rule"},
}

// fail says why a call failed: it was refused, stopped, or an error.
func fail(r *transcript.Result, text string) {
	r.Outcome, r.Error, r.Denied = spans.OutcomeError, text, refusals.Find(text)
	if at := strings.IndexByte(text, '['); r.Denied != nil && at >= 0 { // the rules; the last one that denies counts
		for _, rule := range object.Of("", input.Members("rules", jsonIn(text[at:]))).Objects("rules") {
			if rule.String("action") == "deny" {
				r.Denied.Pattern, r.Denied.Reason = rule.String("pattern"), ""
			}
		}
	} else if strings.HasPrefix(text, "Tool execution aborted") {
		r.Outcome = spans.OutcomeCancelled
	}
}

// compact emits a compaction: the message that asked for it, and m, its summary, whose tokens are no turn's.
func (d *reader) compact(m *message) {
	s := d.session
	asked := cmp.Or(s.compaction, m)
	s.compaction = nil
	c := event.Compaction{Kind: spans.CompactionKindSummary, Start: event.Moment{Time: asked.created}}
	res := event.CompactionResult{End: event.Moment{Time: m.completed}, Currency: "USD"}
	res.Usage, res.Cost = m.usage()
	for _, p := range asked.of["compaction"] {
		c.Trigger = map[bool]string{true: "auto", false: "manual"}[string(p.Raw("auto")) == "true"]
		res.Target = p.String("tail_start_id")
	}
	if _, text := failure(m.Object); text != "" {
		res.Applied, res.Reason = new(false), text
	} else if p := m.of["text"]; p != nil {
		res.Applied, res.Summary = new(true), p[0].Raw("text")
	}
	d.begin(event.RunInfo{ID: asked.id, Continuation: spans.ContinuationCompaction}, asked, "")
	s.Compact(asked.id, m.completed, c, res)
	s.End(m.completed, event.RunResult{})
}
