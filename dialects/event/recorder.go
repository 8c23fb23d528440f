package event

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
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
// What comes for a run that has ended is late: it is counted as lost and changes nothing, unless it begins something,
// which only another run of that id can have done.
//
// Limits: 4,096 open runs and 256 open groups, and 1,024 open tool calls a run; beyond them the Recorder ends the
// oldest. The last 256 runs that ended are known as such.
type Recorder struct {
	tracer *writer.Tracer
	// live and replay are the sources of events that arrived now, and of others.
	live, replay writer.Source

	mu     sync.Mutex
	closed bool
	open   map[string][]*openRun // by run id, which sessions may share; by start
	order  []*openRun            // by start
	ended  []runName             // by end
	groups []*openGroup          // by start
	last   time.Time             // the latest time of any run of this input
	// written is when this input was; zero where that is not known.
	written time.Time
	lost    int64
}

// Option configures a Recorder.
type Option func(*Recorder)

// WithReplayMetrics also measures runs that are read from files: those whose RunInfo.Recording says so, and those whose
// events have no Meta.Arrived. Default: they give no metrics, which count what happens now. A run that a session took
// over from another one (RunInfo.Copied) never gives any.
func WithReplayMetrics() Option {
	return func(r *Recorder) { r.live.Measured, r.replay.Measured = true, true }
}

// WithIDs sets what makes the ids of sessions and runs that come without one: next is called for each, from any
// goroutine, and must return another id every time. It is for those who read the same input again and want the same
// ids. Default, and with nil: 128 random bits.
func WithIDs(next func() string) Option {
	return func(r *Recorder) { r.live.NewID, r.replay.NewID = next, next }
}

// NewRecorder returns a Recorder that writes with t. It never fails and never returns nil; with a nil Tracer it does
// nothing.
func NewRecorder(t *otelagent.Tracer, opts ...Option) *Recorder {
	r := &Recorder{tracer: (*writer.Tracer)(t), open: make(map[string][]*openRun)}
	r.replay.Replayed = true
	for _, o := range opts {
		o(r)
	}
	return r
}

// in returns ctx for what the event with m starts.
func (r *Recorder) in(ctx context.Context, m *Meta) context.Context {
	if m.Arrived.IsZero() {
		return writer.WithSource(ctx, &r.replay)
	}
	return writer.WithSource(ctx, &r.live)
}

// Record takes one event. It keeps nothing of it. A run is started as a child of the span in ctx as
// [otelagent.Tracer.StartRun] does it; for all other events ctx is not used. After Close it does nothing.
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
	case *FactStated:
		r.factStated(ctx, ev)
	default:
		r.inRun(ctx, ev)
	}
}

// NextInput says that what comes next is read from another input, such as the next file: its untimed events are not
// known to be later than what was recorded before. Runs stay open, and may go on in it. Written is when it was: what
// comes before any time is known is taken to have happened then. With the zero time it happened at the beginning of
// 1970.
func (r *Recorder) NextInput(written time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.written = time.Time{}, written
}

// Close ends what is open as closed by the tracer, each run at the last time seen of it. Record does nothing
// afterwards. The context is not used yet. Closing twice does nothing.
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

// lose counts an event that has no place.
func (r *Recorder) lose(m *Meta) {
	r.lost++
	r.tracer.Late(r.in(context.Background(), m))
}

