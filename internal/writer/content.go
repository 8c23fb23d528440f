package writer

import (
	"context"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// content is what a span carries in span events until it ends: blocks that its session has not sent before, and lists
// of references. See spans/README.md.
type content struct {
	bodies, withheld []string
	lists            []contentList

	bytes    int   // of what is new
	left     int   // of these, bytes that left before the end
	known    int64 // bytes of what was sent before
	kept     int64 // how many bodies a bound kept back
	redacted int64
}

// contentList is a list of a span. One that grows message by message keeps its items, any other is packed at once.
type contentList struct {
	spans.List
	packed string // its wire form, when it is final
}

// pack makes the wire form of the list and lets go of the items.
func (l *contentList) pack() string {
	if l.packed == "" {
		l.packed, l.Items = l.Encode(), nil
	}
	return l.packed
}

const (
	// maxGrowing bounds the lists that grow message by message.
	maxGrowing = 4096
	// maxProvenance bounds a provenance, in bytes: lists are sent again, and remembered.
	maxProvenance = 1 << 10
)

// block keeps a text to be sent as far as it was not sent before, and returns the name of its block. The text is one
// that may be sent.
func (c *content) block(m *memory, o *origin, text string) spans.ShortID {
	return c.template(m, o, text, func(cut func(string) spans.ShortID) []byte {
		return spans.Cut(m.scratch[:0], text, cut)
	})
}

// template is block for a text of which make makes the template.
func (c *content) template(m *memory, o *origin, text string,
	make func(cut func(string) spans.ShortID) []byte) spans.ShortID {
	if most := o.tracer.config.MaxBlockBytes; o.capture == CaptureDigests || most > 0 && len(text) > most {
		return c.withhold(m, o, text, most)
	}
	send := func(text string) {
		c.bodies = append(c.bodies, text)
		c.carried(m, len(text))
	}
	rest := int64(len(text))
	m.scratch = make(func(text string) spans.ShortID {
		id := spans.BlockOfString(text)
		rest -= int64(len(text))
		if m.claim(id) {
			send(text)
		} else {
			c.known += int64(len(text))
		}
		return id.Short()
	})
	id := spans.BlockOf(m.scratch)
	if !m.claim(id) {
		c.known += max(0, rest)
		return id.Short()
	}
	if string(m.scratch) != text {
		text = string(m.scratch)
	}
	send(text)
	return id.Short()
}

// carried counts what is sent for the first time.
func (c *content) carried(m *memory, n int) {
	c.bytes += n
	m.request.credit += int64(n) / completeShare
}

// withhold sends size and SHA-256 of a text, and its first n bytes.
func (c *content) withhold(m *memory, o *origin, text string, n int) spans.ShortID {
	id := spans.BlockOfString(text)
	if !m.claim(id) || len(text) == 0 {
		c.known += int64(len(text))
		return id.Short()
	}
	if o.capture == CaptureDigests {
		n = 0
	} else {
		n = min(n, spans.MaxPiece)
		c.kept++
	}
	beginning := text[:min(len(text), n+utf8.UTFMax)]
	w := spans.Withheld{Block: id, Size: int64(len(text)), Beginning: beginning[:runeStart(beginning, n)]}.Encode()
	c.withheld = append(c.withheld, w)
	c.carried(m, len(w))
	return id.Short()
}

// runeStart returns the last place up to n where text, which is UTF-8, may be cut.
func runeStart(text string, n int) int {
	if n >= len(text) {
		return len(text)
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// redact returns what may be sent of p, in UTF-8.
func (c *content) redact(o *origin, p spans.Redactable) []byte {
	body, changed := o.tracer.config.redact(p)
	c.redacted += int64(changed)
	return validBytes(body)
}

// pieceOf returns a message as a redactor sees it.
func pieceOf(msg *Message) spans.Redactable {
	return spans.Redactable{Body: msg.Raw, JSON: true, Place: spans.PlaceMessage, Role: msg.Role,
		Provenance: msg.Provenance.Kind}
}

// list returns the list of that name, which is made when it is not there.
func (c *content) list(name string) *contentList {
	for i := range c.lists {
		if c.lists[i].Name == name && c.lists[i].Attempt == 0 {
			return &c.lists[i]
		}
	}
	c.lists = append(c.lists, contentList{List: spans.List{Name: name}})
	return &c.lists[len(c.lists)-1]
}

// add appends an item.
func (l *contentList) add(it spans.Item) {
	l.Items = append(l.Items, it.Encode())
	l.Count++
}

// drop removes the list of that name and attempt, and reports whether there was one.
func (c *content) drop(name string, attempt int) bool {
	before := len(c.lists)
	c.lists = slices.DeleteFunc(c.lists, func(l contentList) bool { return l.Name == name && l.Attempt == int64(attempt) })
	return len(c.lists) < before
}

// setMessages makes messages the list; it is there afterwards even when there are none.
func (c *content) setMessages(o *origin, name string, messages []Message) {
	c.drop(name, 0)
	c.list(name)
	m := o.tracer.sessions.open(o)
	defer m.close()
	for i := range messages {
		c.addMessage(m, o, name, &messages[i])
	}
}

// addMessage appends a message to a list.
func (c *content) addMessage(m *memory, o *origin, name string, msg *Message) {
	text := c.redact(o, pieceOf(msg))
	it := spans.Item{Block: c.block(m, o, string(text)), Provenance: c.provenance(o, &msg.Provenance)}
	c.list(name).add(it)
}

// provenance returns what may be sent of p. What has no short form a producer wrote: it is content. Limit: 1 KiB;
// longer ones are left out.
func (c *content) provenance(o *origin, p *spans.Provenance) string {
	switch {
	case len(p.Kind)+len(p.Name)+len(p.Tier)+len(p.RecordID)+len(p.Role)+len(p.Raw) > maxProvenance:
		return ""
	case p.Raw == "":
		return cleanText(p.Encode())
	case o.capture == CaptureDigests:
		return ""
	}
	body, _ := o.tracer.config.redact(spans.Redactable{Body: []byte(p.Raw), JSON: true, Place: spans.PlaceMessage})
	if string(body) != p.Raw {
		return ""
	}
	return cleanText(p.Encode())
}

// addBody makes body, as it came, the list; nothing when it is nil. It returns the SHA-256 of what may be sent of it.
func (c *content) addBody(o *origin, name string, body []byte) (id spans.BlockID) {
	if body == nil {
		return id
	}
	text := c.redact(o, spans.Redactable{Body: body, JSON: true, Place: name})
	m := o.tracer.sessions.open(o)
	defer m.close()
	c.list(name).add(spans.Item{Block: c.block(m, o, string(text))})
	return spans.BlockOf(text)
}

// reference keeps p to be sent, and returns the name of its block as text.
func (c *content) reference(o *origin, p spans.Redactable) string {
	text := c.redact(o, p)
	m := o.tracer.sessions.open(o)
	defer m.close()
	return c.block(m, o, string(text)).String()
}

// empty reports whether there is nothing to emit.
func (c *content) empty() bool { return len(c.bodies)+len(c.withheld)+len(c.lists) == 0 }

// carrier is what one span carries of content.
type carrier struct {
	bodies, withheld, lists []string
}

// carriers divides what there is so that none takes more than most bytes, if it can: a block of more than that goes
// alone. The first is for the span itself.
func (c *content) carriers(most int) []carrier {
	list := make([]carrier, 1)
	room := most
	into := func(n int) *carrier {
		const overhead = 16 // of one string in an attribute
		if n += overhead; n > room && room < most {
			list = append(list, carrier{})
			room = most
		}
		room -= n
		return &list[len(list)-1]
	}
	for i := range c.lists {
		text := c.lists[i].pack()
		k := into(len(text))
		k.lists = append(k.lists, text)
	}
	for _, text := range c.withheld {
		k := into(len(text))
		k.withheld = append(k.withheld, text)
	}
	if n := c.bytes - c.left; len(list) == 1 && n <= room {
		list[0].bodies = c.bodies
		return list
	}
	for _, text := range c.bodies {
		k := into(len(text))
		k.bodies = append(k.bodies, text)
	}
	return list
}

// attributes are those of the event. Lists come first: a pipeline that keeps only the first attributes keeps the names
// of the blocks that it dropped.
func (k *carrier) attributes() []attribute.KeyValue {
	var kv []attribute.KeyValue
	if len(k.lists) > 0 {
		kv = append(kv, spans.ListsKey.StringSlice(k.lists))
	}
	if len(k.bodies) > 0 {
		kv = append(kv, spans.BlockBodiesKey.StringSlice(k.bodies))
	}
	if len(k.withheld) > 0 {
		kv = append(kv, spans.BlockWithheldKey.StringSlice(k.withheld))
	}
	return kv
}

// emit adds the event to span at the time of its end.
func (k *carrier) emit(span trace.Span, end time.Time) {
	if kv := k.attributes(); len(kv) > 0 {
		span.AddEvent(spans.EventBlocks, trace.WithTimestamp(end), trace.WithAttributes(kv...))
	}
}

// emit puts the content of h on its span and, where it is too much for one, on children of it. The handle has ended.
func (h *handle) emit(end time.Time) {
	c := &h.content
	if c.empty() {
		return
	}
	h.carry(c, "", end)
	*c = content{}
}

// carry puts content on children of h, whose names begin with prefix. With an empty prefix h itself carries the first
// part.
func (h *handle) carry(c *content, prefix string, at time.Time) {
	for i, k := range c.carriers(h.tracer.config.MaxSpanBytes) {
		if i == 0 && prefix == "" {
			k.emit(h.span, at)
			continue
		}
		child, ends := h.payload(prefix+strconv.Itoa(i), at)
		k.emit(child, at)
		child.End(ends)
	}
}

// payload starts a child of h that carries content, an instant, and returns how it ends. Its name distinguishes it from
// other children of h.
func (h *handle) payload(name string, at time.Time) (trace.Span, trace.SpanEndOption) {
	a := startAttrs(h.origin)
	a.add(kindPayload.attr)
	a.add(h.address...)
	if h.index != noTurn {
		a.int(spans.TurnIndexKey, h.index)
	}
	a.int(spans.SeqKey, h.next(Moment{}))
	ends := trace.WithTimestamp(a.instant(at))
	a.opts = append(a.opts, kindPayload.option, trace.WithAttributes(a.kv...), trace.WithTimestamp(at))
	id := h.id
	id.call = id.span + "/" + id.call + "/" + name // a call without an id is not its turn
	_, span := h.startSpan(trace.ContextWithSpan(context.Background(), h.span), &kindPayload, kindPayload.name, &id,
		a.opts)
	a.free()
	return span, ends
}

// validBytes returns b, or a copy with U+FFFD for each byte that is not UTF-8.
func validBytes(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return []byte(cleanText(string(b)))
}
