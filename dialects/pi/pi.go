// Package pi reads the sessions of the coding agent Pi (~/.pi/agent/sessions), versions 1 to 3 of its documented
// format, and turns them into events of package otelagent.
//
// A prompt is a run. One that comes while the model works steers the run. An assistant's message is a turn, with its
// usage (input without cache) and cost. Entries form a tree: a prompt whose parent is not the entry before it branches,
// and the runs that are not among its ancestors are hidden from then on. A branched session copies the entries of its
// parent with their ids, so it is read after it.
//
// # Limits
//
//   - A line: MaxLine bytes (64 MiB unless input.WithMaxLine sets another number).
//   - Entries of a session to which a prompt can go back: 1,048,576. When there are more, the Decoder forgets those
//     before.
//   - Runs that a branch hides or shows: the last 1,024.
package pi

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "pi"

const (
	maxEntries = 1 << 20 // of a session
	maxHidden  = 1024    // runs that a branch hides or shows
)

// NewDecoder returns a Decoder of the sessions of a family, parents before those that branched from them.
func NewDecoder(opts ...input.Option) *transcript.Decoder {
	return transcript.NewDecoder(Dialect, opts, func(e *transcript.Emitter) transcript.Format {
		return func(transcript.File) transcript.Reader {
			s := &session{e: e, entries: map[string]int{}, now: -1}
			return transcript.Reader{Reader: input.Reader{Line: e.Objects("type! timestamp:time!", s.line), End: e.Finish}}
		}
	})
}

// session is one file.
type session struct {
	*transcript.Thread // nil before the header

	e               *transcript.Emitter
	from            string // the session that it was branched from
	born            time.Time
	provider, model string
	level           string // of thinking

	entries map[string]int // their runs
	runs    []run
	now     int    // the run at hand
	last    string // the entry before
	idle    bool   // the last reply asked for no tool
	// branched says that an entry since the last prompt is no child of the one before it.
	branched bool
	asked    time.Time
}

// run is a prompt and what followed it.
type run struct {
	id     string
	before int // the run that it continues; -1 for none
	hidden bool
}

// line reads one line: the header, or an entry {"type":…,"id":…,"parentId":…,"timestamp":…}.
func (s *session) line(o *object.Object, text []byte) string {
	kind, at := o.String("type"), o.Time("timestamp")
	switch {
	case kind == "session" && s.Thread == nil:
		if !o.Require("id") {
			return ""
		}
		s.Thread, s.born = s.e.Thread(o.String("id"), ""), at
		s.provider, s.model, s.level = o.String("provider"), o.String("modelId"), o.String("thinkingLevel")
		s.from = idOf(cmp.Or(o.String("parentSession"), o.String("branchedFrom")))
		s.e.Fact(s.Session, "cwd", o.Raw("cwd"), at)
	case s.Thread == nil:
		o.Fail("", "want a line of type session before it")
	default:
		s.entry(kind, o, at, text)
	}
	return ""
}

