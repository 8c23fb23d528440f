package replay

import (
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/genaijson"
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
	switch genaijson.Role(roleName) {
	case "user":
	case "assistant":
		m.role = assistant
	case "system":
		m.role = system
	case "tool":
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
		"function_call", "refusal", "reasoning_content", "reasoning", "reasoning_details", "thinking")
	m.fields = append(m.fields, o.besides(known...)...)

	said := r.contents(o.first("content", "parts"))
	content := func(p part) bool { return p.kind == text || p.kind == media }
	if m.role == results && (o.has("tool_call_id", "toolCallId", "tool_use_id", "toolName", "tool_name") || len(said) == 0 || slices.ContainsFunc(said, content)) {
		p := part{kind: result, id: o.str("tool_call_id", "toolCallId", "tool_use_id"), name: o.str("toolName", "tool_name", "name"), isError: string(o.first("isError", "is_error")) == "true"}
		p.parts = said
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
	m.parts = append(m.parts, said...)
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
