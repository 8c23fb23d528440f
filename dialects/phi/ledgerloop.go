package phi

import (
	"bytes"
	"slices"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// record is a run or group that is read from a document, and what its events have besides.
type record struct {
	path string
	raw  []byte // its LoopRecord
	id   string
	// start is when it started; where the events do not say it, it has a source. End is when an array of messages ended.
	start, end event.Moment
	group      []byte // its parallel_group
	block      []byte // its compaction_block
	status     string
	spawn      spawnRef
	refs       []*childRef
	unused     map[string][]*childRef // of a call, that no tool call took yet

	running bool // it has no end
	done    bool // it was read
	grouped bool // its group was read, and all of it
}

// childRef names the run that a tool call spawned.
type childRef struct {
	raw          []byte
	run, session string
	used         bool
	more         bool // it has keys that we do not know
}

// child returns the first reference of a call that was not used yet; nil when there is none.
func (p *record) child(call string) *childRef {
	if unused := p.unused[call]; len(unused) > 0 {
		return unused[0]
	}
	return nil
}

var statuses = map[string]spans.RunStatus{
	"Completed": spans.RunStatusCompleted, "Rejected": spans.RunStatusRejected, "Aborted": spans.RunStatusAborted,
}

// amend adds to an event what only the document says.
func (p *record) amend(ev event.Event) {
	switch e := ev.(type) {
	case *event.RunStarted:
		e.Recording = spans.RecordingLedger
		if p.start.Source != "" {
			e.Start, e.Meta.Time = p.start, p.start.Time
		}
		if p.spawn.loop != "" && e.ParentID == p.spawn.loop {
			e.ParentSessionID, e.ParentToolCallID = p.spawn.session, p.spawn.call
		}
	case *event.RunEnded:
		e.Word, e.End = p.status, p.end
		switch status, known := statuses[p.status]; {
		case known:
			e.Status, e.Rejected = status, e.Rejected || status == spans.RunStatusRejected
		case p.status != "" && p.status != "Pending" && p.status != "Running": // those have ended all the same
			e.Status = spans.RunStatus(p.status)
		}
	case *event.GroupStarted:
		e.Recording = spans.RecordingLedger
		e.Start, e.Meta.Time = p.start, p.start.Time
	case *event.ToolEnded:
		if ref := p.child(e.CallID); ref != nil && ref.run == e.ChildRunID {
			ref.used, p.unused[e.CallID] = true, p.unused[e.CallID][1:]
			if ref.session != "" {
				e.ChildSessionID = ref.session
			}
		}
	}
}

// begin makes p the record at hand. Meta.Seq counts within it.
func (d *Decoder) begin(p *record) { d.record, d.shell.Seq = p, 0 }

// end closes the run of the record at hand.
func (d *Decoder) end() {
	if r := d.runs.byID[d.record.id]; r != nil && r.open {
		r.close()
	}
	d.record = nil
}

// step hands out the events of one part of a record. It returns nil when the part has problems, which it reports.
func (d *Decoder) step(name string, o *object.Object, read func(l *line) []event.Event) *line {
	if d.shell.Stopped() {
		return nil
	}
	d.shell.Seq++
	l := &line{Object: o, name: name, m: d.meta()}
	l.m.Run = d.record.id
	if l.run = d.runs.byID[l.m.Run]; l.run != nil {
		l.m.Session = l.run.session
	}
	events := read(l)
	if d.shell.RejectProblems(name, o) {
		return nil
	}
	d.emit(events...)
	return l
}

const loopRecord = "LoopRecord"

// loop reads one run.
func (d *Decoder) loop(s *session, p *record) {
	p.done, p.spawn = true, s.spawn
	d.shell.Stats.Lines++
	o := object.Of(p.path, p.raw)
	once(o)
	p.status = o.String("status")
	turns, events := o.List("turns"), o.List("events")
	o.Object("parallel_group")
	if o.Object("compaction_block") != nil {
		p.block = o.Raw("compaction_block")
	}
	p.readRefs(o)
	d.begin(p)
	d.shell.RejectProblems(loopRecord, o)
	p.running = !o.Has("ended_at") && p.status != "Completed" && p.status != "Rejected"
	var messages []message
	if raw := o.Raw("messages"); raw != nil && raw[0] == '[' && !(o.Has("started_at") && o.Has("turns")) {
		messages = conversationOf(o.List("messages"))
	}
	if !o.Has("started_at") {
		p.startedWith(messages)
	}
	begin := object.Of(p.path, p.raw)
	if begin.Use(loopFields...); begin.Has("parallel_group") && !p.grouped {
		begin.Keep("parallel_group")
	}
	if p.running && p.status != "" && p.status != "Aborted" {
		begin.Keep("status")
	}
	if p.stored(turns, events) {
		d.shell.Stats.Events++
		d.storedEvents(events, begin.Rest())
	} else if d.loopStarted(s, begin, len(events) > 0) {
		d.shell.Stats.Events++
		if o.Has("turns") {
			d.turns(p.path, turns)
		} else { // from before there were turns
			d.conversation(messages, true)
		}
		d.beforeEnd()
		if !p.running {
			d.loopEnded(len(turns) == 0)
		}
	}
	d.end()
}

// loopStarted reads the start of a run without events, or with events that say less than its turns, and reports
// whether it could.
func (d *Decoder) loopStarted(s *session, o *object.Object, keepEvents bool) bool {
	l := d.step(loopRecord, o, func(l *line) []event.Event {
		if o.Require("loop_id") && o.String("loop_id") == "" {
			o.Fail("loop_id", "want a string that is not empty")
		}
		if l.m.Time = d.record.start.Time; d.record.start.Source == "" {
			o.Require("started_at")
			l.m.Time = o.Time("started_at")
		}
		return d.runStarted(l, "config", s.id, s.String("agent_id"))
	})
	if l == nil {
		return false
	}
	if keepEvents { // they have no other place
		o.Keep("events")
	}
	d.shell.Other(l.m, loopRecord+unknownKeys, o.Rest())
	return true
}

// loopEnded reads the end of a run without events. Of a run that was refused there is nothing else: its input was.
func (d *Decoder) loopEnded(empty bool) {
	p := d.record
	if o := object.Of(p.path, p.raw); o.Has("rejection") && empty {
		d.step(loopRecord, o, func(l *line) []event.Event { return refused(l, "rejection") })
	}
	d.step(loopRecord, object.Of(p.path, p.raw), func(l *line) []event.Event {
		l.m.Time = l.Time("ended_at")
		return d.agentEnd(l)
	})
}

// startedWith makes the start of a run whose record does not say it that of its first message with a time.
func (p *record) startedWith(messages []message) {
	for i := range messages {
		if t := messages[i].Time; !t.IsZero() {
			p.start = event.Moment{Time: t, Source: spans.TimeSourceMessage}
			return
		}
	}
}

// readRefs reads which tool calls of the run spawned which runs.
func (p *record) readRefs(o *object.Object) {
	p.unused = make(map[string][]*childRef)
	for i, raw := range o.List("child_loop_refs") {
		in := object.Of("", raw)
		if in == nil {
			o.Fail(elementAt("child_loop_refs", i), "want an object, got "+rawjson.KindOf(raw))
			continue
		}
		in.Use(refFields...)
		ref := &childRef{
			raw: raw, more: in.Rest() != nil,
			run: stringOf(in.Raw("child_loop_id")), session: stringOf(in.Raw("child_session_id")),
		}
		p.refs = append(p.refs, ref)
		call := stringOf(in.Raw("tool_call_id"))
		p.unused[call] = append(p.unused[call], ref)
	}
}

// stored reports whether the stored events of a record say all that its turns do: all are of its loop, AgentStart is
// the first, AgentEnd the last unless the run has no end, and every turn has its end.
func (p *record) stored(turns, events [][]byte) bool {
	ends := 0
	for i, raw := range events {
		o := object.Of("", object.Of("", raw).Raw("event"))
		typ, last := stringOf(o.Raw("type")), i == len(events)-1 && !p.running
		if stringOf(o.Raw("loop_id")) != p.id || (typ == "AgentStart") != (i == 0) || (typ == "AgentEnd") != last {
			return false
		}
		if typ == "TurnEnd" {
			ends++
		}
	}
	return len(events) > 0 && p.id != "" && ends >= len(turns)
}

// storedEvents reads the events that were stored with a run. Rest are the unknown members of its record.
func (d *Decoder) storedEvents(events [][]byte, rest []byte) {
	for i, stored := range events {
		if d.shell.Stopped() {
			return
		}
		raw := object.Of("", stored).Raw("event")
		before := d.shell.Stats.Rejected
		d.shell.Seq++
		at := member(elementAt(member(d.record.path, "events"), i), "event")
		d.event(object.Of(at, raw), raw, time.Time{})
		if i == 0 {
			if d.shell.Stats.Rejected > before {
				return
			}
			d.shell.Other(d.runMeta(), loopRecord+unknownKeys, rest)
		}
	}
	d.beforeEnd()
}

// runMeta returns where an untimed event of the run stands.
func (d *Decoder) runMeta() event.Meta {
	m := d.meta()
	m.Run = d.record.id
	d.runs.in(&m)
	return m
}

// beforeEnd hands out what a record says and no event, once.
func (d *Decoder) beforeEnd() {
	block := d.record.block
	if at := timeOf(object.Of("", block).Raw("createdAt")); !at.IsZero() {
		e := newCompaction(d.runMeta(), spans.CompactionKindSummary)
		e.Compaction.Start, e.End, e.Summary = event.Moment{Time: at}, event.Moment{Time: at}, block
		d.emit(e)
	} else if block != nil {
		d.shell.Other(d.runMeta(), loopRecord+unknownKeys, slices.Concat([]byte(`{"compaction_block":`), block, []byte("}")))
	}
	var refs [][]byte
	for _, ref := range d.record.refs {
		if !ref.used || ref.more {
			refs = append(refs, ref.raw)
		}
	}
	d.record.block, d.record.refs = nil, nil
	if refs != nil {
		list := bytes.Join(refs, []byte(","))
		d.shell.Other(d.runMeta(), loopRecord+unknownKeys, slices.Concat([]byte(`{"child_loop_refs":[`), list, []byte("]}")))
	}
}
