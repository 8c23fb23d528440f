package writer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// ParseRequest reads the request of a model API from the body of the HTTP request: Anthropic messages, OpenAI chat
// completions and responses, Gemini generateContent, Ollama chat, phi-core's request payload, and what is spelled like
// these. It sets
//
//   - Messages, each with Role and ToolCallID, from messages, input or contents
//   - System and Tools, Model (Gemini's is in the URL), MaxTokens, Temperature, Level of reasoning and Format
//   - Payload and Bytes
//
// The error names the key and what is allowed there. The Request then holds what could be read; of a body that is no
// JSON object only Payload and Bytes. The result refers to payload, and is valid as long as that does not change.
// Limits: 131,072 messages; a longer array of them is not read. 200 levels of nesting.
func ParseRequest(payload []byte) (Request, error) { return ReadRequest(payload, readHeading) }

// ReadRequest is ParseRequest for a dialect that has its own way to read a message, of which only Raw is set.
func ReadRequest(payload []byte, read func(*Message)) (Request, error) {
	r := Request{Payload: payload, Bytes: int64(len(payload))}
	err := rawjson.ValidUTF8(payload)
	if err == nil {
		if l := readLayout(payload, nil, nil); l.object {
			err = r.parse(&l, read)
		} else if err = rawjson.Valid(payload, rawjson.MaxDepth); err == nil {
			err = errors.New("want an object, got " + rawjson.KindOf(bytes.TrimSpace(payload)))
		}
	}
	if err != nil {
		err = fmt.Errorf("otelagent: request: %w", err)
	}
	return r, err
}

// parse reads the payload into the fields that are not set.
func (r *Request) parse(l *layout, read func(*Message)) error {
	if !l.find(spans.PartMessages).empty() {
		r.Messages = make([]Message, len(l.texts))
		for i, at := range l.texts {
			r.Messages[i].Raw = at.of(r.Payload)
			read(&r.Messages[i])
		}
	}
	return l.fill(r)
}

// layout says where the parts of a request are in its payload.
type layout struct {
	payload []byte
	object  bool // the payload is a JSON object; else nothing else is known
	members []member
	texts   []extent // the messages
}

// member is one member of the payload.
type member struct {
	key    []byte         // as it is spelled, with its quotes
	start  int            // of the key
	part   spans.PartKind // 0 for other parameters
	extent                // of the value
}

// extent is where a text is. It is empty for what is not there.
type extent struct{ from, to int }

func (e extent) of(b []byte) []byte { return b[e.from:e.to:e.to] }

func (e extent) empty() bool { return e.to == 0 }

// maxRequestMessages bounds the messages of a request that are recorded separately.
const maxRequestMessages = 1 << 17

// readLayout reads a payload in UTF-8. Messages that begin known are compared and not read again. texts is memory.
func readLayout(payload []byte, texts []extent, known []sentItem) layout {
	l, none := layout{payload: payload, texts: texts[:0]}, layout{payload: payload}
	c := rawjson.NewCursor(payload, rawjson.MaxDepth)
	if !c.Open('{') {
		return none
	}
	for c.More('}') {
		m := member{key: c.RawKey()}
		if m.key == nil {
			return none
		}
		c.Peek()
		m.from = c.Pos()
		m.part = l.partOf(string(m.key[1:len(m.key)-1]), c.Peek())
		if m.part == spans.PartMessages {
			for c.Open('['); c.More(']'); {
				size := 0
				if len(known) > 0 && c.Known(known[0].raw) {
					size, known = len(known[0].raw), known[1:]
				} else {
					size, known = len(c.Value()), nil
				}
				l.texts = append(l.texts, extent{c.Pos() - size, c.Pos()})
			}
		} else {
			c.Value()
		}
		m.to = c.Pos()
		m.start = bytes.LastIndex(payload[:m.from], m.key)
		l.members = append(l.members, m)
	}
	if c.End() != nil {
		return none
	}
	if len(l.texts) > maxRequestMessages {
		l.texts = nil
		for i := range l.members {
			if m := &l.members[i]; m.part == spans.PartMessages {
				m.part = 0
			}
		}
	}
	l.object = true
	return l
}

// find returns where a part is.
func (l *layout) find(part spans.PartKind) extent {
	for i := range l.members {
		if l.members[i].part == part {
			return l.members[i].extent
		}
	}
	return extent{}
}

// partOf returns which part a member is whose value begins with first; 0 where it is no part, or the part is there.
func (l *layout) partOf(name string, first byte) (part spans.PartKind) {
	switch name {
	case "messages", "input", "contents":
		if part = spans.PartMessages; first != '[' {
			return 0
		}
	case "system", "system_prompt", "instructions", "systemInstruction", "system_instruction":
		if part = spans.PartSystem; first == 'n' {
			return 0
		}
	case "tools":
		part = spans.PartTools
	case "provenance":
		part = spans.PartProvenance
	}
	if !l.find(part).empty() {
		return 0
	}
	return part
}

// fill sets the fields of r that are not set. Messages are set only where the payload has a text in their place. The
// error is the first problem.
func (l *layout) fill(r *Request) error {
	if !l.object {
		return nil
	}
	r.System, r.Tools = nil, nil
	if at := l.find(spans.PartSystem); !at.empty() {
		r.System = at.of(l.payload)
	}
	if at := l.find(spans.PartTools); !at.empty() {
		r.Tools = at.of(l.payload)
	}
	return r.parameters(object.Of("", l.others()))
}

// others returns an object of the members that are no part of their own.
func (l *layout) others() []byte {
	b := []byte{'{'}
	for _, m := range l.members {
		if m.part == 0 {
			b = append(append(append(append(b, m.key...), ':'), m.of(l.payload)...), ',')
		}
	}
	return append(bytes.TrimSuffix(b, []byte{','}), '}')
}

// readHeading takes role and tool call id from the JSON of the message.
func readHeading(msg *Message) {
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
