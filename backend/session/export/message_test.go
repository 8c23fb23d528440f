package export

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every dialect's messages are read into one form. Spellings themselves are the matter of internal/genaijson.
func TestReadMessage(t *testing.T) {
	calls := `[{"type":"text","text":"a","state":"done"},{"type":"tool-read","toolCallId":"c1",` +
		`"state":"output-available","input":{"p":1},"output":{"x":2}},` +
		`{"type":"dynamic-tool","toolName":"mcp","toolCallId":"c2","state":"output-error","input":null,"errorText":"no"},` +
		`{"type":"tool-a-b","toolCallId":"c3","state":"input-streaming"},{"type":"file","mediaType":"image/png",` +
		`"url":"data:image/png;base64,aGk="},{"type":"step-start"},7]`
	ai := func(i int) []byte {
		return [][]byte{
			[]byte(`{"type":"text","text":"a","state":"done"}`),
			[]byte(`{"type":"tool-read","toolCallId":"c1","state":"output-available","input":{"p":1},"output":{"x":2}}`),
			[]byte(`{"type":"dynamic-tool","toolName":"mcp","toolCallId":"c2","state":"output-error","input":null,` +
				`"errorText":"no"}`),
			[]byte(`{"type":"tool-a-b","toolCallId":"c3","state":"input-streaming"}`),
			[]byte(`{"type":"file","mediaType":"image/png","url":"data:image/png;base64,aGk="}`),
			[]byte(`{"type":"step-start"}`), []byte(`7`),
		}[i]
	}
	for _, tt := range []struct {
		name, body string
		want       message
	}{
		{"phi-core",
			`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text",` +
				`"text":"so"},{"type":"toolCall","id":"c","name":"read","arguments":{"a":1}}],"turnId":{"loopId":"l",` +
				`"turnIndex":0}}`,
			message{role: "assistant", parts: []messagePart{{kind: partReasoning, text: "hm", signature: "s"},
				{kind: partText, text: "so"}, {kind: partCall, id: "c", name: "read", args: []byte(`{"a":1}`)}}}},
		{"phi-core result",
			`{"role":"toolResult","toolCallId":"c","toolName":"read","content":[{"type":"text","text":"42"}],"isError":true}`,
			message{role: "tool", parts: []messagePart{{kind: partResult, id: "c", name: "read", content: []byte(`"42"`),
				isError: true}}}},
		{"phi-core extension", `{"role":"extension","kind":"note","data":{"a":1}}`,
			message{role: "extension", parts: []messagePart{{name: "extension",
				raw: []byte(`{"type":"extension","name":"note","data":{"a":1}}`)}}}},
		{"clark-agent error", `{"role":"assistant","content":[],"error_message":"overloaded"}`,
			message{role: "assistant", parts: []messagePart{{kind: partError, text: "overloaded"}}}},
		{"Anthropic results and text",
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"},{"type":"text","text":"go"}]}`,
			message{role: "user", parts: []messagePart{{kind: partResult, id: "t", content: []byte(`"ok"`)}, {kind: partText,
				text: "go"}}}},
		{"Anthropic results", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}`,
			message{role: "tool", parts: []messagePart{{kind: partResult, id: "t"}}}},
		{"OpenAI image and file",
			`{"id":"m1","role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"file",` +
				`"file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}}]}`,
			message{role: "user", id: "m1", parts: []messagePart{
				{kind: partFile, modality: "image", url: "https://x/y.png"}, {kind: partFile, modality: "document",
					mediaType: "application/pdf", data: "aGk=", fileName: "a.pdf"},
			}}},
		{"OpenAI call item", `{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"[1]"}`,
			message{role: "assistant", parts: []messagePart{{kind: partCall, id: "c", name: "f", args: []byte(`[1]`)}}}},
		{"ACP", `{"messageId":"m2","role":"user","content":[{"type":"resource_link","uri":"file:///a","name":"a",` +
			`"mimeType":"text/x-go"},{"type":"resource","resource":{"uri":"file:///b","text":"b"}}]}`,
			message{role: "user", id: "m2", parts: []messagePart{
				{kind: partFile, modality: "document", mediaType: "text/x-go", url: "file:///a", fileName: "a"},
				{name: "resource", raw: []byte(`{"type":"resource","resource":{"uri":"file:///b","text":"b"}}`)},
			}}},
		{"standard",
			`{"role":"assistant","parts":[{"type":"text","content":"hi"},{"type":"blob","modality":"image","content":"aGk="}]}`,
			message{role: "assistant", parts: []messagePart{{kind: partText, text: "hi"}, {kind: partFile, modality: "image",
				data: "aGk="}}}},
		{"guide", `{"id":"msg_1","role":"assistant","parts":` + calls + `}`,
			message{role: "assistant", id: "msg_1", parts: []messagePart{
				{kind: partText, name: "text", text: "a", raw: ai(0), verbatim: true},
				{kind: partCall, id: "c1", name: "read", args: []byte(`{"p":1}`), raw: ai(1), verbatim: true},
				{kind: partResult, id: "c1", name: "read", content: []byte(`{"x":2}`), raw: ai(1), verbatim: true, embedded: true},
				{kind: partCall, id: "c2", name: "mcp", raw: ai(2), verbatim: true},
				{kind: partResult, id: "c2", name: "mcp", content: []byte(`"no"`), isError: true, raw: ai(2), verbatim: true,
					embedded: true},
				{kind: partCall, id: "c3", name: "a-b", raw: ai(3), verbatim: true},
				{kind: partFile, name: "file", mediaType: "image/png", modality: "image", data: "aGk=", raw: ai(4), verbatim: true},
				{name: "step-start", raw: ai(5), verbatim: true},
				{raw: ai(6), verbatim: true},
			}}},
		{"no JSON", "just\ntext", message{parts: []messagePart{{kind: partText, text: "just\ntext"}}}},
		{"nothing", `{"role":"assistant","content":null}`, message{role: "assistant"}},
	} {
		got := readMessage([]byte(tt.body))
		if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(message{}, messagePart{})); d != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, d)
		}
	}
}

// Whatever it is given, it says something of it.
func FuzzReadMessage(f *testing.F) {
	f.Add(`{"role":"assistant","parts":[{"type":"tool-x","state":"output-available"}]}`)
	f.Add(`{"role":"user","content":[{"type":"thinking","signature":1}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		m := readMessage([]byte(body))
		for _, p := range m.parts {
			if p.kind == partOther && p.raw == nil {
				t.Errorf("a part that says nothing")
			}
		}
	})
}
