package clark

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/shell"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Bounds of what is remembered of a trajectory, and of events that wait for one.
const (
	maxWaiting  = 1 << 18 // records and kinds of events
	maxWaitText = 64 << 20
)

// merge brings events and records together: the n-th event of a kind in a run has the time of the n-th record of that
// kind in that run. A record becomes an event of its own only when its run is not known from events, or when that run
// goes on behind its last event.
type merge struct {
	runs   map[string]*queue // by run id; under the empty one those without
	order  []string          // their ids as they came
	source io.Reader         // of WithTrajectory, until it was read
	lines  int64             // of it
	number int64             // of records, from 1
	size   int               // records and kinds
	text   int               // bytes of the lines of records that are kept
	lost   bool              // there were too many

	nameless bool // runs without an identity are known from events
	last     mark // of the record before, by run and sequence number
}

// queue is what is known of one run from records.
type queue struct {
	kinds  map[mark]*kind
	done   int64  // number of the last record that had an event
	own    stream // of the records that are events of their own
	played bool   // there are some
	kept   int    // records that have their line

	parent string   // by the records
	callID string   // of the parent, that certainly spawned the run
	calls  []string // that are open
	ended  bool
}

// mark is what an event and its record have in common.
type mark struct {
	variant string
	key     uint64
}

// kind is the records of one mark in their order, and how many events of it came.
type kind struct {
	records []record
	events  int
}

// waiting returns the records whose events did not come.
func (k *kind) waiting() []record { return k.records[min(k.events, len(k.records)):] }

type record struct {
	time   time.Time
	number int64
	line   *line // of records that come by WithTrajectory
}

var hashSeed = maphash.MakeSeed()

// mark returns what the line has in common with its record. Of messages it is what differs between them, because some
// producers change the order of keys.
func (l *line) mark() mark {
	parts := [][]byte{l.Raw("tool_call_id"), l.Raw("tool_name"), l.Raw("iteration"), l.Raw("plugin"), l.Raw("attempt")}
	if l.variant == "message_end" || l.variant == "turn_end" {
		parts = [][]byte{l.msg.Raw("role"), l.msg.Raw("stop_reason"), l.msg.Raw("timestamp")}
	}
	return mark{l.variant, maphash.Bytes(hashSeed, bytes.Join(parts, []byte{0}))}
}

// queue returns that of a run id. Beyond the bound it forgets the oldest whose records it need not hand out.
func (t *merge) queue(id string) *queue {
	if q := t.runs[id]; q != nil {
		return q
	}
	if t.runs == nil {
		t.runs = map[string]*queue{}
	}
	for n := 0; n < maxOpen && len(t.order) >= maxRuns; n++ {
		oldest := t.runs[t.order[0]]
		t.order = append(t.order[1:], t.order[0])
		if oldest.kept == 0 {
			t.forget(oldest)
			break
		}
	}
	q := &queue{kinds: map[mark]*kind{}, own: stream{name: id, named: id != "", ledger: true}}
	t.runs[id] = q
	t.order = append(t.order, id)
	return q
}

// forget drops q, which is the last of the order.
func (t *merge) forget(q *queue) {
	t.size -= len(q.kinds)
	for _, k := range q.kinds {
		t.size -= len(k.records)
	}
	last := len(t.order) - 1
	delete(t.runs, t.order[last])
	t.order = t.order[:last]
}

// grow counts what is remembered. Beyond the bound all is forgotten, and no event has a time of a record any more.
func (t *merge) grow() {
	if t.size++; t.size > maxWaiting {
		t.lost, t.size = true, 0
		for _, q := range t.runs {
			q.kinds, q.kept = map[mark]*kind{}, 0
		}
	}
}

func (t *merge) kind(q *queue, l *line) *kind {
	m := l.mark()
	k := q.kinds[m]
	if k == nil {
		k = &kind{}
		if t.grow(); !t.lost {
			q.kinds[m] = k
		}
	}
	return k
}

