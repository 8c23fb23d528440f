package otelagent

import (
	"context"

	"github.com/otelagent/otelagent/spans"
)

// Permission tells of one decision about the turn. It may name a tool call that was never started, for want of that
// decision. A span without a time lasts from now until now.
func (t *Turn) Permission(ctx context.Context, p PermissionEvaluation) {
	if t != nil {
		place := t.place()
		place.permission(ctx, &t.handle, &p)
	}
}

// Permission tells of one decision that belongs to no turn, such as that on the run's input.
func (r *Run) Permission(ctx context.Context, p PermissionEvaluation) {
	if r != nil && !r.off {
		place := r.place()
		place.permission(ctx, &r.handle, &p)
	}
}

// Permission tells of one decision about the call. Empty Tool and CallID are those of the call.
func (t *Tool) Permission(ctx context.Context, p PermissionEvaluation) {
	if t == nil {
		return
	}
	if p.CallID == "" {
		p.CallID = t.callID
	}
	if p.Tool == "" {
		p.Tool = t.name
	}
	t.place.permission(ctx, &t.handle, &p)
}

// permission starts and ends the span of one evaluation under parent, which is the place or a tool call in it.
func (p *place) permission(ctx context.Context, parent *handle, e *PermissionEvaluation) {
	var h handle
	a := startAttrs(p.origin)
	p.under(&h, a)
	a.name(spans.ToolNameKey, e.Tool)
	a.id(spans.ToolCallIDKey, e.CallID)
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
	call := cleanID(e.CallID)
	n := p.ordinal(p.permissions, call, a)
	ctx = h.begin(ctx, parent, &kindPermission, e.Start, a, seed{turn: p.turn, call: call, ordinal: n, at: p.at})
	parent.started(&h, &parent.counts.permissions)
	if e.Options != nil && h.capturing() {
		h.content.addBody(h.origin, spans.ListOptions, e.Options)
	}
	end := endAttrs(p.origin, 2)
	if _, measure := h.finish(e.End, spans.KnownObserved, &end, ""); measure {
		h.tracer.metrics.permission(ctx, e)
	}
}
