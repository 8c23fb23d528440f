package clark

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/spans"
)

// pieces are the kinds of chunks that are no reasoning.
var pieces = map[string]event.PartialKind{"text": event.PartialText, "tool_call_delta": event.PartialToolInput}

// handle emits the events of a line of r, whose start was announced.
func (d *Decoder) handle(r *run, l *line) {
	m := d.meta(r, l)
	if strings.HasSuffix(l.variant, "_end") {
		d.extras(m, l) // before the span that they are kept on ends
	} else if l.variant != "" {
		defer d.extras(m, l)
	}
	switch l.variant {
	case "message_start": // the message comes with its end
	case "agent_end":
		d.endTurn(r)
		e := &event.RunEnded{Meta: m}
		e.Status = spans.RunStatusCompleted
		e.Messages = input.Messages(l.List("messages"))
		if l.record {
			e.Word, e.Messages = l.String("outcome"), input.Messages(l.List("new_messages"))
		}
		r.ended, r.calls = true, nil
		d.Emit(e)
	case "turn_start":
		d.endTurn(r)
		d.beginTurn(r, r.turns, &event.TurnStarted{Meta: m})
	case "turn_end":
		if !r.open && r.replied(l) || r.ended { // it is late
			d.Other(m, l.name, l.raw)
			break
		}
		d.within(r, m, l)
		results := input.Messages(l.List("tool_results"))
		for _, msg := range results {
			d.Emit(&event.MessageAdded{Meta: m, Message: msg})
		}
		e := d.turnEnd(r, m, l.msg, d.usage(l))
		e.Results = results
		r.open, r.reply = false, message{}
		d.Emit(e)
	case "message_update":
		if now := when(m); r.first == 0 && r.reply.raw == nil && !r.asked.IsZero() && !now.IsZero() {
			r.first = max(0, now.Sub(r.asked))
		}
		chunk := l.Object.Object("chunk")
		e := &event.ReplyDelta{Meta: m, Text: chunk.Literal("delta", "arguments_delta")}
		if e.Text != nil {
			e.Kind = cmp.Or(pieces[chunk.Text("kind")], event.PartialReasoning)
		}
		d.Emit(e)
	case "message_end":
		if !l.msg.assistant() {
			d.Emit(&event.MessageAdded{Meta: m, Message: l.msg.event()})
			break
		}
		if r.reply.raw != nil && !r.thrown { // to a request that is lost
			d.discard(r, m, "")
		}
		r.thrown, r.calls = false, nil
		r.reply, r.usage = messageOf(bytes.Clone(l.msg.raw)), d.usage(l)
		for _, p := range genaijson.Read(r.reply.raw).Parts {
			if p.Type == "tool_call" {
				r.addCall(&call{id: p.ID, name: p.Name, args: p.Content})
			}
		}
		d.Emit(&event.ReplyReceived{Meta: m, Message: l.msg.event(), Usage: r.usage,
			StopReason: l.msg.String("stop_reason")})
	case "tool_execution_start":
		call := event.ToolCall{ID: l.String("tool_call_id"), Name: l.String("tool_name"), Args: l.Spelled("args")}
		c := r.call(call.ID, call.Name, false)
		c.started = true
		r.batch = r.batch || len(r.openCalls()) > 1
		d.Emit(&event.ToolStarted{Meta: m, ToolCall: call})
	case "tool_execution_update":
		d.Emit(&event.ToolProgressed{Meta: m, CallID: l.String("tool_call_id"), Name: l.String("tool_name"),
			Type: l.name, Body: l.raw})
	case "tool_execution_end":
		d.toolEnd(r, m, l)
	case "output_tokens_escalation":
		d.within(r, m, l)
		if !r.thrown {
			d.discard(r, m, "max_tokens")
		}
		d.Other(m, l.name, l.raw)
	case "context_transform_applied":
		d.transform(r, m, l)
	case "tool_gate_applied", "tool_gate_conflict_resolved":
		d.gate(r, m, l)
	case "provider_request_prepared":
		d.within(r, m, l)
		index := r.turns - 1
		if n := intOf(l.Raw("iteration"), index); n != index && !r.odd {
			r.odd = true
			d.Emit(&event.DefectFound{Meta: m, Code: spans.DefectEventLost,
				Detail: fmt.Sprintf("iteration %d in turn %d", n, index)})
		}
		if r.attempt >= 0 && !r.thrown {
			d.discard(r, m, "")
		}
		r.attempt++
		r.thrown, r.first, r.asked = false, 0, when(m)
		d.offered(r, m, l)
		if l.record { // it has counts and names only
			d.Other(m, l.name, l.raw)
			return
		}
		req, _ := event.ParseRequest(l.payload) // what cannot be read is kept as it is spelled
		e := &event.RequestPrepared{Meta: m, Request: req}
		// The loop has 32 bits of it: some producers spell it with the digits of 64.
		if t, err := strconv.ParseFloat(string(l.Raw("temperature")), 32); err == nil {
			t, _ = strconv.ParseFloat(strconv.FormatFloat(t, 'g', -1, 32), 64)
			e.Temperature = &t
		}
		e.Attempt = r.attempt
		d.Emit(e)
	default:
		d.Other(m, l.name, l.raw)
	}
}

