package export

import (
	"fmt"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/message"
)

// Parts of the AI SDK stay as they are spelled, and say what phi-core and the calls of a turn need.
func TestReadMessageOfTheAISDK(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"text","text":"a"}`: "text a",
		`{"type":"reasoning","text":"a","providerMetadata":{"p":{"signature":"s"}}}`: "reasoning a/s",
		`{"type":"tool-x","toolCallId":"1","state":"output-available","input":{},"output":2}`: "tool_call 1 {}; " +
			"tool_call_response 1 2",
		`{"type":"tool-x","toolCallId":"1","state":"input-streaming","rawInput":"{"}`: "tool_call 1 ",
		`{"type":"tool-x","toolCallId":"1","state":"output-denied","input":1,"approval":{"reason":"no"}}`: "tool_call 1 1; " +
			`tool_call_response 1 "no" failed`,
		`{"type":"reasoning-file","mediaType":"image/png","url":"data:image/png;base64,AA"}`: `blob "AA"`,
		`{"type":"step-start"}`: `step-start {"type":"step-start"}`,
	} {
		var got []string
		for _, p := range readMessage([]byte(`{"role":"assistant","parts":[` + raw + `]}`)).parts {
			s := p.Type
			switch text, isText := p.text(); {
			case p.Type == "text" || p.Type == "reasoning":
				_, signature := message.Signature(p.Block)
				s += " " + strings.TrimSuffix(text+"/"+signature, "/")
			case p.ID != "":
				s += fmt.Sprintf(" %s %s", p.ID, p.Content)
			case isText || p.Content != nil:
				s += " " + string(p.Content)
			}
			if p.IsError {
				s += " failed"
			}
			if string(p.block) != raw || p.embedded != (p.Type == partResult) {
				t.Errorf("%s: %s, embedded %t", raw, p.block, p.embedded)
			}
			got = append(got, s)
		}
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%s: %q, want %q", raw, s, want)
		}
	}
}

// Parts of Gemini are no parts of the AI SDK.
func TestReadMessageOfGemini(t *testing.T) {
	for _, tt := range []struct{ role, parts, want string }{
		{"model", `{"text":"hm","thought":true},{"functionCall":{"name":"ls","args":{}}}`,
			"assistant [reasoning tool_call] false"},
		{"user", `{"functionResponse":{"name":"ls","response":{"output":"x"}}}`, "tool [tool_call_response] false"},
		{"user", `{"text":"hi"}`, "user [text] true"},
	} {
		m := readMessage([]byte(`{"role":"` + tt.role + `","parts":[` + tt.parts + `]}`))
		var types []string
		for _, p := range m.parts {
			types = append(types, p.Type+p.aiType())
		}
		if got := fmt.Sprint(m.role, " ", types, " ", m.userSide()); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.parts, got, tt.want)
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
			if len(p.spelled()) == 0 && p.Type != partCall && p.Type != partResult {
				t.Errorf("a part that says nothing")
			}
		}
	})
}
