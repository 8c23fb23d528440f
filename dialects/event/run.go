package event

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// runName is how a producer names a run. Session is empty where the producer does not name it.
type runName struct{ session, id string }

// is reports whether two names may be of one run.
func (n runName) is(other runName) bool {
	return n.id == other.id && (n.session == other.session || n.session == "" || other.session == "")
}

func (m *Meta) name() runName { return runName{m.Session, m.Run} }

// openRun is a run whose end was not seen yet.
type openRun struct {
	runName
	// parent is the run that it names as its parent, and the session of that where it is another one.
	parent, parentSession string
	ctx                   context.Context
	run                   *writer.Run
	group                 *openGroup // that it is a member or the judge of, or nil
	clock                 clock
	turn                  *writer.Turn // nil without an open one, as is compaction: a nil handle does nothing
	turnCtx               context.Context
	tools                 []*openTool // by start
	compaction            *writer.Compacting
	compacts              spans.CompactionKind // the kind of that
	asked                 []openAsk            // by start
}

// openAsk is a question for permission without an answer.
type openAsk struct {
	call, tool string
	asking     *writer.Asking
}

type openTool struct {
	id, name string
	ctx      context.Context
	tool     *writer.Tool
	start    time.Time
	// ended is the result of a call that is over at a time yet to be learned from its message; nil before.
	ended *ToolResult
}

// stated returns at unless the producer's own moment is known.
func stated(own, at Moment) Moment {
	if own.Time.IsZero() {
		return at
	}
	if own.Seq == 0 {
		own.Seq = at.Seq
	}
	return own
}

// take takes one event of the run, which happened at at.
func (o *openRun) take(ev Event, at Moment) {
	switch ev := ev.(type) {
	case *TurnStarted:
		o.closeTurn()
		info := ev.TurnInfo
		info.Start = stated(info.Start, at)
		o.turnCtx, o.turn = o.run.StartTurn(o.ctx, info)
	case *TurnEnded:
		res := ev.TurnResult
		res.End = stated(res.End, at)
		turn := o.openTurn()
		o.endInTurn()
		turn.End(res)
		o.turn = nil
	case *RequestPrepared:
		req := ev.Request
		req.At = stated(req.At, at)
		o.openTurn().Request(req)
	case *MessageAdded:
		answered := func(t *openTool) bool { return t.id == ev.ToolCallID && t.ended != nil }
		if i := slices.IndexFunc(o.tools, answered); i >= 0 { // it is over since this message
			t, end := o.tools[i], Moment{Time: ev.Message.Time, Source: spans.TimeSourceMessage}
			if end.Time.Before(t.start) { // also when the message has none
				end = at
			}
			end.Seq = t.ended.End.Seq
			t.ended.End = end
			o.closeTool(t)
		}
		if o.turn != nil {
			o.turn.AddInput(ev.Message)
		} else {
			o.run.AddMessage(ev.Message)
		}
	case *ReplyReceived:
		res := TurnResult{End: at, Usage: ev.Usage, StopReason: ev.StopReason, Model: ev.Model, Provider: ev.Provider,
			ResponseID: ev.ResponseID}
		if ev.Message.Raw != nil {
			res.Output = &ev.Message
		}
		o.turn.Reply(res)
	case *ReplyDelta:
		if text, ok := rawjson.String(ev.Text); ok {
			o.turn.Partial(ev.Kind, []byte(text))
		}
	case *ToolStarted:
		call := ev.ToolCall
		call.Start = stated(call.Start, at)
		o.startTool(call)
	case *ToolProgressed:
		if t := o.running(ev.CallID, ev.Name); t != nil {
			t.tool.Progress(ev.Type, ev.Body, at)
		} else {
			o.note(ev.Type, ev.Body, at)
		}
	case *ToolEnded:
		t := o.running(ev.CallID, ev.Name)
		if t == nil {
			start := at
			if start.Source != "" {
				start = o.clock.end()
			}
			t = o.startTool(ToolCall{ID: ev.CallID, Name: ev.Name, Start: start})
		}
		res := ev.ToolResult
		res.End = stated(res.End, at)
		t.ended = &res
		if !ev.replayed() || !ev.ToolResult.End.Time.IsZero() {
			o.closeTool(t)
			return
		}
		res.Result = bytes.Clone(res.Result)
		if res.Truncated != nil {
			res.Truncated = new(*res.Truncated)
		}
	case *CompactionStarted:
		o.endCompaction()
		c := ev.Compaction
		c.Start = stated(c.Start, at)
		o.compaction, o.compacts = o.startCompaction(c), cmp.Or(c.Kind, spans.CompactionKindSummary)
	case *CompactionEnded:
		c := o.compaction
		if c != nil && (ev.Kind == "" || ev.Kind == o.compacts) {
			o.compaction = nil
		} else {
			whole := ev.Compaction
			whole.Start = stated(whole.Start, at)
			c = o.startCompaction(whole)
		}
		res := ev.CompactionResult
		res.End = stated(res.End, at)
		c.End(res)
	case *PermissionEvaluated:
		e := ev.PermissionEvaluation
		e.End = stated(e.End, at)
		start := at
		start.Time = start.Time.Add(-max(e.Wait, 0))
		e.Start = stated(e.Start, start)
		for i, q := range o.asked {
			if q.call == e.CallID && (q.call != "" || q.tool == e.Tool) { // names may be learned later
				o.asked = slices.Delete(o.asked, i, i+1)
				q.asking.End(e)
				return
			}
		}
		about, ctx := o.about(&e)
		writer.Decide(ctx, about, e)
	case *PermissionAsked:
		if len(o.asked) == maxOpenTools {
			o.asked[0].asking.End(PermissionEvaluation{End: o.clock.end()})
			o.asked = slices.Delete(o.asked, 0, 1)
		}
		e := ev.PermissionEvaluation
		e.Start, e.Action = stated(e.Start, at), cmp.Or(e.Action, spans.ActionAsk)
		about, ctx := o.about(&e)
		o.asked = append(o.asked, openAsk{e.CallID, e.Tool, writer.Ask(ctx, about, e)})
	case *UserAsked:
		o.turn.AskUser()
	case *UserAnswered:
		o.turn.UserAnswered()
	case *AttemptDiscarded:
		d := ev.DiscardedAttempt
		d.At = stated(d.At, at)
		o.openTurn().Discard(d)
	case *DefectFound:
		o.run.Defect(ev.Code, ev.Detail)
	case *Other:
		o.note(ev.Type, ev.Body, at)
	}
}

