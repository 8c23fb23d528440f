package clark

import (
	"bytes"
	"time"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

const (
	maxRuns  = 4096 // that are remembered
	maxCalls = 1024 // of a turn
)

// run is what is remembered of a run, open or ended.
type run struct {
	otelagent.RunStarted        // its start, with what identifies it
	extra                []byte // members of the line of its identity that are not clark-agent's
	startExtra           []byte // the same of its agent_start
	repeats              time.Time

	nameless  bool // it has no identity, so its id is generated
	ledger    bool // known from the trajectory alone
	announced bool // its start was handed out
	ended     bool
	mixed     bool // a defect runs_mixed was handed out
	odd       bool // a defect was handed out that turns are missing

	held  *otelagent.TurnStarted // the first turn, until the start of the run is handed out
	turns int64                  // that began
	turn                         // the last one

	before    message // the reply of the turn before, if its end did not come
	gates     []gate  // of the attempt that is prepared
	catalogue []string
	hidden    []string // of the catalogue, in the last attempt
}

// turn is the last turn of a run.
type turn struct {
	open    bool          // its end was not handed out
	attempt int           // number of the last request; -1 without one
	thrown  bool          // the last attempt was discarded
	asked   time.Time     // of the last request
	first   time.Duration // from the request to the first piece of its reply
	reply   message       // of the last attempt, a copy
	usage   *otelagent.Usage
	calls   []*call
	batch   bool // two calls were open at once
}

// when is the time of an event: stated, else of its arrival.
func when(m otelagent.Meta) time.Time {
	if m.Time.IsZero() {
		return m.Arrived
	}
	return m.Time
}

// over reports whether the run cannot continue: its last reply failed.
func (r *run) over() bool { return failed(r.reply) }

// replied reports whether l has the last reply of r.
func (r *run) replied(l *line) bool { return l.msg.raw != nil && bytes.Equal(r.reply.raw, l.msg.raw) }

// owns reports whether l says that it is of r: it is about one of its open calls, or ends its turn.
func (r *run) owns(l *line) bool {
	switch l.variant {
	case "tool_execution_start", "tool_execution_update", "tool_execution_end":
		return r.knows(l.String("tool_call_id"))
	}
	return l.variant == "turn_end" && r.replied(l)
}

// contradicts reports whether l cannot be of r: it is a second reply to one request, or ends a turn with another reply.
func (r *run) contradicts(l *line) bool {
	return r.reply.raw != nil && !r.thrown && r.attempt >= 0 && (r.open && l.variant == "message_end" && l.msg.assistant() ||
		l.variant == "turn_end" && l.msg.raw != nil && !r.replied(l))
}

// begin makes the run of an identity, or of a record, which has the same keys; with nil one without identity. It began
// at the oldest agent_start of s that has no run, else at l.
func (d *Decoder) begin(s *stream, id string, identity *object.Object, l *line) *run {
	r := &run{nameless: identity == nil, ledger: s.ledger, turn: turn{attempt: -1}}
	r.RunInfo = otelagent.RunInfo{ID: id, SessionID: d.Settings.Session, Dialect: Dialect, Agent: d.Settings.Agent,
		Provider: d.Settings.Provider}
	r.ParentID, _ = rawjson.String(identity.Raw("parent_run_id"))
	conversation, _ := rawjson.String(identity.Raw("conversation_id"))
	parent := d.runs[r.ParentID]
	switch {
	case r.nameless:
	case conversation != "":
		r.SessionID = conversation
	case r.ParentID == "":
		r.SessionID = id
	case parent != nil:
		r.SessionID = parent.SessionID
	case intOf(identity.Raw("depth"), 0) <= 1: // its parent is the root
		r.SessionID = r.ParentID
	}
	if parent != nil && parent.SessionID != r.SessionID {
		r.ParentSessionID = parent.SessionID
	}
	if r.ledger {
		r.Recording = spans.RecordingLedger
	}
	if r.Meta = d.meta(r, l); len(s.starts) > 0 {
		r.Meta, r.startExtra = s.starts[0].meta, s.starts[0].extra
		s.starts = s.starts[1:]
	}
	r.Session, r.Run = r.SessionID, id

	old := d.runs[id]
	switch {
	case old == nil:
		if len(d.order) == maxRuns {
			delete(d.runs, d.order[0])
			d.order = d.order[1:]
		}
		d.order = append(d.order, id)
	case old.ledger && !r.ledger: // the same run, known from its events now
		if old.ended = true; r.nameless {
			r.Time = old.Time
		}
	default:
		d.abandon(old)
		d.remove(old)
	}
	if old != nil {
		if r.repeats = old.Time; r.repeats.IsZero() {
			r.repeats = old.Start.Time
		}
		if r.repeats.IsZero() {
			r.repeats = time.Unix(0, 1) // the Recorder gives it to an unknown start
		}
	}
	d.runs[id] = r
	if l.variant == "run_identified" && !r.ledger {
		timed := *l
		d.timeOf(r, &timed)
		if r.Time.IsZero() || d.ledgerOf(r).played {
			r.Time = timed.time
		}
	}
	return r
}

// meta is that of an event of r that l becomes.
func (d *Decoder) meta(r *run, l *line) otelagent.Meta {
	return otelagent.Meta{Session: r.Session, Run: r.Run, Time: l.time, Arrived: d.Arrived, Seq: d.Seq}
}

// announce hands out the start of r, once. Hint is the start where its line has no time.
func (d *Decoder) announce(r *run, hint otelagent.Moment) {
	if r.announced {
		return
	}
	r.announced = true
	switch {
	case !when(r.Meta).IsZero():
	case !r.repeats.IsZero() && !hint.Time.After(r.repeats): // both would be one run
		r.Start = otelagent.Moment{Time: r.repeats.Add(1), Source: spans.TimeSourceBound}
	case !hint.Time.IsZero():
		r.Start = hint
	}
	d.Emit(&r.RunStarted)
	d.keep(r.Meta, "agent_start", r.startExtra)
	d.keep(r.Meta, "run_identified", r.extra)
	if r.held != nil {
		d.beginTurn(r, r.held)
	}
}

// holds keeps the first turn_start of a recorded run that has no time yet: the next line may have one.
func (d *Decoder) holds(r *run, l *line) bool {
	if r.announced || r.held != nil || r.ledger || d.Settings.Live || l.variant != "turn_start" ||
		!l.time.IsZero() || !r.Time.IsZero() || l.Rest() != nil {
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
	d.endTurn(r)
	e := &otelagent.RunEnded{Meta: otelagent.Meta{Session: r.Session, Run: r.Run, Seq: d.Seq}}
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
