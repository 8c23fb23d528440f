package writer

import (
	"bytes"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// outgoing is one request on its way out.
type outgoing struct {
	*content
	*origin
	m *memory
	layout

	stated []Message // what the loop reports of each message; nil: nothing
	count  int       // messages
	begun  int       // the first of them that a history has

	texts  [][]byte // the new messages, as they may be sent
	pieces []piece
	system []byte // these two as they may be sent
	tools  []byte
}

// piece is a stretch of the request: a text as it may be sent, or one of its parts.
type piece struct {
	text []byte
	part spans.PartKind
	sep  string
}

// record takes the content of the request of attempt n. The caller holds the lock.
func (t *Turn) record(n int, req *Request, a *attrs) {
	c, o := &t.content, t.origin
	again := c.drop(spans.ListRequest, n)
	c.drop(spans.ListParams, n)
	m := o.tracer.sessions.open(o)
	defer m.close()
	if again { // what was dropped is not there to be referred to
		for _, h := range m.histories {
			h.complete()
		}
	}
	m.begin(t.scope.run)

	rest, payload := spans.ProvenanceRest, req.Payload
	if payload == nil {
		rest, payload = spans.ProvenanceComposed, req.compose()
	}
	q := outgoing{content: c, origin: o, m: m, pieces: m.pieces[:0]}
	var before []sentItem // the messages of the request before
	if len(m.histories) > 0 {
		before = m.histories[0].items
	}
	q.layout = readLayout(validBytes(payload), m.extents, before)
	m.extents = q.layout.texts
	_ = q.fill(req) // what cannot be read is kept as it is spelled
	q.stated, q.count = req.Messages, len(req.Messages)
	if !q.find(spans.PartMessages).empty() {
		if q.count = len(q.layout.texts); len(q.stated) != q.count {
			q.stated = nil
		}
	}
	h, same := q.items()
	list := m.requestList(h, same)
	list.Name, list.Attempt = spans.ListRequest, int64(n)
	t.scope.run.history.Store(h)

	q.split(req, h)
	params := spans.List{Name: spans.ListParams, Attempt: int64(n)}
	add := func(kind spans.ProvenanceKind, id spans.ShortID) {
		params.Add(spans.Item{Block: id, Provenance: string(kind)})
	}
	if q.system != nil {
		add(spans.ProvenanceSystem, q.block(m, o, string(q.system)))
		a.kv = append(a.kv, spans.PromptDigestKey.String(spans.BlockOf(q.system).String())) // content is captured
	}
	if q.tools != nil {
		add(spans.ProvenanceTools, q.block(m, o, string(q.tools)))
	}
	add(rest, q.rest())
	w := q.whole(h, same)
	params.Whole = spans.WholeOf(w.size, w.id())
	m.pieces = q.pieces
	h.sameParams(&params)
	c.lists = append(c.lists, list, params)
	t.inputViews(&q, h, a)
}

// raw returns the i-th message.
func (q *outgoing) raw(i int) []byte {
	if i < len(q.layout.texts) {
		return q.layout.texts[i].of(q.payload)
	}
	return q.stated[i].Raw
}

// message returns the i-th message with all that is known of it.
func (q *outgoing) message(i int) (msg Message) {
	if q.stated != nil {
		msg = q.stated[i]
	}
	if msg.Raw = q.raw(i); msg.Role == "" {
		readHeading(&msg)
	}
	return msg
}

// text returns what may be sent of the i-th message.
func (q *outgoing) text(i int) []byte {
	if known := q.count - len(q.texts); i >= known {
		return q.texts[i-known]
	}
	msg := q.message(i)
	body, _ := q.tracer.config.redact(pieceOf(&msg))
	return validBytes(body)
}

func (q *outgoing) from(i int) (p spans.Provenance) {
	if q.stated != nil {
		p = q.stated[i].Provenance
	}
	return p
}

// items takes the messages into the history that the request goes on with, and returns how many of them that had
// before.
func (q *outgoing) items() (h *history, same int) {
	h, q.begun = q.m.longest(q)
	for same < q.begun && q.from(same) == h.items[same].from {
		q.known += int64(len(q.raw(same)))
		same++
	}
	h = q.m.continued(h, same)
	q.texts = make([][]byte, q.count-same)
	for i := range q.texts {
		msg := q.message(same + i)
		q.texts[i] = q.redact(q.origin, pieceOf(&msg))
		raw := string(msg.Raw)
		text := raw
		if string(q.texts[i]) != raw {
			text = string(q.texts[i])
		}
		it := spans.Item{Block: q.block(q.m, q.origin, text), Provenance: q.provenance(q.origin, &msg.Provenance)}
		h.add(raw, msg.Provenance, it)
	}
	return h, same
}

// split cuts the request into its pieces, as they may be sent.
func (q *outgoing) split(req *Request, h *history) {
	if req.System != nil {
		q.system = q.part(req.System, spans.PlaceSystem)
	}
	if req.Tools != nil {
		q.tools = q.part(req.Tools, spans.PlaceTools)
	}
	if !q.object {
		q.plain(q.part(q.payload, spans.PlaceRest))
		return
	}
	at := 0
	put := func(m *member, part spans.PartKind, text []byte) { // between the text before and that after the value
		q.plain(q.payload[at:m.from])
		q.pieces = append(q.pieces, piece{text: text, part: part})
		at = m.to
	}
	for i := range q.members {
		m := &q.members[i]
		switch {
		case m.part == spans.PartMessages && q.messages(at):
			at = q.layout.texts[len(q.layout.texts)-1].to
		case m.part == spans.PartProvenance && q.aligned(h, m.of(q.payload)):
			inside := member{extent: extent{m.from + 1, m.to - 1}}
			put(&inside, m.part, inside.of(q.payload))
		case m.part == spans.PartSystem:
			put(m, m.part, q.system)
		case m.part == spans.PartTools:
			put(m, m.part, q.tools)
		default:
			m.part = 0
			if spelled, text := q.other(m); !bytes.Equal(text, spelled) {
				q.plain(q.payload[at:m.start])
				q.plain(inObject(text))
				at = m.to
			}
		}
	}
	q.plain(q.payload[at:])
}

// other returns a member that is no part of its own, as an object, and what may be sent of that.
func (q *outgoing) other(m *member) (spelled, text []byte) {
	spelled = append(append(append([]byte{'{'}, m.key...), ':'), m.of(q.payload)...)
	spelled = append(spelled, '}')
	return spelled, q.part(spelled, spans.PlaceRest)
}

// part returns what may be sent of a part of a request. What the redactor changes in it counts once in a session.
func (q *outgoing) part(raw []byte, place string) []byte {
	text, changed := q.tracer.config.redact(spans.Redactable{Body: raw, JSON: true, Place: place})
	if changed > 0 && q.m.claim(spans.BlockOf(append([]byte{0}, raw...))) { // which is no block
		q.redacted += int64(changed)
	}
	return validBytes(text)
}

// inObject returns the members of an object, or a text of another kind as a member.
func inObject(text []byte) []byte {
	if o := bytes.TrimSpace(text); rawjson.Valid(o, rawjson.MaxDepth) == nil && o[0] == '{' {
		return o[1 : len(o)-1]
	}
	return rawjson.Quote([]byte(`"rest":`), string(text))
}

func (q *outgoing) plain(text []byte) {
	if len(text) > 0 {
		q.pieces = append(q.pieces, piece{text: text})
	}
}

// messages adds what is between at and the messages, and these: as one piece where the same text separates all of
// them. It reports whether there are any.
func (q *outgoing) messages(at int) bool {
	texts := q.layout.texts
	if len(texts) == 0 {
		return false
	}
	q.plain(q.payload[at:texts[0].from])
	gap := func(i int) []byte { return q.payload[texts[i-1].to:texts[i].from] }
	sep, uniform := []byte{','}, true
	for i := 1; i < len(texts) && uniform; i++ {
		if i == 1 {
			sep = gap(i)
		}
		uniform = bytes.Equal(gap(i), sep)
	}
	if uniform {
		q.pieces = append(q.pieces, piece{part: spans.PartMessages, sep: string(sep)})
		return true
	}
	for i := range texts {
		if i > 0 {
			q.plain(gap(i))
		}
		q.pieces = append(q.pieces, piece{part: spans.PartMessage})
	}
	return true
}

// aligned reports whether origins are the provenances of the messages, and all of them may be sent.
func (q *outgoing) aligned(h *history, origins []byte) bool {
	if q.count == 0 || q.stated == nil {
		return false
	}
	b := append(q.m.scratch[:0], '[')
	for i := range q.stated {
		if i > 0 {
			b = append(b, ',')
		}
		b = q.stated[i].Provenance.AppendJSON(b)
		if !strings.Contains(h.items[i].text, " ") {
			return false
		}
	}
	q.m.scratch = append(b, ']')
	return bytes.Equal(q.m.scratch, origins)
}

// rest returns the block that says how the request is put together.
func (q *outgoing) rest() spans.ShortID {
	plain := make([]byte, 0, 256)
	for _, p := range q.pieces {
		if p.part == 0 {
			plain = append(plain, p.text...)
		}
	}
	if q.capture == spans.CaptureDigests && q.object { // readers compare this with the parameters of other requests
		plain = []byte{'{'}
		for i := range q.members {
			if m := &q.members[i]; m.part == 0 {
				_, text := q.other(m)
				plain = append(append(plain, inObject(text)...), ',')
			}
		}
		plain = append(bytes.TrimSuffix(plain, []byte{','}), '}')
	}
	return q.template(q.m, q.origin, string(plain), func(cut func(string) spans.ShortID) []byte {
		dst := q.m.scratch[:0]
		for _, p := range q.pieces {
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
func (q *outgoing) whole(h *history, same int) whole {
	w, next := newWhole(), 0
	message := func() {
		w.write(q.text(next))
		next++
	}
	for _, p := range q.pieces {
		switch p.part {
		default:
			w.write(p.text)
		case spans.PartMessage:
			message()
		case spans.PartMessages:
			head := w.id()
			if h.summed == same && same > 0 && h.head == head && h.sep == p.sep {
				w, next = h.sum.clone(), same
			}
			for next < q.count {
				if next > 0 {
					w.write([]byte(p.sep))
				}
				message()
			}
			h.head, h.sep, h.sum, h.summed = head, p.sep, w.clone(), q.count
		}
	}
	return w
}
