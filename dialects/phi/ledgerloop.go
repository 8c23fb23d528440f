package phi

import (
	"cmp"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
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
	of         string // names that, and the how many-th of this name it is
	block      []byte // its compaction_block
	status     string
	spawn      spawnRef
	refs       []*childRef
	unused     map[string][]*childRef // of a call, that no end of it took yet

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
		if p.raw == nil { // an array of messages does not say how it continues
			e.Continuation = ""
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
		if unused := p.unused[e.CallID]; len(unused) > 0 && unused[0].run == e.ChildRunID {
			unused[0].used, p.unused[e.CallID] = true, unused[1:]
			e.ChildSessionID = cmp.Or(unused[0].session, e.ChildSessionID)
		}
	}
}

// begin makes p the current record. Meta.Seq counts within it.
func (d *Decoder) begin(p *record) { d.record, d.Seq = p, 0 }

// end closes the run of the current record.
func (d *Decoder) end() {
	if r := d.runs.byID[d.record.id]; r != nil && r.open {
		r.close()
	}
	d.record = nil
}

// play emits the AgentEvent that is at a path of the document, and reports whether it could be read.
func (d *Decoder) play(path string, raw []byte) (ok bool) {
	d.Seq++
	rejected := d.Counts.Rejected
	d.event(object.Of(path, raw), raw, time.Time{})
	return d.Counts.Rejected == rejected
}

// made is play for an event that the input does not have: one of the record at path as the loop emitted it.
func (d *Decoder) made(path, typ string, members ...any) (ok bool) {
	events := d.Counts.Events
	ok = d.play(path, input.Members(append([]any{"type", typ, "loop_id", d.record.id}, members...)...))
	d.Counts.Events = events
	return ok
}

// rest keeps the unknown members of the record of that name, which began at a time.
func (d *Decoder) rest(name string, members, began []byte) {
	if members != nil {
		m := d.runMeta()
		m.Time = input.Time(began)
		d.Other(m, name+input.UnknownKeys, members)
	}
}

const loopRecord = "LoopRecord"

// loop reads one run.
func (d *Decoder) loop(s *session, p *record) {
	p.done, p.spawn = true, s.spawn
	d.Counts.Lines++
	o := object.Of(p.path, p.raw)
	once(o)
	p.status = o.String("status")
	turns, events := o.List("turns"), o.List("events")
	o.Object("parallel_group")
	if o.Object("compaction_block") != nil {
		p.block = o.Raw("compaction_block")
	}
	p.unused = make(map[string][]*childRef)
	for i, raw := range o.List("child_loop_refs") {
		in := object.Of("", raw)
		if in == nil {
			o.Fail(object.Element("child_loop_refs", i), "want an object, got "+rawjson.KindOf(raw))
			continue
		}
		in.Use(refFields...)
		ref := &childRef{raw: raw, more: in.Rest() != nil, run: in.Text("child_loop_id"),
			session: in.Text("child_session_id")}
		call := in.Text("tool_call_id")
		p.refs, p.unused[call] = append(p.refs, ref), append(p.unused[call], ref)
	}
	d.begin(p)
	defer d.end()
	p.running = !o.Has("ended_at") && p.status != "Completed" && p.status != "Rejected"
	stored := p.stored(turns, events)
	var behind [][]byte
	if !stored && !o.Has("turns") { // from before there were turns
		turns, behind = p.conversation(o.List("messages"))
	}
	if !o.Has("started_at") && !stored { // it starts with its first message that has a time
		if p.start, _ = times(o.List("messages")); p.start.Time.IsZero() {
			o.Fail("started_at", "missing")
		}
	}
	d.RejectProblems(loopRecord, o)
	if o.Use(loopFields...); o.Has("parallel_group") && !p.grouped {
		o.Keep("parallel_group")
	}
	if p.running && p.status != "" && p.status != "Aborted" {
		o.Keep("status")
	}
	if !stored && len(events) > 0 { // they have no other place
		o.Keep("events")
	}
	begun, list := false, object.Join(p.path, "events")
	at := func(i int) string { return object.Join(object.Element(list, i), "event") }
	switch rest := o.Rest(); {
	case stored:
		begun = d.play(at(0), object.Of("", events[0]).Raw("event"))
		d.rest(loopRecord, rest, nil)
	case !p.start.Time.IsZero() || o.Has("started_at"):
		// A run without events, or with events that say less than its turns.
		id := func(key string) []byte { return []byte(cmp.Or(string(o.Raw(key)), string(s.Literal(key)))) }
		begun = d.made(p.path, "AgentStart", "session_id", id("session_id"), "agent_id", id("agent_id"),
			"parent_loop_id", o.Raw("parent_loop_id"), "continuation_kind", o.Raw("continuation_kind"),
			"timestamp", o.Raw("started_at"), "metadata", o.Raw("metadata"), "config_snapshot", o.Raw("config"))
		d.rest(loopRecord, rest, o.Raw("started_at"))
	}
	if !begun {
		return
	}
	d.Counts.Events++
	if stored {
		for i, raw := range events[1:] {
			d.play(at(i+1), object.Of("", raw).Raw("event"))
		}
	} else {
		d.turns(p, turns, behind)
	}
	d.beforeEnd()
	if stored || p.running {
		return
	}
	if rejection := o.Raw("rejection"); rejection != nil && len(turns) == 0 { // of a run that was refused its input was
		d.made(p.path, "InputRejected", "reason", rejection)
	}
	d.made(p.path, "AgentEnd", "timestamp", o.Raw("ended_at"), "messages", o.Raw("messages"),
		"usage", o.Raw("usage"), "rejection", o.Raw("rejection"))
}

// stored reports whether the stored events of a record say all that its turns do: all are of its loop, AgentStart is
// the first, AgentEnd the last unless the run has no end, and every turn has its end.
func (p *record) stored(turns, events [][]byte) bool {
	ends := 0
	for i, raw := range events {
		o := object.Of("", object.Of("", raw).Raw("event"))
		typ, last := o.Text("type"), i == len(events)-1 && !p.running
		if o.Text("loop_id") != p.id || (typ == "AgentStart") != (i == 0) || (typ == "AgentEnd") != last {
			return false
		}
		if typ == "TurnEnd" {
			ends++
		}
	}
	return len(events) > 0 && p.id != "" && ends >= len(turns)
}

// runMeta returns where an untimed event of the run is.
func (d *Decoder) runMeta() event.Meta {
	m := d.meta()
	m.Run = d.record.id
	d.runs.in(&m)
	return m
}

// beforeEnd emits what a record says and no event, once.
func (d *Decoder) beforeEnd() {
	block := d.record.block
	if at := input.Time(object.Of("", block).Raw("createdAt")); !at.IsZero() {
		e := newCompaction(d.runMeta(), spans.CompactionKindSummary)
		e.Compaction.Start, e.End, e.Summary = event.Moment{Time: at}, event.Moment{Time: at}, block
		d.emit(e)
	} else if block != nil {
		d.Other(d.runMeta(), loopRecord+input.UnknownKeys, input.Members("compaction_block", block))
	}
	var refs [][]byte
	for _, ref := range d.record.refs {
		if !ref.used || ref.more {
			refs = append(refs, ref.raw)
		}
	}
	d.record.block, d.record.refs = nil, nil
	if refs != nil {
		d.Other(d.runMeta(), loopRecord+input.UnknownKeys, input.Members("child_loop_refs", input.Array(refs)))
	}
}
