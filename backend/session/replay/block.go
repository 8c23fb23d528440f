package replay

import (
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// contents reads content: a string, a block, or an array of these.
func (r *reader) contents(raw []byte) []part {
	switch {
	case raw == nil || string(raw) == "null":
		return nil
	case isString(raw):
		s, _ := rawjson.String(raw)
		if s == "" {
			return nil
		}
		return []part{{kind: text, text: s, raw: raw}}
	case isArray(raw):
		var out []part
		for _, e := range elements(raw) {
			out = append(out, r.blocks(e)...)
		}
		return out
	}
	return r.blocks(raw)
}

// blocks reads a block that may stand for two: a call and its result, as those of UI messages do.
func (r *reader) blocks(raw []byte) []part {
	o := asObject(raw)
	typ := o.str("type")
	if typ == "dynamic-tool" || strings.HasPrefix(typ, "tool-") && o.has("state") || typ == "tool-invocation" {
		return r.uiTool(o, raw)
	}
	if typ == "reasoning_details" {
		var out []part
		for _, e := range elements(o["details"]) {
			out = append(out, r.detail(e))
		}
		return out
	}
	return []part{r.block(raw)}
}

// uiTool reads a tool part of a UI message.
func (r *reader) uiTool(o object, raw []byte) []part {
	if inner := asObject(o["toolInvocation"]); inner != nil {
		o = inner
	}
	p := part{kind: call, id: o.str("toolCallId"), name: o.str("toolName"), args: o.first("input", "rawInput", "args"), raw: raw, typ: o.str("type")}
	if name, ok := strings.CutPrefix(p.typ, "tool-"); ok && p.name == "" {
		p.name = name
	}
	p.args = arguments(p.args)
	out := []part{r.remember(p)}
	answer := part{kind: result, id: p.id, name: p.name, raw: raw}
	switch {
	case o.has("errorText"):
		answer.isError, answer.parts = true, []part{{kind: text, text: o.str("errorText")}}
	case o.has("output", "result"):
		answer.parts = outputOf(o.first("output", "result"))
	case o.str("state") == "output-available":
		answer.parts = outputOf([]byte("null"))
	case o.str("state") == "output-denied":
		answer.isError, answer.parts = true, []part{{kind: text, text: "Tool execution denied."}}
	default:
		return out
	}
	return append(out, answer)
}

// outputOf returns JSON that a tool gave as the text that a model sees.
func outputOf(raw []byte) []part {
	if s, ok := rawjson.String(raw); ok {
		return []part{{kind: text, text: s}}
	}
	return []part{{kind: text, text: string(raw)}}
}

// block reads one block of content.
func (r *reader) block(raw []byte) part {
	if s, ok := rawjson.String(raw); ok {
		return part{kind: text, text: s, raw: raw}
	}
	o := asObject(raw)
	typ := o.str("type")
	p := part{kind: other, raw: raw, typ: typ}
	switch typ {
	case "text", "input_text", "output_text", "summary_text", "refusal":
		if s, ok := rawjson.String(o.first("text", "content", "refusal")); ok {
			p.kind, p.text = text, s
			p.extra = o.besides("type", "text", "content", "refusal", "annotations", "state", "logprobs")
		}
	case "thinking", "reasoning", "reasoning_text":
		r.thinking(&p, o)
	case "redacted_thinking":
		p.kind, p.hidden, p.signature, p.vendor = thinking, true, o.str("data"), "anthropic"
	case "reasoning.text", "reasoning.encrypted", "reasoning.summary":
		return r.detail(raw)
	case "toolCall", "tool_call", "tool_use", "function_call", "tool-call":
		return r.call(o, raw)
	case "tool_result", "tool_call_response", "function_call_output", "tool-result", "toolResult":
		return r.result(o, raw)
	case "image", "input_image", "image_url":
		r.media(&p, o, "image")
	case "audio", "input_audio":
		r.media(&p, o, "audio")
	case "video":
		r.media(&p, o, "video")
	case "document", "file", "input_file", "resource_link", "blob", "uri":
		r.media(&p, o, "")
	case "":
		r.gemini(&p, o)
	}
	return p
}

// gemini reads a part that has no type and is told by its key.
func (r *reader) gemini(p *part, o object) {
	inner := func(keys ...string) object { return asObject(o.first(keys...)) }
	switch {
	case o.has("functionCall", "function_call"):
		f := inner("functionCall", "function_call")
		p.kind, p.id, p.name, p.args = call, f.str("id"), f.str("name"), arguments(f["args"])
		*p = r.remember(*p)
	case o.has("functionResponse", "function_response"):
		f := inner("functionResponse", "function_response")
		p.kind, p.id, p.name, p.parts = result, f.str("id"), f.str("name"), outputOf(f["response"])
	case o.has("inlineData", "inline_data"):
		d := inner("inlineData", "inline_data")
		p.mime, p.data = d.str("mimeType", "mime_type"), d.str("data")
		p.kind, p.media = media, modality("", p.mime)
	case o.has("fileData", "file_data"):
		d := inner("fileData", "file_data")
		p.mime, p.url = d.str("mimeType", "mime_type"), d.str("fileUri", "file_uri")
		p.kind, p.media = media, modality("", p.mime)
	case isString(o["text"]):
		p.text, p.kind = o.str("text"), text
		if string(o["thought"]) == "true" {
			p.kind, p.vendor, p.signature = thinking, "google", o.str("thoughtSignature", "thought_signature")
		}
	}
}

func (r *reader) thinking(p *part, o object) {
	p.kind = thinking
	p.text = o.str("thinking", "text", "content")
	p.id = o.str("id")
	p.signature = o.str("signature")
	if p.text == "" { // an item of the Responses API
		for _, list := range [][]byte{o["summary"], o["content"]} {
			for _, e := range elements(list) {
				if s := asObject(e).str("text"); s != "" {
					if p.text != "" {
						p.text += "\n"
					}
					p.text += s
				}
			}
		}
	}
	if s := o.str("encrypted_content"); s != "" {
		p.signature, p.vendor = s, "openai"
	}
	for _, k := range []string{"providerMetadata", "providerOptions", "experimental_providerMetadata"} { // of the AI SDK
		for _, vendor := range members(o[k]) {
			v := asObject(vendor.value)
			switch {
			case v.has("signature"):
				p.signature, p.vendor = v.str("signature"), vendor.key
			case v.has("redactedData"):
				p.signature, p.vendor, p.hidden = v.str("redactedData"), vendor.key, true
			case v.has("reasoningEncryptedContent"):
				p.signature, p.vendor, p.id = v.str("reasoningEncryptedContent"), vendor.key, v.str("itemId")
			}
		}
	}
	p.hidden = p.hidden || p.text == "" && p.signature != ""
}

// detail reads one of what OpenRouter calls reasoning details: text, a summary, or what only its provider can read.
func (r *reader) detail(raw []byte) part {
	o := asObject(raw)
	p := part{kind: thinking, raw: raw, typ: o.str("type"), id: o.str("id"), text: o.str("text", "summary"), signature: o.str("signature", "data")}
	p.hidden = p.text == ""
	switch format := o.str("format"); {
	case strings.HasPrefix(format, "anthropic"):
		p.vendor = "anthropic"
	case strings.HasPrefix(format, "openai"):
		p.vendor = "openai"
	case p.signature != "":
		p.vendor = "unknown"
		if format != "" {
			p.vendor = format
		}
	}
	return p
}

// arguments returns what a tool is called with as JSON: what stands in a string is that JSON, where it is an object.
func arguments(raw []byte) []byte {
	s, ok := rawjson.String(raw)
	switch {
	case !ok && raw != nil:
		return raw
	case strings.TrimSpace(s) == "":
		return []byte("{}")
	case rawjson.Valid([]byte(s), rawjson.MaxDepth-2) == nil:
		return []byte(strings.TrimSpace(s))
	}
	return raw
}

func (r *reader) call(o object, raw []byte) part {
	p := part{kind: call, raw: raw, id: o.str("call_id", "toolCallId", "tool_call_id", "id"), typ: o.str("type")}
	f := o
	if inner := asObject(o["function"]); inner != nil {
		f = inner
	} else if inner := asObject(o["custom"]); inner != nil {
		f = inner
	}
	p.name = f.str("name", "toolName", "tool_name")
	p.args = arguments(f.first("arguments", "input", "args"))
	p.extra = o.besides("type", "call_id", "toolCallId", "tool_call_id", "id", "function", "custom", "name", "toolName", "tool_name", "arguments", "input", "args", "status", "index")
	return r.remember(p)
}

func (r *reader) remember(p part) part {
	if r.names == nil {
		r.names = map[string]string{}
	}
	r.names[p.id] = p.name
	return p
}

// named gives a result the name that its call has.
func (r *reader) named(p part) part {
	if p.name == "" {
		p.name = r.names[p.id]
	}
	return p
}

func (r *reader) result(o object, raw []byte) part {
	p := part{kind: result, raw: raw, typ: o.str("type"), id: o.str("tool_use_id", "call_id", "toolCallId", "tool_call_id", "id"), name: o.str("toolName", "tool_name", "name")}
	p.isError = string(o.first("is_error", "isError")) == "true"
	p.extra = o.besides("type", "tool_use_id", "call_id", "toolCallId", "tool_call_id", "id", "toolName", "tool_name", "name", "is_error", "isError", "content", "output", "response", "result", "status")
	value := o.first("content", "output", "response", "result")
	inner := asObject(value)
	if typ := inner.str("type"); inner.has("value") || strings.HasPrefix(typ, "execution-") { // of the AI SDK
		switch p.isError = p.isError || strings.HasPrefix(typ, "error"); typ {
		case "content":
			p.parts = r.contents(inner["value"])
		case "execution-denied":
			p.isError, p.parts = true, []part{{kind: text, text: inner.str("reason")}}
		default:
			p.parts = outputOf(inner["value"])
		}
		return r.named(p)
	}
	switch {
	case isArray(value) && blockList(value):
		p.parts = r.contents(value)
	case isString(value):
		p.parts = r.contents(value)
	case value != nil:
		p.parts = outputOf(value)
	}
	return r.named(p)
}

// blockList reports whether the elements of an array are blocks of content.
func blockList(raw []byte) bool {
	for _, e := range elements(raw) {
		if !isString(e) && !asObject(e).has("type", "text", "inlineData") {
			return false
		}
	}
	return true
}

// textDocument is the type of a text that came as a document.
const textDocument = "text document"

// media reads an image, sound, video or file from where any spelling has it.
func (r *reader) media(p *part, o object, what string) {
	p.name = o.str("filename", "name", "title")
	p.mime = o.str("mediaType", "media_type", "mimeType", "mime_type")
	p.detail = o.str("detail")
	known := []string{"type", "filename", "name", "title", "mediaType", "media_type", "mimeType", "mime_type", "detail", "modality"}
	if m := o.str("modality"); m != "" {
		what = m
	}
	from := o
	for _, k := range []string{"source", "image_url", "input_audio", "file", "audio", "image", "data", "url", "uri", "content", "file_id", "file_url", "file_data", "imageUrl"} {
		v := o[k]
		if v == nil {
			continue
		}
		known = append(known, k)
		if s, ok := rawjson.String(v); ok {
			switch {
			case k == "file_id":
				p.fileID = s
			case k == "uri" || k == "url" || k == "file_url":
				p.address(s)
			case strings.Contains(s, "://") || strings.HasPrefix(s, "data:"):
				p.address(s)
			default:
				p.data = s
			}
			continue
		}
		if from = asObject(v); from == nil {
			continue
		}
		if s := from.str("media_type", "mimeType", "mime_type", "mediaType"); s != "" {
			p.mime = s
		}
		if s := from.str("format"); s != "" && p.mime == "" {
			p.mime = what + "/" + s
		}
		if s := from.str("filename", "name"); s != "" {
			p.name = s
		}
		if s := from.str("detail"); s != "" {
			p.detail = s
		}
		if s := from.str("data", "file_data"); s != "" {
			if from.str("type") == "text" { // a document that is text
				p.kind, p.text, p.typ = text, s, textDocument
				return
			}
			if strings.HasPrefix(s, "data:") {
				p.address(s)
			} else {
				p.data = s
			}
		}
		if s := from.str("url", "uri"); s != "" {
			p.address(s)
		}
		if s := from.str("file_id"); s != "" {
			p.fileID = s
		}
	}
	if p.data == "" && p.url == "" && p.fileID == "" {
		return // nothing of it is there: it stays a block of its own kind
	}
	if what == "image" && p.mime == "" {
		p.mime = "image/png"
		if p.url != "" {
			p.mime = ""
		}
	}
	p.kind, p.media = media, modality(what, p.mime)
	p.extra = o.besides(known...)
}

// address takes an address; a data URL is what it holds.
func (p *part) address(s string) {
	head, data, ok := strings.Cut(strings.TrimPrefix(s, "data:"), ",")
	mime, base64 := strings.CutSuffix(head, ";base64")
	if !strings.HasPrefix(s, "data:") || !ok || !base64 {
		p.url = s
		return
	}
	p.data = data
	if mime, _, _ = strings.Cut(mime, ";"); mime != "" {
		p.mime = mime
	}
}

// modality is what a thing is of that media type.
func modality(what, mime string) string {
	switch what {
	case "image", "audio", "video", "document":
		return what
	}
	switch kind, _, _ := strings.Cut(mime, "/"); kind {
	case "image", "audio", "video":
		return kind
	}
	return "document"
}
