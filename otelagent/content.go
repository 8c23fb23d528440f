package otelagent

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// content is what a span carries in span events until it ends: bodies that its session has not sent before, recipes for others,
// and lists of references. See docs/formats.md, section 2.
type content struct {
	bodies, recipes []string
	lists           []contentList
	details         []attribute.KeyValue // of the encoding full
	ahead           []ahead

	bytes    int   // of what is new
	left     int   // of these, bytes that left before the end
	known    int64 // bytes of what was sent before
	withheld int64
	redacted int64
}

type contentList struct {
	name    string
	attempt int
	items   []string
	prefix  string
	count   int64
	digest  spans.Chain
	packed  string // its wire form, when it is final
}

// pack makes the wire form of the list and lets go of the items.
func (l *contentList) pack(run string) string {
	if l.packed == "" {
		p := spans.PackedList{
			Name: l.name, Attempt: int64(l.attempt), Count: l.count, Digest: l.digest.Short(), Prefix: l.prefix, Items: l.items,
		}
		l.packed, l.items = p.Encode(run), nil
	}
	return l.packed
}

const (
	// maxGrowing bounds the lists that grow message by message.
	maxGrowing = 4096
	// maxEnvelope bounds what stands in a list beside a block, in bytes: lists are sent again, and remembered.
	maxEnvelope = 1 << 10
)

// claim refers to text and keeps it to be sent when it was not sent before. Old says that it is beyond the window of a request.
func (c *content) claim(m *memory, o *origin, text []byte, old bool) spans.BlockID {
	id := spans.BlockOf(text)
	if m.claim(id, old) {
		c.carry(m, o, id, text, old)
	} else {
		c.known += int64(len(text))
	}
	return id
}

// carry adds a new block to what the span sends: as a body, made of others, or what bounds leave of it.
func (c *content) carry(m *memory, o *origin, id spans.BlockID, text []byte, old bool) {
	cfg := &o.tracer.config
	switch {
	case o.capture == CaptureDigests:
		c.withhold(m, o, id, text, 0, asWithheld)
		return
	case old:
		c.withheld++
		c.withhold(m, o, id, text, 0, asOld)
		return
	case cfg.maxBlock > 0 && len(text) > cfg.maxBlock:
		c.withheld++
		c.withhold(m, o, id, text, cfg.maxBlock, asWithheld)
		return
	}
	recipe, values := m.recipe(id, text)
	switch {
	case recipe != "" && c.fits(o, len(recipe)):
		m.sent[id] = asRecipe
		c.recipe(m, o, recipe)
	case !c.fits(o, len(text)):
		c.withheld++
		c.withhold(m, o, id, text, 0, asWithheld)
	case len(text) > pieceBytes:
		m.sent[id] = asRecipe
		c.pieces(m, o, spans.Recipe{ID: id, Size: int64(len(text))}, string(text))
	default:
		m.learn(id, values)
		c.body(m, o, string(text))
	}
}

// fits reports whether n bytes more are within the bound of a span's new content.
func (c *content) fits(o *origin, n int) bool {
	most := o.tracer.config.maxTurn
	return most == 0 || c.bytes+n <= most
}

func (c *content) body(m *memory, o *origin, text string) {
	c.bodies = append(c.bodies, text)
	c.added(m, text)
}

func (c *content) recipe(m *memory, o *origin, text string) {
	c.recipes = append(c.recipes, text)
	c.added(m, text)
}

func (c *content) added(m *memory, text string) {
	c.bytes += len(text)
	m.request.earn(len(text))
}

// pieces sends text as blocks of its own where it is too large for one event, and r, which puts them together.
func (c *content) pieces(m *memory, o *origin, r spans.Recipe, text string) {
	if len(text) <= pieceBytes {
		r.Pieces = []spans.Piece{{Text: text}}
		c.recipe(m, o, r.Encode())
		return
	}
	for _, p := range pieces(text) {
		part := spans.BlockOfString(p)
		if m.claim(part, false) || !m.whole(part) {
			m.sent[part] = asBody
			c.body(m, o, p)
		}
		r.Pieces = append(r.Pieces, spans.Piece{Block: part.Short(), To: -1})
	}
	c.recipe(m, o, r.Encode())
}

// withhold sends size and digest of a body, and the first n bytes of it.
func (c *content) withhold(m *memory, o *origin, id spans.BlockID, text []byte, n int, as form) {
	m.sent[id] = as
	r := spans.Recipe{ID: id, Full: true, Size: int64(len(text))}
	beginning := string(text[:min(len(text), n+utf8.UTFMax)])
	if n = runeStart(beginning, n); n == 0 {
		c.recipe(m, o, r.Encode())
		return
	}
	c.pieces(m, o, r, beginning[:n])
}

