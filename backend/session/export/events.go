package export

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// This file writes the events that a row belongs to: lines of the dialect ndjson (docs/formats.md §7) in a list under
// extensionKey of metadata_json. A key that holds content there holds a reference here: the index of a part of the
// row, the indexes of the first part and of the one behind the last, or the digest of a system prompt or catalogue.

// events are the events of one row.
type events struct {
	g      *Guide
	list   array
	hidden array // of turns that a rewind abandoned
}

// add adds an event of a run with its keys and values (see fields). Time is when it happened, if that is known.
func (e *events) add(typ string, at time.Time, r *session.Run, keysAndValues ...any) {
	e.list.raw(fields(append([]any{"type", "otelagent." + typ, "ts", stamp(at), "run", &r.ID}, keysAndValues...)...))
}

// stamp returns a time in unix nanoseconds; 0 where it is not known.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// bound is a moment that is not exactly known.
func bound(ns int64) []byte { return fields("time", ns, "source", spans.TimeSourceBound) }

// usageOf returns usage as it was reported; nil where it was not.
func usageOf(u *session.ReportedUsage, rule spans.UsageRule) []byte {
	if u == nil {
		return nil
	}
	return fields("input", &u.Input, "output", &u.Output, "reasoning", &u.Reasoning, "cache_read", &u.CacheRead,
		"cache_write", &u.CacheWrite, "total", &u.Total, "rule", &rule)
}

// stepCall is a tool part of a step.
type stepCall struct {
	index          int               // among the parts of the step
	call           *session.ToolCall // nil where the span is not there; then the rest says what the part shows
	id, name       string
	outcome        spans.Outcome
	created, ended int64
}

// callsOf returns the tool parts among the parts of a step.
func callsOf(parts []builtPart) (calls []stepCall) {
	for i := range parts {
		switch p := &parts[i]; {
		case p.call != nil:
			calls = append(calls, stepCall{index: i, call: p.call})
		case p.callID != "" || p.state != "" && toolName(p.typ, p.data) != "":
			outcome := map[string]spans.Outcome{"output-available": spans.OutcomeOK, "output-error": spans.OutcomeError,
				"output-denied": spans.OutcomeDenied}[p.state]
			calls = append(calls, stepCall{index: i, id: p.callID, name: toolName(p.typ, p.data), outcome: outcome,
				created: p.created, ended: p.updated})
		}
	}
	return calls
}

// eventsOf returns the value of extensionKey in the metadata of a message row.
func (g *Guide) eventsOf(u *unit) ([]byte, error) {
	e := events{g: g}
	if u.starts {
		if err := e.runStarted(u.run); err != nil {
			return nil, err
		}
	}
	switch u.kind {
	case unitMessage:
		if u.begins {
			e.turnStarted(u.run, u.turn)
		}
		envelope, err := g.envelope(u)
		if err != nil {
			return nil, err
		}
		e.add("message_added", time.Time{}, u.run, "message", fields("raw", envelope))
	case unitReply:
		from := 0
		for k := range u.steps {
			e.step(u.run, &u.steps[k], from)
			from += u.steps[k].parts
		}
	case unitCompaction:
		e.compaction(u.run, u.compaction)
	}
	for _, r := range u.ends {
		e.add("run_ended", r.End, r, "status", r.Status, "status_word", r.StatusWord, "rejected", r.Rejected,
			"rejection", r.Rejection, "usage", usageOf(r.Reported, r.Rule), "error", r.Error)
	}
	var hidden []byte
	if e.hidden.buf != nil {
		hidden = e.hidden.bytes()
	}
	return fields("events", e.list.bytes(), "hidden", hidden), nil
}

func (e *events) runStarted(r *session.Run) error {
	metadata, err := e.g.runValue(r, spans.ListMetadata, r.Metadata)
	if err != nil {
		return err
	}
	rules, err := e.g.runValue(r, spans.ListRules, r.Rules)
	if err != nil {
		return err
	}
	var config json.RawMessage
	if json.Valid([]byte(r.Config)) {
		config = json.RawMessage(r.Config)
	}
	e.add("run_started", r.Start, r, "dialect", &r.Dialect, "agent", r.Agent, "agent_id", r.AgentID,
		"parent_id", r.ParentID, "parent_session_id", r.ParentSessionID, "parent_tool_call_id", r.ParentToolCallID,
		"continuation", r.Continuation, "continuation_tag", r.ContinuationTag, "fork_parent_id", r.ForkParentID,
		"copied", r.Copied, "group_start", stamp(r.GroupStart), "group_role", r.GroupRole, "config_id", r.ConfigID,
		"config_api", r.ConfigAPI, "config", config, "metadata", metadata, "rules", rules, "model", r.Model,
		"provider", r.Provider)
	return nil
}

// turnStarted adds the start of a turn, and what is known of its last request.
func (e *events) turnStarted(r *session.Run, t *session.Turn) {
	e.add("turn_started", t.Start, r, "index", &t.Index, "trigger", t.Trigger, "model", t.Model, "provider", t.Provider,
		"variant", t.Variant)
	system := e.g.prompts.digestOf(t, spans.ProvenanceSystem)
	tools := e.g.catalogs.digestOf(t, spans.ProvenanceTools)
	if t.Level+t.Format+system+tools != "" || t.Attempts > 1 || t.MaxTokens != nil || t.Temperature != nil {
		e.add("request_prepared", t.Start, r, "model", t.Model, "at", bound(stamp(t.Start)),
			"attempt", max(t.Attempts, 1)-1, "reasoning_level", t.Level, "format", t.Format, "max_tokens", t.MaxTokens,
			"temperature", t.Temperature, "system", system, "tools", tools)
	}
}

