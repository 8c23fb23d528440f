package session

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMessageParts holds that every spelling of a message says the same, in the same words.
func TestMessageParts(t *testing.T) {
	line := func(s MessagePart) string {
		out := fmt.Sprintf("%s %s", s.By, s.Kind)
		typ, content := s.Type, string(s.Content)
		switch s.Kind {
		case PartText, PartThinking, PartError:
			typ, content = "", ""
		case PartCall, PartResult:
			typ = ""
		case PartFile:
			typ, content = "", ""
			if s.Type == "blob" {
				content, _ = s.Part.Text()
			}
		}
		for _, more := range []string{s.ID, s.Name, typ, s.Text, content} {
			if more != "" {
				out += " | " + more
			}
		}
		return out
	}
	const reply = "reply thinking | hm\nreply text | so\nreply call | c | bash | {\"x\":1}"
	const result = "result result | c | done | \"done\""
	for _, tt := range []struct{ spelling, body, want string }{
		{"a text", `{"role":"user","content":"why?"}`, "user text | why?"},
		{"a block", `{"role":"user","content":{"type":"text","text":"why?"}}`, "user text | why?"},
		{"blocks", `{"role":"user","content":[{"type":"text","text":"why?"}]}`, "user text | why?"},
		{"chat, of parts", `{"role":"user","content":[{"type":"input_text","text":"why?"}]}`, "user text | why?"},
		{"gen ai", `{"role":"user","parts":[{"type":"text","content":"why?"}]}`, "user text | why?"},
		{"gemini", `{"role":"user","parts":[{"text":"why?"}]}`, "user text | why?"},
		{"acp", `{"role":"user","content":[{"type":"content","content":{"type":"text","text":"why?"}}]}`,
			`user other | content | why? | {"type":"content","content":{"type":"text","text":"why?"}}`},
		{"system", `{"role":"system","content":"be kind"}`, "system text | be kind"},
		{"developer", `{"role":"developer","content":"be kind"}`, "system text | be kind"},

		{"phi-core", `{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"so"}` +
			`,{"type":"toolCall","id":"c","name":"bash","arguments":{"x":1}}],"stopReason":"toolUse"}`, reply},
		{"clark-agent", `{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"text","text":"so"}` +
			`,{"type":"tool_call","id":"c","name":"bash","arguments":{"x":1}}]}`, reply},
		{"anthropic", `{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},` +
			`{"type":"text","text":"so"},{"type":"tool_use","id":"c","name":"bash","input":{"x":1}}]}`, reply},
		{"chat", `{"role":"assistant","reasoning_content":"hm","content":"so","tool_calls":[{"id":"c",` +
			`"type":"function","function":{"name":"bash","arguments":"{\"x\":1}"}}]}`, reply},
		{"gen ai", `{"role":"assistant","parts":[{"type":"reasoning","content":"hm"},{"type":"text","content":"so"},` +
			`{"type":"tool_call","id":"c","name":"bash","arguments":{"x":1}}]}`, reply},
		{"an item of responses", `{"type":"function_call","call_id":"c","name":"bash","arguments":"{\"x\":1}"}`,
			`reply call | c | bash | {"x":1}`},
		{"an item of responses", `{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}`,
			"reply thinking | hm"},

		{"phi-core", `{"role":"toolResult","toolCallId":"c","content":[{"type":"text","text":"done"}]}`, result},
		{"clark-agent", `{"role":"tool_result","tool_call_id":"c","content":[{"type":"text","text":"done"}]}`, result},
		{"anthropic", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"done"}]}`, result},
		{"chat", `{"role":"tool","tool_call_id":"c","content":"done"}`, result},
		{"gen ai", `{"role":"tool","parts":[{"type":"tool_call_response","id":"c","response":"done"}]}`, result},
		{"an item of responses", `{"type":"function_call_output","call_id":"c","output":"done"}`, result},
		{"ai sdk, a call", `{"role":"assistant","parts":[{"type":"tool-bash","toolCallId":"c",` +
			`"state":"input-available","input":{"x":1}}]}`, `reply call | c | bash | {"x":1}`},
		{"ai sdk, its result", `{"role":"assistant","parts":[{"type":"dynamic-tool","toolName":"bash",` +
			`"toolCallId":"c","input":{"x":1},"output":"done"}]}`,
			"reply call | c | bash | {\"x\":1}\nresult result | c | bash | done | \"done\""},
		{"ai sdk, its error", `{"role":"assistant","parts":[{"type":"tool-bash","toolCallId":"c","rawInput":"x",` +
			`"errorText":"gone"}]}`,
			"reply call | c | bash | \"x\"\nresult result | c | bash | gone | \"gone\""},
		{"of no id", `{"role":"assistant","parts":[{"type":"tool-bash"}]}`,
			`reply other | tool-bash | {"type":"tool-bash"}`},
		{"several texts", `{"role":"toolResult","toolCallId":"c","content":[{"type":"text","text":"a"},` +
			`{"type":"image","data":"aaaa","mimeType":"image/png"}]}`,
			"result result | c | a\n[image image/png] | " +
				`[{"type":"text","text":"a"},{"type":"image","data":"aaaa","mimeType":"image/png"}]`},

		{"an image", `{"role":"user","content":[{"type":"image","data":"aaaa","mimeType":"image/png"}]}`,
			"user file | [image image/png] | aaaa"},
		{"a link", `{"role":"user","content":[{"type":"resource_link","name":"a.go","uri":"file:///a.go"}]}`,
			"user file | a.go | [document a.go]"},
		{"an error, of phi-core", `{"role":"assistant","content":[],"errorMessage":"overloaded"}`,
			"reply error | overloaded"},
		{"an error, of clark-agent", `{"role":"assistant","content":[],"error_message":"overloaded"}`,
			"reply error | overloaded"},
		{"an extension", `{"role":"extension","kind":"notice","data":{"a": 1}}`,
			`extension text | notice | notice {"a":1}`},
		{"a part of a user interface", `{"role":"assistant","parts":[{"type":"step-start"}]}`,
			`reply other | step-start | {"type":"step-start"}`},
		{"a change of a file", `{"role":"tool","parts":[{"type":"diff","path":"a.go"}]}`,
			`result other | diff | [diff a.go] | {"type":"diff","path":"a.go"}`},
		{"hidden reasoning", `{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}]}`,
			`reply other | redacted_thinking | [redacted_thinking] | {"type":"redacted_thinking","data":"x"}`},
		{"a reply of nothing", `{"role":"assistant","content":null}`, ""},
		{"no message", `{"x":1}`, `text text | {"x":1}`},
		{"no JSON", `not json`, "text text | not json"},
	} {
		var got []string
		for _, s := range MessageParts(tt.body) {
			got = append(got, line(s))
		}
		if d := cmp.Diff(tt.want, strings.Join(got, "\n")); d != "" {
			t.Errorf("%s: %s\n%s", tt.spelling, tt.body, d)
		}
	}
}

// TestMessagePartsNested holds that blocks around blocks are read by no more than the outermost, however their type is
// spelled, so that the work is linear.
func TestMessagePartsNested(t *testing.T) {
	const depth = 150
	deep := func(typ string, levels int, text string) string {
		return `{"role":"user","content":[` + strings.Repeat(`{"type":"`+typ+`","content":`, levels) +
			`{"type":"text","text":"` + text + `"}` + strings.Repeat(`}`, levels) + `]}`
	}
	for levels := range 4 {
		lower, upper := MessageParts(deep("content", levels, "why?")), MessageParts(deep("Content", levels, "why?"))
		if len(lower) != 1 || len(upper) != 1 || lower[0].Text != upper[0].Text {
			t.Errorf("%d levels: %+v\n%+v", levels, lower, upper)
		}
	}
	for _, typ := range []string{"content", "Content"} {
		body := deep(typ, depth, strings.Repeat("word ", 1<<16))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		MessageParts(body)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(32*len(body)) {
			t.Errorf("%s: %d bytes of memory for a body of %d", typ, took, len(body))
		}
	}
}
