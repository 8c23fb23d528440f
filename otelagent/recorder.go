package otelagent

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/otelagent/otelagent/spans"
)

// Bounds of what a Recorder holds open.
const (
	maxOpenRuns   = 4096
	maxOpenGroups = 256
	maxOpenTools  = 1024 // of one run
	maxEnded      = 256
)

// Recorder turns the events of any number of runs into spans, by driving the handles of a Tracer. The nil Recorder does
// nothing. Safe for concurrent use; the events of one run must come in their order.
//
// What comes for a run that has ended is late: it is counted as lost and changes nothing, unless it begins something, which
// only another run of that id can have done.
//
// Limits: 4,096 open runs and 256 open groups, and 1,024 open tool calls a run; beyond them the oldest is ended by us. The last
// 256 runs that ended are known as such.
type Recorder struct {
	tracer *Tracer

	mu     sync.Mutex
	closed bool
	open   map[string][]*openRun // by run id, which sessions may share; by start
	order  []*openRun            // by start
	ended  []runName             // by end
	groups []*openGroup          // by start
	last   time.Time             // the latest time of any run
	lost   int64
}

// runName is how a producer names a run. Session is empty where it is not told.
type runName struct{ session, id string }

// is reports whether two names may be of one run.
func (n runName) is(other runName) bool {
	return n.id == other.id && (n.session == other.session || n.session == "" || other.session == "")
}

func (m *Meta) name() runName { return runName{m.Session, m.Run} }

// openRun is a run whose end was not seen yet.
type openRun struct {
	runName
	ctx        context.Context
	run        *Run
	group      *openGroup // that it is a member or the judge of, or nil
	clock      clock
	turn       *openTurn
	tools      []*openTool // by start
	compaction *Compacting
}

type openTurn struct {
	ctx  context.Context
	turn *Turn
}

type openTool struct {
	id, name string
	ctx      context.Context
	tool     *Tool
	start    time.Time
	// ended is the result of a call that is over at a time yet to be learned from its message; nil before.
	ended *ToolResult
}

// NewRecorder returns a Recorder that writes with t. It never fails and never returns nil; with a nil Tracer it does
// nothing.
func NewRecorder(t *Tracer) *Recorder {
	return &Recorder{tracer: t, open: make(map[string][]*openRun)}
}

// Record takes one event. It keeps nothing of it. A run is started as a child of the span in ctx as [Tracer.StartRun] does
// it; for all other events ctx is not used. After Close it does nothing.
func (r *Recorder) Record(ctx context.Context, ev Event) {
	if r == nil || r.tracer == nil || ev == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	switch ev := ev.(type) {
	case *RunStarted:
		r.runStarted(ctx, ev)
	case *RunEnded:
		r.runEnded(ctx, ev)
	case *GroupStarted:
		r.groupStarted(ctx, ev)
	case *GroupEnded:
		r.groupEnded(ctx, ev)
	default:
		r.inRun(ctx, ev)
	}
}

// Close ends what is open as ended by us, each run at the last time seen of it. Record does nothing afterwards. The context
// is not used yet. Closing twice does nothing.
func (r *Recorder) Close(context.Context) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	for _, o := range slices.Backward(r.order) { // sub-agents before the runs that spawned them
		o.close()
	}
	for _, g := range r.groups {
		g.close()
	}
	r.open, r.order, r.ended, r.groups = nil, nil, nil, nil
}

// Lost returns how many events had no place: they named no run and none was open, or they named one that had ended.
func (r *Recorder) Lost() int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

func (r *Recorder) runStarted(ctx context.Context, ev *RunStarted) {
	info := ev.RunInfo
	if info.ID == "" {
		info.ID = ev.Run
	}
	if info.SessionID == "" {
		info.SessionID = ev.Session
	}
	o := &openRun{runName: runName{info.SessionID, info.ID}}
	if old := r.find(o.runName); old != nil {
		r.close(old)
	}
	o.clock.last = r.floor(&ev.Meta)
	at := o.clock.at(&ev.Meta, time.Time{})
	info.Start = stated(info.Start, at)
	if o.group = r.groupOf(&info); o.group != nil {
		ctx = o.group.ctx
	} else if parent := r.spawner(&info); parent != nil {
		ctx = parent.ctx
	}
	r.start(ctx, o, info)
	r.seen(o)
}

