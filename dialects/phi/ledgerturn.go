package phi

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// textHookDenied is what phi-core writes as the result of a call that a hook refused without a reason. Of one refused with a reason,
// as 0.11.2 and later can, nothing in a ledger without events tells that it was refused and did not fail.
const textHookDenied = "Tool execution skipped by before_tool_execution hook."

// turnRecord is a turn as a ledger or a conversation has it.
type turnRecord struct {
	index, trigger, start, end, usage, payload []byte
	inputs, results                            []message
	output                                     message
	others                                     []member
	open                                       bool // it has neither reply nor end
}

// childRefs reads which tool calls of the run spawned which runs.
func (d *Decoder) childRefs(raw []byte) {
	l := &d.doc.ledger
	if absent(raw) {
		return
	}
	l.unused = make(map[string][]int)
	c := rawjson.NewCursor(raw, maxDepth)
	for c.Open('['); c.More(']'); {
		value := c.Value()
		if value[0] != '{' {
			d.problem(loopFields[lRefs], "want objects, got "+rawjson.KindOf(value))
			continue
		}
		var values [refKeys][]byte
		in := rawjson.NewCursor(value, maxDepth)
		others := d.fields(&in, refFields, values[:], nil)
		l.refs = append(l.refs, childRef{
			raw: value, call: d.lenient(values[rCall]), run: d.lenient(values[rLoop]), session: d.lenient(values[rSession]), more: len(others) > 0,
		})
		last := len(l.refs) - 1
		l.unused[l.refs[last].call] = append(l.unused[l.refs[last].call], last)
	}
}

// child returns the first reference of a call that was not used yet, nil when there is none.
func (l *ledger) child(call string) *childRef {
	if unused := l.unused[call]; len(unused) > 0 {
		return &l.refs[unused[0]]
	}
	return nil
}

// otherStart is when a run must have started whose record does not tell: not later than its first turn, or than its first message.
func (d *Decoder) otherStart(messages []message) otelagent.Moment {
	for _, turn := range d.doc.ledger.turns {
		if v := memberOf(turn, "started_at"); v != nil && v[0] == '"' {
			if t, ok := parseTime(v); ok {
				return otelagent.Moment{Time: t, Source: spans.TimeSourceBound}
			}
		}
	}
	for i := range messages {
		if t := d.messageOf(&messages[i]).Time; !t.IsZero() {
			return otelagent.Moment{Time: t, Source: spans.TimeSourceMessage}
		}
	}
	return otelagent.Moment{}
}

func missingStart() *input.LineError {
	return &input.LineError{Type: "LoopRecord", Field: "started_at", Reason: "missing, want " + wantTime}
}

// tellsAll reports whether the stored events of a record tell all that its turns do: they begin with its AgentStart, are all of its
// loop, end as it did, and hold as many ends of turns and requests as there are turns and payloads.
func (d *Decoder) tellsAll(values [][]byte) bool {
	l := &d.doc.ledger
	if len(l.events) == 0 || l.id == nil || l.dirty {
		return false
	}
	ends, requests, ended := 0, 0, false
	for i, stored := range l.events {
		event := memberOf(stored, "event")
		if event == nil || event[0] != '{' {
			return false
		}
		var typ, loop, start []byte
		c := rawjson.NewCursor(event, maxDepth)
		for c.Open('{'); c.More('}'); {
			switch key, value := c.RawKey(), c.Value(); string(key) {
			case `"type"`:
				typ = value
			case `"loop_id"`:
				loop = value
			case `"timestamp"`:
				start = value
			}
		}
		if string(loop) != string(l.id) || ended {
			return false
		}
		switch string(typ) {
		case `"AgentStart"`:
			if i > 0 || string(start) != string(values[lStartedAt]) {
				return false
			}
		case `"TurnEnd"`:
			ends++
		case `"TurnRequest"`:
			requests++
		case `"AgentEnd"`:
			ended = true
		}
		if i == 0 && string(typ) != `"AgentStart"` {
			return false
		}
	}
	payloads := 0
	for _, turn := range l.turns {
		if !absent(memberOf(turn, "request_payload")) {
			payloads++
		}
	}
	return ended == !l.running && ends >= len(l.turns) && requests >= payloads
}

