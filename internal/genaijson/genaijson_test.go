package genaijson

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
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

// appendMessages is AppendNew with all results of tools.
func appendMessages(dst []byte, messages [][]byte, bound int) []byte {
	dst, _ = AppendNew(dst, messages, bound, nil)
	return dst
}

// TestAppendMessages compares messages as loops and providers spell them with their form in the standard: in
// testdata/messages.golden each has its name, its spelling and that form in a line each. What fits is not cut.
func TestAppendMessages(t *testing.T) {
	const file = "testdata/messages.golden"
	text := must.Get(os.ReadFile(file))(t)
	var got []byte
	for entry := range slices.Chunk(strings.Split(strings.TrimSuffix(string(text), "\n\n"), "\n"), 4) {
		in := []byte(entry[1])
		out := appendMessages(nil, [][]byte{in}, 0)
		checkMessages(t, out)
		diff(t, string(out), appendMessages(nil, [][]byte{in}, 2000))
		got = fmt.Appendf(got, "%s\n%s\n%s\n\n", entry[0], in, out)
	}
	golden(t, file, got)
}

func TestAppendOutput(t *testing.T) {
	in := []byte(`{"content":[{"type":"text","text":"hi"},{"type":"tool_result","tool_use_id":"1","content":"x"}]}`)
	want := `[{"role":"assistant","parts":[{"type":"text","content":"hi"},` +
		`{"type":"tool_call_response","id":"1","response":"x"}],"finish_reason":"stop"}]`
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
		{`{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"1","content":"x"}]}`,
			"user", "1"},
		{`{"content":[{"type":"tool_result","tool_use_id":"1"},{"type":"tool_result","tool_use_id":"2"}],"role":"user"}`,
			"user", ""},
		{`{"content":[{"type":"tool_result","tool_use_id":"1"}],"role":"assistant"}`, "assistant", ""},
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