// start starts the run and remembers it as open.
func (r *Recorder) start(ctx context.Context, o *openRun, info RunInfo) {
	if len(r.order) == maxOpenRuns {
		r.close(r.order[0])
	}
	o.ctx, o.run = r.tracer.StartRun(ctx, info)
	r.open[o.id] = append(r.open[o.id], o)
	r.order = append(r.order, o)
	r.ended = slices.DeleteFunc(r.ended, o.is)
}

// find returns the open run of that name, the last to start of several, or nil.
func (r *Recorder) find(n runName) *openRun {
	for _, o := range slices.Backward(r.open[n.id]) {
		if o.is(n) {
			return o
		}
	}
	return nil
}

// late reports whether the run of that name has ended, as its loop told. It is only asked where no such run is open.
func (r *Recorder) late(n runName) bool { return slices.ContainsFunc(r.ended, n.is) }

// floor is the time that an untimed first event of a run is known not to precede.
func (r *Recorder) floor(m *Meta) time.Time {
	if m.replayed() {
		return r.last
	}
	return time.Time{}
}

// spawner returns the tool call that certainly spawned the run: its parent is open with exactly that call open.
func (r *Recorder) spawner(info *RunInfo) *openTool {
	if info.Continuation != "" && info.Continuation != spans.ContinuationInitial {
		return nil
	}
	session := info.ParentSessionID
	if session == "" {
		session = info.SessionID
	}
	parent := r.find(runName{session, info.ParentID})
	if info.ParentID == "" || parent == nil {
		return nil
	}
	var only *openTool
	for _, t := range parent.tools {
		if t.ended != nil || t.tool == nil {
			continue
		}
		if only != nil {
			return nil
		}
		only = t
	}
	return only
}

func (r *Recorder) runEnded(ctx context.Context, ev *RunEnded) {
	res := ev.RunResult
	o := r.find(ev.name())
	if o == nil {
		vetoed := res.Status == spans.RunStatusVetoed // an end is all that there is of such a run
		if !vetoed && r.late(ev.name()) {
			r.lost++
			return
		}
		o = r.infer(ctx, &ev.Meta, time.Time{}, !vetoed)
	}
	at := o.clock.at(&ev.Meta, time.Time{})
	o.endTurn(o.clock.end())
	o.endTools()
	o.endCompaction()
	if res.Status == "" && res.Rejected {
		res.Status = spans.RunStatusRejected
	}
	res.End = stated(res.End, at)
	o.run.End(res)
	r.forget(o)
	if len(r.ended) == maxEnded {
		r.ended = slices.Delete(r.ended, 0, 1)
	}
	r.ended = append(r.ended, o.runName)
}

// infer starts a run of which the start was not seen, or which never began.
func (r *Recorder) infer(ctx context.Context, m *Meta, inside time.Time, inferred bool) *openRun {
	o := &openRun{runName: m.name()}
	o.clock.last = r.floor(m)
	c := o.clock
	r.start(ctx, o, RunInfo{SessionID: m.Session, ID: m.Run, Start: c.at(m, inside), Inferred: inferred})
	return o
}

// inRun takes an event that belongs to an open run; where there is none, one is inferred, unless the event is late.
func (r *Recorder) inRun(ctx context.Context, ev Event) {
	m, inside := ev.meta(), timeInside(ev)
	if m.Run == "" {
		switch ev := ev.(type) {
		case *Other:
			r.homeless(m, ev.Type, ev.Body)
		case *ToolProgressed:
			r.homeless(m, ev.Type, ev.Body)
		default:
			r.lost++
		}
		return
	}
	o := r.find(m.name())
	if o == nil {
		if !begins(ev) && r.late(m.name()) {
			r.lost++
			return
		}
		o = r.infer(ctx, m, inside, true)
	}
	o.take(ev, o.clock.at(m, inside))
	r.seen(o)
}

// begins reports whether the event begins something, as late ones do not.
func begins(ev Event) bool {
	switch ev.(type) {
	case *TurnStarted, *RequestPrepared, *ToolStarted, *CompactionStarted:
		return true
	}
	return false
}

