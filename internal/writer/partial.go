package writer

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// PartialKind says what a piece of a reply is.
type PartialKind string

// The kinds of pieces.
const (
	PartialText      PartialKind = "text"
	PartialReasoning PartialKind = "reasoning"
	// PartialToolInput is the JSON of a tool call's arguments, as far as it came in.
	PartialToolInput PartialKind = "tool_input"
)

// MaxPartialBytes bounds what is kept of a reply that comes in piece by piece: its last bytes.
const MaxPartialBytes = 64 << 10

// maxPartialParts bounds the stretches of one kind that are kept separately; earlier ones are dropped.
const maxPartialParts = 256

// Partial records a piece of the reply as it comes in, without the pieces before. It does nothing without
// Config.PartialEvery. Of a reply of more than 64 KiB the end is kept. With a redactor only the number of bytes is
// kept, since no rule finds half of a secret. A later attempt begins anew. text is copied.
func (t *Turn) Partial(kind PartialKind, text []byte) {
	if t == nil || t.tracer.config.PartialEvery <= 0 || !t.sent || t.capture != spans.CaptureContent || len(text) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.reply != nil { // what is whole has no further pieces
		return
	}
	if t.partial == nil {
		t.partial = &partial{}
	}
	if t.tracer.config.Redactor != nil {
		t.partial.omitted += len(text)
	} else {
		t.partial.add(kind, text)
	}
	t.changed(t.tracer.config.PartialEvery)
}

// ShowsPartial reports whether copies of the open turn show pieces of its reply.
func (t *Turn) ShowsPartial() bool { return t != nil && t.live && t.capture == spans.CaptureContent }

// partial is a reply as far as it came in. Guarded by handle.mu.
type partial struct {
	parts          []partialPart
	bytes, omitted int // that are kept, and that are not
}

type partialPart struct {
	kind PartialKind
	text []byte
}

func (p *partial) add(kind PartialKind, text []byte) {
	n := len(p.parts) - 1
	if n < 0 || p.parts[n].kind != kind {
		n, p.parts = n+1, append(p.parts, partialPart{kind: kind})
	}
	p.parts[n].text = append(p.parts[n].text, text...)
	p.bytes += len(text)
	// Twice as much may wait to be cut, so that each byte is moved once at most.
	if p.bytes > 2*MaxPartialBytes || len(p.parts) > maxPartialParts {
		p.cut()
	}
}

// cut drops what is too much from the beginning, in whole runes.
func (p *partial) cut() {
	for p.bytes > MaxPartialBytes || len(p.parts) > maxPartialParts {
		text, n := p.parts[0].text, p.bytes-MaxPartialBytes
		if n >= len(text) || len(p.parts) > maxPartialParts {
			n, p.parts = len(text), p.parts[1:]
		} else {
			for n < len(text) && !utf8.RuneStart(text[n]) {
				n++
			}
			p.parts[0].text = bytes.Clone(text[n:])
		}
		p.bytes -= n
		p.omitted += n
	}
}

// message returns what came in; nil when that is nothing. The caller holds the lock.
func (p *partial) message() *Message {
	if p == nil {
		return nil
	}
	p.cut()
	b := []byte(`{"content":[`)
	for i, part := range p.parts {
		if i > 0 {
			b = append(b, ',')
		}
		key, typ := "text", string(part.kind)
		if part.kind == PartialReasoning {
			key, typ = "thinking", "thinking"
		}
		b = rawjson.Quote(fmt.Appendf(b, `{"%s":`, key), cleanText(string(part.text)))
		b = append(rawjson.Quote(append(b, `,"type":`...), typ), '}')
	}
	b = append(b, ']')
	if p.omitted > 0 {
		b = fmt.Appendf(b, `,"omitted_bytes":%d`, p.omitted)
	}
	return &Message{Role: "assistant", Raw: append(b, `,"role":"assistant"}`...)}
}