// add takes a record of q.
func (t *merge) add(q *queue, l, keep *line) {
	t.number++
	k := t.kind(q, l)
	if t.grow(); t.lost {
		return
	}
	if keep != nil {
		q.kept++
	}
	k.records = append(k.records, record{l.time, t.number, keep})
}

// take returns the record of an event of q.
func (t *merge) take(q *queue, l *line) (r record, ok bool) {
	k := t.kind(q, l)
	if list := k.waiting(); len(list) > 0 {
		r, ok = list[0], true
		if r.line != nil {
			list[0].line = nil
			q.kept--
		}
		q.done = max(q.done, r.number)
	}
	k.events++
	return r, ok
}

// first returns the time of the first record that waits.
func (q *queue) first() (at time.Time) {
	for _, k := range q.kinds {
		if list := k.waiting(); len(list) > 0 && (at.IsZero() || list[0].time.Before(at)) {
			at = list[0].time
		}
	}
	return at
}

// queueOf returns that of a run known from events.
func (d *Decoder) queueOf(r *run) *queue {
	d.load()
	if !r.identified {
		d.trajectory.nameless = true
		return d.trajectory.queue("")
	}
	return d.trajectory.queue(r.id)
}

// timeOf gives l the time of its record, where it has none of its own. If its run was made of records, it has theirs in
// any case, so that both are the same run.
func (d *Decoder) timeOf(r *run, l *line) {
	if !l.recordable() || r.ledger {
		return
	}
	q := d.queueOf(r)
	rec, ok := d.trajectory.take(q, l)
	if !ok {
		return
	}
	if l.time.IsZero() || q.played {
		l.time = rec.time
	}
	if l.variant == "agent_end" {
		d.missing(r, q, l, rec.number)
	}
}

// startTime gives r, whose identity l has, the time of its record.
func (d *Decoder) startTime(r *run, l *line) {
	q := d.queueOf(r)
	if rec, ok := d.trajectory.take(q, l); ok && (r.start.time.IsZero() || q.played) {
		r.start.time = rec.time
	}
	r.callID = q.callID
}

// missing says how many records of r before the given one no event was like.
func (d *Decoder) missing(r *run, q *queue, l *line, before int64) {
	n := 0
	for _, k := range q.kinds {
		for list := k.waiting(); len(list) > 0 && list[0].number < before; list = list[1:] {
			k.events++
			n++
		}
	}
	if n > 0 {
		d.Emit(&otelagent.DefectFound{Meta: r.meta(l), Code: spans.DefectEventLost,
			Detail: fmt.Sprintf("%d records of the trajectory have no event", n)})
	}
}

// record reads a record that stands in the input itself.
func (d *Decoder) record(l *line) {
	t := &d.trajectory
	if l.variant == "" {
		m := otelagent.Meta{Run: l.stream, Time: l.time, Arrived: l.arrived, Seq: l.seq}
		if r := d.runs.find(l.stream); r != nil {
			m.Session = r.session
		}
		d.Emit(&otelagent.Other{Meta: m, Type: l.name, Body: l.text})
		return
	}
	this := mark{l.stream, uint64(l.sequence)}
	if l.sequence >= 0 && t.number > 0 && this == t.last {
		l.outer.Fail("seq", "the same as of the record before; the record is passed over")
		return
	}
	t.last = this
	id := t.owner(l)
	q := t.queue(id)
	t.add(q, l, nil)
	waiting := slices.ContainsFunc(d.streams, func(s *stream) bool { return len(s.starts) > 0 })
	if !d.known(id) && !waiting {
		d.play(q, l)
	}
}

// known reports whether the run of a record is known from events.
func (d *Decoder) known(id string) bool {
	if id == "" {
		return d.trajectory.nameless
	}
	r := d.runs.find(id)
	return r != nil && !r.ledger
}