// seen moves the time of the whole input on to that of a run, and that of its group.
func (r *Recorder) seen(o *openRun) {
	if o.clock.last.After(r.last) {
		r.last = o.clock.last
	}
	if o.group != nil {
		o.group.clock.seen(o.clock.last)
	}
}

// timeInside is the time in the message of an event, zero without one.
func timeInside(ev Event) time.Time {
	switch ev := ev.(type) {
	case *MessageAdded:
		return ev.Message.Time
	case *ReplyReceived:
		return ev.Message.Time
	}
	return time.Time{}
}

// homeless keeps an event that names no run: on the run that started last, else on the group that did, of those that are open
// in its session when it names one.
func (r *Recorder) homeless(m *Meta, typ string, body []byte) {
	for _, o := range slices.Backward(r.order) {
		if m.Session == "" || m.Session == o.session {
			o.note(typ, body, o.clock.at(m, time.Time{}))
			r.seen(o)
			return
		}
	}
	for _, g := range slices.Backward(r.groups) {
		if m.Session == "" || m.Session == g.session {
			g.group.Note(typ, body, g.clock.at(m, time.Time{}))
			return
		}
	}
	r.lost++
}

// close ends a run for want of an end.
func (r *Recorder) close(o *openRun) {
	o.close()
	r.forget(o)
}

func (r *Recorder) forget(o *openRun) {
	r.seen(o)
	same := func(x *openRun) bool { return x == o }
	if r.open[o.id] = slices.DeleteFunc(r.open[o.id], same); len(r.open[o.id]) == 0 {
		delete(r.open, o.id)
	}
	r.order = slices.DeleteFunc(r.order, same)
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
		o.endTurn(o.clock.end())
		info := ev.TurnInfo
		info.Start = stated(info.Start, at)
		o.startTurn(info)
	case *TurnEnded:
		o.turnEnded(ev, at)
	case *RequestPrepared:
		req := ev.Request
		req.At = stated(req.At, at)
		o.openTurn().Request(req)
	case *MessageAdded:
		o.messageAdded(ev, at)
	case *ReplyReceived:
		if o.turn != nil {
			o.turn.turn.Replied(at)
		}
	case *ReplyDelta: // only moves the clock
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
		o.toolEnded(ev, at)
	case *CompactionStarted:
		o.endCompaction()
		c := ev.Compaction
		c.Start = stated(c.Start, at)
		o.compaction = o.startCompaction(c)
	case *CompactionEnded:
		o.compactionEnded(ev, at)
	case *PermissionEvaluated:
		o.permission(ev, at)
	case *Other:
		o.note(ev.Type, ev.Body, at)
	}
}

func (o *openRun) startTurn(info TurnInfo) *openTurn {
	t := &openTurn{}
	t.ctx, t.turn = o.run.StartTurn(o.ctx, info)
	o.turn = t
	return t
}

// openTurn returns the open turn of the run; one of which the start was not seen is the run's next.
func (o *openRun) openTurn() *Turn {
	if o.turn == nil {
		o.startTurn(TurnInfo{Index: -1, Start: o.clock.end()})
	}
	return o.turn.turn
}

func (o *openRun) turnEnded(ev *TurnEnded, at Moment) {
	turn := o.openTurn()
	o.endTools()
	o.endCompaction()
	res := ev.TurnResult
	res.End = stated(res.End, at)
	turn.End(res)
	o.turn = nil
}

// endTurn ends what is open of a turn for want of an end.
func (o *openRun) endTurn(at Moment) {
	if o.turn == nil {
		return
	}
	o.endTools()
	o.endCompaction()
	o.turn.turn.Close(at)
	o.turn = nil
}

func (o *openRun) messageAdded(ev *MessageAdded, at Moment) {
	if t := o.answered(ev.ToolCallID); t != nil {
		end := Moment{Time: ev.Message.Time, Source: spans.TimeSourceMessage}
		if end.Time.Before(t.start) { // also when the message has none
			end = at
		}
		o.finish(t, end)
	}
	if o.turn != nil {
		o.turn.turn.AddInput(ev.Message)
	} else {
		o.run.AddMessage(ev.Message)
	}
}

