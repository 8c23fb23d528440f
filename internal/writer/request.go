package writer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// ParseRequest reads the request of a model API from the body of the HTTP request: Anthropic messages, OpenAI chat
// completions and responses, Gemini generateContent, phi-core's request payload, and what is spelled like these. It
// sets
//
//   - Messages, each with Role and ToolCallID, from messages, input or contents
//   - System and Tools, Model (Gemini's stands in the URL), MaxTokens, Temperature, Level of reasoning and Format
//   - Payload and Bytes
//
// The error names the key and what is allowed there. The Request then holds what could be read; of a body that is no
// JSON object only Payload and Bytes. The result refers to payload, and is valid as long as that does not change.
// Limits: 131,072 messages; a longer array of them is not read. 200 levels of nesting.
func ParseRequest(payload []byte) (Request, error) {
	r := Request{Payload: payload, Bytes: int64(len(payload))}
	err := rawjson.Valid(payload, rawjson.MaxDepth)
	if text := bytes.TrimSpace(payload); err == nil && text[0] != '{' {
		err = errors.New("want an object, got " + rawjson.KindOf(text))
	}
	if err == nil {
		err = r.parse()
	}
	if err != nil {
		err = fmt.Errorf("otelagent: request: %w", err)
	}
	return r, err
}

// parse reads the payload into the fields that are not set.
func (r *Request) parse() error {
	l := readLayout(r.Payload, nil, nil)
	if !l.messages.empty() {
		r.Messages = make([]Message, len(l.texts))
		for i, at := range l.texts {
			r.Messages[i].Raw = at.of(r.Payload)
			r.Messages[i].read()
		}
	}
	return l.fill(r)
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

// maxRequestMessages bounds the messages of a request that are recorded separately.
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
		case systemKey(name) && l.system.empty() && value[0] != 'n':
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
	switch name {
	case "system", "system_prompt", "instructions", "systemInstruction", "system_instruction":
		return true
	}
	return false
}

// readMessage takes the next element of the array at c.
func (l *layout) readMessage(c *rawjson.Cursor, before *resumed) {
	if before != nil && before.n == len(l.texts) && before.next(c.Known) {
		l.texts = append(l.texts, extent{c.Pos() - len(before.of.items[before.n-1].raw), c.Pos()})
		return
	}
	if value := c.Value(); len(l.texts) <= maxRequestMessages {
		l.texts = append(l.texts, extent{c.Pos() - len(value), c.Pos()})
	}
}

// fill sets the fields of r that are not set. Messages are set only where the payload has a text in their place. The
// error is the first problem.
func (l *layout) fill(r *Request) error {
	if !l.object {
		return nil
	}
	r.System, r.Tools = nil, nil
	if !l.system.empty() {
		r.System = l.system.of(l.payload)
	}
	if !l.tools.empty() {
		r.Tools = l.tools.of(l.payload)
	}
	return r.parameters(object.Of("", l.only(func(value extent) bool {
		return value != l.system && value != l.tools && value != l.messages && value != l.origins
	})))
}

// only returns an object of the members that keep selects.
func (l *layout) only(keep func(value extent) bool) []byte {
	b := []byte{'{'}
	for _, m := range l.members {
		if !keep(m.value) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, m.key...), ':'), m.value.of(l.payload)...)
	}
	return append(b, '}')
}

// read takes role and tool call id from the message.
func (msg *Message) read() {
	role, id := genaijson.Heading(msg.Raw)
	msg.Role, msg.ToolCallID = role, cmp.Or(msg.ToolCallID, id)
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
