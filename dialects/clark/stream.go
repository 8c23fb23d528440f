package clark

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Bounds of what is remembered of streams.
const (
	maxStreams = 1024
	maxOpen    = 64 // open runs of one stream
	maxEarly   = 16 // lines kept until the start of their run is known
	maxSeqs    = 64 // sequence numbers by which a repeated line is known
)

// stream is a sequence of lines in the order of their events: those that an envelope calls by one name, or all that
// have none. Runs nest in it.
type stream struct {
	name  string
	named bool // name is the id of a run

	ledger bool // its lines are records

	stack  []*run  // open runs, the innermost last
	last   *run    // to end
	starts []start // agent_start lines whose run is not known yet
	early  []*line // lines of the innermost run, which has no start time yet
	made   int64   // runs without an identity so far

	mixture
	seqs   []int64 // the last ones
	before uint64  // hash of the line before, if it is of a kind that never comes twice in a row
}

// stream returns the stream of a name.
func (d *Decoder) stream(name string, named bool) *stream {
	i := slices.IndexFunc(d.streams, func(s *stream) bool { return s.name == name })
	if i >= 0 {
		s := d.streams[i]
		copy(d.streams[i:], d.streams[i+1:])
		d.streams[len(d.streams)-1] = s
		return s
	}
	if len(d.streams) == maxStreams {
		d.streams = slices.Delete(d.streams, 0, 1)
	}
	s := &stream{name: name, named: named}
	d.streams = append(d.streams, s)
	return s
}

func (s *stream) top() *run {
	if len(s.stack) == 0 {
		return nil
	}
	return s.stack[len(s.stack)-1]
}

// neverTwice are the variants of which two lines in a row that are spelled alike are one line written twice.
var neverTwice = []string{"run_identified", "turn_start", "turn_end", "message_end", "agent_end"}

// again rejects a line that was there before.
func (d *Decoder) again(s *stream, l *line) bool {
	if l.sequence >= 0 {
		n, seen := len(s.seqs), slices.Index(s.seqs, l.sequence)
		switch begins := l.variant == "agent_start"; {
		case seen >= 0 && begins && seen < n-1: // a run counts anew
			s.seqs = nil
		case seen >= 0:
			d.Reject(&input.LineError{Type: l.known(), Field: "seq",
				Reason: "the same as of a line before; the line is passed over"})
			return true
		case n > 0 && l.sequence < s.seqs[n-1] && !begins:
			l.outer.Fail("seq", "lower than that of a line before; the line is read where it stands")
		}
		s.seqs = append(s.seqs[max(0, len(s.seqs)-maxSeqs+1):], l.sequence)
		return false
	}
	if !slices.Contains(neverTwice, l.variant) || s.mixed != nil || len(s.starts) > 1 {
		s.before = 0
		return false
	}
	hash := maphash.Bytes(hashSeed, l.raw)
	if hash == s.before {
		d.Reject(&input.LineError{Type: l.name, Reason: "the same as the line before; the line is passed over"})
		return true
	}
	s.before = hash
	return false
}

// event hands out the events of a line of s. It returns false for a line that must wait until the start of its run is
// known.
func (d *Decoder) event(s *stream, l *line) bool {
	switch l.variant {
	case "agent_start":
		d.agentStart(s, l)
		return true
	case "run_identified":
		d.identified(s, l)
		return true
	}
	for s.mixed == nil && len(s.starts) > 0 { // no identity follows: the run has none
		d.push(s, d.nameless(s), l)
	}
	r := d.attribute(s, l)
	if r == nil {
		return true
	}
	d.timeOf(r, l)
	if d.waits(s, r, l) {
		return false
	}
	d.deliver(s, r, l)
	return true
}

// deliver hands out the events of a line of r, whose start was announced.
func (d *Decoder) deliver(s *stream, r *run, l *line) {
	if contradicts := r.contradicts(l); s.mixed == nil && (contradicts || s.ledger && r.open &&
		l.variant == "turn_start") {
		detail := "its lines are mixed with those of other runs"
		parent := d.runs.find(r.parentID)
		siblings := s.ledger && parent != nil && !parent.ended && len(parent.openCalls()) > 1
		if siblings { // they use its recorder
			r, detail = parent, "the records of several of its children are mixed"
		}
		if contradicts || siblings {
			s.mixture = mixture{mixed: r}
			d.mixedRuns(r, r.meta(l), detail)
			d.other(r.meta(l), l)
			return
		}
	}
	r.passed = false
	d.handle(r, l)
	if r.ended {
		d.remove(s, r)
	}
	if l.variant == "turn_end" && r == s.mixed && len(s.children) > 0 {
		d.unmix(s, l)
	}
}

func (d *Decoder) agentStart(s *stream, l *line) {
	if len(s.starts) == maxOpen {
		d.push(s, d.nameless(s), l)
	}
	if top := s.top(); top != nil && top.headless && top.turns == 0 {
		top.headless = false
		l.Fail("type", "stands behind the run_identified of its run")
		return
	}
	at := startOf(l)
	at.extra = l.Rest()
	s.starts = append(s.starts, at)
}

