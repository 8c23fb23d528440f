package message

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// API is a wire form of a provider.
type API string

// The APIs that requests are written for, as their references and official SDKs of November 2026 have them.
const (
	Anthropic       API = "anthropic"        // POST /v1/messages
	OpenAIChat      API = "openai-chat"      // POST /v1/chat/completions
	OpenAIResponses API = "openai-responses" // POST /v1/responses
)

// Request is a request to a model.
type Request struct {
	Model    string
	System   []Part
	Messages []Message
	Tools    []Definition
	// Params are parameters as JSON, by their names.
	Params map[string][]byte
	// Effort is the level of reasoning.
	Effort string
	Format Format
	Stream bool
	// Stated are the keys of all parameters, Extra those of parameters that have no field here.
	Extra, Stated []string

	top *object.Object
}

// Definition is a tool that a request offers.
type Definition struct {
	Name, Description string
	Schema, Strict    []byte
	// Hosted is the type of a tool that the provider runs.
	Hosted string
	Extra  []string
}

// Format is the format of the answer, text unless JSON is set.
type Format struct {
	JSON           bool
	Name           string
	Schema, Strict []byte
}

// Names of parameters that a turn states too.
const (
	MaxTokens   = "max tokens"
	Temperature = "temperature"
)

// param is a parameter: its name, its keys in all spellings and in each API, and the first bytes of its JSON.
type param struct {
	name                       string
	spelt                      []string
	anthropic, chat, responses string
	first                      string
}

const number = "-0123456789"

// params are the parameters whose values have the same form in every spelling.
var params = []param{
	{
		MaxTokens,
		[]string{
			"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens", "num_predict",
			"gen_ai.request.max_tokens",
		},
		"max_tokens", "max_completion_tokens", "max_output_tokens", number,
	},
	{
		Temperature, []string{"temperature", "gen_ai.request.temperature"},
		"temperature", "temperature", "temperature", number,
	},
	{"top_p", []string{"top_p", "topP"}, "top_p", "top_p", "top_p", number},
	{"top_k", []string{"top_k", "topK"}, "top_k", "", "", number},
	{"seed", []string{"seed"}, "", "seed", "", number},
	{"stop sequences", []string{"stop_sequences", "stop", "stopSequences"}, "stop_sequences", "stop", "", `["`},
	{"user", []string{"user"}, "", "user", "user", `"`},
	{
		"parallel tool calls", []string{"parallel_tool_calls", "parallelToolCalls"},
		"", "parallel_tool_calls", "parallel_tool_calls", "tf",
	},
}

func (p *param) key(api API) string {
	return map[API]string{Anthropic: p.anthropic, OpenAIChat: p.chat, OpenAIResponses: p.responses}[api]
}

// ErrNoRequest is the error about input that is not a JSON object with messages.
var ErrNoRequest = errors.New("the request is not a JSON object with messages")

// ReadRequest reads a request in any spelling. What it returns refers to payload. The error is ErrNoRequest.
func ReadRequest(payload []byte) (*Request, error) {
	if !valid(payload) || object.Of("", payload) == nil {
		return nil, ErrNoRequest
	}
	r := &Request{Params: map[string][]byte{}, top: object.Of("", payload)}
	o := object.Of("", payload)
	messages := o.Raw("messages", "input", "contents", "prompt", "gen_ai.input.messages", "input_messages")
	if is(messages, '"') {
		messages = Array([][]byte{messages})
	}
	if !is(messages, '[') {
		return nil, ErrNoRequest
	}
	for i, raw := range rawjson.Elements(messages) {
		for _, m := range read(raw, i) {
			n := len(r.Messages)
			if o.Has("input") && n > 0 && m.Role == assistant && r.Messages[n-1].Role == assistant {
				last := &r.Messages[n-1] // items of one reply of OpenAI's responses
				last.Parts, last.Fields = append(last.Parts, m.Parts...), append(last.Fields, m.Fields...)
				continue
			}
			r.Messages = append(r.Messages, m)
		}
	}
	prompt := o.Raw("system", "system_prompt", "instructions", "systemInstruction", "system_instruction",
		"gen_ai.system_instructions", "system_instructions")
	if in := object.Of("", prompt); in.Has("parts", "content") { // a message, as Gemini has it
		prompt = in.Raw("parts", "content")
	}
	r.System = Blocks(prompt)
	for prompt == nil && len(r.Messages) > 0 && r.Messages[0].Role == system {
		r.System, r.Messages = append(r.System, r.Messages[0].Parts...), r.Messages[1:]
	}
	for _, raw := range rawjson.Elements(o.Raw("tools", "gen_ai.tool.definitions", "tool_definitions")) {
		r.tool(object.Of("", raw))
	}
	r.Model = o.Text("model", "model_id", "modelId", "gen_ai.request.model")
	r.Stated = o.Unread()
	if config := child(o, "generationConfig", "generation_config", "options"); config != nil { // of Gemini, Ollama
		r.parameters(config)
	}
	r.parameters(o)
	return r, nil
}

func (r *Request) tool(o *object.Object) {
	if declared := o.Raw("functionDeclarations", "function_declarations"); declared != nil {
		for _, e := range rawjson.Elements(declared) {
			r.tool(object.Of("", e))
		}
		return
	}
	typ := o.Text("type")
	if f := child(o, "function", "toolSpec"); f != nil {
		o = f
	}
	t := Definition{
		Name: o.Text("name"), Description: o.Text("description"), Strict: o.Raw("strict"),
		Schema: o.Raw("parameters", "input_schema", "inputSchema", "parametersJsonSchema"),
	}
	if typ != "function" && (typ != "custom" || t.Schema == nil) {
		t.Hosted = typ
	}
	t.Name, t.Extra = cmp.Or(t.Name, t.Hosted), o.Unread()
	r.Tools = append(r.Tools, t)
}

