package genaijson

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// diff compares two JSON values, each an array, element by element and as they are spelled.
func diff(t *testing.T, want string, got []byte) {
	t.Helper()
	if !json.Valid(got) {
		t.Errorf("not JSON: %s", got)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// spellings are messages as loops and providers spell them, each behind its name.
var spellings = []string{
	"phi user", `{"role":"user","content":[{"type":"text","text":"hi\né"}],"timestamp":1}`,
	"phi assistant, sorted keys", `{"content":[{"thinking":"hm","signature":"abc","type":"thinking"},{"text":"so","type":"text"},` +
		`{"arguments":{"n":1.50,"big":12345678901234567890},"id":"c1","name":"read","type":"toolCall"}],"model":"m","role":"assistant","stopReason":"toolUse","turnId":{"loopId":"l","turnIndex":0}}`,
	"phi result", `{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"42"}],"isError":false}`,
	"phi failed result of two blocks", `{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"isError":true}`,
	"phi image", `{"role":"user","content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}`,
	"phi failed call", `{"role":"assistant","content":[],"stopReason":"error","error_message":"overloaded"}`,
	"phi extension", `{"role":"user","kind":"note","data":{"a":1}}`,
	"clark user", `{"role":"user","content":"hi"}`,
	"clark image, data URL", `{"role":"user","content":[{"type":"image","source":"data:image\/png;base64,aGk=","alt":"x"}]}`,
	"clark image, address", `{"role":"user","content":[{"type":"image","source":"https://x/y.png","media_type":"image/png"}]}`,
	"clark assistant", `{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"thinking","text":"eh"},{"type":"reasoning_details","details":[{"x":1}]},{"type":"tool_call","id":"1","name":"f","arguments":{}}]}`,
	"clark result", `{"role":"tool_result","tool_call_id":"1","tool_name":"f","content":[{"type":"text","text":"ok"}],"is_error":false,"details":{"x":1}}`,
	"clark custom", `{"role":"custom","kind":"plan","payload":[1]}`,
	"anthropic assistant", `{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"xx"},{"type":"tool_use","id":"t","name":"f","input":{"a":1}}]}`,
	"anthropic results", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"},{"type":"tool_result","tool_use_id":"u","content":[{"type":"text","text":"no"}],"is_error":true}]}`,
	"anthropic result and text", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"},{"type":"text","text":"go on"}]}`,
	"anthropic image and documents", `{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"aGk="}},{"type":"image","source":{"type":"url","url":"https://x"}},` +
		`{"type":"document","title":"t","source":{"type":"text","media_type":"text/plain","data":"words"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"aGk="}},` +
		`{"type":"document","source":{"type":"file","file_id":"f1"}},{"type":"document","source":{"type":"content","content":"x"}}]}`,
	"anthropic server tool", `{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":"x"}}]}`,
	"openai system", `{"role":"system","content":"be kind"}`,
	"openai developer", `{"role":"developer","content":[{"type":"text","text":"be kind"}]}`,
	"openai calls", `{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1.0}"}},{"id":"2","type":"function","function":{"name":"g","arguments":"{broken"}},{"id":"3","type":"custom","custom":{"name":"h"}}]}`,
	"openai result", `{"role":"tool","tool_call_id":"1","content":"ok"}`,
	"openai refusal", `{"role":"assistant","content":null,"refusal":"no"}`,
	"openai nothing", `{"role":"assistant","content":null}`,
	"openai old call", `{"role":"assistant","content":"","function_call":{"name":"f","arguments":"{}"}}`,
	"openai old result", `{"role":"function","name":"f","content":"ok"}`,
	"openai reasoning of others", `{"role":"assistant","reasoning_content":"hm","content":"so"}`,
	"openai media", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},{"type":"image_url","image_url":{"url":"https://x"}},{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}},` +
		`{"type":"file","file":{"file_id":"f1"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}}]}`,
	"openai audio", `{"role":"assistant","content":null,"audio":{"id":"a","transcript":"hi"}}`,
	"item message", `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[]},{"type":"refusal","refusal":"no"}]}`,
	"item message, input", `{"role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"https://x"},{"type":"input_image","file_id":"f"},{"type":"input_file","file_url":"https://y"}]}`,
	"item call", `{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"[1]"}`,
	"item result", `{"type":"function_call_output","call_id":"c","output":"ok"}`,
	"item reasoning", `{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"x"}`,
	"item reasoning, encrypted", `{"type":"reasoning","id":"r","summary":[],"encrypted_content":"x"}`,
	"item of another type", `{"type":"web_search_call","id":"w","status":"completed"}`,
	"item of another type, output", `{"type":"computer_call_output","call_id":"w","output":{}}`,
	"acp", `{"role":"user","content":[{"type":"audio","data":"aGk=","mimeType":"audio/mp3"},{"type":"resource_link","uri":"file:///a","name":"a","mimeType":"text/x-go"},{"type":"resource","resource":{"uri":"file:///b","text":"x"}}]}`,
	"standard", `{"role":"assistant","parts":[{"type":"text","content":"hi"},{"type":"reasoning","content":"hm"},{"type":"tool_call","id":"1","name":"f","arguments":{"a":1}},{"type":"blob","modality":"image","content":"aGk="},{"type":"file","modality":"image","file_id":"x"}],"finish_reason":"stop"}`,
	"standard result", `{"role":"tool","parts":[{"type":"tool_call_response","id":"1","response":{"a":1}}]}`,
	"blob of nothing", `[{"type":"blob"}]`,
	"Gemini reply", `{"parts":[{"text":"hm","thought":true},{"text":"hi"},{"functionCall":{"id":"1","name":"f","args":{"a":1}},"thoughtSignature":"c2ln"}],"role":"model"}`,
	"Gemini result", `{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"a":1}}}]}`,
	"Gemini media", `{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"aGk="}},{"fileData":{"mimeType":"video/mp4","fileUri":"gs://x"}},{"fileData":{}}]}`,
	"items of a Responses reply", `[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"},{"type":"message","content":[]}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}]`,
	"string", ` "hi" `,
	"number", `1e3`,
	"null", `null`,
	"object", `{"foo":"bar"}`,
	"role alone", `{"role":"user","foo":1}`,
	"blocks", `["a",{"type":"text","text":"b"},{"text":"c"},{"x":1},7]`,
	"no JSON", `{"role":"user`,
	"no text", ``,
	"not UTF-8", "{\"role\":\"user\",\"content\":\"a\xffb\"}",
	"words of other types", `{"role":7,"type":{},"content":{"type":"text","text":["x"]}}`,
	"too deep", strings.Repeat("[", 300),
}