// storedEvents reads the events that were stored with a run.
func (d *Decoder) storedEvents(others []member, values [][]byte) {
	l := &d.doc.ledger
	d.doc.record, d.doc.names = "", nil
	last := len(l.events) - 1
	for i, stored := range l.events {
		if d.stopped {
			return
		}
		back := d.at(elementAt("events", i) + ".event")
		d.seq++
		d.stats.Events++
		if i == last && !l.running {
			d.beforeEnd()
		}
		err := d.ev.parse(memberOf(stored, "event"))
		if err != nil {
			d.rejectSyntax(err) // cannot be: it was read before
		} else if problem := d.decode(); problem != nil {
			d.stats.Events--
			d.reject(problem)
			if i == 0 {
				back()
				return
			}
		}
		back()
		if i == 0 && len(others) > 0 {
			d.out.kept = append(d.out.kept[:0], others...)
			d.emitKept(d.meta(), "LoopRecord")
		}
	}
	if l.running {
		d.beforeEnd()
	}
}

// meta returns where an untimed event of the run belongs.
func (d *Decoder) meta() otelagent.Meta {
	f := fields{words: &d.words}
	m := otelagent.Meta{Run: f.id("", d.doc.ledger.id), Seq: d.seq}
	d.in(&m)
	return m
}

// beforeEnd tells what a record says that no event does.
func (d *Decoder) beforeEnd() {
	l := &d.doc.ledger
	var left []member
	if l.block != nil {
		created := memberOf(l.block, "createdAt")
		var at time.Time
		if created != nil && created[0] == '"' {
			at, _ = parseTime(created)
		}
		if at.IsZero() {
			left = append(left, member{quoted("compaction_block"), l.block})
		} else {
			e := d.compaction(spans.CompactionKindSummary)
			e.Compaction.Start, e.End = otelagent.Moment{Time: at}, otelagent.Moment{Time: at}
			e.Summary = l.block
			e.Meta = d.meta()
			d.emit(e)
		}
	}
	var refs [][]byte
	for i := range l.refs {
		if !l.refs[i].used || l.refs[i].more {
			refs = append(refs, l.refs[i].raw)
		}
	}
	if len(refs) > 0 {
		left = append(left, member{quoted("child_loop_refs"), array(refs)})
	}
	d.out.kept = append(d.out.kept[:0], left...)
	d.emitKept(d.meta(), "LoopRecord")
}

// turns tells of the turns of a record without events. Records from before there were turns have messages only.
func (d *Decoder) turns(values [][]byte, messages []message, whole bool) {
	l := &d.doc.ledger
	if values[lTurns] == nil {
		if whole { // else its turns may be behind the cut, and start at other times
			d.conversation(messages, true)
		}
		return
	}
	inputs, results := []message{}, []message{}
	for i, raw := range l.turns {
		if d.stopped {
			return
		}
		d.stats.Lines++
		back := d.at(elementAt("turns", i))
		if raw[0] != '{' {
			d.problem("", "want an object, got "+rawjson.KindOf(raw))
			back()
			continue
		}
		var v [turnKeys][]byte
		c := rawjson.NewCursor(raw, maxDepth)
		t := turnRecord{others: d.cleaned(d.fields(&c, turnFields, v[:], nil))}
		d.typed(turnFields, v[:], map[int]byte{tID: '{', tInputs: '[', tOutput: '{', tResults: '['})
		t.trigger, t.start, t.end, t.usage, t.payload = v[tTrigger], v[tStartedAt], v[tEndedAt], v[tUsage], v[tPayload]
		t.index = memberOf(v[tID], "turnIndex")
		if loop := memberOf(v[tID], "loopId"); v[tID] != nil && string(loop) != string(l.id) && utf8.Valid(v[tID]) {
			t.others = append(t.others, member{quoted("turn_id"), v[tID]})
		}
		inputs, results = d.readMessages(inputs, "input_messages", v[tInputs]), d.readMessages(results, "tool_results", v[tResults])
		if t.inputs = inputs; !absent(v[tResults]) {
			t.results = results
		}
		if out := v[tOutput]; !absent(out) {
			d.ev.c.Reset(out, maxDepth)
			d.ev.parseMessage(&t.output)
		}
		t.open = t.output.raw == nil && absent(t.end)
		d.stats.Events++
		d.turn(&t)
		back()
	}
}

