package message

import (
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Blocks reads content, which must be valid JSON: a text, a block, or an array of these.
func Blocks(raw []byte) (out []Part) {
	if !is(raw, '[') {
		return block(raw)
	}
	for _, e := range Elements(raw) {
		out = append(out, block(e)...)
	}
	return out
}

// block reads a block. It returns none for an empty text, and two for a call of the AI SDK that holds its result.
func block(raw []byte) []Part {
	if s, ok := rawjson.String(raw); ok && s != "" {
		return []Part{{Kind: Text, Text: s, Raw: raw}}
	} else if ok || raw == nil || string(raw) == "null" {
		return nil
	}
	o := object.Of("", raw)
	p := Part{Kind: Unknown, Type: str(o, "type"), Raw: raw}
	switch p.Type {
	case "text", "input_text", "output_text", "summary_text", "refusal":
		if s, ok := rawjson.String(first(o, "text", "content", "refusal")); ok {
			p.Kind, p.Text = Text, s
		}
	case "thinking", "reasoning", "reasoning_text", "redacted_thinking",
		"reasoning.text", "reasoning.encrypted", "reasoning.summary":
		p.reasoning(o)
	case "reasoning_details":
		return Blocks(first(o, "details"))
	case "toolCall", "tool_call", "tool_use", "function_call", "tool-call", "custom_tool_call":
		p.call(o)
	case "tool_result", "tool_call_response", "function_call_output", "tool-result", "custom_tool_call_output":
		p.result(o)
	case "image", "input_image", "image_url":
		p.media(o, "image")
	case "audio", "input_audio":
		p.media(o, "audio")
	case "video", "document":
		p.media(o, p.Type)
	case "file", "input_file", "resource_link", "blob", "uri":
		p.media(o, "")
	case "":
		p.gemini(o)
	default:
		if p.Type == "dynamic-tool" || strings.HasPrefix(p.Type, "tool-") && o.Has("state") {
			return p.uiTool(o)
		}
	}
	if p.Kind != Unknown && p.Kind != Reasoning {
		o.Use("id", "annotations", "state", "logprobs", "status", "index", "thought", "modality")
		p.Extra = unread(o)
	}
	return []Part{p}
}

// gemini reads a part that has no type, as Gemini and Bedrock have them.
func (p *Part) gemini(o *object.Object) {
	switch {
	case has(o, "functionCall", "function_call", "toolUse"):
		p.call(child(o, "functionCall", "function_call", "toolUse"))
	case has(o, "functionResponse", "function_response", "toolResult"):
		p.result(child(o, "functionResponse", "function_response", "toolResult"))
	case has(o, "inlineData", "inline_data", "fileData", "file_data"):
		p.media(child(o, "inlineData", "inline_data", "fileData", "file_data"), "")
	case is(o.Raw("text"), '"'):
		if p.Kind, p.Text = Text, str(o, "text"); string(o.Raw("thought")) == "true" {
			p.Kind, p.Provider, p.Signature = Reasoning, "google", str(o, "thoughtSignature", "thought_signature")
		}
	}
}

func (p *Part) call(o *object.Object) {
	p.Kind, p.Type, p.ID = ToolCall, str(o, "type"), callID(o)
	if f := child(o, "function", "custom"); f != nil {
		o = f
	}
	p.Name, p.JSON = toolName(o), arguments(first(o, "arguments", "input", "rawInput", "args"))
}

func callID(o *object.Object) string {
	return str(o, "call_id", "toolCallId", "tool_call_id", "tool_use_id", "toolUseId", "id")
}

func toolName(o *object.Object) string { return str(o, "name", "toolName", "tool_name") }

// arguments returns arguments as JSON: the JSON in a string, where the string is one.
func arguments(raw []byte) []byte {
	s, ok := rawjson.String(raw)
	switch s = strings.TrimSpace(s); {
	case raw == nil, ok && s == "":
		return []byte("{}")
	case ok && rawjson.Valid([]byte(s), rawjson.MaxDepth-2) == nil: // a body has it two levels deeper
		return []byte(s)
	}
	return raw
}

func (p *Part) result(o *object.Object) {
	p.Kind, p.ID, p.Name = ToolResult, callID(o), toolName(o)
	p.IsError = string(first(o, "is_error", "isError")) == "true"
	value := first(o, "content", "output", "response", "result")
	in := object.Of("", value)
	typ := str(in, "type")
	if denied := strings.HasPrefix(typ, "execution-"); denied || has(in, "value") { // of the AI SDK
		p.IsError = p.IsError || denied || strings.HasPrefix(typ, "error")
		if value = first(in, "value", "reason"); typ != "content" {
			p.Parts = valueText(value)
			return
		}
	}
	p.value(value)
}

// value reads the value of a result: a text, a list of blocks, or any other JSON, which a model sees as text.
func (p *Part) value(raw []byte) {
	p.Parts = Blocks(raw)
	foreign := slices.ContainsFunc(p.Parts, func(q Part) bool { return q.Kind == Unknown && q.Type == "" })
	if raw != nil && !is(raw, '"') && (foreign || !is(raw, '[')) {
		p.Parts = valueText(raw)
	}
}

// valueText returns a JSON value as the text that a model sees.
func valueText(raw []byte) []Part {
	s, ok := rawjson.String(raw)
	if !ok {
		s = cmp.Or(string(raw), "null")
	}
	return []Part{{Kind: Text, Text: s}}
}

// uiTool reads a block of a UI message of the AI SDK: a call and, once there is one, its result.
func (p *Part) uiTool(o *object.Object) []Part {
	typ := p.Type
	p.call(o)
	p.Type, p.Name = typ, cmp.Or(p.Name, strings.TrimPrefix(typ, "tool-"))
	result := Part{Kind: ToolResult, ID: p.ID, Name: p.Name, Raw: p.Raw, IsError: true}
	switch state := str(o, "state"); {
	case o.Has("errorText"):
		result.Parts = valueText(o.Raw("errorText"))
	case o.Has("output"), state == "output-available":
		result.IsError, result.Parts = false, valueText(o.Raw("output"))
	case state == "output-denied":
		result.Parts = []Part{{Kind: Text, Text: "Tool execution denied."}}
	default:
		return []Part{*p}
	}
	return []Part{*p, result}
}

func (p *Part) reasoning(o *object.Object) {
	p.Kind, p.Text, p.ID = Reasoning, str(o, "thinking", "text", "content", "summary"), str(o, "id")
	if p.Text == "" { // an item of OpenAI's responses
		p.Text = JoinText(append(Blocks(o.Raw("summary")), Blocks(o.Raw("content"))...), false)
	}
	p.Signature = str(o, "encrypted_content", "signature", "data")
	switch format := str(o, "format"); {
	case p.Type == "redacted_thinking", strings.HasPrefix(format, "anthropic"):
		p.Provider = "anthropic"
	case o.Has("encrypted_content"), strings.HasPrefix(format, "openai"):
		p.Provider = "openai"
	case strings.HasPrefix(p.Type, "reasoning."):
		p.Provider = cmp.Or(format, "unknown")
	}
}

// The keys that hold an address, and those that hold an object, an address or data.
var (
	urlKeys   = []string{"url", "uri", "file_url", "fileUri", "file_uri"}
	mediaKeys = []string{"source", "image_url", "input_audio", "file", "audio", "image", "data", "content"}
)

// media reads an image, sound, video or file. A block without content or address stays unknown.
func (p *Part) media(o *object.Object, modality string) {
	in, m := o, &p.Media
	for _, k := range mediaKeys {
		if c := object.Of("", o.Raw(k)); c != nil {
			in = c
		}
	}
	get := func(keys ...string) string { return cmp.Or(str(in, keys...), str(o, keys...)) }
	p.Name, m.MIME = get("filename", "name", "title"), get("mediaType", "media_type", "mimeType", "mime_type")
	m.FileID, m.Detail = get("file_id"), get("detail")
	address, data := get(urlKeys...), get(append([]string{"file_data"}, mediaKeys...)...)
	if strings.Contains(data, "://") || strings.HasPrefix(data, "data:") {
		address, data = data, ""
	}
	if m.URL, m.Data = address, data; address+data+m.FileID == "" {
		p.Media = Media{}
		return
	}
	m.dataURL()
	if modality == "image" && m.MIME == "" && m.URL == "" {
		m.MIME = "image/png"
	}
	p.Kind = MediaPart
	major, _, _ := strings.Cut(m.MIME, "/")
	for _, name := range []string{str(o, "modality"), modality, major, "document"} {
		if m.Modality == "" && slices.Contains([]string{"image", "audio", "video", "document"}, name) {
			m.Modality = name
		}
	}
}

// dataURL replaces a data URL by its content. Any other encoding than base64 stays an address.
func (m *Media) dataURL() {
	head, data, ok := strings.Cut(strings.TrimPrefix(m.URL, "data:"), ",")
	mime, isBase64 := strings.CutSuffix(head, ";base64")
	if ok && isBase64 && strings.HasPrefix(m.URL, "data:") {
		mime, _, _ = strings.Cut(mime, ";")
		m.URL, m.Data, m.MIME = "", data, cmp.Or(mime, m.MIME)
	}
}