// appendMessages is AppendNew with all results of tools.
func appendMessages(dst []byte, messages [][]byte, bound int) []byte {
	dst, _ = AppendNew(dst, messages, bound, nil)
	return dst
}

// TestAppendMessages compares spellings in the form of the standard with testdata/messages.golden. What fits is not
// cut.
func TestAppendMessages(t *testing.T) {
	var got []byte
	for i := 0; i < len(spellings); i += 2 {
		in := []byte(spellings[i+1])
		out := appendMessages(nil, [][]byte{in}, 0)
		checkMessages(t, out)
		diff(t, string(out), appendMessages(nil, [][]byte{in}, 2000))
		got = fmt.Appendf(got, "%s\n%s\n%s\n\n", spellings[i], in, out)
	}
	golden(t, "testdata/messages.golden", got)
}

func TestAppendOutput(t *testing.T) {
	in := []byte(`{"content":[{"type":"text","text":"hi"},{"type":"tool_result","tool_use_id":"1","content":"x"}]}`)
	want := `[{"role":"assistant","parts":[{"type":"text","content":"hi"},{"type":"tool_call_response","id":"1","response":"x"}],"finish_reason":"stop"}]`
	diff(t, want, AppendOutput(nil, in, "stop", 0))
	diff(t, want, AppendOutput(nil, in, "stop", 500))
	diff(
		t,
		`[{"role":"assistant","parts":[{"type":"text","content":"hi"}],"finish_reason":"unknown"}]`,
		AppendOutput(nil, []byte(`"hi"`), "", 500),
	)
	diff(t, `[{"role":"assistant","parts":[],"finish_reason":"`+strings.Repeat("é", 15)+`…[+9970 bytes]"}]`,
		AppendOutput(nil, []byte(`{"role":"assistant","content":[]}`), strings.Repeat("é", 5000), 500))
}

func TestAppendSystem(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`"be kind"`, `[{"type":"text","content":"be kind"}]`},
		{`""`, `[]`},
		{`null`, `[]`},
		{`[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]`,
			`[{"type":"text","content":"a"},{"type":"text","content":"b"}]`},
		{`{"type":"text","text":"a"}`, `[{"type":"text","content":"a"}]`},
		{`{"role":"system","content":"a"}`, `[{"type":"text","content":"a"}]`},
		{`{"a":1}`, `[{"type":"text","content":"{\"a\":1}"}]`},
		{`be kind`, `[{"type":"text","content":"be kind"}]`},
	} {
		diff(t, tt.want, AppendSystem(nil, []byte(tt.in), 0))
		diff(t, tt.want, AppendSystem(nil, []byte(tt.in), Min))
	}
}

func TestHeading(t *testing.T) {
	for _, tt := range []struct{ in, role, id string }{
		{`{"role":"user","content":"hi"}`, "user", ""},
		{`{"role":"tool","tool_call_id":"1","content":"x"}`, "tool", "1"},
		{`{"role":"toolResult","toolCallId":"1","content":[]}`, "toolResult", "1"},
		{`{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"1","content":"x"}]}`, "user", "1"},
		{`{"content":[{"tool_use_id":"1"},{"tool_use_id":"2"}],"role":"user"}`, "user", ""},
		{`{"content":[{"tool_use_id":"1"}],"role":"assistant"}`, "assistant", ""},
		{`{"role":"function","parts":[7,{"functionResponse":{"id":"1"}}]}`, "function", "1"},
		{`{"role":"user","parts":[{"functionResponse":{"name":"f"}}]}`, "user", ""},
		{`{"type":"function_call","call_id":"1"}`, "assistant", ""},
		{`{"type":"function_call_output","call_id":"1"}`, "tool", "1"},
		{`{"type":"reasoning"}`, "assistant", ""},
		{`{"role":7,"type":[],"content":{}}`, "", ""},
		{`"hi"`, "", ""},
		{`{"role":"user","content":[`, "user", ""},
	} {
		if role, id := Heading([]byte(tt.in)); role != tt.role || id != tt.id {
			t.Errorf("%s: %q, %q", tt.in, role, id)
		}
	}
}
