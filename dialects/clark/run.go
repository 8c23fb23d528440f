package clark

import (
	"bytes"
	"time"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Bounds of what is remembered.
const (
	maxRuns  = 4096
	maxCalls = 1024 // of a turn
)

// run is what is remembered of a run, open or ended.
type run struct {
	id, session, parentID string

	identity []byte // as it was spelled, a copy; nil without one
	extra    []byte // members of the line of the identity that are not clark-agent's
	callID   string // of the call that certainly spawned it
	start    start
	repeats  time.Time // start of the earlier run of that id
	inferred bool      // its start was not seen

	nameless  bool // it has no identity, so its id is generated
	ledger    bool // known from the trajectory alone
	announced bool // its start was handed out
	ended     bool
	mixed     bool // a defect runs_mixed was handed out
	odd       bool // a defect was handed out that turns are missing

	held  *otelagent.TurnStarted // the first turn, until the start of the run is handed out
	turns int64                  // that began
	turn                         // the last one

	before    message // the reply by which the turn before ended, because its end did not come
	gates     []gate  // of the attempt that is prepared
	catalogue []string
	hidden    []string // of the catalogue, in the last attempt
}

// turn is the last turn of a run.
type turn struct {
	open    bool
	closed  bool          // its end was handed out, made of its reply
	attempt int           // number of the last request; -1 without one
	thrown  bool          // the last attempt was discarded
	asked   time.Time     // of the last request
	first   time.Duration // from the request to the first piece of its reply
	reply   message       // of the last attempt, a copy
	usage   *otelagent.Usage
	calls   []*call
	batch   bool // two calls were open at once
}

// start is an agent_start.
type start struct {
	meta  otelagent.Meta
	extra []byte // members that are not clark-agent's
}

// when is the time of an event: stated, else of its arrival.
func when(m otelagent.Meta) time.Time {
	if m.Time.IsZero() {
		return m.Arrived
	}
	return m.Time
}

// over reports whether the run cannot continue: its last reply failed.
func (r *run) over() bool { return r.open && failed(r.reply) }

// replied reports whether l has the last reply of r.
func (r *run) replied(l *line) bool { return l.msg.raw != nil && bytes.Equal(r.reply.raw, l.msg.raw) }

// contradicts reports whether l cannot be of r: it is a second reply to one request, or ends a turn with another reply.
func (r *run) contradicts(l *line) bool {
	if r.reply.raw == nil || r.thrown || r.attempt < 0 {
		return false
	}
	return l.variant == "message_end" && l.msg.assistant() && r.open ||
		l.variant == "turn_end" && l.msg.raw != nil && !r.replied(l)
}

// newRun makes the run of an identity, or of a record, which has the same keys; with nil that of a run without any.
func (d *Decoder) newRun(id string, o *object.Object) *run {
	r := &run{id: id, turn: turn{attempt: -1}, session: d.Settings.Session, nameless: o == nil}
	text := func(key string) string {
		s, _ := rawjson.String(o.Raw(key))
		return s
	}
	r.parentID = text("parent_run_id")
	parent := d.runs[r.parentID]
	switch conversation := text("conversation_id"); {
	case r.nameless:
	case conversation != "":
		r.session = conversation
	case r.parentID == "":
		r.session = id
	case parent != nil:
		r.session = parent.session
	case intOf(o.Raw("depth"), 0) <= 1: // its parent is the root
		r.session = r.parentID
	}
	return r
}

// begun remembers a run that began with l.
func (d *Decoder) begun(s *stream, r *run, l *line) {
	r.ledger = s.ledger
	old := d.runs[r.id]
	switch {
	case old == nil:
		if len(d.order) == maxRuns {
			delete(d.runs, d.order[0])
			d.order = d.order[1:]
		}
		d.order = append(d.order, r.id)
	case old.ledger && !r.ledger: // the same run, known from its events now
		if old.ended = true; r.nameless {
			r.start.meta.Time = old.start.meta.Time
		}
	case !old.ended:
		d.abandon(old)
		d.remove(old)
	}
	if d.runs[r.id] = r; old != nil {
		r.repeats = old.start.meta.Time
	}
	if l.variant == "run_identified" && !r.ledger {
		timed, q := *l, d.ledgerOf(r)
		d.timeOf(r, &timed)
		if r.start.meta.Time.IsZero() || q.played {
			r.start.meta.Time = timed.time
		}
	}
	r.start.meta.Session, r.start.meta.Run = r.session, r.id
}

// meta is that of an event of r that l becomes.
func (d *Decoder) meta(r *run, l *line) otelagent.Meta {
	return otelagent.Meta{Session: r.session, Run: r.id, Time: l.time, Arrived: d.Arrived, Seq: d.Seq}
}

// timeless is the Meta of what happened at an unknown time after the last line of r.
func (d *Decoder) timeless(r *run) otelagent.Meta {
	return otelagent.Meta{Session: r.session, Run: r.id, Seq: d.Seq}
}

// announce hands out the start of r, once. Hint is the start where its line has no time.
func (d *Decoder) announce(r *run, hint otelagent.Moment) {
	if r.announced {
		return
	}
	r.announced = true
	m := r.start.meta
	e := &otelagent.RunStarted{Meta: m, RunInfo: otelagent.RunInfo{
		ID: r.id, SessionID: r.session, ParentID: r.parentID, ParentToolCallID: r.callID, Metadata: r.identity,
		Agent: d.Settings.Agent, Provider: d.Settings.Provider, Dialect: Dialect, Inferred: r.inferred,
	}}
	if r.ledger {
		e.Recording = spans.RecordingLedger
	}
	if p := d.runs[r.parentID]; p != nil && p.session != r.session {
		e.ParentSessionID = p.session
	}
	if when(m).IsZero() {
		if !r.repeats.IsZero() && !hint.Time.After(r.repeats) { // both would be one run
			hint = otelagent.Moment{Time: r.repeats.Add(1), Source: spans.TimeSourceBound}
		}
		e.Start, r.start.meta.Time = hint, hint.Time
	}
	if r.start.meta.Time.IsZero() {
		r.start.meta.Time = time.Unix(0, 1) // the Recorder gives it to an unknown start
	}
	d.Emit(e)
	d.keep(m, "agent_start", r.start.extra)
	d.keep(m, "run_identified", r.extra)
	if r.held != nil {
		d.beginTurn(r, r.held)
	}
}

// holds keeps the first turn_start of a recorded run that has no time yet: the next line may have one.
func (d *Decoder) holds(r *run, l *line) bool {
	if r.announced || r.held != nil || r.ledger || d.Settings.Live || l.variant != "turn_start" ||
		!l.time.IsZero() || !r.start.meta.Time.IsZero() || l.Rest() != nil {
		return false
	}
	r.held = &otelagent.TurnStarted{Meta: d.meta(r, l)}
	return true
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
	if failed(r.reply) {
		e.Status, e.Word, e.Error = spans.RunStatusError, r.reply.String("stop_reason"), r.reply.String("error_message")
		if e.Word == "aborted" {
			e.Status = spans.RunStatusCancelled
		}
	}
	r.ended = true
	d.Emit(e)
}

// endFromReply ends the open turn of r as its reply says, because its own end did not come.
func (d *Decoder) endFromReply(r *run) {
	if !r.open || r.closed || r.reply.raw == nil {
		return
	}
	r.closed, r.before = true, r.reply
	d.Emit(d.turnEnd(r, d.timeless(r), r.reply, r.usage))
}

// mixedRuns hands out once for a run that its lines are mixed with those of others.
func (d *Decoder) mixedRuns(r *run, m otelagent.Meta, detail string) {
	if !r.mixed {
		r.mixed = true
		d.Emit(&otelagent.DefectFound{Meta: m, Code: spans.DefectRunsMixed, Detail: detail})
	}
}