// owner returns the run of a record. A child that uses the recorder of its parent gives its id to all records behind
// its start: those behind its end are the parent's.
func (t *merge) owner(l *line) string {
	id, call := l.stream, l.String("tool_call_id")
	q := t.queue(id)
	if l.variant == "run_identified" {
		q.parent, q.callID, q.calls, q.ended = l.parent, "", nil, false
		if p := t.runs[l.parent]; l.parent != "" && p != nil && len(p.calls) == 1 {
			q.callID = p.calls[0]
		}
		return id
	}
	for range maxOpen {
		p := t.runs[q.parent]
		if id == "" || q.parent == "" || p == nil {
			break
		}
		if l.variant == "tool_execution_end" && !slices.Contains(q.calls, call) && slices.Contains(p.calls, call) {
			q.ended = true // it died
		}
		if !q.ended {
			break
		}
		id, q = q.parent, p
	}
	switch l.variant {
	case "tool_execution_start":
		if len(q.calls) < maxCalls {
			q.calls = append(q.calls, call)
		}
	case "tool_execution_end":
		q.calls = slices.DeleteFunc(q.calls, func(c string) bool { return c == call })
	case "agent_end":
		p := t.runs[q.parent]
		q.ended = p == nil || len(p.calls) <= 1 // else it may be the end of a sibling that uses this recorder
	}
	return id
}

// play hands out a record as an event of its own.
func (d *Decoder) play(q *queue, l *line) {
	q.played = true
	s, top := &q.own, q.own.top()
	nests := top == nil || l.variant == "turn_start" && top.open && len(top.openCalls()) > 0
	if l.variant != "run_identified" && !s.named && nests { // no record has the start of a run without an identity
		s.starts = append(s.starts, startOf(l))
	}
	d.event(s, l)
	if top = s.top(); top != nil {
		d.announce(top, otelagent.Moment{})
	}
}

// records reads the trajectory given by WithTrajectory.
type records struct {
	shell.Shell
	*merge
}

func (rs *records) BeforeOwn() {}
func (rs *records) End()       {}

func (rs *records) Line(in input.Line) {
	t := rs.merge
	if t.text < maxWaitText {
		in.Text = bytes.Clone(in.Text)
	}
	l := parse(&rs.Shell, in)
	if l == nil {
		return
	}
	if !l.record || l.variant == "" {
		rs.Reject(&input.LineError{Reason: "no record that is known"})
		return
	}
	rs.Shell.Stats.Events++
	keep := l
	if t.text >= maxWaitText {
		keep = nil
	}
	t.text += len(in.Text)
	t.add(t.queue(t.owner(l)), l, keep)
	rs.RejectProblems(l.name, l.Object)
}

// load reads the trajectory given by WithTrajectory, once.
func (d *Decoder) load() {
	t := &d.trajectory
	if t.source == nil {
		return
	}
	rs := &records{shell.New(Dialect, input.WithMaxLine(d.Settings.MaxLine)), t}
	source := t.source
	t.source = nil
	for ev, err := range rs.Events(source, rs) {
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
	t.lines = rs.Shell.Stats.Lines
	d.Shell.Stats.Events += rs.Shell.Stats.Events
	if t.lost || t.text > maxWaitText {
		d.Reject(&input.LineError{Field: "trajectory", Reason: "too long: some of its times and runs are left out"})
	}
}

// goOn hands out what the trajectory given by WithTrajectory has and the events had not.
func (d *Decoder) goOn() {
	d.load()
	type waiting struct {
		record
		id string
		q  *queue
	}
	var list []waiting
	for id, q := range d.trajectory.runs {
		for _, k := range q.kinds {
			for i, rec := range k.records {
				if rec.line != nil {
					list = append(list, waiting{rec, id, q})
					k.records[i].line = nil
					q.kept--
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b waiting) int { return cmp.Compare(a.number, b.number) })
	for _, w := range list {
		w.line.number, w.line.seq, w.line.arrived = d.Number, d.Seq, d.Arrived
		if !d.known(w.id) {
			d.play(w.q, w.line)
			continue
		}
		r := d.runs.find(w.id)
		if w.id == "" {
			r = d.stream("", false).top()
		}
		if r == nil || r.ended || w.number <= w.q.done || w.line.variant == "run_identified" {
			continue
		}
		d.announce(r, otelagent.Moment{})
		d.handle(r, w.line)
		for _, s := range d.streams {
			if r.ended {
				d.remove(s, r)
			}
		}
	}
}