// turn gives the reader of events those of one turn, and reports whether its reply asks for a tool.
func (d *Decoder) turn(t *turnRecord) (asks bool) {
	l := &d.doc.ledger
	record := d.doc.record
	defer func() { d.doc.record = record }()
	d.doc.record, d.doc.names = "Turn", startNames
	d.begin()
	d.put(kLoopID, l.id)
	d.put(kTimestamp, t.start)
	d.put(kTurnIndex, t.index)
	d.put(kTriggeredBy, t.trigger)
	d.ev.others = append(d.ev.others, t.others...)
	if !d.tell(vTurnStart) {
		return false
	}

	calls := map[string]askedCall{}
	var order []string
	d.eachCall(t.output.content, func(id string, c askedCall) {
		if _, twice := calls[id]; !twice && len(calls) < maxCalls {
			order = append(order, id)
			calls[id] = c
		}
	})
	answers := func(m *message) (id string, ok bool) {
		if m.toolCallID == nil || !m.llm() {
			return "", false
		}
		id = d.lenient(m.toolCallID)
		_, ok = calls[id]
		return id, ok
	}
	result := map[string]*message{}
	inInput := map[string]bool{}
	before := -1
	for i := range t.inputs {
		if id, ok := answers(&t.inputs[i]); ok && !inInput[id] {
			result[id], inInput[id] = &t.inputs[i], true
			if before < 0 {
				before = i
			}
		}
	}
	if before < 0 {
		before = len(t.inputs)
	}
	for i := range t.results {
		if id, ok := answers(&t.results[i]); ok && result[id] == nil {
			result[id] = &t.results[i]
		}
	}

	for i := range t.inputs[:before] {
		d.added(&t.inputs[i])
	}
	if !absent(t.payload) {
		d.request(t)
	}
	if t.output.reply() {
		d.added(&t.output)
	}
	for _, id := range order {
		if m := result[id]; m != nil && !(inInput[id] && failedWith(m, textHookDenied)) {
			d.toolStarted(id, calls[id], m)
		}
	}
	for i := range t.inputs[before:] {
		m := &t.inputs[before+i]
		if id, ok := answers(m); ok && result[id] == m && !failedWith(m, textHookDenied) {
			d.toolEnded(calls[id], m)
		}
		d.added(m)
	}
	for _, id := range order {
		if m := result[id]; m != nil && !inInput[id] {
			d.toolEnded(calls[id], m)
		}
	}
	if !t.open {
		d.turnOver(t)
	}
	return len(order) > 0
}

// failedWith reports whether m is the result of a tool that failed with just that text.
func failedWith(m *message, text string) bool {
	return m.isError != nil && m.isError[0] == 't' && contentText(m.content) == text
}

// added tells of a message.
func (d *Decoder) added(m *message) {
	d.doc.names = nil
	d.begin()
	d.put(kLoopID, d.doc.ledger.id)
	d.ev.message = *m
	d.put(kMessage, m.raw)
	d.tell(vMessageEnd)
}

// request tells what the model received. The ledger does not say when.
func (d *Decoder) request(t *turnRecord) {
	d.doc.names = payloadNames
	d.begin()
	d.put(kLoopID, d.doc.ledger.id)
	d.put(kTurnIndex, t.index)
	d.ev.c.Reset(t.payload, maxDepth)
	d.put(kPayload, d.ev.parsePayload())
	d.tell(vTurnRequest)
}

// toolStarted tells of a call that has a result: it started after the reply that asks for it. One that phi-core skipped has no arguments
// in its events either.
func (d *Decoder) toolStarted(id string, c askedCall, result *message) {
	d.doc.names = nil
	d.begin()
	d.put(kLoopID, d.doc.ledger.id)
	d.put(kToolCallID, c.id)
	d.put(kToolName, c.name)
	if d.put(kArgs, c.args); failedWith(result, textSkipped) {
		d.put(kArgs, quotedNull)
	}
	d.tell(vToolExecutionStart)
}

