package message

import (
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/object"
)

// Read reads a message in any spelling: an object with a role, an item of OpenAI's responses, a block, or a text. Input
// that is not JSON is a text. It returns several messages where one holds results of tools next to other parts.
func Read(raw []byte) []Message {
	if !valid(raw) {
		return []Message{{Role: User, Parts: []Part{{Kind: Text, Text: string(raw)}}}}
	}
	return read(raw, 0)
}

func read(raw []byte, index int) []Message {
	m := Message{Role: User, Index: index}
	o := object.Of("", raw)
	name, typ := str(o, "role"), str(o, "type")
	if o == nil || name == "" && typ != "" && typ != "message" { // a text, or an item of OpenAI's responses
		m.Parts = Blocks(raw)
		for _, p := range m.Parts {
			switch {
			case p.Kind == ToolResult:
				m.Role = Tool
			case p.Kind == ToolCall, p.Kind == Reasoning, p.Kind == Unknown && strings.HasSuffix(p.Type, "_call"):
				m.Role = Assistant
			}
		}
		return []Message{m}
	}
	role, known := roles[name]
	hasContent := has(o, "content", "parts", "contents")
	if m.Role = cmp.Or(role, User); !hasContent && (!known || o.Has("kind") && has(o, "data", "payload")) {
		m.Parts = []Part{{Kind: Unknown, Type: extension, Raw: raw}}
		return []Message{m}
	}
	said := Blocks(first(o, "content", "parts", "contents"))
	result := Part{Kind: ToolResult, Name: str(o, "toolName", "tool_name")}
	result.ID = str(o, "tool_call_id", "toolCallId", "tool_use_id")
	result.IsError = string(first(o, "isError", "is_error")) == "true"
	isContent := func(p Part) bool { return p.Kind == Text || p.Kind == MediaPart }
	if role == Tool && (result.ID+result.Name != "" || said == nil || slices.ContainsFunc(said, isContent)) {
		result.Parts = said
		m.Parts = []Part{result}
	} else {
		m.content(o, said)
	}
	o.Use("id")
	if m.Fields = unread(o); !known {
		m.Fields = append(m.Fields, "role")
	}
	return split(m)
}

// content adds the parts of a message: those of its content, and those that have keys of their own.
func (m *Message) content(o *object.Object, said []Part) {
	for _, k := range []string{"reasoning_content", "reasoning", "thinking"} {
		if s := str(o, k); s != "" {
			m.Parts = append(m.Parts, Part{Kind: Reasoning, Type: k, Text: s})
		}
	}
	m.Parts = append(append(m.Parts, Blocks(first(o, "reasoning_details"))...), said...)
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Signature != "" && p.Provider == "" {
			p.Provider = o.String("provider")
			o.Keep("provider")
		}
	}
	if s := str(o, "refusal"); s != "" {
		m.Parts = append(m.Parts, Part{Kind: Text, Type: "refusal", Text: s})
	}
	for _, e := range Elements(first(o, "tool_calls")) {
		p := Part{Kind: ToolCall, Raw: e}
		p.call(object.Of("", e))
		m.Parts = append(m.Parts, p)
	}
}

const (
	stepStart = "step-start"        // type of a block of the AI SDK between two replies of a model
	extension = "extension message" // type of a message of a loop's own kind, which no model gets
)

// split moves results of tools into messages of their own, behind the calls that they answer.
func split(m Message) (out []Message) {
	isSplit := func(p Part) bool { return p.Kind == ToolResult || p.Type == stepStart }
	if m.Role == Tool || !slices.ContainsFunc(m.Parts, isSplit) {
		return []Message{m}
	}
	var rest, results []Part
	flush := func() {
		if rest != nil {
			out = append(out, Message{Role: m.Role, Parts: rest, Index: m.Index, Fields: m.Fields})
		}
		if results != nil {
			out = append(out, Message{Role: Tool, Parts: results, Index: m.Index})
		}
		rest, results = nil, nil
	}
	for _, p := range m.Parts {
		switch {
		case p.Type == stepStart:
			flush()
		case p.Kind == ToolResult:
			results = append(results, p)
		case results != nil && p.Kind != ToolCall:
			flush()
			fallthrough
		default:
			rest = append(rest, p)
		}
	}
	flush()
	return out
}

// ReadResult reads the result of a tool, in any spelling: a result, blocks, or any other JSON or text.
func ReadResult(raw []byte) Part {
	p := Part{Kind: ToolResult, Raw: raw}
	if !valid(raw) {
		raw = Quote(string(raw))
	}
	if o := object.Of("", raw); has(o, "content", "output", "response") {
		p.result(o)
	} else {
		p.value(raw)
	}
	return p
}
