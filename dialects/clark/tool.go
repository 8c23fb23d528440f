package clark

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Sources of refusals, beside those of package spans.
const (
	sourceGate       = "tool_gate"
	sourceBeforeCall = "before_tool_call"
)

// Words that clark-agent writes in the details of a result, or begins its text with.
const (
	kindNotExecuted   = "tool_call_not_executed"
	kindBadArguments  = "tool_argument_validation"
	textBlockedBy     = "blocked by "
	argumentsNoJSON   = `"__clark_arg_parse_error"`
	keyChildRun       = "child_run_id"
	keyDurationMillis = "duration_ms"
)

func (d *Decoder) toolStart(r *run, m otelagent.Meta, l *line) {
	id, name := stringOf(l.get(kToolCallID)), stringOf(l.get(kToolName))
	c := r.planned(id, name)
	if c == nil {
		c = &call{id: id, name: name}
		r.addCall(c)
	}
	c.started, c.at = true, moment{m.Time, m.Arrived}
	if n, _ := r.openCalls(); n > 1 {
		r.batch = true
	}
	d.emit(&otelagent.ToolStarted{Meta: m, ToolCall: otelagent.ToolCall{ID: id, Name: name, Args: l.inner.value(kArgs)}})
}

// planned returns the first call of that id and name which the reply has and that did not begin; nil when there is none.
func (r *run) planned(id, name string) *call {
	for _, c := range r.calls {
		if c.id == id && c.name == name && !c.started && !c.ended {
			return c
		}
	}
	return nil
}

func (d *Decoder) toolUpdate(_ *run, m otelagent.Meta, l *line) {
	d.emit(&otelagent.ToolProgressed{Meta: m, CallID: stringOf(l.get(kToolCallID)), Name: stringOf(l.get(kToolName)), Type: l.name, Body: l.inner.raw})
}

// outcome is what a result tells of a call, and of its refusal.
type outcome struct {
	text, kind, gate string
	allowed          []byte
	child            string
	took             time.Duration // as the host says; negative when it does not
	refusedByGate    bool
}

// outcomeOf looks into a ToolResult of a call of r.
func (r *run) outcomeOf(result []byte) outcome {
	o := outcome{took: -1}
	membersOf(result, func(key string, value []byte) {
		switch key {
		case "content":
			o.text = textOf(value)
		case "details":
			membersOf(value, func(key string, value []byte) {
				s := stringOf(value)
				switch {
				case key == "kind":
					o.kind = s
				case key == "runtime_block":
					o.refusedByGate = value[0] == 't'
				case key == "gate":
					o.gate = s
				case key == "allowed_tools":
					o.allowed = value
				case key == keyChildRun && s != "":
					o.child = s
				case key == keyDurationMillis:
					if ms, err := strconv.ParseFloat(string(value), 64); err == nil && ms >= 0 && ms < 1e12 {
						o.took = time.Duration(ms * 1e6)
					}
				case o.child == "" && s != "" && slices.Contains(r.children, s):
					o.child = s
				}
			})
		}
	})
	return o
}

func (d *Decoder) toolEnd(r *run, m otelagent.Meta, l *line) {
	id, name := stringOf(l.get(kToolCallID)), stringOf(l.get(kToolName))
	result, failed := l.get(kResult), string(l.get(kIsError)) == "true"
	c := r.ending(id, name)
	o := r.outcomeOf(result)
	if c == nil {
		c = &call{id: id, name: name}
		r.addCall(c)
	}
	e := &otelagent.ToolEnded{Meta: m, CallID: id, Name: name}
	e.Result, e.ChildRunID, e.Outcome = result, o.child, spans.OutcomeOK
	if child := d.runs.find(o.child); child != nil && child.session != r.session {
		e.ChildSessionID = child.session
	}
	if failed {
		e.Outcome, e.Error = spans.OutcomeError, o.text
	}
	refusal, why := r.refusal(c, &o)
	switch {
	case !failed:
	case o.kind == kindNotExecuted:
		e.Outcome = spans.OutcomeSkipped
	case refusal != "":
		e.Outcome = spans.OutcomeDenied
	}
	if !c.started {
		call := otelagent.ToolCall{ID: id, Name: name, Args: c.args}
		if !m.Time.IsZero() && !failed { // its start was not seen
			call.Start = otelagent.Moment{Time: m.Time, Source: spans.TimeSourceBound}
		}
		d.emit(&otelagent.ToolStarted{Meta: m, ToolCall: call})
	}
	if e.Outcome == spans.OutcomeDenied {
		p := otelagent.PermissionEvaluation{Tool: name, CallID: id, Action: spans.ActionDeny, Source: spans.PermissionSource(refusal), Reason: o.text,
			DecidedBy: why, Pattern: string(o.allowed), Derived: true}
		d.emit(&otelagent.PermissionEvaluated{Meta: m, PermissionEvaluation: p})
	}
	e.End = r.endOf(c, &o, m)
	c.started, c.ended = true, true
	d.emit(e)
}

// ending returns the call that an end is of: one that runs before one that did not begin.
func (r *run) ending(id, name string) (found *call) {
	for _, c := range r.calls {
		if c.id != id || c.name != name || c.ended {
			continue
		}
		if c.started {
			return c
		}
		if found == nil {
			found = c
		}
	}
	return found
}

// refusal says who refused a call that failed, as far as the wire tells; empty when nobody did. Until 0.2.0 refused calls had a start as
// well, and a refusal that says no more than a text cannot be told from a failure then.
func (r *run) refusal(c *call, o *outcome) (source, by string) {
	switch {
	case o.refusedByGate:
		return sourceGate, o.gate
	case strings.HasPrefix(o.text, textBlockedBy) && !strings.Contains(o.text, "\n"):
		return sourceBeforeCall, strings.TrimPrefix(o.text, textBlockedBy)
	case c.started || o.kind == kindBadArguments || o.kind == kindNotExecuted:
		return "", ""
	case o.text == fmt.Sprintf("Tool `%s` not found", c.name):
		return "", ""
	case strings.HasPrefix(string(c.args), "{") && strings.Contains(string(c.args), argumentsNoJSON):
		return "", ""
	case len(r.catalogue) > 0 && slices.Contains(r.hidden, c.name):
		return sourceGate, ""
	default:
		return sourceBeforeCall, ""
	}
}

// endOf is when a call ended, where that is not the time of the line: as the host says, or at that time at the latest, where calls
// ran side by side, because their ends are told when the last one is over.
func (r *run) endOf(c *call, o *outcome, m otelagent.Meta) otelagent.Moment {
	now, start := m.Time, c.at.stated
	if now.IsZero() && !r.stated {
		now, start = m.Arrived, c.at.arrived
	}
	if now.IsZero() || !c.started {
		return otelagent.Moment{}
	}
	if end := start.Add(o.took); o.took >= 0 && !start.IsZero() && !end.After(now) {
		return otelagent.Moment{Time: end.Round(0)}
	}
	if r.batch {
		return otelagent.Moment{Time: now.Round(0), Source: spans.TimeSourceBound}
	}
	return otelagent.Moment{}
}
