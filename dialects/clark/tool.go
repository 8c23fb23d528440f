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
	kindNotExecuted  = "tool_call_not_executed"
	kindBadArguments = "tool_argument_validation"
	textBlockedBy    = "blocked by "
	argumentsNoJSON  = `"__clark_arg_parse_error"`
)

// call is a tool call of the open turn.
type call struct {
	id, name       string
	args           []byte // a copy; nil when not known
	started, ended bool
	at             time.Time // of its start
}

// call returns the call of that id and name that has not ended: one that has started, or has not, as wanted, before any
// other; a new one where there is none.
func (r *run) call(id, name string, started bool) (found *call) {
	for _, c := range r.calls {
		if c.id != id || c.name != name || c.ended {
			continue
		}
		if c.started == started {
			return c
		}
		if found == nil && started {
			found = c
		}
	}
	if found == nil {
		found = &call{id: id, name: name}
		r.addCall(found)
	}
	return found
}

// addCall remembers a call of the turn, up to the bound.
func (r *run) addCall(c *call) {
	if len(r.calls) < maxCalls {
		r.calls = append(r.calls, c)
	}
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

func (d *Decoder) toolStart(r *run, m otelagent.Meta, l *line) {
	id, name := l.String("tool_call_id"), l.String("tool_name")
	c := r.call(id, name, false)
	c.started, c.at = true, when(m)
	r.batch = r.batch || len(r.openCalls()) > 1
	d.Emit(&otelagent.ToolStarted{Meta: m, ToolCall: otelagent.ToolCall{ID: id, Name: name, Args: l.Spelled("args")}})
}

func (d *Decoder) toolEnd(r *run, m otelagent.Meta, l *line) {
	id, name := l.String("tool_call_id"), l.String("tool_name")
	isError := l.Bool("is_error")
	failed := isError != nil && *isError
	c := r.call(id, name, true)
	result := l.Raw("result")
	details, text := object.Of("", object.Of("", result).Raw("details")), textOf(result)

	e := &otelagent.ToolEnded{Meta: m, CallID: id, Name: name}
	e.Result, e.ChildRunID, e.End = result, d.childOf(r, details), r.endOf(c, details, m)
	if child := d.runs[e.ChildRunID]; child != nil && child.SessionID != r.SessionID {
		e.ChildSessionID = child.SessionID
	}
	if !c.started {
		call := otelagent.ToolCall{ID: id, Name: name, Args: c.args}
		if !m.Time.IsZero() && !failed { // its start was not seen
			call.Start = otelagent.Moment{Time: m.Time, Source: spans.TimeSourceBound}
		}
		d.Emit(&otelagent.ToolStarted{Meta: m, ToolCall: call})
	}
	e.Outcome = spans.OutcomeOK
	if failed {
		e.Outcome, e.Error = spans.OutcomeError, text
		refusal, by := r.refusal(c, details, text)
		switch {
		case details.String("kind") == kindNotExecuted:
			e.Outcome = spans.OutcomeSkipped
		case refusal != "":
			e.Outcome = spans.OutcomeDenied
			d.permission(m, otelagent.PermissionEvaluation{Tool: name, CallID: id, Action: spans.ActionDeny,
				Source: refusal, Reason: text, DecidedBy: by, Pattern: string(details.Raw("allowed_tools")), Derived: true})
		}
	}
	c.started, c.ended = true, true
	d.Emit(e)
}

// childOf returns the id of the run that a call of r spawned: as the host says, else any text in the details of the
// result that is the id of a child of r.
func (d *Decoder) childOf(r *run, details *object.Object) string {
	if id, ok := rawjson.String(details.Raw("child_run_id")); ok && id != "" {
		return id
	}
	for _, raw := range details.All() {
		s, _ := rawjson.String(raw)
		if child := d.runs[s]; child != nil && child.ParentID == r.ID {
			return s
		}
	}
	return ""
}

// refusal returns who refused a call that failed, as far as the wire has it; empty when nobody did. Until 0.2.0 refused
// calls had a start as well, and a refusal that is no more than a text looks like a failure then.
func (r *run) refusal(c *call, details *object.Object, text string) (source spans.PermissionSource, by string) {
	by, blocked := strings.CutPrefix(text, textBlockedBy)
	byGate := details.Bool("runtime_block")
	kind := details.String("kind")
	switch {
	case byGate != nil && *byGate:
		return sourceGate, details.String("gate")
	case blocked && !strings.Contains(text, "\n"):
		return sourceBeforeCall, by
	case c.started, kind == kindBadArguments, kind == kindNotExecuted, text == "Tool `"+c.name+"` not found",
		bytes.HasPrefix(c.args, []byte("{")) && bytes.Contains(c.args, []byte(argumentsNoJSON)):
		return "", ""
	case slices.Contains(r.hidden, c.name):
		return sourceGate, ""
	}
	return sourceBeforeCall, ""
}

// endOf is when a call ended, where that is not the time of the line: as the host says, or at that time at the latest,
// where calls ran at the same time, because their ends are written when the last one is over.
func (r *run) endOf(c *call, details *object.Object, m otelagent.Meta) otelagent.Moment {
	now := when(m)
	if now.IsZero() || !c.started {
		return otelagent.Moment{}
	}
	if ms := details.Float("duration_ms"); ms != nil && *ms >= 0 && *ms < 1e12 && !c.at.IsZero() {
		if end := c.at.Add(time.Duration(*ms * 1e6)); !end.After(now) {
			return otelagent.Moment{Time: end.Round(0)}
		}
	}
	if r.batch {
		return otelagent.Moment{Time: now.Round(0), Source: spans.TimeSourceBound}
	}
	return otelagent.Moment{}
}
