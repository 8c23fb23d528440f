package genaijson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Part is one part of a message in the standard form.
type Part struct {
	// Role of the message: that of a result of a tool is tool whoever carries it, and that of a message without one is
	// unknown.
	Role string
	// Type is text, reasoning, tool_call, tool_call_response, blob, uri, file, extension, error, encrypted_reasoning, or
	// the type of the block.
	Type string
	// ID and Name of a call, a result or a file; empty where there is none.
	ID, Name string
	// Modality and MIME are those of a blob, uri or file.
	Modality, MIME string
	// IsError reports that a result says that its call failed.
	IsError bool
	// Content is the JSON of the content, and the whole block where the type is none of those above.
	Content []byte
	// Plain reports that Content is a text that holds JSON of no known form as it is spelled.
	Plain bool
	// Block is what the part was read from: a block, or a message that has it under a key of its own; nil where that is
	// no object. Several parts may have the same. The members that it says are unread are in no part.
	Block *object.Object

	key string // member that holds Content in the standard form; empty: Content is the part itself
}

// Text returns the text of a content that is one, and reports whether it is. That of a blob is its base64.
func (p *Part) Text() (string, bool) { return rawjson.String(p.Content) }

// Message is a message that Read has read.
type Message struct {
	// Role is the standard's; empty where the message states none. That of a message that holds nothing but results of
	// tools is tool.
	Role string
	// Top is the message itself; nil where it is a text, or a block that stands for a message.
	Top   *object.Object
	Parts []Part
}

// Read reads a message in any spelling that this package knows. Any other message is a part of text.
func Read(message []byte) (m Message) {
	r := reader{role: roleUnknown}
	if m.Parts = r.read(message); m.Parts[0].Type == "" {
		m.Parts = nil
	}
	m.Top = r.top
	switch {
	case m.Parts != nil && !slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Role != "tool" }):
		m.Role = "tool"
	case r.role != roleUnknown:
		m.Role = Role(r.role)
	}
	return m
}

// Blocks reads the content of a message, valid JSON: a text, a block, or an array of these.
func Blocks(content []byte) []Part {
	r := reader{role: roleUnknown}
	r.contents(content)
	return r.parts
}

// Role returns the standard's value for the role of a message, in any spelling: user, assistant, system, tool, or the
// input itself.
func Role(role string) string {
	switch role {
	case "toolResult", "tool_result", "function":
		return "tool"
	case "model":
		return "assistant"
	case "developer":
		return "system"
	}
	return role
}

// Heading returns the role of a message in any spelling, as it is spelled, and the id of the tool call that it
// answers. An item of OpenAI's responses that states no role has that of its type: assistant or tool. Either is empty
// where there is none; the id also where the message answers several calls.
func Heading(message []byte) (role, callID string) {
	o := object.Of("", message)
	role = cmp.Or(o.Text("role"), itemRole(o.Text("type")))
	callID = o.Text("tool_call_id", "toolCallId", "tool_use_id")
	answers, mayAnswer := 0, isArray(o.Raw("content", "parts")) || o.Has("call_id")
	if callID != "" || !mayAnswer || Role(role) == "assistant" {
		return role, callID
	}
	r := reader{role: roleUnknown}
	r.message(o, message)
	for _, p := range r.parts {
		if p.Type == "tool_call_response" && p.ID != "" {
			answers++
			callID = p.ID
		}
	}
	if answers > 1 {
		callID = ""
	}
	return role, callID
}

func isString(v []byte) bool { return len(v) > 0 && v[0] == '"' }
func isArray(v []byte) bool  { return len(v) > 0 && v[0] == '[' }
func isObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }

const roleUnknown = "unknown"

var null = []byte("null")

// A reader collects the parts of one message.
type reader struct {
	role    string // of the message
	inItem  bool   // reads the content of an item of OpenAI's responses
	oneRole bool   // results of tools stay in the message that carries them
	top     *object.Object
	parts   []Part
}

