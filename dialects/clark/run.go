package clark

import (
	"bytes"
	"slices"
	"time"

	"github.com/otelagent/otelagent/internal/object"
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

	identified bool // its identity was seen; else the id is generated
	ledger     bool // known from the trajectory alone
	announced  bool // its start was handed out
	ended      bool

	start    start
	inferred bool
	headless bool   // its agent_start was not seen
	passed   bool   // another run began while a call of it was open, and does not name it
	identity []byte // as it was spelled, a copy
	callID   string // that certainly spawned it

	identityExtra []byte // what the line of its identity has that is not clark-agent's
	stated        bool   // some of its lines had a time

	turns int64 // that began
	turn        // the last one

	iteration int64  // of the last request; -1 without one
	before    []byte // the reply by which the turn before ended, because its end did not come
	gates     []gate // of the attempt that is prepared
	catalogue []string
	hidden    []string // of the catalogue, in the last attempt
	children  []string

	mixed bool // a defect was handed out that its lines are mixed with those of other runs
	odd   bool // a defect was handed out that turns are missing
}

// turn is the last turn of a run.
type turn struct {
	open    bool
	closed  bool          // its end was made of the reply at the end of an input
	attempt int           // number of the last request; -1 without one
	thrown  bool          // the last attempt was discarded
	asked   moment        // of the last request
	first   time.Duration // from the request to the first piece of its reply
	reply   reply         // of the last attempt
	calls   []*call
	batch   bool // two calls were open at once
}

// start is an agent_start.
type start struct {
	time, arrived time.Time
	seq           int64
	extra         []byte // what it has that is not clark-agent's
}

func startOf(l *line) start { return start{l.time, l.arrived, l.seq, nil} }

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

// over reports whether the run cannot go on but by asking again: its last reply failed and it is the last that is
// known.
func (r *run) over() bool { return r.open && failed(messageOf(r.reply.raw).String("stop_reason")) }

// runs are the runs met, by id: that which started last of each.
type runs struct {
	byID  map[string]*run
	order []string             // as they were put
	times map[string]time.Time // of the last start
}

func (rs *runs) find(id string) *run { return rs.byID[id] }

func (rs *runs) put(r *run) {
	if rs.byID == nil {
		rs.byID, rs.times = map[string]*run{}, map[string]time.Time{}
	}
	if rs.byID[r.id] == nil {
		if len(rs.order) == maxRuns { // one that has ended, if one of the oldest has
			gone := max(slices.IndexFunc(rs.order[:maxOpen], func(id string) bool { return rs.byID[id].ended }), 0)
			delete(rs.byID, rs.order[gone])
			delete(rs.times, rs.order[gone])
			rs.order = slices.Delete(rs.order, gone, gone+1)
		}
		rs.order = append(rs.order, r.id)
	}
	rs.byID[r.id] = r
}

// newRun makes a run of an identity; nil identity: of one that has none.
func (d *Decoder) newRun(id string, identity []byte) *run {
	r := &run{id: id, iteration: -1, turn: turn{attempt: -1}}
	if identity == nil {
		r.session = d.Settings.Session
		return r
	}
	o := object.Of("", identity)
	r.identified, r.identity = true, bytes.Clone(identity)
	r.parentID, r.session = o.String("parent_run_id"), o.String("conversation_id")
	parent := d.runs.find(r.parentID)
	switch {
	case r.session != "":
	case r.parentID == "":
		r.session = r.id
	case parent != nil:
		r.session = parent.session
	case intOf(o.Raw("depth"), 0) <= 1: // its parent is the root
		r.session = r.parentID
	default:
		r.session = d.Settings.Session
	}
	if parent != nil && len(parent.children) < maxChildren {
		parent.children = append(parent.children, r.id)
	}
	return r
}

// meta is that of an event of r that l becomes.
func (r *run) meta(l *line) otelagent.Meta {
	r.stated = r.stated || !l.time.IsZero()
	return otelagent.Meta{Session: r.session, Run: r.id, Time: l.time, Arrived: l.arrived, Seq: l.seq}
}

// announce hands out the start of r, once. Hint is a time to fall back on where the start has none.
func (d *Decoder) announce(r *run, hint otelagent.Moment) {
	if r.announced {
		return
	}
	r.announced = true
	e := &otelagent.RunStarted{
		Meta: otelagent.Meta{Session: r.session, Run: r.id, Time: r.start.time, Arrived: r.start.arrived, Seq: r.start.seq},
		RunInfo: otelagent.RunInfo{
			ID: r.id, SessionID: r.session, ParentID: r.parentID, ParentToolCallID: r.callID, Metadata: r.identity,
			Agent: d.Settings.Agent, Provider: d.Settings.Provider, Dialect: Dialect, Inferred: r.inferred,
		},
	}
	if r.ledger {
		e.Recording = spans.RecordingLedger
	}
	if p := d.runs.find(r.parentID); p != nil && p.session != r.session {
		e.ParentSessionID = p.session
	}
	at := r.start.time
	if at.IsZero() && r.start.arrived.IsZero() {
		if before, again := d.runs.times[r.id]; again && !hint.Time.After(before) { // both would be one
			hint = otelagent.Moment{Time: before.Add(1), Source: spans.TimeSourceBound}
		}
		e.Start, at = hint, hint.Time
	}
	if at.IsZero() {
		at = time.Unix(0, 1) // an unknown start becomes this one
	}
	d.runs.times[r.id] = at
	d.Emit(e)
	d.keep(e.Meta, "agent_start", r.start.extra)
	d.keep(e.Meta, "run_identified", r.identityExtra)
}

// abandon ends a run whose end will not come. It happened after the last line of it that was seen, nobody knows when.
func (d *Decoder) abandon(r *run) {
	if r.ended {
		return
	}
	d.announce(r, otelagent.Moment{})
	d.endFromReply(r)
	e := &otelagent.RunEnded{Meta: d.timeless(r)}
	e.Status = spans.RunStatusAborted
	msg := messageOf(r.reply.raw)
	if stop := msg.String("stop_reason"); failed(stop) {
		e.Status, e.Word, e.Error = spans.RunStatusError, stop, msg.String("error_message")
		if stop == "aborted" {
			e.Status = spans.RunStatusCancelled
		}
	}
	r.ended = true
	d.Emit(e)
}

// timeless is the Meta of what happened at an unknown time after the last line of r.
func (d *Decoder) timeless(r *run) otelagent.Meta {
	return otelagent.Meta{Session: r.session, Run: r.id, Seq: d.Seq}
}

// endFromReply ends the open turn of r as its reply says, because its own end did not come.
func (d *Decoder) endFromReply(r *run) {
	if !r.open || r.closed || r.reply.raw == nil {
		return
	}
	r.closed, r.before = true, r.reply.raw
	d.Emit(d.turnEnd(r, d.timeless(r), messageOf(r.reply.raw), r.reply.usage))
}

// mixedRuns hands out once for a run that its lines are mixed with those of others.
func (d *Decoder) mixedRuns(r *run, m otelagent.Meta, detail string) {
	if !r.mixed {
		r.mixed = true
		d.Emit(&otelagent.DefectFound{Meta: m, Code: spans.DefectRunsMixed, Detail: detail})
	}
}
