package writer

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/spans"
)

// detail is what distinguishes evaluations.
func (e *PermissionEvaluation) detail() [2]string { return [2]string{string(e.Action), e.Tool} }

// permission adds what was decided, and by whom.
func (a *attrs) permission(e *PermissionEvaluation) {
	a.name(spans.PermissionActionKey, string(e.Action))
	a.name(spans.PermissionSourceKeyKey, string(e.Source))
	if e.Target != "" && e.Target != spans.PermissionTargetTool {
		a.name(spans.PermissionTargetKeyKey, string(e.Target))
	}
	a.text(spans.PermissionPatternKey, e.Pattern)
	a.text(spans.PermissionReasonKey, e.Reason)
	a.text(spans.PermissionDecidedByKey, e.DecidedBy)
	a.text(spans.RulesDigestKey, e.RulesDigest)
	if e.Wait > 0 {
		a.int(spans.PermissionWaitKey, int64(e.Wait))
	}
	a.id(spans.PermissionOptionKey, e.Option)
	a.name(spans.PermissionOutcomeKey, e.Outcome)
	a.yes(spans.DerivedKey, e.Derived)
	a.decisionView(e.Wait)
}

// Asking is one permission evaluation: a permission.evaluate span. With the action ask it is a question, which lasts
// until the answer and shows with WithLive while it is open. The nil Asking does nothing. Safe for concurrent use.
type Asking struct {
	handle
	asked PermissionEvaluation // Options are not kept
	// offered says that the question reported its options.
	offered bool
}

// Decide records a decision that is made already; see [Ask]. Without a time it lasts from now until now.
func Decide(ctx context.Context, about Handle, p PermissionEvaluation) { Ask(ctx, about, p).End(p) }

// Ask records an evaluation of a turn, of a tool call, or of a run, where it belongs to no turn. Of a tool call, empty
// Tool and CallID are its own; of a turn, it may name a call that never started because of it. With the action ask,
// somebody was asked; the span has what p has by then. With another action p is the decision. The caller ends it.
func Ask(ctx context.Context, about Handle, p PermissionEvaluation) *Asking {
	h := about.node()
	if h == nil {
		return nil
	}
	if t := h.scope.tool; t.node() == h {
		p.CallID, p.Tool = cmp.Or(p.CallID, t.callID), cmp.Or(p.Tool, t.name)
	}
	q := &Asking{asked: p, offered: p.Options != nil}
	q.asked.Options = nil
	a := h.attrs()
	a.detail = p.detail()
	a.name(spans.ToolNameKey, p.Tool)
	a.id(spans.ToolCallIDKey, p.CallID)
	a.permission(&p)
	call := cleanID(p.CallID)
	n := h.ordinal(&h.place.permissions, call, a)
	h.child(ctx, &q.handle, &kindPermission, p.Start, a, seed{call: call, ordinal: n, at: h.place.id.at})
	if q.capturing() {
		q.content.addBody(q.origin, spans.ListOptions, p.Options)
	}
	if p.Action == spans.ActionAsk {
		q.sendEarly(spans.ListOptions, p.Start)
		q.changed(0)
	} else {
		q.live = false // it is decided
	}
	return q
}

// End ends the evaluation; later calls do nothing. Of a question it records the decision: Tool,
// CallID and Start are those of the question. So are Options, unless the question had none. A Wait that is not set is
// the time since then, where both times are known.
func (q *Asking) End(p PermissionEvaluation) {
	if q == nil || !q.ends() {
		return
	}
	a := endAttrs(q.origin, 14)
	p.Tool, p.CallID, p.Start = q.asked.Tool, q.asked.CallID, q.asked.Start
	if q.asked.Action == spans.ActionAsk && !p.End.Closed {
		if p.Wait == 0 && measured(p.Start) && measured(p.End) {
			p.Wait = max(p.End.Time.Sub(p.Start.Time), 0)
		}
		if q.recording {
			a.permission(&p)
			q.span.SetName(q.tracer.spanName(&kindPermission, p.detail()))
			if !q.offered && q.capturing() {
				q.content.addBody(q.origin, spans.ListOptions, p.Options)
			}
		}
	}
	if q.finish(p.End, &a, ""); q.measured && !p.End.Closed {
		decision := []attribute.KeyValue{spans.PermissionActionKey.String(string(p.Action)),
			spans.PermissionSourceKeyKey.String(string(p.Source))}
		q.sample(spans.MetricPermissionEvaluations, 1, decision...)
		q.positive(spans.MetricPermissionWaiting, p.Wait.Seconds(), decision...)
	}
}
