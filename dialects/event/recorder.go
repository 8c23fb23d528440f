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

// Recorder turns the events of any number of runs into spans, by driving the handles of a Tracer. Safe for concurrent
// use; the events of one run must come in their order.
//
// What comes for a run that has ended is late: it is counted as lost and changes nothing, unless it begins something,
// which only another run of that id can have done.
//
// Limits: 4,096 open runs and 256 open groups, and 1,024 open tool calls a run; beyond them the Recorder ends the
// oldest. The last 256 runs that ended are known as such.
type Recorder struct {
	tracer *writer.Tracer // nil after Close
	// live and replay are the sources of events that arrived now, and of others.
	live, replay writer.Source

	mu     sync.Mutex
	open   []*openRun   // by start; runs of one id may be open in several sessions
	ended  []runName    // by end
	groups []*openGroup // by start
	last   time.Time    // the latest time of any run of this input
	// written is when this input was; zero where that is not known.
	written time.Time
	// inferred is what is known of the runs of this input whose start was not seen.
	inferred RunInfo
	lost     int64
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
	r := &Recorder{tracer: (*writer.Tracer)(t)}
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tracer == nil {
		return
	}
	switch ev := ev.(type) {
	case *RunStarted:
		info := ev.RunInfo
		info.ID, info.SessionID = cmp.Or(info.ID, ev.Run), cmp.Or(info.SessionID, ev.Session)
		if old := r.find(runName{info.SessionID, info.ID}); old != nil {
			r.close(old)
		}
		group := r.groupOf(&info)
		if parent := r.spawner(&info); parent != nil && group == nil {
			ctx = parent.ctx
		}
		o, _ := r.start(ctx, &ev.Meta, info, group, time.Time{})
		r.seen(o)
	case *RunEnded:
		res := ev.RunResult
		o, at := r.runOf(ctx, ev)
		if o == nil {
			return
		}
		o.endInside()
		if res.Status == "" && res.Rejected {
			res.Status = spans.RunStatusRejected
		}
		res.End = stated(res.End, at)
		o.run.End(res)
		r.seen(o)
		r.open = slices.DeleteFunc(r.open, func(x *openRun) bool { return x == o })
		if len(r.ended) == maxEnded {
			r.ended = slices.Delete(r.ended, 0, 1)
		}
		r.ended = append(r.ended, o.runName)
	case *GroupStarted:
		if len(r.groups) == maxOpenGroups {
			r.groups[0].group.EndGroup(GroupResult{End: r.groups[0].clock.end()})
			r.groups = slices.Delete(r.groups, 0, 1)
		}
		info := ev.GroupInfo
		info.SessionID = cmp.Or(info.SessionID, ev.Session)
		r.groups = append(r.groups, r.startGroup(ctx, &ev.Meta, info))
	case *GroupEnded:
		var g *openGroup // the last to start of several
		for _, x := range r.groups {
			if (ev.Session == "" || x.session == ev.Session) &&
				(ev.SelectedID == "" || slices.Contains(x.members, ev.SelectedID)) {
				g = x
			}
		}
		if g == nil {
			g = r.startGroup(ctx, &ev.Meta, GroupInfo{SessionID: ev.Session, Inferred: true})
		}
		res := ev.GroupResult
		res.End = stated(res.End, g.clock.at(&ev.Meta, time.Time{}))
		g.group.EndGroup(res)
		r.groups = slices.DeleteFunc(r.groups, func(x *openGroup) bool { return x == g })
	case *FactStated: // at their own times, else at that of the event, else when it arrived or after all that was seen
		facts := slices.Clone(ev.Facts)
		c := r.floor(&ev.Meta)
		for i := range facts {
			facts[i].At = stated(facts[i].At, c.at(&ev.Meta, time.Time{}))
		}
		session := ev.Session
		if _, last := r.innermost("", ""); last != nil {
			session = cmp.Or(session, last.session)
		}
		if n := len(r.ended); n > 0 {
			session = cmp.Or(session, r.ended[n-1].session)
		}
		if session == "" {
			r.lose(&ev.Meta)
			return
		}
		info := writer.RunInfo{SessionID: session, Dialect: ev.Dialect, Recording: ev.Recording}
		r.tracer.StateFacts(r.in(ctx, &ev.Meta), info, facts...)
	default:
		if o, at := r.runOf(ctx, ev); o != nil {
			o.take(ev, at)
			r.seen(o)
		}
	}
}

