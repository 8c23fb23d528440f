package genaijson

import (
	"bytes"
	"math"

	"github.com/otelagent/otelagent/internal/rawjson"
)

var (
	typeText      = []byte(`"text"`)
	typeReasoning = []byte(`"reasoning"`)
	typeCall      = []byte(`"tool_call"`)
	typeResponse  = []byte(`"tool_call_response"`)
	typeBlob      = []byte(`"blob"`)
	typeURI       = []byte(`"uri"`)
	typeFile      = []byte(`"file"`)
	typeError     = []byte(`"error"`)
	typeEncrypted = []byte(`"encrypted_reasoning"`)
	typeAudio     = []byte(`"audio"`)
	typeExtension = []byte(`"extension"`)
	null          = []byte(`null`)
)

// fields are the members of a message or content block that say something in any spelling, as raw JSON; nil if absent or null.
type fields struct {
	role, typ, content, parts                       []byte
	id, callID, name, toolName, arguments, result   []byte
	isError                                         bool
	toolCalls, functionCall, function               []byte
	text, thinking, summary, refusal, errorMessage  []byte
	kind, data, audio, modality                     []byte
	mime, source, url, media, fileID, fileData, fmt []byte
}

// readFields returns the members of the JSON object raw, and whether it is one.
func readFields(raw []byte) (f fields, ok bool) {
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	if c.Peek() != '{' {
		return f, false
	}
	f = fieldsAt(&c)
	return f, c.End() == nil
}

// fieldsAt steps over the next value and returns its members if it is an object.
func fieldsAt(c *rawjson.Cursor) (f fields) {
	if !c.Open('{') {
		c.Value()
		return f
	}
	for c.More('}') {
		key := c.Key()
		v := c.Value()
		if len(v) > 0 && v[0] == 'n' {
			continue
		}
		switch string(key) {
		case "role":
			f.role = v
		case "type":
			f.typ = v
		case "content":
			f.content = v
		case "parts":
			f.parts = v
		case "id":
			f.id = v
		case "tool_call_id", "toolCallId", "tool_use_id", "call_id":
			f.callID = v
		case "name", "filename":
			f.name = v
		case "tool_name", "toolName":
			f.toolName = v
		case "arguments", "input", "args":
			f.arguments = v
		case "output", "response", "result":
			f.result = v
		case "is_error", "isError":
			f.isError = string(v) == "true"
		case "tool_calls":
			f.toolCalls = v
		case "function_call":
			f.functionCall = v
		case "function":
			f.function = v
		case "text":
			f.text = v
		case "thinking", "reasoning_content", "reasoning":
			f.thinking = v
		case "summary":
			f.summary = v
		case "refusal":
			f.refusal = v
		case "error_message", "errorMessage":
			f.errorMessage = v
		case "kind":
			f.kind = v
		case "data", "payload":
			f.data = v
		case "audio":
			f.audio = v
		case "modality":
			f.modality = v
		case "mime_type", "mimeType", "media_type":
			f.mime = v
		case "source":
			f.source = v
		case "url", "uri", "file_url":
			f.url = v
		case "image_url", "input_audio", "file":
			f.media = v
		case "file_id":
			f.fileID = v
		case "file_data":
			f.fileData = v
		case "format":
			f.fmt = v
		}
	}
	return f
}

func isString(v []byte) bool { return len(v) > 0 && v[0] == '"' }
func isArray(v []byte) bool  { return len(v) > 0 && v[0] == '[' }
func isObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }

// firstString returns the first of values that is a JSON string, or nil.
func firstString(values ...[]byte) []byte {
	for _, v := range values {
		if isString(v) {
			return v
		}
	}
	return nil
}