// ToolNames returns the names of a catalogue of tools, at most 1,000: a list in any spelling, or an object with a
// member a tool. ok is false for any other value.
func ToolNames(catalogue []byte) (names []string, ok bool) {
	const most = 1000
	if !valid(catalogue) {
		return nil, false
	}
	r, list := &Request{}, rawjson.Elements(catalogue)
	for _, raw := range list {
		if name, isName := rawjson.String(raw); isName {
			r.Tools = append(r.Tools, Definition{Name: name})
		} else if o := object.Of("", raw); o != nil {
			r.tool(o)
		} else {
			return nil, false
		}
	}
	o := object.Of("", catalogue)
	names, ok = o.Keys(), list != nil || o != nil
	for _, t := range r.Tools {
		names, ok = append(names, t.Name), ok && t.Name != ""
	}
	return names[:min(len(names), most)], ok
}

// parameters reads the parameters of o. Those of its keys that nothing read are extra.
func (r *Request) parameters(o *object.Object) {
	for _, p := range params {
		v := o.Raw(p.spelt...)
		switch {
		case v == nil:
		case strings.IndexByte(p.first, v[0]) < 0:
			r.Extra = append(r.Extra, p.name)
		case v[0] == '"' && p.name != "user":
			r.Params[p.name] = Array([][]byte{v})
		default:
			r.Params[p.name] = v
		}
	}
	inner := func(key string, read func(*object.Object)) {
		v := o.Raw(key)
		in := object.Of("", v)
		if read(in); v != nil && in == nil {
			r.Extra = append(r.Extra, key)
		}
		for _, k := range in.Unread() {
			r.Extra = append(r.Extra, key+"."+k)
		}
	}
	effort := func(in *object.Object) { r.Effort = cmp.Or(in.Text("effort"), r.Effort) }
	format := func(in *object.Object) { r.Format.read(child(in, "format")) }
	r.Stream = r.Stream || string(o.Raw("stream")) == "true"
	o.Keep("stream")
	r.Effort = cmp.Or(o.Text("reasoning_effort", "thinking_level", "reasoningEffort"), r.Effort)
	inner("reasoning", effort)
	inner("output_config", func(in *object.Object) { effort(in); format(in) })
	inner("text", format)
	inner("response_format", r.Format.read)
	inner("responseFormat", r.Format.read)
	r.Extra = append(r.Extra, o.Unread()...)
}

func (f *Format) read(o *object.Object) {
	kind := o.Text("type", "kind")
	if in := child(o, "json_schema"); in != nil {
		o = in
	}
	if strings.HasPrefix(kind, "json") {
		*f = Format{true, o.Text("name"), o.Raw("schema"), o.Raw("strict")}
	}
}

// native has, by API, the types of blocks, the fields of messages, the key of a tool that the host runs, and keys that
// only other APIs have.
var native = map[API]struct {
	types, fields []string
	tool          string
	foreign       []string
}{
	Anthropic: {
		[]string{"text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result"}, nil,
		"input_schema",
		[]string{
			"system_prompt", "max_completion_tokens", "frequency_penalty", "presence_penalty", "reasoning_effort",
			"stream_options", "response_format", "stop", "n",
		},
	},
	OpenAIChat: {
		[]string{
			"", "text", "refusal", "image_url", "input_audio", "file", "function", "custom", "reasoning_content",
			"reasoning",
			"reasoning.text", "reasoning.encrypted", "reasoning.summary",
		},
		[]string{"name", "audio", "annotations", "cache_control"}, "function",
		[]string{
			"system", "system_prompt", "stop_sequences", "anthropic_version", "output_config",
			"options", "think", "format", "keep_alive", // of Ollama
		},
	},
}

// Native reports whether the request that r was read from is a body of that API as it is. It looks for members that
// the API demands, and for keys and types that only other spellings have.
func (r *Request) Native(api API) bool {
	rules, ok := native[api]
	if !ok || !r.top.Has("model") || !r.top.Has("messages") {
		return !ok && r.top.Has("model") && r.top.Has("input")
	}
	if api == Anthropic && (r.top.Int("max_tokens") == nil || r.System != nil && !r.top.Has("system")) {
		return false
	}
	for _, k := range r.top.Keys() {
		if slices.Contains(rules.foreign, k) || strings.ContainsFunc(k, unicode.IsUpper) { // of the AI SDK
			return false
		}
	}
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			spelled := p.Block.Text("type")
			isString, known := p.Type == Text && spelled == "", slices.Contains(kinds, p.kind())
			if known && !isString && !slices.Contains(rules.types, spelled) || p.Type == extension {
				return false
			}
		}
		if slices.ContainsFunc(m.Fields, func(k string) bool { return !slices.Contains(rules.fields, k) }) {
			return false
		}
	}
	return !slices.ContainsFunc(rawjson.Elements(r.top.Raw("tools")), func(raw json.RawMessage) bool {
		o := object.Of("", raw)
		return !o.Has(rules.tool) && (!o.Has("type") || o.Has("input_schema", "function"))
	})
}
