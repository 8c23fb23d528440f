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
//   - A line: MaxLine bytes (64 MiB unless input.Settings set another number).
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

const (
	maxEntries = 1 << 20 // of a session
	maxHidden  = 1024    // runs that a branch hides or shows
)

func open(d *transcript.Decoder, _ transcript.File) (input.Reader, func() error) {
	s := &session{d: d, entries: map[string]*run{}, now: &run{}}
	return input.Reader{Line: d.Objects("type! timestamp:time!", s.line), End: d.Finish}, nil
}

// session is one file.
type session struct {
	*transcript.Thread // nil before the header

	d                      *transcript.Decoder
	from                   string // the session that it was branched from
	born                   time.Time
	provider, model, level string // level of thinking

	entries  map[string]*run // by their ids
	runs     []*run          // the last ones
	now      *run            // at hand; without an id before the first one
	last     string          // the entry before
	idle     bool            // the last reply asked for no tool, or failed
	branched bool            // an entry since the last prompt is no child of the one before it
	asked    time.Time       // when the model was asked last
}

// run is a prompt and what followed it.
type run struct {
	id     string
	before *run // that it continues
	hidden bool
}

// line reads one line: the header, or an entry {"type":…,"id":…,"parentId":…,"timestamp":…}.
func (s *session) line(o *object.Object, text []byte) string {
	kind, at, id := o.String("type"), o.Time("timestamp"), o.String("id")
	s.provider, s.model = cmp.Or(o.Text("provider"), s.provider), cmp.Or(o.Text("modelId"), s.model)
	s.level = cmp.Or(o.Text("thinkingLevel"), s.level)
	if s.Thread == nil {
		if kind != "session" || !o.Require("id") {
			o.Fail("", "want a line of type session with an id before it")
			return ""
		}
		s.Thread, s.born = s.d.Thread(id, ""), at
		s.from = idOf(cmp.Or(o.String("parentSession"), o.String("branchedFrom")))
		s.d.Fact(s.Session, "cwd", o.Raw("cwd"), at)
		return ""
	}
	owner, _ := s.d.First(s.Session, "entry/"+cmp.Or(id, string(text))) // entries of version 1 have no id
	if owner == s.Session {
		return ""
	}
	if parent := o.String("parentId"); id != "" && parent != s.last && len(s.runs) > 0 {
		s.branch(cmp.Or(s.entries[parent], &run{}), at)
	}
	m, raw := o.Object("message"), o.Raw("message")
	role := m.String("role")
	switch strings.TrimRight(kind+" "+role, " ") {
	case "message assistant":
		s.reply(id, raw, m, at)
	case "message toolResult":
		s.result(raw, m, at)
	case "custom_message":
		s.Message(event.Message{Raw: input.Members("role", "user", "content", o.Raw("content")), Role: "user", Time: at})
	case "compaction":
		s.idle = true // Pi compacts between runs
		c := event.Compaction{Kind: spans.CompactionKindSummary, InputTokens: o.Count("tokensBefore"),
			Trigger: map[bool]string{true: "hook"}[o.True("fromHook")]}
		s.Compact(id, at, c, event.CompactionResult{Summary: o.Raw("summary"), Target: o.String("firstKeptEntryId")})
	case "session_info":
		s.d.Fact(s.Session, "title", o.Raw("name"), at)
	default:
		if kind != "message" || m == nil || role == "bashExecution" {
			s.Other(kind, text, at)
			break
		}
		if role == "user" && (s.branched || s.Run() == "" || s.idle) { // others steer
			r := transcript.Run{At: at, Trigger: spans.TriggerUser, RunInfo: event.RunInfo{ID: id, Model: s.model,
				Provider: s.provider, ForkParentID: s.from, Copied: id == "" && owner != ""}}
			if s.branched {
				r.Continuation, r.ParentID = spans.ContinuationBranch, s.now.id
			}
			r.Taken = s.from != "" && at.Before(s.born)
			s.idle, s.branched = false, false
			s.Begin(r)
		}
		s.Message(event.Message{Raw: raw, Role: role, Time: at})
	}
	if m != nil {
		s.asked = at
	}
	if n, open := len(s.runs), s.Run(); open != "" && (n == 0 || s.runs[n-1].id != open) {
		s.now = &run{id: open, before: s.now}
		s.runs = append(s.runs[max(0, n-maxHidden+1):], s.now)
	}
	input.Put(s.entries, maxEntries, id, s.now)
	s.last = id
	return ""
}

