package message

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode"

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
	// Choice is auto, none, any, or tool, for the tool ChoiceName. Empty is not stated.
	Choice, ChoiceName string
	Format             Format
	Stream             bool
	// Extra are the keys of other parameters.
	Extra []string

	members []Member
	top     Object
	list    [][]byte
}

// Definition is a tool that a request offers.
type Definition struct {
	Name, Description string
	Schema, Strict    []byte
	// Hosted is the type of a tool that the provider runs.
	Hosted string
	Extra  []string
}

// Format is the format of the answer. Kind is json, or empty for text.
type Format struct {
	Kind, Name     string
	Schema, Strict []byte
}

// Names of parameters that a turn states too.
const (
	MaxTokens   = "max tokens"
	Temperature = "temperature"
)

// param is a parameter: its name, its keys in all spellings, its key in each API that has it, and the first bytes of its JSON.
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
		[]string{"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens", "gen_ai.request.max_tokens"},
		"max_tokens", "max_completion_tokens", "max_output_tokens", number,
	},
	{Temperature, []string{"temperature", "gen_ai.request.temperature"}, "temperature", "temperature", "temperature", number},
	{"top_p", []string{"top_p", "topP"}, "top_p", "top_p", "top_p", number},
	{"top_k", []string{"top_k", "topK"}, "top_k", "", "", number},
	{"seed", []string{"seed"}, "", "seed", "", number},
	{"frequency_penalty", []string{"frequency_penalty", "frequencyPenalty"}, "", "frequency_penalty", "", number},
	{"presence_penalty", []string{"presence_penalty", "presencePenalty"}, "", "presence_penalty", "", number},
	{"stop sequences", []string{"stop_sequences", "stop", "stopSequences"}, "stop_sequences", "stop", "", "[\""},
	{"user", []string{"user"}, "", "user", "user", "\""},
	{"parallel tool calls", []string{"parallel_tool_calls", "parallelToolCalls"}, "", "parallel_tool_calls", "parallel_tool_calls", "tf"},
}

func (p *param) key(api API) string {
	return map[API]string{Anthropic: p.anthropic, OpenAIChat: p.chat, OpenAIResponses: p.responses}[api]
}

// Keys of requests in all spellings.
var (
	listKeys   = []string{"messages", "input", "contents", "prompt", "gen_ai.input.messages", "input_messages"}
	systemKeys = []string{
		"system", "system_prompt", "instructions", "systemInstruction", "system_instruction", "gen_ai.system_instructions", "system_instructions",
	}
	modelKeys = []string{"model", "model_id", "modelId", "gen_ai.request.model"}
	toolKeys  = []string{"tools", "gen_ai.tool.definitions", "tool_definitions"}
)

// ErrNoRequest is the error about JSON that is not an object with messages.
var ErrNoRequest = errors.New("the request is not a JSON object with messages")

// ReadRequest reads a request in any spelling. What it returns refers to payload. The error is ErrNoRequest.
func ReadRequest(payload []byte) (*Request, error) {
	if !valid(payload) {
		return nil, ErrNoRequest
	}
	top := ObjectOf(payload)
	for _, config := range []string{"generationConfig", "generation_config"} { // of Gemini
		for _, m := range Members(top[config]) {
			if delete(top, config); !top.Has(m.Key) && string(m.Value) != "null" {
				top[m.Key] = m.Value
			}
		}
	}
	r := &Request{Params: map[string][]byte{}, members: Members(payload), top: top}
	taken := reader{top, r, map[string]bool{}}
	messages := taken.first(listKeys...)
	switch {
	case is(messages, '['):
		r.list = Elements(messages)
	case is(messages, '"'):
		r.list = [][]byte{messages}
	default:
		return nil, ErrNoRequest
	}
	for i, raw := range r.list {
		for _, m := range read(raw, i) {
			if n := len(r.Messages); top.Has("input") && n > 0 && m.Role == Assistant && r.Messages[n-1].Role == Assistant {
				last := &r.Messages[n-1] // items of one reply of OpenAI's responses
				last.Parts, last.Fields = append(last.Parts, m.Parts...), append(last.Fields, m.Fields...)
				continue
			}
			r.Messages = append(r.Messages, m)
		}
	}
	system := taken.first(systemKeys...)
	if o := ObjectOf(system); o.Has("parts", "content") { // a message, as Gemini has it
		system = o.First("parts", "content")
	}
	r.System = Blocks(system)
	for system == nil && len(r.Messages) > 0 && r.Messages[0].Role == System {
		r.System, r.Messages = append(r.System, r.Messages[0].Parts...), r.Messages[1:]
	}
	for _, raw := range Elements(taken.first(toolKeys...)) {
		r.tool(raw)
	}
	taken.parameters()
	for _, m := range r.members {
		if !taken.keys[m.Key] && top.Has(m.Key) {
			r.Extra = append(r.Extra, m.Key)
		}
	}
	return r, nil
}

func (r *Request) tool(raw []byte) {
	o := ObjectOf(raw)
	if declared := o.First("functionDeclarations", "function_declarations"); declared != nil {
		for _, e := range Elements(declared) {
			r.tool(e)
		}
		return
	}
	typ := o.Str("type")
	if f := o.Obj("function"); f != nil {
		o = f
	}
	t := Definition{Name: o.Str("name"), Description: o.Str("description"), Strict: o["strict"]}
	t.Schema = o.First("parameters", "input_schema", "inputSchema", "parametersJsonSchema")
	if typ != "function" && (typ != "custom" || t.Schema == nil) {
		t.Hosted = typ
	}
	t.Name = cmp.Or(t.Name, t.Hosted)
	t.Extra = o.without([]string{
		"type", "name", "description", "parameters", "input_schema", "inputSchema", "parametersJsonSchema", "strict", "function",
	})
	r.Tools = append(r.Tools, t)
}

