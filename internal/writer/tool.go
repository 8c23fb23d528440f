package writer

import (
	"cmp"
	"context"

	"github.com/otelagent/otelagent/spans"
)

// Tool is one open tool call: a tool.call span. The nil Tool does nothing. Safe for concurrent use.
type Tool struct {
	handle
	scope  scope
	callID string
	name   string
	place  place

	progress int64 // guarded by handle.mu
}

// place is where tool calls, permission evaluations and compactions are started: a run or a turn.
type place struct {
	*handle
	run                *Run
	tools, permissions *ordinals
}

const noTurn = -1

func (r *Run) place() place {
	return place{handle: &r.handle, run: r, tools: &r.tools, permissions: &r.permissions}
}

func (t *Turn) place() place {
	return place{handle: &t.handle, run: t.run, tools: &t.tools, permissions: &t.permissions}
}

// ordinal returns the next number of key and adds it to a.
func (p *place) ordinal(of *ordinals, key string, a *attrs) int64 {
	p.mu.Lock()
	n := of.next(key)
	p.mu.Unlock()
	a.count(spans.OrdinalKey, n)
	return n
}

// under makes child a child of the place and adds the turn to a.
func (p *place) under(child *handle, a *attrs) {
	child.origin, child.index, child.turn, child.at = p.origin, p.index, p.turn, p.at
	if p.index != noTurn {
		a.int(spans.TurnIndexKey, p.index)
	}
}

// StartTool starts a tool call of the turn and returns a context in which runs that it spawns are to be started. It is
// a child of the turn, whatever span ctx holds.
func (t *Turn) StartTool(ctx context.Context, call ToolCall) (context.Context, *Tool) {
	if t == nil {
		return ctx, nil
	}
	return t.place().startTool(ctx, &call)
}

// StartTool starts a tool call that belongs to no turn; see [Turn.StartTool].
func (r *Run) StartTool(ctx context.Context, call ToolCall) (context.Context, *Tool) {
	if r == nil || r.off {
		return ctx, nil
	}
	return r.place().startTool(ctx, &call)
}

func (p place) startTool(ctx context.Context, call *ToolCall) (context.Context, *Tool) {
	t := &Tool{callID: cleanID(call.ID), name: cleanName(call.Name)}
	a := startAttrs(p.origin)
	a.detail[0] = call.Name
	p.under(&t.handle, a)
	a.profileTool(call.Name, call.Type)
	a.id(spans.ToolCallIDKey, call.ID)
	n := p.ordinal(p.tools, t.callID, a)
	ctx = t.begin(ctx, p.handle, &kindTool, call.Start, a, seed{turn: p.turn, call: t.callID, ordinal: n, at: p.at})
	p.started(&t.handle, &p.counts.tools)
	t.place = p
	if t.capturing() {
		t.mu.Lock()
		t.content.addBody(t.origin, spans.ListArgs, call.Args)
		early, name := t.early(spans.ListArgs)
		t.mu.Unlock()
		t.sendEarly(&early, name, call.Start)
		if t.previews() && call.Args != nil {
			view := endAttrs(t.origin, 1)
			t.valueView(spans.ToolCallArgumentsKey, spans.ListArgs, call.Args, &view)
			t.span.SetAttributes(view.kv...)
		}
	}
	t.scope = scope{Context: ctx, span: &t.handle, run: p.run, turn: turnOf(ctx, p.run), tool: t}
	if t.measured {
		t.tally.tools.Add(1)
	}
	t.opened(nil, t)
	return &t.scope, t
}

// Progress records a partial result or progress message of the call: typ is the producer's name of it, body JSON
// (content). All are counted, the first 32 kept.
func (t *Tool) Progress(typ string, body []byte, at Moment) {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.progress++
	t.mu.Unlock()
	t.note(typ, body, at)
}

// Note records an event of the call that is no progress of it; see [Run.Note].
func (t *Tool) Note(typ string, body []byte, at Moment) {
	if t != nil {
		t.note(typ, body, at)
	}
}

// End ends the call, once; later calls do nothing.
func (t *Tool) End(res ToolResult) {
	if t != nil {
		res.Outcome = cmp.Or(res.Outcome, spans.OutcomeOK)
		t.end(&res, spans.KnownObserved)
	}
}

// Close ends the call at the last time seen, because no end was reported: it has no outcome. Later calls do nothing.
func (t *Tool) Close(at Moment) {
	if t != nil {
		t.end(&ToolResult{End: at}, spans.KnownClosed)
	}
}

func (t *Tool) end(res *ToolResult, known spans.Known) {
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
		t.mu.Lock()
		a.count(spans.ToolProgressCountKey, t.progress)
		if !t.ended && t.capturing() {
			t.content.addBody(t.origin, spans.ListResult, res.Result)
			t.valueView(spans.ToolCallResultKey, spans.ListResult, res.Result, &a)
			if res.Result != nil && t.previews() {
				t.place.run.showsResult(t.callID)
			}
		}
		t.mu.Unlock()
	}
	if end, measure := t.finish(res.End, known, &a, failed); measure {
		t.measureEnd(res.Outcome, end, known)
	}
}
