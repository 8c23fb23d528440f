package genaijson

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

const roleUnknown = "unknown"

var null = []byte("null")

// A reader collects the parts of one message.
type reader struct {
	role    string // of the message
	inItem  bool   // reads the content of an item of OpenAI's responses
	oneRole bool   // results of tools stay in the message that carries them
	parts   []Part
}

// read returns the parts of a message. There is at least one: that of a message without parts has no type.
func read(raw []byte, r reader) []Part {
	raw = validUTF8(raw)
	switch raw = bytes.TrimSpace(raw); {
	case rawjson.Valid(raw, rawjson.MaxDepth) != nil:
		r.plain(raw)
	case isObject(raw):
		r.message(object.Of("", raw), raw)
	default:
		r.contents(raw)
	}
	if len(r.parts) == 0 {
		r.parts = append(r.parts, Part{Role: r.role})
	}
	return r.parts
}

func validUTF8(raw []byte) []byte {
	if utf8.Valid(raw) {
		return raw
	}
	return bytes.ToValidUTF8(raw, []byte("\uFFFD"))
}

func (r *reader) add(p Part) {
	p.Role = cmp.Or(p.Role, r.role)
	r.parts = append(r.parts, p)
}

// text adds a part that is nothing but a text, a JSON string, and reports whether there is one.
func (r *reader) text(typ string, text []byte) bool {
	if text != nil {
		r.add(Part{Type: typ, key: "content", Content: text})
	}
	return text != nil
}

// plain adds raw as a text.
func (r *reader) plain(raw []byte) { r.text("text", rawjson.Quote(nil, string(raw))) }

var (
	keysThinking = []string{"thinking", "reasoning_content", "reasoning"}
	keysError    = []string{"error_message", "errorMessage"}
	keysContent  = append([]string{
		"content", "parts", "tool_calls", "function_call", "refusal", "audio",
	}, append(keysThinking, keysError...)...)
)

// message reads a message that is an object, raw.
func (r *reader) message(o *object.Object, raw []byte) {
	switch {
	case !r.takeRole(o):
		r.block(o, raw) // a block that stands for a message, as items of OpenAI's responses do
		return
	case r.role == "tool" && get(o, "parts") == nil:
		r.response(o)
		return
	case get(o, keysContent...) != nil:
	case literal(o, "kind") != nil && get(o, "data", "payload") != nil:
		r.add(Part{Type: "extension", Name: o.Text("kind"), key: "data", Content: get(o, "data", "payload")})
	case o.Spelled("content") == nil: // OpenAI's are null if there is none
		r.plain(raw)
	}
	r.text("reasoning", literal(o, keysThinking...))
	r.contents(get(o, "content"))
	r.contents(get(o, "parts"))
	r.text("text", literal(o, "refusal"))
	each(get(o, "images"), func(_ *object.Object, image []byte) { // base64, of Ollama
		if isString(image) {
			r.add(Part{Type: "blob", Modality: "image", key: "content", Content: image})
		}
	})
	if audio := get(o, "audio"); audio != nil {
		r.add(Part{Type: "audio", key: "value", Content: audio})
	}
	if call := get(o, "function_call"); isObject(call) {
		r.call(object.Of("", append(append([]byte(`{"function":`), call...), '}')), call)
	}
	if calls := get(o, "tool_calls"); isArray(calls) {
		each(calls, r.call)
	} else if calls != nil {
		r.plain(calls)
	}
	r.text("error", literal(o, keysError...))
}

// takeRole sets the role to that of o, and reports whether o is a message and not a block that stands for one.
func (r *reader) takeRole(o *object.Object) bool {
	typ := o.Text("type")
	switch {
	case literal(o, "role") != nil:
		r.role = o.Text("role")
		if standard := Role(r.role); standard == "tool" || standard == "assistant" {
			r.role = standard
		}
		return true
	case literal(o, "type") == nil || typ == "message":
		return true
	}
	r.role = cmp.Or(itemRole(typ), r.role)
	return false
}

