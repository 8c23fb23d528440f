package clark

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Sources of refusals, which package spans does not have.
const (
	sourceGate       = "tool_gate"
	sourceBeforeCall = "before_tool_call"
)

// clark-agent writes these in the details of a result, or begins its text with one.
const (
	kindNotExecuted   = "tool_call_not_executed"
	kindBadArguments  = "tool_argument_validation"
	textBlockedBy     = "blocked by "
	argumentsNoJSON   = `"__clark_arg_parse_error"`
	keyChildRun       = "child_run_id"
	keyDurationMillis = "duration_ms"
)

// call is a tool call of the open turn.
type call struct {
	id, name       string
	args           []byte // a copy; nil when not known
	started, ended bool
	at             moment // of its start
}

func (d *Decoder) toolStart(r *run, m otelagent.Meta, l *line) {
	id, name := l.String("tool_call_id"), l.String("tool_name")
	i := slices.IndexFunc(r.calls, func(c *call) bool { return c.id == id && c.name == name && !c.started && !c.ended })
	if i < 0 {
		i = r.addCall(&call{id: id, name: name})
	}
	if i >= 0 {
		r.calls[i].started, r.calls[i].at = true, moment{m.Time, m.Arrived}
	}
	if len(r.openCalls()) > 1 {
		r.batch = true
	}
	args := l.Raw("args")
	if args == nil && slices.Contains(l.Keys(), "args") {
		args = []byte("null")
	}
	d.Emit(&otelagent.ToolStarted{Meta: m, ToolCall: otelagent.ToolCall{ID: id, Name: name, Args: args}})
}

// addCall remembers a call of the turn and returns its position; -1 beyond the bound.
func (r *run) addCall(c *call) int {
	if len(r.calls) == maxCalls {
		return -1
	}
	r.calls = append(r.calls, c)
	return len(r.calls) - 1
}

// openCalls returns the calls that run.
func (r *run) openCalls() (open []*call) {
	for _, c := range r.calls {
		if c.started && !c.ended {
			open = append(open, c)
		}
	}
	return open
}

// onlyCall returns the id of the call that runs, if it is one.
func (r *run) onlyCall() string {
	if open := r.openCalls(); len(open) == 1 {
		return open[0].id
	}
	return ""
}

// knows reports whether the run has a call of that id that is not over.
func (r *run) knows(id string) bool {
	return !r.ended && slices.ContainsFunc(r.calls, func(c *call) bool { return c.id == id && !c.ended })
}

// outcome is what a ToolResult has about its call.
type outcome struct {
	text, kind, gate, child string
	allowed                 []byte
	took                    time.Duration // as the host says; negative when it does not
	refusedByGate           bool
}

// outcomeOf reads a ToolResult of a call of r.
func (r *run) outcomeOf(raw []byte) outcome {
	result := object.Of("", raw)
	details := object.Of("", result.Raw("details"))
	o := outcome{text: textOf(result.List("content")), kind: details.String("kind"), gate: details.String("gate"),
		child: details.String(keyChildRun), allowed: details.Raw("allowed_tools"), took: -1}
	if blocked := details.Bool("runtime_block"); blocked != nil {
		o.refusedByGate = *blocked
	}
	if ms := details.Float(keyDurationMillis); ms != nil && *ms >= 0 && *ms < 1e12 {
		o.took = time.Duration(*ms * 1e6)
	}
	for _, key := range details.Keys() {
		if s, _ := rawjson.String(details.Raw(key)); o.child == "" && s != "" && slices.Contains(r.children, s) {
			o.child = s
		}
	}
	return o
}

func (d *Decoder) toolEnd(r *run, m otelagent.Meta, l *line) {
	id, name := l.String("tool_call_id"), l.String("tool_name")
	isError := l.Bool("is_error")
	failed := isError != nil && *isError
	c := r.ending(id, name)
	o := r.outcomeOf(l.Raw("result"))
	if c == nil {
		c = &call{id: id, name: name}
		r.addCall(c)
	}
	e := &otelagent.ToolEnded{Meta: m, CallID: id, Name: name}
	e.Result, e.ChildRunID, e.Outcome = l.Raw("result"), o.child, spans.OutcomeOK
	if child := d.runs.find(o.child); child != nil && child.session != r.session {
		e.ChildSessionID = child.session
	}
	refusal, by := r.refusal(c, &o)
	switch {
	case !failed:
	case o.kind == kindNotExecuted:
		e.Outcome = spans.OutcomeSkipped
	case refusal != "":
		e.Outcome = spans.OutcomeDenied
	default:
		e.Outcome = spans.OutcomeError
	}
	if failed {
		e.Error = o.text
	}
	if !c.started {
		call := otelagent.ToolCall{ID: id, Name: name, Args: c.args}
		if !m.Time.IsZero() && !failed { // its start was not seen
			call.Start = otelagent.Moment{Time: m.Time, Source: spans.TimeSourceBound}
		}
		d.Emit(&otelagent.ToolStarted{Meta: m, ToolCall: call})
	}
	if e.Outcome == spans.OutcomeDenied {
		d.permission(m, otelagent.PermissionEvaluation{Tool: name, CallID: id, Action: spans.ActionDeny,
			Source: spans.PermissionSource(refusal), Reason: o.text, DecidedBy: by, Pattern: string(o.allowed), Derived: true})
	}
	e.End = r.endOf(c, &o, m)
	c.started, c.ended = true, true
	d.Emit(e)
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

// refusal returns who refused a call that failed, as far as the wire has it; empty when nobody did. Until 0.2.0 refused
// calls had a start as well, and a refusal that is no more than a text looks like a failure then.
func (r *run) refusal(c *call, o *outcome) (source, by string) {
	switch {
	case o.refusedByGate:
		return sourceGate, o.gate
	case strings.HasPrefix(o.text, textBlockedBy) && !strings.Contains(o.text, "\n"):
		return sourceBeforeCall, strings.TrimPrefix(o.text, textBlockedBy)
	case c.started, o.kind == kindBadArguments, o.kind == kindNotExecuted, o.text == "Tool `"+c.name+"` not found",
		bytes.HasPrefix(c.args, []byte("{")) && bytes.Contains(c.args, []byte(argumentsNoJSON)):
		return "", ""
	case slices.Contains(r.hidden, c.name):
		return sourceGate, ""
	default:
		return sourceBeforeCall, ""
	}
}

// endOf is when a call ended, where that is not the time of the line: as the host says, or at that time at the latest,
// where calls ran at the same time, because their ends are written when the last one is over.
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
