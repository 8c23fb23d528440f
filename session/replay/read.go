package replay

import (
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// read reads a captured request in any spelling. What is read refers to payload.
func read(payload []byte) (*request, error) {
	if rawjson.Valid(payload, rawjson.MaxDepth) != nil {
		return nil, ErrNoRequest
	}
	top := members(payload)
	r := reader{top: asObject(payload)}
	if top == nil || !r.top.has(messageKeys...) {
		return nil, ErrNoRequest
	}
	r.out.spelling = spellingOf(r.top)
	r.prompt()
	switch list := r.top.first(messageKeys...); {
	case isArray(list):
		for i, raw := range elements(list) {
			r.message(i, raw)
		}
	case isString(list): // the input of a response
		s, _ := rawjson.String(list)
		r.add(message{role: user, parts: []part{{kind: text, text: s}}, raw: list})
	default:
		return nil, ErrNoRequest
	}
	if r.out.spelling == SpellResponses {
		r.join()
	}
	r.leading()
	for _, raw := range elements(r.top.first(toolKeys...)) {
		r.tool(raw)
	}
	r.parameters(top)
	return &r.out, nil
}

var (
	messageKeys = []string{"messages", "input", "contents", "prompt", "gen_ai.input.messages", "input_messages"}
	systemKeys  = []string{"system", "system_prompt", "instructions", "systemInstruction", "system_instruction", "gen_ai.system_instructions", "system_instructions"}
	toolKeys    = []string{"tools", "gen_ai.tool.definitions", "tool_definitions"}
	modelKeys   = []string{"model", "model_id", "modelId", "gen_ai.request.model"}
)

type reader struct {
	top object
	out request
	// names of tools by the ids of their calls
	names map[string]string
}

func (r *reader) add(m message) { r.out.messages = append(r.out.messages, m) }

func (r *reader) prompt() {
	raw := r.top.first(systemKeys...)
	switch {
	case raw == nil:
	case isString(raw):
		if s, _ := rawjson.String(raw); s != "" {
			r.out.system = []part{{kind: text, text: s, raw: raw}}
		}
	case isArray(raw):
		for _, e := range elements(raw) {
			r.out.system = append(r.out.system, r.block(e))
		}
	default: // a message, as that of Gemini
		o := asObject(raw)
		if list := o.first("parts", "content"); list != nil {
			r.out.system = r.contents(list)
		} else {
			r.out.system = []part{r.block(raw)}
		}
	}
}

// leading moves what stands first as messages of the system to the system prompt, where there is none beside the messages.
func (r *reader) leading() {
	if len(r.out.system) > 0 {
		return
	}
	n := 0
	for n < len(r.out.messages) && r.out.messages[n].role == system {
		r.out.system = append(r.out.system, r.out.messages[n].parts...)
		n++
	}
	r.out.messages = r.out.messages[n:]
}

// join makes one message of what a model said at once: in the Responses API its texts and calls are items beside each other.
func (r *reader) join() {
	var out []message
	for _, m := range r.out.messages {
		if n := len(out); n > 0 && m.role == assistant && out[n-1].role == assistant {
			last := &out[n-1]
			last.parts, last.fields, last.raw = append(last.parts, m.parts...), append(last.fields, m.fields...), nil
			continue
		}
		out = append(out, m)
	}
	r.out.messages = out
}

// described are keys of a message that say something about it and are no content: no provider takes them.
var described = []string{
	"timestamp", "createdAt", "created_at", "usage", "stopReason", "stop_reason", "model", "provider", "metadata", "finish_reason", "error_message", "errorMessage",
	"narration", "details", "turnId", "nodeId", "parentId", "tags", "provenanceHint", "status", "phase", "providerOptions", "providerMetadata", "experimental_providerMetadata",
	"name", "annotations", "kind", "audio", "prefix", "cache_control",
}

func (r *reader) message(at int, raw []byte) {
	o := asObject(raw)
	m := message{at: at, raw: raw}
	if o == nil {
		m.parts = r.contents(raw)
		r.add(m)
		return
	}
	roleName := o.str("role")
	switch roleName {
	case "user":
	case "assistant", "model":
		m.role = assistant
	case "system", "developer":
		m.role = system
	case "tool", "toolResult", "tool_result", "function":
		m.role = results
	case "":
		if r.item(&m, o, raw) {
			return
		}
	default:
		if !o.has("content", "parts") { // of somebody's own: no model sees it as it stands
			m.parts = []part{{kind: other, typ: "extension message", raw: raw}}
			r.add(m)
			return
		}
		m.fields = append(m.fields, "role")
	}
	for _, k := range described {
		if o.has(k) {
			m.fields = append(m.fields, k)
		}
	}
	known := append(slices.Clone(described), "role", "content", "parts", "id", "type", "tool_calls", "tool_call_id", "toolCallId", "tool_use_id", "toolName", "tool_name", "isError", "is_error",
		"function_call", "refusal", "reasoning_content", "reasoning", "reasoning_details", "data", "payload", "thinking", "toolInvocations")
	m.fields = append(m.fields, o.besides(known...)...)

	if m.role == results && o.has("tool_call_id", "toolCallId", "tool_use_id", "toolName", "tool_name") || roleName == "function" {
		p := part{kind: result, id: o.str("tool_call_id", "toolCallId", "tool_use_id"), name: o.str("toolName", "tool_name", "name"), isError: string(o.first("isError", "is_error")) == "true"}
		p.parts = r.contents(o.first("content", "parts"))
		m.parts = []part{r.named(p)}
		r.add(m)
		return
	}
	for _, k := range []string{"reasoning_content", "reasoning", "thinking"} {
		if s := o.str(k); s != "" {
			m.parts = append(m.parts, part{kind: thinking, text: s, typ: k})
		}
	}
	for _, e := range elements(o["reasoning_details"]) {
		m.parts = append(m.parts, r.detail(e))
	}
	m.parts = append(m.parts, r.contents(o.first("content", "parts"))...)
	for i := range m.parts { // whoever said it signed it
		if p := &m.parts[i]; p.kind == thinking && p.signature != "" && p.vendor == "" {
			p.vendor = o.str("provider")
		}
	}
	if s := o.str("refusal"); s != "" {
		m.parts = append(m.parts, part{kind: text, text: s, typ: "refusal"})
	}
	for _, e := range elements(o["tool_calls"]) {
		m.parts = append(m.parts, r.call(asObject(e), e))
	}
	if f := o["function_call"]; f != nil {
		m.parts = append(m.parts, r.call(asObject(f), f))
	}
	if o.has("kind") && o.has("data", "payload") && !o.has("content", "parts") {
		m.parts, m.fields = []part{{kind: other, typ: "extension message", raw: raw}}, nil
	}
	r.split(m)
}

// split adds a message; results of tools that stand in it go to messages of their own, behind the calls that they answer.
func (r *reader) split(m message) {
	var rest, found []part
	flush := func() {
		if len(rest) > 0 {
			n := m
			n.parts, n.raw = rest, nil
			r.add(n)
		}
		if len(found) > 0 {
			r.add(message{role: results, parts: found, at: m.at})
		}
		rest, found = nil, nil
	}
	plain := true
	for _, p := range m.parts {
		plain = plain && p.kind != result && p.typ != stepStart
	}
	if plain || m.role == results {
		r.add(m)
		return
	}
	for _, p := range m.parts {
		switch {
		case p.typ == stepStart:
			flush()
		case p.kind == result:
			found = append(found, p)
		case len(found) > 0 && m.role == assistant && p.kind != call: // what the model said when it had them
			flush()
			rest = append(rest, p)
		case len(found) > 0 && m.role == user:
			flush()
			rest = append(rest, p)
		default:
			rest = append(rest, p)
		}
	}
	flush()
}

const stepStart = "step-start"

// item reads an item of the Responses API, which has no role, and reports whether it was one.
func (r *reader) item(m *message, o object, raw []byte) bool {
	typ := o.str("type")
	switch {
	case typ == "function_call", typ == "custom_tool_call":
		m.role, m.parts = assistant, []part{r.call(o, raw)}
	case typ == "function_call_output", typ == "custom_tool_call_output":
		m.role, m.parts = results, []part{r.result(o, raw)}
	case typ == "reasoning":
		m.role, m.parts = assistant, []part{r.block(raw)}
	case typ == "message", typ == "":
		return false
	case strings.HasSuffix(typ, "_call"):
		m.role, m.parts = assistant, []part{{kind: other, typ: typ, raw: raw}}
	default:
		m.parts = []part{r.block(raw)}
	}
	r.add(*m)
	return true
}

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
				p.kind, p.text, p.typ = text, s, "text document"
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

func (r *reader) tool(raw []byte) {
	o := asObject(raw)
	if list := o.first("functionDeclarations", "function_declarations"); list != nil {
		for _, e := range elements(list) {
			r.tool(e)
		}
		return
	}
	t := tool{raw: raw, typ: o.str("type")}
	f := o
	if inner := asObject(o["function"]); inner != nil {
		f = inner
	}
	t.name, t.description = f.str("name"), f.str("description")
	t.schema = f.first("parameters", "input_schema", "inputSchema", "parametersJsonSchema")
	t.strict = f["strict"]
	if t.typ == "function" || t.typ == "custom" && t.schema != nil {
		t.typ = ""
	}
	if t.typ != "" && t.schema == nil && t.name == "" {
		t.name = t.typ
	}
	t.extra = f.besides("type", "name", "description", "parameters", "input_schema", "inputSchema", "parametersJsonSchema", "strict", "function")
	r.out.tools = append(r.out.tools, t)
}

// parameters reads what stands beside messages, prompt and tools.
func (r *reader) parameters(top []member) {
	p, o := &r.out.params, r.top
	taken := map[string]bool{}
	take := func(keys ...string) []byte {
		for _, k := range keys {
			if o[k] != nil {
				taken[k] = true
				return o[k]
			}
		}
		return nil
	}
	number := func(keys ...string) []byte {
		if v := take(keys...); isNumber(v) {
			return v
		} else if v != nil {
			for _, k := range keys {
				delete(taken, k)
			}
		}
		return nil
	}
	for _, keys := range [][]string{messageKeys, systemKeys, toolKeys} {
		take(keys...)
	}
	for _, k := range modelKeys {
		if s, ok := rawjson.String(o[k]); ok && r.out.model == "" {
			r.out.model, taken[k] = s, true
		}
	}
	p.maxTokens = number("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens", "gen_ai.request.max_tokens")
	p.temperature = number("temperature", "gen_ai.request.temperature")
	p.topP = number("top_p", "topP")
	p.topK = number("top_k", "topK")
	p.seed = number("seed")
	p.frequency = number("frequency_penalty", "frequencyPenalty")
	p.presence = number("presence_penalty", "presencePenalty")
	switch v := take("stop_sequences", "stop", "stopSequences"); {
	case isString(v):
		p.stop = [][]byte{v}
	case isArray(v):
		p.stop = elements(v)
	}
	r.reasoning(take)
	r.choice(take("tool_choice", "toolChoice"))
	if v := take("parallel_tool_calls", "parallelToolCalls"); isBool(v) {
		p.parallel = v
	}
	r.format(take)
	p.user = asObject(take("metadata")).str("user_id")
	if s, ok := rawjson.String(o["user"]); ok {
		p.user, taken["user"] = s, true
	}
	if p.user == "" || asObject(o["metadata"]) != nil && len(asObject(o["metadata"])) > 1 {
		delete(taken, "metadata")
	}
	if v := take("stream"); isBool(v) {
		p.stream = v[0] == 't'
	}
	if g := take("generationConfig", "generation_config"); isObject(g) {
		inner := reader{top: asObject(g)}
		inner.parameters(members(g))
		from := inner.out.params
		from.user, from.stream = p.user, p.stream
		r.out.extra = append(r.out.extra, inner.out.extra...)
		*p = from
	}
	for _, m := range top {
		if !taken[m.key] && string(m.value) != "null" {
			r.out.extra = append(r.out.extra, m)
		}
	}
}

func (r *reader) reasoning(take func(...string) []byte) {
	p := &r.out.params
	if s, ok := rawjson.String(take("reasoning_effort", "thinking_level", "reasoningEffort")); ok {
		p.level = s
	}
	if o := asObject(take("reasoning")); o != nil {
		p.level = o.str("effort")
		r.rest("reasoning", o, "effort")
	}
	if o := asObject(take("output_config")); o != nil {
		p.level = o.str("effort")
		r.rest("output_config", o, "effort", "format")
	}
	if o := asObject(take("thinking")); o != nil {
		p.budget = nil
		if n := o["budget_tokens"]; isNumber(n) {
			p.budget = n
		}
		if o.str("type") == "disabled" {
			p.level = "off"
		} else if p.budget == nil {
			r.out.extra = append(r.out.extra, member{"thinking", r.top["thinking"]})
		}
		r.rest("thinking", o, "type", "budget_tokens")
	}
}

// rest keeps what an object of parameters says besides what is read.
func (r *reader) rest(name string, o object, known ...string) {
	for _, k := range o.besides(known...) {
		r.out.extra = append(r.out.extra, member{name + "." + k, o[k]})
	}
}

func (r *reader) choice(raw []byte) {
	p := &r.out.params
	word, ok := rawjson.String(raw)
	if !ok {
		o := asObject(raw)
		word = o.str("type")
		p.choiceName = o.str("name", "toolName")
		if f := asObject(o["function"]); f != nil {
			p.choiceName = f.str("name")
		}
		if string(o["disable_parallel_tool_use"]) == "true" {
			p.parallel = []byte("false")
		}
	}
	switch {
	case raw == nil:
	case word == "auto", word == "none":
		p.choice = word
	case word == "any", word == "required":
		p.choice = "any"
	case (word == "tool" || word == "function") && p.choiceName != "":
		p.choice = "tool"
	default:
		r.out.extra = append(r.out.extra, member{"tool_choice", raw})
	}
}

func (r *reader) format(take func(...string) []byte) {
	p := &r.out.params
	o := asObject(take("response_format", "responseFormat"))
	if t := asObject(take("text")); t != nil {
		o = asObject(t["format"])
		r.rest("text", t, "format")
	}
	if o == nil {
		o = asObject(asObject(r.top["output_config"])["format"])
	}
	if o == nil {
		o = asObject(take("output_format"))
	}
	if o == nil {
		return
	}
	word := o.str("type", "kind")
	if inner := asObject(o["json_schema"]); inner != nil {
		o = inner
	}
	switch word {
	case "text":
		p.format = "text"
	case "json_object", "json-object", "json":
		p.format = "json"
	case "json_schema", "json-schema":
		p.format, p.schema, p.schemaName, p.schemaStrict = "schema", o["schema"], o.str("name"), o["strict"]
	}
	if p.format == "json" && o.has("schema") { // the AI SDK
		p.format, p.schema, p.schemaName = "schema", o["schema"], o.str("name")
	}
}

// The words by which spellings are told apart.
var (
	chatTypes      = []string{"image_url", "input_audio", "refusal"}
	responsesTypes = []string{"input_text", "output_text", "input_image", "input_file", "summary_text"}
	anthropicTypes = []string{"tool_use", "tool_result", "redacted_thinking", "document", "server_tool_use"}
)

// spellingOf tells whose words a request is in, by roles, types and keys alone.
func spellingOf(top object) Spelling {
	switch {
	case top.has("contents"):
		return SpellGemini
	case top.has("gen_ai.input.messages", "input_messages"):
		return SpellGenAI
	case top.has("system_prompt") && top.has("max_output_tokens"):
		return SpellClark
	case top.has("system_prompt") && top.has("thinking_level", "response_format"):
		return SpellPhi
	case top.has("input") && !top.has("messages"):
		return SpellResponses
	}
	s := signs{}
	for _, raw := range elements(top.first(messageKeys...)) {
		s.message(asObject(raw))
	}
	for _, raw := range elements(top.first(toolKeys...)) {
		s.tool(asObject(raw))
	}
	switch {
	case s.seen("phi"):
		return SpellPhi
	case s.seen("clark"):
		return SpellClark
	case top.has("system_prompt"):
		return SpellClark
	case s.seen("ai-sdk"), top.has("prompt"), top.has("maxOutputTokens"):
		return SpellAISDK
	case s.seen("genai"):
		return SpellGenAI
	case s.seen("chat"), top.has("max_completion_tokens", "frequency_penalty", "presence_penalty", "reasoning_effort", "stream_options", "response_format", "stop", "n"):
		return SpellChat
	case s.seen("loop"):
		return SpellPlain
	case s.seen("anthropic"), top.has("system", "stop_sequences", "thinking", "anthropic_version", "output_config", "top_k"):
		return SpellAnthropic
	}
	return SpellPlain
}

type signs struct{ found []string }

func (s *signs) seen(name string) bool { return slices.Contains(s.found, name) }
func (s *signs) see(name string) {
	if !s.seen(name) {
		s.found = append(s.found, name)
	}
}

func (s *signs) message(o object) {
	switch o.str("role") {
	case "toolResult":
		s.see("phi")
	case "tool_result", "custom":
		s.see("clark")
	case "developer", "function":
		s.see("chat")
	case "system":
		s.see("system")
	case "tool":
		if o.has("tool_call_id") {
			s.see("chat")
		}
	}
	if o.has("tool_calls", "function_call") {
		s.see("chat")
	}
	if o.has("timestamp") {
		s.see("loop")
	}
	ui := o.has("id")
	for _, raw := range elements(o.first("content", "parts")) {
		b := asObject(raw)
		switch typ := b.str("type"); {
		case typ == "toolCall":
			s.see("phi")
		case typ == "image" && b.has("data", "mimeType"), typ == "thinking" && b.has("thinking") && o.has("stopReason"):
			s.see("phi")
		case typ == "reasoning_details", typ == "tool_call" && b.has("arguments") && o.has("content"), typ == "image" && isString(b["source"]):
			s.see("clark")
		case typ == "tool-call", typ == "tool-result", typ == stepStart, typ == "dynamic-tool", strings.HasPrefix(typ, "tool-"), typ == "file" && b.has("mediaType"), typ == "image" && b.has("image"):
			s.see("ai-sdk")
		case typ == "tool_call" && o.has("parts"), typ == "tool_call_response", typ == "text" && b.has("content") && !b.has("text"), typ == "blob":
			s.see("genai")
		case slices.Contains(chatTypes, typ), typ == "file" && b.has("file"):
			s.see("chat")
		case slices.Contains(anthropicTypes, typ), typ == "image" && isObject(b["source"]), typ == "thinking" && b.has("signature"), b.has("cache_control"):
			s.see("anthropic")
		case typ == "text" && o.has("parts") && b.has("text"), typ == "reasoning" && b.has("text") && ui:
			s.see("ai-sdk")
		}
	}
}

func (s *signs) tool(o object) {
	switch {
	case isObject(o["function"]):
		s.see("chat")
	case o.has("input_schema"):
		s.see("anthropic")
	case o.has("inputSchema"):
		s.see("ai-sdk")
	case o.has("parameters") && !o.has("type"):
		s.see("loop")
	}
}
