package acp

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// run is one prompt without a response.
type run struct {
	id    string
	s     *session
	last  otelagent.Meta // of the last event that was seen of it
	mixed bool           // a defect says that another prompt was open
	turn  turn
	held  int // bytes
}

// turn is the open turn of a run: one model call as far as the wire shows it, several where not.
type turn struct {
	index       int64
	items       []item // of the reply
	cut         bool   // some did not fit
	spoke       map[voice]int
	parted      int    // items before that one are closed: without a message id no more chunks belong to them
	messageID   string // of the first text
	open, ended int    // tool calls
	serial      bool   // an event says that it may hold several model calls
	spent       *float64
	currency    string
}

// item is one piece of a reply: text or thought that came in chunks, a block of another kind, or a tool call.
type item struct {
	voice
	text []byte // of text and thought
	raw  []byte // of a block of another kind, as it stands in the reply
	call *call
}

// voice is what chunks of one message have in common. Spoke holds the last item of each.
type voice struct{ kind, messageID string }

const (
	kindText    = "agent_message_chunk"
	kindThought = "agent_thought_chunk"
)

// at is the meta of an event that happens in the run now.
func (r *run) at(m otelagent.Meta) otelagent.Meta {
	m.Session, m.Run = r.s.id, r.id
	r.last = m
	return m
}

// isOpen reports whether no response to the prompt was seen.
func (r *run) isOpen() bool { return slices.Contains(r.s.open, r) }

// prompt begins a run.
func (d *Decoder) prompt(f *frame, p *pending, s *session) {
	f.o.Require("id")
	f.in.Require("prompt")
	blocks, messageID := array(f.in, "prompt"), f.in.String("messageId")
	f.in.Object("_meta")
	if f.bad() {
		return
	}
	r := &run{id: s.runID(f.id), s: s}
	p.run = r
	at := r.at(f.meta)
	info := d.runInfo(r, spans.ContinuationDefault)
	info.ForkParentID, info.Metadata, info.Config = s.forkOf, f.in.Raw("_meta"), s.config(&d.conn)
	if s.loads > 0 { // nobody prompts before a session is loaded: the response was not seen
		s.loads = 0
		d.loaded(s, f.meta)
	}
	d.sh.Emit(&otelagent.RunStarted{Meta: at, RunInfo: info})
	if len(s.open) == maxPrompts {
		d.abandon(s.open[0])
	}
	s.open = append(s.open, r)
	s.last = r.id
	// Calls that did not end before this prompt are known to be no calls of it.
	s.calls = slices.DeleteFunc(s.calls, func(c *call) bool { return c.ended })
	for _, other := range s.open {
		if len(s.open) > 1 && !other.mixed {
			other.mixed = true
			d.sh.Emit(&otelagent.DefectFound{Meta: other.at(f.meta), Code: spans.DefectRunsMixed,
				Detail: "prompts of one session overlap: updates are told of the one that began first"})
		}
	}
	d.sh.Emit(&otelagent.TurnStarted{Meta: at, TurnInfo: otelagent.TurnInfo{Index: 0, Trigger: spans.TriggerUser}})
	d.sh.Emit(&otelagent.MessageAdded{Meta: at, Message: message("user", blocks, messageID)})
	if rest := f.in.Rest(); rest != nil {
		d.sh.Emit(&otelagent.Other{Meta: at, Type: mPrompt + ".unknown_keys", Body: rest})
	}
}

// runInfo is what is known of a run that goes on with the one before it in its session.
func (d *Decoder) runInfo(r *run, how spans.Continuation) otelagent.RunInfo {
	s, settings := r.s, d.sh.Settings
	if s.last == "" && how == spans.ContinuationDefault {
		how = ""
	}
	return otelagent.RunInfo{SessionID: s.id, ID: r.id, Dialect: Dialect, Model: s.model, Provider: settings.Provider,
		Agent: cmp.Or(d.conn.agent, settings.Agent), ParentID: s.last, Continuation: how}
}