// block refers to a body as it came, and keeps it to be sent when it was not sent before.
// Parts are blocks that it may be made of, in order.
func (c *content) block(m *memory, o *origin, p Piece, parts ...part) spans.BlockID {
	by := ""
	if o.tracer.config.redactor != nil { // rules may go by it
		by = p.Place
	}
	key := m.of.keyOf('b', p.Body, nil, by)
	if known, ok := m.memos[key]; ok {
		c.known += int64(len(p.Body))
		return known.id
	}
	text := c.redact(o, p)
	id := c.madeOf(m, o, text, standing(text, parts))
	m.remember(key, memo{id: id})
	return id
}

// part is a block that stands in others.
type part struct {
	text []byte
	id   spans.BlockID
	old  bool
	at   int // where it stands in the one that is made
}

// mostMissed is how many parts may not be found before the search ends: each costs a look at all the text.
const mostMissed = 8

// standing returns those of parts that stand in text, in that order, and are worth it.
func standing(text []byte, parts []part) []part {
	var list []part
	at, missed := 0, 0
	for _, p := range parts {
		if len(p.text) < valueLeast {
			continue
		}
		i := bytes.Index(text[at:], p.text)
		if i < 0 {
			if missed++; missed == mostMissed {
				break
			}
			continue
		}
		p.at = at + i
		list = append(list, p)
		at = p.at + len(p.text)
	}
	return list
}

// madeOf is claim for a body in which blocks stand that the session has sent, in order and none in another. What bounds hold for
// bodies they hold for its recipe.
func (c *content) madeOf(m *memory, o *origin, text []byte, parts []part) spans.BlockID {
	if len(parts) == 0 || o.capture == CaptureDigests {
		return c.claim(m, o, text, false)
	}
	id := spans.BlockOf(text)
	if !m.claim(id, false) {
		c.known += int64(len(text))
		return id
	}
	r := spans.Recipe{ID: id, Size: int64(len(text))}
	at := 0
	for _, p := range parts {
		if !m.whole(p.id) {
			continue
		}
		if p.at > at {
			r.Pieces = append(r.Pieces, spans.Piece{Text: string(text[at:p.at])})
		}
		r.Pieces = append(r.Pieces, spans.Piece{Block: p.id.Short(), To: -1})
		at = p.at + len(p.text)
	}
	if at < len(text) {
		r.Pieces = append(r.Pieces, spans.Piece{Text: string(text[at:])})
	}
	recipe, most := r.Encode(), o.tracer.config.maxBlock
	if len(recipe) > len(text) || len(recipe) > pieceBytes || most > 0 && len(recipe) > most || !c.fits(o, len(recipe)) {
		c.carry(m, o, id, text, false)
		return id
	}
	m.sent[id] = asRecipe
	c.recipe(m, o, recipe)
	return id
}

// redact returns what may leave of p, in UTF-8.
func (c *content) redact(o *origin, p Piece) []byte {
	body, changed := o.tracer.config.redact(p)
	c.redacted += int64(changed)
	return validBytes(body)
}

// message refers to msg by its canonical form and keeps that to be sent when it was not sent before.
func (c *content) message(m *memory, o *origin, msg *Message, old bool) (memo, memoKey) {
	kind, role := byte('m'), ""
	if o.tracer.config.redactor != nil { // rules may go by them
		if role = msg.Role; msg.Provenance.Kind != "" {
			kind = provenanceByte(msg.Provenance.Kind)
		}
	}
	key := m.of.keyOf(kind, msg.Raw, msg.Envelope, role)
	known, ok := m.memos[key]
	if ok && (old || !known.old) {
		c.known += int64(len(msg.Raw))
		return known, key
	}
	raw := c.redact(o, msg.piece())
	body, envelope, err := rawjson.AppendCanonical(m.text[:0], raw, msg.Envelope)
	m.text = body[:0]
	if err != nil || len(envelope) > maxEnvelope { // no JSON, or too much for a list: as it came
		body, envelope = raw, nil
	}
	known = memo{id: c.claim(m, o, body, old), envelope: string(envelope)}
	known.old = old && m.sent[known.id] == asOld
	if o.capture == CaptureDigests {
		known.envelope = ""
	}
	m.remember(key, known)
	return known, key
}

// piece is a message as a redactor sees it.
func (msg *Message) piece() Piece {
	return Piece{Body: msg.Raw, JSON: true, Place: PlaceMessage, Role: msg.Role, Provenance: msg.Provenance.Kind}
}

func provenanceByte(k spans.ProvenanceKind) byte {
	switch k {
	case spans.ProvenanceIdentityBlock:
		return 1
	case spans.ProvenanceMemoryTier:
		return 2
	case spans.ProvenanceLoopTurn:
		return 3
	case spans.ProvenanceSteering:
		return 4
	case spans.ProvenanceFollowUp:
		return 5
	case spans.ProvenanceSystemPrompt:
		return 6
	}
	return 7
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
	l.count++
	l.digest = l.digest.Add(id, it)
}

// drop removes the list of that name and attempt, and reports whether there was one.
func (c *content) drop(name string, attempt int) bool {
	before := len(c.lists)
	c.lists = slices.DeleteFunc(c.lists, func(l contentList) bool { return l.name == name && l.attempt == attempt })
	return len(c.lists) < before
}

