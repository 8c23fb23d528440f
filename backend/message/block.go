package message

import (
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

func valid(raw []byte) bool { return rawjson.Valid(raw, rawjson.MaxDepth) == nil }

func hasPrefix(s, prefix string) bool { return strings.HasPrefix(s, prefix) }
func hasSuffix(s, suffix string) bool { return strings.HasSuffix(s, suffix) }

// The keys of blocks that the model has fields for, by what they say.
var (
	callKeys  = []string{"call_id", "toolCallId", "tool_call_id", "tool_use_id", "id"}
	nameKeys  = []string{"name", "toolName", "tool_name"}
	argsKeys  = []string{"arguments", "input", "rawInput", "args"}
	valueKeys = []string{"content", "output", "response", "result"}
	mimeKeys  = []string{"mediaType", "media_type", "mimeType", "mime_type"}
	urlKeys   = []string{"url", "uri", "file_url", "fileUri", "file_uri"}
	innerKeys = []string{"source", "image_url", "input_audio", "file", "audio", "image", "data", "content", "imageUrl"}
	dataKeys  = slices.Concat([]string{"data", "file_data"}, urlKeys, innerKeys)
	blockKeys = slices.Concat(callKeys, nameKeys, argsKeys, valueKeys, mimeKeys, dataKeys, []string{
		"type", "text", "refusal", "annotations", "state", "logprobs", "function", "custom", "status", "index", "is_error", "isError", "filename",
		"title", "detail", "modality", "file_id", "thought", "functionCall", "function_call", "functionResponse", "function_response", "inlineData",
		"inline_data", "fileData", "file_data",
	})
)

// Blocks reads content, which must be valid JSON: a text, a block, or an array of these.
func Blocks(raw []byte) []Part {
	if !is(raw, '[') {
		return block(raw)
	}
	var out []Part
	for _, e := range Elements(raw) {
		out = append(out, block(e)...)
	}
	return out
}

// block reads one block. It returns none for an empty text, and two for a call of the AI SDK that has its result in it.
func block(raw []byte) []Part {
	if s, ok := rawjson.String(raw); ok && s != "" {
		return []Part{{Kind: Text, Text: s, Raw: raw}}
	} else if ok || raw == nil || string(raw) == "null" {
		return nil
	}
	o := ObjectOf(raw)
	p := Part{Kind: Unknown, Type: o.Str("type"), Raw: raw}
	switch p.Type {
	case "text", "input_text", "output_text", "summary_text", "refusal":
		if s, ok := rawjson.String(o.First("text", "content", "refusal")); ok {
			p.Kind, p.Text = Text, s
		}
	case "thinking", "reasoning", "reasoning_text", "redacted_thinking", "reasoning.text", "reasoning.encrypted", "reasoning.summary":
		p.reasoning(o)
	case "reasoning_details":
		return Blocks(o["details"])
	case "toolCall", "tool_call", "tool_use", "function_call", "tool-call", "custom_tool_call":
		p.call(o)
	case "tool_result", "tool_call_response", "function_call_output", "tool-result", "toolResult", "custom_tool_call_output":
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
		if p.Type == "dynamic-tool" || p.Type == "tool-invocation" || hasPrefix(p.Type, "tool-") && o.Has("state") {
			return p.uiTool(o)
		}
	}
	if p.Kind != Unknown && p.Kind != Reasoning {
		p.Extra = o.without(blockKeys)
	}
	return []Part{p}
}

// gemini reads a part that has no type.
func (p *Part) gemini(o Object) {
	switch {
	case o.Has("functionCall", "function_call"):
		p.call(o.Obj("functionCall", "function_call"))
	case o.Has("functionResponse", "function_response"):
		p.result(o.Obj("functionResponse", "function_response"))
	case o.Has("inlineData", "inline_data", "fileData", "file_data"):
		p.media(o.Obj("inlineData", "inline_data", "fileData", "file_data"), "")
	case o.True("thought"):
		p.Kind, p.Text, p.Provider, p.Signature = Reasoning, o.Str("text"), "google", o.Str("thoughtSignature", "thought_signature")
	case is(o["text"], '"'):
		p.Kind, p.Text = Text, o.Str("text")
	}
}

func (p *Part) call(o Object) {
	inner := o
	if f := o.Obj("function", "custom"); f != nil {
		inner = f
	}
	p.Kind, p.Type, p.ID = ToolCall, o.Str("type"), o.Str(callKeys...)
	p.Name, p.JSON = inner.Str(nameKeys...), arguments(inner.First(argsKeys...))
}

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

func (p *Part) result(o Object) {
	p.Kind, p.ID, p.Name, p.IsError = ToolResult, o.Str(callKeys...), o.Str(nameKeys...), o.True("is_error", "isError")
	value := o.First(valueKeys...)
	if inner := ObjectOf(value); inner.Has("value") || hasPrefix(inner.Str("type"), "execution-") { // of the AI SDK
		typ := inner.Str("type")
		p.IsError = p.IsError || hasPrefix(typ, "error") || hasPrefix(typ, "execution-")
		value = inner.First("value", "reason")
		if typ != "content" {
			p.Parts = valueText(value)
			return
		}
	}
	switch {
	case is(value, '"'), is(value, '[') && blockList(value):
		p.Parts = Blocks(value)
	case value != nil:
		p.Parts = valueText(value)
	}
}

// valueText returns a JSON value as the text that a model sees.
func valueText(raw []byte) []Part {
	if s, ok := rawjson.String(raw); ok {
		return []Part{{Kind: Text, Text: s}}
	}
	return []Part{{Kind: Text, Text: cmp.Or(string(raw), "null")}}
}

// blockList reports whether the elements of an array are blocks of content.
func blockList(raw []byte) bool {
	return !slices.ContainsFunc(Elements(raw), func(e []byte) bool { return !is(e, '"') && !ObjectOf(e).Has("type", "text", "inlineData") })
}

// uiTool reads a block of a UI message of the AI SDK that is a call and, once there is one, its result.
func (p *Part) uiTool(o Object) []Part {
	if inner := o.Obj("toolInvocation"); inner != nil {
		o = inner
	}
	typ := p.Type
	p.call(o)
	p.Type, p.Name = typ, cmp.Or(p.Name, strings.TrimPrefix(typ, "tool-"))
	result := Part{Kind: ToolResult, ID: p.ID, Name: p.Name, Raw: p.Raw, IsError: true}
	switch state := o.Str("state"); {
	case o.Has("errorText"):
		result.Parts = valueText(o["errorText"])
	case o.Has("output", "result"), state == "output-available":
		result.IsError, result.Parts = false, valueText(o.First("output", "result"))
	case state == "output-denied":
		result.Parts = []Part{{Kind: Text, Text: "Tool execution denied."}}
	default:
		return []Part{*p}
	}
	return []Part{*p, result}
}

func (p *Part) reasoning(o Object) {
	p.Kind, p.Text, p.ID = Reasoning, o.Str("thinking", "text", "content", "summary"), o.Str("id")
	if p.Text == "" { // an item of OpenAI's responses
		var texts []string
		for _, e := range append(Elements(o["summary"]), Elements(o["content"])...) {
			if s := ObjectOf(e).Str("text"); s != "" {
				texts = append(texts, s)
			}
		}
		p.Text = strings.Join(texts, "\n")
	}
	p.Signature = o.Str("encrypted_content", "signature", "data")
	switch format := o.Str("format"); {
	case p.Type == "redacted_thinking", hasPrefix(format, "anthropic"):
		p.Provider = "anthropic"
	case o.Has("encrypted_content"), hasPrefix(format, "openai"):
		p.Provider = "openai"
	case hasPrefix(p.Type, "reasoning.") && p.Signature != "":
		p.Provider = cmp.Or(format, "unknown")
	}
}

// media reads an image, sound, video or file from wherever a spelling has it. A block without content or address stays unknown.
func (p *Part) media(o Object, modality string) {
	flat, m := Object{}, &p.Media
	for k, v := range o {
		flat[k] = v
	}
	for _, k := range innerKeys { // of equal keys the inner one counts
		for _, in := range Members(o[k]) {
			flat[in.Key] = in.Value
		}
	}
	p.Name, m.MIME = flat.Str("filename", "name", "title"), flat.Str(mimeKeys...)
	m.FileID, m.Detail = flat.Str("file_id"), flat.Str("detail")
	if format := flat.Str("format"); m.MIME == "" && format != "" {
		m.MIME = modality + "/" + format
	}
	key, at := "", ""
	for _, k := range dataKeys {
		if at == "" {
			key, at = k, flat.Str(k)
		}
	}
	if flat.Str("type") == "text" && at != "" { // a document that is text
		p.Kind, p.Text = Text, at
		return
	}
	switch {
	case hasPrefix(at, "data:"):
		m.dataURL(at)
	case strings.Contains(at, "://"), slices.Contains(urlKeys, key):
		m.URL = at
	default:
		m.Data = at
	}
	if at == "" && m.FileID == "" {
		p.Media = Media{}
		return
	}
	if modality == "image" && m.MIME == "" && m.URL == "" {
		m.MIME = "image/png"
	}
	p.Kind = MediaPart
	major, _, _ := strings.Cut(m.MIME, "/")
	for _, name := range []string{o.Str("modality"), modality, major, "document"} {
		if m.Modality == "" && slices.Contains([]string{"image", "audio", "video", "document"}, name) {
			m.Modality = name
		}
	}
}

// dataURL takes the content of a data URL; any other encoding than base64 stays an address.
func (m *Media) dataURL(s string) {
	head, data, ok := strings.Cut(strings.TrimPrefix(s, "data:"), ",")
	mime, isBase64 := strings.CutSuffix(head, ";base64")
	if !ok || !isBase64 {
		m.URL = s
		return
	}
	mime, _, _ = strings.Cut(mime, ";")
	m.Data, m.MIME = data, cmp.Or(mime, m.MIME)
}