// NextInput says that what comes next is read from another input, such as the next file: its untimed events are not
// known to be later than what was recorded before. Runs stay open, and may go on in it. Written is when it was: what
// comes before any time is known is taken to have happened then. With the zero time it happened at the beginning of
// 1970. Inferred is what is known of runs whose start is not in it, such as the agent.
func (r *Recorder) NextInput(written time.Time, inferred RunInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.written, r.inferred = time.Time{}, written, inferred
}

// Close ends what is open as closed by the tracer, each run at the last time seen of it. Record does nothing
// afterwards. The context is not used yet. Closing twice does nothing.
func (r *Recorder) Close(context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range slices.Backward(r.open) { // sub-agents before the runs that spawned them
		o.close()
	}
	for _, g := range r.groups {
		g.group.EndGroup(GroupResult{End: g.clock.end()})
	}
	r.tracer, r.open, r.ended, r.groups = nil, nil, nil, nil
}

// Lost returns how many events had no place: they named no run and none was open, or they named one that had ended.
func (r *Recorder) Lost() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// lose counts an event that has no place.
func (r *Recorder) lose(m *Meta) {
	r.lost++
	r.tracer.Late(r.in(context.Background(), m))
}

// start starts the run and remembers it as open. It returns when the event with m, whose message states the time in,
// happened.
func (r *Recorder) start(ctx context.Context, m *Meta, info RunInfo, g *openGroup, in time.Time) (*openRun, Moment) {
	o := &openRun{runName: runName{info.SessionID, info.ID}, parent: info.ParentID, parentSession: info.ParentSessionID,
		group: g}
	o.clock = r.floor(m)
	at := o.clock.at(m, in)
	o.clock.seen(info.Start.Time)
	info.Start = stated(info.Start, at)
	if g != nil {
		ctx = g.ctx
	}
	if len(r.open) == maxOpenRuns {
		r.close(r.open[0])
	}
	o.ctx, o.run = r.tracer.StartRun(r.in(ctx, m), info)
	r.open = append(r.open, o)
	r.ended = slices.DeleteFunc(r.ended, o.is)
	return o, at
}

// find returns the open run of that name, the last to start of several, or nil.
func (r *Recorder) find(n runName) *openRun {
	for _, o := range slices.Backward(r.open) {
		if o.is(n) {
			return o
		}
	}
	return nil
}

// floor is the clock of a run that begins with m. An untimed first event is known not to precede the last time in the
// input before it. Where the input has none, that is assumed to be when the input was written.
func (r *Recorder) floor(m *Meta) clock {
	if !m.replayed() {
		return clock{}
	}
	return clock{last: cmp.Or(r.last, r.written), assumed: r.last.IsZero() && !r.written.IsZero()}
}

