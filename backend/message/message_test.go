package message_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/message"
)

// show writes a message on one line: its role, and of each part kind, names, text and JSON.
func show(m message.Message) string {
	var out []string
	for _, p := range m.Parts {
		text, _ := p.Text()
		switch p.Type {
		case message.ToolCall:
			text = string(p.Content)
		case message.ToolResult:
			text = fmt.Sprintf("[%s] %v", message.JoinText(p.Parts, true), p.IsError)
		}
		s := p.Type
		for _, field := range []string{p.ID, p.Name, p.MIME, text} {
			if field != "" {
				s += " " + field
			}
		}
		out = append(out, s)
	}
	return m.Role + ": " + strings.Join(out, "; ")
}

// The same content in every spelling is the same message.
func TestRead(t *testing.T) {
	for _, tt := range []struct{ spelling, raw, want string }{
		{"a text", `"hi"`, "user: text hi"},
		{"no JSON", `hi {`, "user: text hi {"},
		{
			"Anthropic", `{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
				{"type":"tool_use","id":"1","name":"ls","input":{"a":1.0}}]}`,
			`assistant: reasoning hm; tool_call 1 ls {"a":1.0}`,
		},
		{
			"Anthropic results", `{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"1","content":"no","is_error":true},{"type":"text","text":"so?"}]}`,
			"tool: tool_call_response 1 [no] true\nuser: text so?",
		},
		{
			"OpenAI chat", `{"role":"assistant","content":null,"tool_calls":[
				{"id":"1","type":"function","function":{"name":"ls","arguments":"{\"a\":1.0}"}}]}`,
			`assistant: tool_call 1 ls {"a":1.0}`,
		},
		{"OpenAI chat result", `{"role":"tool","tool_call_id":"1","content":"ok"}`, "tool: tool_call_response 1 [ok] false"},
		{
			"OpenAI responses", `{"type":"function_call","call_id":"1","name":"ls","arguments":"{}"}`,
			"assistant: tool_call 1 ls {}",
		},
		{"OpenAI responses result",
			`{"type":"function_call_output","call_id":"1","output":"ok"}`,
			"tool: tool_call_response 1 [ok] false"},
		{
			"Gemini", `{"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"name":"ls","args":{}}},
				{"inlineData":{"mimeType":"image/png","data":"aGk="}}]}`,
			"assistant: reasoning hm; tool_call ls {}; blob image/png aGk=",
		},
		{
			"phi-core", `{"role":"toolResult","toolCallId":"1","toolName":"ls","isError":false,"content":[
				{"type":"text","text":"a"},{"type":"image","data":"aGk=","mimeType":"image/png"}]}`,
			"tool: tool_call_response 1 ls [a\n[image]] false",
		},
		{
			"phi-core extension", `{"role":"extension","kind":"note","data":{}}`,
			"user: extension message note",
		},
		{
			"AI SDK", `{"id":"m","role":"assistant","parts":[{"type":"step-start"},{"type":"text","text":"hi"},
				{"type":"tool-ls","toolCallId":"1","state":"output-available","input":{},"output":{"n":1}},
				{"type":"step-start"},{"type":"text","text":"done"}]}`,
			"assistant: text hi; tool_call 1 ls {}\ntool: tool_call_response 1 ls [{\"n\":1}] false\nassistant: text done",
		},
		{
			"GenAI", `{"role":"assistant","parts":[{"type":"text","content":"hi"},
				{"type":"uri","modality":"image","uri":"https://x/a.png"},
				{"type":"file","modality":"video","file_id":"f"}]}`,
			"assistant: text hi; uri https://x/a.png; file f",
		},
		{
			"AI SDK, denied", `{"role":"assistant","parts":[{"type":"tool-ls","toolCallId":"1","state":"output-denied",
				"input":{},"approval":{"id":"a","approved":false,"reason":"no"}}]}`,
			"assistant: tool_call 1 ls {}\ntool: tool_call_response 1 ls [no] true",
		},
		{
			"AI SDK, results", `{"role":"tool","content":[
				{"type":"tool-result","toolCallId":"1","output":{"type":"json","value":[{"type":"text","text":"a"}]}},
				{"type":"tool-result","toolCallId":"2","output":{"type":"content","value":[{"type":"text","text":"a"}]}}]}`,
			`tool: tool_call_response 1 [[{"type":"text","text":"a"}]] false; tool_call_response 2 [a] false`,
		},
		{
			"Gemini, a result with a value", `{"role":"user","parts":[{"functionResponse":{"name":"t",
				"response":{"value":3,"unit":"C"}}}]}`,
			`tool: tool_call_response t [{"value":3,"unit":"C"}] false`,
		},
		{
			"LangChain", `{"type":"ai","data":{"content":"hi","additional_kwargs":{},"type":"ai"}}`, "assistant: text hi",
		},
		{
			"OpenAI custom tool", `{"type":"custom_tool_call","call_id":"1","name":"ls","input":"x"}`,
			`assistant: tool_call 1 ls "x"`,
		},
		{
			"a call that stands for a message", `{"type":"tool_use","id":"1","name":"ls","input":{}}`,
			"assistant: tool_call 1 ls {}",
		},
		{
			"an unknown block", `{"role":"user","content":[{"type":"hologram","x":1}]}`,
			"user: hologram",
		},
	} {
		var got []string
		for _, m := range message.Read([]byte(tt.raw)) {
			got = append(got, show(m))
		}
		if s := strings.Join(got, "\n"); s != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.spelling, s, tt.want)
		}
	}
}
