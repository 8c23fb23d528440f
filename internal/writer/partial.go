package writer

import (
	"bytes"
	"encoding/json"
	"strconv"
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
// Config.PartialEvery. Of a reply of more than 64 KiB the end is kept. A later attempt begins anew. text is copied.
func (t *Turn) Partial(kind PartialKind, text []byte) {
	if !t.keepsPartial() || len(text) == 0 {
		return
	}
	t.mu.Lock()
	if t.ended || t.reply != nil { // what is whole has no further pieces
		t.mu.Unlock()
		return
	}
	if t.partial == nil {
		t.partial = &partial{}
	}
	if kind == PartialToolInput && t.tracer.config.Redactor != nil {
		t.partial.withheld += int64(len(text)) // rules by member, path or place would need all of it
	} else {
		t.partial.add(kind, text)
	}
	t.mu.Unlock()
	t.changed(t.tracer.config.PartialEvery)
}

func (t *Turn) keepsPartial() bool {
	return t != nil && t.tracer.config.PartialEvery > 0 && t.sent && t.capture == CaptureContent
}

// partial is a reply as far as it came in. Guarded by handle.mu.
type partial struct {
	parts []partialPart
	bytes int
	// gone is how many bytes were dropped from its beginning.
	gone int64
	// withheld is how many bytes of tool input a redactor keeps from being kept.
	withheld int64
}

type partialPart struct {
	kind PartialKind
	text []byte
}

func (p *partial) add(kind PartialKind, text []byte) {
	if over := len(text) - MaxPartialBytes; over > 0 {
		p.gone += int64(over)
		text = text[over:]
	}
	if n := len(p.parts); n > 0 && p.parts[n-1].kind == kind {
		p.parts[n-1].text = append(p.parts[n-1].text, text...)
	} else {
		p.parts = append(p.parts, partialPart{kind, bytes.Clone(text)})
	}
	p.bytes += len(text)
	// Twice as much may wait to be cut, so that each byte is moved once at most.
	if p.bytes > 2*MaxPartialBytes || len(p.parts) > maxPartialParts {
		p.cut()
	}
}

// cut drops what is too much from the beginning.
func (p *partial) cut() {
	for len(p.parts) > 0 && (p.bytes > MaxPartialBytes || len(p.parts) > maxPartialParts) {
		first := &p.parts[0]
		n := min(p.bytes-MaxPartialBytes, len(first.text))
		if n < len(first.text) && len(p.parts) <= maxPartialParts {
			for n < len(first.text) && !utf8.RuneStart(first.text[n]) {
				n++
			}
			first.text = append(first.text[:0:0], first.text[n:]...)
		} else {
			n = len(first.text)
			p.parts = p.parts[1:]
		}
		p.bytes -= n
		p.gone += int64(n)
	}
}

// said returns what a copy may show of it; nil when that is nothing. The caller holds the lock.
func (p *partial) said() *partial {
	if p == nil || p.bytes == 0 && p.withheld == 0 {
		return nil
	}
	p.cut()
	q := &partial{parts: make([]partialPart, len(p.parts)), bytes: p.bytes, gone: p.gone, withheld: p.withheld}
	for i, part := range p.parts {
		q.parts[i] = partialPart{part.kind, bytes.Clone(part.text)}
	}
	return q
}

// message is what a copy may show of what came in, as a message of the assistant that the redactor has seen, and in how
// many places the redactor changed it. False when it is nothing.
func (p *partial) message(c *Config) (msg Message, changed int, ok bool) {
	if p == nil {
		return Message{}, 0, false
	}
	parts, omitted := p.parts, p.gone+p.withheld
	if c.Redactor != nil && p.gone > 0 { // the rest of a secret that has lost its beginning is none that a rule finds
		parts, omitted = nil, omitted+int64(p.bytes)
	} else if c.Redactor != nil {
		body, n := c.redact((&Message{Role: roleAssistant, Raw: partialJSON(parts, 0)}).piece())
		var held int
		if parts, held = wholeLines(body); len(parts) == 0 {
			held = p.bytes
		}
		omitted, changed = omitted+int64(held), n
	}
	if len(parts) == 0 && omitted == 0 {
		return Message{}, 0, false
	}
	return Message{Role: roleAssistant, Raw: partialJSON(parts, omitted)}, changed, true
}

const roleAssistant = "assistant"

func partialJSON(parts []partialPart, omitted int64) []byte {
	raw := []byte(`{"content":[`)
	for i, part := range parts {
		if i > 0 {
			raw = append(raw, ',')
		}
		key, typ := "text", string(part.kind)
		if part.kind == PartialReasoning {
			key, typ = "thinking", "thinking"
		}
		raw = append(append(raw, `{"`...), key...)
		raw = rawjson.Quote(append(raw, `":`...), string(part.text))
		raw = append(rawjson.Quote(append(raw, `,"type":`...), typ), '}')
	}
	raw = append(raw, ']')
	if omitted > 0 {
		raw = strconv.AppendInt(append(raw, `,"omitted_bytes":`...), omitted, 10)
	}
	return append(raw, `,"role":"assistant"}`...)
}

// wholeLines returns the parts of a message that a redactor has seen, up to the last line break: what follows it may be
// half of a secret. It returns how many bytes that is. Nothing when the redactor kept no such message.
func wholeLines(redacted []byte) (parts []partialPart, held int) {
	var msg struct {
		Content []struct{ Text, Thinking string }
	}
	if json.Unmarshal(redacted, &msg) != nil {
		return nil, 0
	}
	for i, said := range msg.Content {
		part := partialPart{PartialText, []byte(said.Text)}
		if said.Thinking != "" {
			part = partialPart{PartialReasoning, []byte(said.Thinking)}
		}
		if i == len(msg.Content)-1 {
			end := bytes.LastIndexAny(part.text, "\r\n") + 1
			part.text, held = part.text[:end], len(part.text)-end
		}
		if len(part.text) > 0 {
			parts = append(parts, part)
		}
	}
	return parts, held
}

// list makes the list of an output that is not complete, and its only block, for a copy that is sent now and again
// later.
func (p *partial) list(o *origin) (list, body string, ok bool) {
	c := &o.tracer.config
	msg, _, ok := p.message(c)
	if !ok {
		return "", "", false
	}
	text := validBytes(msg.Raw)
	l := contentList{List: spans.List{Name: spans.ListOutput}}
	l.add(spans.Item{Block: spans.BlockOf(text).Short()})
	return l.pack(), string(text), true
}

// keepPartial makes what came in the output of a turn that has none. The caller holds the lock.
func (t *Turn) keepPartial(a *attrs) {
	if t.partial == nil || t.ended || !t.capturing() {
		return
	}
	t.partial.cut()
	if msg, changed, ok := t.partial.message(&t.tracer.config); ok {
		t.content.redacted += int64(changed)
		t.content.setMessages(t.origin, spans.ListOutput, []Message{msg})
		a.yes(spans.PartialKey, true)
	}
}
