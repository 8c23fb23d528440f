package writer

import (
	"bytes"
	"cmp"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// Live sends copies of spans while they are open: the one that otelsetup.NewLive makes, or Providers that were set up
// with otelsetup.WithLive. Methods may be added in later versions.
//
// A Tracer calls Changed and Ended on the goroutines of its host, also with locks held: they must return at once, and
// must not call the methods of s. All methods must be safe for concurrent use.
type Live interface {
	// Heartbeat is how often a copy of each open span is sent again. It stands on the copies; below 1 it does not.
	Heartbeat() time.Duration
	// Changed says that s is open, or that it changed: a copy is due. The first is due at once, later ones no sooner than
	// apart after the one before.
	Changed(s *OpenSpan, apart time.Duration)
	// Ended says that s has ended: nothing is to be sent of it any more.
	Ended(s *OpenSpan)
}

// OpenSpan is a span that is open, as a Live sees it. Safe for concurrent use.
type OpenSpan struct {
	h *handle
	// What the handle is of, where that knows more than stands on the span before it ends: one of them, or none.
	turn *Turn
	tool *Tool

	blocks int // children that carried nothing but blocks; guarded by handle.mu
}

// Span returns the open span, as the provider of the Tracer made it.
func (s *OpenSpan) Span() trace.Span { return s.h.span }

// Ended reports whether the span has ended, or is about to: what is read of it afterwards may be of its end.
func (s *OpenSpan) Ended() bool {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	return s.h.ended
}

// maxLiveItems bounds a list on a copy: it is sent again and again. One that is longer waits for the end of its span.
const maxLiveItems = 256

// Copy returns what a copy of the span has in addition to what the span itself has: attributes, which count before
// those of the span with the same key, and the attributes of an event spans.EventBlocks at the time of the copy, where
// there are any. It returns false when the span has ended. Content that refers to nothing yet sent is sent before it,
// on a session.payload span. Live.Changed and Live.Ended must not call it.
func (s *OpenSpan) Copy() (attributes, blocks []attribute.KeyValue, ok bool) {
	h := s.h
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return nil, nil, false
	}
	a := endAttrs(h.origin, 6)
	a.kv = append(a.kv, spans.KnownAsKey.String(string(spans.KnownLive)))
	if every := h.tracer.config.Live.Heartbeat(); every > 0 {
		a.int(spans.LiveHeartbeatKey, int64(every))
	}
	var said *Message
	switch {
	case s.turn != nil:
		s.turn.liveState(&a)
		said = s.turn.partial.message()
	case s.tool != nil:
		a.count(spans.ToolProgressCountKey, s.tool.progress)
	}
	growing := h.content.growing(s.turn != nil && s.turn.reply != nil)
	early, name := h.early("")
	h.mu.Unlock()

	h.sendEarly(&early, name, Moment{Time: h.start()}) // on the clock of the run, which need not be that of this process
	var bodies []string
	if said != nil {
		list := contentList{List: spans.List{Name: spans.ListOutput}}
		list.add(spans.Item{Block: spans.BlockOf(said.Raw).Short()})
		growing, bodies = append(growing, list.pack()), append(bodies, string(said.Raw))
		a.yes(spans.PartialKey, true)
	}
	k := carrier{bodies: bodies, lists: growing}
	return a.kv, k.attributes(), true
}

// goesLive reports whether copies of the span are sent while it is open.
func (h *handle) goesLive() bool { return h.sent && h.tracer.config.Live != nil }

// opened shows the span to who sends copies, once all is known that it starts with. The span may be that of a turn or
// tool.
func (h *handle) opened(turn *Turn, tool *Tool) {
	if h.goesLive() {
		h.open = OpenSpan{h: h, turn: turn, tool: tool}
		h.live = &h.open
		h.changed(0)
	}
}

// changed says that an open span changed.
func (h *handle) changed(apart time.Duration) {
	if h.live != nil {
		h.tracer.config.Live.Changed(h.live, apart)
	}
}

// early takes what may be sent before the span ends, for sendEarly, and names it. List names what belongs to the moment
// at hand; without one only blocks are taken. Lists that still grow stay. The caller holds the lock.
func (h *handle) early(list string) (now content, name string) {
	if !h.goesLive() || !h.capturing() {
		return content{}, ""
	}
	c := &h.content
	now.bodies, now.withheld = c.bodies, c.withheld
	now.bytes = c.bytes - c.left
	c.bodies, c.withheld, c.left = nil, nil, c.bytes
	if list != "" {
		now.lists = c.takeLists()
	}
	switch {
	case now.empty() || list != "":
		name = list
	case h.live != nil:
		name = "blocks/" + strconv.Itoa(h.live.blocks)
		h.live.blocks++
	}
	return now, name
}

