package clark

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Bounds of what is remembered of a trajectory, and of events that wait for one.
const (
	maxQueues   = 4096
	maxWaiting  = 1 << 16 // records or marks of one run
	maxMarks    = 1 << 18 // of all runs
	maxWaitText = 64 << 20
	// window is how far a record may stand behind others of its run that were not met, and ahead how far a trajectory is read for one.
	window = 64
	ahead  = 256
)

// merge brings events and the records of a trajectory together: by the order of matching kinds, run by run. A record is only ever told as an
// event of its own when its run is not known from events, or when that run goes on behind its last event.
type merge struct {
	byRun map[string]*queue // by run id; under the empty one those without
	order []string

	source *input.Scanner // of WithTrajectory, until its end
	lines  int64          // of it
	line   line
	number int64 // of records, from 1
	marks  int
	text   int // bytes of records that wait
	copies int // of records that wait

	nameless bool   // runs without an identity are known from events
	made     int64  // runs without an identity, told from records
	last     *queue // of the last event

	// Where records come right behind their events, an event waits for its record.
	follow  bool
	held    *kept
	heldFor *stream

	lastRun string
	lastSeq int64
}

// queue is what of one run was not brought together yet. At most one of both lists is long.
type queue struct {
	records []waiting
	copies  int // records that have a copy
	seen    []mark
	lost    bool  // marks were forgotten: records are not waited for any more
	done    int64 // number of the last record that was met
	began   int64 // that of its run_started, 0 without one
	latest  int64 // that of the last record

	told   bool   // its records were told as events of their own
	ledger *run   // as told from records
	outer  []*run // without run ids: runs in which that one is nested

	// For the repair of a recorder that parent and child share: behind the child its records carry the child's id.
	parent string
	ended  bool
	turn   bool // a turn is open
	asked  bool // a request waits for its reply
	calls  map[string]bool
	mixed  bool   // its records are those of several runs
	callID string // of the parent, that certainly spawned the run
}

// mark is what an event and its record have in common.
type mark struct {
	variant variant
	key     uint64
}

// waiting is a record whose event did not come yet.
type waiting struct {
	mark
	time   time.Time
	number int64
	line   *kept // a copy, of records that come by WithTrajectory
}

// recordable reports whether the trajectory has a record of such a line.
func (l *line) recordable() bool { return variants[l.variant].record != "" }

// mark returns what the line has in common with its record. Of messages that is what tells them apart, because some producers change the
// order of keys.
func (l *line) mark() mark {
	var parts [][]byte
	switch l.variant {
	case vTurnEnd, vMessageEnd:
		parts = [][]byte{l.msg.role, l.msg.stopReason, l.msg.timestamp}
	case vToolStart, vToolEnd:
		parts = [][]byte{l.get(kToolCallID), l.get(kToolName)}
	case vTransform, vGate:
		parts = [][]byte{l.get(kIteration), l.get(kPlugin)}
	case vConflict, vRequest:
		parts = [][]byte{l.get(kIteration)}
	case vEscalation:
		parts = [][]byte{l.get(kAttempt)}
	}
	return mark{l.variant, hashOf(parts...)}
}

// queue returns that of a run id.
func (m *merge) queue(id string) *queue {
	q := m.byRun[id]
	if q != nil {
		return q
	}
	if m.byRun == nil {
		m.byRun = map[string]*queue{}
	}
	if len(m.order) == maxQueues { // one whose records were told, if there is one
		gone := max(slices.IndexFunc(m.order, func(id string) bool { return m.byRun[id].copies == 0 }), 0)
		old := m.byRun[m.order[gone]]
		m.marks -= len(old.seen)
		for _, w := range old.records {
			m.forget(old, w)
		}
		delete(m.byRun, m.order[gone])
		m.order = without(m.order, gone)
	}
	q = &queue{}
	m.byRun[id] = q
	m.order = append(m.order, id)
	return q
}

// queueOf returns that of a run known from events.
func (m *merge) queueOf(r *run) *queue {
	if !r.identified {
		m.nameless = true
		return m.queue("")
	}
	return m.queue(r.id)
}

// told reports whether records of a run were told as events of their own: then its times are those of the records, so that both tell of the
// same run.
func (m *merge) told(id string) bool {
	q := m.byRun[id]
	return q != nil && q.told
}

// goesOn reports whether the trajectory has a record of r behind the start of other: then r goes on, and the recorder tells both apart. One
// that they share would give all records the id of other.
func (d *Decoder) goesOn(r, other *run) bool {
	q := d.merge.queueOf(r)
	for n := 0; ; n++ {
		if o := d.merge.queueOf(other); o.began > 0 && (q.latest > o.began) {
			return true
		}
		if n == ahead || !d.pull() {
			return false
		}
	}
}

