package session

import (
	"slices"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// maxPayload bounds a request that is put together; a frame and recipes can make much of little.
const maxPayload = 256 << 20

// Payload is a request put together again, or what is missing of it.
type Payload struct {
	// Bytes is the request. It is nil when anything of it is missing, or is not what the digests say: never a wrong byte.
	Bytes []byte `json:"-"`
	// Exact says that Bytes is what the loop emitted, byte for byte. Else it is what left after redaction (see Redacted), or was put
	// together in a default order because no one told how the loop spells it: system, messages, tools, then what else there is.
	Exact bool `json:"exact"`
	// Redacted says that the span of the turn counts redacted places, or that the request was Stated bytes long when the loop emitted it
	// and is not now: another span may have carried the redacted block first. It is no damage.
	Redacted bool `json:"redacted,omitempty"`
	// Stated is how many bytes the loop's request had, 0 when that is not known.
	Stated int64 `json:"stated_bytes,omitempty"`
	// Missing is what is not there. Defects say which list is not complete (list_unresolved, list_broken), or not made of the
	// blocks that it names (list_broken).
	Missing []MissingPart `json:"missing,omitempty"`
	Defects []Defect      `json:"defects,omitempty"`
}

// MissingPart is a piece of a request that is not there.
type MissingPart struct {
	// Part is message, system, tools, rest, frame or payload.
	Part string `json:"part"`
	// Position of a message in its list; -1 when none of the list arrived, 0 for what is no message.
	Position int `json:"position"`
	// Block is the short id; empty when not even that is known.
	Block string `json:"block,omitempty"`
	// Withheld says that the body was cut or withheld at the source.
	Withheld bool `json:"withheld,omitempty"`
}

const partMessage = "message"

// Payload puts the request together as the loop emitted it: from the block `payload` of its params where there is one, else by
// their frame, else in a default order. blocks are those of the session. It never fails; the result says what is missing.
func (r *Request) Payload(blocks *BlockSet) Payload {
	p := payload{blocks: blocks, out: Payload{Stated: r.stated, Redacted: r.redacted}}
	params := p.params(r)
	if p.failed() {
		if _, ok := params[spans.ProvenancePayload]; !ok {
			p.messages(r) // what is missing of these is told as well
		}
		return p.out
	}
	p.buf = make([]byte, 0, min(max(p.out.Stated, 0), 4<<20)) // as stated, within reason
	framed := true
	if whole, ok := params[spans.ProvenancePayload]; ok {
		p.buf = []byte(whole)
	} else if body, ok := params[spans.ProvenanceFrame]; ok {
		frame, err := spans.ParseFrame(body)
		if err != nil {
			p.miss(string(spans.ProvenanceFrame))
			return p.out
		}
		p.framed(r, frame, params)
	} else {
		framed = false
		p.composed(r, params)
	}
	if p.failed() {
		return p.out
	}
	p.out.Bytes = p.buf
	if p.out.Stated > 0 && framed && int64(len(p.buf)) != p.out.Stated {
		p.out.Redacted = true
	}
	p.out.Exact = framed && !p.out.Redacted
	return p.out
}

// payload is one call of Request.Payload.
type payload struct {
	blocks *BlockSet
	buf    []byte
	out    Payload
}

func (p *payload) failed() bool { return len(p.out.Missing) > 0 || len(p.out.Defects) > 0 }

func (p *payload) miss(part string) { p.out.Missing = append(p.out.Missing, MissingPart{Part: part}) }

// read returns the bodies of a list, and says what is missing of it. part names the items.
func (p *payload) read(name string, attempt int64, refs *Refs, part func(int, *Ref) string) ([]Ref, []string) {
	name = requestName(name, attempt)
	c := p.blocks.Read(refs)
	switch {
	case c.Broken:
		p.out.Defects = append(p.out.Defects, Defect{Code: spans.DefectListBroken, Detail: name + brokenDigest})
	case refs.end != nil && (!refs.end.whole || refs.known < refs.end.pos):
		p.out.Defects = append(p.out.Defects, Defect{Code: spans.DefectListUnresolved, Detail: name})
	case !refs.Complete:
		p.out.Defects = append(p.out.Defects, Defect{Code: spans.DefectListBroken, Detail: name})
	}
	items := refs.Items()
	lost := func(at []int, withheld bool) {
		for _, i := range at {
			m := MissingPart{Part: part(i, &items[i]), Block: clip(items[i].Block), Withheld: withheld}
			if m.Part == partMessage {
				m.Position = i
			}
			p.out.Missing = append(p.out.Missing, m)
		}
	}
	lost(c.Missing, false)
	lost(c.Withheld, true)
	slices.SortStableFunc(p.out.Missing, func(a, b MissingPart) int { return a.Position - b.Position })
	return items, c.Bodies
}

// params returns the bodies of the params list by what they are. Of two of one kind the first counts.
func (p *payload) params(r *Request) map[spans.ProvenanceKind]string {
	if r.Params == nil {
		return nil
	}
	items, bodies := p.read(spans.ListParams, r.Attempt, r.Params, func(_ int, ref *Ref) string { return clip(ref.Provenance) })
	m := map[spans.ProvenanceKind]string{}
	for i := range items {
		kind := spans.ProvenanceKind(items[i].Provenance) // one word for all kinds that stand here
		if _, ok := m[kind]; !ok {
			m[kind] = bodies[i]
		}
	}
	return m
}

func (p *payload) messages(r *Request) ([]Ref, []string) {
	if r.Messages == nil {
		p.out.Missing = append(p.out.Missing, MissingPart{Part: partMessage, Position: -1})
		return nil, nil
	}
	return p.read(spans.ListRequest, r.Attempt, r.Messages, func(int, *Ref) string { return partMessage })
}

// framed puts the payload together as the frame says.
func (p *payload) framed(r *Request, f *spans.Frame, params map[spans.ProvenanceKind]string) {
	var items []Ref
	var bodies []string
	if f.Messages != "" || f.Provenance != "" {
		items, bodies = p.messages(r)
	}
	rest := map[string][]byte{}
	if raw := params[spans.ProvenanceRest]; rawjson.Valid([]byte(raw), rawjson.MaxDepth) == nil {
		c := rawjson.NewCursor([]byte(raw), rawjson.MaxDepth)
		for c.Open('{'); c.More('}'); {
			key := c.RawKey()
			rest[string(key[1:len(key)-1])] = c.Value()
		}
	}
	part := func(kind spans.ProvenanceKind) {
		body, ok := params[kind]
		if !ok {
			p.miss(string(kind))
		}
		p.put([]byte(body))
	}
	p.put([]byte{'{'})
	for i, key := range f.Keys {
		if i > 0 {
			p.put([]byte{','})
		}
		p.put([]byte(`"` + key + `":`))
		switch value, ok := rest[key]; {
		case key == "" && ok: // an empty word in the frame names no key
			p.put(value)
		case key == f.Messages:
			p.array(len(items), func(dst []byte, i int) []byte {
				return f.Shapes.AppendSpelled(dst, []byte(bodies[i]), []byte(items[i].Envelope))
			})
		case key == f.Provenance:
			p.array(len(items), func(dst []byte, i int) []byte {
				pv, err := spans.ParseProvenance(items[i].Provenance)
				if err != nil {
					p.out.Missing = append(p.out.Missing, MissingPart{Part: "provenance", Position: i, Block: clip(items[i].Block)})
				}
				return pv.AppendJSON(dst)
			})
		case key == f.System:
			part(spans.ProvenanceSystem)
		case key == f.Tools:
			part(spans.ProvenanceTools)
		case ok:
			p.put(value)
		default:
			p.miss(string(spans.ProvenanceRest))
		}
		if p.failed() {
			return
		}
	}
	p.put([]byte{'}'})
}

// composed puts together what is there in a default order.
func (p *payload) composed(r *Request, params map[spans.ProvenanceKind]string) {
	items, bodies := p.messages(r)
	if p.failed() {
		return
	}
	value := func(body string) []byte {
		if rawjson.Valid([]byte(body), rawjson.MaxDepth) == nil {
			return []byte(body)
		}
		return rawjson.Quote(nil, body)
	}
	p.put([]byte{'{'})
	if system, ok := params[spans.ProvenanceSystem]; ok {
		p.put([]byte(`"system":`))
		p.put(value(system))
		p.put([]byte{','})
	}
	p.put([]byte(`"messages":`))
	p.array(len(items), func(dst []byte, i int) []byte {
		if rawjson.Valid([]byte(bodies[i]), rawjson.MaxDepth) != nil {
			return rawjson.Quote(dst, bodies[i])
		}
		return spans.Shapes(nil).AppendSpelled(dst, []byte(bodies[i]), []byte(items[i].Envelope))
	})
	if tools, ok := params[spans.ProvenanceTools]; ok {
		p.put([]byte(`,"tools":`))
		p.put(value(tools))
	}
	if rest, ok := params[spans.ProvenanceRest]; ok {
		raw := value(rest)
		if c := rawjson.NewCursor(raw, rawjson.MaxDepth); c.Open('{') {
			for c.More('}') {
				p.put([]byte{','})
				p.put(c.RawKey())
				p.put([]byte{':'})
				p.put(c.Value())
			}
		} else {
			p.put([]byte(`,"rest":`))
			p.put(raw)
		}
	}
	p.put([]byte{'}'})
}

func (p *payload) put(b []byte) {
	if p.buf = append(p.buf, b...); len(p.buf) > maxPayload {
		p.tooLarge()
	}
}

// array puts n elements, which element appends.
func (p *payload) array(n int, element func(dst []byte, i int) []byte) {
	p.put([]byte{'['})
	for i := range n {
		if p.failed() {
			return
		}
		if i > 0 {
			p.put([]byte{','})
		}
		if p.buf = element(p.buf, i); len(p.buf) > maxPayload {
			p.tooLarge()
		}
	}
	p.put([]byte{']'})
}

func (p *payload) tooLarge() {
	p.buf = p.buf[:0]
	p.out.Defects = append(p.out.Defects, Defect{Code: spans.DefectListBroken, Detail: "request of more than 256 MiB"})
}

// Message is one message of a request, as views show it.
type Message struct {
	Ref
	// Position in the list of messages.
	Position int `json:"position"`
	// Role as the message says; empty when it says none or is not there.
	Role string `json:"role,omitempty"`
	// Bytes is the size of the block, 0 when that is not known.
	Bytes int64 `json:"bytes,omitempty"`
	// New says that the block is nowhere in the request before (Request.Before).
	New bool `json:"new"`
	// Missing and Withheld say that the body is not there; Withheld, that it was cut or withheld at the source.
	Missing  bool `json:"missing,omitempty"`
	Withheld bool `json:"withheld,omitempty"`
	// Source is Ref.Provenance, read; zero when that says nothing that is known.
	Source spans.Provenance `json:"-"`
	// Body is that of the block: canonical, without the envelope.
	Body string `json:"-"`
}

// ReadMessages returns the messages of the request that are known; of a list that is not complete those of its end.
func (r *Request) ReadMessages(blocks *BlockSet) []Message {
	if r.Messages == nil {
		return nil
	}
	items := r.Messages.Items()
	from := int(max(0, r.Messages.Count-int64(len(items))))
	if r.Messages.Complete {
		from = 0
	}
	seen := map[string]bool{}
	if r.before != nil {
		for _, ref := range r.before.Messages.Items() {
			seen[ref.Block] = true
		}
	}
	l := make([]Message, len(items))
	for i := range items {
		l[i] = readMessage(blocks, items[i], from+i)
		l[i].New = !seen[items[i].Block]
	}
	return l
}

func readMessage(blocks *BlockSet, ref Ref, position int) Message {
	m := Message{Ref: ref, Position: position}
	m.Source, _ = spans.ParseProvenance(ref.Provenance)
	f := blocks.look(&ref, true)
	switch f.state {
	case whole:
		m.Body, m.Bytes, m.Role = f.body, int64(len(f.body)), role(f.body)
	case withheld:
		_, m.Bytes, m.Withheld = blocks.Cut(ref)
	default:
		m.Missing = true
	}
	return m
}

// role returns what a message says under role.
func role(message string) string {
	c := rawjson.NewCursor([]byte(message), rawjson.MaxDepth)
	if !c.Open('{') {
		return ""
	}
	found := ""
	for c.More('}') {
		key := string(c.Key())
		value := c.Value()
		if text, ok := rawjson.String(value); ok && key == "role" && c.Err() == nil {
			found = clip(text)
		}
	}
	return found
}
