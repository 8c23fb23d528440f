package otelagent

import (
	"slices"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// content is what a span carries in otelagent.blocks and otelagent.list events until it ends: bodies that its session
// has not sent before, and lists of references. See docs/formats.md, section 2.
type content struct {
	bodies []string
	lists  []contentList
}

type contentList struct {
	name    string
	attempt int
	items   []string
	digest  spans.Chain
	left    int // items left out: the count says so, and the reader finds the list broken
}

// maxGrowing bounds the lists that grow message by message.
const maxGrowing = 4096

// block refers to body as it came and keeps it to be sent when the session has not sent it.
func (c *content) block(o *origin, body []byte) spans.BlockID {
	text := validBytes(body)
	id := spans.BlockOf(text)
	if o.tracer.sessions.claim(o.session, id) {
		c.bodies = append(c.bodies, string(text))
	}
	return id
}

// message refers to m by its canonical form and keeps that to be sent when the session has not sent it.
func (c *content) message(o *origin, m *Message) (spans.BlockID, spans.Item) {
	s := o.tracer.sessions
	key := s.key(m.Raw, m.Envelope)
	known, ok := s.recall(o.session, key)
	if !ok {
		raw := validBytes(m.Raw)
		body, envelope, err := rawjson.AppendCanonical(make([]byte, 0, len(raw)), raw, m.Envelope)
		if err != nil { // no JSON: as it came
			body, envelope = raw, nil
		}
		known = memo{id: spans.BlockOf(body), envelope: string(envelope)}
		if s.claim(o.session, known.id) {
			c.bodies = append(c.bodies, string(body))
		}
		s.remember(o.session, key, known)
	}
	return known.id, spans.Item{
		Block:      known.id.Short(),
		Provenance: cleanText(m.Provenance.Encode()),
		Envelope:   known.envelope,
	}
}

// list returns the list of that name and attempt, which is made when it is not there.
func (c *content) list(name string, attempt int) *contentList {
	for i := range c.lists {
		if c.lists[i].name == name && c.lists[i].attempt == attempt {
			return &c.lists[i]
		}
	}
	c.lists = append(c.lists, contentList{name: name, attempt: attempt})
	return &c.lists[len(c.lists)-1]
}

func (l *contentList) add(id spans.BlockID, it spans.Item) {
	l.items = append(l.items, it.Encode())
	l.digest = l.digest.Add(id, it)
}

// drop removes the list of that name and attempt.
func (c *content) drop(name string, attempt int) {
	c.lists = slices.DeleteFunc(c.lists, func(l contentList) bool { return l.name == name && l.attempt == attempt })
}

// setMessages makes messages the list; it is there afterwards even when there are none.
func (c *content) setMessages(o *origin, name string, attempt int, messages []Message) {
	c.drop(name, attempt)
	c.list(name, attempt)
	for i := range messages {
		c.addMessage(o, name, attempt, &messages[i])
	}
}

// addMessage appends a message to a list.
func (c *content) addMessage(o *origin, name string, attempt int, m *Message) {
	id, it := c.message(o, m)
	c.list(name, attempt).add(id, it)
}

// addBody appends body, as it came, to a list; nothing when it is nil. It returns the body's id.
func (c *content) addBody(o *origin, name string, attempt int, body []byte, from spans.ProvenanceKind) spans.BlockID {
	if body == nil {
		return spans.BlockID{}
	}
	id := c.block(o, body)
	it := spans.Item{Block: id.Short(), Provenance: spans.Provenance{Kind: from}.Encode()}
	c.list(name, attempt).add(id, it)
	return id
}

// requestDigest names the whole request of an attempt by the digests of its two lists.
func (c *content) requestDigest(attempt int) string {
	var both []byte
	for _, name := range []string{spans.ListParams, spans.ListRequest} {
		var d spans.Chain
		for i := range c.lists {
			if c.lists[i].name == name && c.lists[i].attempt == attempt {
				d = c.lists[i].digest
			}
		}
		both = append(both, d[:]...)
	}
	return spans.BlockOf(both).String()
}

// empty reports whether there is nothing to emit.
func (c *content) empty() bool { return len(c.bodies) == 0 && len(c.lists) == 0 }

// emit adds the events to the span at the time of its end and lets go of the bodies.
func (c *content) emit(span trace.Span, end time.Time) {
	if c.empty() {
		return
	}
	at := trace.WithTimestamp(end)
	if len(c.bodies) > 0 {
		span.AddEvent(spans.EventBlocks, at, trace.WithAttributes(spans.BlockBodiesKey.StringSlice(c.bodies)))
	}
	for _, l := range c.lists {
		kv := make([]attribute.KeyValue, 0, 5)
		kv = append(kv,
			spans.ListNameKey.String(l.name),
			spans.ListCountKey.Int64(int64(len(l.items)+l.left)),
			spans.ListDigestKey.String(l.digest.String()),
			spans.ListItemsKey.StringSlice(l.items))
		if l.attempt != 0 {
			kv = append(kv, spans.ListAttemptKey.Int64(int64(l.attempt)))
		}
		span.AddEvent(spans.EventList, at, trace.WithAttributes(kv...))
	}
	*c = content{}
}

// validBytes returns b, or a copy with U+FFFD for each byte that is not UTF-8.
func validBytes(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return []byte(cleanText(string(b)))
}
