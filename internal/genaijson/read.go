package genaijson

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/rawjson"
)

const roleUnknown = "unknown"

var null = []byte("null")

// A reader collects the parts of one message.
type reader struct {
	role    string // of the message
	inItem  bool   // reads the content of an item of OpenAI's responses
	oneRole bool   // results of tools stay in the message that carries them
	most    int    // parts that are kept, about: the last ones; 0: all
	parts   []Part
}

// read returns the parts of a message. There is at least one: that of a message without parts has no type.
func (r *reader) read(raw []byte) []Part {
	raw = validUTF8(raw)
	o, ok := readObject(raw)
	switch {
	case ok:
		r.message(o, raw)
	case rawjson.Valid(raw, rawjson.MaxDepth) != nil:
		r.plain(raw)
	default:
		r.contents(bytes.TrimSpace(raw))
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
	if r.most > 0 && len(r.parts) >= 2*r.most {
		r.parts = append(r.parts[:0], r.parts[r.most:]...)
	}
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
func (r *reader) message(o object, raw []byte) {
	switch {
	case !r.takeRole(o):
		r.block(o, raw) // a block that stands for a message, as items of OpenAI's responses do
		return
	case r.role == "tool" && o.get("parts") == nil:
		r.response(o)
		return
	case o.get(keysContent...) != nil:
	case o.quoted("kind") != nil && o.get("data", "payload") != nil:
		r.add(Part{Type: "extension", Name: o.text("kind"), key: "data", Content: o.get("data", "payload")})
	case !slices.ContainsFunc(o, func(m member) bool { return string(m.key) == "content" }):
		// OpenAI's are null if there is none
		r.plain(raw)
	}
	r.text("reasoning", o.quoted(keysThinking...))
	r.contents(o.get("content"))
	r.contents(o.get("parts"))
	r.text("text", o.quoted("refusal"))
	if audio := o.get("audio"); audio != nil {
		r.add(Part{Type: "audio", key: "value", Content: audio})
	}
	if call := o.get("function_call"); isObject(call) {
		r.call(object{{[]byte("function"), call}}, call)
	}
	if calls := o.get("tool_calls"); isArray(calls) {
		each(calls, r.call)
	} else if calls != nil {
		r.plain(calls)
	}
	r.text("error", o.quoted(keysError...))
}

// takeRole sets the role to that of o, and reports whether o is a message and not a block that stands for one.
func (r *reader) takeRole(o object) bool {
	typ := o.text("type")
	switch {
	case o.quoted("role") != nil:
		r.role = o.text("role")
		if standard := Role(r.role); standard == "tool" || standard == "assistant" {
			r.role = standard
		}
		return true
	case o.quoted("type") == nil || typ == "message":
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
		o, _ := readObject(raw)
		r.block(o, raw)
	}
}

// block reads one block of content, raw. One that has not what its type needs is added as it is.
func (r *reader) block(o object, raw []byte) {
	if isString(raw) {
		r.text("text", raw)
		return
	}
	done := false
	switch typ := o.text("type"); typ {
	case "text", "input_text", "output_text", "summary_text":
		done = r.text("text", o.quoted("text", "content"))
	case "refusal":
		done = r.text("text", o.quoted("refusal"))
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
	case "blob":
		done = r.media(append(slices.Clip(o), member{[]byte("data"), o.get("content")}), "")
	case "document", "file", "input_file", "resource_link", "uri":
		done = r.media(o, "")
	case "message": // an item of OpenAI's responses
		if done = !r.inItem && o.get("content") != nil; done {
			r.inItem = true
			r.contents(o.get("content"))
			r.inItem = false
		}
	case "":
		done = r.gemini(o) || r.text("text", o.quoted("text"))
	}
	if !done {
		r.other(o, raw)
	}
}

// gemini reads a part of a Gemini message that is not merely a text, and reports whether it is one.
func (r *reader) gemini(o object) bool {
	if string(o.get("thought")) == "true" {
		return r.text("reasoning", o.quoted("text"))
	}
	for _, key := range []string{"functionCall", "functionResponse", "inlineData", "fileData"} {
		value := o.get(key)
		in, ok := readObject(value)
		if !ok {
			continue
		}
		switch key {
		case "functionCall":
			r.call(in, value)
			return true
		case "functionResponse":
			r.response(in)
			return true
		case "fileData":
			in = append(in, member{[]byte("uri"), in.get("fileUri")})
		}
		return r.media(in, "")
	}
	return false
}

// other adds a block as it is. One without a type, or with a type of the standard whose rules it breaks, becomes a
// text.
func (r *reader) other(o object, raw []byte) {
	switch typ := o.text("type"); typ {
	case "reasoning":
		r.add(Part{Type: "encrypted_reasoning", key: "value", Content: raw})
	case "", "text", "tool_call", "blob", "uri", "file":
		r.plain(raw)
	default:
		r.add(Part{Type: typ, Content: raw})
	}
}

// reasoning reads a block of reasoning and reports whether it holds any text.
func (r *reader) reasoning(o object) bool {
	if r.text("reasoning", o.quoted("thinking", "reasoning", "reasoning_content", "text", "content")) {
		return true
	}
	before := len(r.parts)
	for _, key := range []string{"summary", "content"} {
		if list := o.get(key); isArray(list) {
			each(list, func(o object, _ []byte) { r.text("reasoning", o.quoted("text")) })
		}
	}
	return len(r.parts) > before
}

var keysCallID = []string{"tool_call_id", "toolCallId", "tool_use_id", "call_id", "id"}

// call reads a call of a tool, raw.
func (r *reader) call(o object, raw []byte) {
	p, outer := Part{Type: "tool_call", ID: o.text(keysCallID...), key: "arguments"}, o
	if f := o.get("function"); isObject(f) {
		o, _ = readObject(f)
	}
	if o.quoted("name", "tool_name", "toolName") == nil {
		r.other(outer, raw)
		return
	}
	p.Name = o.text("name", "tool_name", "toolName")
	p.Content = arguments(o.get("arguments", "input", "args"))
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
func (r *reader) response(o object) {
	p := Part{
		Type: "tool_call_response", ID: o.text(keysCallID...), Name: o.text("tool_name", "toolName", "name"),
		IsError: string(o.get("is_error", "isError")) == "true",
		key:     "response", Content: null,
	}
	if !r.oneRole {
		p.Role = "tool"
	}
	if result := o.get("content", "output", "response", "result"); result != nil {
		p.Content = loneText(result)
	}
	r.add(p)
}

// loneText returns the text of a result that is one block of text, else the result.
func loneText(result []byte) []byte {
	n, text := 0, []byte(nil)
	if isArray(result) {
		each(result, func(o object, _ []byte) {
			if n++; slices.Contains([]string{"text", "input_text", "output_text"}, o.text("type")) {
				text = o.quoted("text")
			}
		})
	}
	if n == 1 && text != nil {
		return text
	}
	return result
}

// media reads an image, a sound or a file, and reports whether it found the content, or where it is.
func (r *reader) media(o object, modality string) bool {
	switch inner := o.get("source", "image_url", "input_audio", "file"); {
	case isString(inner):
		o = append(slices.Clip(o), member{[]byte("url"), inner})
	case isObject(inner):
		in, _ := readObject(inner)
		o = append(slices.Clip(o), in...) // of equal keys those further inside count
	}
	p := Part{
		Name: o.text("name", "filename"), MIME: o.text("mime_type", "mimeType", "media_type"),
		Modality: cmp.Or(o.text("modality"), modality), Content: o.quoted("data", "payload", "file_data"),
	}
	if format := o.text("format"); p.MIME == "" && format != "" {
		p.MIME = "audio/" + format
	}
	switch p.Type, p.key = "blob", "content"; {
	case p.Content != nil && o.text("type") == "text":
		return r.text("text", p.Content)
	case p.Content == nil:
		p.Type, p.key, p.Content = "uri", "uri", o.quoted("url", "uri", "file_url")
	}
	if p.Content == nil {
		p.Type, p.key, p.Content = "file", "file_id", o.quoted("file_id")
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