// nameless makes the run of an agent_start that no identity follows: its id is made of the name of its stream, else of
// the session as set, and the number of such runs in the stream.
func (d *Decoder) nameless(s *stream) *run {
	s.made++
	if s.named && s.name != "" {
		return d.newRun(s.name, nil)
	}
	for _, id := range []string{s.name, d.Settings.Session, "run"} {
		if id != "" {
			return d.newRun(id+"#"+strconv.FormatInt(s.made, 10), nil)
		}
	}
	return nil
}

func (d *Decoder) identified(s *stream, l *line) {
	id := messageOf(l.Raw("identity")).String("run_id")
	if id == "" {
		l.Fail("identity.run_id", "want a string that is not empty; the run is one without identity")
		return
	}
	r := d.newRun(id, l.Raw("identity"))
	r.identityExtra = l.Rest()
	d.push(s, r, l)
	parent := d.runs.find(r.parentID)
	if len(s.starts) > 0 && s.mixed == nil && slices.Contains(s.stack, parent) { // a sibling began as well
		d.mix(s, parent, l)
	}
}

// push puts a run that begins where it belongs on s.
func (d *Decoder) push(s *stream, r *run, l *line) {
	r.start, r.headless = startOf(l), len(s.starts) == 0
	if !r.headless {
		r.start, s.starts = s.starts[0], s.starts[1:]
	}
	d.flushEarly(s, otelagent.Moment{})
	d.begun(s, r, l)
	if s.mixed != nil {
		if s.admits(r) {
			d.join(s, r)
			return
		}
		s.stack, s.mixture = append(s.stack, s.children...), mixture{}
	}
	at := slices.IndexFunc(s.stack, func(o *run) bool { return r.parentID != "" && o.id == r.parentID })
	if at >= 0 {
		r.callID = s.stack[at].onlyCall()
		for len(s.stack) > at+1 && s.top().over() {
			d.pop(s)
		}
	} else {
		// It may be nested in a run whose call is open, and end before that goes on.
		for top := s.top(); top != nil && (len(top.openCalls()) == 0 || top.id == r.id || top.passed); top = s.top() {
			d.pop(s)
		}
		if p := d.runs.find(r.parentID); p != nil && !p.ended { // on another stream
			r.callID = p.onlyCall()
		}
		if top := s.top(); top != nil {
			top.passed = true
		}
	}
	if len(s.stack) == maxOpen {
		d.abandon(s.stack[0])
		s.stack = slices.Delete(s.stack, 0, 1)
		at--
	}
	if s.stack = append(s.stack, r); at >= 0 && len(s.stack) > at+2 {
		d.mix(s, s.stack[at], l)
	}
}

// begun remembers a run, and the time of its start as the trajectory has it.
func (d *Decoder) begun(s *stream, r *run, l *line) {
	r.ledger = s.ledger
	if old := d.runs.find(r.id); old != nil && !old.ended {
		if old.ledger && !r.ledger {
			old.ended = true // the same run, known from its events now
		} else {
			d.abandon(old)
			for _, s := range d.streams {
				d.remove(s, old)
			}
		}
	}
	d.runs.put(r)
	switch q := d.trajectory.runs[""]; {
	case r.ledger:
	case l.variant == "run_identified":
		d.startTime(r, l)
		if r.start.time.IsZero() && !d.Settings.Live {
			r.start.time = l.time
		}
	case !r.identified && q != nil && q.played:
		r.start.time = q.first()
	}
}

// pop ends the innermost run, whose end did not come.
func (d *Decoder) pop(s *stream) {
	s.last = s.top()
	d.abandon(s.last)
	s.stack = s.stack[:len(s.stack)-1]
}

// remove takes a run that has ended off s.
func (d *Decoder) remove(s *stream, r *run) {
	if i := slices.Index(s.stack, r); i >= 0 {
		for len(s.stack) > i { // it ended before those that it spawned
			d.pop(s)
		}
	}
	if s.mixed == r {
		s.mixture = mixture{}
	}
	s.children = slices.DeleteFunc(s.children, func(o *run) bool { return o == r })
}

// attribute returns the run of s that l is of; nil when its events were handed out already.
func (d *Decoder) attribute(s *stream, l *line) *run {
	if s.mixed != nil {
		return d.sort(&s.mixture, l)
	}
	id := l.String("tool_call_id")
	for i, r := range slices.Backward(s.stack) {
		if l.variant == "tool_execution_update" && r.knows(id) {
			return r
		}
		if l.variant == "tool_execution_end" && r.knows(id) || l.variant == "turn_end" && r.replied(l) {
			for len(s.stack) > i+1 { // their ends did not come
				d.flushEarly(s, otelagent.Moment{})
				d.pop(s)
			}
			break
		}
	}
	if top := s.top(); top != nil {
		return top
	}
	begins := l.variant == "turn_start" || l.variant == "provider_request_prepared" ||
		l.variant == "tool_execution_start"
	if s.last != nil && !begins {
		return s.last // late
	}
	if old := d.runs.find(s.name); s.named && old != nil && !old.ended && !old.ledger { // on another stream
		return old
	}
	r := d.nameless(s)
	r.inferred = true
	r.start = startOf(l)
	if s.ledger && s.named {
		r.identified, r.parentID, r.session = true, l.parent, ""
		if p := d.runs.find(l.parent); p != nil {
			r.session = p.session
		} else if l.parent == "" {
			r.session = r.id
		}
	}
	d.begun(s, r, l)
	s.stack = append(s.stack, r)
	return r
}

