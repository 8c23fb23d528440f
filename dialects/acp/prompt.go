package acp

import (
	"strconv"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// run is one prompt without a response.
type run struct {
	id       string
	s        *session
	last     otelagent.Meta // of the last thing that was seen of it
	mixed    bool           // a defect says that another prompt was open
	asked    []*pending     // permission requests without a response, at most maxAsked
	compacts []*compacting

	turn turn
}

// turn is the open turn of a run: one model call as far as it can be told, several where not.
type turn struct {
	index       int64
	items       []item // of the reply
	bytes       int    // held by them
	cut         bool   // some did not fit
	messages    map[string]bool
	messageID   string // of the first text
	calls       []*call
	open, ended int  // tool calls
	serial      bool // it is told that it may hold several model calls
	spent       *float64
	currency    string
}

// item is one piece of a reply: text or thought that came in chunks, a block of another kind, or a tool call.
type item struct {
	kind, messageID string
	text            []byte // of text and thought
	block           []byte // of another kind
	call            *call
	closed          bool // by an update of another kind; without a message id no more chunks belong to it
}

// compacting is a compaction of a run.
type compacting struct {
	id      string
	chunks  []byte // of its summary, an array without its end
	over    bool
	started bool
}

const (
	kindText    = "agent_message_chunk"
	kindThought = "agent_thought_chunk"
)

// at is the meta of something that happens in the run now.
func (r *run) at(m otelagent.Meta) otelagent.Meta {
	m.Session, m.Run = r.s.id, r.id
	r.last = m
	return m
}

// prompt begins a run.
func (d *Decoder) prompt(c *conn, f *frame, p *pending, params object, s *session) *fields {
	w := &fields{}
	blocks := w.must("params.prompt", params.get("prompt"), "[", "an array")
	messageID := w.text("params.messageId", params.get("messageId"))
	meta := w.want("params._meta", params.get("_meta"), "{", "an object")
	if w.wrong != nil {
		return w
	}
	r := &run{id: s.runID(string(f.id)), s: s}
	p.run, p.session = r, s.id
	at := r.at(f.meta)
	info := otelagent.RunInfo{SessionID: s.id, ID: r.id, Dialect: Dialect, Model: s.model, Provider: d.settings.Provider, Agent: c.agent,
		ForkParentID: s.forkOf, Metadata: meta, Config: s.config(c)}
	if info.Agent == "" {
		info.Agent = d.settings.Agent
	}
	if s.loads > 0 { // nobody prompts before a session is loaded: the response was not seen
		s.loads = 0
		d.loaded(s, f.meta)
	}
	s.agent = info.Agent
	if s.last != "" {
		info.ParentID, info.Continuation = s.last, spans.ContinuationDefault
	}
	d.emit(&otelagent.RunStarted{Meta: at, RunInfo: info})
	if len(s.open) == maxPrompts {
		d.abandon(s.open[0])
	}
	s.open = append(s.open, r)
	s.last = r.id
	s.forget()
	for _, other := range s.open {
		if len(s.open) > 1 && !other.mixed {
			other.mixed = true
			d.emit(&otelagent.DefectFound{Meta: other.at(f.meta), Code: spans.DefectRunsMixed,
				Detail: "prompts of one session overlap: updates are told of the one that began first"})
		}
	}
	d.emit(&otelagent.TurnStarted{Meta: at, TurnInfo: otelagent.TurnInfo{Index: 0, Trigger: spans.TriggerUser}})
	raw := []byte(`{"role":"user","content":`)
	raw = append(raw, blocks...)
	d.emit(&otelagent.MessageAdded{Meta: at, Message: message("user", raw, messageID)})
	if body, more := params.without("sessionId", "prompt", "messageId", "_meta"); more {
		d.emit(&otelagent.Other{Meta: at, Type: mPrompt + ".unknown_keys", Body: body})
	}
	return w
}

// message completes a message that lacks its end.
func message(role string, raw []byte, id string) otelagent.Message {
	m := otelagent.Message{Role: role}
	if id != "" {
		raw = rawjson.Quote(append(raw, `,"messageId":`...), id)
	}
	m.Raw = append(raw, '}')
	return m
}

// chunk takes a piece of the reply.
func (d *Decoder) chunk(r *run, at otelagent.Meta, kind, messageID string, content object, raw []byte) {
	if r.begun(messageID) {
		d.nextTurn(r, at)
	}
	m := r.at(at)
	t := &r.turn
	typ, text := content.word("type"), content.get("text")
	plain := typ == "text" && text != nil && text[0] == '"'
	size := len(raw)
	if plain {
		size = rawjson.StringLen(text)
		_, more := content.without("type", "text", "_meta")
		plain = !more
	}
	e := &otelagent.ReplyDelta{Meta: m, Bytes: size}
	if plain {
		e.Kind, e.Text = otelagent.PartialText, text
		if kind == kindThought {
			e.Kind = otelagent.PartialReasoning
		}
	}
	d.emit(e)
	if t.cut {
		return
	}
	if size += len(messageID); d.held+size > maxHeld || len(t.items) >= maxItems {
		d.cutShort(r, m)
		return
	}
	if messageID != "" {
		if t.messages == nil {
			t.messages = map[string]bool{}
		}
		t.messages[messageID] = true
		if t.messageID == "" && kind == kindText {
			t.messageID = messageID
		}
	}
	d.held += size
	t.bytes += size
	if !plain {
		t.items = append(t.items, item{kind: kind, messageID: messageID, block: append([]byte{}, raw...)})
		return
	}
	i := t.sameMessage(kind, messageID)
	if i < 0 {
		t.items = append(t.items, item{kind: kind, messageID: messageID})
		i = len(t.items) - 1
	}
	t.items[i].text = rawjson.AppendString(t.items[i].text, text)
}

// cutShort leaves out what comes of a reply from now on.
func (d *Decoder) cutShort(r *run, m otelagent.Meta) {
	r.turn.cut = true
	d.emit(&otelagent.DefectFound{Meta: m, Code: spans.DefectEventLost, Detail: "the end of a reply, which is too large: more than " +
		strconv.Itoa(maxHeld>>20) + " MiB wait for their end, or it has more than " + strconv.Itoa(maxItems) + " pieces or " + strconv.Itoa(maxCalls) + " tool calls"})
}

// sameMessage finds the item that a chunk of text goes on with: the last of its kind and message id if there is one, else the last item if
// it is of that kind and nothing came between.
func (t *turn) sameMessage(kind, messageID string) int {
	for i := len(t.items) - 1; i >= max(len(t.items)-maxBack, 0); i-- {
		it := &t.items[i]
		same := it.kind == kind && it.messageID == messageID && it.call == nil
		switch {
		case messageID != "" && same && it.block == nil:
			return i
		case messageID != "" && same:
			return -1 // a picture came between
		case messageID == "":
			if same && it.block == nil && !it.closed {
				return i
			}
			return -1
		}
	}
	return -1
}

// cut says that something other than a chunk of the reply came.
func (r *run) cut() {
	if n := len(r.turn.items); n > 0 {
		r.turn.items[n-1].closed = true
	}
}

// begun reports whether a piece of a reply begins another model call: all tool calls that were asked for have ended, and it is of no message
// that began before. A compaction that goes on says nothing of who speaks.
func (r *run) begun(messageID string) bool {
	t := &r.turn
	for _, c := range r.compacts {
		if c.started && !c.over {
			return false
		}
	}
	return t.ended > 0 && t.open == 0 && !t.messages[messageID]
}

// nextTurn ends the open turn when the last thing of it was seen, and begins the next.
func (d *Decoder) nextTurn(r *run, at otelagent.Meta) {
	d.endTurn(r, r.last, otelagent.TurnResult{})
	r.turn = turn{index: r.turn.index + 1}
	m := r.at(at)
	d.emit(&otelagent.TurnStarted{Meta: m, TurnInfo: otelagent.TurnInfo{Index: r.turn.index, Trigger: spans.TriggerContinuation}})
	d.emit(&otelagent.Other{Meta: m, Type: "acp.turn_inferred", Body: []byte(`{"because":"a reply after all tool calls had ended"}`)})
}

func (d *Decoder) endTurn(r *run, at otelagent.Meta, res otelagent.TurnResult) {
	t := &r.turn
	for _, c := range t.calls {
		d.start(c)
	}
	d.settleTerminals(r.s, true)
	if raw := t.reply(); raw != nil {
		out := message("assistant", raw, t.messageID)
		res.Output = &out
	}
	res.Cost, res.Currency = t.spent, t.currency
	d.held -= t.bytes
	t.bytes = 0
	d.forgetContent(t.calls)
	d.emit(&otelagent.TurnEnded{Meta: at, TurnResult: res})
}

// reply puts the reply together, without its end; nil when there was none.
func (t *turn) reply() []byte {
	if len(t.items) == 0 {
		return nil
	}
	b := []byte(`{"role":"assistant","content":[`)
	for i := range t.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = t.items[i].append(b)
	}
	return append(b, ']')
}

