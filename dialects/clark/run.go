package clark

import (
	"bytes"
	"hash/maphash"
	"slices"
	"time"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Bounds of what is remembered.
const (
	maxRuns     = 4096
	maxCalls    = 1024 // of a turn
	maxChildren = 256
)

// run is what is remembered of a run, open or ended.
type run struct {
	id, session, parentID string

	identified bool // its identity was seen; else the id was made up
	ledger     bool // told from the trajectory alone
	announced  bool // its start was told
	ended      bool

	start    place
	startAt  time.Time
	inferred bool
	headless bool   // its agent_start was not seen
	passed   bool   // another run began while a call of it was open, and does not name it
	identity []byte // as it was spelled, a copy
	callID   string // that certainly spawned it

	startExtra, identityExtra []byte // what the lines of its start have that is not clark-agent's
	stated                    bool   // some of its lines had a time

	turns  int64 // that began
	open   bool  // a turn is open: the last one
	closed bool  // its end was told from the reply at the end of an input

	attempt   int   // number of the last request of the turn; -1 without one
	thrown    bool  // the last attempt was told as discarded
	iteration int64 // of the last request; -1 without one
	asked     moment
	first     time.Duration // from the request to the first piece of its reply
	reply     reply         // of the last attempt
	before    []byte        // the reply by which the turn before ended, for want of an end

	gates     []gate // of the attempt that is prepared
	catalogue []string
	hidden    []string // of the catalogue, in the last attempt

	calls    []*call // of the turn
	batch    bool    // two calls of the turn were open at once
	children []string

	mixed bool // a defect was told that its lines are mixed with those of other runs
	odd   bool // a defect was told that turns are missing
}

// moment is the time of a line: stated, else of its arrival.
type moment struct{ stated, arrived time.Time }

func (m moment) since(before moment) time.Duration {
	switch {
	case !m.stated.IsZero() && !before.stated.IsZero():
		return m.stated.Sub(before.stated)
	case m.stated.IsZero() && before.stated.IsZero() && !m.arrived.IsZero() && !before.arrived.IsZero():
		return m.arrived.Sub(before.arrived)
	}
	return 0
}

// reply is the last reply of a turn; without raw there was none.
type reply struct {
	raw   []byte // a copy
	usage *otelagent.Usage
}

// call is a tool call of the open turn.
type call struct {
	id, name string
	args     []byte // a copy; nil when not known
	started  bool
	ended    bool
	at       moment // of its start
}

// gate is one gate's word on an attempt.
type gate struct {
	plugin string
	allow  map[string]bool
}

// openCalls returns how many calls run, and one of them.
func (r *run) openCalls() (n int, one *call) {
	for _, c := range r.calls {
		if c.started && !c.ended {
			n, one = n+1, c
		}
	}
	return n, one
}

// calling reports whether a call runs.
func (r *run) calling() bool {
	n, _ := r.openCalls()
	return n > 0
}

// call returns the first call of that id that is not over; nil when there is none.
func (r *run) call(id string) *call {
	for _, c := range r.calls {
		if c.id == id && !c.ended {
			return c
		}
	}
	return nil
}

// knows reports whether the run has a call of that id that is not over.
func (r *run) knows(id string) bool { return !r.ended && r.call(id) != nil }

func (r *run) addCall(c *call) {
	if len(r.calls) < maxCalls {
		r.calls = append(r.calls, c)
	}
}

// failed reports how the last reply failed: with error, or because it was stopped.
func (r *run) failed() (failed, cancelled bool, stop, text string) {
	if r.reply.raw == nil {
		return false, false, "", ""
	}
	m := messageOf(r.reply.raw)
	stop = stringOf(m.stopReason)
	return stop == "error" || stop == "aborted", stop == "aborted", stop, stringOf(m.errorMessage)
}

// over reports whether the run cannot go on but by asking again: its last reply failed and it is the last thing known.
func (r *run) over() bool {
	failed, _, _, _ := r.failed()
	return failed && r.open
}

var hashSeed = maphash.MakeSeed()

func hashOf(parts ...[]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	for _, p := range parts {
		_, _ = h.Write(p) // never fails
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// runs are the runs met, by id: that which started last of each.
type runs struct {
	byID  map[string]*run
	order []string // as they were put
	times map[string]time.Time
}

func (rs *runs) find(id string) *run { return rs.byID[id] }

func (rs *runs) put(r *run) {
	if rs.byID == nil {
		rs.byID, rs.times = map[string]*run{}, map[string]time.Time{}
	}
	if rs.byID[r.id] == nil {
		if len(rs.order) == maxRuns { // one that has ended, if one of the oldest has
			gone := max(slices.IndexFunc(rs.order[:window], func(id string) bool { return rs.byID[id].ended }), 0)
			delete(rs.byID, rs.order[gone])
			delete(rs.times, rs.order[gone])
			rs.order = without(rs.order, gone)
		}
		rs.order = append(rs.order, r.id)
	}
	rs.byID[r.id] = r
}

// without takes the i-th element off list. It costs what stands before it, which is little where the list is long.
func without[T any](list []T, i int) []T {
	copy(list[1:i+1], list[:i])
	clear(list[:1])
	return list[1:]
}

// newRun makes a run of an identity; nil identity: of one that has none.
func (d *Decoder) newRun(id string, identity []byte) *run {
	r := &run{id: id, attempt: -1, iteration: -1}
	if identity == nil {
		r.session = d.settings.Session
		return r
	}
	r.identified, r.identity = true, bytes.Clone(identity)
	depth := int64(0)
	membersOf(identity, func(key string, value []byte) {
		switch key {
		case "parent_run_id":
			r.parentID = stringOf(value)
		case "conversation_id":
			r.session = stringOf(value)
		case "depth":
			depth = intOf(value, 0)
		}
	})
	parent := d.runs.find(r.parentID)
	switch {
	case r.session != "":
	case r.parentID == "":
		r.session = r.id
	case parent != nil:
		r.session = parent.session
	case depth <= 1: // its parent is the root
		r.session = r.parentID
	default:
		r.session = d.settings.Session
	}
	if parent != nil && len(parent.children) < maxChildren {
		parent.children = append(parent.children, r.id)
	}
	return r
}

// meta is that of an event of r told by l.
func (r *run) meta(l *line) otelagent.Meta {
	if !l.time.IsZero() {
		r.stated = true
	}
	return otelagent.Meta{Session: r.session, Run: r.id, Time: l.time, Arrived: l.arrived, Seq: l.place.seq}
}

// announce tells of the start of r, once. Hint is a time to fall back on where the start has none.
func (d *Decoder) announce(r *run, hint otelagent.Moment) {
	if r.announced {
		return
	}
	r.announced = true
	e := &otelagent.RunStarted{
		Meta: otelagent.Meta{Session: r.session, Run: r.id, Time: r.startAt, Arrived: r.start.arrived, Seq: r.start.seq},
		RunInfo: otelagent.RunInfo{
			ID: r.id, SessionID: r.session, ParentID: r.parentID, ParentToolCallID: r.callID, Metadata: r.identity,
			Agent: d.settings.Agent, Provider: d.settings.Provider, Dialect: Dialect, Inferred: r.inferred,
		},
	}
	if r.ledger {
		e.Recording = spans.RecordingLedger
	}
	if p := d.runs.find(r.parentID); p != nil && p.session != r.session {
		e.ParentSessionID = p.session
	}
	if r.startAt.IsZero() && r.start.arrived.IsZero() {
		e.Start = d.runs.apart(r.id, hint)
	}
	d.runs.startedAt(r.id, r.startAt, e.Start.Time)
	d.emit(e)
	d.keep(e.Meta, variants[vAgentStart].name, r.startExtra)
	d.keep(e.Meta, variants[vRunIdentified].name, r.identityExtra)
	r.startExtra, r.identityExtra = nil, nil
}

// apart moves the start of a run that is not stated behind that of an earlier one of its id: both would be one.
func (rs *runs) apart(id string, at otelagent.Moment) otelagent.Moment {
	before, again := rs.times[id]
	if again && !at.Time.After(before) {
		at = otelagent.Moment{Time: before.Add(1), Source: spans.TimeSourceBound}
	}
	return at
}

func (rs *runs) startedAt(id string, times ...time.Time) {
	at := time.Unix(0, 1) // what an unknown start of a recording becomes
	for _, t := range times {
		if !t.IsZero() {
			at = t
		}
	}
	if rs.times == nil {
		rs.times = map[string]time.Time{}
	}
	rs.times[id] = at
}

// abandon ends a run whose end will not come. It happened after the last line of it that was seen, nobody knows when.
func (d *Decoder) abandon(r *run) {
	if r.ended {
		return
	}
	d.announce(r, otelagent.Moment{})
	d.endFromReply(r)
	failed, cancelled, stop, text := r.failed()
	e := &otelagent.RunEnded{Meta: d.timeless(r)}
	e.Status = spans.RunStatusAborted
	switch {
	case cancelled:
		e.Status, e.Word, e.Error = spans.RunStatusCancelled, stop, text
	case failed:
		e.Status, e.Word, e.Error = spans.RunStatusError, stop, text
	}
	r.ended = true
	d.emit(e)
}

// timeless is the Meta of what happened at an unknown time after the last line of r.
func (d *Decoder) timeless(r *run) otelagent.Meta {
	return otelagent.Meta{Session: r.session, Run: r.id, Seq: d.at.seq}
}

// endFromReply ends the open turn of r as its reply tells, for want of its own end.
func (d *Decoder) endFromReply(r *run) {
	if !r.open || r.closed || r.reply.raw == nil {
		return
	}
	r.closed, r.before = true, r.reply.raw
	d.emit(d.turnEnd(r, d.timeless(r), messageOf(r.reply.raw), r.reply.usage))
}
