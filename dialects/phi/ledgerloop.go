package phi

import (
	"bytes"
	"slices"
	"time"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// ledger is what the events of a run or group that is read from a document have besides.
type ledger struct {
	id, status string
	running    bool // it has no end
	// start and end are when it started and ended where its record does not say.
	start, end otelagent.Moment
	spawn      spawnRef
	refs       []*childRef
	// unused are the references of a call that no tool call took yet.
	unused map[string][]*childRef
}

// childRef names the run that a tool call spawned.
type childRef struct {
	raw                []byte
	call, run, session string
	used               bool
	more               bool // it has keys that we do not know
}

// child returns the first reference of a call that was not used yet; nil when there is none.
func (g *ledger) child(call string) *childRef {
	if unused := g.unused[call]; len(unused) > 0 {
		return unused[0]
	}
	return nil
}

// amend adds to an event what only the document says.
func (g *ledger) amend(ev otelagent.Event) {
	switch e := ev.(type) {
	case *otelagent.RunStarted:
		e.Recording = spans.RecordingLedger
		if !g.start.Time.IsZero() {
			e.Start, e.Meta.Time = g.start, g.start.Time
		}
		if g.spawn.loop != "" && e.ParentID == g.spawn.loop {
			e.ParentSessionID, e.ParentToolCallID = g.spawn.session, g.spawn.call
		}
	case *otelagent.RunEnded:
		e.Word, e.End = g.status, g.end
		switch g.status {
		case "Completed":
			e.Status = spans.RunStatusCompleted
		case "Rejected":
			e.Status, e.Rejected = spans.RunStatusRejected, true
		case "Aborted":
			e.Status = spans.RunStatusAborted
		case "", "Pending", "Running": // it has ended all the same
		default:
			e.Status = spans.RunStatus(g.status)
		}
	case *otelagent.GroupStarted:
		e.Recording = spans.RecordingLedger
		e.Start, e.Meta.Time = g.start, g.start.Time
	case *otelagent.ToolEnded:
		if ref := g.child(e.CallID); ref != nil && ref.run == e.ChildRunID {
			ref.used = true
			g.unused[e.CallID] = g.unused[e.CallID][1:]
			if ref.session != "" {
				e.ChildSessionID = ref.session
			}
		}
	}
}

// step hands out the events of one part of a record. It returns nil when the part has problems, which it reports.
func (d *Decoder) step(record string, o *object.Object, read func(l *line) []otelagent.Event) *line {
	if d.shell.Stopped() {
		return nil
	}
	d.shell.Seq++
	l := &line{Object: o, name: record, m: d.meta()}
	l.m.Run = d.ledger.id
	events := read(l)
	if d.shell.RejectProblems(record, o) {
		return nil
	}
	for _, ev := range events {
		d.emit(ev)
	}
	return l
}

const loopRecord = "LoopRecord"

// loop reads one run.
func (d *Decoder) loop(s *session, p *loop) {
	p.done = true
	d.shell.Stats.Lines++
	d.shell.Seq = 0
	whole := p.path != d.cut
	o := object.Of(p.path, p.raw)
	once(o)
	g := &ledger{id: word(o.Raw("loop_id")), status: o.String("status"), spawn: s.spawn}
	turns, events := o.List("turns"), o.List("events")
	o.Object("parallel_group")
	var block []byte
	if o.Object("compaction_block") != nil {
		block = o.Raw("compaction_block")
	}
	g.readRefs(o)
	d.shell.RejectProblems(loopRecord, o)
	g.running = !whole || !o.Has("ended_at") && g.status != "Completed" && g.status != "Rejected"
	if !whole && (g.id == "" || !o.Has("started_at")) {
		return // cut before anything is known of it
	}
	var messages []message
	if raw := o.Raw("messages"); raw != nil && raw[0] == '[' && !(o.Has("started_at") && o.Has("turns")) {
		for _, raw := range o.List("messages") {
			messages = append(messages, messageOf(raw))
		}
	}
	if !o.Has("started_at") {
		g.start = otherStart(turns, messages)
	}
	d.ledger = g
	defer func() { d.ledger = nil }()
	begin := object.Of(p.path, p.raw)
	if begin.Use(loopFields...); begin.Has("parallel_group") && !p.grouped {
		begin.Keep("parallel_group")
	}
	if whole && g.running && g.status != "" && g.status != "Aborted" {
		begin.Keep("status")
	}
	if stored(g, o, turns, events) {
		d.shell.Stats.Events++
		d.storedEvents(p.path, events, begin.Rest(), block)
	} else if d.loopStarted(s, begin, whole && len(events) > 0) {
		d.shell.Stats.Events++
		if o.Has("turns") {
			d.turns(p.path, turns)
		} else if whole { // from before there were turns
			d.conversation(messages, true)
		}
		d.beforeEnd(block)
		if !g.running {
			d.loopEnded(p, len(turns) == 0)
		}
	}
	if r := d.runs.find(g.id); r != nil && r.open {
		r.close()
	}
}

// loopStarted reads the start of a run without events, or with events that say less than its turns, and reports
// whether it could.
func (d *Decoder) loopStarted(s *session, o *object.Object, keepEvents bool) bool {
	l := d.step(loopRecord, o, func(l *line) []otelagent.Event {
		if o.Require("loop_id") && o.String("loop_id") == "" {
			o.Fail("loop_id", "want a string that is not empty")
		}
		if d.ledger.start.Time.IsZero() {
			o.Require("started_at")
		}
		l.m.Time = o.Time("started_at")
		return d.runStarted(l, "config", s.id, s.String("agent_id"))
	})
	if l == nil {
		return false
	}
	if keepEvents { // they have no other place
		o.Keep("events")
	}
	if !d.ledger.start.Time.IsZero() {
		l.m.Time = d.ledger.start.Time
	}
	d.emitOther(l.m, loopRecord+unknownKeys, o.Rest())
	return true
}

// loopEnded reads the end of a run without events. Of a run that was refused there is nothing else: its input was.
func (d *Decoder) loopEnded(p *loop, empty bool) {
	if o := object.Of(p.path, p.raw); o.Has("rejection") && empty {
		d.step(loopRecord, o, func(l *line) []otelagent.Event { return d.refused(l, o.String("rejection")) })
	}
	d.step(loopRecord, object.Of(p.path, p.raw), func(l *line) []otelagent.Event {
		l.m.Time = l.Time("ended_at")
		return d.agentEnd(l)
	})
}

// readRefs reads which tool calls of the run spawned which runs.
func (g *ledger) readRefs(o *object.Object) {
	g.unused = make(map[string][]*childRef)
	for i, raw := range o.List("child_loop_refs") {
		if raw[0] != '{' {
			o.Fail(elementAt("child_loop_refs", i), "want an object, got "+rawjson.KindOf(raw))
			continue
		}
		in := object.Of("", raw)
		ref := &childRef{
			raw: raw, call: word(in.Raw("tool_call_id")), run: word(in.Raw("child_loop_id")),
			session: word(in.Raw("child_session_id")),
		}
		in.Use(refFields...)
		ref.more = in.Rest() != nil
		g.refs = append(g.refs, ref)
		g.unused[ref.call] = append(g.unused[ref.call], ref)
	}
}

// otherStart is when a run must have started whose record does not say: not later than its first turn, or than its
// first message.
func otherStart(turns [][]byte, messages []message) otelagent.Moment {
	for _, turn := range turns {
		if t := timeOf(object.Of("", turn).Raw("started_at")); !t.IsZero() {
			return otelagent.Moment{Time: t, Source: spans.TimeSourceBound}
		}
	}
	for i := range messages {
		if t := messages[i].Time; !t.IsZero() {
			return otelagent.Moment{Time: t, Source: spans.TimeSourceMessage}
		}
	}
	return otelagent.Moment{}
}

// stored reports whether the stored events of a record say all that its turns do: they begin with its AgentStart, are
// all of its loop, end as it did, and hold as many ends of turns and requests as there are turns and payloads.
func stored(g *ledger, loop *object.Object, turns, events [][]byte) bool {
	ends, requests, payloads, ended := 0, 0, 0, false
	for i, raw := range events {
		o := object.Of("", object.Of("", raw).Raw("event"))
		typ := word(o.Raw("type"))
		if ended || word(o.Raw("loop_id")) != g.id || (i == 0) != (typ == "AgentStart") {
			return false
		}
		switch typ {
		case "AgentStart":
			if string(o.Raw("timestamp")) != string(loop.Raw("started_at")) {
				return false
			}
		case "TurnEnd":
			ends++
		case "TurnRequest":
			requests++
		case "AgentEnd":
			ended = true
		}
	}
	for _, turn := range turns {
		if object.Of("", turn).Has("request_payload") {
			payloads++
		}
	}
	return len(events) > 0 && g.id != "" && ended == !g.running && ends >= len(turns) && requests >= payloads
}

// storedEvents reads the events that were stored with a run. Rest are the unknown members of its record.
func (d *Decoder) storedEvents(path string, events [][]byte, rest []byte, block []byte) {
	for i, stored := range events {
		if d.shell.Stopped() {
			return
		}
		if i == len(events)-1 && !d.ledger.running {
			d.shell.Seq++
			d.beforeEnd(block)
			d.shell.Seq--
		}
		raw := object.Of("", stored).Raw("event")
		before := d.shell.Stats.Rejected
		d.shell.Seq++
		d.event(object.Of(member(elementAt(member(path, "events"), i), "event"), raw), raw, time.Time{})
		if i == 0 {
			if d.shell.Stats.Rejected > before {
				return
			}
			d.emitOther(d.runMeta(), loopRecord+unknownKeys, rest)
		}
	}
	if d.ledger.running {
		d.beforeEnd(block)
	}
}

// runMeta returns where an untimed event of the run stands.
func (d *Decoder) runMeta() otelagent.Meta {
	m := d.meta()
	m.Run = d.ledger.id
	d.runs.in(&m)
	return m
}

// beforeEnd hands out what a record says and no event.
func (d *Decoder) beforeEnd(block []byte) {
	if at := timeOf(object.Of("", block).Raw("createdAt")); !at.IsZero() {
		e := newCompaction(spans.CompactionKindSummary)
		e.Compaction.Start, e.End = otelagent.Moment{Time: at}, otelagent.Moment{Time: at}
		e.Summary, e.Meta = block, d.runMeta()
		d.emit(e)
	} else if block != nil {
		d.emitOther(d.runMeta(), loopRecord+unknownKeys, slices.Concat([]byte(`{"compaction_block":`), block, []byte("}")))
	}
	var refs [][]byte
	for _, ref := range d.ledger.refs {
		if !ref.used || ref.more {
			refs = append(refs, ref.raw)
		}
	}
	if refs != nil {
		list := bytes.Join(refs, []byte(","))
		d.emitOther(d.runMeta(), loopRecord+unknownKeys, slices.Concat([]byte(`{"child_loop_refs":[`), list, []byte("]}")))
	}
}
