package clark

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
)

// Bounds of what is remembered of streams.
const (
	maxStreams = 1024
	maxOpen    = 64 // open runs of one stream
	maxSeqs    = 64 // sequence numbers by which a repeated line is known
)

// streamKey is the name by which an envelope calls the run or stream of a line. Records are streams of their own.
type streamKey struct {
	name          string
	named, ledger bool // name is the id of a run; the lines are records
}

// stream is a sequence of lines in the order of their events. Runs nest in it.
type stream struct {
	streamKey
	stack  []*run  // open runs, the innermost last
	last   *run    // that ended
	starts []start // agent_start lines whose run is not known yet
	made   int64   // runs without an identity so far

	// mixed is the run, one of the stack, whose children write to the stream at the same time, or which contradicts
	// itself, because another run does. The lines do not say whose they are.
	mixed *run

	seqs   []int64 // the last ones
	before uint64  // hash of the line before, if it is of a kind that never comes twice in a row
}

// stream returns the stream of a name. Of too many it forgets the one that was not used for longest.
func (d *Decoder) stream(key streamKey) *stream {
	s := &stream{streamKey: key}
	if i := slices.IndexFunc(d.streams, func(s *stream) bool { return s.streamKey == key }); i >= 0 {
		s = d.streams[i]
		d.streams = slices.Delete(d.streams, i, i+1)
	} else if len(d.streams) == maxStreams {
		d.streams = slices.Delete(d.streams, 0, 1)
	}
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

var hashSeed = maphash.MakeSeed()

// again rejects a line that was there before.
func (d *Decoder) again(s *stream, l *line) bool {
	if l.sequence < 0 {
		before := s.before
		s.before = 0
		if slices.Contains(neverTwice, l.variant) && s.mixed == nil && len(s.starts) < 2 {
			s.before = maphash.Bytes(hashSeed, l.raw)
		}
		if s.before == 0 || s.before != before {
			return false
		}
		d.Reject(&input.LineError{Type: l.name, Reason: "the same as the line before; the line is passed over"})
		return true
	}
	n, seen, begins := len(s.seqs), slices.Index(s.seqs, l.sequence), l.variant == "agent_start"
	switch {
	case seen >= 0 && begins && seen < n-1: // a run counts anew
		s.seqs = nil
	case seen >= 0:
		d.Reject(&input.LineError{Type: l.label, Field: "seq",
			Reason: "the same as of a line before; the line is passed over"})
		return true
	case n > 0 && l.sequence < s.seqs[n-1] && !begins:
		l.outer.Fail("seq", "lower than that of a line before; the line is read where it stands")
	}
	s.seqs = append(s.seqs[max(0, len(s.seqs)-maxSeqs+1):], l.sequence)
	return false
}

// event hands out the events of a line of s.
func (d *Decoder) event(s *stream, l *line) {
	switch l.variant {
	case "agent_start":
		d.agentStart(s, l)
		return
	case "run_identified":
		d.identified(s, l)
		return
	}
	for s.mixed == nil && len(s.starts) > 0 { // no identity follows: the run has none
		d.push(s, d.unnamed(s), l)
	}
	r := d.runOf(s, l)
	if s.mixed != nil && !r.owns(l) {
		d.mixedLine(s, l)
		return
	}
	d.timeOf(r, l)
	if d.holds(r, l) {
		return
	}
	d.announce(r, l.hint())
	if s.mixed == nil && r.contradicts(l) {
		s.mixed = r
		d.mixedLine(s, l)
		return
	}
	if d.handle(r, l); r.ended {
		d.remove(r)
	}
	if r == s.mixed && l.variant == "turn_end" && (s.ledger || r != s.top()) {
		s.stack, s.mixed = s.stack[:slices.Index(s.stack, r)+1], nil // which of its children ended is not known
	}
}

func (d *Decoder) agentStart(s *stream, l *line) {
	if len(s.starts) == maxOpen {
		d.push(s, d.unnamed(s), l)
	}
	if top := s.top(); top != nil && !top.announced && top.held == nil {
		l.Fail("type", "stands behind the run_identified of its run")
		return
	}
	s.starts = append(s.starts, start{otelagent.Meta{Time: l.time, Arrived: d.Arrived, Seq: d.Seq}, l.Rest()})
}

func (d *Decoder) identified(s *stream, l *line) {
	o := l.Object.Object("identity")
	id, _ := rawjson.String(o.Raw("run_id"))
	if id == "" {
		o.Fail("run_id", "want a string that is not empty; the run is one without identity")
		return
	}
	r := d.newRun(id, o)
	r.identity, r.extra = slices.Clone(l.Raw("identity")), l.Rest()
	d.push(s, r, l)
	if parent := d.runs[r.parentID]; len(s.starts) > 0 && s.mixed == nil && slices.Contains(s.stack, parent) {
		d.mix(s, parent, l) // a sibling began as well
	}
}

// unnamed makes a run without an identity: its id is made of the name of its stream, else of the session as set, and
// the number of such runs in the stream.
func (d *Decoder) unnamed(s *stream) *run {
	s.made++
	id := s.name
	if !s.named || id == "" {
		id = cmp.Or(id, d.Settings.Session, "run") + "#" + strconv.FormatInt(s.made, 10)
	}
	return d.newRun(id, nil)
}

// push puts a run that begins with l where it belongs on s.
func (d *Decoder) push(s *stream, r *run, l *line) {
	if r.start.meta = d.meta(r, l); len(s.starts) > 0 {
		r.start, s.starts = s.starts[0], s.starts[1:]
	}
	if top := s.top(); top != nil {
		d.announce(top, otelagent.Moment{})
	}
	d.begun(s, r, l)
	if s.mixed != nil && (r.nameless || r.parentID != s.mixed.id) {
		s.mixed = nil
	}
	at := slices.IndexFunc(s.stack, func(o *run) bool { return r.parentID != "" && o.id == r.parentID })
	if at >= 0 {
		r.callID = s.stack[at].onlyCall()
		for s.mixed == nil && len(s.stack) > at+1 && s.top().over() {
			d.pop(s)
		}
	} else {
		// It may be nested in a run whose call is open, and end before that continues.
		for top := s.top(); top != nil && (len(top.openCalls()) == 0 || top.id == r.id); top = s.top() {
			d.pop(s)
		}
		if p := d.runs[r.parentID]; p != nil && !p.ended { // on another stream
			r.callID = p.onlyCall()
		}
	}
	if len(s.stack) == maxOpen {
		oldest := max(0, slices.Index(s.stack, s.mixed)+1) // a child, where children are mixed
		d.abandon(s.stack[oldest])
		s.stack = slices.Delete(s.stack, oldest, oldest+1)
	}
	s.stack = append(s.stack, r)
	if s.mixed != nil {
		d.announce(r, otelagent.Moment{})
	} else if at >= 0 && len(s.stack) > at+2 {
		d.mix(s, d.runs[r.parentID], l)
	}
}

// pop ends the innermost run, whose end did not come.
func (d *Decoder) pop(s *stream) {
	s.last = s.top()
	d.abandon(s.last)
	s.stack = s.stack[:len(s.stack)-1]
}

// remove takes a run that has ended off the streams, and ends those inside.
func (d *Decoder) remove(r *run) {
	for _, s := range d.streams {
		if i := slices.Index(s.stack, r); i >= 0 {
			for len(s.stack) > i {
				d.pop(s)
			}
		}
		if s.mixed == r {
			s.mixed = nil
		}
	}
}

// runOf returns the run of s that l is of.
func (d *Decoder) runOf(s *stream, l *line) *run {
	if s.mixed != nil {
		return s.mixed
	}
	for i, r := range slices.Backward(s.stack) {
		if !r.owns(l) {
			continue
		}
		for strings.HasSuffix(l.variant, "_end") && len(s.stack) > i+1 { // the ends of those inside did not come
			d.pop(s)
		}
		return r
	}
	if top := s.top(); top != nil {
		return top
	}
	if s.last != nil {
		if p := d.runs[s.last.parentID]; s.ledger && p != nil && !p.ended { // a child uses the recorder of its parent
			return p
		}
		switch l.variant {
		case "turn_start", "provider_request_prepared", "tool_execution_start": // something begins
		default:
			return s.last // it is late
		}
	}
	if old := d.runs[s.name]; s.named && !s.ledger && old != nil && !old.ended { // on another stream
		return old
	}
	r := d.unnamed(s)
	if s.ledger && s.named {
		r = d.newRun(s.name, l.outer)
	}
	r.inferred = true
	r.start.meta = d.meta(r, l)
	d.begun(s, r, l)
	s.stack = append(s.stack, r)
	return r
}

// owns reports whether l says that it is of r: it is about one of its open calls, or ends its turn.
func (r *run) owns(l *line) bool {
	switch l.variant {
	case "tool_execution_start", "tool_execution_update", "tool_execution_end":
		return r.knows(l.String("tool_call_id"))
	case "turn_end":
		return r.replied(l)
	}
	return false
}

// mix records that lines of s from now on may be of parent or of any run inside.
func (d *Decoder) mix(s *stream, parent *run, l *line) {
	s.mixed = parent
	for _, r := range s.stack {
		d.announce(r, otelagent.Moment{})
	}
	d.mixedRuns(parent, d.meta(parent, l), "the lines of several of its children are mixed")
}

// mixedLine keeps a line whose run is not known on the run that is mixed, pieces and beginnings of messages excepted.
func (d *Decoder) mixedLine(s *stream, l *line) {
	m := d.meta(s.mixed, l)
	switch l.variant {
	case "message_start", "message_update":
	default:
		d.mixedRuns(s.mixed, m, "its lines are mixed with those of other runs")
		d.other(m, l)
	}
}