// read returns the parts of a message. There is at least one: that of a message without parts has no type.
func (r *reader) read(raw []byte) []Part {
	raw = validUTF8(raw)
	switch raw = bytes.TrimSpace(raw); {
	case rawjson.Valid(raw, rawjson.MaxDepth) != nil:
		r.plain(nil, raw)
	case isObject(raw):
		r.message(object.Of("", raw), raw)
	default:
		r.messages(raw)
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

// add adds a part that was read from o.
func (r *reader) add(o *object.Object, p Part) {
	p.Role, p.Block = cmp.Or(p.Role, r.role), o
	r.parts = append(r.parts, p)
}

// text adds a part that is nothing but a text, a JSON string, and reports whether there is one.
func (r *reader) text(o *object.Object, typ string, text []byte) bool {
	if text != nil {
		r.add(o, Part{Type: typ, key: "content", Content: text})
	}
	return text != nil
}

// plain adds raw as a text.
func (r *reader) plain(o *object.Object, raw []byte) {
	r.add(o, Part{Type: "text", key: "content", Content: rawjson.Quote(nil, string(raw)), Plain: true})
}

var (
	keysThinking = []string{"thinking", "reasoning_content", "reasoning"}
	keysError    = []string{"error_message", "errorMessage"}
	keysContent  = slices.Concat(keysThinking, keysError, []string{
		"content", "parts", "contents", "messages", "tool_calls", "function_call", "refusal", "audio",
	})
	keysName   = []string{"name", "tool_name", "toolName"}
	keysCallID = []string{"tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id", "id"}
)

// message reads a message that is an object, raw. Of a response of Gemini, or of ADK, it reads the message of the first
// candidate that has one.
func (r *reader) message(o *object.Object, raw []byte) {
	if !o.Has("role") {
		for _, candidate := range append(rawjson.Elements(o.Raw("candidates")), raw) {
			content := object.Of("", candidate).Raw("content")
			if in := object.Of("", content); in.Has("parts") {
				r.message(in, content)
				return
			}
		}
	}
	switch {
	case r.langChain(o):
	case r.takeRole(o):
		r.said(o, raw)
	default:
		r.block(o, raw) // a block that stands for a message, as items of OpenAI's responses do
	}
}

// messages reads what may hold messages: an array of these, of blocks, or of such arrays, or one block. Blocks of a
// content are not read so: a result of a tool may look like a message and is none.
func (r *reader) messages(raw []byte) {
	if !isArray(raw) {
		r.contents(raw)
		return
	}
	for _, e := range rawjson.Elements(raw) {
		o, top, role := object.Of("", e), r.top, r.role
		plain := o.Text("type") == ""
		switch {
		case isArray(e):
			r.messages(e)
		case plain && o.Literal("role") != nil && o.Has(keysContent...):
			r.message(o, e)
		case r.langChain(o), plain && r.uiTool(o, ""):
		default:
			r.block(o, e)
		}
		r.top, r.role = top, role
	}
}

// said reads what a message says, of which the role is known.
func (r *reader) said(o *object.Object, raw []byte) {
	r.top = o
	content := o.Raw("content")
	keys := keysCallID[:len(keysCallID)-1]
	isResult := func(e json.RawMessage) bool { return strings.HasPrefix(object.Of("", e).Text("type"), "tool") }
	switch {
	case r.role == "tool" && !o.Has("parts") &&
		(o.Has(keys...) || !slices.ContainsFunc(rawjson.Elements(content), isResult)): // else of the AI SDK
		r.response(o, o, keys)
		return
	case o.Has(keysContent...):
	case o.Literal("kind") != nil && o.Has("data", "payload"):
		r.add(o, Part{Type: "extension", Name: o.Text("kind"), key: "data", Content: o.Raw("data", "payload")})
	case o.Has("finish_reason") && r.text(o, "text", o.Literal("text")): // a choice of old instrumentations
	case r.uiTool(o, ""):
	case o.Spelled("content") == nil: // OpenAI's are null if there is none
		r.plain(o, raw)
	}
	r.text(o, "reasoning", o.Literal(keysThinking...))
	r.contents(content)
	r.contents(o.Raw("parts"))
	r.messages(o.Raw("contents", "messages"))
	r.text(o, "text", o.Literal("refusal"))
	for _, image := range rawjson.Elements(o.Raw("images")) { // base64, of Ollama
		if isString(image) {
			r.add(o, Part{Type: "blob", Modality: "image", key: "content", Content: image})
		}
	}
	if audio := o.Raw("audio"); audio != nil {
		r.add(o, Part{Type: "audio", key: "value", Content: audio})
	}
	if call := o.Raw("function_call"); isObject(call) {
		r.call(o, object.Of("", call), call)
	}
	if calls := o.Raw("tool_calls"); isArray(calls) {
		for _, call := range rawjson.Elements(calls) {
			in := object.Of("", call)
			r.call(in, in, call)
		}
	} else if calls != nil {
		r.plain(o, calls)
	}
	r.text(o, "error", o.Literal(keysError...))
}

// langChainRoles are the types of LangChain's messages.
var langChainRoles = map[string]string{"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}

// langChain reads a message of LangChain, also one in what its tracers wrap it in: the constructor of an object, the
// type and its data, the first generation of a result, or the output of a tool. It reports whether o is one
// (https://reference.langchain.com/python/langchain_core/messages).
func (r *reader) langChain(o *object.Object) bool {
	member := func(o *object.Object, keys ...string) *object.Object { return object.Of("", o.Raw(keys...)) }
	in := o
	switch typ := o.Text("type"); {
	case o.Has("generations"):
		for _, first := range rawjson.Elements(o.Raw("generations")) {
			for _, generation := range rawjson.Elements(first) {
				return r.langChain(member(object.Of("", generation), "message"))
			}
		}
		return false
	case o.Has("lc"):
		in = member(o, "kwargs")
	case langChainRoles[typ] != "" && o.Has("data"):
		in = member(o, "data")
	case typ == "" && o.Has("output"):
		return r.langChain(member(o, "output"))
	case !o.Has("additional_kwargs"):
		return false
	}
	role := langChainRoles[in.Text("type")]
	if role == "" || !in.Has("content") {
		return false
	}
	r.role = role
	r.said(in, nil)
	return true
}

// takeRole sets the role to that of o, and reports whether o is a message and not a block that stands for one.
func (r *reader) takeRole(o *object.Object) bool {
	role, typ := o.Literal("role"), o.Text("type")
	switch {
	case role != nil:
		r.role = o.Text("role")
		if standard := Role(r.role); standard == "tool" || standard == "assistant" {
			r.role = standard
		}
		return true
	case o.Literal("type") == nil || typ == "message":
		return true
	}
	r.role = cmp.Or(itemRole(typ), r.role)
	return false
}

// itemRole returns the role of an item of OpenAI's responses that states none; empty when it has none.
func itemRole(typ string) string {
	switch {
	case strings.HasSuffix(typ, "_call"), slices.Contains([]string{"reasoning", "thinking", "tool_use", "toolCall"}, typ):
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
		for _, e := range rawjson.Elements(raw) {
			r.block(object.Of("", e), e)
		}
	default:
		r.block(object.Of("", raw), raw)
	}
}

// block reads one block of content, raw. One that has not what its type needs is added as it is.
func (r *reader) block(o *object.Object, raw []byte) {
	if isString(raw) {
		r.text(nil, "text", raw)
		return
	}
	done := false
	switch typ := o.Text("type"); typ {
	case "text", "input_text", "output_text", "summary_text":
		done = r.text(o, "text", o.Literal("text", "content"))
	case "refusal":
		done = r.text(o, "text", o.Literal("refusal"))
	case "thinking", "reasoning", "reasoning_text":
		done = r.reasoning(o)
	case "toolCall", "tool_call", "tool_use", "function_call", "custom_tool_call", "tool-call":
		r.call(o, o, raw)
		return
	case "tool_result", "tool_call_response", "function_call_output", "custom_tool_call_output", "tool-result":
		r.response(o, o, keysCallID)
		return
	case "image", "input_image", "image_url", "image-data", "image-url":
		done = r.media(o, o, "image")
	case "audio", "input_audio":
		done = r.media(o, o, "audio")
	case "video":
		done = r.media(o, o, "video")
	case "blob", "document", "file", "input_file", "resource_link", "uri", "reasoning-file", "file-data", "file-url",
		"media":
		done = r.media(o, o, "")
	case "message": // an item of OpenAI's responses
		if done = !r.inItem && o.Has("content"); done {
			r.inItem = true
			r.contents(o.Raw("content"))
			r.inItem = false
		}
	case "":
		done = r.gemini(o) || r.text(o, "text", o.Literal("text"))
	default:
		if name, ok := strings.CutPrefix(typ, "tool-"); ok || typ == "dynamic-tool" {
			done = r.uiTool(o, name)
		}
	}
	if !done {
		r.other(o, raw)
	}
}

// gemini reads a part of a message of Gemini or Bedrock that is not merely a text, and reports whether it is one.
func (r *reader) gemini(o *object.Object) bool {
	if string(o.Raw("thought")) == "true" {
		return r.text(o, "reasoning", o.Literal("text"))
	}
	call := o.Raw("functionCall", "function_call", "toolUse")
	if in := object.Of("", call); in != nil {
		r.call(o, in, call)
		return true
	}
	if in := object.Of("", o.Raw("functionResponse", "function_response", "toolResult")); in != nil {
		r.response(o, in, keysCallID)
		return true
	}
	in := object.Of("", o.Raw("inlineData", "inline_data", "fileData", "file_data"))
	return in != nil && r.media(o, in, "")
}

// uiTool reads a call of a tool as the AI SDK's messages have it, and its result once there is one
// (https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message). It reports whether o is one.
func (r *reader) uiTool(o *object.Object, name string) bool {
	p := Part{Type: "tool_call", ID: o.Text("toolCallId"), Name: cmp.Or(o.Text("toolName"), name), key: "arguments",
		Content: o.Raw("input", "rawInput", "args")} // rawInput is what no schema took, args of old versions
	if p.ID == "" || p.Content == nil && !o.Has("state", "output", "errorText") {
		return false
	}
	p.Content = arguments(p.Content)
	r.add(o, p)
	p.Type, p.key, p.Content = "tool_call_response", "response", o.Raw("errorText", "output")
	p.IsError = o.Has("errorText")
	switch state := o.Text("state"); {
	case p.Content != nil:
	case state == "output-available":
		p.Content = null
	case state == "output-denied":
		p.Content, p.IsError = denied(object.Of("", o.Raw("approval"))), true
	}
	if !r.oneRole {
		p.Role = "tool"
	}
	if p.Content != nil {
		r.add(o, p)
	}
	return true
}

// other adds a block as it is. One without a type, or with a type of the standard whose rules it breaks, becomes a
// text.
func (r *reader) other(o *object.Object, raw []byte) {
	switch typ := o.Text("type"); typ {
	case "reasoning":
		r.add(o, Part{Type: "encrypted_reasoning", key: "value", Content: raw})
	case "", "text", "tool_call", "blob", "uri", "file":
		r.plain(o, raw)
	default:
		r.add(o, Part{Type: typ, Content: raw})
	}
}

// reasoning reads a block of reasoning and reports whether it holds any text.
func (r *reader) reasoning(o *object.Object) bool {
	if r.text(o, "reasoning", o.Literal("thinking", "reasoning", "reasoning_content", "text", "content")) {
		return true
	}
	before := len(r.parts)
	for _, key := range []string{"summary", "content"} {
		for _, e := range rawjson.Elements(o.Raw(key)) {
			r.text(o, "reasoning", object.Of("", e).Literal("text"))
		}
	}
	return len(r.parts) > before
}

// call reads a call of a tool, o or its member function or custom, which block holds and raw spells.
func (r *reader) call(block, o *object.Object, raw []byte) {
	f := cmp.Or(object.Of("", o.Raw("function", "custom")), o)
	if f.Literal(keysName...) == nil {
		r.other(o, raw)
		return
	}
	r.add(block, Part{Type: "tool_call", ID: o.Text(keysCallID...), Name: f.Text(keysName...), key: "arguments",
		Content: arguments(f.Raw("arguments", "input", "args"))})
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

// response reads the result of a call, which block holds. Its id has one of keys.
func (r *reader) response(block, o *object.Object, keys []string) {
	p := Part{
		Type: "tool_call_response", ID: o.Text(keys...), Name: o.Text(keysName...),
		IsError: string(o.Raw("is_error", "isError")) == "true",
		key:     "response", Content: null,
	}
	if !r.oneRole {
		p.Role = "tool"
	}
	if result := o.Raw("content", "output", "response", "result"); result != nil {
		content, failed := output(result)
		p.Content, p.IsError = content, p.IsError || failed
	}
	r.add(block, p)
}

// output returns the value of a result that messages of the AI SDK wrap, and reports whether the call failed. A result
// that is one block of text is that text (https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message).
func output(result []byte) (content []byte, failed bool) {
	o := object.Of("", result)
	value := o.Spelled("value")
	switch typ := o.Text("type"); {
	case typ == "execution-denied":
		return denied(o), true
	case value == nil:
	case typ == "text", typ == "json", typ == "error-text", typ == "error-json":
		return value, typ[0] == 'e'
	case typ == "content":
		result = value
	}
	if list := rawjson.Elements(result); len(list) == 1 {
		o := object.Of("", list[0])
		lone := o.Literal("text")
		if slices.Contains([]string{"text", "input_text", "output_text"}, o.Text("type")) && lone != nil {
			return lone, false
		}
	}
	return result, false
}

// denied returns the reason of o, else the text that the AI SDK gives the model.
func denied(o *object.Object) []byte {
	return []byte(cmp.Or(string(o.Literal("reason")), `"Tool call execution denied."`))
}

// mediaForms are the parts of media in the standard, and the keys of what they hold in other spellings.
var mediaForms = []struct {
	typ, key string
	keys     []string
}{
	{"blob", "content", []string{"data", "payload", "file_data", "image"}},
	{"uri", "uri", []string{
		"source", "image_url", "input_audio", "file", "url", "uri", "file_url", "fileUri", "file_uri",
	}},
	{"file", "file_id", []string{"file_id"}},
}

// media reads an image, a sound or a file, which block holds, and reports whether it found the content, or where it is.
func (r *reader) media(block, o *object.Object, modality string) bool {
	in := object.Of("", o.Raw("source", "image_url", "input_audio", "file", "data"))
	literal := func(keys ...string) []byte { // those further inside count before those around them
		if v := in.Literal(keys...); v != nil {
			return v
		}
		return o.Literal(keys...)
	}
	text := func(keys ...string) string {
		s, _ := rawjson.String(literal(keys...))
		return s
	}
	p := Part{Name: text("name", "filename", "title"), Modality: cmp.Or(text("modality"), modality),
		MIME: text("mime_type", "mimeType", "media_type", "mediaType")}
	for _, form := range mediaForms {
		if p.Content == nil {
			p.Type, p.key, p.Content = form.typ, form.key, literal(form.keys...)
		}
		if p.Content == nil && form.typ == text("type") { // of the standard
			p.Content = literal(form.key)
		}
	}
	if format := text("format"); p.MIME == "" && format != "" {
		p.MIME = "audio/" + format
	}
	switch head, content, _ := bytes.Cut(p.Content, []byte(`,`)); {
	case p.Content == nil:
		return false
	case p.Type == "blob" && text("type") == "text":
		return r.text(block, "text", p.Content)
	case bytes.HasPrefix(head, []byte(`"data:`)) && bytes.HasSuffix(head, []byte(`;base64`)):
		mime, _, _ := bytes.Cut(head[len(`"data:`):], []byte(`;`))
		mimeType, _ := rawjson.String([]byte(`"` + string(mime) + `"`))
		p.Type, p.key, p.MIME, p.Content = "blob", "content", cmp.Or(mimeType, p.MIME), append([]byte{'"'}, content...)
	case bytes.HasPrefix(head, []byte(`"data:`)), bytes.Contains(p.Content, []byte("://")):
		p.Type, p.key = "uri", "uri"
	}
	if kind, _, _ := strings.Cut(p.MIME, "/"); p.Modality == "" {
		p.Modality = "document"
		if kind == "image" || kind == "audio" || kind == "video" {
			p.Modality = kind
		}
	}
	r.add(block, p)
	return true
}
