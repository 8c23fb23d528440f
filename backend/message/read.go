package message

import "slices"

// Read reads a message in any spelling: an object with a role, an item of OpenAI's responses, a block, or a text. Input that is not JSON is a text.
// It returns several messages where the spelling puts results of tools into a message of another role.
func Read(raw []byte) []Message {
	if !valid(raw) {
		return []Message{{Role: User, Parts: []Part{{Kind: Text, Text: string(raw)}}}}
	}
	return read(raw, 0)
}

// The keys of messages that hold role, content, or what a result answers. Every other key is a field.
var (
	answerKeys  = []string{"tool_call_id", "toolCallId", "tool_use_id"}
	messageKeys = append([]string{
		"role", "content", "parts", "id", "type", "tool_calls", "toolName", "tool_name", "isError", "is_error", "function_call", "refusal",
		"reasoning_content", "reasoning", "reasoning_details", "thinking",
	}, answerKeys...)
)

func read(raw []byte, index int) []Message {
	m := Message{Role: User, Index: index}
	o := ObjectOf(raw)
	name, typ := o.Str("role"), o.Str("type")
	if o == nil || name == "" && typ != "" && typ != "message" { // a text, or an item of OpenAI's responses
		m.Parts = Blocks(raw)
		m.Role = itemRole(m.Parts)
		return []Message{m}
	}
	role, known := RoleOf(name)
	known = known || name == ""
	m.Role, m.Fields = role, o.without(messageKeys)
	hasContent := o.Has("content", "parts")
	if !hasContent && (!known || o.Has("kind") && o.Has("data", "payload")) {
		m.Parts, m.Fields = []Part{{Kind: Unknown, Type: "extension message", Raw: raw}}, nil
		return []Message{m}
	}
	if !known {
		m.Fields = append(m.Fields, "role")
	}
	said := Blocks(o.First("content", "parts"))
	isContent := func(p Part) bool { return p.Kind == Text || p.Kind == MediaPart }
	if role == Tool && (o.Has(answerKeys...) || len(said) == 0 || slices.ContainsFunc(said, isContent)) {
		m.Parts = []Part{{
			Kind: ToolResult, ID: o.Str(answerKeys...), Name: o.Str("toolName", "tool_name", "name"), IsError: o.True("isError", "is_error"), Parts: said,
		}}
		return []Message{m}
	}
	for _, k := range []string{"reasoning_content", "reasoning", "thinking"} {
		if s := o.Str(k); s != "" {
			m.Parts = append(m.Parts, Part{Kind: Reasoning, Type: k, Text: s})
		}
	}
	m.Parts = append(append(m.Parts, Blocks(o["reasoning_details"])...), said...)
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Signature != "" && p.Provider == "" {
			p.Provider = o.Str("provider")
		}
	}
	if s := o.Str("refusal"); s != "" {
		m.Parts = append(m.Parts, Part{Kind: Text, Type: "refusal", Text: s})
	}
	calls := Elements(o["tool_calls"])
	if f := o["function_call"]; f != nil {
		calls = append(calls, f)
	}
	for _, e := range calls {
		p := Part{Kind: ToolCall, Raw: e}
		p.call(ObjectOf(e))
		m.Parts = append(m.Parts, p)
	}
	return split(m)
}

// itemRole returns the role of an item of OpenAI's responses, which states none.
func itemRole(parts []Part) Role {
	for i := range parts {
		switch p := &parts[i]; {
		case p.Kind == ToolResult:
			return Tool
		case p.Kind == ToolCall, p.Kind == Reasoning, p.Kind == Unknown && hasSuffix(p.Type, "_call"):
			return Assistant
		}
	}
	return User
}

// split moves results of tools into messages of their own, behind the calls that they answer.
func split(m Message) []Message {
	if m.Role == Tool || !slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Kind == ToolResult || p.Type == stepStart }) {
		return []Message{m}
	}
	var out []Message
	var rest, results []Part
	flush := func() {
		if len(rest) > 0 {
			out = append(out, Message{Role: m.Role, Parts: rest, Index: m.Index, Fields: m.Fields})
		}
		if len(results) > 0 {
			out = append(out, Message{Role: Tool, Parts: results, Index: m.Index})
		}
		rest, results = nil, nil
	}
	for _, p := range m.Parts {
		isResult := p.Kind == ToolResult
		if p.Type == stepStart || len(results) > 0 && !isResult && p.Kind != ToolCall {
			flush()
		}
		switch {
		case isResult:
			results = append(results, p)
		case p.Type != stepStart:
			rest = append(rest, p)
		}
	}
	flush()
	return out
}

// stepStart is the type of a block of the AI SDK that separates the replies of a model.
const stepStart = "step-start"

// ReadResult reads the result of a tool, in any spelling: a result, blocks, or any other JSON or text, which stands for itself.
func ReadResult(raw []byte) Part {
	p := Part{Kind: ToolResult, Raw: raw}
	o := Object{}
	if valid(raw) {
		o = ObjectOf(raw)
	}
	switch {
	case o.Has("content", "output", "response"):
		p.result(o)
	case o == nil && is(raw, '[') && blockList(raw):
		p.Parts = Blocks(raw)
	default:
		p.Parts = valueText(raw)
	}
	return p
}
