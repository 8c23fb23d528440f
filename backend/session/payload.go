package session

import (
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// maxPayload bounds a request that is put together; templates can make much of little.
const maxPayload = 256 << 20

// Payload is a request put together again, or what is missing of it.
type Payload struct {
	// Bytes is the request. It is nil when anything of it is missing, or is not what the digests say: never a wrong
	// byte.
	Bytes []byte `json:"-"`
	// Exact says that Bytes is what the loop emitted, byte for byte. Else it is what left after redaction (see
	// Redacted), or was put together by the tracer because the loop gave no bytes: system, messages, tools.
	Exact bool `json:"exact"`
	// Redacted says that the span of the turn counts redacted places, or that the request was Stated bytes long when
	// the loop emitted it and is not now: another span may have carried the redacted block first. It is no damage.
	Redacted bool `json:"redacted,omitempty"`
	// Stated is how many bytes the loop's request had, 0 when that is not known.
	Stated int64 `json:"stated_bytes,omitempty"`
	// Missing is what is not there. Defects say which list is not complete (list_unresolved, list_broken), or not
	// made of the blocks that it names (list_broken).
	Missing []MissingPart `json:"missing,omitempty"`
	Defects []Defect      `json:"defects,omitempty"`
}

// MissingPart is a piece of a request that is not there.
type MissingPart struct {
	// Part is message, system, tools, rest, composed or provenance.
	Part string `json:"part"`
	// Position of a message in its list; -1 when none of the list arrived, 0 for what is no message.
	Position int `json:"position"`
	// Block is the short id; empty when not even that is known.
	Block string `json:"block,omitempty"`
	// Withheld says that the body was cut or withheld at the source.
	Withheld bool `json:"withheld,omitempty"`
}

const partMessage = "message"

// Payload puts the request together as the loop emitted it. blocks are those of the session. It never fails; the
// result says what is missing.
func (r *Request) Payload(blocks *BlockSet) Payload {
	p := payload{blocks: blocks, out: Payload{Stated: r.stated, Redacted: r.redacted}, parts: map[string]string{}}
	kind := spans.ProvenanceRest
	params, bodies := p.read(requestName(spans.ListParams, r.Attempt), r.Params, MissingPart{Part: string(kind)})
	for i := range params { // of two of one kind the last counts, as in Param
		k := params[i].Provenance
		if p.parts[k] = bodies[i]; isRest(k) {
			p.parts[k] = blocks.template(&params[i])
		}
	}
	lost := MissingPart{Part: partMessage, Position: -1}
	p.items, p.bodies = p.read(requestName(spans.ListRequest, r.Attempt), r.Messages, lost)
	if p.failed() {
		return p.out
	}
	if p.parts[string(spans.ProvenanceComposed)] != "" {
		kind = spans.ProvenanceComposed
	}
	template, isStated := p.parts[string(kind)]
	f := blocks.compose(template, maxPayload, p.part)
	if !isStated || f.state != whole { // a record of another program states a prompt and tools alone
		p.miss(MissingPart{Part: string(kind)})
	}
	if p.failed() {
		return p.out
	}
	b := []byte(f.body())
	if spans.WholeOf(int64(len(b)), spans.BlockOf(b)) != r.whole {
		p.broken(requestName(spans.ListRequest, r.Attempt) + ": digest")
		return p.out
	}
	p.out.Bytes = b
	exact := kind == spans.ProvenanceRest
	if p.out.Stated > 0 && exact && int64(len(b)) != p.out.Stated {
		p.out.Redacted = true
	}
	p.out.Exact = exact && !p.out.Redacted
	return p.out
}

// Param returns the parameter of a kind, of two the last; zero where there is none.
func (r *Request) Param(kind spans.ProvenanceKind) Ref {
	if r != nil {
		for _, ref := range slices.Backward(r.Params.Items()) {
			if ref.Provenance == string(kind) {
				return ref
			}
		}
	}
	return Ref{}
}

// payload is one call of Request.Payload.
type payload struct {
	blocks *BlockSet
	out    Payload

	parts  map[string]string // the bodies of params by what they are, of rest the template
	items  []Ref
	bodies []string
	next   int // message
}

func (p *payload) failed() bool { return len(p.out.Missing) > 0 || len(p.out.Defects) > 0 }

func (p *payload) miss(part MissingPart) { p.out.Missing = append(p.out.Missing, part) }

func (p *payload) broken(detail string) {
	p.out.Defects = append(p.out.Defects, Defect{Code: spans.DefectListBroken, Detail: detail})
}

// read returns the bodies of a list, and says what is missing of it. Without the list lost is missing.
func (p *payload) read(name string, refs *Refs, lost MissingPart) ([]Ref, []string) {
	if refs == nil {
		p.miss(lost)
		return nil, nil
	}
	c := p.blocks.Read(refs)
	switch {
	case !refs.end.whole || refs.known < refs.end.pos:
		p.out.Defects = append(p.out.Defects, Defect{Code: spans.DefectListUnresolved, Detail: name})
	case !refs.Complete:
		p.broken(name)
	}
	items := refs.Items()
	for _, m := range c.Missing {
		if m.Part = partMessage; lost.Part != partMessage {
			m.Part, m.Position = clip(items[m.Position].Provenance), 0
		}
		p.miss(m)
	}
	return items, c.Bodies
}

// template returns the body of a block as it is; empty if it is not there.
func (s *BlockSet) template(ref *Ref) string {
	id, err := spans.ParseShortID(ref.Block)
	if h := s.get(id); err == nil && h != nil && h.size == 0 {
		return h.body
	}
	return ""
}

// part returns a part of the request.
func (p *payload) part(piece spans.Piece, _ int64) string {
	kind := spans.ProvenanceSystem
	switch piece.Part {
	case spans.PartMessage, spans.PartMessages:
		n := min(p.next, len(p.bodies))
		if p.next++; piece.Part == spans.PartMessage {
			return strings.Join(p.bodies[n:min(p.next, len(p.bodies))], "")
		}
		p.next = len(p.bodies)
		return strings.Join(p.bodies[n:], piece.Sep)
	case spans.PartProvenance:
		var list []string
		for i := range p.items {
			from, err := spans.ParseProvenance(p.items[i].Provenance)
			if err != nil {
				p.miss(MissingPart{Part: "provenance", Position: i, Block: clip(p.items[i].Block)})
			}
			list = append(list, string(from.AppendJSON(nil)))
		}
		return strings.Join(list, ",")
	case spans.PartTools:
		kind = spans.ProvenanceTools
	}
	body, ok := p.parts[string(kind)]
	if !ok {
		p.miss(MissingPart{Part: string(kind)})
	}
	return body
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
	// New says that it is one of Request.New.
	New bool `json:"new"`
	// Missing and Withheld say that the body is not there; Withheld, that it was cut or withheld at the source.
	Missing  bool `json:"missing,omitempty"`
	Withheld bool `json:"withheld,omitempty"`
	// Source is Ref.Provenance, read; zero when that says nothing that is known.
	Source spans.Provenance `json:"-"`
	// Body is the message as the loop spelled it.
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
	l, fresh := make([]Message, len(items)), r.New()
	for i, ref := range slices.Backward(items) {
		m, last := &l[i], len(fresh)-1
		if *m = (Message{Ref: ref, Position: from + i}); last >= 0 && fresh[last] == ref {
			m.New, fresh = true, fresh[:last]
		}
		m.Source, _ = spans.ParseProvenance(ref.Provenance)
		f := blocks.look(&ref)
		m.Bytes, m.Body = f.size, f.body()
		m.Role = clip(object.Of("", []byte(m.Body)).String("role"))
		m.Missing, m.Withheld = f.state == missing, f.state == withheld
	}
	return l
}
