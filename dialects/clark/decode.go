package clark

import (
	"bytes"
	"fmt"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// unknownKeys follows the variant in Other.Type where an event had keys that are not clark-agent's.
const unknownKeys = ".unknown_keys"

// handle hands out what one line of r tells. Its start was told.
func (d *Decoder) handle(r *run, l *line) {
	m := r.meta(l)
	ends := l.variant == vAgentEnd || l.variant == vTurnEnd
	if ends {
		d.extras(m, l)
	}
	switch l.variant {
	case vAgentStart, vRunIdentified, vMessageStart: // what they say is told elsewhere
	case vAgentEnd:
		d.agentEnd(r, m, l)
	case vTurnStart:
		d.turnStart(r, m)
	case vTurnEnd:
		d.turnEnded(r, m, l)
	case vMessageUpdate:
		d.messageUpdate(r, m, l)
	case vMessageEnd:
		d.messageEnd(r, m, l)
	case vToolStart:
		d.toolStart(r, m, l)
	case vToolUpdate:
		d.toolUpdate(r, m, l)
	case vToolEnd:
		d.toolEnd(r, m, l)
	case vEscalation:
		d.escalation(r, m, l)
	case vTransform:
		d.transform(r, m, l)
	case vGate:
		d.gate(r, m, l)
	case vConflict:
		d.conflict(r, m, l)
	case vRequest:
		d.request(r, m, l)
	default:
		d.other(m, l)
		return
	}
	if !ends {
		d.extras(m, l)
	}
}

// other keeps an event whole.
func (d *Decoder) other(m otelagent.Meta, l *line) {
	d.emit(&otelagent.Other{Meta: m, Type: l.name, Body: l.inner.raw})
}

// extras keeps the members of an event that its variant does not have.
func (d *Decoder) extras(m otelagent.Meta, l *line) {
	if l.variant == vRequest && !l.record {
		return // they are in its payload
	}
	if l.variant == vMessageUpdate {
		d.stats.IgnoredKeys += l.unknown()
		return
	}
	d.keep(m, l.name, l.extras())
}

// keep tells of members that an event of a variant has and should not have.
func (d *Decoder) keep(m otelagent.Meta, name string, extra []byte) {
	if extra != nil {
		d.emit(&otelagent.Other{Meta: m, Type: name + unknownKeys, Body: extra})
	}
}

func (d *Decoder) agentEnd(r *run, m otelagent.Meta, l *line) {
	d.endTurn(r)
	list := messagesOf(l.get(kMessages))
	e := &otelagent.RunEnded{Meta: m}
	e.Status = spans.RunStatusCompleted
	e.Word = stringOf(l.get(kOutcome))
	e.Messages = eventsOf(list, l.get(kMessages) != nil)
	r.ended, r.calls = true, nil
	d.emit(e)
}

// endTurn ends the open turn of r for want of an end, as its reply tells; the Recorder does where there is none.
func (d *Decoder) endTurn(r *run) {
	d.endFromReply(r)
	r.open, r.reply = false, reply{}
}

func (d *Decoder) turnStart(r *run, m otelagent.Meta) {
	d.endTurn(r)
	d.beginTurn(r, &otelagent.TurnStarted{Meta: m, TurnInfo: otelagent.TurnInfo{Index: r.turns}})
}

func (d *Decoder) beginTurn(r *run, e *otelagent.TurnStarted) {
	if r.parentID != "" && r.turns == 0 {
		e.Trigger = spans.TriggerSubAgent
	}
	r.turns = e.Index + 1
	r.open, r.closed, r.batch, r.thrown = true, false, false, false
	r.attempt, r.asked, r.first, r.reply = -1, moment{}, 0, reply{}
	r.calls, r.gates = r.calls[:0], r.gates[:0]
	d.emit(e)
}

// within makes sure that a turn is open: one whose start was not seen began at m at the latest.
func (d *Decoder) within(r *run, m otelagent.Meta, index int64) {
	if r.open {
		return
	}
	e := &otelagent.TurnStarted{Meta: m, TurnInfo: otelagent.TurnInfo{Index: max(index, r.turns)}}
	if !m.Time.IsZero() {
		e.Start = otelagent.Moment{Time: m.Time, Source: spans.TimeSourceBound}
	}
	d.beginTurn(r, e)
}

func (d *Decoder) turnEnded(r *run, m otelagent.Meta, l *line) {
	if l.msg.raw != nil && r.reply.raw == nil && bytes.Equal(l.msg.raw, r.before) { // it comes behind the start of the next turn
		d.other(m, l)
		return
	}
	if r.ended { // late; what it tells is the run's no more
		d.other(m, l)
		return
	}
	d.within(r, m, -1)
	results := messagesOf(l.get(kToolResults))
	for i := range results {
		d.emit(&otelagent.MessageAdded{Meta: m, Message: results[i].event()})
	}
	e := d.turnEnd(r, m, l.msg, d.usage(l, keyNames[kMessage]+".usage", l.msg.usage))
	e.Results = eventsOf(results, l.get(kToolResults) != nil)
	closed := r.closed
	r.open, r.closed, r.reply = false, false, reply{}
	if closed { // it was told at the end of an input that there is more of
		return
	}
	d.emit(e)
}

// sameMessage reports whether two messages may be one that was spelled twice.
func sameMessage(a, b message) bool {
	if bytes.Equal(a.raw, b.raw) {
		return true
	}
	x, _, errX := rawjson.AppendCanonical(nil, a.raw, nil)
	y, _, errY := rawjson.AppendCanonical(nil, b.raw, nil)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// turnEnd is the end of a turn whose reply is msg.
func (d *Decoder) turnEnd(r *run, m otelagent.Meta, msg message, usage *otelagent.Usage) *otelagent.TurnEnded {
	e := &otelagent.TurnEnded{Meta: m}
	if msg.raw != nil {
		output := msg.event()
		e.Output = &output
	}
	e.StopReason, e.Error = stringOf(msg.stopReason), stringOf(msg.errorMessage)
	e.Failed, e.Cancelled = e.StopReason == "error" || e.StopReason == "aborted", e.StopReason == "aborted"
	e.Usage, e.FirstChunk = usage, r.first
	return e
}

// mixedRuns tells once of a run that its lines are mixed with those of others.
func (d *Decoder) mixedRuns(r *run, m otelagent.Meta, detail string) {
	if !r.mixed {
		r.mixed = true
		d.emit(&otelagent.DefectFound{Meta: m, Code: spans.DefectRunsMixed, Detail: detail})
	}
}

func (d *Decoder) messageUpdate(r *run, m otelagent.Meta, l *line) {
	if r.first == 0 && r.attempt >= 0 && r.reply.raw == nil {
		r.first = max(0, moment{m.Time, m.Arrived}.since(r.asked))
	}
	e := &otelagent.ReplyDelta{Meta: m, Bytes: deltaLen(l.get(kChunk))}
	e.Kind, e.Text = pieceOf(l.get(kChunk))
	d.emit(e)
}

// pieceOf returns the text that a chunk adds, nil where it adds none.
func pieceOf(chunk []byte) (kind otelagent.PartialKind, text []byte) {
	membersOf(chunk, func(key string, value []byte) {
		switch {
		case value[0] != '"':
		case key == "kind" && string(value) == `"tool_call_delta"`:
			kind = otelagent.PartialToolInput
		case key == "kind" && string(value) == `"text"`:
			kind = otelagent.PartialText
		case key == "kind":
			kind = otelagent.PartialReasoning
		case key == "delta" || key == "arguments_delta":
			text = value
		}
	})
	if text == nil {
		return "", nil
	}
	return kind, text
}

// deltaLen returns the length of what a chunk adds: of its text, or of the JSON of reasoning details.
func deltaLen(chunk []byte) (n int) {
	membersOf(chunk, func(key string, value []byte) {
		switch {
		case key != "delta" && key != "arguments_delta" && key != "name_delta":
		case value[0] == '"':
			n += rawjson.StringLen(value)
		default:
			n += len(value)
		}
	})
	return n
}

func (d *Decoder) messageEnd(r *run, m otelagent.Meta, l *line) {
	if !l.msg.assistant() {
		d.emit(&otelagent.MessageAdded{Meta: m, Message: l.msg.event()})
		return
	}
	if !r.open { // late, or all before it is lost; the end of its turn has it once more
		d.emit(&otelagent.ReplyReceived{Meta: m, Message: l.msg.event()})
		return
	}
	if r.reply.raw != nil && !r.thrown { // to a request that is lost
		d.discard(r, m, "")
	}
	r.thrown = false
	r.reply = reply{bytes.Clone(l.msg.raw), d.usage(l, "message.usage", l.msg.usage)}
	r.calls = r.calls[:0]
	eachOf(l.msg.content, func(block []byte) {
		var typ string
		c := &call{}
		membersOf(block, func(key string, value []byte) {
			switch key {
			case "type":
				typ = stringOf(value)
			case "id":
				c.id = stringOf(value)
			case "name":
				c.name = stringOf(value)
			case "arguments":
				c.args = bytes.Clone(value)
			}
		})
		if typ == "tool_call" {
			r.addCall(c)
		}
	})
	d.emit(&otelagent.ReplyReceived{Meta: m, Message: l.msg.event(), Usage: r.reply.usage, StopReason: stringOf(l.msg.stopReason)})
}

// discard tells that the last attempt of the turn was thrown away.
func (d *Decoder) discard(r *run, m otelagent.Meta, reason string) {
	e := &otelagent.AttemptDiscarded{Meta: m}
	e.Attempt, e.Reason = max(r.attempt, 0), reason
	if r.reply.raw != nil {
		msg := messageOf(r.reply.raw)
		reply := msg.event()
		e.Usage, e.Reply = r.reply.usage, &reply
		if e.Reason == "" {
			e.Reason = stringOf(msg.stopReason)
		}
	}
	r.thrown = true
	d.emit(e)
	r.reply, r.calls = reply{}, r.calls[:0]
}

func (d *Decoder) escalation(r *run, m otelagent.Meta, l *line) {
	d.within(r, m, -1)
	if !r.thrown {
		d.discard(r, m, "max_tokens")
	}
	d.other(m, l)
}

func (d *Decoder) request(r *run, m otelagent.Meta, l *line) {
	iteration := intOf(l.get(kIteration), -1)
	if r.open && r.reply.raw != nil && iteration > r.iteration && r.iteration >= 0 {
		d.endTurn(r) // its end and the start of the next were not seen
	}
	d.within(r, m, iteration)
	if index := r.turns - 1; iteration >= 0 && iteration != index && !r.odd {
		r.odd = true
		d.emit(&otelagent.DefectFound{Meta: m, Code: spans.DefectEventLost, Detail: fmt.Sprintf("iteration %d in turn %d", iteration, index)})
	}
	if r.attempt >= 0 && !r.thrown {
		d.discard(r, m, "")
	}
	r.attempt++
	r.thrown, r.iteration, r.first = false, iteration, 0
	r.asked = moment{m.Time, m.Arrived}
	d.offered(r, m, l)

	if l.record { // it has counts and names only: a request without messages would be told
		d.other(m, l)
		return
	}
	d.payload = requestPayload(d.payload[:0], &l.inner)
	e := &otelagent.RequestPrepared{Meta: m, Request: otelagent.ParseRequest(d.payload)}
	e.Temperature = temperature(l.get(kTemperature))
	e.Attempt = r.attempt
	d.emit(e)
}

// requestPayload appends the object of the request: the members of the event as they stand, but for what says which request it is.
func requestPayload(dst []byte, event *members) []byte {
	dst = append(dst, '{')
	first := true
	for _, m := range event.all {
		switch name := stringOf(m.key); {
		case name == "type" || name == "iteration":
			continue
		case envelopeKeys&(1<<keyOf[name]) != 0:
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(dst, m.key...), ':'), m.value...)
	}
	return append(dst, '}')
}
