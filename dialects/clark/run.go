package clark

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// Bounds of what is remembered.
const (
	maxStreams = 1024
	maxOpen    = 64 // open runs of one stream
	maxEarly   = 16 // the start of a turn and its prompts, of a run that has no time yet
	maxRuns    = 4096
	maxCalls   = 1024 // of a turn
)

// run is what is remembered of a run, open or ended.
type run struct {
	event.RunStarted           // its start, with what identifies it
	extra            []byte    // members of the line of its identity that are not clark-agent's
	startExtra       []byte    // the same of its agent_start
	repeats          time.Time // start of the earlier run of that id; zero without one

	nameless  bool // it has no identity, so its id is generated
	ledger    bool // known from the trajectory alone
	announced bool // its start was emitted
	ended     bool
	mixed     bool // a defect runs_mixed was emitted
	odd       bool // a defect was emitted that turns are missing

	early []start // the start of its first turn and the prompts, until its own is emitted
	turns int64   // that began
	turn          // the last one

	gates     []gate // of the attempt that is prepared
	catalogue []string
	hidden    []string // of the catalogue, in the last attempt
}

// turn is the last turn of a run.
type turn struct {
	open    bool          // its end was not emitted
	attempt int           // number of the last request; -1 without one
	thrown  bool          // the last attempt was discarded
	asked   time.Time     // of the last request
	first   time.Duration // from the request to the first piece of its reply
	reply   message       // of the last attempt, a copy
	usage   *event.Usage
	calls   []*call
	batch   bool // two calls were open at once
}

// when is the time of an event: stated, else of its arrival.
func when(m event.Meta) time.Time {
	return cmp.Or(m.Time, m.Arrived)
}

// replied reports whether l has the last reply of r.
func (r *run) replied(l *line) bool { return l.msg.raw != nil && bytes.Equal(r.reply.raw, l.msg.raw) }

// owns reports whether l says that it is of r: it is about one of its open calls, or ends its turn.
func (r *run) owns(l *line) bool {
	switch l.variant {
	case "tool_execution_start", "tool_execution_update", "tool_execution_end":
		id := l.String("tool_call_id")
		return !r.ended && slices.ContainsFunc(r.calls, func(c *call) bool { return c.id == id && !c.ended })
	}
	return l.variant == "turn_end" && r.replied(l)
}

// begin makes the run of an identity, or of a record, which has the same keys; with nil one without identity. It began
// at the oldest agent_start of s that has no run, else at l.
func (d *Decoder) begin(s *stream, id string, identity *object.Object, l *line) *run {
	r := &run{nameless: identity == nil, ledger: s.ledger, turn: turn{attempt: -1}}
	r.RunInfo = event.RunInfo{ID: id, SessionID: d.Settings.Session, Dialect: Dialect}
	r.ParentID = identity.Text("parent_run_id")
	conversation := identity.Text("conversation_id")
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

	if old := d.runs[id]; old == nil {
		if len(d.order) == maxRuns {
			delete(d.runs, d.order[0])
			d.order = d.order[1:]
		}
		d.order = append(d.order, id)
	} else {
		if old.ledger && !r.ledger { // the same run, known from its events now
			if old.ended = true; r.nameless {
				r.Time = old.Time
			}
		}
		d.remove(old)
		r.repeats = cmp.Or(old.Time, old.Start.Time, time.Unix(0, 1)) // the Recorder gives the last to an unknown start
	}
	d.runs[id] = r
	return r
}

// meta is that of an event of r that l becomes.
func (d *Decoder) meta(r *run, l *line) event.Meta {
	return event.Meta{Session: r.Session, Run: r.Run, Time: l.time, Arrived: d.Arrived, Seq: d.Seq}
}

// announce emits the start of r, once. Hint is the start where its line has no time.
func (d *Decoder) announce(r *run, hint event.Moment) {
	if r.announced {
		return
	}
	r.announced = true
	switch {
	case !when(r.Meta).IsZero():
	case !r.repeats.IsZero() && !hint.Time.After(r.repeats): // both would be one run
		r.Start = event.Bound(r.repeats.Add(1))
	default:
		r.Start = hint
	}
	d.Emit(&r.RunStarted)
	d.Other(r.Meta, "agent_start"+input.UnknownKeys, r.startExtra)
	d.Other(r.Meta, "run_identified"+input.UnknownKeys, r.extra)
	for _, s := range r.early {
		if s.prompt.Raw == nil {
			d.beginTurn(r, 0, &event.TurnStarted{Meta: s.meta})
		} else {
			d.Emit(&event.MessageAdded{Meta: s.meta, Message: s.prompt})
		}
		d.Other(s.meta, s.name+input.UnknownKeys, s.extra)
	}
	r.early = nil
}

// holds keeps the start of the first turn of a recorded run that has no time yet, and the prompts after it: the next
// line may have one.
func (d *Decoder) holds(r *run, l *line) bool {
	isPrompt, n := l.variant == "message_end" && !l.msg.assistant(), len(r.early)
	switch {
	case r.announced || !when(r.Meta).IsZero() || !l.hint().Time.IsZero():
		return false
	case l.variant == "turn_start" && n == 0, isPrompt && n > 0 && n < maxEarly:
		s := start{d.meta(r, l), l.name, l.Rest(), l.msg.event()}
		s.prompt.Raw = bytes.Clone(l.msg.raw)
		r.early = append(r.early, s)
		return true
	}
	return l.variant == "message_start" && l.Rest() == nil
}