// takeLists takes the lists that are final before their span ends.
func (c *content) takeLists() (now []contentList) {
	rest := c.lists[:0]
	for _, l := range c.lists {
		switch l.Name {
		case spans.ListRequest, spans.ListParams, spans.ListArgs, spans.ListMetadata, spans.ListRules, spans.ListOptions:
			now = append(now, l)
		default:
			rest = append(rest, l)
		}
	}
	clear(c.lists[len(rest):])
	c.lists = rest
	return now
}

// sendEarly sends what early took, at once, on children of the span. Their ids follow from what they are named for, so
// that the lists of a request never replace another list when the same input is sent again. The caller holds no lock.
func (h *handle) sendEarly(now *content, name string, at Moment) {
	if now.empty() {
		return
	}
	h.carry(now, "live/"+name+"/", at.now().Time)
}

// growing returns the lists that grow while the span is open, as they stand, and the output where that is whole: they
// are no more than references.
func (c *content) growing(replied bool) (lists []string) {
	for i := range c.lists {
		l := &c.lists[i]
		if l.packed != "" || len(l.Items) > maxLiveItems || int64(len(l.Items)) != l.Count {
			continue
		}
		if l.Name == spans.ListInput || l.Name == spans.ListOutside || l.Name == spans.ListOutput && replied {
			lists = append(lists, l.Encode())
		}
	}
	return lists
}

// AskUser says that the loop asked the user something, other than for approval, and goes on when it has an answer. It
// shows on the copies of the open turn. Questions count: the turn waits until each was answered or it ends.
func (t *Turn) AskUser() { t.waits(1) }

// UserAnswered says that a question was answered.
func (t *Turn) UserAnswered() { t.waits(-1) }

func (t *Turn) waits(n int) {
	if t == nil || t.live == nil {
		return
	}
	t.mu.Lock()
	t.questions = max(t.questions+n, 0)
	t.mu.Unlock()
	t.changed(0)
}

// liveState adds what stands on the span only when the turn ends.
func (t *Turn) liveState(a *attrs) {
	if t.attempts > 1 {
		a.int(spans.TurnAttemptsKey, t.attempts)
	}
	t.thrownAway(a)
	if t.answered {
		a.yes(spans.RepliedKey, true)
	}
	if t.reply != nil {
		t.figures(t.reply, a)
	}
	if t.questions > 0 {
		a.kv = append(a.kv, spans.WaitingForKey.String(string(spans.WaitingUserInput)))
	}
}

// answer keeps the reply for live copies and for the end of the turn.
func (t *Turn) answer(res TurnResult) {
	if !t.recording && !t.measured {
		return
	}
	res.Usage, res.Cost, res.Results = clone(res.Usage), clone(res.Cost), nil
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.unanswer()
	t.reply = &res
	if res.Output == nil || !t.recording || !t.capturing() {
		res.Output = nil
		return
	}
	t.partial = nil
	res.Output = clone(res.Output)
	res.Output.Raw = bytes.Clone(res.Output.Raw)
	if t.live != nil {
		t.content.setMessages(t.origin, spans.ListOutput, []Message{*res.Output})
	}
}

// clone returns a pointer to a copy of what p points to; nil for nil.
func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// completed sets what res omits from the reply that was reported before, except its content. The caller holds no lock.
func (t *Turn) completed(res *TurnResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reply == nil || t.ended {
		return
	}
	r := t.reply
	res.Model, res.Provider = cmp.Or(res.Model, r.Model), cmp.Or(res.Provider, r.Provider)
	res.ResponseID, res.StopReason = cmp.Or(res.ResponseID, r.ResponseID), cmp.Or(res.StopReason, r.StopReason)
	res.Usage = cmp.Or(res.Usage, r.Usage)
	if res.Cost == nil {
		res.Cost, res.Currency = r.Cost, r.Currency
	}
	res.ModelCall, res.FirstChunk = cmp.Or(res.ModelCall, r.ModelCall), cmp.Or(res.FirstChunk, r.FirstChunk)
	if res.Output == nil {
		res.Partial = r.Partial
		if r.Failed && !res.Failed {
			res.Failed, res.Cancelled, res.Error = true, r.Cancelled, r.Error
		}
	}
}

// unanswer takes back the reported reply. The caller holds the lock.
func (t *Turn) unanswer() {
	if t.reply != nil {
		t.content.drop(spans.ListOutput, 0)
		t.reply = nil
	}
}

// output keeps the reply as the turn ends with it. The caller holds the lock.
func (t *Turn) output(reply *Message) {
	t.content.setMessages(t.origin, spans.ListOutput, []Message{*reply})
	t.reply = nil
}