// spawner returns the tool call that certainly spawned the run: its parent is open with exactly that call open. In a
// ledger that says nothing: what is open there is what its file does not have yet.
func (r *Recorder) spawner(info *RunInfo) *openTool {
	if info.Continuation != "" && info.Continuation != spans.ContinuationInitial ||
		info.Recording == spans.RecordingLedger && info.ParentToolCallID != "" {
		return nil
	}
	parent := r.find(runName{cmp.Or(info.ParentSessionID, info.SessionID), info.ParentID})
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

// about returns what the Recorder needs to place an event: the tool call that it names, the time in its message, and
// whether it begins something, as late events do not.
func about(ev Event) (call string, inside time.Time, begins bool) {
	switch ev := ev.(type) {
	case *TurnStarted, *RequestPrepared, *ToolStarted, *CompactionStarted:
		begins = true
	case *RunEnded:
		begins = ev.Status == spans.RunStatusVetoed // an end is all that there is of such a run
	case *MessageAdded:
		call, inside = ev.ToolCallID, ev.Message.Time
	case *ReplyReceived:
		inside = ev.Message.Time
	case *ToolProgressed:
		call = ev.CallID
	case *ToolEnded:
		call = ev.CallID
	case *PermissionEvaluated:
		call = ev.CallID
	case *PermissionAsked:
		call = ev.CallID
	}
	return call, inside, begins
}

// runOf returns the open run of an event, and when that happened. An event that names no run belongs to the innermost
// one, where the open runs of its session spawned each other; one that needs no certainty to the last run or group that
// started. Where the run that an event names is not open, the Recorder infers it, unless the event is late: of a run
// that has ended, and none with which another one begins. RunOf returns nil when it counted the event as lost or kept
// it on a group.
func (r *Recorder) runOf(ctx context.Context, ev Event) (o *openRun, at Moment) {
	m := ev.meta()
	call, inside, begins := about(ev)
	var last *openRun
	if m.Run == "" {
		o, last = r.innermost(m.Session, call)
	} else if o = r.find(m.name()); o == nil {
		if !begins && slices.ContainsFunc(r.ended, m.name().is) {
			r.lose(m)
			return nil, at
		}
		_, ends := ev.(*RunEnded)
		info := r.inferred
		info.SessionID, info.ID, info.Inferred = m.Session, m.Run, !begins || !ends
		group := r.groupOf(&info)
		return r.start(ctx, m, info, group, inside)
	}
	if o != nil {
		return o, o.clock.at(m, inside)
	}
	other, isOther := ev.(*Other)
	_, isDefect := ev.(*DefectFound)
	switch {
	case last != nil && isDefect: // it happened at no time of the run
		return last, at
	case last != nil && isOther:
		return last, last.clock.at(m, inside)
	}
	for _, g := range slices.Backward(r.groups) {
		if isOther && (m.Session == "" || m.Session == g.session) {
			writer.Note(g.group, other.Type, other.Body, g.clock.at(m, time.Time{}))
			return nil, at
		}
	}
	r.lose(m)
	return nil, at
}

// innermost returns the open run that an event belongs to which names none: the only one with that call open; else, if
// every other one is among those that the last one to start continues or was spawned by, the last of those with that
// call, or the last. Nil where that is not certain. Last is the open run of the session that started last; nil without
// one. An empty session is any.
func (r *Recorder) innermost(session, call string) (certain, last *openRun) {
	var owner *openRun
	var above runName // of which the run before is the child; no run may have no id
	owners, others, n := 0, 0, 0
	for _, o := range slices.Backward(r.open) {
		chained := above.id != "" && o.is(above)
		if session == "" || o.session == session {
			if n++; n == 1 {
				last, chained = o, true
			}
			if !chained {
				others++
			}
			if call != "" && o.running(call, "") != nil {
				owner = cmp.Or(owner, o)
				owners++
			}
		}
		if chained {
			above = runName{cmp.Or(o.parentSession, o.session), o.parent}
		}
	}
	switch {
	case owners == 1:
		return owner, last
	case others > 0, n > 1 && above.id != "" && r.find(above) != nil: // the last is a ring
		return nil, last
	}
	return cmp.Or(owner, last), last
}

// seen moves the time of the whole input on to that of a run, and that of its group.
func (r *Recorder) seen(o *openRun) {
	if o.clock.assumed {
		return
	}
	if o.clock.last.After(r.last) {
		r.last = o.clock.last
	}
	if o.group != nil {
		o.group.clock.seen(o.clock.last)
	}
}

// close ends a run because no end was reported.
func (r *Recorder) close(o *openRun) {
	o.close()
	r.open = slices.DeleteFunc(r.open, func(x *openRun) bool { return x == o })
}

// openGroup is a parallel group whose end was not seen yet.
type openGroup struct {
	session string
	members []string
	begun   bool // a member started
	judged  bool // its judge started
	ctx     context.Context
	group   *writer.Run
	clock   clock
}

func (r *Recorder) startGroup(ctx context.Context, m *Meta, info GroupInfo) *openGroup {
	g := &openGroup{session: info.SessionID, members: slices.Clone(info.Members)}
	g.clock = r.floor(m)
	info.Start = stated(info.Start, g.clock.at(m, time.Time{}))
	g.ctx, g.group = r.tracer.StartGroup(r.in(ctx, m), info)
	return g
}

// groupOf returns the group that a starting run belongs to: as a member by its id, or as the judge when it has no
// parent and exactly one group of its session waits for a judge.
func (r *Recorder) groupOf(info *RunInfo) *openGroup {
	var only *openGroup
	waiting := 0
	for _, g := range slices.Backward(r.groups) {
		// While a member is at work nothing can be judged.
		open := slices.ContainsFunc(r.open, func(o *openRun) bool { return o.group == g })
		switch {
		case g.session != info.SessionID:
		case slices.Contains(g.members, info.ID):
			g.begun = true
			return g
		case g.begun && !g.judged && !open:
			only = g
			waiting++
		}
	}
	if waiting != 1 || info.ParentID != "" {
		return nil
	}
	only.judged = true
	return only
}