// open returns the runs that are told from records and have not ended.
func (m *merge) open() (list []*run) {
	for _, id := range slices.Backward(m.order) {
		if r := m.byRun[id].ledger; r != nil && !r.ended {
			list = append(list, r)
		}
	}
	return list
}

// find returns the position of the first record like m, of those that come next; -1 when there is none.
func (q *queue) find(m mark) int {
	return slices.IndexFunc(q.records[:min(len(q.records), window)], func(w waiting) bool { return w.mark == m })
}

// count numbers the record l of q.
func (m *merge) count(q *queue, l *line) waiting {
	m.number++
	q.latest = m.number
	if l.variant == vRunIdentified {
		q.began = m.number
	}
	return waiting{l.mark(), l.time, m.number, nil}
}

// forget says that the copy of a record of q is not held any more.
func (m *merge) forget(q *queue, w waiting) {
	if w.line != nil {
		m.text -= len(w.line.text)
		m.copies--
		q.copies--
	}
}

// drop takes the i-th record off q.
func (d *Decoder) drop(q *queue, i int) waiting {
	w := q.records[i]
	d.merge.forget(q, w)
	q.records = without(q.records, i)
	q.done = max(q.done, w.number)
	return w
}

// take returns the record of an event of r. Without one it notes that the event was there.
func (d *Decoder) take(r *run, l *line) (waiting, bool) {
	m := &d.merge
	q := m.queueOf(r)
	m.last = q
	want := l.mark()
	i := q.find(want)
	for n := 0; i < 0 && n < ahead && d.pull(); n++ {
		i = q.find(want)
	}
	if i >= 0 {
		return d.drop(q, i), true
	}
	switch {
	case q.lost:
	case len(q.seen) == maxWaiting || m.marks >= maxMarks:
		m.marks -= len(q.seen)
		q.seen, q.lost = nil, true
	default:
		q.seen = append(q.seen, want)
		m.marks++
	}
	return waiting{}, false
}

// takeOf returns the run of several whose next record is that of l, and gives l its time.
func (d *Decoder) takeOf(all []*run, l *line) *run {
	if !l.recordable() {
		return nil
	}
	want := l.mark()
	for n := 0; ; n++ {
		var found *run
		var of *queue
		at := -1
		for _, r := range all {
			q := d.merge.queueOf(r)
			if i := q.find(want); i >= 0 && (of == nil || q.records[i].number < of.records[at].number) {
				found, of, at = r, q, i
			}
		}
		if found != nil {
			d.time(l, found, d.drop(of, at))
			return found
		}
		if n == ahead || !d.pull() {
			return nil
		}
	}
}

// timeOf gives l the time of its record, where it has none of its own.
func (d *Decoder) timeOf(r *run, l *line) {
	if !l.recordable() || l.matched || r.ledger {
		return
	}
	if w, ok := d.take(r, l); ok {
		d.time(l, r, w)
		if l.variant == vAgentEnd {
			d.missing(r, l, w.number)
		}
	}
}

func (d *Decoder) time(l *line, r *run, w waiting) {
	l.matched = true
	if l.time.IsZero() || d.merge.queueOf(r).told {
		l.time = w.time
	}
}

// missing tells of records of r before the given one that no event was like.
func (d *Decoder) missing(r *run, l *line, before int64) {
	q := d.merge.queueOf(r)
	n := 0
	for len(q.records) > 0 && q.records[0].number < before {
		d.drop(q, 0)
		n++
	}
	if n > 0 {
		d.emit(&otelagent.DefectFound{Meta: r.meta(l), Code: spans.DefectEventLost, Detail: fmt.Sprintf("%d records of the trajectory have no event", n)})
	}
}

// hold keeps an event for its record, where those come right behind; it reports whether it did.
func (d *Decoder) hold(s *stream, l *line) bool {
	if !d.merge.follow || !l.recordable() || !l.time.IsZero() {
		return false
	}
	d.merge.held, d.merge.heldFor = &kept{bytes.Clone(l.text()), l.place}, s
	return true
}

// flushHeld hands out the event that waits for its record, for want of that.
func (d *Decoder) flushHeld() {
	m := &d.merge
	if m.held == nil {
		return
	}
	held := m.held
	m.held, m.follow = nil, false
	d.replay([]kept{*held}, func(l *line) { d.deliver(m.heldFor, l) })
}

