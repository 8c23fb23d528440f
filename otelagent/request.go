package otelagent

import (
	"bytes"
	"strconv"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// ParseRequest reads a request as a provider or loop spells it: a JSON object with messages (or input, contents), a system prompt (system,
// system_prompt, instructions, systemInstruction), tools, model, and what else it has. The result refers to payload and is
// valid as long as that is not changed. Of what is no such object only Payload and Bytes are set. Limit: 131,072 messages; a longer array of
// them is not read. It never fails.
func ParseRequest(payload []byte) Request {
	r := Request{Payload: payload, Bytes: int64(len(payload))}
	r.parse()
	return r
}

// parse reads the payload into the fields that are not set.
func (r *Request) parse() {
	l := readLayout(r.Payload, nil, nil)
	l.fill(r)
	if l.messages.empty() {
		return
	}
	r.Messages = make([]Message, len(l.texts))
	for i, at := range l.texts {
		r.Messages[i].Raw = at.of(r.Payload)
		r.Messages[i].read()
	}
}

// layout says where the parts of a request stand in its payload. Extents are empty for what is not there.
type layout struct {
	payload  []byte
	object   bool // the payload is a JSON object; else nothing else is known
	members  []member
	system   extent
	tools    extent
	messages extent // the array
	origins  extent // the array of provenances
	texts    []extent
}

// member is one member of the payload: its key as it is spelled, with its quotes.
type member struct {
	key   []byte
	value extent
}

// extent is where a text stands.
type extent struct{ from, to int }

func (e extent) of(b []byte) []byte { return b[e.from:e.to:e.to] }

func (e extent) empty() bool { return e.to == 0 }

// maxRequestMessages bounds the messages of a request that are told apart.
const maxRequestMessages = 1 << 17

// readLayout reads a payload. Messages that began requests before are compared and not read again. texts is memory.
func readLayout(payload []byte, before *resumed, texts []extent) layout {
	l := layout{payload: payload, texts: texts[:0]}
	none := layout{payload: payload}
	if rawjson.ValidUTF8(payload) != nil {
		return none
	}
	c := rawjson.NewCursor(payload, rawjson.MaxDepth)
	if !c.Open('{') {
		return none
	}
	for c.More('}') {
		key := c.RawKey()
		if key == nil {
			return none
		}
		name := string(key[1 : len(key)-1])
		if messagesKey(name) && l.messages.empty() && c.Peek() == '[' {
			at := c.Pos()
			for c.Open('['); c.More(']'); {
				l.readMessage(&c, before)
			}
			l.messages = extent{at, c.Pos()}
			l.members = append(l.members, member{key, l.messages})
			continue
		}
		value := c.Value()
		where := extent{c.Pos() - len(value), c.Pos()}
		l.members = append(l.members, member{key, where})
		switch {
		case systemKey(name) && l.system.empty():
			l.system = where
		case name == "tools" && l.tools.empty():
			l.tools = where
		case name == "provenance" && l.origins.empty():
			l.origins = where
		}
	}
	if c.End() != nil {
		return none
	}
	if len(l.texts) > maxRequestMessages {
		l.messages, l.texts = extent{}, nil
	}
	l.object = true
	return l
}

// messagesKey and systemKey say what a member of a request is.
func messagesKey(name string) bool {
	return name == "messages" || name == "input" || name == "contents"
}

func systemKey(name string) bool {
	return name == "system" || name == "system_prompt" || name == "instructions" || name == "systemInstruction"
}

// readMessage takes the next element of the array at c.
func (l *layout) readMessage(c *rawjson.Cursor, before *resumed) {
	if before != nil && before.n == len(l.texts) && before.next(c.Known) {
		l.texts = append(l.texts, extent{c.Pos() - len(before.of.items[before.n-1].raw), c.Pos()})
		return
	}
	value := c.Value()
	l.texts = append(l.texts, extent{c.Pos() - len(value), c.Pos()})
}

// fill sets the fields of r that are not set, but for its messages.
func (l *layout) fill(r *Request) {
	for _, m := range l.members {
		value := m.value.of(l.payload)
		switch string(m.key[1 : len(m.key)-1]) {
		case "model", "model_id":
			r.Model = stringOr(r.Model, value)
		case "temperature":
			if t, err := strconv.ParseFloat(string(value), 64); err == nil && r.Temperature == nil {
				r.Temperature = &t
			}
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && r.MaxTokens == nil {
				r.MaxTokens = &n
			}
		case "reasoning_effort", "thinking_level":
			r.Level = stringOr(r.Level, value)
		}
	}
	if !l.object {
		return
	}
	r.System, r.Tools = nil, nil
	if !l.system.empty() {
		r.System = l.system.of(l.payload)
	}
	if !l.tools.empty() {
		r.Tools = l.tools.of(l.payload)
	}
}

// read takes role and tool call id from the message.
func (msg *Message) read() {
	c := rawjson.NewCursor(msg.Raw, rawjson.MaxDepth)
	if !c.Open('{') {
		return
	}
	for c.More('}') {
		switch key, value := c.RawKey(), c.Value(); string(key) {
		case `"role"`:
			msg.Role = stringOr("", value)
		case `"tool_call_id"`:
			msg.ToolCallID = stringOr("", value)
		}
	}
}

// stringOr returns known, or what a JSON string says where that is empty.
func stringOr(known string, value []byte) string {
	if known == "" {
		known, _ = rawjson.String(value)
	}
	return known
}

// compose makes the payload of a request of which the loop gave none.
func (r *Request) compose() []byte {
	value := func(dst, raw []byte) []byte {
		raw = validBytes(raw)
		if rawjson.Valid(raw, rawjson.MaxDepth) == nil {
			return append(dst, bytes.TrimSpace(raw)...)
		}
		return rawjson.Quote(dst, string(raw))
	}
	b := []byte{'{'}
	if r.System != nil {
		b = append(value(append(b, `"system":`...), r.System), ',')
	}
	b = append(b, `"messages":[`...)
	for i := range r.Messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = value(b, r.Messages[i].Raw)
	}
	b = append(b, ']')
	if r.Tools != nil {
		b = value(append(b, `,"tools":`...), r.Tools)
	}
	return append(b, '}')
}
