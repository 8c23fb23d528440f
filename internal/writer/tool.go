package writer

import (
	"cmp"
	"context"

	"github.com/otelagent/otelagent/spans"
)

// Tool is one open tool call: a tool.call span. The nil Tool does nothing. Safe for concurrent use.
type Tool struct {
	handle
	callID string
	name   string

	progress int64 // guarded by handle.mu
}

// node is as that of [Handle].
func (t *Tool) node() *handle {
	if t == nil {
		return nil
	}
	return &t.handle
}

// StartTool starts a tool call of the turn and returns a context in which runs that it spawns are to be started. It is
// a child of the turn, whatever span ctx holds.
func (t *Turn) StartTool(ctx context.Context, call ToolCall) (context.Context, *Tool) {
	return t.node().startTool(ctx, &call)
}

// StartTool starts a tool call that belongs to no turn; see [Turn.StartTool].
func (r *Run) StartTool(ctx context.Context, call ToolCall) (context.Context, *Tool) {
	return r.node().startTool(ctx, &call)
}

func (h *handle) startTool(ctx context.Context, call *ToolCall) (context.Context, *Tool) {
	if h == nil {
		return ctx, nil
	}
	t := &Tool{callID: cleanID(call.ID), name: cleanName(call.Name)}
	a := h.attrs()
	a.detail[0] = call.Name
	a.profileTool(call.Name, call.Type)
	a.id(spans.ToolCallIDKey, call.ID)
	n := h.ordinal(&h.place.tools, t.callID, a)
	t.scope.tool = t
	h.child(ctx, &t.handle, &kindTool, call.Start, a, seed{call: t.callID, ordinal: n, at: h.place.id.at})
	if t.capturing() {
		text := t.content.addBody(t.origin, spans.ListArgs, call.Args)
		t.sendEarly(spans.ListArgs, call.Start)
		view := endAttrs(t.origin, 0)
		view.valueView(spans.ToolCallArgumentsKey, text)
		t.span.SetAttributes(view.kv...)
	}
	if t.measured {
		t.tally.tools.Add(1)
	}
	t.changed(0)
	return &t.scope, t
}

// Progress records a partial result or progress message of the call: typ is the producer's name of it, body JSON
// (content). All are counted, the first 32 kept.
func (t *Tool) Progress(typ string, body []byte, at Moment) {
	if t == nil {
		return
	}
	t.mu.Lock()
	if !t.ended {
		t.progress++
	}
	t.mu.Unlock()
	Note(t, typ, body, at)
}

// End ends the call, once; later calls do nothing.
func (t *Tool) End(res ToolResult) {
	if t == nil || !t.ends() {
		return
	}
	if !res.End.Closed {
		res.Outcome = cmp.Or(res.Outcome, spans.OutcomeOK)
	}
	a := endAttrs(t.origin, 8)
	var failed spans.ErrorType
	if res.Outcome == spans.OutcomeError {
		failed = spans.ErrorTypeTool
	}
	a.name(spans.ToolOutcomeKey, string(res.Outcome))
	if t.recording {
		a.flag(spans.ToolTruncatedKey, res.Truncated)
		a.id(spans.ToolChildRunIDKey, res.ChildRunID)
		a.id(spans.ToolChildSessionIDKey, res.ChildSessionID)
		a.text(spans.ErrorMessageKey, res.Error)
		a.count(spans.ToolProgressCountKey, t.progress)
		if t.capturing() {
			a.valueView(spans.ToolCallResultKey, t.content.addBody(t.origin, spans.ListResult, res.Result))
			if res.Result != nil && t.previews() {
				t.scope.run.showsResult(t.callID)
			}
		}
	}
	if end := t.finish(res.End, &a, failed); t.measured {
		t.measureEnd(res.Outcome, end)
	}
}