// reader reads parameters, and remembers the keys that it read.
type reader struct {
	top  Object
	out  *Request
	keys map[string]bool
}

// first returns the value of the first of keys that is there.
func (r *reader) first(keys ...string) []byte {
	for _, k := range keys {
		if v := r.top[k]; v != nil {
			r.keys[k] = true
			return v
		}
	}
	return nil
}

// object is first for an object. Its keys that are none of known are extra.
func (r *reader) object(key string, known ...string) Object {
	o := ObjectOf(r.first(key))
	for _, k := range o.without(known) {
		r.out.Extra = append(r.out.Extra, key+"."+k)
	}
	return o
}

func (r *reader) parameters() {
	out := r.out
	out.Model, _ = rawjson.String(r.first(modelKeys...))
	for _, p := range params {
		v := r.first(p.spelt...)
		if v != nil && strings.IndexByte(p.first, v[0]) < 0 {
			out.Extra = append(out.Extra, p.name)
			continue
		}
		if out.Params[p.name] = v; v != nil && p.name == "stop sequences" && v[0] == '"' {
			out.Params[p.name] = Array([][]byte{v})
		}
	}
	out.Stream = r.top.True("stream")
	out.Effort, _ = rawjson.String(r.first("reasoning_effort", "thinking_level", "reasoningEffort"))
	out.Effort = cmp.Or(r.object("reasoning", "effort").Str("effort"), out.Effort)
	output := r.object("output_config", "effort", "format")
	out.Effort = cmp.Or(output.Str("effort"), out.Effort)
	r.choice()
	for _, raw := range [][]byte{
		r.first("response_format", "responseFormat"), r.object("text", "format")["format"], output["format"], r.first("output_format"),
	} {
		out.Format.read(ObjectOf(raw))
	}
}

func (r *reader) choice() {
	out := r.out
	for _, key := range []string{"tool_choice", "toolChoice"} {
		o := r.object(key, "type", "name", "function", "toolName")
		name := cmp.Or(o.Obj("function").Str("name"), o.Str("name", "toolName"))
		switch kind := cmp.Or(r.top.Str(key), o.Str("type")); {
		case kind == "auto", kind == "none":
			out.Choice = kind
		case kind == "any", kind == "required":
			out.Choice = "any"
		case name != "":
			out.Choice, out.ChoiceName = "tool", name
		case kind != "":
			out.Extra = append(out.Extra, key)
		}
	}
}

func (f *Format) read(o Object) {
	kind := o.Str("type", "kind")
	if o.Has("json_schema") {
		o = o.Obj("json_schema")
	}
	if strings.HasPrefix(kind, "json") {
		*f = Format{"json", o.Str("name"), o["schema"], o["strict"]}
	}
}

// Parameters names what a request states besides model, messages, prompt and tools, with values where these are short.
func (r *Request) Parameters() (out []string) {
	for _, m := range r.members {
		short := len(m.Value) <= 16 && !is(m.Value, '{') && !is(m.Value, '[')
		switch {
		case !r.top.Has(m.Key) || slices.Contains(slices.Concat(listKeys, systemKeys, modelKeys, toolKeys, []string{"provenance"}), m.Key):
		case short:
			out = append(out, Brief(m.Key)+" "+strings.Trim(string(m.Value), `"`))
		default:
			out = append(out, Brief(m.Key))
		}
	}
	return out
}

// native has, by API, the keys of messages, the types of blocks, the key of a tool that the host runs, and keys that only others have.
var native = map[API]struct {
	keys, types []string
	tool        string
	foreign     []string
}{
	Anthropic: {
		[]string{"role", "content"},
		[]string{"", "text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result"},
		"input_schema",
		[]string{
			"system_prompt", "max_completion_tokens", "frequency_penalty", "presence_penalty", "reasoning_effort", "stream_options",
			"response_format", "stop", "n",
		},
	},
	OpenAIChat: {
		[]string{
			"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content", "reasoning",
			"reasoning_details", "annotations", "cache_control",
		},
		[]string{
			"", "text", "refusal", "image_url", "input_audio", "file", "function", "custom", "reasoning_content", "reasoning",
			"reasoning.text", "reasoning.encrypted", "reasoning.summary",
		},
		"function",
		[]string{"system", "system_prompt", "stop_sequences", "anthropic_version", "output_config"},
	},
}

// Native reports whether the request that r was read from is a body of that API as it stands. It looks for what the API demands, and for keys and
// types that only other spellings have; keys and types that it does not know do not count.
func (r *Request) Native(api API) bool {
	model, isChat := r.top.Str("model"), r.top.Has("messages")
	rules, ok := native[api]
	if !ok || model == "" || !isChat {
		return !ok && model != "" && !isChat && r.top.Has("input")
	}
	if api == Anthropic && (!isNumber(r.top["max_tokens"]) || r.System != nil && !r.top.Has("system")) {
		return false
	}
	for k := range r.top {
		if slices.Contains(rules.foreign, k) || strings.ContainsFunc(k, unicode.IsUpper) { // of the AI SDK
			return false
		}
	}
	for _, raw := range r.list {
		if ObjectOf(raw).without(rules.keys) != nil {
			return false
		}
	}
	for _, m := range r.Messages {
		if slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Kind != Unknown && !slices.Contains(rules.types, p.Type) }) {
			return false
		}
	}
	return !slices.ContainsFunc(Elements(r.top["tools"]), func(raw []byte) bool {
		o := ObjectOf(raw)
		return !o.Has(rules.tool) && (!o.Has("type") || o.Has("input_schema", "function"))
	})
}
