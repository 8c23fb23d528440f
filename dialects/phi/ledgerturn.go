package phi

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// conversation makes turns of a list of messages, as a record has them: the messages before a reply are its turn's
// input, the tool results after it its turn's results. Turns have the numbers that the replies name, else, and
// in an array of messages, they are counted. The messages after the last turn belong to none.
func (p *record) conversation(list [][]byte) (turns, behind [][]byte) {
	for i := 0; i < len(list); i++ {
		reply := messageOf(list[i])
		if !reply.reply() {
			continue
		}
		end := i + 1
		for ; end < len(list); end++ {
			if msg := messageOf(list[end]); msg.Role != "toolResult" || !msg.llm() {
				break
			}
		}
		index := object.Of("", reply.o.Raw("turnId")).Count("turnIndex")
		if index == nil || p.raw == nil {
			index = new(int64(len(turns)))
		}
		id := input.Members("loopId", p.id, "turnIndex", strconv.AppendInt(nil, *index, 10))
		turns = append(turns, input.Members("turn_id", id, "output_message", reply.Raw, "tool_results",
			input.Array(list[i+1:end]), "input_messages", input.Array(slices.Concat(list[:i], list[i+1:end]))))
		list, i = list[end:], -1
	}
	return turns, list
}

// turns reads the turns of a record without events, and the messages after them.
func (d *Decoder) turns(p *record, raws, behind [][]byte) {
	for i, raw := range raws {
		if d.Stopped() {
			return
		}
		d.Counts.Lines++
		at := object.Element(object.Join(p.path, "turns"), i)
		o := object.Of(at, raw)
		if o == nil {
			d.problem(at, "want an object, got "+rawjson.KindOf(raw))
			continue
		}
		d.Counts.Events++
		once(o)
		inputs := o.List("input_messages")
		var messages []message // the inputs, then the results
		for _, raw := range slices.Concat(inputs, o.List("tool_results")) {
			messages = append(messages, messageOf(raw))
		}
		reply := message{}
		if o.Object("output_message") != nil {
			reply = messageOf(o.Raw("output_message"))
		}
		id := o.Object("turn_id")
		if o.Use(turnFields...); id != nil && id.Text("loopId") != p.id {
			o.Keep("turn_id")
		}
		rest := o.Rest()
		d.RejectProblems("Turn", o)
		began := o.Raw("started_at")
		if d.made(at, "TurnStart", "timestamp", began, "turn_index", id.Raw("turnIndex"), "triggered_by",
			o.Raw("triggered_by")) { // the others mean nothing without it
			d.rest("Turn", rest, began)
			d.turn(p, at, o, id.Raw("turnIndex"), messages[:len(inputs)], messages, reply)
		}
	}
	for _, raw := range behind {
		d.made(p.path, "MessageEnd", "message", raw)
	}
}

// turn emits the events of one turn after its start. All are its inputs and the results of its tools.
func (d *Decoder) turn(p *record, at string, o *object.Object, index []byte, inputs, all []message, reply message) {
	calls := map[string]*object.Object{}
	var order []string
	for _, asked := range reply.asks() {
		if id := asked.Text("id"); id != "" && calls[id] == nil && len(calls) < maxCalls {
			order = append(order, id)
			calls[id] = asked
		}
	}
	result := map[string]*message{} // the first of each call
	before := len(inputs)           // the inputs before the first result
	for i, msg := range all {
		if id := msg.ToolCallID; calls[id] != nil && result[id] == nil {
			result[id] = &msg
			if before = min(before, i); i < len(inputs) && msg.failedWith(textHookDenied) { // messageEnd has the call
				delete(calls, id)
			}
		}
	}
	add := func(typ string, members ...any) { d.made(at, typ, members...) }
	for _, msg := range inputs[:before] {
		add("MessageEnd", "message", msg.Raw)
	}
	if payload := o.Raw("request_payload"); payload != nil {
		add("TurnRequest", "turn_index", index, "payload", payload)
	}
	if reply.reply() {
		add("MessageEnd", "message", reply.Raw)
	}
	for _, id := range order { // calls start after the reply that asks for them
		if result[id] == nil || calls[id] == nil {
			continue
		}
		args := calls[id].Spelled("arguments")
		if result[id].failedWith(textSkipped) {
			args = []byte("null") // as in the events of a call that phi-core skipped
		}
		add("ToolExecutionStart", "tool_call_id", id, "tool_name", calls[id].Raw("name"), "args", args)
	}
	end := func(id string) {
		msg, call := result[id], calls[id]
		if msg == nil || call == nil {
			return
		}
		delete(calls, id)
		child := "" // that of the first reference that no call took yet
		if refs := p.unused[id]; len(refs) > 0 {
			child = refs[0].run
		}
		add("ToolExecutionEnd", "tool_call_id", id, "child_loop_id", child,
			"tool_name", cmp.Or(call.Text("name"), msg.o.Text("toolName")),
			"is_error", strconv.AppendBool(nil, msg.failed()), "result", input.Members("content", msg.o.Raw("content")))
	}
	for _, msg := range inputs[before:] {
		end(msg.ToolCallID)
		add("MessageEnd", "message", msg.Raw)
	}
	for _, id := range order {
		end(id)
	}
	if reply.Raw != nil || o.Has("ended_at") {
		add("TurnEnd", "timestamp", o.Raw("ended_at"), "message", reply.Raw, "usage", o.Raw("usage"),
			"tool_results", o.Raw("tool_results"))
	}
}

// failedWith reports whether msg is the result of a tool that failed with just that text.
func (msg *message) failedWith(said string) bool {
	return msg.failed() && input.Texts(msg.o.Raw("content")) == said
}