func (it *item) append(b []byte) []byte {
	switch {
	case it.call != nil:
		return it.call.append(b)
	case it.block != nil && it.kind == kindThought:
		b = append(append(b, `{"type":"thinking","block":`...), it.block...)
	case it.block != nil:
		return append(b, it.block...)
	case it.kind == kindThought:
		b = rawjson.Quote(append(b, `{"type":"thinking","thinking":`...), string(it.text))
	default:
		b = rawjson.Quote(append(b, `{"type":"text","text":`...), string(it.text))
	}
	if it.messageID != "" {
		b = rawjson.Quote(append(b, `,"messageId":`...), it.messageID)
	}
	return append(b, '}')
}

// answer ends a run with the response to its prompt.
func (d *Decoder) answer(f *frame, r *run) *fields {
	w := &fields{}
	var status spans.RunStatus
	var res otelagent.RunResult
	var turn otelagent.TurnResult
	var o object
	if f.err != nil {
		e, _ := members(f.err)
		res.Error, turn.Failed = e.word("message"), true
		if _, err := strconv.ParseInt(string(e.get("code")), 10, 64); err == nil {
			res.Word = string(e.get("code"))
		}
		status = spans.RunStatusError
		if res.Word == "-32800" { // request cancelled
			status, turn.Cancelled = spans.RunStatusCancelled, true
		}
		turn.Error = res.Error
	} else {
		o = w.mustObject("result", f.result)
		if w.wrong == nil {
			turn.StopReason = w.id("result.stopReason", o.get("stopReason"))
			res.Usage = d.usage(w, o.get("usage"))
		}
		res.Word, status = turn.StopReason, spans.RunStatusCompleted
		if res.Word == "cancelled" {
			status, turn.Failed, turn.Cancelled = spans.RunStatusCancelled, true, true
		}
	}
	if w.wrong != nil {
		// How it ended is not known: it stays open, and nothing that comes is taken for it.
		d.abandon(r)
		return w
	}
	at := r.last
	at.Time, at.Arrived, at.Seq = f.meta.Time, f.meta.Arrived, f.meta.Seq
	for _, p := range r.asked {
		d.permission(p, at, otelagent.PermissionEvaluation{Action: spans.ActionAsk})
	}
	if body, more := o.without("stopReason", "usage"); more {
		d.emit(&otelagent.Other{Meta: at, Type: mPrompt + ".unknown_keys", Body: body})
	}
	if f.err != nil {
		d.emit(&otelagent.Other{Meta: at, Type: mPrompt + ".error", Body: f.err})
	}
	d.endTurn(r, at, turn)
	res.Status = status
	d.emit(&otelagent.RunEnded{Meta: at, RunResult: res})
	d.abandon(r)
	return w
}