func (o *openRun) startTool(call ToolCall) *openTool {
	if len(o.tools) == maxOpenTools {
		o.closeTool(o.tools[0])
	}
	t := &openTool{id: call.ID, name: call.Name, start: call.Start.Time}
	if o.turn != nil {
		t.ctx, t.tool = o.turn.turn.StartTool(o.turn.ctx, call)
	} else {
		t.ctx, t.tool = o.run.StartTool(o.ctx, call)
	}
	o.tools = append(o.tools, t)
	return t
}

// running returns the call of that id whose end was not told; nil when there is none. Where loops use an id again before its
// call is over, it is the last to start, of those with that name if there are any.
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

// answered returns the first call of that id which is over at a time yet to be learned; nil when there is none.
func (o *openRun) answered(id string) *openTool {
	for _, t := range o.tools {
		if t.id == id && t.ended != nil {
			return t
		}
	}
	return nil
}

func (o *openRun) toolEnded(ev *ToolEnded, at Moment) {
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
	if !ev.replayed() || !ev.ToolResult.End.Time.IsZero() {
		t.tool.End(res)
		o.drop(t)
		return
	}
	res.Result = bytes.Clone(res.Result)
	if res.Truncated != nil {
		res.Truncated = new(*res.Truncated)
	}
	t.ended = &res
}

// finish ends a call whose result came before its time was known.
func (o *openRun) finish(t *openTool, end Moment) {
	end.Seq = t.ended.End.Seq
	t.ended.End = end
	t.tool.End(*t.ended)
	o.drop(t)
}

// closeTool ends a call at the last time seen: as it was told, else for want of an end.
func (o *openRun) closeTool(t *openTool) {
	if t.ended != nil {
		o.finish(t, t.ended.End)
		return
	}
	t.tool.Close(o.clock.end())
	o.drop(t)
}

func (o *openRun) endTools() {
	for len(o.tools) > 0 {
		o.closeTool(o.tools[0])
	}
}

func (o *openRun) drop(t *openTool) {
	o.tools = slices.DeleteFunc(o.tools, func(x *openTool) bool { return x == t })
}

func (o *openRun) startCompaction(c Compaction) (started *Compacting) {
	if o.turn != nil {
		_, started = o.turn.turn.StartCompaction(o.turn.ctx, c)
	} else {
		_, started = o.run.StartCompaction(o.ctx, c)
	}
	return started
}

func (o *openRun) compactionEnded(ev *CompactionEnded, at Moment) {
	c := o.compaction
	if c != nil && (ev.Kind == "" || c.kind == cleanName(string(ev.Kind))) {
		o.compaction = nil
	} else {
		whole := ev.Compaction
		whole.Start = stated(whole.Start, at)
		c = o.startCompaction(whole)
	}
	res := ev.CompactionResult
	res.End = stated(res.End, at)
	c.End(res)
}

func (o *openRun) endCompaction() {
	o.compaction.Close(o.clock.end())
	o.compaction = nil
}

func (o *openRun) permission(ev *PermissionEvaluated, at Moment) {
	e := ev.PermissionEvaluation
	e.End = stated(e.End, at)
	start := at
	if e.Wait > 0 {
		start.Time = start.Time.Add(-e.Wait)
	}
	e.Start = stated(e.Start, start)
	switch t := o.running(e.CallID, e.Tool); {
	case t != nil && e.CallID != "":
		t.tool.Permission(t.ctx, e)
	case o.turn != nil:
		o.turn.turn.Permission(o.turn.ctx, e)
	default:
		o.run.Permission(o.ctx, e)
	}
}

// note keeps an event on the innermost open span: the compaction, the only open tool call, the turn, the run.
func (o *openRun) note(typ string, body []byte, at Moment) {
	switch {
	case o.compaction != nil:
		o.compaction.Note(typ, body, at)
	case len(o.tools) == 1 && o.tools[0].ended == nil:
		o.tools[0].tool.Note(typ, body, at)
	case o.turn != nil:
		o.turn.turn.Note(typ, body, at)
	default:
		o.run.Note(typ, body, at)
	}
}

// close ends the run and what is open of it for want of an end.
func (o *openRun) close() {
	o.endTurn(o.clock.end())
	o.endTools()
	o.endCompaction()
	o.run.Close(o.clock.end())
}
