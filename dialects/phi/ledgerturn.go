package phi

import (
	"slices"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
)

// turn is a turn as a ledger or a conversation has it.
type turn struct {
	record, path    string
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
		t := turn{record: turnRecord, path: elementAt(member(path, "turns"), i), raw: raw}
		if raw[0] != '{' {
			d.problem(t.path, "want an object, got "+rawjson.KindOf(raw))
			continue
		}
		o := object.Of(t.path, raw)
		once(o)
		list := func(key string) (list []message) {
			for _, raw := range o.List(key) {
				list = append(list, messageOf(raw))
			}
			return list
		}
		t.inputs, t.results = list("input_messages"), list("tool_results")
		if o.Has("tool_results") && t.results == nil {
			t.results = []message{}
		}
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
	l := d.step(t.record, o, func(l *line) []otelagent.Event {
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
	d.emitOther(l.m, t.record+unknownKeys, o.Rest())
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
		d.added(t.record, msg)
	}
	if record.Has("request_payload") {
		d.step(t.record, record, func(l *line) []otelagent.Event { return request(l, t.index, "request_payload") })
	}
	if t.reply.reply() {
		d.added(t.record, t.reply)
	}
	for _, id := range order {
		if result[id] != nil && calls[id] != nil {
			d.began(t, id, calls[id], result[id])
		}
	}
	end := func(id string) {
		if result[id] != nil && calls[id] != nil {
			d.ended(t, calls[id], result[id])
			delete(calls, id)
		}
	}
	for _, msg := range t.inputs[before:] {
		end(msg.ToolCallID)
		d.added(t.record, msg)
	}
	for _, id := range order {
		end(id)
	}
	if t.reply.Raw != nil || record.Has("ended_at") {
		d.turnOver(t)
	}
	return len(order) > 0
}

// failedWith reports whether msg is the result of a tool that failed with just that text.
func (msg *message) failedWith(said string) bool { return msg.failed() && text(msg.o) == said }

// added hands out a message.
func (d *Decoder) added(record string, msg message) {
	d.step(record, nil, func(l *line) []otelagent.Event { return d.messageAdded(l, msg) })
}

// began hands out the start of a call that has a result: it started after the reply that asks for it. One that
// phi-core skipped has no arguments in its events either.
func (d *Decoder) began(t *turn, id string, asked *object.Object, result *message) {
	call := otelagent.ToolCall{ID: id, Name: stringOf(asked.Raw("name")), Args: asked.Spelled("arguments")}
	if result.failedWith(textSkipped) {
		call.Args = []byte("null")
	}
	d.step(t.record, nil, func(l *line) []otelagent.Event { return d.toolStarted(l, call) })
}

// ended hands out the end of a call, which its result message says: the result as phi-core's events have it, but for
// what a message does not hold.
func (d *Decoder) ended(t *turn, asked *object.Object, msg *message) {
	e := &otelagent.ToolEnded{CallID: msg.ToolCallID, Name: stringOf(asked.Raw("name"))}
	if e.Name == "" {
		e.Name = stringOf(msg.o.Raw("toolName"))
	}
	e.Result = append(append([]byte(`{"content":`), msg.o.Raw("content")...), '}')
	if ref := d.record.child(e.CallID); ref != nil {
		e.ChildRunID = ref.run
	}
	d.step(t.record, nil, func(l *line) []otelagent.Event { return d.toolEnded(l, e, msg.failed(), msg.o) })
}

func (d *Decoder) turnOver(t *turn) {
	var results []otelagent.Message
	if t.results != nil {
		results = make([]otelagent.Message, len(t.results))
		for i := range t.results {
			results[i] = t.results[i].Message
		}
	}
	d.step(t.record, object.Of(t.path, t.raw), func(l *line) []otelagent.Event {
		l.m.Time = l.Time("ended_at")
		return d.turnEnded(l, t.reply, results)
	})
}