// step adds the events of a step whose first part has the index from.
func (e *events) step(r *session.Run, st *step, from int) {
	var t *session.Turn
	parts := []int{from, from + st.parts}
	if st.lone == nil {
		t = e.g.runs[r].turns[st.turn]
		if st.begins {
			e.turnStarted(r, t)
		}
		for n := range t.DiscardedAttempts {
			var usage []byte
			if u := t.Discarded; n == 0 && u != nil {
				usage = usageOf(&session.ReportedUsage{Input: u.Input, Output: u.Output, Reasoning: u.Reasoning,
					CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}, spans.UsageRuleIncludesCache)
			}
			e.add("attempt_discarded", t.Start, r, "attempt", n, "usage", usage)
		}
		if st.hidden > 0 {
			e.hidden.raw(fields("run", &r.ID, "index", &t.Index, "parts", parts, "hidden_at", st.hidden))
		}
	}
	for _, c := range st.calls {
		e.call(r, c, from+c.index)
	}
	if t == nil {
		return
	}
	var output []byte
	if st.parts > 0 {
		output = fields("raw", parts)
	}
	if t.Known == spans.KnownClosed {
		if !t.Partial && (t.Reported != nil || t.StopReason != "") { // the reply arrived, and the end of the turn did not
			e.add("reply_received", t.End, r, "model", t.Answered, "stop_reason", t.StopReason,
				"usage", usageOf(t.Reported, t.Rule), "response_id", t.ResponseID, "message", output)
		}
		return
	}
	e.add("turn_ended", t.End, r, "model", t.Answered, "stop_reason", t.StopReason, "failed", t.Failed,
		"usage", usageOf(t.Reported, t.Rule), "cost", t.Cost, "currency", t.Currency, "model_call_ns", t.ModelCallNS,
		"first_chunk_ns", t.FirstChunkNS, "response_id", t.ResponseID, "output", output, "error", t.Error)
}

// call adds a tool call whose part has an index.
func (e *events) call(r *session.Run, c stepCall, index int) {
	s := c.call
	if s == nil { // what the part shows
		started, ended := time.UnixMilli(c.created), time.UnixMilli(c.ended)
		e.add("tool_started", started, r, "call_id", c.id, "name", c.name, "start", bound(stamp(started)), "args", &index)
		if c.outcome != "" {
			e.add("tool_ended", ended, r, "call_id", c.id, "name", c.name, "end", bound(stamp(ended)), "result", &index,
				"outcome", c.outcome)
		}
		return
	}
	e.add("tool_started", s.Start, r, "call_id", s.ID, "name", s.Name, "args", &index)
	if s.Outcome != "" {
		e.add("tool_ended", s.End, r, "call_id", s.ID, "name", s.Name, "result", &index, "outcome", s.Outcome,
			"truncated", s.Truncated, "child_run_id", s.ChildRunID, "child_session_id", s.ChildSessionID)
	}
}

func (e *events) compaction(r *session.Run, c *session.Compaction) {
	e.add("compaction_ended", c.Start, r, "trigger", c.Trigger, "start", fields("time", stamp(c.Start)),
		"end", fields("time", stamp(c.End)), "kind", c.Kind, "reason", c.Reason, "messages_before", c.MessagesBefore,
		"messages_after", c.MessagesAfter, "messages_summarized", c.MessagesSummarized, "input_tokens", c.InputTokens,
		"output_tokens", c.OutputTokens, "removed_tokens", c.RemovedTokens, "summary", new(int))
}

// placeEvents says in which rows runs and turns begin, and in which runs end: the last row that was made before their
// end, so that what they caused stands between.
func (g *Guide) placeEvents() {
	begun := map[*session.Turn]bool{}
	last := map[*session.Run]int{}
	for i := range g.units {
		u := &g.units[i]
		_, started := last[u.run]
		u.starts, last[u.run] = !started, i
		if t := u.turn; u.kind == unitMessage && t != nil && !begun[t] {
			begun[t], u.begins = true, true
		}
		for k := range u.steps {
			if st := &u.steps[k]; st.lone == nil {
				t := g.runs[u.run].turns[st.turn]
				st.begins, begun[t] = !begun[t], true
			}
		}
	}
	for _, r := range g.s.Runs {
		if r.Known == spans.KnownClosed || r.End.IsZero() {
			continue
		}
		i := last[r]
		for i+1 < len(g.units) && g.units[i+1].at <= r.End.UnixMilli() && g.units[i+1].run.ID != r.ID {
			i++
		}
		g.units[i].ends = append(g.units[i].ends, r)
	}
}

// placeKeys are the members of a message that say where it stands, and not what it says. The first five are phi-core's.
var placeKeys = []string{"turnId", "nodeId", "parentId", "tags", "provenanceHint", "messageId", "id", "timestamp",
	"created_at", "createdAt"}

// envelope returns the members of a message that say where it stands, as an object.
func (g *Guide) envelope(u *unit) ([]byte, error) {
	if err := g.loadMessage(u); err != nil {
		return nil, err
	}
	body, ok := g.window.set.Body(u.ref)
	if !ok {
		return []byte("{}"), nil
	}
	keys := placeKeys
	if u.run != nil && (u.run.Dialect == "phi-core" || u.run.Dialect == "clark-agent" || u.run.Dialect == "acp") {
		keys = keys[:6] // their messages have a time of their own
	}
	var l []member
	for _, m := range members([]byte(body)) {
		if slices.Contains(keys, m.key) {
			l = append(l, m)
		}
	}
	slices.SortFunc(l, func(a, b member) int { return strings.Compare(a.key, b.key) })
	var o object
	for _, m := range l {
		o.raw(m.key, sorted(m.value))
	}
	return o.bytes(), nil
}
