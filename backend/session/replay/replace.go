package replay

import (
	"slices"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// fits reports whether payload is a body of that form as it stands.
func fits(payload []byte, r *request, f Form) bool {
	top := asObject(payload)
	if f != r.spelling.own() && (r.spelling != SpellPlain || f == OpenAIResponses) || r.model == "" {
		return false
	}
	if f == Anthropic && !isNumber(top["max_tokens"]) {
		return false
	}
	keys := map[Form][]string{
		Anthropic:  {"role", "content"},
		OpenAIChat: {"role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "reasoning_content", "reasoning", "reasoning_details", "annotations", "cache_control"},
	}[f]
	if keys == nil { // items of a response have many kinds, told by their type
		return true
	}
	for _, raw := range elements(top["messages"]) {
		if o := asObject(raw); o == nil || len(o.besides(keys...)) > 0 {
			return false
		}
	}
	for _, raw := range elements(top["tools"]) {
		o := asObject(raw)
		if f == Anthropic && !o.has("input_schema", "type") || f == OpenAIChat && !o.has("type") {
			return false
		}
	}
	return true
}

// replace puts another model and prompt into a body that is spelled as it came, and turns streaming off. All else stays as it is spelled.
func (b *Body) replace(r *request, o Options) {
	if o.Model != "" && o.Model != r.model {
		b.member(modelKeys, "model", quote(o.Model))
	}
	if o.System != nil {
		b.prompt(r, *o.System)
	}
	if o.Whole && r.params.stream {
		b.member([]string{"stream"}, "stream", []byte("false"))
		b.member([]string{"stream_options"}, "", nil)
		b.Notes = append(b.Notes, Note{Change: Changed, What: "streaming is turned off: the answer is wanted in one piece", Count: 1})
	}
}

// member replaces the first member of those keys, or adds one under the name where there is none and a name is given. A nil value takes it out.
func (b *Body) member(keys []string, name string, value []byte) {
	var out builder
	done := false
	for _, m := range members(b.Bytes) {
		if slices.Contains(keys, m.key) {
			if done || value == nil {
				continue
			}
			m.value, done = value, true
		}
		out.raw(m.key, m.value)
	}
	if !done && value != nil && name != "" {
		out.raw(name, value)
	}
	b.Bytes, b.Unchanged = out.bytes(), false
}

// prompt replaces the system prompt where the request has it: beside the messages or first among them.
func (b *Body) prompt(r *request, s string) {
	top := asObject(b.Bytes)
	value := quote(s)
	switch r.spelling {
	case SpellGemini:
		var p builder
		p.raw("parts", array([][]byte{obj("text", s)}))
		value = p.bytes()
	case SpellGenAI:
		value = array([][]byte{obj("type", "text", "content", s)})
	}
	var key string
	for _, k := range systemKeys {
		if top[k] != nil {
			key = k
			break
		}
	}
	list := top.first(messageKeys...)
	var kept [][]byte
	leading := 0
	for i, e := range elements(list) {
		role := asObject(e).str("role")
		if leading == i && (role == "system" || role == "developer") {
			leading++
			continue
		}
		kept = append(kept, e)
	}
	if key == "" && leading == 0 {
		switch r.spelling {
		case SpellAnthropic, SpellAISDK:
			key = "system"
		case SpellPhi, SpellClark:
			key = "system_prompt"
		case SpellResponses:
			key = "instructions"
		case SpellGemini:
			key = "systemInstruction"
		case SpellGenAI:
			key = "gen_ai.system_instructions"
		case SpellPlain:
			if b.Form == Anthropic {
				key = "system"
			}
		}
	}
	if key != "" {
		b.member([]string{key}, key, value)
		return
	}
	first := obj("role", "system", "content", s)
	if leading > 0 {
		if name, ok := rawjson.String(asObject(elements(list)[0])["role"]); ok {
			first = obj("role", name, "content", s)
		}
	}
	b.member(messageKeys, "messages", array(append([][]byte{first}, kept...)))
}