func (r *Recorder) runStarted(ctx context.Context, ev *RunStarted) {
	info := ev.RunInfo
	if info.ID == "" {
		info.ID = ev.Run
	}
	if info.SessionID == "" {
		info.SessionID = ev.Session
	}
	o := &openRun{runName: runName{info.SessionID, info.ID}, parent: info.ParentID, parentSession: info.ParentSessionID}
	if old := r.find(o.runName); old != nil {
		r.close(old)
	}
	o.clock.last, o.clock.assumed = r.floor(&ev.Meta)
	at := o.clock.at(&ev.Meta, time.Time{})
	info.Start = stated(info.Start, at)
	o.clock.began(info.Start.Time)
	if o.group = r.groupOf(&info); o.group != nil {
		ctx = o.group.ctx
	} else if parent := r.spawner(&info); parent != nil {
		ctx = parent.ctx
	}
	r.start(r.in(ctx, &ev.Meta), o, info)
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

// late reports whether the run of that name has ended, as its loop reported. It is only asked where no such run is
// open.
func (r *Recorder) late(n runName) bool { return slices.ContainsFunc(r.ended, n.is) }

// floor is the time that an untimed first event of a run is known not to precede: the last time in the input before it.
// Where the input has none, it is assumed to be when the input was written.
func (r *Recorder) floor(m *Meta) (last time.Time, assumed bool) {
	switch {
	case !m.replayed():
		return time.Time{}, false
	case r.last.IsZero():
		return r.written, !r.written.IsZero()
	}
	return r.last, false
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
	var o *openRun
	if ev.Run == "" {
		if o = r.innermost(ev.Session, ""); o == nil {
			r.lose(&ev.Meta)
			return
		}
	} else {
		o = r.find(ev.name())
	}
	if o == nil {
		vetoed := res.Status == spans.RunStatusVetoed // an end is all that there is of such a run
		if !vetoed && r.late(ev.name()) {
			r.lose(&ev.Meta)
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
	r.seen(o)
	r.forget(o)
	if len(r.ended) == maxEnded {
		r.ended = slices.Delete(r.ended, 0, 1)
	}
	r.ended = append(r.ended, o.runName)
}

// infer starts a run of which the start was not seen, or which never began.
func (r *Recorder) infer(ctx context.Context, m *Meta, inside time.Time, inferred bool) *openRun {
	o := &openRun{runName: m.name()}
	o.clock.last, o.clock.assumed = r.floor(m)
	c := o.clock
	info := RunInfo{SessionID: m.Session, ID: m.Run, Start: c.at(m, inside), Inferred: inferred}
	if o.group = r.memberOf(&info); o.group != nil {
		ctx = o.group.ctx
	}
	r.start(r.in(ctx, m), o, info)
	return o
}

// inRun takes an event that belongs to an open run; where there is none, one is inferred, unless the event is late.
func (r *Recorder) inRun(ctx context.Context, ev Event) {
	m, inside := ev.meta(), timeInside(ev)
	if m.Run == "" {
		r.unnamed(ev, inside)
		return
	}
	o := r.find(m.name())
	if o == nil {
		if !begins(ev) && r.late(m.name()) {
			r.lose(m)
			return
		}
		o = r.infer(ctx, m, inside, true)
	}
	o.take(ev, o.clock.at(m, inside))
	r.seen(o)
}

// unnamed takes an event that names no run: it belongs to the run that is open, the innermost one where the open runs
// of its session spawned each other. Where that is not certain only what needs no certainty is kept, on the last run or
// group that started.
func (r *Recorder) unnamed(ev Event, inside time.Time) {
	m := ev.meta()
	if o := r.innermost(m.Session, callOf(ev)); o != nil {
		o.take(ev, o.clock.at(m, inside))
		r.seen(o)
		return
	}
	switch ev := ev.(type) {
	case *Other:
		r.homeless(m, ev.Type, ev.Body)
	case *ToolProgressed:
		r.homeless(m, ev.Type, ev.Body)
	case *DefectFound:
		for _, o := range slices.Backward(r.order) {
			if m.Session == "" || m.Session == o.session {
				o.run.Defect(ev.Code, ev.Detail)
				return
			}
		}
		r.lose(m)
	default:
		r.lose(m)
	}
}

// callOf is the tool call that an event names, empty when it names none.
func callOf(ev Event) string {
	switch ev := ev.(type) {
	case *ToolProgressed:
		return ev.CallID
	case *ToolEnded:
		return ev.CallID
	case *PermissionEvaluated:
		return ev.CallID
	case *PermissionAsked:
		return ev.CallID
	case *MessageAdded:
		return ev.ToolCallID
	}
	return ""
}

// innermost returns the open run that an event belongs to which names none: the only one with that call open; else, if
// every other one is among those that the last one to start continues or was spawned by, the last of those with that
// call, or the last. Nil where that is not certain.
func (r *Recorder) innermost(session, call string) *openRun {
	in := func(o *openRun) bool { return session == "" || o.session == session }
	var last, owner *openRun
	owners, n := 0, 0
	for _, o := range r.order {
		if !in(o) {
			continue
		}
		n++
		last = o
		if call != "" && o.running(call, "") != nil {
			owner = o
			owners++
		}
	}
	switch {
	case owners == 1:
		return owner
	case n <= 1:
		return last
	}
	steps := 0
	for at := last; at != nil; steps++ {
		if steps == len(r.order) { // a ring
			return nil
		}
		if in(at) {
			n--
		}
		if at.parent == "" { // runs may have no id: that is not one of them
			break
		}
		at = r.find(runName{cmp.Or(at.parentSession, at.session), at.parent})
	}
	switch {
	case n > 0:
		return nil
	case owner != nil:
		return owner
	}
	return last
}

// factStated states facts at their own times, else at that of the event, else when it arrived or after all that was
// seen.
func (r *Recorder) factStated(ctx context.Context, ev *FactStated) {
	facts := slices.Clone(ev.Facts)
	var c clock
	c.last, c.assumed = r.floor(&ev.Meta)
	for i := range facts {
		facts[i].At = stated(facts[i].At, c.at(&ev.Meta, time.Time{}))
	}
	session := ev.Session
	if session == "" { // that of the run that started last, of those that are open
		for _, o := range r.order {
			session = o.session
		}
	}
	if session == "" {
		if n := len(r.ended); n > 0 {
			session = r.ended[n-1].session
		}
	}
	if session == "" {
		r.lose(&ev.Meta)
		return
	}
	info := writer.SessionInfo{SessionID: session, Dialect: ev.Dialect, Recording: ev.Recording}
	r.tracer.StateFacts(r.in(ctx, &ev.Meta), info, facts...)
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
	if o.clock.last.After(r.last) && !o.clock.assumed {
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

// homeless keeps an event that names no run: on the run that started last, else on the group that did, of those that
// are open in its session when it names one.
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
	r.lose(m)
}

// close ends a run because no end was reported.
func (r *Recorder) close(o *openRun) {
	o.close()
	r.forget(o)
}

func (r *Recorder) forget(o *openRun) {
	same := func(x *openRun) bool { return x == o }
	if r.open[o.id] = slices.DeleteFunc(r.open[o.id], same); len(r.open[o.id]) == 0 {
		delete(r.open, o.id)
	}
	r.order = slices.DeleteFunc(r.order, same)
}
