package writer

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

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

// partialMessage is a reply as far as it came in, as a message.
type partialMessage struct {
	Content []partialText `json:"content"`
	Omitted int64         `json:"omitted_bytes,omitempty"`
	Role    string        `json:"role"`
	// headless says that Content has lost its beginning.
	headless bool
}

type partialText struct {
	Text     string `json:"text,omitempty"`
	Thinking string `json:"thinking,omitempty"`
	Type     string `json:"type"`
}

// message returns what came in; nil when that is nothing. The caller holds the lock.
func (p *partial) message() *partialMessage {
	if p == nil || p.bytes == 0 && p.withheld == 0 {
		return nil
	}
	p.cut()
	m := &partialMessage{Role: "assistant", Omitted: p.gone + p.withheld, headless: p.gone > 0}
	for _, part := range p.parts {
		text := partialText{Text: string(part.text), Type: string(part.kind)}
		if part.kind == PartialReasoning {
			text = partialText{Thinking: string(part.text), Type: "thinking"}
		}
		m.Content = append(m.Content, text)
	}
	return m
}

// redacted returns what may be sent of m, and in how many places a redactor changed it. With a redactor nothing is sent
// of a reply that has lost its beginning, and of others not the last line: no rule finds a part of a secret.
func (m *partialMessage) redacted(c *Config) (msg Message, changed int) {
	if c.Redactor != nil {
		held := 0
		for _, text := range m.Content {
			held += len(text.Text) + len(text.Thinking)
		}
		var shown partialMessage
		if !m.headless {
			whole := Message{Role: m.Role, Raw: (&partialMessage{Content: m.Content, Role: m.Role}).json()}
			var body []byte
			body, changed = c.redact(pieceOf(&whole))
			if json.Unmarshal(body, &shown) == nil && len(shown.Content) > 0 {
				last := &shown.Content[len(shown.Content)-1]
				text, thinking := wholeLines(last.Text), wholeLines(last.Thinking)
				rest := len(last.Text) + len(last.Thinking) - len(text) - len(thinking)
				if last.Text, last.Thinking = text, thinking; text+thinking == "" {
					shown.Content = shown.Content[:len(shown.Content)-1]
				}
				if len(shown.Content) > 0 {
					held = rest
				}
			}
		}
		m.Content, m.Omitted = shown.Content, m.Omitted+int64(held)
	}
	return Message{Role: m.Role, Raw: m.json()}, changed
}

func wholeLines(text string) string { return text[:strings.LastIndexAny(text, "\r\n")+1] }

// json returns the JSON of m.
func (m *partialMessage) json() []byte {
	if m.Content == nil {
		m.Content = []partialText{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(m) // it never fails for strings
	return bytes.TrimSpace(b.Bytes())
}

// keepPartial makes what came in the output of a turn that has none. The caller holds the lock.
func (t *Turn) keepPartial(a *attrs) {
	said := t.partial.message()
	if said == nil || t.ended || !t.capturing() {
		return
	}
	msg, changed := said.redacted(&t.tracer.config)
	t.content.redacted += int64(changed)
	t.content.setMessages(t.origin, spans.ListOutput, []Message{msg})
	a.yes(spans.PartialKey, true)
}