// abandon forgets what is held of a prompt, which nothing that comes belongs to any more.
func (d *Decoder) abandon(r *run) {
	d.held -= r.turn.bytes
	r.turn.bytes = 0
	d.forgetContent(r.turn.calls)
	for _, c := range r.compacts {
		d.held -= len(c.chunks)
		c.chunks = nil
	}
	for _, t := range r.s.terms {
		if t.run == r {
			t.forget(d)
		}
	}
	r.s.left(r)
}

// usage reads the usage of a prompt, which the protocol does not have yet. Its words do not say whether cached and thought tokens are part of
// input and output, but its total does where it is the sum of one reading only.
func (d *Decoder) usage(w *fields, raw []byte) *otelagent.Usage {
	if raw == nil {
		return nil
	}
	o := w.mustObject("result.usage", raw)
	count := func(key string) int64 { return max(w.count("result.usage."+key, o.get(key)), 0) }
	u := &otelagent.Usage{Input: count("inputTokens"), Output: count("outputTokens"), Reasoning: count("thoughtTokens"),
		CacheRead: count("cachedReadTokens"), CacheWrite: count("cachedWriteTokens"), Total: count("totalTokens")}
	// Counts are below 2^63 and their differences do not overflow.
	cached := u.Total - u.Input - u.Output
	switch {
	case cached == 0 && u.CacheRead+u.CacheWrite+u.Reasoning > 0:
		u.Rule = spans.UsageRuleIncludesCache
	case cached == u.CacheRead+u.CacheWrite && cached > 0:
		u.Rule = spans.UsageRuleExcludesCache
	case cached == u.CacheRead+u.CacheWrite+u.Reasoning && cached > 0:
		u.Rule = spans.UsageRuleExcludesCacheAndReasoning
	case d.settings.Rule != "":
		u.Rule = d.settings.Rule
	default:
		u.Rule = spans.UsageRuleIncludesCache
	}
	return u
}

// between returns the time from one event to another, zero when it is not known.
func between(from, to otelagent.Meta) time.Duration {
	switch {
	case !from.Time.IsZero() && !to.Time.IsZero():
		return max(to.Time.Sub(from.Time), 0)
	case from.Time.IsZero() && to.Time.IsZero() && !from.Arrived.IsZero() && !to.Arrived.IsZero():
		return max(to.Arrived.Sub(from.Arrived), 0)
	}
	return 0
}