// idOf returns the id of a session from the path of its file, TIME_ID.jsonl.
func idOf(path string) string {
	name := path[strings.LastIndexAny(path, `/\`)+1:]
	return strings.TrimSuffix(name[strings.LastIndexByte(name, '_')+1:], ".jsonl")
}

// branch goes back to a run: those that are not among its ancestors are hidden, those that are among them are shown.
func (s *session) branch(to *run, at time.Time) {
	s.now, s.branched = to, true
	shown := map[*run]bool{}
	for ; to != nil && len(shown) < maxHidden; to = to.before {
		shown[to] = true
	}
	for _, r := range s.runs {
		if r.hidden == shown[r] {
			r.hidden = !r.hidden
			s.d.Hide(s.Session, r.id, r.hidden, at)
		}
	}
}

var keys = event.UsageKeys{Input: "input", Output: "output", CacheRead: "cacheRead", CacheWrite: "cacheWrite",
	Total: "totalTokens"}

// reply reads a message of the assistant: one model call.
func (s *session) reply(id string, raw []byte, m *object.Object, at time.Time) {
	c := transcript.Call{ID: id, At: at, Start: event.Bound(s.asked), Variant: s.level, Reply: raw,
		TurnResult: event.TurnResult{ResponseID: cmp.Or(m.String("responseId"), id), Model: m.String("model"),
			Provider: m.String("provider"), StopReason: m.String("stopReason"), Error: m.String("errorMessage"),
			Usage: transcript.Counted(keys.Read(m.Object("usage"), cmp.Or(s.d.Settings.Rule, spans.UsageRuleExcludesCache))),
			Cost:  m.Object("usage").Object("cost").Float("total"), Currency: "USD"}}
	if started := input.Time(m.Raw("timestamp")); !started.After(at) && !started.Before(s.asked) {
		c.Start = event.Moment{Time: started}
	}
	c.Cancelled = c.StopReason == "aborted"
	c.Failed = c.Cancelled || c.StopReason == "error"
	for _, b := range m.Objects("content") {
		if b.String("type") == "toolCall" {
			c.Tools = append(c.Tools, transcript.Tool{ToolCall: event.ToolCall{ID: b.String("id"), Name: b.String("name"),
				Args: b.Raw("arguments"), Type: "function"}})
		}
	}
	if !s.Call(c) {
		return
	}
	s.idle = c.Tools == nil || c.Failed
	if c.Failed {
		status := map[bool]spans.RunStatus{true: spans.RunStatusCancelled, false: spans.RunStatusError}[c.Cancelled]
		s.Over(at, event.RunResult{Status: status, Word: c.StopReason, Error: c.Error})
	}
}

// Texts of results of calls that did not run.
const (
	blocked = "Tool execution was blocked by an extension"
	skipped = "Skipped due to queued user message."
)

// result reads the result of a tool call.
func (s *session) result(raw []byte, m *object.Object, at time.Time) {
	r := transcript.Result{CallID: m.String("toolCallId"), Name: m.String("toolName"), At: at, Message: raw}
	if r.Result = m.Raw("content"); m.True("isError") {
		switch r.Outcome = spans.OutcomeError; input.Texts(r.Result) {
		case blocked:
			r.Denied = &event.PermissionEvaluation{Source: "extension", Reason: blocked}
		case skipped:
			r.Outcome = spans.OutcomeSkipped
		}
	}
	if !s.Result(r) {
		s.Other("toolResult", raw, at)
	}
}

// Recognise returns why a line, which may be cut, is the header of a session; empty when it is not.
func Recognise(o input.Outline) (why string) {
	if o.Text("", "type") == "session" && o.Text("", "id") != "" && o.First("", "timestamp") == '"' &&
		o.Has("", "version", "cwd") {
		return "lines with type session, a version or a folder"
	}
	return ""
}

// Agent says where Pi keeps its sessions.
var Agent = transcript.Agent{Dialect: "pi", Open: open, Env: "PI_CODING_AGENT_DIR", Below: []string{"sessions"},
	Home: []string{".pi/agent/sessions"}, Names: regexp.MustCompile(`\.jsonl$`), Recognise: Recognise, Head: headOf}

func headOf(_ string, _ []byte, o input.Outline) (h transcript.Head) {
	h.ID, h.Parent = o.Text("", "id"), idOf(cmp.Or(o.Text("", "parentSession"), o.Text("", "branchedFrom")))
	h.Started, _ = time.Parse(time.RFC3339Nano, o.Text("", "timestamp"))
	return h
}