// message is a message of a role. Its id is envelope: it says where the message belongs.
func message(role string, content []byte, id string) otelagent.Message {
	raw := joined(str("role", role), part{"content", content}, some("messageId", id))
	m := otelagent.Message{Role: role, Raw: raw}
	if id != "" {
		m.Envelope = []string{"messageId"}
	}
	return m
}

// chunk takes a piece of the reply.
func (d *Decoder) chunk(r *run, at otelagent.Meta, v voice, content *object.Object, raw []byte) {
	if r.begun(v.messageID) {
		d.nextTurn(r, at)
	}
	m := r.at(at)
	t := &r.turn
	text := content.Raw("text")
	size := len(raw)
	plain := content.String("type") == "text" && text != nil && text[0] == '"'
	if plain {
		content.Use("_meta")
		size = rawjson.StringLen(text)
		plain = content.Rest() == nil
	}
	e := &otelagent.ReplyDelta{Meta: m, Bytes: size}
	if plain {
		e.Kind, e.Text = otelagent.PartialText, text
		if v.kind == kindThought {
			e.Kind = otelagent.PartialReasoning
		}
	}
	d.sh.Emit(e)
	if t.cut {
		return
	}
	if len(t.items) >= maxItems || !d.hold(&r.held, size+len(v.messageID)) {
		d.cutShort(r, m)
		return
	}
	if t.messageID == "" && v.kind == kindText {
		t.messageID = v.messageID
	}
	// A chunk goes on with the last item of its message, if that is text; without an id, only if nothing came between.
	i, known := t.spoke[v]
	if !plain || !known || t.items[i].raw != nil || v.messageID == "" && (i != len(t.items)-1 || i < t.parted) {
		if t.spoke == nil {
			t.spoke = map[voice]int{}
		}
		i = len(t.items)
		t.spoke[v] = i
		t.items = append(t.items, item{voice: v})
	}
	if plain {
		t.items[i].text = rawjson.AppendString(t.items[i].text, text)
	} else if t.items[i].raw = bytes.Clone(raw); v.kind == kindThought {
		t.items[i].raw = joined(str("type", "thinking"), part{"block", raw}, some("messageId", v.messageID))
	}
}

// cutShort leaves out the rest of a reply.
func (d *Decoder) cutShort(r *run, m otelagent.Meta) {
	r.turn.cut = true
	d.sh.Emit(&otelagent.DefectFound{Meta: m, Code: spans.DefectEventLost,
		Detail: fmt.Sprintf("the end of a reply, which is too large: more than %d MiB wait for their end, or it has "+
			"more than %d pieces", maxHeld>>20, maxItems)})
}

// cut says that an update came that is no chunk of the reply.
func (r *run) cut() { r.turn.parted = len(r.turn.items) }

// begun reports whether a piece of a reply begins another model call: all tool calls that were asked for have ended,
// and it is of no message that began before. A compaction that goes on says nothing of who speaks.
func (r *run) begun(messageID string) bool {
	t := &r.turn
	if t.ended == 0 || t.open > 0 {
		return false
	}
	_, text := t.spoke[voice{kindText, messageID}]
	_, thought := t.spoke[voice{kindThought, messageID}]
	if messageID != "" && (text || thought) {
		return false
	}
	return !slices.ContainsFunc(r.s.compacts, func(c *compacting) bool { return c.run == r && c.started && !c.over })
}

// nextTurn ends the open turn when the last event of it was seen, and begins the next.
func (d *Decoder) nextTurn(r *run, at otelagent.Meta) {
	d.endTurn(r, r.last, otelagent.TurnResult{})
	r.turn = turn{index: r.turn.index + 1}
	m := r.at(at)
	info := otelagent.TurnInfo{Index: r.turn.index, Trigger: spans.TriggerContinuation}
	d.sh.Emit(&otelagent.TurnStarted{Meta: m, TurnInfo: info})
	d.sh.Emit(&otelagent.Other{Meta: m, Type: "acp.turn_inferred",
		Body: []byte(`{"because":"a reply after all tool calls had ended"}`)})
}

