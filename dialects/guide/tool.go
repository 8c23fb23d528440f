package guide

import (
	"cmp"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// tool reports whether a part is a tool call.
func (p *part) tool() bool { return p.kind == "dynamic-tool" || strings.HasPrefix(p.kind, "tool-") }

// name returns that of the tool that is called.
func (p *part) name() string {
	if p.kind == "dynamic-tool" {
		return p.ai.String("toolName")
	}
	return strings.TrimPrefix(p.kind, "tool-") // everything after the first dash
}

// callState returns the state of a call; its column counts where the part has none.
func (p *part) callState() string { return cmp.Or(p.ai.String("state"), p.state) }

func (p *part) preliminary() bool { return string(p.ai.Raw("preliminary")) == "true" }

// over reports whether a call has ended.
func (p *part) over() bool {
	switch p.callState() {
	case "output-available":
		return !p.preliminary()
	case "output-error", "output-denied":
		return true
	}
	return false
}

// envelope returns the output of a call where it is the uniform envelope of a tool result: {type: output|error,
// data|error_text, metadata: {duration_ms, truncated}}; nil for any other one.
func (p *part) envelope() *object.Object {
	o := p.ai.Object("output")
	if typ := o.String("type"); typ != "output" && typ != "error" {
		return nil
	}
	return o
}

// result returns how a call that is over ended, and the text of its error.
func (p *part) result() (spans.Outcome, string) {
	switch e := p.envelope(); {
	case p.callState() == "output-denied":
		return spans.OutcomeDenied, ""
	case p.callState() == "output-error":
		return spans.OutcomeError, p.ai.String("errorText")
	case e.String("type") == "error":
		return spans.OutcomeError, e.String("error_text")
	}
	return spans.OutcomeOK, ""
}

// emitCall emits a tool part: the call, the decision about it, and its end if it has one.
func (d *Decoder) emitCall(r *run, p *part) {
	id, name := cmp.Or(p.ai.String("toolCallId"), p.callID), p.name()
	measured := p.envelope().Object("metadata")
	start, end := event.Bound(p.created), event.Bound(p.latest)
	if ms := measured.Float("duration_ms"); ms != nil && *ms > 0 && *ms < 1e10 && p.over() && !p.latest.IsZero() {
		// The duration is stated, so it counts; the row was written when the call was over.
		start, end = stamped(p.latest.Add(-time.Duration(*ms*float64(time.Millisecond)))), stamped(p.latest)
	}
	d.Emit(&event.ToolStarted{Meta: r.meta(start.Time, p.seq),
		ToolCall: event.ToolCall{ID: id, Name: name, Args: p.ai.Spelled("input"), Start: start}})
	d.emitDecision(r, p, id)
	switch {
	case p.callState() == "output-available" && p.preliminary():
		d.Emit(&event.ToolProgressed{Meta: r.meta(p.latest, p.seq), CallID: id, Name: name, Type: "preliminary",
			Body: p.ai.Spelled("output")})
		return
	case !p.over():
		r.last = input.Later(r.last, p.latest)
		return
	}
	ev := &event.ToolEnded{Meta: r.meta(end.Time, p.seq), CallID: id, Name: name,
		ToolResult: event.ToolResult{End: end, Result: p.ai.Spelled("output"), Truncated: measured.Bool("truncated")}}
	ev.Outcome, ev.ToolResult.Error = p.result()
	if name == "task" { // the guide's own name for the tool that runs a sub-agent
		// The child is {session_id}, bare or as the data of an envelope.
		output := p.ai.Object("output")
		child := cmp.Or(output.String("session_id"), output.Object("data").String("session_id"))
		if child != "" && child != d.session.id {
			ev.ChildSessionID = child
			input.Put(d.children, maxChildren, child, link{session: d.session.id, run: r.id, call: id})
		}
	}
	d.Emit(ev)
}

// emitDecision emits the decision about a call: approval is {id, approved, reason}, without approved as long as
// there is no answer.
func (d *Decoder) emitDecision(r *run, p *part, call string) {
	state, approval := p.callState(), p.ai.Object("approval")
	if approval == nil && state != "output-denied" && state != "approval-requested" && state != "approval-responded" {
		return
	}
	e := event.PermissionEvaluation{Tool: p.name(), CallID: call, Action: spans.ActionAsk, Derived: approval == nil,
		Reason: approval.String("reason"), Start: event.Bound(p.created), End: event.Bound(p.latest)}
	if string(approval.Raw("isAutomatic")) == "true" {
		e.DecidedBy = "automatic"
	}
	switch approved := approval.Bool("approved"); {
	case approved != nil && *approved:
		e.Action = spans.ActionAllow
	case approved != nil:
		e.Action = spans.ActionDeny
	case state == "output-denied": // the AI SDK does not always say it in approval
		e.Action, e.Derived = spans.ActionDeny, true
	case p.over(): // it was asked for, and it ran
		e.Action, e.Derived = spans.ActionAllow, true
	}
	d.Emit(&event.PermissionEvaluated{Meta: r.meta(p.latest, p.seq), PermissionEvaluation: e})
}