// idOf returns the id of a session from the path of its file, TIME_ID.jsonl.
func idOf(path string) string {
	name := path[strings.LastIndexAny(path, `/\`)+1:]
	return strings.TrimSuffix(name[strings.LastIndexByte(name, '_')+1:], ".jsonl")
}

// entry reads one entry.
func (s *session) entry(kind string, o *object.Object, at time.Time, text []byte) {
	id, m := o.String("id"), o.Object("message")
	if met, _ := s.e.First(s.Session, "entry/"+id); id != "" && (met == transcript.Again || met == transcript.Repeated) {
		return
	}
	if parent := o.String("parentId"); id != "" && parent != s.last && len(s.runs) > 0 {
		before, known := s.entries[parent]
		if !known {
			before = -1
		}
		s.now, s.branched = before, true
		s.hide(at)
	}
	role := m.String("role")
	if kind == "message" && role == "user" && (s.branched || s.Run() == "" || s.idle) { // others steer
		info := event.RunInfo{ID: id}
		if s.branched {
			if info.Continuation = spans.ContinuationBranch; s.now >= 0 {
				info.ParentID = s.runs[s.now].id
			}
		}
		s.idle, s.branched = false, false
		s.begin(spans.TriggerUser, at, info)
	}
	switch {
	case kind == "message" && role == "assistant":
		s.reply(id, o.Raw("message"), m, at)
	case kind == "message" && role == "toolResult":
		s.result(o.Raw("message"), m, at)
	case kind == "message" && role == "bashExecution", kind == "message" && m == nil:
		s.Other(kind, text, at)
	case kind == "message":
		s.asked = at
		s.Message(event.Message{Raw: o.Raw("message"), Role: role, Time: at})
	case kind == "custom_message":
		s.Message(event.Message{Raw: input.Members("role", "user", "content", o.Raw("content")), Role: "user", Time: at})
	case kind == "compaction":
		s.idle = true // Pi compacts between runs
		c := event.Compaction{Kind: spans.CompactionKindSummary, InputTokens: o.Count("tokensBefore")}
		if transcript.True(o, "fromHook") {
			c.Trigger = "hook"
		}
		s.Compact(id, at, c, event.CompactionResult{Summary: o.Raw("summary"), Target: o.String("firstKeptEntryId")})
	case kind == "session_info":
		s.e.Fact(s.Session, "title", o.Raw("name"), at)
	default:
		switch kind {
		case "model_change":
			s.provider, s.model = o.String("provider"), o.String("modelId")
		case "thinking_level_change":
			s.level = o.String("thinkingLevel")
		}
		s.Other(kind, text, at)
	}
	if s.last = id; id != "" {
		if len(s.entries) == maxEntries {
			clear(s.entries)
		}
		s.entries[id] = s.now
	}
}

// begin begins a run behind the one at hand. One that is older than the session is a copy.
func (s *session) begin(trigger spans.Trigger, at time.Time, info event.RunInfo) {
	info.Model, info.Provider, info.ForkParentID = s.model, s.provider, s.from
	r := transcript.Run{RunInfo: info, At: at, Trigger: trigger}
	if at.Before(s.born) {
		r.From = s.from
	}
	s.Begin(r)
	s.follow()
}

// follow notes the run that is open as the one at hand.
func (s *session) follow() {
	if len(s.runs) == 0 || s.runs[len(s.runs)-1].id != s.Run() {
		s.runs = append(s.runs, run{id: s.Run(), before: s.now})
		s.now = len(s.runs) - 1
	}
}

// hide hides the runs that are not among the ancestors of what comes next, and shows those that are.
func (s *session) hide(at time.Time) {
	shown, first := map[int]bool{}, max(0, len(s.runs)-maxHidden)
	for i := s.now; i >= first; i = s.runs[i].before {
		shown[i] = true
	}
	for i := first; i < len(s.runs); i++ {
		r := &s.runs[i]
		if r.hidden == !shown[i] || r.id == "" {
			continue
		}
		since := time.Time{}
		if r.hidden = !shown[i]; r.hidden {
			since = at
		}
		s.e.Hide(s.Session, r.id, since, at)
	}
}

var keys = input.UsageKeys{Input: "input", Output: "output", CacheRead: "cacheRead", CacheWrite: "cacheWrite",
	Total: "totalTokens"}

// reply reads a message of the assistant: one model call.
func (s *session) reply(id string, raw []byte, m *object.Object, at time.Time) {
	usage := m.Object("usage")
	c := transcript.Call{ID: id, At: at, Start: event.Bound(s.asked), Variant: s.level, Reply: raw}
	c.ResponseID, c.Model, c.Provider = m.String("responseId"), m.String("model"), m.String("provider")
	c.StopReason, c.Error = m.String("stopReason"), m.String("errorMessage")
	c.Usage = keys.Read(usage, cmp.Or(s.e.Settings.Rule, spans.UsageRuleExcludesCache))
	if started := transcript.Time(m.Raw("timestamp")); !started.After(at) && !started.Before(s.asked) {
		c.Start = event.Moment{Time: started}
	}
	if c.Cost = usage.Object("cost").Float("total"); c.Cost != nil {
		c.Currency = "USD"
	}
	c.Cancelled = c.StopReason == "aborted"
	c.Failed = c.Cancelled || c.StopReason == "error"
	if s.Run() == "" {
		s.begin("", at, event.RunInfo{Inferred: true})
	}
	if s.asked = at; !s.Call(c) {
		return
	}
	s.follow()
	s.idle = true
	for _, b := range m.Objects("content") {
		if b.String("type") == "toolCall" {
			s.idle = false
			s.Tool(event.ToolCall{ID: b.String("id"), Name: b.String("name"), Args: b.Raw("arguments"), Type: "function"}, at)
		}
	}
	switch {
	case c.Cancelled:
		s.End(at, event.RunResult{Status: spans.RunStatusCancelled, Word: c.StopReason})
	case c.Failed:
		s.Over(time.Time{}, event.RunResult{Status: spans.RunStatusError, Error: c.Error})
	}
}

// Texts of results of calls that did not run.
var refusals = transcript.Refusals{{Text: regexp.MustCompile("^Tool execution was blocked by an extension$"),
	Source: "extension"}}

const skipped = "Skipped due to queued user message."

// result reads the result of a tool call.
func (s *session) result(raw []byte, m *object.Object, at time.Time) {
	r := transcript.Result{CallID: m.String("toolCallId"), Name: m.String("toolName"), At: at, Message: raw}
	r.Result = m.Raw("content")
	if transcript.True(m, "isError") {
		r.Outcome = spans.OutcomeError
		if list := m.Objects("content"); len(list) == 1 {
			text := list[0].String("text")
			if r.Denied = refusals.Find(text); text == skipped {
				r.Outcome = spans.OutcomeSkipped
			}
		}
	}
	if s.asked = at; !s.Result(r) {
		s.Other("toolResult", raw, at)
	}
}

// Recognise returns why a line, which may be cut, is the header of a session; empty when it is none.
func Recognise(o input.Outline) (why string) {
	if o.Text("", "type") == "session" && o.Text("", "id") != "" && o.First("", "timestamp") == '"' &&
		o.Has("", "version", "cwd") {
		return "lines with type session, a version or a folder"
	}
	return ""
}

// Layout says where Pi keeps its sessions.
var Layout = transcript.Layout{Dialect: Dialect, Env: "PI_CODING_AGENT_DIR", Below: []string{"sessions"},
	Home: []string{".pi/agent/sessions"}, Names: regexp.MustCompile(`\.jsonl$`), Head: headOf}

func headOf(_ string, head []byte) (h transcript.Head) {
	o := input.OutlineOf(head)
	if Recognise(o) == "" {
		return h
	}
	h.ID, h.Parent = o.Text("", "id"), idOf(cmp.Or(o.Text("", "parentSession"), o.Text("", "branchedFrom")))
	h.Started, _ = time.Parse(time.RFC3339Nano, o.Text("", "timestamp"))
	return h
}
