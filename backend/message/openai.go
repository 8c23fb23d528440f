package message

import (
	"cmp"
	"strings"
)

// chat returns the members of a body of OpenAI's Chat Completions API, but for model and tools.
func (w *writer) chat() []any {
	messages := [][]byte{}
	if prompt := w.content(w.System, nil, Text); prompt != nil {
		messages = append(messages, Build("role", "system", "content", prompt))
	}
	for i := range w.Messages {
		messages = append(messages, w.chatMessage(&w.Messages[i])...)
	}
	members := append([]any{"messages", Array(messages)}, w.parameters()...)
	members = append(members, "reasoning_effort", w.effort())
	if format := w.format(); w.Format.Schema != nil {
		members = append(members, "response_format", Build("type", "json_schema", "json_schema", Build(format[2:]...)))
	} else if format != nil {
		members = append(members, "response_format", Build(format...))
	}
	return members
}

// format returns the members of the format of the answer, nil for text. OpenAI demands a name for a schema.
func (w *writer) format() []any {
	f := &w.Format
	switch {
	case f.Schema != nil:
		if f.Name == "" {
			w.note("added: name of the schema of the answer", "")
		}
		return []any{"type", "json_schema", "name", cmp.Or(f.Name, "answer"), "schema", f.Schema, "strict", f.Strict}
	case f.JSON:
		return []any{"type", "json_object"}
	}
	return nil
}

// chatMessage returns a message. Each result of a tool is a message of its own.
func (w *writer) chatMessage(m *Message) (out [][]byte) {
	var calls [][]byte
	var said []Part
	for i := range m.Parts {
		switch p := &m.Parts[i]; {
		case p.Type == ToolResult:
			out = append(out, Build("role", "tool", "tool_call_id", p.ID, "content", w.result(p, m, Text)))
		case p.Type == ToolCall && m.Role == assistant:
			call := Build("name", Quote(p.Name), "arguments", argumentsText(p))
			calls = append(calls, Build("id", p.ID, "type", "function", "function", call))
		default:
			said = append(said, *p)
		}
	}
	kinds := []string{Text, media}
	if m.Role != user {
		kinds = kinds[:1]
	}
	content, toolCalls := w.content(said, m, kinds...), []byte(nil)
	if calls != nil {
		toolCalls = Array(calls)
		if content == nil {
			content = []byte("null")
		}
	}
	if content != nil {
		out = append(out, Build("role", m.Role, "content", content, "tool_calls", toolCalls))
	}
	return out
}

// result returns the content of a result.
func (w *writer) result(p *Part, m *Message, kinds ...string) []byte {
	if p.IsError {
		w.leave("that a tool result is an error", m)
	}
	if content := w.content(p.Parts, m, kinds...); content != nil {
		return content
	}
	return Quote("")
}

// openAIBlock returns a block of content, which both APIs have in different forms.
func (w *writer) openAIBlock(p *Part, m *Message) []byte {
	chat, address := w.api == OpenAIChat, p.url()
	detail := cmp.Or(child(p.Block, "image_url").Text("detail"), p.Block.Text("detail"))
	switch kind := p.Modality; {
	case p.Type == Text && chat:
		return Build("type", "text", "text", Quote(p.text()))
	case p.Type == Text:
		return Build("type", "input_text", "text", Quote(p.text()))
	case kind == "image" && address != "" && chat:
		return Build("type", "image_url", "image_url", Build("url", address, "detail", detail))
	case kind == "image" && address != "":
		return Build("type", "input_image", "detail", cmp.Or(detail, "auto"), "image_url", address)
	case kind == "document" && p.Type == "blob" && address != "" && chat:
		return Build("type", "file", "file", Build("filename", p.Name, "file_data", address))
	case kind == "document" && p.Type == "blob" && address != "":
		return Build("type", "input_file", "filename", p.Name, "file_data", address)
	case kind == "document" && address != "" && !chat:
		return Build("type", "input_file", "file_url", address)
	}
	return w.leave(p.Describe(), m)
}

// argumentsText returns arguments as OpenAI has them: JSON in a string, or a string that is no JSON as it is spelled.
func argumentsText(p *Part) []byte {
	if is(p.Content, '"') {
		return p.Content
	}
	return Quote(string(p.Content))
}

// responses returns the members of a body of OpenAI's Responses API, but for model and tools.
func (w *writer) responses() []any {
	w.content(w.System, nil, Text) // notes other kinds
	items := [][]byte{}
	for i := range w.Messages {
		items = append(items, w.items(&w.Messages[i])...)
	}
	members := []any{"instructions", JoinText(w.System, false), "input", Array(items)}
	members = append(members, w.parameters()...)
	if level := w.effort(); level != "" {
		members = append(members, "reasoning", Build("effort", level))
	}
	if format := w.format(); format != nil {
		members = append(members, "text", Build("format", Build(format...)))
	}
	return members
}

// items returns a message as items, in the order of its parts. Each text of a model is an item of its own.
func (w *writer) items(m *Message) (out [][]byte) {
	role, kinds := m.Role, []string{Text, media}
	switch m.Role {
	case system:
		role = "developer"
	case assistant:
		kinds = kinds[:1]
	}
	for i := 0; i < len(m.Parts); {
		end := i
		for end < len(m.Parts) && isContent(m.Parts[end]) && (end == i || m.Role != assistant) {
			end++
		}
		if end == i {
			if b := w.item(&m.Parts[i], m); b != nil {
				out = append(out, b)
			}
			end++
		} else if content := w.content(m.Parts[i:end], m, kinds...); content != nil {
			out = append(out, Build("role", role, "content", content))
		}
		i = end
	}
	return out
}

func (w *writer) item(p *Part, m *Message) []byte {
	switch p.Type {
	case Reasoning:
		if p.Signature == "" || !strings.Contains(p.Provider, "openai") || p.ID == "" {
			return w.leave("reasoning that is not this provider's", m)
		}
		var summary [][]byte
		if text := p.text(); text != "" {
			summary = append(summary, Build("type", "summary_text", "text", text))
		}
		return Build("type", "reasoning", "id", p.ID, "summary", Array(summary), "encrypted_content", p.Signature)
	case ToolCall:
		return Build("type", "function_call", "call_id", p.ID, "name", Quote(p.Name), "arguments", argumentsText(p))
	case ToolResult:
		return Build("type", "function_call_output", "call_id", p.ID, "output", w.result(p, m, Text, media))
	}
	return w.leave(p.Describe(), m)
}
