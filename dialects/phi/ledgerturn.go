package phi

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// turn is a turn as a ledger or a conversation has it.
type turn struct {
	path            string
	index           *int64         // its number; nil where it is not known
	record          *object.Object // of a ledger; nil in a conversation
	rest            []byte         // the unknown members of the record
	inputs, results []message
	reply           message
}

// turns reads the turns of a record without events.
func (d *Decoder) turns(p *record, raws [][]byte) {
	for i, raw := range raws {
		if d.shell.Stopped() {
			return
		}
		d.shell.Stats.Lines++
		t := turn{path: object.Element(object.Join(p.path, "turns"), i)}
		if raw[0] != '{' {
			d.problem(t.path, "want an object, got "+rawjson.KindOf(raw))
			continue
		}
		d.shell.Stats.Events++
		o := object.Of(t.path, raw)
		once(o)
		t.inputs, t.results = conversationOf(o.List("input_messages")), conversationOf(o.List("tool_results"))
		if o.Object("output_message") != nil {
			t.reply = messageOf(o.Raw("output_message"))
		}
		failed, id := o.Failed(), o.Object("turn_id")
		t.record, t.index = o, id.Count("turnIndex")
		if o.Use(turnFields...); id != nil && id.Text("loopId") != p.id {
			o.Keep("turn_id")
		}
		t.rest = o.Rest()
		if d.shell.RejectProblems("Turn", o); o.Failed() == failed {
			d.turn(p, &t)
		} else {
			d.shell.Seq++ // it has its number all the same
		}
	}
}

// turn hands out the events of one turn. It reports whether its reply asks for a tool.
func (d *Decoder) turn(p *record, t *turn) (asks bool) {
	calls := map[string]*object.Object{}
	var order []string
	for _, asked := range blocks(t.reply.o, "toolCall") {
		if id := asked.Text("id"); id != "" && calls[id] == nil && len(calls) < maxCalls {
			order = append(order, id)
			calls[id] = asked
		}
	}
	result := map[string]*message{} // the first of each call
	before := len(t.inputs)         // the inputs before the first result
	for i, msg := range slices.Concat(t.inputs, t.results) {
		if id := msg.ToolCallID; calls[id] != nil && result[id] == nil {
			result[id] = &msg
			if before = min(before, i); i < len(t.inputs) && msg.failedWith(textHookDenied) { // messageEnd has the call
				delete(calls, id)
			}
		}
	}

	var index []byte
	if t.index != nil {
		index = strconv.AppendInt(nil, *t.index, 10)
	}
	add := func(typ string, members ...any) { d.made(t.path, typ, members...) }
	if began := t.record.Raw("started_at"); d.made(t.path, "TurnStart", "timestamp", began, "turn_index", index,
		"triggered_by", t.record.Raw("triggered_by")) {
		d.rest("Turn", t.rest, began)
	} else { // the others mean nothing without it
		return len(order) > 0
	}
	for _, msg := range t.inputs[:before] {
		add("MessageEnd", "message", msg.Raw)
	}
	if payload := t.record.Raw("request_payload"); payload != nil {
		add("TurnRequest", "turn_index", index, "payload", payload)
	}
	if t.reply.reply() {
		add("MessageEnd", "message", t.reply.Raw)
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
		add("ToolExecutionEnd", "tool_call_id", id, "child_loop_id", p.nextChild(id),
			"tool_name", cmp.Or(call.Text("name"), msg.o.Text("toolName")),
			"is_error", strconv.AppendBool(nil, msg.failed()), "result", input.Members("content", msg.o.Raw("content")))
	}
	for _, msg := range t.inputs[before:] {
		end(msg.ToolCallID)
		add("MessageEnd", "message", msg.Raw)
	}
	for _, id := range order {
		end(id)
	}
	if t.reply.Raw != nil || t.record.Has("ended_at") {
		var results []byte
		if t.results != nil {
			results = input.Array(raws(t.results))
		}
		add("TurnEnd", "timestamp", t.record.Raw("ended_at"), "message", t.reply.Raw, "usage", t.record.Raw("usage"),
			"tool_results", results)
	}
	return len(order) > 0
}

// failedWith reports whether msg is the result of a tool that failed with just that text.
func (msg *message) failedWith(said string) bool { return msg.failed() && text(msg.o) == said }

// raws returns messages as they are spelled.
func raws(list []message) [][]byte {
	raws := make([][]byte, len(list))
	for i := range list {
		raws[i] = list[i].Raw
	}
	return raws
}

// conversation reads the turns of a list of messages: the messages before a reply are its turn's input,
// the tool results behind it its turn's results. Messages behind the last of them belong to no turn. Turns have the
// numbers that the replies name, if numbered, else they are counted. It reports whether the last reply asks for a tool.
func (d *Decoder) conversation(p *record, list []message, numbered bool) (asks bool) {
	for n := int64(0); !d.shell.Stopped(); n++ {
		reply := slices.IndexFunc(list, func(msg message) bool { return msg.reply() })
		if reply < 0 {
			break
		}
		end := reply + 1
		for end < len(list) && list[end].Role == "toolResult" && list[end].llm() {
			end++
		}
		t := turn{path: p.path, index: new(n), reply: list[reply], results: list[reply+1 : end]}
		t.inputs = slices.Concat(list[:reply], t.results)
		if numbered {
			if named := object.Of("", t.reply.o.Raw("turnId")).Count("turnIndex"); named != nil {
				t.index = named
			}
		}
		asks = d.turn(p, &t)
		list = list[end:]
	}
	for i := range list {
		d.made(p.path, "MessageEnd", "message", list[i].Raw)
	}
	return asks
}
