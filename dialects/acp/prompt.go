package acp

import (
	"bytes"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// run is one prompt, or a compaction between two prompts.
type run struct {
	id    string
	s     *session
	last  event.Meta // of the last event of it
	over  bool       // its end was seen, or nothing more belongs to it
	mixed bool       // a defect reports that another prompt was open
	turn  turn
	calls map[string]*call
	terms map[string]*owner
	held  int // bytes of the entries of calls and terminals
}

// turn is the open turn of a run: one model call as far as the wire shows it, several where not.
type turn struct {
	index       int64
	items       []item // of the reply
	spoke       map[voice]int
	parted      int    // items before that one are closed: without a message id no more chunks belong to them
	messageID   string // of the first text
	waiting     []work // about terminals whose call is not known
	held        int    // bytes of content
	open, ended int    // tool calls
	serial      bool   // an event states that it may hold several model calls
	spent       *float64
	currency    string
}

// item is one piece of a reply: text or thought that came in chunks, a block of another kind, or a tool call.
type item struct {
	voice
	text []byte // of text and thought
	raw  []byte // of a block of another kind, as it is in the reply
	call *call
}

// voice is what chunks of one message have in common. Turn.spoke holds the last item of each.
type voice struct{ kind, messageID string }

const (
	kindText    = "agent_message_chunk"
	kindThought = "agent_thought_chunk"
)

// at is the meta of an event that happens in the run now.
func (r *run) at(m event.Meta) event.Meta {
	m.Session, m.Run = r.s.id, r.id
	r.last = m
	return m
}

// prompt begins a run.
func (d *Decoder) prompt(f *frame, p *pending) {
	s := p.s
	request := f.id
	if text, ok := rawjson.String([]byte(request)); ok {
		request = text
	}
	r := &run{id: d.name(s, "prompt-"+request), s: s, calls: map[string]*call{}, terms: map[string]*owner{}}
	p.run, p.then = r, func(f *frame) { d.answer(f, r) }
	if s.loading { // nobody prompts before a session is loaded: the response was not seen
		d.loaded(s, f.meta)
	}
	info := event.RunInfo{ForkParentID: s.forkOf, Metadata: f.in.Raw("_meta")}
	if s.last != "" {
		info.Continuation = spans.ContinuationDefault
	}
	initParams, initResult := loose(d.initParams), loose(d.initResult)
	info.Config = input.Members("protocolVersion", initResult.Raw("protocolVersion"),
		"clientInfo", initParams.Raw("clientInfo"), "agentInfo", initResult.Raw("agentInfo"),
		"cwd", s.cwd, "mode", s.mode, "model", s.model)
	d.begin(r, f.meta, info)
	at := r.last
	s.open, s.last = append(s.open, r), r.id
	for _, other := range s.open {
		if len(s.open) > 1 && !other.mixed {
			other.mixed = true
			d.Emit(&event.DefectFound{Meta: other.at(f.meta), Code: spans.DefectRunsMixed,
				Detail: "prompts of one session overlap: the decoder assigns updates to the one that began first"})
		}
	}
	d.Emit(&event.TurnStarted{Meta: at, TurnInfo: event.TurnInfo{Index: new(int64(0)),
		Trigger: spans.TriggerUser}})
	d.Emit(&event.MessageAdded{Meta: at, Message: message("user", f.in.Raw("prompt"), f.in.String("messageId"))})
	d.Other(at, mPrompt+input.UnknownKeys, f.in.Rest())
}

// message is a message of a role.
func message(role string, content []byte, id string) event.Message {
	return event.Message{Role: role, Raw: input.Members("role", role, "content", content, "messageId", id)}
}

// chunk takes a piece of the reply.
func (d *Decoder) chunk(r *run, at event.Meta, v voice, raw []byte) {
	d.nextTurn(r, at, v.messageID)
	t, content := &r.turn, loose(raw)
	text := content.Raw("text")
	plain := content.String("type") == "text" && text != nil && text[0] == '"'
	if plain {
		content.Use("_meta")
		plain = content.Rest() == nil
	}
	e := &event.ReplyDelta{Meta: r.at(at)}
	if plain {
		e.Kind, e.Text = event.PartialText, text
		if v.kind == kindThought {
			e.Kind = event.PartialReasoning
		}
	}
	d.Emit(e)
	// A chunk goes on with the last item of its message, if that is text; without an id, only if nothing came between.
	i, known := t.spoke[v]
	more := plain && known && t.items[i].raw == nil && (v.messageID != "" || i == len(t.items)-1 && i >= t.parted)
	d.hold(&t.held, len(raw))
	if t.messageID == "" && v.kind == kindText {
		t.messageID = v.messageID
	}
	if !more {
		if t.spoke == nil {
			t.spoke = map[voice]int{}
		}
		i = len(t.items)
		t.spoke[v] = i
		t.items = append(t.items, item{voice: v})
		d.hold(&t.held, entry+len(v.messageID))
	}
	it := &t.items[i]
	switch {
	case plain:
		it.text = rawjson.AppendString(it.text, text)
	case v.kind == kindThought:
		it.raw = input.Members("type", "thinking", "block", raw, "messageId", v.messageID)
	default:
		it.raw = bytes.Clone(raw)
	}
}

// cut ends the texts without a message id: an update came that is no chunk of the reply.
func (r *run) cut() { r.turn.parted = len(r.turn.items) }

// nextTurn begins the next turn when a piece of a reply begins another model call: all tool calls have ended, and it is
// of no message that began before. The turn before ends when its last event was seen.
func (d *Decoder) nextTurn(r *run, at event.Meta, messageID string) {
	t := &r.turn
	_, text := t.spoke[voice{kindText, messageID}]
	_, thought := t.spoke[voice{kindThought, messageID}]
	if t.ended == 0 || t.open > 0 || messageID != "" && (text || thought) {
		return
	}
	d.endTurn(r, r.last, event.TurnResult{})
	m := r.at(at)
	info := event.TurnInfo{Index: new(r.turn.index), Trigger: spans.TriggerContinuation}
	d.Emit(&event.TurnStarted{Meta: m, TurnInfo: info})
	d.Other(m, "acp.turn_inferred", []byte(`{"because":"a reply after all tool calls had ended"}`))
}

// endTurn ends the open turn. It forgets the content of the turn and of its calls.
func (d *Decoder) endTurn(r *run, at event.Meta, res event.TurnResult) {
	t := &r.turn
	var pieces [][]byte
	for _, it := range t.items {
		piece, text := it.raw, rawjson.Quote(nil, string(it.text))
		switch c := it.call; {
		case c != nil:
			d.start(c)
			piece = input.Members("type", "toolCall", "id", c.id, "name", c.name, "arguments", c.members["rawInput"],
				"title", c.members["title"], "kind", c.members["kind"])
			clear(c.members)
		case piece == nil && it.kind == kindThought:
			piece = input.Members("type", "thinking", "thinking", text, "messageId", it.messageID)
		case piece == nil:
			piece = input.Members("type", "text", "text", text, "messageId", it.messageID)
		}
		pieces = append(pieces, piece)
	}
	d.flush(r, true)
	if pieces != nil {
		out := message("assistant", input.Array(pieces), t.messageID)
		res.Output = &out
	}
	res.Cost, res.Currency = t.spent, t.currency
	d.Emit(&event.TurnEnded{Meta: at, TurnResult: res})
	d.release(&t.held)
	r.turn = turn{index: t.index + 1}
}

// answer ends a run with the response to its prompt.
func (d *Decoder) answer(f *frame, r *run) {
	result := loose(f.result)
	if f.err == nil && !result.Has("stopReason") && result.Has("messageId") {
		// In version 2 the response states only that the agent took the prompt, and does not end the run.
		d.later = true
		d.keep(r.s, f.meta, mPrompt+".response", f.result)
		d.abandon(r)
		return
	}
	defer d.abandon(r) // also where it is not known how it ended
	res := event.RunResult{Status: spans.RunStatusCompleted}
	var turn event.TurnResult
	if f.err != nil {
		result = nil
		e := loose(f.err)
		res.Status, res.Error, turn.Failed = spans.RunStatusError, e.String("message"), true
		if code := e.Raw("code"); e.Int("code") != nil {
			res.Word = string(code)
		}
		if res.Word == "-32800" { // request cancelled
			res.Status, turn.Cancelled = spans.RunStatusCancelled, true
		}
		turn.Error = res.Error
	} else {
		result = f.answer("stopReason! usage:object")
		turn.StopReason = result.String("stopReason")
		res.Usage = d.usage(result.Object("usage"))
		if res.Word = turn.StopReason; res.Word == "cancelled" {
			res.Status, turn.Failed, turn.Cancelled = spans.RunStatusCancelled, true, true
		}
	}
	if f.bad() {
		return
	}
	at := r.at(f.meta)
	for _, p := range d.pending {
		if p.run == r && p.end != nil {
			p.end(at)
		}
	}
	d.Other(at, mPrompt+input.UnknownKeys, result.Rest())
	d.Other(at, mPrompt+".error", f.err)
	d.endTurn(r, at, turn)
	d.Emit(&event.RunEnded{Meta: at, RunResult: res})
}
