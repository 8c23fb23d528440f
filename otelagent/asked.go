package otelagent

import (
	"bytes"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// asked is one request on its way out.
type asked struct {
	*content
	*origin
	m *memory
	layout

	said   []Message // what the loop said of each message; nil: nothing
	count  int       // messages
	before resumed

	fresh  []Message // those that begin at before.n
	texts  [][]byte  // of these, as they may be sent
	parts  []restPart
	system []byte // these two as they may be sent
	tools  []byte
}

// restPart is a stretch of the request: a text as it may be sent, or one of its parts.
type restPart struct {
	text []byte
	part spans.PartKind
	sep  string
}

// ask takes the content of the request of attempt n. The caller holds the lock.
func (t *Turn) ask(n int, req *Request, a *attrs) {
	c, o := &t.content, t.origin
	again := c.drop(spans.ListRequest, n)
	c.drop(spans.ListParams, n)
	m := o.tracer.memories.open(o)
	defer m.close()
	if again { // what was dropped is not there to be referred to
		m.request.complete()
	}
	m.asks(t.run)

	rest, payload := spans.ProvenanceRest, req.Payload
	if payload == nil {
		rest, payload = spans.ProvenanceComposed, req.compose()
	}
	q := asked{content: c, origin: o, m: m, before: m.request.resume(), parts: m.parts[:0]}
	q.layout = readLayout(validBytes(payload), &q.before, m.extents)
	m.extents = q.layout.texts
	_ = q.fill(req) // what cannot be read is kept as it is spelled
	q.match(req.Messages)
	h, same := q.items()
	req.Messages = q.fresh
	list := m.requestList(h, same)
	list.Name, list.Attempt = spans.ListRequest, int64(n)
	list.pack()
	t.run.history.Store(h)

	q.split(req, h)
	params := contentList{List: spans.List{Name: spans.ListParams, Attempt: int64(n)}}
	add := func(kind spans.ProvenanceKind, id spans.ShortID) {
		params.Items = append(params.Items, spans.Item{Block: id, Provenance: string(kind)}.Encode())
		params.Count++
	}
	if q.system != nil {
		id, digest := m.request.system.block(&q, q.system)
		add(spans.ProvenanceSystem, id)
		a.digest(spans.PromptDigestKey, digest)
	}
	if q.tools != nil {
		id, _ := m.request.tools.block(&q, q.tools)
		add(spans.ProvenanceTools, id)
	}
	add(rest, q.rest())
	w := q.whole(h, same)
	params.Whole = w.String()
	m.parts = q.parts
	h.sameParams(&params)
	params.pack()
	c.lists = append(c.lists, list, params)
	t.inputViews(&q, h, a)
}

// match finds out what the loop said of which message.
func (q *asked) match(said []Message) {
	if q.object && !q.messages.empty() {
		q.count = len(q.layout.texts)
		if len(said) == q.count {
			q.said = said
		}
		return
	}
	q.count, q.said = len(said), said
	for q.before.n < q.count && q.before.next(func(raw string) bool { return raw == string(said[q.before.n].Raw) }) {
	}
}

// raw returns the i-th message.
func (q *asked) raw(i int) []byte {
	if q.messages.empty() {
		return q.said[i].Raw
	}
	return q.layout.texts[i].of(q.payload)
}

// message returns the i-th message with all that is known of it.
func (q *asked) message(i int) (msg Message) {
	if q.said != nil {
		msg = q.said[i]
	}
	if msg.Raw = q.raw(i); msg.Role == "" {
		msg.read()
	}
	return msg
}

var noProvenance spans.Provenance

func (q *asked) from(i int) *spans.Provenance {
	if q.said == nil {
		return &noProvenance
	}
	return &q.said[i].Provenance
}

// items takes the messages into the history that the request goes on with, and returns how many of them that had
// before.
func (q *asked) items() (h *history, same int) {
	for same < q.before.n && *q.from(same) == q.before.of.items[same].from {
		same++
	}
	h = q.m.continued(q.before.of, same)
	q.fresh, q.texts = make([]Message, q.count-same), make([][]byte, q.count-same)
	for i := range q.fresh {
		q.fresh[i] = q.message(same + i)
		q.texts[i] = q.redact(q.origin, q.fresh[i].piece())
		raw := string(q.fresh[i].Raw)
		text := raw
		if string(q.texts[i]) != raw {
			text = string(q.texts[i])
		}
		it := spans.Item{Block: q.block(q.m, q.origin, text), Provenance: q.provenance(q.origin, q.from(same+i))}
		h.add(q.m, raw, *q.from(same + i), it)
	}
	for i := range same {
		q.known += int64(len(q.raw(i)))
	}
	return h, same
}

// split cuts the request into its parts, as they may be sent.
func (q *asked) split(req *Request, h *history) {
	r := &q.m.request
	if !q.object {
		if req.System != nil {
			q.system = r.system.redact(q, req.System, PlaceSystem)
		}
		if req.Tools != nil {
			q.tools = r.tools.redact(q, req.Tools, PlaceTools)
		}
		q.text(r.rest.redact(q, q.payload, PlaceRest))
		return
	}
	if !q.layout.system.empty() {
		q.system = r.system.redact(q, q.layout.system.of(q.payload), PlaceSystem)
	}
	if !q.layout.tools.empty() {
		q.tools = r.tools.redact(q, q.layout.tools.of(q.payload), PlaceTools)
	}
	if !q.aligned(h) {
		q.origins = extent{}
	}
	if q.tracer.config.redactor != nil {
		others := q.others()
		if text := r.rest.redact(q, others, PlaceRest); !bytes.Equal(text, others) {
			q.redacted(text)
			return
		}
	}
	at := 0
	for _, m := range q.members {
		if part, ok := q.partOf(m.value); ok {
			q.text(q.payload[at:m.value.from])
			q.part(part, m.value)
			at = m.value.to
		}
	}
	q.text(q.payload[at:])
}

// partOf returns which part a member of the payload is.
func (q *asked) partOf(value extent) (spans.PartKind, bool) {
	switch {
	case value == q.layout.system:
		return spans.PartSystem, true
	case value == q.layout.tools:
		return spans.PartTools, true
	case value == q.messages && q.count > 0:
		return spans.PartMessages, true
	case value == q.origins:
		return spans.PartProvenance, true
	}
	return 0, false
}

func (q *asked) text(text []byte) {
	if len(text) > 0 {
		q.parts = append(q.parts, restPart{text: text})
	}
}

// part adds a part that stands there, in its brackets where it is an array.
func (q *asked) part(part spans.PartKind, at extent) {
	switch part {
	case spans.PartProvenance:
		q.text([]byte{'['})
		q.parts = append(q.parts, restPart{part: part})
		q.text([]byte{']'})
	case spans.PartMessages:
		texts := q.layout.texts
		q.text(q.payload[at.from:texts[0].from])
		gap := func(i int) []byte { return q.payload[texts[i-1].to:texts[i].from] }
		sep, uniform := []byte{','}, true
		for i := 1; i < len(texts) && uniform; i++ {
			if i == 1 {
				sep = gap(i)
			}
			uniform = bytes.Equal(gap(i), sep)
		}
		if uniform {
			q.parts = append(q.parts, restPart{part: part, sep: string(sep)})
		} else {
			for i := range texts {
				if i > 0 {
					q.text(gap(i))
				}
				q.parts = append(q.parts, restPart{part: spans.PartMessage})
			}
		}
		q.text(q.payload[texts[len(texts)-1].to:at.to])
	default:
		q.parts = append(q.parts, restPart{part: part})
	}
}

// aligned reports whether the provenances of the payload are those of its messages, and all of them may be sent.
func (q *asked) aligned(h *history) bool {
	if q.origins.empty() || q.count == 0 || q.said == nil {
		return false
	}
	b := append(q.m.scratch[:0], '[')
	for i := range q.said {
		if i > 0 {
			b = append(b, ',')
		}
		b = q.said[i].Provenance.AppendJSON(b)
		if !strings.Contains(h.items[i].text, " ") {
			return false
		}
	}
	q.m.scratch = append(b, ']')
	return bytes.Equal(q.m.scratch, q.origins.of(q.payload))
}

// others returns an object of the members that are no part of their own.
func (q *asked) others() []byte {
	return q.only(func(value extent) bool {
		_, part := q.partOf(value)
		return !part
	})
}

// redacted makes the parts of a request of which the redactor changed the other members: all in their order.
func (q *asked) redacted(others []byte) {
	b := []byte{'{'}
	sep := func() {
		if len(b) != 1 || len(q.parts) > 0 {
			b = append(b, ',')
		}
	}
	c := rawjson.NewCursor(others, rawjson.MaxDepth)
	object := rawjson.Valid(others, rawjson.MaxDepth) == nil && c.Open('{')
	for _, m := range q.members {
		part, ok := q.partOf(m.value)
		switch {
		case ok:
			sep()
			b = append(append(b, m.key...), ':')
			q.text(bytes.Clone(b))
			b = b[:0]
			q.part(part, m.value)
		case object && c.More('}'):
			sep()
			b = append(append(b, c.RawKey()...), ':')
			b = append(b, c.Value()...)
		}
	}
	for object && c.More('}') {
		sep()
		b = append(append(b, c.RawKey()...), ':')
		b = append(b, c.Value()...)
	}
	if !object {
		sep()
		b = rawjson.Quote(append(b, `"rest":`...), string(others))
	}
	q.text(append(b, '}'))
}

// rest returns the block that says how the request is put together.
func (q *asked) rest() spans.ShortID {
	plain := make([]byte, 0, 256)
	for _, p := range q.parts {
		plain = append(plain, p.text...)
	}
	if q.capture == CaptureDigests && q.object {
		plain = q.others()
	}
	return q.template(q.m, q.origin, string(plain), func(cut func(string) spans.ShortID) []byte {
		dst := q.m.scratch[:0]
		for _, p := range q.parts {
			if p.part != 0 {
				dst = spans.AppendPart(dst, p.part, p.sep)
			} else {
				dst = spans.Cut(dst, string(p.text), cut)
			}
		}
		return dst
	})
}

// whole adds up the request, from where that of the history ended if the request goes on with that.
func (q *asked) whole(h *history, same int) whole {
	var w whole
	next := 0
	message := func(i int) {
		if i >= same {
			w.write(q.texts[i-same])
			return
		}
		msg := q.message(i)
		body, _ := q.tracer.config.redact(msg.piece())
		w.write(validBytes(body))
	}
	for _, p := range q.parts {
		switch p.part {
		case 0:
			w.write(p.text)
		case spans.PartSystem:
			w.write(q.system)
		case spans.PartTools:
			w.write(q.tools)
		case spans.PartProvenance:
			w.write(q.payload[q.origins.from+1 : q.origins.to-1])
		case spans.PartMessage:
			message(next)
			next++
		case spans.PartMessages:
			head := w.id()
			if h.summed == same && same > 0 && h.head == head && h.sep == p.sep {
				w, next = h.sum.clone(), same
			}
			for ; next < q.count; next++ {
				if next > 0 {
					w.write([]byte(p.sep))
				}
				message(next)
			}
			h.head, h.sep, h.sum, h.summed = head, p.sep, w.clone(), q.count
		}
	}
	return w
}

// namedBlock is a part of a request that mostly stays the same: as it came, as it may be sent, its block and SHA-256.
type namedBlock struct {
	raw, text []byte
	id        spans.ShortID
	digest    string
}

// redact returns what may be sent of a part. One that stays the same is not looked at again.
func (n *namedBlock) redact(q *asked, raw []byte, place string) []byte {
	if q.tracer.config.redactor == nil {
		return raw
	}
	if n.raw == nil || !bytes.Equal(n.raw, raw) {
		q.m.count(int64(len(raw)-len(n.raw)) / entryBytes)
		n.raw = append(n.raw[:0], raw...)
		return q.redact(q.origin, Piece{Body: raw, JSON: true, Place: place})
	}
	if n.text == nil { // it was not looked at as a block
		text, _ := q.tracer.config.redact(Piece{Body: raw, JSON: true, Place: place})
		return validBytes(text)
	}
	return n.text
}

// block returns the block of text and its SHA-256.
func (n *namedBlock) block(q *asked, text []byte) (spans.ShortID, string) {
	if n.digest == "" || !bytes.Equal(n.text, text) {
		q.m.count(int64(len(text)-len(n.text)) / entryBytes)
		n.text, n.digest = append(n.text[:0], text...), spans.BlockOf(text).String()
		n.id = q.block(q.m, q.origin, string(text))
	} else {
		q.known += int64(len(text))
	}
	return n.id, n.digest
}