// itemRole returns the role of an item of OpenAI's responses that states none; empty when it has none.
func itemRole(typ string) string {
	switch {
	case strings.HasSuffix(typ, "_call"), typ == "reasoning":
		return "assistant"
	case strings.HasSuffix(typ, "_output"):
		return "tool"
	}
	return ""
}

// contents reads content: a string, a block, or an array of these.
func (r *reader) contents(raw []byte) {
	switch {
	case len(raw) == 0 || string(raw) == `""` || string(raw) == "null":
	case isArray(raw):
		each(raw, r.block)
	default:
		r.block(object.Of("", raw), raw)
	}
}

// block reads one block of content, raw. One that has not what its type needs is added as it is.
func (r *reader) block(o *object.Object, raw []byte) {
	if isString(raw) {
		r.text("text", raw)
		return
	}
	done := false
	switch typ := o.Text("type"); typ {
	case "text", "input_text", "output_text", "summary_text":
		done = r.text("text", literal(o, "text", "content"))
	case "refusal":
		done = r.text("text", literal(o, "refusal"))
	case "thinking", "reasoning", "reasoning_text":
		done = r.reasoning(o)
	case "toolCall", "tool_call", "tool_use", "function_call":
		r.call(o, raw)
		return
	case "tool_result", "tool_call_response", "function_call_output":
		r.response(o)
		return
	case "image", "input_image", "image_url":
		done = r.media(o, "image")
	case "audio", "input_audio":
		done = r.media(o, "audio")
	case "video":
		done = r.media(o, "video")
	case "blob", "document", "file", "input_file", "resource_link", "uri":
		done = r.media(o, "")
	case "message": // an item of OpenAI's responses
		if done = !r.inItem && get(o, "content") != nil; done {
			r.inItem = true
			r.contents(get(o, "content"))
			r.inItem = false
		}
	case "":
		done = r.gemini(o) || r.text("text", literal(o, "text"))
	}
	if !done {
		r.other(o, raw)
	}
}

// gemini reads a part of a Gemini message that is not merely a text, and reports whether it is one.
func (r *reader) gemini(o *object.Object) bool {
	if string(get(o, "thought")) == "true" {
		return r.text("reasoning", literal(o, "text"))
	}
	for _, key := range []string{"functionCall", "functionResponse", "inlineData", "fileData"} {
		value := get(o, key)
		in := object.Of("", value)
		switch {
		case in == nil:
			continue
		case key == "functionCall":
			r.call(in, value)
		case key == "functionResponse":
			r.response(in)
		default:
			return r.media(in, "")
		}
		return true
	}
	return false
}

// other adds a block as it is. One without a type, or with a type of the standard whose rules it breaks, becomes a
// text.
func (r *reader) other(o *object.Object, raw []byte) {
	switch typ := o.Text("type"); typ {
	case "reasoning":
		r.add(Part{Type: "encrypted_reasoning", key: "value", Content: raw})
	case "", "text", "tool_call", "blob", "uri", "file":
		r.plain(raw)
	default:
		r.add(Part{Type: typ, Content: raw})
	}
}

// reasoning reads a block of reasoning and reports whether it holds any text.
func (r *reader) reasoning(o *object.Object) bool {
	if r.text("reasoning", literal(o, "thinking", "reasoning", "reasoning_content", "text", "content")) {
		return true
	}
	before := len(r.parts)
	for _, key := range []string{"summary", "content"} {
		if list := get(o, key); isArray(list) {
			each(list, func(o *object.Object, _ []byte) { r.text("reasoning", literal(o, "text")) })
		}
	}
	return len(r.parts) > before
}

var keysCallID = []string{"tool_call_id", "toolCallId", "tool_use_id", "call_id", "id"}

// call reads a call of a tool, raw.
func (r *reader) call(o *object.Object, raw []byte) {
	p, outer := Part{Type: "tool_call", ID: o.Text(keysCallID...), key: "arguments"}, o
	if f := get(o, "function"); isObject(f) {
		o = object.Of("", f)
	}
	if literal(o, "name", "tool_name", "toolName") == nil {
		r.other(outer, raw)
		return
	}
	p.Name = o.Text("name", "tool_name", "toolName")
	p.Content = arguments(get(o, "arguments", "input", "args"))
	r.add(p)
}

