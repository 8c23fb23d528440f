package writer

import (
	"math"
	"slices"
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
	// Heartbeat is how often a copy of each open span is sent again. The copies name it if it is at least 1.
	Heartbeat() time.Duration
	// Changed says that s is open, or that it changed: a copy is due. The first is due at once, later ones no sooner than
	// apart after the one before.
	Changed(s *OpenSpan, apart time.Duration)
	// Ended says that s has ended: nothing is to be sent of it any more.
	Ended(s *OpenSpan)
}

// OpenSpan is a span that is open, as a Live sees it. Safe for concurrent use.
type OpenSpan handle

// Span returns the open span, as the provider of the Tracer made it.
func (s *OpenSpan) Span() trace.Span { return s.span }

// maxLiveItems bounds a list on a copy: it is sent again and again. One that is longer waits for the end of its span.
const maxLiveItems = 256

// Copy returns what a copy of the span has in addition to what the span itself has: attributes, which count before
// those of the span with the same key, and the attributes of an event spans.EventBlocks at the time of the copy, where
// there are any. It calls read, during which the span does not end: read must not call methods of s, and must copy what
// the span returns, since the SDK changes that memory when the span ends. Copy returns false, and does not call read,
// when the span has ended. Content that refers to nothing yet sent is sent before it, on a session.payload span.
// Live.Changed and Live.Ended must not call it.
func (s *OpenSpan) Copy(read func()) (attributes, blocks []attribute.KeyValue, ok bool) {
	h := (*handle)(s)
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
	replied := false
	if t := h.scope.turn; t.node() == h {
		t.liveState(&a)
		said, replied = t.partial.message(), t.reply != nil
	} else if t := h.scope.tool; t.node() == h {
		a.count(spans.ToolProgressCountKey, t.progress)
	}
	growing := h.content.growing(replied)
	read()
	h.mu.Unlock()

	h.sendEarly("", Moment{Time: h.start()}) // on the clock of the run, which need not be that of this process
	now := content{lists: growing}
	if said != nil {
		list := spans.List{Name: spans.ListOutput}
		list.Add(spans.Item{Block: spans.BlockOf(said.Raw).Short()})
		now.lists, now.bodies = append(growing, list), []string{string(said.Raw)}
		a.yes(spans.PartialKey, true)
	}
	return a.kv, now.events(math.MaxInt)[0], true
}

// changed says that a span is open, or that it changed, unless it has ended. The caller holds the lock, or nobody else
// has the handle yet.
func (h *handle) changed(apart time.Duration) {
	if h.live && !h.ended {
		h.tracer.config.Live.Changed((*OpenSpan)(h), apart)
	}
}

// sendEarly sends what may be sent before the span ends, at once, on children of it. List names what belongs to the
// moment at hand; without one only blocks are sent. Lists that still grow stay. The ids of the children follow from
// what they are named for, so that the lists of a request never replace another list when the same input is sent
// again. The caller holds no lock.
func (h *handle) sendEarly(list string, at Moment) {
	if !h.live || !h.capturing() {
		return
	}
	h.mu.Lock()
	c := &h.content
	if h.ended || len(c.bodies)+len(c.withheld) == 0 && list == "" { // what has ended sends its content itself
		h.mu.Unlock()
		return
	}
	now := content{bodies: c.bodies, withheld: c.withheld}
	c.bodies, c.withheld = nil, nil
	if list != "" {
		now.lists = c.takeLists()
	} else {
		list = "blocks/" + strconv.Itoa(h.early)
		h.early++
	}
	h.mu.Unlock()
	h.carry(&now, "live/"+list+"/", at.now().Time)
}

// takeLists takes the lists that are final before their span ends.
func (c *content) takeLists() (now []spans.List) {
	c.lists = slices.DeleteFunc(c.lists, func(l spans.List) bool {
		switch l.Name {
		case spans.ListRequest, spans.ListParams, spans.ListArgs, spans.ListMetadata, spans.ListRules, spans.ListOptions:
			now = append(now, l)
			return true
		}
		return false
	})
	return now
}

// growing returns the lists that grow while the span is open, as they are, and the output where that is whole: they
// are no more than references.
func (c *content) growing(replied bool) (lists []spans.List) {
	for _, l := range c.lists {
		grows := l.Name == spans.ListInput || l.Name == spans.ListOutside || l.Name == spans.ListOutput && replied
		if grows && len(l.Items) <= maxLiveItems && int64(len(l.Items)) == l.Count {
			lists = append(lists, l)
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
	if t == nil || !t.live {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.questions = max(t.questions+n, 0)
	t.changed(0)
}

// liveState adds what is on the span only when the turn ends.
func (t *Turn) liveState(a *attrs) {
	t.tries(a)
	if t.reply != nil {
		a.yes(spans.RepliedKey, true)
		t.figures(t.reply, a)
	}
	if t.questions > 0 {
		a.kv = append(a.kv, spans.WaitingForKey.String(string(spans.WaitingUserInput)))
	}
}