// setMessages makes messages the list; it is there afterwards even when there are none.
func (c *content) setMessages(o *origin, name string, messages []Message) {
	c.drop(name, 0)
	c.list(name, 0)
	m := o.tracer.memories.open(o)
	defer m.close()
	for i := range messages {
		c.addMessage(m, o, name, &messages[i])
	}
}

// addMessage appends a message to a list.
func (c *content) addMessage(m *memory, o *origin, name string, msg *Message) {
	known, _ := c.message(m, o, msg, false)
	from, _ := c.provenance(o, &msg.Provenance)
	it := spans.Item{Block: known.id.Short(), Provenance: cleanText(from.Encode()), Envelope: known.envelope}
	c.list(name, 0).add(known.id, it)
}

var noProvenance spans.Provenance

// provenance returns what may leave of p, and whether that is all of it. What has no short form a producer wrote: it is content.
// Limit: 1 KiB; longer ones are left out.
func (c *content) provenance(o *origin, p *spans.Provenance) (*spans.Provenance, bool) {
	switch {
	case len(p.Kind)+len(p.Name)+len(p.Tier)+len(p.RecordID)+len(p.Role)+len(p.Raw) > maxEnvelope:
		return &noProvenance, false
	case p.Raw == "":
		return p, true
	case o.capture == CaptureDigests:
		return &noProvenance, false
	}
	if body, _ := o.tracer.config.redact(Piece{Body: []byte(p.Raw), JSON: true, Place: PlaceMessage}); string(body) != p.Raw {
		return &noProvenance, false
	}
	return p, true
}

// addBody appends body, as it came, to a list; nothing when it is nil. It returns the body's id.
func (c *content) addBody(o *origin, name string, body []byte) spans.BlockID {
	if body == nil {
		return spans.BlockID{}
	}
	m := o.tracer.memories.open(o)
	defer m.close()
	id := c.block(m, o, Piece{Body: body, JSON: true, Place: name})
	c.list(name, 0).add(id, spans.Item{Block: id.Short()})
	return id
}

// empty reports whether there is nothing to emit.
func (c *content) empty() bool {
	return len(c.bodies)+len(c.recipes)+len(c.lists)+len(c.details) == 0
}

// carrier is what one span carries of content.
type carrier struct {
	bodies, recipes, lists []string
	details                []attribute.KeyValue
}

// carriers divides what there is so that none takes more than most bytes, if it can: a body of more than that goes alone.
// The first is for the span itself.
func (c *content) carriers(run string, most int) []carrier {
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
	if n := 0; len(c.details) > 0 {
		for _, kv := range c.details {
			n += len(kv.Value.AsString())
		}
		into(n).details = c.details
	}
	for i := range c.lists {
		text := c.lists[i].pack(run)
		k := into(len(text))
		k.lists = append(k.lists, text)
	}
	for _, text := range c.recipes {
		k := into(len(text))
		k.recipes = append(k.recipes, text)
	}
	if n := c.bytes - c.left; len(list) == 1 && n <= room {
		list[0].bodies = c.bodies
	} else {
		for _, text := range c.bodies {
			k := into(len(text))
			k.bodies = append(k.bodies, text)
		}
	}
	return list
}

// emit adds the events to span at the time of its end.
func (k *carrier) emit(span trace.Span, end time.Time) {
	at := trace.WithTimestamp(end)
	kv := make([]attribute.KeyValue, 0, 3)
	if len(k.bodies) > 0 {
		kv = append(kv, spans.BlockBodiesKey.StringSlice(k.bodies))
	}
	if len(k.recipes) > 0 {
		kv = append(kv, spans.BlockPartsKey.StringSlice(k.recipes))
	}
	if len(k.lists) > 0 {
		kv = append(kv, spans.ListsKey.StringSlice(k.lists))
	}
	if len(kv) > 0 {
		span.AddEvent(spans.EventBlocks, at, trace.WithAttributes(kv...))
	}
	if len(k.details) > 0 {
		span.AddEvent(spans.EventDetails, at, trace.WithAttributes(k.details...))
	}
}

// emit puts the content of h on its span and, where it is too much for one, on children of it. The handle has ended.
func (h *handle) emit(end time.Time) {
	c := &h.content
	if c.empty() {
		return
	}
	for i, k := range c.carriers(h.run, h.tracer.config.maxSpan) {
		if i == 0 {
			k.emit(h.span, end)
			continue
		}
		child, ends := h.payload(strconv.Itoa(i), end)
		k.emit(child, end)
		child.End(ends)
	}
	*c = content{}
}

// payload starts a child of h that carries content, an instant, and returns how it ends. Its name tells it from others of h.
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
	_, span := h.startSpan(trace.ContextWithSpan(context.Background(), h.span), &kindPayload, kindPayload.name, &id, a.opts)
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