// arguments returns raw, or the JSON in it if it is a string that holds an object or array.
func arguments(raw []byte) []byte {
	if raw == nil {
		return null
	}
	text, _ := rawjson.String(raw)
	inner := bytes.TrimSpace([]byte(text))
	if (isObject(inner) || isArray(inner)) && rawjson.Valid(inner, rawjson.MaxDepth) == nil {
		return inner
	}
	return raw
}

// response reads the result of a call.
func (r *reader) response(o *object.Object) {
	p := Part{
		Type: "tool_call_response", ID: o.Text(keysCallID...), Name: o.Text("tool_name", "toolName", "name"),
		IsError: string(get(o, "is_error", "isError")) == "true",
		key:     "response", Content: null,
	}
	if !r.oneRole {
		p.Role = "tool"
	}
	if result := get(o, "content", "output", "response", "result"); result != nil {
		p.Content = loneText(result)
	}
	r.add(p)
}

// loneText returns the text of a result that is one block of text, else the result.
func loneText(result []byte) []byte {
	n, lone := 0, []byte(nil)
	if isArray(result) {
		each(result, func(o *object.Object, _ []byte) {
			if n++; slices.Contains([]string{"text", "input_text", "output_text"}, o.Text("type")) {
				lone = literal(o, "text")
			}
		})
	}
	if n == 1 && lone != nil {
		return lone
	}
	return result
}

// media reads an image, a sound or a file, and reports whether it found the content, or where it is.
func (r *reader) media(o *object.Object, modality string) bool {
	inner := get(o, "source", "image_url", "input_audio", "file")
	in := object.Of("", inner)
	literal := func(keys ...string) []byte { // those further inside count before those around them
		if v := literal(in, keys...); v != nil {
			return v
		}
		return literal(o, keys...)
	}
	text := func(keys ...string) string {
		s, _ := rawjson.String(literal(keys...))
		return s
	}
	p := Part{Type: "blob", key: "content", Name: text("name", "filename"),
		MIME: text("mime_type", "mimeType", "media_type"), Modality: cmp.Or(text("modality"), modality),
		Content: literal("data", "payload", "file_data")}
	if text("type") == "blob" {
		p.Content = literal("content")
	}
	if format := text("format"); p.MIME == "" && format != "" {
		p.MIME = "audio/" + format
	}
	switch {
	case p.Content != nil && text("type") == "text":
		return r.text("text", p.Content)
	case p.Content != nil:
	case isString(inner):
		p.Type, p.key, p.Content = "uri", "uri", inner
	default:
		p.Type, p.key, p.Content = "uri", "uri", literal("url", "uri", "file_url", "fileUri")
	}
	if p.Content == nil {
		p.Type, p.key, p.Content = "file", "file_id", literal("file_id")
	}
	if rest, ok := bytes.CutPrefix(p.Content, []byte(`"data:`)); ok {
		head, content, _ := bytes.Cut(rest, []byte(`,`))
		if head, ok = bytes.CutSuffix(head, []byte(`;base64`)); ok {
			mime, _, _ := bytes.Cut(head, []byte(`;`))
			mimeType, _ := rawjson.String([]byte(`"` + string(mime) + `"`))
			p.Type, p.key, p.MIME, p.Content = "blob", "content", cmp.Or(mimeType, p.MIME), append([]byte{'"'}, content...)
		} else {
			p.Type, p.key = "uri", "uri"
		}
	}
	if kind, _, _ := strings.Cut(p.MIME, "/"); p.Modality == "" {
		p.Modality = "document"
		if kind == "image" || kind == "audio" || kind == "video" {
			p.Modality = kind
		}
	}
	if p.Content != nil {
		r.add(p)
	}
	return p.Content != nil
}
