package clark

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/spans"
)

const (
	// maxRecordSize bounds what is remembered of records, in bytes.
	maxRecordSize = 64 << 20
	// recordSize is about what a record takes without its line, ledgerSize what is remembered of a run.
	recordSize, ledgerSize = 256, 2048
)

// journal brings events and records together: the n-th event of a kind in a run has the time of the n-th record of
// that kind in that run. A record becomes an event of its own only when its run is not known from events, or when that
// run continues behind its last event.
type journal struct {
	runs     map[string]*ledger // by run id; those without an id are one
	nameless bool               // runs without an identity are known from events
	source   io.Reader          // of WithTrajectory, until it was read
	lines    int64              // of it
	lined    []*record          // of it, in order
	size     int                // of what is remembered; beyond the bound that of what is not, as well
	number   int                // of records
}

// ledger is what records say of one run.
type ledger struct {
	id     string
	kinds  map[string]kind
	done   int  // number of the last record that had an event
	played bool // some are events of their own
}

// kind is the records of one kind of a run in their order, and how many events of it came.
type kind struct {
	records []*record
	events  int
}

// waiting returns the records whose events did not come.
func (k kind) waiting() []*record { return k.records[min(k.events, len(k.records)):] }

type record struct {
	time   time.Time
	number int
	of     *ledger
	line   *line // of records that come by WithTrajectory, until an event of it comes
}

// ledger returns that of a run id. It is a new one each time beyond the bound.
func (t *journal) ledger(id string) *ledger {
	q := t.runs[id]
	if q == nil {
		q = &ledger{id: id, kinds: map[string]kind{}}
		if t.size += ledgerSize; t.size <= maxRecordSize {
			t.runs[id] = q
		}
	}
	return q
}

// add takes a record, whose line is kept for WithTrajectory, and returns what is known of its run.
func (t *journal) add(l, kept *line) *ledger {
	q := t.ledger(l.stream)
	t.number++
	if t.size += recordSize; kept != nil {
		t.size += len(l.raw)
	}
	if t.size <= maxRecordSize {
		rec, k := &record{l.time, t.number, q, kept}, q.kinds[l.variant]
		k.records = append(k.records, rec)
		if q.kinds[l.variant] = k; kept != nil {
			t.lined = append(t.lined, rec)
		}
	}
	return q
}

// ledgerOf returns that of a run known from events.
func (d *Decoder) ledgerOf(r *run) *ledger {
	d.load()
	if r.nameless {
		d.trajectory.nameless = true
		return d.trajectory.ledger("")
	}
	return d.trajectory.ledger(r.ID)
}

// known reports whether the run of an id is known from events.
func (d *Decoder) known(id string) bool {
	r := d.runs[id]
	return r != nil && !r.ledger || id == "" && d.trajectory.nameless
}

// timeOf gives l the time of its record, where it has none of its own. If its run was made of records, it has theirs in
// any case, so that both are the same run.
func (d *Decoder) timeOf(r *run, l *line) {
	if shapes[l.variant].record == "" || r.ledger {
		return
	}
	q := d.ledgerOf(r)
	k := q.kinds[l.variant]
	waiting := k.waiting()
	k.events++
	if q.kinds[l.variant] = k; len(waiting) == 0 {
		return
	}
	rec := waiting[0]
	rec.line, q.done = nil, max(q.done, rec.number)
	if l.time.IsZero() || q.played {
		l.time = rec.time
	}
	if l.variant != "agent_end" {
		return
	}
	n := 0 // records of the run before its end that no event was like
	for variant, k := range q.kinds {
		for list := k.waiting(); len(list) > 0 && list[0].number < rec.number; list = list[1:] {
			k.events++
			n++
		}
		q.kinds[variant] = k
	}
	if n > 0 {
		d.Emit(&event.DefectFound{Meta: d.meta(r, l), Code: spans.DefectEventLost,
			Detail: fmt.Sprintf("%d records of the trajectory have no event", n)})
	}
}

// record reads a record that stands in the input itself.
func (d *Decoder) record(l *line) {
	if l.variant == "" {
		m := event.Meta{Run: l.stream, Time: l.time, Arrived: d.Arrived, Seq: d.Seq}
		if r := d.runs[l.stream]; r != nil {
			m.Session = r.SessionID
		}
		d.Other(m, l.name, l.raw)
		return
	}
	q := d.trajectory.add(l, nil)
	waiting := slices.ContainsFunc(d.streams, func(s *stream) bool { return len(s.starts) > 0 })
	if !d.known(q.id) && !waiting {
		d.play(q, l)
	}
}

// play hands out a record as an event of its own.
func (d *Decoder) play(q *ledger, l *line) {
	q.played = true
	s := d.stream(streamKey{q.id, q.id != "", true})
	top := s.top()
	if top == nil && s.last != nil && d.known(s.last.ParentID) && l.variant != "run_identified" {
		return // of its parent, which is known from events: the child uses its recorder
	}
	nests := top == nil || l.variant == "turn_start" && top.open && len(top.openCalls()) > 0
	if l.variant != "run_identified" && !s.named && nests { // no record has the start of a run without an identity
		d.agentStart(s, l)
	}
	d.event(s, l)
	if top = s.top(); top != nil {
		d.announce(top, event.Moment{})
	}
}

// load reads the trajectory given by WithTrajectory, once.
func (d *Decoder) load() {
	t := &d.trajectory
	if t.source == nil {
		return
	}
	sh := input.NewShell(Dialect, ndjson.Read, input.WithMaxLine(d.Settings.MaxLine))
	source := t.source
	t.source = nil
	read := func(in input.Line) {
		in.Text = bytes.Clone(in.Text)
		l := parse(&sh, in)
		switch {
		case l == nil:
		case !l.record || l.variant == "":
			sh.Reject(&input.LineError{Reason: "no record that is known"})
		default:
			sh.Stats.Events++
			t.add(l, l)
			sh.RejectProblems(l.name, l.Object)
		}
	}
	for ev, err := range sh.Events(source, input.Reader{Line: read}) {
		var bad *input.LineError
		switch {
		case err == nil:
			d.Emit(ev)
		case errors.As(err, &bad):
			bad.Field = "trajectory line " + strconv.FormatInt(bad.Line, 10) + " " + bad.Field
			d.Reject(bad)
		default:
			d.Reject(&input.LineError{Field: "trajectory", Reason: errors.Unwrap(err).Error()})
		}
	}
	t.lines = sh.Stats.Lines
	d.Shell.Stats.Events += sh.Stats.Events
	if t.size > maxRecordSize {
		d.Reject(&input.LineError{Field: "trajectory", Reason: "too long: some of its times and runs are left out"})
	}
}

// continueRuns hands out what the trajectory given by WithTrajectory has and the events had not.
func (d *Decoder) continueRuns() {
	d.load()
	list := d.trajectory.lined
	d.trajectory.lined = nil
	for _, rec := range list {
		l, q := rec.line, rec.of
		if l == nil {
			continue
		}
		if !d.known(q.id) {
			d.play(q, l)
			continue
		}
		r := d.runs[q.id]
		if q.id == "" {
			r = d.stream(streamKey{}).top()
		}
		if r == nil || r.ended || rec.number <= q.done || l.variant == "run_identified" {
			continue
		}
		d.announce(r, event.Moment{})
		d.handle(r, l)
		if r.ended {
			d.remove(r)
		}
	}
}