// replied reports whether l has the last reply of r.
func (r *run) replied(l *line) bool { return l.msg.raw != nil && bytes.Equal(r.reply.raw, l.msg.raw) }

// waits reports whether a line of r must wait until the time of its start is known, in a recording where the start has
// none.
func (d *Decoder) waits(s *stream, r *run, l *line) bool {
	if r.announced || r.ledger || d.Settings.Live || !r.start.time.IsZero() || s.mixed != nil {
		d.flushEarly(s, otelagent.Moment{})
		d.announce(r, otelagent.Moment{})
		return false
	}
	at := otelagent.Moment{Time: l.time, Source: spans.TimeSourceBound}
	if l.time.IsZero() {
		at = l.hint()
	}
	switch l.variant {
	case "turn_start", "message_start", "message_end", "tool_gate_applied", "tool_gate_conflict_resolved",
		"context_transform_applied":
		if at.Time.IsZero() && len(s.early) < maxEarly {
			return true
		}
	}
	d.announce(r, at)
	d.flushEarly(s, at)
	return false
}

// flushEarly hands out the lines kept for the start of the innermost run of s.
func (d *Decoder) flushEarly(s *stream, hint otelagent.Moment) {
	r, early := s.top(), s.early
	if r == nil || len(early) == 0 {
		return
	}
	s.early = nil
	d.announce(r, hint)
	for _, l := range early {
		d.handle(r, l)
		d.complain(l)
	}
}

// A mixture is a run whose children write to one stream at the same time: their lines do not say whose they are.
// Without children it is a run that contradicts itself, because another one writes to its stream.
type mixture struct {
	mixed    *run
	children []*run // open as far as is known
	ends     int    // agent_end lines that are of one of them
}

// mix says that lines of s from now on may be of parent or of any run inside.
func (d *Decoder) mix(s *stream, parent *run, l *line) {
	at := slices.Index(s.stack, parent)
	s.mixture = mixture{mixed: parent}
	inside := slices.Clone(s.stack[at+1:])
	s.stack = s.stack[:at+1]
	for _, r := range inside {
		d.join(s, r)
	}
	d.mixedRuns(parent, parent.meta(l), "the lines of several of its children are mixed")
}

// join adds a run to the mixture of s.
func (d *Decoder) join(s *stream, r *run) {
	if len(s.children) == maxOpen {
		d.abandon(s.children[0])
		s.children = s.children[1:]
	}
	s.children = append(s.children, r)
	d.announce(r, otelagent.Moment{})
}

// admits reports whether r, which begins, is one more run of the mixture.
func (m *mixture) admits(r *run) bool {
	return r.identified && r.parentID == m.mixed.id || len(m.children) == 0 && m.ends == 0
}

// unmix ends a mixture, whose run's turn is over: so are its children. They ended as they should if as many ends came.
func (d *Decoder) unmix(s *stream, l *line) {
	m := s.mixture
	s.mixture = mixture{}
	if m.ends < len(m.children) {
		return // which of them ended is not known
	}
	for _, r := range m.children {
		e := &otelagent.RunEnded{Meta: r.meta(l)}
		e.Status = spans.RunStatusCompleted
		if !l.time.IsZero() {
			e.End = otelagent.Moment{Time: l.time, Source: spans.TimeSourceBound}
		}
		r.ended = true
		d.Emit(e)
	}
}

// sort returns the run of a mixture if a line ends one of its calls, or its turn. Else it keeps the line on that run,
// pieces and beginnings of messages excepted, and returns nil.
func (d *Decoder) sort(m *mixture, l *line) *run {
	r := m.mixed
	switch l.variant {
	case "tool_execution_start", "tool_execution_update", "tool_execution_end":
		if r.knows(l.String("tool_call_id")) {
			return r
		}
	case "turn_end":
		if r.replied(l) {
			return r
		}
	case "message_start", "message_update":
		return nil
	case "agent_end":
		m.ends++
	}
	d.mixedRuns(r, r.meta(l), "its lines are mixed with those of other runs")
	d.other(r.meta(l), l)
	return nil
}

// contradicts reports whether l cannot be of r, though the order of the lines says so: it is a second reply to one
// request, or the end of a turn with another reply.
func (r *run) contradicts(l *line) bool {
	if r.reply.raw == nil || r.thrown || r.attempt < 0 {
		return false
	}
	switch l.variant {
	case "message_end":
		return l.msg.assistant() && r.open
	case "turn_end":
		return l.msg.raw != nil && !sameMessage(r.reply.raw, l.msg.raw)
	}
	return false
}
