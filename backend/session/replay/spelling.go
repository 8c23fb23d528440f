package replay

import (
	"slices"
	"strings"
)

// The words by which spellings are told apart.
var (
	chatTypes      = []string{"image_url", "input_audio", "refusal"}
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