// openTurn returns the open turn of the run; one of which the start was not seen is the run's next.
func (o *openRun) openTurn() *writer.Turn {
	if o.turn == nil {
		o.turnCtx, o.turn = o.run.StartTurn(o.ctx, TurnInfo{Start: o.clock.end()})
	}
	return o.turn
}

// endInTurn ends what is open in the turn because no end was reported, and the questions that nobody will answer.
func (o *openRun) endInTurn() {
	for _, q := range o.asked {
		q.asking.End(PermissionEvaluation{End: o.clock.end()})
	}
	if o.asked = nil; o.turn != nil {
		o.endWork()
	}
}

// closeTurn ends the open turn because no end was reported.
func (o *openRun) closeTurn() {
	o.endInTurn()
	o.turn.End(TurnResult{End: o.clock.end()})
	o.turn = nil
}

func (o *openRun) startTool(call ToolCall) *openTool {
	if len(o.tools) == maxOpenTools {
		o.closeTool(o.tools[0])
	}
	t := &openTool{id: call.ID, name: call.Name, start: call.Start.Time}
	in, ctx := o.inner()
	t.ctx, t.tool = in.StartTool(ctx, call)
	o.tools = append(o.tools, t)
	return t
}

// running returns the call of that id whose end was not reported; nil when there is none. Where loops use an id again
// before its call is over, it is the last to start, of those with that name if there are any.
func (o *openRun) running(id, name string) (found *openTool) {
	for _, t := range slices.Backward(o.tools) {
		switch {
		case t.id != id || t.ended != nil:
		case t.name == name:
			return t
		case found == nil:
			found = t
		}
	}
	return found
}

// closeTool ends a call: with its reported outcome, if there is one, else as closed at the last time seen.
func (o *openRun) closeTool(t *openTool) {
	t.tool.End(*cmp.Or(t.ended, &ToolResult{End: o.clock.end()}))
	o.tools = slices.DeleteFunc(o.tools, func(x *openTool) bool { return x == t })
}

// endWork ends tool calls and the compaction because no end was reported.
func (o *openRun) endWork() {
	for len(o.tools) > 0 {
		o.closeTool(o.tools[0])
	}
	o.endCompaction()
}

func (o *openRun) startCompaction(c Compaction) *writer.Compacting {
	in, ctx := o.inner()
	_, started := in.StartCompaction(ctx, c)
	return started
}

func (o *openRun) endCompaction() {
	o.compaction.End(CompactionResult{End: o.clock.end()})
	o.compaction = nil
}

// starter is a handle in which tool calls and compactions start: a run or a turn.
type starter interface {
	writer.Handle
	StartTool(context.Context, ToolCall) (context.Context, *writer.Tool)
	StartCompaction(context.Context, Compaction) (context.Context, *writer.Compacting)
}

// inner returns the open turn, or the run without one.
func (o *openRun) inner() (starter, context.Context) {
	if o.turn != nil {
		return o.turn, o.turnCtx
	}
	return o.run, o.ctx
}

// about returns the handle that a permission belongs to.
func (o *openRun) about(e *PermissionEvaluation) (writer.Handle, context.Context) {
	if t := o.running(e.CallID, e.Tool); t != nil && e.CallID != "" {
		return t.tool, t.ctx
	}
	return o.inner()
}

// note keeps an event on the innermost open span: the compaction, the only open tool call, the turn, the run.
func (o *openRun) note(typ string, body []byte, at Moment) {
	var in writer.Handle
	switch in, _ = o.inner(); {
	case o.compaction != nil:
		in = o.compaction
	case len(o.tools) == 1 && o.tools[0].ended == nil:
		in = o.tools[0].tool
	}
	writer.Note(in, typ, body, at)
}

// endInside ends what is open of the run because no end was reported.
func (o *openRun) endInside() {
	o.closeTurn()
	o.endWork()
}

// close ends the run and what is open of it because no end was reported.
func (o *openRun) close() {
	o.endInside()
	o.run.End(RunResult{End: o.clock.end()})
}
