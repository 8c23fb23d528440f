package genaijson

import (
	"strings"
	"testing"
)

// Results of calls that are shown elsewhere are left out, and messages that hold nothing else with them.
func TestAppendNew(t *testing.T) {
	messages := [][]byte{
		user("a"),
		[]byte(`{"role":"tool","tool_call_id":"1","content":"one"}`),
		[]byte(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"one"},` +
			`{"type":"tool_result","tool_use_id":"2","content":"two"},{"type":"text","text":"go on"}]}`),
	}
	got, shown := AppendNew([]byte("x"), messages, 1000, func(id string) bool { return id == "1" })
	want := `x[{"role":"user","parts":[{"type":"text","content":"a"}]},` +
		`{"role":"tool","parts":[{"type":"tool_call_response","id":"2","response":"two"}]},` +
		`{"role":"user","parts":[{"type":"text","content":"go on"}]}]`
	if string(got) != want || shown != 2 {
		t.Errorf("%d shown: %s\nwant 2: %s", shown, got, want)
	}
	if got, shown := AppendNew(nil, messages[1:2], 0, func(string) bool { return true }); string(got) != "[]" ||
		shown != 0 {
		t.Errorf("%d shown: %s", shown, got)
	}
	for i := range 40 {
		messages = append(messages, user(strings.Repeat("word ", 10*i)))
	}
	got, shown = AppendNew(nil, messages, 2000, nil)
	checkMessages(t, got)
	if n := strings.Count(string(got), `"role"`); len(got) > 2000 || n != shown || shown < 3 || shown > 20 {
		t.Errorf("%d shown: %d bytes with %d messages", shown, len(got), n)
	}
}