// record takes a record that stands in the input itself.
func (d *Decoder) record(l *line) {
	m := &d.merge
	if l.sequence >= 0 && l.sequence == m.lastSeq && l.stream == m.lastRun && m.number > 0 {
		l.miss("seq", "the same as of the record before; the record is passed over")
		return
	}
	m.lastRun, m.lastSeq = l.stream, l.sequence
	if l.variant == unknownVariant {
		d.flushHeld()
		d.emit(&otelagent.Other{Meta: otelagent.Meta{Run: l.stream, Session: d.sessionOf(l.stream), Time: l.time, Arrived: l.arrived, Seq: l.place.seq},
			Type: l.name, Body: l.outer.raw})
		return
	}
	id := m.repair(l)
	q := m.queue(id)
	w := m.count(q, l)
	if !d.known(id) && !d.streams.pending() && (m.held == nil || l.variant != vRunIdentified) {
		d.play(q, id, l)
		q.told = true
		d.wait(q, w)
		return
	}
	if held := m.held; held != nil {
		met := false
		m.held = nil
		d.replay([]kept{*held}, func(e *line) {
			if met = e.mark() == w.mark; met {
				e.time, e.matched, e.owner = l.time, true, id
			}
			d.deliver(m.heldFor, e)
		})
		if met {
			return
		}
	}
	if i := slices.Index(q.seen[:min(len(q.seen), window)], w.mark); i >= 0 {
		m.follow = i == len(q.seen)-1 && m.last == q
		m.marks -= i + 1
		q.seen = q.seen[i+1:]
		if r := d.runs.find(id); l.variant == vRunIdentified && r != nil && !r.announced && r.startAt.IsZero() {
			r.startAt = l.time
		}
		return
	}
	if !q.lost {
		d.wait(q, w)
	}
}

// wait keeps a record for its event.
func (d *Decoder) wait(q *queue, w waiting) {
	if len(q.records) == maxWaiting {
		d.drop(q, 0)
	}
	q.records = append(q.records, w)
}

// known reports whether the run of a record is known from events.
func (d *Decoder) known(id string) bool {
	if id == "" {
		return d.merge.nameless
	}
	r := d.runs.find(id)
	return r != nil && !r.ledger
}

func (d *Decoder) sessionOf(id string) string {
	if r := d.runs.find(id); r != nil {
		return r.session
	}
	return ""
}

// repair returns the run of a record. Behind a child that used the recorder of its parent the records carry the id of the child.
func (m *merge) repair(l *line) string {
	id := l.stream
	q := m.queue(id)
	if l.variant == vRunIdentified {
		q.ended, q.turn, q.asked, q.mixed, q.parent, q.calls, q.callID = false, false, false, false, l.parent, nil, ""
		if p := m.byRun[l.parent]; l.parent != "" && p != nil && len(p.calls) == 1 {
			for call := range p.calls {
				q.callID = stringOf([]byte(call))
			}
		}
		return id
	}
	if q.parent == "" {
		q.parent = l.parent
	}
	call := string(l.get(kToolCallID))
	for range maxOpen {
		parent := m.byRun[q.parent]
		if id == "" || q.parent == "" || parent == nil {
			break
		}
		if l.variant == vToolEnd && !q.calls[call] && parent.calls[call] {
			q.ended = true
		}
		if !q.ended {
			break
		}
		id, q = q.parent, parent
	}
	switch l.variant {
	case vToolStart:
		if q.calls == nil {
			q.calls = map[string]bool{}
		}
		if len(q.calls) < maxCalls {
			q.calls[call] = true
		}
	case vToolEnd:
		delete(q.calls, call)
	case vTurnStart:
		q.mixed = q.mixed || q.turn && m.siblings(q)
		q.turn = true
	case vRequest:
		q.asked = true
	case vMessageEnd:
		if l.msg.assistant() {
			q.mixed = q.mixed || !q.asked && m.siblings(q)
			q.asked = false
		}
	case vTurnEnd:
		q.turn = false
	case vAgentEnd:
		q.ended = !q.mixed
	}
	return id
}

// siblings reports whether the run of q may run beside another one of its parent. A recorder that both share gives all records the id of the
// one that began last, which shows when a turn begins in another or a reply comes that was not asked for.
func (m *merge) siblings(q *queue) bool {
	p := m.byRun[q.parent]
	return q.parent != "" && p != nil && len(p.calls) > 1
}