// extras keeps the members of an event that its variant does not have. Those of a request are in its payload.
func (d *Decoder) extras(m event.Meta, l *line) {
	if l.payload == nil && l.variant != "message_update" { // one more event for each piece of a reply would be too many
		d.Other(m, l.name+input.UnknownKeys, l.Rest())
	}
}

// endTurn ends the open turn of r as its reply says, where its own end did not come. The Recorder ends one that has no
// reply.
func (d *Decoder) endTurn(r *run) {
	if r.open && r.reply.raw != nil {
		r.open = false
		d.Emit(d.turnEnd(r, event.Meta{Session: r.Session, Run: r.Run, Seq: d.Seq}, r.reply, r.usage))
	}
}

// beginTurn emits the start of the next turn, whose index is least or more.
func (d *Decoder) beginTurn(r *run, least int64, e *event.TurnStarted) {
	if r.ParentID != "" && r.turns == 0 {
		e.Trigger = spans.TriggerSubAgent
	}
	index := max(least, r.turns)
	e.Index, r.turns = &index, index+1
	r.turn = turn{open: true, attempt: -1}
	r.gates = nil
	d.Emit(e)
}

// within makes sure that a turn is open: one whose start was not seen began with l at the latest.
func (d *Decoder) within(r *run, m event.Meta, l *line) {
	if r.open {
		return
	}
	d.beginTurn(r, intOf(l.Raw("iteration"), 0), &event.TurnStarted{Meta: m,
		TurnInfo: event.TurnInfo{Start: event.Bound(m.Time)}})
}

// turnEnd is the end of a turn whose reply is msg.
func (d *Decoder) turnEnd(r *run, m event.Meta, msg message, usage *event.Usage) *event.TurnEnded {
	e := &event.TurnEnded{Meta: m}
	if msg.raw != nil {
		output := msg.event()
		e.Output = &output
	}
	e.StopReason, e.Error = msg.String("stop_reason"), msg.String("error_message")
	e.Failed, e.Cancelled = failed(msg), e.StopReason == "aborted"
	e.Usage, e.FirstChunk = usage, r.first
	return e
}

// discard says that the last attempt of the turn was thrown away.
func (d *Decoder) discard(r *run, m event.Meta, reason string) {
	e := &event.AttemptDiscarded{Meta: m}
	e.Attempt, e.Reason = max(r.attempt, 0), reason
	if r.reply.raw != nil {
		reply := r.reply.event()
		e.Usage, e.Reply = r.usage, &reply
		if reason == "" {
			e.Reason = r.reply.String("stop_reason")
		}
	}
	d.Emit(e)
	r.thrown, r.reply, r.calls = true, message{}, nil
}
