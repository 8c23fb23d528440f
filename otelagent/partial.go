package otelagent

import (
	"bytes"
	"strconv"
	"time"
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

// maxPartialParts bounds the stretches of one kind that are told apart; earlier ones are dropped.
const maxPartialParts = 256

// DefaultPartialInterval is how often partial output leaves unless WithPartialOutput says otherwise.
const DefaultPartialInterval = time.Second

// WithPartialOutput keeps the last 64 KiB of the reply as it comes in (see [Turn.Partial]), for turns that end without one; with WithLive
// the copies of an open turn show them, renewed no more often than interval. It is content: nothing is kept unless the level of
// capture is CaptureContent. A redactor sees the whole of what is kept, as a message of the assistant; with one, what stands behind the
// last blank is held back, for it may be half of a secret. Default: nothing is kept. An interval below 1 is DefaultPartialInterval.
func WithPartialOutput(interval time.Duration) Option {
	return optionFunc(func(c config) config {
		if interval < 1 {
			interval = DefaultPartialInterval
		}
		c.partialEvery = interval
		return c
	})
}

// Partial tells of a piece of the reply as it comes in, without the pieces before. It does nothing without WithPartialOutput. Of a
// reply of more than 64 KiB the end is kept. A later attempt begins anew. text is copied.
func (t *Turn) Partial(kind PartialKind, text []byte) {
	if !t.keepsPartial() || len(text) == 0 {
		return
	}
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	if t.partial == nil {
		t.partial = &partial{}
	}
	t.partial.add(kind, text)
	t.mu.Unlock()
	t.changed(t.tracer.config.partialEvery)
}

func (t *Turn) keepsPartial() bool {
	return t != nil && t.tracer.config.partialEvery > 0 && t.sent && t.capture == CaptureContent
}

// partial is a reply as far as it came in. Guarded by handle.mu.
type partial struct {
	parts []partialPart
	bytes int
	// gone is how many bytes were dropped from its beginning.
	gone int64
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

// said returns what is to be told of it; nil when that is nothing. The caller holds the lock.
func (p *partial) said() *partial {
	if p == nil || p.bytes == 0 {
		return nil
	}
	p.cut()
	q := &partial{parts: make([]partialPart, len(p.parts)), bytes: p.bytes, gone: p.gone}
	for i, part := range p.parts {
		q.parts[i] = partialPart{part.kind, bytes.Clone(part.text)}
	}
	return q
}

// message is what came in as a message of the assistant. With a redactor it begins and ends at a blank: half of a secret is none that a
// rule would find. False when nothing is left.
func (p *partial) message(redacted bool) (Message, bool) {
	if p == nil {
		return Message{}, false
	}
	raw, left := []byte(`{"content":[`), false
	for i, part := range p.parts {
		text := part.text
		if redacted && i == 0 && p.gone > 0 {
			text = text[bytes.IndexAny(text, blanks)+1:]
		}
		if redacted && i == len(p.parts)-1 {
			text = text[:bytes.LastIndexAny(text, blanks)+1]
		}
		if len(text) == 0 {
			continue
		}
		if left {
			raw = append(raw, ',')
		}
		left = true
		key, typ := "text", string(part.kind)
		if part.kind == PartialReasoning {
			key, typ = "thinking", "thinking"
		}
		raw = append(append(raw, `{"`...), key...)
		raw = rawjson.Quote(append(raw, `":`...), string(text))
		raw = append(rawjson.Quote(append(raw, `,"type":`...), typ), '}')
	}
	raw = append(raw, ']')
	if p.gone > 0 {
		raw = strconv.AppendInt(append(raw, `,"omitted_bytes":`...), p.gone, 10)
	}
	return Message{Role: "assistant", Raw: append(raw, `,"role":"assistant"}`...)}, left
}

const blanks = " \t\r\n"

// list makes the list of an output that is not complete, and its only block, for a copy that leaves now and again later.
func (p *partial) list(o *origin) (list, body string, ok bool) {
	c := &o.tracer.config
	msg, ok := p.message(c.redactor != nil)
	if !ok {
		return "", "", false
	}
	text, _ := c.redact(msg.piece())
	text = validBytes(text)
	id := spans.BlockOf(text)
	l := contentList{name: spans.ListOutput}
	l.add(id, spans.Item{Block: id.Short()})
	return l.pack(o.run), string(text), true
}

// keepPartial makes what came in the output of a turn that has none. The caller holds the lock.
func (t *Turn) keepPartial(a *attrs) {
	if t.partial == nil || t.ended || !t.capturing() {
		return
	}
	t.partial.cut()
	if msg, ok := t.partial.message(t.tracer.config.redactor != nil); ok {
		t.content.setMessages(t.origin, spans.ListOutput, []Message{msg})
		a.yes(spans.PartialKey, true)
	}
}