// abandon ends a run whose end will not come. It happened after the last line of it that was seen, nobody knows when.
func (d *Decoder) abandon(r *run) {
	if r.ended {
		return
	}
	d.announce(r, event.Moment{})
	d.endTurn(r)
	e := &event.RunEnded{Meta: event.Meta{Session: r.Session, Run: r.Run, Seq: d.Seq}}
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

// start is a line at the beginning of a run, with the members that are not clark-agent's.
type start struct {
	meta   event.Meta
	name   string
	extra  []byte
	prompt event.Message // without Raw it is none
}

// event emits the events of a line of s.
func (d *Decoder) event(s *stream, l *line) {
	switch l.variant {
	case "agent_start":
		d.agentStart(s, l)
		return
	case "run_identified":
		o := l.Object.Object("identity")
		id := o.Text("run_id")
		if id == "" {
			o.Fail("run_id", "want a string that is not empty; the run is one without identity")
			return
		}
		if top := s.top(); top != nil {
			d.announce(top, event.Moment{})
		}
		r := d.begin(s, id, o, l)
		if d.timeOf(r, l); !r.ledger && (r.Time.IsZero() || d.trajectory.played[r.ID]) {
			r.Time = l.time
		}
		r.Metadata, r.extra = slices.Clone(l.Raw("identity")), l.Rest()
		d.push(s, r, l)
		return
	}
	for s.mixed == nil && len(s.starts) > 0 { // no identity follows: the run has none
		d.push(s, d.begin(s, d.unnamed(s), nil, l), l)
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
	if !r.announced {
		d.announce(r, l.hint())
	}
	// It cannot be of r: it is a second reply to one request, or ends a turn with another reply.
	second := r.open && l.variant == "message_end" && l.msg.assistant()
	other := l.variant == "turn_end" && l.msg.raw != nil && !r.replied(l)
	if s.mixed == nil && r.reply.raw != nil && !r.thrown && r.attempt >= 0 && (second || other) {
		d.mix(s, r, l, "its lines are mixed with those of other runs")
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
		d.push(s, d.begin(s, d.unnamed(s), nil, l), l)
	}
	s.starts = append(s.starts, start{meta: event.Meta{Time: l.time, Arrived: d.Arrived, Seq: d.Seq}, extra: l.Rest()})
}

// unnamed returns the id of a run without an identity: the name of its stream, if that is the id of a run; else it is
// made of that name, else of the session as set, and the number of such runs in the stream.
func (d *Decoder) unnamed(s *stream) string {
	s.made++
	if s.named && s.name != "" {
		return s.name
	}
	return cmp.Or(s.name, d.Settings.Session, "run") + "#" + strconv.FormatInt(s.made, 10)
}

// push puts a run that began with l where it belongs on s.
func (d *Decoder) push(s *stream, r *run, l *line) {
	at := slices.IndexFunc(s.stack, func(o *run) bool { return r.ParentID != "" && o.ID == r.ParentID })
	for top := s.top(); top != nil && s.mixed == nil; top = s.top() {
		// Without a parent in s it may be nested in a run whose call is open, and end before that continues.
		if at >= 0 && (len(s.stack) == at+1 || !failed(top.reply)) || at < 0 && len(top.openCalls()) > 0 {
			break
		}
		d.pop(s)
	}
	if len(s.stack) == maxOpen {
		oldest := max(0, slices.Index(s.stack, s.mixed)+1) // a child, where children are mixed
		d.abandon(s.stack[oldest])
		s.stack = slices.Delete(s.stack, oldest, oldest+1)
	}
	if s.stack = append(s.stack, r); s.mixed != nil {
		d.announce(r, event.Moment{})
	} else if at >= 0 && (len(s.stack) > at+2 || len(s.starts) > 0) { // a sibling has not ended, or began as well
		d.mix(s, s.stack[at], l, "the lines of several of its children are mixed")
	}
}

// pop ends the innermost run, whose end did not come.
func (d *Decoder) pop(s *stream) {
	s.last = s.top()
	d.abandon(s.last)
	s.stack = s.stack[:len(s.stack)-1]
}

// remove ends a run, if it has not ended, takes it off the streams, and ends those inside.
func (d *Decoder) remove(r *run) {
	d.abandon(r)
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
		if p := d.runs[s.last.ParentID]; s.ledger && p != nil && p.ledger && !p.ended { // its child uses its recorder
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
	id, identity := s.name, l.outer
	if !s.ledger || !s.named {
		id, identity = d.unnamed(s), nil
	}
	r := d.begin(s, id, identity, l)
	r.Inferred = true
	s.stack = append(s.stack, r)
	return r
}

// mix records that lines of s from now on may be of r or of other runs.
func (d *Decoder) mix(s *stream, r *run, l *line, detail string) {
	s.mixed = r
	for _, r := range s.stack {
		d.announce(r, event.Moment{})
	}
	if !r.mixed {
		r.mixed = true
		d.Emit(&event.DefectFound{Meta: d.meta(r, l), Code: spans.DefectRunsMixed, Detail: detail})
	}
}

// mixedLine keeps a line whose run is not known on the run that is mixed, pieces and beginnings of messages excepted.
func (d *Decoder) mixedLine(s *stream, l *line) {
	if l.variant != "message_start" && l.variant != "message_update" {
		d.Other(d.meta(s.mixed, l), l.name, l.raw)
	}
}