// play tells a record as an event of its own.
func (d *Decoder) play(q *queue, id string, l *line) {
	d.flushHeld()
	r := q.ledger
	switch {
	case l.variant == vRunIdentified:
		if r != nil {
			d.abandon(r)
		}
		r = d.newRun(id, l.get(kIdentity))
		d.beginLedger(q, r, l)
		return
	case r == nil || id == "" && (r.ended || l.variant == vTurnStart && r.open && r.calling()):
		if id == "" {
			if r != nil && !r.ended && len(q.outer) < maxOpen {
				q.outer = append(q.outer, r)
			}
			d.merge.made++
			r = d.nameless(&stream{made: d.merge.made - 1})
		} else {
			r = d.newRun(id, nil)
			r.identified, r.inferred, r.parentID = true, true, l.parent
			if p := d.runs.find(l.parent); p != nil {
				r.session = p.session
			} else if l.parent == "" {
				r.session = id
			}
		}
		d.beginLedger(q, r, l)
	}
	if id != "" && q.mixed {
		keeper := r
		if p := d.merge.byRun[r.parentID]; p != nil && p.ledger != nil && !p.ledger.ended {
			keeper = p.ledger
		}
		d.mixedRuns(keeper, keeper.meta(l), "the records of several of its children are mixed")
		d.other(keeper.meta(l), l)
		return
	}
	d.handle(r, l)
	if n := len(q.outer); r.ended && n > 0 {
		q.ledger, q.outer = q.outer[n-1], q.outer[:n-1]
	}
}

func (d *Decoder) beginLedger(q *queue, r *run, l *line) {
	r.ledger, r.start, r.startAt = true, l.place, l.time
	r.callID = q.callID
	q.ledger = r
	d.runs.put(r)
	d.announce(r, otelagent.Moment{})
}

// pull reads one more record of the trajectory given by WithTrajectory, and reports whether there was one.
func (d *Decoder) pull() bool {
	m := &d.merge
	for m.source != nil && !d.stopped {
		if !m.source.Scan() {
			if err := m.source.Err(); err != nil {
				d.reject(&input.LineError{Field: "trajectory", Reason: err.Error()})
			}
			m.source = nil
			return false
		}
		at := m.source.Line()
		m.lines++
		bad := &input.LineError{Reason: "longer than " + strconv.Itoa(d.settings.MaxLine) + " bytes"}
		if !at.TooLong {
			bad = m.line.parse(at.Text)
		}
		if bad == nil && (!m.line.record || m.line.variant == unknownVariant) {
			bad = &input.LineError{Reason: "no record that is known"}
		}
		if bad != nil {
			bad.Field = "trajectory line " + strconv.FormatInt(at.Number, 10) + " " + bad.Field
			d.reject(bad)
			continue
		}
		d.stats.Events++
		m.line.place = d.at
		q := m.queue(m.repair(&m.line))
		w := m.count(q, &m.line)
		if m.text+len(at.Text) <= maxWaitText {
			w.line = &kept{bytes.Clone(at.Text), d.at}
			m.text += len(at.Text)
			m.copies++
			q.copies++
		}
		d.wait(q, w)
		return true
	}
	return false
}

// drain tells what the trajectory given by WithTrajectory has and the events had not.
func (d *Decoder) drain() {
	m := &d.merge
	if m.source == nil && m.text == 0 {
		return
	}
	for more := true; more; {
		more = d.pull()
		if more && m.text < maxWaitText/2 && (len(m.order) < maxQueues || m.copies < maxQueues/2) {
			continue // the order counts: the more is known of it the better
		}
		d.tell()
	}
}

// tell plays the records that wait, in their order.
func (d *Decoder) tell() {
	type one struct {
		id string
		q  *queue
		w  waiting
	}
	var list []one
	for _, id := range d.merge.order {
		q := d.merge.byRun[id]
		if q.copies == 0 {
			continue
		}
		for _, w := range q.records {
			if w.line != nil {
				list = append(list, one{id, q, w})
				d.merge.forget(q, w)
			}
		}
		q.records = slices.DeleteFunc(q.records, func(w waiting) bool { return w.line != nil })
	}
	slices.SortFunc(list, func(a, b one) int { return cmp.Compare(a.w.number, b.w.number) })
	for _, o := range list {
		if i := slices.Index(o.q.seen[:min(len(o.q.seen), window)], o.w.mark); i >= 0 {
			o.q.seen = o.q.seen[i+1:]
			continue
		}
		d.replay([]kept{*o.w.line}, func(l *line) {
			if !d.known(o.id) {
				d.play(o.q, o.id, l)
				o.q.told = true
				o.w.line = nil
				d.wait(o.q, o.w)
				return
			}
			d.goOn(o.id, o.q, o.w.number, l)
		})
	}
}

// goOn tells a record of a run whose events ended before it.
func (d *Decoder) goOn(id string, q *queue, number int64, l *line) {
	var r *run
	if id != "" {
		r = d.runs.find(id)
	} else if s := d.streams.of("", false); len(s.stack) > 0 {
		r = s.stack[len(s.stack)-1]
	}
	if r == nil || r.ended || number <= q.done || l.variant == vRunIdentified {
		return
	}
	d.announce(r, otelagent.Moment{})
	d.handle(r, l)
	if r.ended {
		for _, s := range d.streams.list {
			d.remove(s, r)
		}
	}
}