func (d *Decoder) endTurn(r *run, at otelagent.Meta, res otelagent.TurnResult) {
	t := &r.turn
	for _, c := range r.s.calls {
		if c.run == r {
			d.start(c)
		}
	}
	d.settleTerminals(r.s, true)
	var pieces [][]byte
	for _, it := range t.items {
		pieces = append(pieces, it.json())
	}
	if pieces != nil {
		out := message("assistant", listed(pieces), t.messageID)
		res.Output = &out
	}
	res.Cost, res.Currency = t.spent, t.currency
	d.letGo(r)
	d.sh.Emit(&otelagent.TurnEnded{Meta: at, TurnResult: res})
}

// letGo forgets what is held of a run: what calls are updated with from now on is collected anew.
func (d *Decoder) letGo(r *run) {
	d.release(&r.held)
	r.turn.items = nil
	for _, c := range r.s.calls {
		if c.run == r {
			c.rawInput, c.content, c.locations, c.rawOutput = nil, nil, nil, nil
		}
	}
}

// json is the piece as it stands in the reply.
func (it *item) json() []byte {
	switch {
	case it.call != nil:
		return it.call.item()
	case it.raw != nil:
		return it.raw
	}
	name := "text"
	if it.kind == kindThought {
		name = "thinking"
	}
	return joined(str("type", name), str(name, string(it.text)), some("messageId", it.messageID))
}

// answer ends a run with the response to its prompt.
func (d *Decoder) answer(f *frame, r *run) {
	res := otelagent.RunResult{Status: spans.RunStatusCompleted}
	var turn otelagent.TurnResult
	var result *object.Object
	if f.err != nil {
		e := loose(f.err)
		res.Status, res.Error, turn.Failed = spans.RunStatusError, e.String("message"), true
		if code := e.Raw("code"); e.Int("code") != nil {
			res.Word = string(code)
		}
		if res.Word == "-32800" { // request cancelled
			res.Status, turn.Cancelled = spans.RunStatusCancelled, true
		}
		turn.Error = res.Error
	} else if result = need(f.o, f.resultKey); result != nil {
		turn.StopReason = identifier(result, "stopReason")
		res.Usage = d.usage(result.Object("usage"))
		if res.Word = turn.StopReason; res.Word == "cancelled" {
			res.Status, turn.Failed, turn.Cancelled = spans.RunStatusCancelled, true, true
		}
	}
	if f.bad() {
		// How it ended is not known: it stays open, and nothing that comes belongs to it.
		d.abandon(r)
		return
	}
	at := r.last
	at.Time, at.Arrived, at.Seq = f.meta.Time, f.meta.Arrived, f.meta.Seq
	for _, p := range d.conn.pending {
		if p.run == r {
			d.unanswered(p, at)
		}
	}
	if rest := result.Rest(); rest != nil {
		d.sh.Emit(&otelagent.Other{Meta: at, Type: mPrompt + ".unknown_keys", Body: rest})
	}
	if f.err != nil {
		d.sh.Emit(&otelagent.Other{Meta: at, Type: mPrompt + ".error", Body: f.err})
	}
	d.endTurn(r, at, turn)
	d.sh.Emit(&otelagent.RunEnded{Meta: at, RunResult: res})
	d.abandon(r)
}

// abandon forgets a prompt, to which nothing that comes belongs any more.
func (d *Decoder) abandon(r *run) {
	d.letGo(r)
	s := r.s
	for _, c := range s.compacts {
		if c.run == r {
			c.over, c.chunks = true, nil
		}
	}
	for _, t := range s.terms {
		if t.run == r {
			t.held = nil
		}
	}
	s.loose = 0
	s.open = slices.DeleteFunc(s.open, func(x *run) bool { return x == r })
}

// usage reads the usage of a prompt, which the protocol does not have yet. Its words do not say whether cached and
// thought tokens are part of input and output, but its total does where it is the sum of one reading only.
func (d *Decoder) usage(o *object.Object) *otelagent.Usage {
	if o == nil {
		return nil
	}
	count := func(key string) int64 {
		if n := o.Count(key); n != nil {
			return *n
		}
		return 0
	}
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
	case d.sh.Settings.Rule != "":
		u.Rule = d.sh.Settings.Rule
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
