package clark

import (
	"bytes"
	"slices"
	"strconv"
	"time"

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

// stream is a sequence of lines in the order of their events: those that an envelope calls by one name, or all that have none. Runs nest
// in it.
type stream struct {
	name  string
	named bool // name is the id of a run

	stack   []*run  // open runs, the innermost last
	last    *run    // to end
	starts  []start // agent_start lines whose run is not known yet
	early   []kept  // lines of the innermost run, which has no start time yet
	made    int64   // runs without an identity so far
	mixture *mixture

	seqs   [maxSeqs]int64 // the last ones, in a ring
	seqAt  int
	seqN   int
	before uint64 // hash of the line before, of a kind that never comes twice in a row
}

// start is what an agent_start tells.
type start struct {
	at    place
	time  time.Time
	extra []byte // what it has that is not clark-agent's
}

// kept is a line that is read later.
type kept struct {
	text []byte
	at   place
}

type streams struct {
	list []*stream
}

// of returns the stream of a name.
func (s *streams) of(name string, named bool) *stream {
	for i, known := range slices.Backward(s.list) {
		if known.name == name {
			if i < len(s.list)-1 { // used last
				s.list = append(slices.Delete(s.list, i, i+1), known)
			}
			return known
		}
	}
	if len(s.list) == maxStreams {
		s.list = slices.Delete(s.list, 0, 1)
	}
	made := &stream{name: name, named: named}
	s.list = append(s.list, made)
	return made
}

// pending reports whether a run began somewhere of which nothing else is known.
func (s *streams) pending() bool {
	return slices.ContainsFunc(s.list, func(s *stream) bool { return len(s.starts) > 0 })
}

// announceAll tells of the start of every run, for want of a time.
func (s *streams) announceAll(d *Decoder) {
	for _, known := range s.list {
		d.flushEarly(known, otelagent.Moment{})
		if len(known.stack) > 0 {
			d.announce(known.stack[len(known.stack)-1], otelagent.Moment{})
		}
	}
}

// neverTwice are the variants of which two lines in a row that are spelled alike are one line written twice.
func neverTwice(v variant) bool {
	switch v {
	case vRunIdentified, vTurnStart, vTurnEnd, vMessageEnd, vAgentEnd:
		return true
	}
	return false
}

// again reports a line that was there before.
func (d *Decoder) again(l *line) *input.LineError {
	if l.record {
		return nil
	}
	s := d.streams.of(l.stream, l.named)
	if l.sequence >= 0 {
		seen := slices.Index(s.seqs[:s.seqN], l.sequence)
		latest := (s.seqAt + maxSeqs - 1) % maxSeqs
		switch {
		case seen < 0:
			if s.seqN > 0 && l.sequence < s.seqs[latest] && l.variant != vAgentStart {
				l.miss("seq", "lower than that of a line before; the line is read where it stands")
			}
		case l.variant == vAgentStart && seen != latest: // a run counts anew
			s.seqN, s.seqAt = 0, 0
		default:
			return &input.LineError{Type: l.variantName(), Field: "seq", Reason: "the same as of a line before; the line is passed over"}
		}
		s.seqs[s.seqAt] = l.sequence
		s.seqAt = (s.seqAt + 1) % maxSeqs
		s.seqN = min(s.seqN+1, maxSeqs)
		return nil
	}
	if !neverTwice(l.variant) || s.mixture != nil || len(s.starts) > 1 {
		s.before = 0
		return nil
	}
	hash := hashOf(l.inner.raw)
	if hash == s.before {
		return &input.LineError{Type: l.name, Reason: "the same as the line before; the line is passed over"}
	}
	s.before = hash
	return nil
}

// event takes a line of an event.
func (d *Decoder) event(l *line) {
	s := d.streams.of(l.stream, l.named)
	d.flushHeld()
	if d.hold(s, l) {
		return
	}
	d.deliver(s, l)
}

// deliver hands out what a line of s tells.
func (d *Decoder) deliver(s *stream, l *line) {
	switch l.variant {
	case vAgentStart:
		d.agentStart(s, l)
		return
	case vRunIdentified:
		d.identified(s, l)
		return
	}
	if s.mixture == nil {
		for len(s.starts) > 0 { // no identity follows: the run has none
			d.push(s, d.nameless(s), l)
		}
	}
	r := d.attribute(s, l)
	if r == nil {
		return
	}
	if s.mixture == nil || !s.mixture.told || !l.recordable() {
		d.timeOf(r, l)
	}
	if d.early(s, r, l) {
		return
	}
	d.announce(r, otelagent.Moment{})
	if s.mixture == nil && r.strange(l) {
		s.stack = slices.DeleteFunc(s.stack, func(o *run) bool { return o == r })
		s.mixture = &mixture{runs: []*run{r}, calls: map[string]bool{}}
		d.sort(s, l)
		return
	}
	r.passed = false
	d.handle(r, l)
	if r.ended {
		d.remove(s, r)
	}
	if m := s.mixture; m != nil && l.variant == vTurnEnd && r == m.parent && r != nil {
		d.unmix(s, l)
	}
}

func (d *Decoder) agentStart(s *stream, l *line) {
	if len(s.starts) == maxOpen {
		d.push(s, d.nameless(s), l)
	}
	if n := len(s.stack); n > 0 && s.stack[n-1].headless && s.stack[n-1].turns == 0 {
		s.stack[n-1].headless = false
		l.miss("type", "stands behind the run_identified of its run")
		return
	}
	s.starts = append(s.starts, start{l.place, l.time, l.extras()})
}

// begin gives r the start that came first of those that wait; that of l where none does.
func (s *stream) begin(r *run, l *line) {
	r.start, r.startAt = l.place, l.time
	if len(s.starts) > 0 {
		first := s.starts[0]
		r.start, r.startAt, r.startExtra = first.at, first.time, first.extra
		s.starts = s.starts[1:]
		return
	}
	r.headless = true
}

// nameless makes the run of an agent_start that no identity follows: its id is made of the name of its stream, else of the session as set,
// and the number of such runs in the stream.
func (d *Decoder) nameless(s *stream) *run {
	s.made++
	id := s.name
	if !s.named || id == "" {
		if id == "" {
			id = d.settings.Session
		}
		if id == "" {
			id = "run"
		}
		id += "#" + strconv.FormatInt(s.made, 10)
	}
	return d.newRun(id, nil)
}

func (d *Decoder) identified(s *stream, l *line) {
	identity := l.get(kIdentity)
	id := ""
	membersOf(identity, func(key string, value []byte) {
		if key == "run_id" {
			id = stringOf(value)
		}
	})
	if id == "" {
		l.miss("identity.run_id", "want a string that is not empty; the run is one without identity")
		return
	}
	several := len(s.starts) > 1
	r := d.newRun(id, identity)
	r.identityExtra = l.extras()
	d.push(s, r, l)
	if m := s.mixture; several && m == nil {
		if parent := d.runs.find(r.parentID); parent != nil && slices.Contains(s.stack, parent) {
			d.mix(s, parent, l)
		}
	}
}

// push puts a run that begins where it belongs on s.
func (d *Decoder) push(s *stream, r *run, l *line) {
	s.begin(r, l)
	d.flushEarly(s, otelagent.Moment{})
	d.begun(r, l)
	at := slices.IndexFunc(s.stack, func(o *run) bool { return r.identified && o.id == r.parentID && r.parentID != "" })
	switch {
	case s.mixture != nil && r.identified && s.mixture.admits(r):
		if m := s.mixture; len(m.runs) == maxOpen {
			d.abandon(m.runs[0])
			m.runs = slices.Delete(m.runs, 0, 1)
		}
		s.mixture.runs = append(s.mixture.runs, r)
		d.announceMixed(r)
		return
	case s.mixture != nil:
		s.stack, s.mixture = append(s.stack, s.mixture.runs...), nil
		at = slices.IndexFunc(s.stack, func(o *run) bool { return r.identified && o.id == r.parentID && r.parentID != "" })
	}
	switch {
	case at >= 0:
		if n, one := s.stack[at].openCalls(); n == 1 {
			r.callID = one.id
		}
		for len(s.stack) > at+1 && s.stack[len(s.stack)-1].over() {
			d.abandon(s.stack[len(s.stack)-1])
			d.pop(s)
		}
	case r.identified:
		for len(s.stack) > 0 && !s.mayGoOn(r) {
			if top := s.stack[len(s.stack)-1]; top.id != r.id && d.goesOn(top, r) {
				s.mixture = &mixture{runs: append(slices.Clone(s.stack), r), told: true, calls: map[string]bool{}}
				s.stack = s.stack[:0]
				return
			}
			d.abandon(s.stack[len(s.stack)-1])
			d.pop(s)
		}
		if p := d.runs.find(r.parentID); p != nil && !p.ended { // on another stream
			if n, one := p.openCalls(); n == 1 {
				r.callID = one.id
			}
		}
	default: // it may be nested in a run whose call is open, and end before that goes on
		for len(s.stack) > 0 && !s.mayGoOn(r) {
			d.abandon(s.stack[len(s.stack)-1])
			d.pop(s)
		}
	}
	if at < 0 && len(s.stack) > 0 {
		s.stack[len(s.stack)-1].passed = true
	}
	for len(s.stack) >= maxOpen {
		d.abandon(s.stack[0])
		s.stack = slices.Delete(s.stack, 0, 1)
		at--
	}
	s.stack = append(s.stack, r)
	if at >= 0 && len(s.stack) > at+2 {
		d.mix(s, s.stack[at], l)
	}
}

// announceMixed tells of the start of a run of a mixture whose time is known, while the calls that may have spawned it are open: later it
// would look like a child of the last of them.
func (d *Decoder) announceMixed(r *run) {
	if !r.startAt.IsZero() {
		d.announce(r, otelagent.Moment{})
	}
}

// mayGoOn reports whether the innermost run of s may go on behind r, which does not name it: a host that made a fresh identity in a tool
// looks like one that began anew after it stopped a tool. Two such runs in a row are the latter.
func (s *stream) mayGoOn(r *run) bool {
	top := s.stack[len(s.stack)-1]
	n, _ := top.openCalls()
	return n > 0 && top.id != r.id && !top.passed
}

// begun remembers a run, and the time of its start as the trajectory has it.
func (d *Decoder) begun(r *run, l *line) {
	if old := d.runs.find(r.id); old != nil && !old.ended {
		if old.ledger {
			old.ended = true // the same run, told from its events now
		} else {
			d.abandon(old)
			for _, s := range d.streams.list {
				d.remove(s, old)
			}
		}
	}
	d.runs.put(r)
	if l.variant != vRunIdentified {
		if q := d.merge.byRun[""]; !r.identified && q != nil && q.told && len(q.records) > 0 {
			r.startAt = q.records[0].time
		}
		return
	}
	if l.matched {
		r.startAt = l.time
	} else if w, ok := d.take(r, l); ok && (r.startAt.IsZero() || d.merge.told(r.id)) {
		r.startAt = w.time
	}
	r.callID = d.merge.queueOf(r).callID
	if d.settings.Live {
		return
	}
	if r.startAt.IsZero() {
		r.startAt = l.time
	}
}

func (d *Decoder) pop(s *stream) {
	s.last = s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
}

// remove takes a run that has ended off s.
func (d *Decoder) remove(s *stream, r *run) {
	if i := slices.Index(s.stack, r); i >= 0 {
		for len(s.stack) > i+1 { // it ended before those that it spawned
			d.abandon(s.stack[len(s.stack)-1])
			d.pop(s)
		}
		d.pop(s)
	}
	if m := s.mixture; m != nil {
		m.runs = slices.DeleteFunc(m.runs, func(o *run) bool { return o == r })
		switch {
		case r == m.parent, m.parent == nil && len(m.runs) == 0:
			s.mixture = nil
		case m.parent == nil && !m.told && len(m.runs) > 0:
		case len(m.runs) <= 1 && m.ends == 0 && len(s.starts) == 0: // what comes now is certain again
			s.stack = append(s.stack, m.runs...)
			s.mixture = nil
		}
	}
}

// attribute returns the run of s that l is of; nil when what l tells was handed out already.
func (d *Decoder) attribute(s *stream, l *line) *run {
	if s.mixture != nil {
		return d.sort(s, l)
	}
	switch l.variant {
	case vToolEnd, vToolUpdate:
		id := stringOf(l.get(kToolCallID))
		if i := s.holder(func(r *run) bool { return r.knows(id) }); i >= 0 {
			if l.variant == vToolUpdate {
				return s.stack[i]
			}
			d.cut(s, i)
		}
	case vTurnEnd:
		if i := s.holder(func(r *run) bool { return l.msg.raw != nil && bytes.Equal(r.reply.raw, l.msg.raw) }); i >= 0 {
			d.cut(s, i)
		}
	}
	if n := len(s.stack); n > 0 {
		return s.stack[n-1]
	}
	if s.last != nil && !begins(l.variant) {
		return s.last // late
	}
	if old := d.runs.find(s.name); s.named && old != nil && !old.ended && !old.ledger { // on another stream
		return old
	}
	r := d.nameless(s)
	r.inferred = true
	r.start, r.startAt = l.place, l.time
	d.begun(r, l)
	s.stack = append(s.stack, r)
	return r
}

// holder returns the position of the innermost run of the stack that fits; -1 when it is none or the innermost of all.
func (s *stream) holder(fits func(r *run) bool) int {
	for i, r := range slices.Backward(s.stack) {
		if fits(r) {
			if i == len(s.stack)-1 {
				return -1
			}
			return i
		}
	}
	return -1
}

// cut ends the runs of the stack above the i-th, whose ends did not come.
func (d *Decoder) cut(s *stream, i int) {
	d.flushEarly(s, otelagent.Moment{})
	for len(s.stack) > i+1 {
		d.abandon(s.stack[len(s.stack)-1])
		d.pop(s)
	}
}

// begins reports whether a line begins something, which only an open run does.
func begins(v variant) bool { return v == vTurnStart || v == vRequest || v == vToolStart }

// early keeps a line of r until the time of its start is known, in a recording where the start has none; it reports whether it did.
func (d *Decoder) early(s *stream, r *run, l *line) bool {
	if r.announced || d.settings.Live || !r.startAt.IsZero() || s.mixture != nil {
		d.flushEarly(s, otelagent.Moment{})
		return false
	}
	if !l.time.IsZero() {
		bound := otelagent.Moment{Time: l.time, Source: spans.TimeSourceBound}
		d.announce(r, bound)
		d.flushEarly(s, bound)
		return false
	}
	hint := l.hint()
	if hint.Time.IsZero() && len(s.early) < maxEarly {
		switch l.variant {
		case vTurnStart, vMessageStart, vMessageEnd, vGate, vConflict, vTransform:
			s.early = append(s.early, kept{bytes.Clone(l.text()), l.place})
			return true
		}
	}
	d.announce(r, hint)
	d.flushEarly(s, hint)
	return false
}

// hint is a time that a line tells of its run: that of its first message, or, where the run continues earlier messages, the latest of those,
// which it did not begin before.
func (l *line) hint() otelagent.Moment {
	if t := l.msg.time(); !t.IsZero() {
		return otelagent.Moment{Time: t, Source: spans.TimeSourceMessage}
	}
	at := otelagent.Moment{Source: spans.TimeSourceBound}
	if l.variant == vRequest {
		eachOf(l.get(kMessages), func(raw []byte) {
			if raw[0] == '{' {
				m := messageOf(raw)
				if t := m.time(); t.After(at.Time) {
					at.Time = t
				}
			}
		})
	}
	return at
}

// text is the whole line.
func (l *line) text() []byte {
	if l.enveloped {
		return l.outer.raw
	}
	return l.inner.raw
}

// flushEarly hands out the lines kept for the start of the innermost run of s.
func (d *Decoder) flushEarly(s *stream, hint otelagent.Moment) {
	if len(s.early) == 0 || len(s.stack) == 0 {
		return
	}
	r := s.stack[len(s.stack)-1]
	early := s.early
	s.early = nil
	d.announce(r, hint)
	d.replay(early, func(l *line) {
		d.timeOf(r, l)
		d.handle(r, l)
	})
}

// replay reads lines that were kept.
func (d *Decoder) replay(list []kept, take func(l *line)) {
	at := d.at
	for _, k := range list {
		var l line
		if l.parse(k.text) == nil { // as it was before, and what is wrong was reported
			l.wrong = l.wrong[:0]
			d.at, l.place = k.at, k.at
			take(&l)
			d.complain(&l)
		}
	}
	d.at = at
}

// finish tells what is known at the end of an input.
func (d *Decoder) finish() {
	d.flushHeld()
	d.streams.announceAll(d)
	d.drain()
	for _, s := range d.streams.list {
		open := slices.Clone(s.stack)
		if s.mixture != nil {
			open = append(open, s.mixture.runs...)
		}
		for _, r := range slices.Backward(open) {
			if d.announce(r, otelagent.Moment{}); r.over() {
				d.abandon(r)
				d.remove(s, r)
				continue
			}
			d.endFromReply(r)
		}
	}
	for _, r := range d.merge.open() {
		if r.over() {
			d.abandon(r)
			continue
		}
		d.endFromReply(r)
	}
}
