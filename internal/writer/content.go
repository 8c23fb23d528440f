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
	lists            []spans.List

	bytes    int   // of what is new
	known    int64 // bytes of what was sent before
	kept     int64 // how many bodies a bound kept back
	redacted int64
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
	if most := o.tracer.config.MaxBlockBytes; o.capture == spans.CaptureDigests || most > 0 && len(text) > most {
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
	m.credit += int64(n) / completeShare
}

// withhold sends size and SHA-256 of a text, and its first n bytes.
func (c *content) withhold(m *memory, o *origin, text string, n int) spans.ShortID {
	id := spans.BlockOfString(text)
	if !m.claim(id) || len(text) == 0 {
		c.known += int64(len(text))
		return id.Short()
	}
	if o.capture == spans.CaptureDigests {
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
func (c *content) list(name string) *spans.List {
	i := slices.IndexFunc(c.lists, func(l spans.List) bool { return l.Name == name && l.Attempt == 0 })
	if i < 0 {
		i, c.lists = len(c.lists), append(c.lists, spans.List{Name: name})
	}
	return &c.lists[i]
}

// drop removes the list of that name and attempt, and reports whether there was one.
func (c *content) drop(name string, attempt int) bool {
	before := len(c.lists)
	c.lists = slices.DeleteFunc(c.lists, func(l spans.List) bool { return l.Name == name && l.Attempt == int64(attempt) })
	return len(c.lists) < before
}

// setMessages makes messages the list, nothing when that is nil; it is there afterwards even when there are none. It
// returns what may be sent of the last.
func (c *content) setMessages(o *origin, name string, messages []Message) (text []byte) {
	if messages == nil {
		return nil
	}
	c.drop(name, 0)
	c.list(name)
	m := o.tracer.sessions.open(o)
	defer m.close()
	for i := range messages {
		text = c.addMessage(m, o, name, &messages[i])
	}
	return text
}

// addMessage appends a message to a list. It returns what may be sent of it.
func (c *content) addMessage(m *memory, o *origin, name string, msg *Message) (text []byte) {
	text = c.redact(o, pieceOf(msg))
	it := spans.Item{Block: c.block(m, o, string(text)), Provenance: c.provenance(o, &msg.Provenance)}
	c.list(name).Add(it)
	return text
}

// provenance returns what may be sent of p. What has no short form a producer wrote: it is content. Limit: 1 KiB;
// longer ones are left out.
func (c *content) provenance(o *origin, p *spans.Provenance) string {
	switch {
	case len(p.Kind)+len(p.Name)+len(p.Tier)+len(p.RecordID)+len(p.Role)+len(p.Raw) > maxProvenance:
		return ""
	case p.Raw == "":
		return cleanText(p.Encode())
	case o.capture == spans.CaptureDigests:
		return ""
	}
	body, _ := o.tracer.config.redact(spans.Redactable{Body: []byte(p.Raw), JSON: true, Place: spans.PlaceMessage})
	if string(body) != p.Raw {
		return ""
	}
	return cleanText(p.Encode())
}

// addBody makes body, as it came, the list; nothing when it is nil. It returns what may be sent of it.
func (c *content) addBody(o *origin, name string, body []byte) (text []byte) {
	if body != nil {
		var id spans.ShortID
		id, text = c.reference(o, spans.Redactable{Body: body, JSON: true, Place: name})
		c.list(name).Add(spans.Item{Block: id})
	}
	return text
}

// reference keeps p to be sent. It returns the name of its block, and its text.
func (c *content) reference(o *origin, p spans.Redactable) (id spans.ShortID, text []byte) {
	text = c.redact(o, p)
	m := o.tracer.sessions.open(o)
	defer m.close()
	return c.block(m, o, string(text)), text
}

// empty reports whether there is nothing to emit.
func (c *content) empty() bool { return len(c.bodies)+len(c.withheld)+len(c.lists) == 0 }

// events returns the attributes of the events that carry what there is. None takes more than most bytes, if it can: a
// block of more than that goes alone. Lists come first: a pipeline that keeps only the first attributes keeps the names
// of the blocks that it dropped.
func (c *content) events(most int) (events [][]attribute.KeyValue) {
	lists := make([]string, len(c.lists))
	for i := range lists {
		lists[i] = c.lists[i].Encode()
	}
	var now []attribute.KeyValue
	room := most
	for _, part := range [...]struct {
		key   attribute.Key
		texts []string
	}{{spans.ListsKey, lists}, {spans.BlockBodiesKey, c.bodies}, {spans.BlockWithheldKey, c.withheld}} {
		from := 0
		for i, text := range part.texts {
			const overhead = 16 // of one string in an attribute
			if len(text)+overhead > room && room < most {
				if from < i {
					now = append(now, part.key.StringSlice(part.texts[from:i]))
				}
				events, now, from, room = append(events, now), nil, i, most
			}
			room -= len(text) + overhead
		}
		if from < len(part.texts) {
			now = append(now, part.key.StringSlice(part.texts[from:]))
		}
	}
	return append(events, now)
}

// carry puts content on children of h, whose names begin with prefix: each is an instant. With an empty prefix h itself
// carries the first part.
func (h *handle) carry(c *content, prefix string, at time.Time) {
	if c.empty() {
		return
	}
	for i, kv := range c.events(h.tracer.config.MaxSpanBytes) {
		event := []trace.EventOption{trace.WithTimestamp(at), trace.WithAttributes(kv...)}
		if i == 0 && prefix == "" {
			h.span.AddEvent(spans.EventBlocks, event...)
			continue
		}
		a, child, id := h.attrs(), handle{origin: h.origin}, h.id
		end := a.instant(at)
		id.call = id.span + "/" + id.call + "/" + prefix + strconv.Itoa(i) // a call without an id is not its turn
		child.begin(context.Background(), h, &kindPayload, Moment{Time: at}, a, id)
		child.span.AddEvent(spans.EventBlocks, event...)
		child.span.End(trace.WithTimestamp(end))
	}
}

// validBytes returns b, or a copy with U+FFFD for each byte that is not UTF-8.
func validBytes(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return []byte(cleanText(string(b)))
}