var quotedNull = []byte("null")

// toolEnded tells of the end of a call, which its result message tells: the result as phi-core's events have it, but for what a message
// does not hold.
func (d *Decoder) toolEnded(c askedCall, m *message) {
	l := &d.doc.ledger
	d.doc.names = nil
	l.result = append(append(append(l.result[:0], `{"content":`...), m.content...), '}')
	d.begin()
	d.put(kLoopID, l.id)
	d.put(kToolCallID, c.id)
	if d.put(kToolName, c.name); c.name == nil {
		d.put(kToolName, memberOf(m.raw, "toolName"))
	}
	d.put(kResult, l.result)
	d.put(kIsError, m.isError)
	if ref := l.child(d.lenient(c.id)); ref != nil {
		d.put(kChildLoopID, memberOf(ref.raw, "child_loop_id"))
	}
	d.tell(vToolExecutionEnd)
}

func (d *Decoder) turnOver(t *turnRecord) {
	d.doc.names = endNames
	d.begin()
	d.put(kLoopID, d.doc.ledger.id)
	d.put(kTimestamp, t.end)
	if d.put(kUsage, t.usage); t.output.raw != nil {
		d.ev.message = t.output
		d.put(kMessage, t.output.raw)
	}
	if t.results != nil {
		d.ev.toolResults = append(d.ev.toolResults[:0], t.results...)
		d.put(kToolResults, emptyArray)
	}
	d.tell(vTurnEnd)
}

// loopEnd tells of the end of a run without events. Of a run that was refused there is nothing else: its input was.
func (d *Decoder) loopEnd(values [][]byte, messages []message) {
	l := &d.doc.ledger
	d.beforeEnd()
	if l.running {
		return
	}
	d.doc.record, d.doc.names = "LoopRecord", endNames
	if v := values[lRejection]; !absent(v) && len(l.turns) == 0 {
		d.begin()
		d.put(kLoopID, l.id)
		d.put(kReason, v)
		d.tell(vInputRejected)
	}
	d.begin()
	d.put(kLoopID, l.id)
	d.put(kTimestamp, values[lEndedAt])
	d.put(kUsage, values[lUsage])
	d.put(kRejection, values[lRejection])
	if v := values[lMessages]; v != nil {
		d.ev.messages = append(d.ev.messages[:0], messages...)
		if l.dirty && v[0] == '[' {
			v = emptyArray // those that could not be read are left out
		}
		d.put(kMessages, v)
	}
	d.tell(vAgentEnd)
}

// amend adds to an event what only the document tells.
func (doc *document) amend(ev otelagent.Event) {
	l := &doc.ledger
	switch e := ev.(type) {
	case *otelagent.RunStarted:
		e.Recording = spans.RecordingLedger
		if !l.start.Time.IsZero() {
			e.Start, e.Meta.Time = l.start, l.start.Time
		}
		if l.spawn != nil && e.ParentID == l.spawn.loop {
			e.ParentSessionID, e.ParentToolCallID = l.spawn.session, l.spawn.call
		}
	case *otelagent.RunEnded:
		e.Word = l.status
		switch l.status {
		case "Completed":
			e.Status = spans.RunStatusCompleted
		case "Rejected":
			e.Status, e.Rejected = spans.RunStatusRejected, true
		case "Aborted":
			e.Status = spans.RunStatusAborted
		case "", "Pending", "Running": // it has ended all the same
		default:
			e.Status = spans.RunStatus(l.status)
		}
	case *otelagent.GroupStarted:
		e.Recording = spans.RecordingLedger
		e.Start, e.Meta.Time = otelagent.Moment{Time: l.groupStart, Source: spans.TimeSourceBound}, l.groupStart
	case *otelagent.ToolEnded:
		if ref := l.child(e.CallID); ref != nil && ref.run == e.ChildRunID {
			ref.used = true
			l.unused[e.CallID] = l.unused[e.CallID][1:]
			if ref.session != "" {
				e.ChildSessionID = ref.session
			}
		}
	case *otelagent.Other:
		if doc.record != "" && strings.HasSuffix(e.Type, unknownKeys) {
			e.Type = doc.record + unknownKeys
		}
	}
}
