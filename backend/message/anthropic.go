package message

import (
	"maps"
	"slices"
	"strings"
)

// defaultMaxTokens bounds the answer where the request does not: the API demands a bound.
const defaultMaxTokens = "4096"

// anthropic returns the members of a body of the Messages API, but for model and tools.
func (w *writer) anthropic() []any {
	for len(w.Messages) > 0 && w.Messages[0].Role == system {
		w.note("changed: a first system message moves to the system prompt", w.Messages[0].where())
		w.System, w.Messages = append(slices.Clip(w.System), w.Messages[0].Parts...), w.Messages[1:]
	}
	if w.Params[MaxTokens] == nil {
		w.Params = maps.Clone(w.Params)
		w.Params[MaxTokens] = []byte(defaultMaxTokens)
		w.note("added: max_tokens "+defaultMaxTokens+", since the API demands a bound", "")
	}
	var format, output []byte
	if w.Format.Schema != nil {
		format = Build("type", "json_schema", "schema", w.Format.Schema)
	} else if w.Format.JSON {
		w.leave("parameter answer as JSON", nil)
	}
	level := w.effort()
	if level != "" {
		w.note("changed: the level of reasoning becomes output_config.effort, which not every model takes", "")
	}
	if level != "" || format != nil {
		output = Build("effort", level, "format", format)
	}
	messages := [][]byte{}
	for i := 0; i < len(w.Messages); i++ {
		m := w.Messages[i]
		role := m.Role
		m.Parts = slices.Clip(m.Parts)
		for ; m.Role == tool && i+1 < len(w.Messages); i++ { // a message holds all results, and what came with them
			next := &w.Messages[i+1]
			if next.Role != tool && (next.Role != user || next.Index != w.Messages[i].Index) {
				break
			}
			m.Parts = append(m.Parts, next.Parts...)
		}
		if m.Role == tool {
			role = "user"
		}
		if content := w.content(m.Parts, &m, kinds...); content != nil {
			messages = append(messages, Build("role", role, "content", content))
		}
	}
	system := w.content(w.System, nil, Text)
	return append(w.parameters(), "output_config", output, "system", system, "messages", Array(messages))
}

func (w *writer) anthropicBlock(p *Part, m *Message) []byte {
	text := p.text()
	switch p.Type {
	case Text:
		if text != "" {
			return Build("type", "text", "text", text)
		}
		return w.leave("an empty text", m)
	case Reasoning:
		switch {
		case p.Signature == "":
			return w.leave("reasoning without a signature", m)
		case p.Provider != "" && !strings.Contains(p.Provider, "anthropic"):
			return w.leave("reasoning that another provider signed", m)
		case text == "":
			return Build("type", "redacted_thinking", "data", p.Signature)
		}
		return Build("type", "thinking", "thinking", text, "signature", p.Signature)
	case ToolCall:
		input := p.Content
		if !is(input, '{') {
			w.note("changed: arguments that are not an object become an object with the key input", m.where())
			input = Build("input", input)
		}
		return Build("type", "tool_use", "id", p.ID, "name", Quote(p.Name), "input", input)
	case ToolResult:
		var isError []byte
		if p.IsError {
			isError = []byte("true")
		}
		content := w.content(p.Parts, m, Text, media)
		return Build("type", "tool_result", "tool_use_id", p.ID, "content", content, "is_error", isError)
	}
	kind, types, name := p.Modality, []string{"image/png", "image/jpeg", "image/gif", "image/webp"}, ""
	if kind == "document" {
		types, name = []string{"application/pdf"}, p.Name
	}
	switch {
	case kind != "image" && kind != "document" || p.url() == "":
	case p.Type == "uri":
		return Build("type", kind, "source", Build("type", "url", "url", text), "title", name)
	case slices.Contains(types, p.MIME):
		source := Build("type", "base64", "media_type", p.MIME, "data", text)
		return Build("type", kind, "source", source, "title", name)
	}
	return w.leave(p.Describe(), m)
}
