package phi

import (
	"cmp"
	"slices"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// turn is a turn as a ledger or a conversation has it.
type turn struct {
	path            string
	raw             []byte // of the record of a ledger; nil in a conversation
	index           int64
	inputs, results []message
	reply           message
}

const turnRecord = "Turn"

// turns reads the turns of a record without events.
func (d *Decoder) turns(path string, raws [][]byte) {
	for i, raw := range raws {
		if d.shell.Stopped() {
			return
		}
		d.shell.Stats.Lines++
		t := turn{path: elementAt(member(path, "turns"), i), raw: raw}
		if raw[0] != '{' {
			d.problem(t.path, "want an object, got "+rawjson.KindOf(raw))
			continue
		}
		o := object.Of(t.path, raw)
		once(o)
		t.inputs, t.results = conversationOf(o.List("input_messages")), conversationOf(o.List("tool_results"))
		if o.Object("output_message") != nil {
			t.reply = messageOf(o.Raw("output_message"))
		}
		d.shell.RejectProblems(turnRecord, o)
		d.shell.Stats.Events++
		d.turn(&t)
	}
}

// turnBegan reads the start of a turn, and reports whether it could.
func (d *Decoder) turnBegan(t *turn) bool {
	o := object.Of(t.path, t.raw)
	o.Use(turnFields...)
	l := d.step(turnRecord, o, func(l *line) []event.Event {
		if o != nil {
			id := o.Object("turn_id")
			t.index = count(id, "turnIndex")
			if id != nil && stringOf(id.Raw("loopId")) != d.record.id {
				o.Keep("turn_id")
			}
		}
		l.m.Time = o.Time("started_at")
		return d.turnStarted(l, t.index)
	})
	if l == nil {
		return false
	}
	d.shell.Other(l.m, turnRecord+unknownKeys, o.Rest())
	return true
}

// turn hands out the events of one turn, and reports whether its reply asks for a tool.
func (d *Decoder) turn(t *turn) (asks bool) {
	if !d.turnBegan(t) {
		return false
	}
	record := object.Of(t.path, t.raw)
	calls := map[string]*object.Object{}
	var order []string
	for _, asked := range blocks(t.reply.o, "toolCall") {
		if id := stringOf(asked.Raw("id")); id != "" && calls[id] == nil && len(calls) < maxCalls {
			order = append(order, id)
			calls[id] = asked
		}
	}
	result := map[string]*message{} // the first of each call
	before := len(t.inputs)         // the inputs before the first result
	for i, msg := range slices.Concat(t.inputs, t.results) {
		if id := msg.ToolCallID; calls[id] != nil && result[id] == nil {
			result[id] = &msg
			if before = min(before, i); i < len(t.inputs) && msg.failedWith(textHookDenied) { // messageAdded has the call
				delete(calls, id)
			}
		}
	}

	for _, msg := range t.inputs[:before] {
		d.added(msg)
	}
	if record.Has("request_payload") {
		d.step(turnRecord, record, func(l *line) []event.Event { return request(l, t.index, "request_payload") })
	}
	if t.reply.reply() {
		d.added(t.reply)
	}
	for _, id := range order {
		if result[id] != nil && calls[id] != nil {
			d.began(calls[id], result[id])
		}
	}
	end := func(id string) {
		if result[id] != nil && calls[id] != nil {
			d.ended(calls[id], result[id])
			delete(calls, id)
		}
	}
	for _, msg := range t.inputs[before:] {
		end(msg.ToolCallID)
		d.added(msg)
	}
	for _, id := range order {
		end(id)
	}
	if t.reply.Raw == nil && !record.Has("ended_at") {
		return len(order) > 0
	}
	d.step(turnRecord, object.Of(t.path, t.raw), func(l *line) []event.Event {
		l.m.Time = l.Time("ended_at")
		return d.turnEnded(l, t.reply, t.results)
	})
	return len(order) > 0
}

// failedWith reports whether msg is the result of a tool that failed with just that text.
func (msg *message) failedWith(said string) bool { return msg.failed() && text(msg.o) == said }

// added hands out a message.
func (d *Decoder) added(msg message) {
	d.step(turnRecord, nil, func(l *line) []event.Event { return d.messageAdded(l, msg) })
}

// began hands out the start of a call that has a result: it started after the reply that asks for it. One that
// phi-core skipped has no arguments in its events either.
func (d *Decoder) began(asked *object.Object, result *message) {
	call := event.ToolCall{ID: result.ToolCallID, Name: stringOf(asked.Raw("name")), Args: asked.Spelled("arguments")}
	if result.failedWith(textSkipped) {
		call.Args = []byte("null")
	}
	d.step(turnRecord, nil, func(l *line) []event.Event { return d.toolStarted(l, call) })
}

// ended hands out the end of a call, which its result message says: the result as phi-core's events have it, but for
// what a message does not hold.
func (d *Decoder) ended(asked *object.Object, msg *message) {
	name := cmp.Or(stringOf(asked.Raw("name")), stringOf(msg.o.Raw("toolName")))
	e := &event.ToolEnded{CallID: msg.ToolCallID, Name: name}
	e.Result = append(append([]byte(`{"content":`), msg.o.Raw("content")...), '}')
	if ref := d.record.child(e.CallID); ref != nil {
		e.ChildRunID = ref.run
	}
	d.step(turnRecord, nil, func(l *line) []event.Event { return d.toolEnded(l, e, msg.failed(), msg.o) })
}