// firstOf returns the first of values that is there, or nil.
func firstOf(values ...[]byte) []byte {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

// each calls f with every element v of the valid JSON array raw and its members g, which f must not keep.
func each(raw []byte, f func(g *fields, v []byte)) {
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	var g fields
	if c.Open('[') {
		for c.More(']') {
			start := c.Pos()
			g = fieldsAt(&c)
			f(&g, c.Since(start))
		}
	}
}

// A reader collects the parts of messages.
type reader struct {
	most     int    // of one message, about; the last are kept
	fallback []byte // role of what has none, a JSON string
	oneRole  bool   // a message stays one, whatever it holds

	parts   []part
	number  int    // of the message at hand
	role    []byte // of it
	first   int    // where its parts begin
	dropped int    // how many of its parts are no longer there
	arena   []byte // holds what is not in the input
	scratch []byte
}

func (r *reader) limited() bool { return r.most < math.MaxInt }

// message appends the parts of the message raw, at least one.
func (r *reader) message(number int, raw []byte) {
	raw = validUTF8(raw)
	r.number, r.role, r.first, r.dropped = number, r.fallback, len(r.parts), 0
	f, ok := readFields(raw)
	switch {
	case ok:
		r.object(&f, raw)
	case rawjson.Valid(raw, rawjson.MaxDepth) != nil:
		r.plain(raw)
	default:
		r.contents(bytes.TrimSpace(raw))
	}
	if len(r.parts) == r.first {
		r.parts = append(r.parts, part{message: number, role: r.role})
	}
}

// object reads a message that is an object, raw.
func (r *reader) object(f *fields, raw []byte) {
	role := r.roleOf(f)
	if role == nil {
		r.block(f, raw) // a block that stands for a message, as items of OpenAI's responses do
		return
	}
	r.role = role
	if bytes.Equal(role, roleTool) && f.parts == nil {
		r.response(f, firstOf(f.content, f.result))
		return
	}
	if f.content == nil && f.parts == nil && f.toolCalls == nil && f.functionCall == nil && f.refusal == nil &&
		f.thinking == nil && f.errorMessage == nil && f.audio == nil {
		if isString(f.kind) && f.data != nil {
			r.add(part{typ: typeExtension, name: f.kind, key: "data", content: f.data})
		} else if !explicitlyEmpty(raw) {
			r.plain(raw)
		}
		return
	}
	if isString(f.thinking) {
		r.add(part{typ: typeReasoning, key: "content", content: f.thinking})
	}
	r.contents(f.content)
	r.contents(f.parts)
	if isString(f.refusal) {
		r.add(part{typ: typeText, key: "content", content: f.refusal})
	}
	if f.audio != nil {
		r.add(part{typ: typeAudio, key: "value", content: f.audio})
	}
	if isObject(f.functionCall) {
		r.call(&fields{function: f.functionCall}, f.functionCall)
	}
	switch {
	case isArray(f.toolCalls):
		each(f.toolCalls, r.call)
	case f.toolCalls != nil:
		r.plain(f.toolCalls)
	}
	if isString(f.errorMessage) {
		r.add(part{typ: typeError, key: "content", content: f.errorMessage})
	}
}

// explicitlyEmpty reports whether the message raw has content that is null: OpenAI's way to say that there is none.
func explicitlyEmpty(raw []byte) bool {
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	if c.Open('{') {
		for c.More('}') {
			if key := c.Key(); string(key) == "content" {
				return true
			}
			c.Value()
		}
	}
	return false
}

// roleOf returns the role that f is under in the standard, or nil if f is a block without one.
func (r *reader) roleOf(f *fields) []byte {
	if isString(f.role) {
		switch said := f.role[1 : len(f.role)-1]; Role(string(said)) {
		case "tool":
			return roleTool
		case "assistant":
			return roleAssistant
		}
		if r.limited() && len(f.role) > maxWord {
			return roleUnknown
		}
		return f.role
	}
	if !isString(f.typ) || string(f.typ) == `"message"` {
		return r.fallback
	}
	switch {
	case bytes.HasSuffix(f.typ, []byte(`_call"`)), string(f.typ) == `"reasoning"`:
		r.role = roleAssistant
	case bytes.HasSuffix(f.typ, []byte(`_output"`)):
		r.role = roleTool
	}
	return nil
}

// contents reads content: a string, a block, or an array of these.
func (r *reader) contents(raw []byte) {
	switch {
	case raw == nil || string(raw) == `""` || string(raw) == "null":
	case isArray(raw):
		each(raw, r.block)
	default:
		f, _ := readFields(raw)
		r.block(&f, raw)
	}
}

// block reads one block of content, raw.
func (r *reader) block(f *fields, raw []byte) {
	if isString(raw) {
		r.add(part{typ: typeText, key: "content", content: raw})
		return
	}
	switch string(f.typ) {
	case `"text"`, `"input_text"`, `"output_text"`, `"summary_text"`:
		if text := firstString(f.text, f.content); text != nil {
			r.add(part{typ: typeText, key: "content", content: text})
			return
		}
	case `"refusal"`:
		if isString(f.refusal) {
			r.add(part{typ: typeText, key: "content", content: f.refusal})
			return
		}
	case `"thinking"`, `"reasoning"`, `"reasoning_text"`:
		if r.reasoning(f) {
			return
		}
	case `"toolCall"`, `"tool_call"`, `"tool_use"`, `"function_call"`:
		r.call(f, raw)
		return
	case `"tool_result"`, `"tool_call_response"`, `"function_call_output"`:
		r.response(f, firstOf(f.content, f.result))
		return
	case `"image"`, `"input_image"`, `"image_url"`:
		if r.media(f, "image") {
			return
		}
	case `"audio"`, `"input_audio"`:
		if r.media(f, "audio") {
			return
		}
	case `"video"`:
		if r.media(f, "video") {
			return
		}
	case `"document"`, `"file"`, `"input_file"`, `"resource_link"`:
		if r.media(f, "") {
			return
		}
	case `"blob"`:
		if p := r.newMedia(f, ""); isString(f.content) {
			r.data(p, f.content)
			return
		}
	case `"uri"`:
		if r.media(f, "") {
			return
		}
	case ``:
		if isString(f.text) {
			r.add(part{typ: typeText, key: "content", content: f.text})
			return
		}
	}
	r.other(f, raw)
}

// other adds a block as it is if it has a type to be told by, which is not one whose rules it breaks.
func (r *reader) other(f *fields, raw []byte) {
	switch string(f.typ) {
	case `"reasoning"`:
		r.add(part{typ: typeEncrypted, key: "value", content: raw})
	case `"text"`, `"tool_call"`, `"blob"`, `"uri"`, `"file"`:
		r.plain(raw)
	default:
		if isString(f.typ) {
			r.add(part{typ: f.typ, content: raw})
		} else {
			r.plain(raw)
		}
	}
}

// reasoning reads a block of reasoning and reports whether it holds any text.
func (r *reader) reasoning(f *fields) bool {
	if text := firstString(f.thinking, f.text, f.content); text != nil {
		r.add(part{typ: typeReasoning, key: "content", content: text})
		return true
	}
	found := false
	for _, list := range [][]byte{f.summary, f.content} {
		if isArray(list) {
			each(list, func(b *fields, _ []byte) {
				if isString(b.text) {
					r.add(part{typ: typeReasoning, key: "content", content: b.text})
					found = true
				}
			})
		}
	}
	return found
}

// call reads a call of a tool, raw.
func (r *reader) call(f *fields, raw []byte) {
	id, outer := firstString(f.callID, f.id), f
	if isObject(f.function) {
		g, _ := readFields(f.function)
		f = &g
	}
	name := firstString(f.name, f.toolName)
	if name == nil {
		r.other(outer, raw)
		return
	}
	p := part{typ: typeCall, id: r.short(id), name: r.short(name), key: "arguments", content: null}
	if f.arguments != nil {
		p.content = r.arguments(f.arguments)
	}
	r.add(p)
}

// arguments returns raw, or the JSON that it holds if it is a string with an object or array.
func (r *reader) arguments(raw []byte) []byte {
	if !isString(raw) {
		return raw
	}
	start := len(r.arena)
	r.arena = rawjson.AppendString(r.arena, raw)
	inner := bytes.TrimSpace(r.arena[start:])
	if (isObject(inner) || isArray(inner)) && rawjson.Valid(inner, rawjson.MaxDepth) == nil {
		return inner
	}
	r.arena = r.arena[:start]
	return raw
}

// response reads the result of a call.
func (r *reader) response(f *fields, result []byte) {
	p := part{
		typ: typeResponse, id: r.short(firstString(f.callID, f.id)), name: r.short(firstString(f.toolName, f.name)),
		isError: f.isError, key: "response", content: null,
	}
	if result != nil {
		p.content = loneText(result)
	}
	role := r.role
	if !r.oneRole {
		r.role = roleTool
	}
	r.add(p)
	r.role = role
}

// loneText returns what the result of a tool says if it is one block of text, else the result.
func loneText(result []byte) []byte {
	c := rawjson.NewCursor(result, rawjson.MaxDepth)
	if !c.Open('[') || !c.More(']') {
		return result
	}
	f := fieldsAt(&c)
	if !isString(f.text) || c.More(']') {
		return result
	}
	switch string(f.typ) {
	case `"text"`, `"input_text"`, `"output_text"`:
		return f.text
	}
	return result
}

// media reads an image, a sound or a file, and reports whether it found where its content is.
func (r *reader) media(f *fields, modality string) bool {
	p := r.newMedia(f, modality)
	switch {
	case isString(f.source):
		return r.link(p, f.source)
	case isObject(f.source):
		return r.inside(p, f.source)
	case isString(f.media):
		return r.link(p, f.media)
	case isObject(f.media):
		return r.inside(p, f.media)
	case isString(f.data):
		return r.data(p, f.data)
	case isString(f.fileData):
		return r.data(p, f.fileData)
	case isString(f.url):
		return r.link(p, f.url)
	case isString(f.fileID):
		p.typ, p.key, p.content = typeFile, "file_id", f.fileID
		return r.addMedia(p)
	}
	return false
}

// newMedia returns a part with what f says of the kind of its content.
func (r *reader) newMedia(f *fields, modality string) part {
	p := part{modality: modality, name: r.short(firstString(f.name))}
	if isString(f.mime) {
		p.mime = f.mime[1 : len(f.mime)-1]
	}
	if isString(f.modality) && len(f.modality) <= maxWord {
		p.modality = string(f.modality[1 : len(f.modality)-1])
	}
	return p
}

// inside reads media from the object in which a block describes its content.
func (r *reader) inside(p part, raw []byte) bool {
	f, ok := readFields(raw)
	if !ok {
		return false
	}
	if string(f.typ) == `"text"` && isString(f.data) {
		r.add(part{typ: typeText, key: "content", content: f.data})
		return true
	}
	if p.mime == nil && isString(f.fmt) {
		p.mime = append([]byte("audio/"), f.fmt[1:len(f.fmt)-1]...)
	}
	if f.mime == nil && p.mime != nil {
		// What stood around it still holds.
		f.mime = append(append([]byte{'"'}, p.mime...), '"')
	}
	if f.name == nil {
		f.name = p.name
	}
	f.source, f.media = nil, nil
	return r.media(&f, p.modality)
}

// link reads media from an address, which holds it if it is a data URL.
func (r *reader) link(p part, address []byte) bool {
	if bytes.HasPrefix(address, []byte(`"data:`)) {
		return r.data(p, address)
	}
	p.typ, p.key, p.content = typeURI, "uri", address
	return r.addMedia(p)
}

// data reads media from base64 or a data URL.
func (r *reader) data(p part, raw []byte) bool {
	p.typ, p.key, p.form, p.content = typeBlob, "content", binary, raw[1:]
	if rest, ok := bytes.CutPrefix(raw, []byte(`"data:`)); ok {
		head, content, ok := bytes.Cut(rest, []byte(`,`))
		head, base64 := bytes.CutSuffix(head, []byte(`;base64`))
		if !ok || !base64 {
			p.typ, p.key, p.form, p.content = typeURI, "uri", value, raw
			return r.addMedia(p)
		}
		if mime, _, _ := bytes.Cut(head, []byte(`;`)); len(mime) > 0 {
			p.mime = mime
		}
		p.content = content
	}
	return r.addMedia(p)
}

func (r *reader) addMedia(p part) bool {
	if r.limited() && len(p.mime) > maxID {
		p.mime = nil
	}
	kind, _, _ := bytes.Cut(p.mime, []byte(`/`))
	kind = bytes.TrimSuffix(kind, []byte(`\`))
	switch {
	case p.modality != "":
	case string(kind) == "image":
		p.modality = "image"
	case string(kind) == "audio":
		p.modality = "audio"
	case string(kind) == "video":
		p.modality = "video"
	default:
		p.modality = "document"
	}
	r.add(p)
	return true
}

// plain adds raw as a text.
func (r *reader) plain(raw []byte) {
	r.add(part{typ: typeText, key: "content", content: raw, form: plain})
}

func (r *reader) add(p part) {
	p.message, p.role = r.number, r.role
	p.typ = r.short(p.typ)
	if n := len(r.parts) - r.first; r.limited() && n >= 2*r.most {
		// More than most are never written.
		copy(r.parts[r.first:], r.parts[r.first+n-r.most:])
		r.parts = r.parts[:r.first+r.most]
		r.dropped += n - r.most
	}
	r.parts = append(r.parts, p)
}

func (r *reader) short(word []byte) []byte {
	if !r.limited() {
		return word
	}
	return short(word)
}

// short returns word, a JSON string or nil, cut to what ids and names may have.
func short(word []byte) []byte {
	if len(word) <= maxID {
		return word
	}
	return appendCutString(nil, word, maxID)
}
