package acp

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/dialects/event"
)

const (
	promptLine = `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n"
	endLine    = `{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}` + "\n"
)

// updateLines are notifications, each of the members of one update.
func updateLines(updates ...string) (text string) {
	for _, u := range updates {
		text += `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{` + u + "}}}\n"
	}
	return text
}

// TestCounts counts the events, or errors, of a capture that match a pattern.
func TestCounts(t *testing.T) {
	compaction := func(status string) string {
		return updateLines(`"sessionUpdate":"compaction_update","compactionId":"k","status":"` + status + `"`)
	}
	cost := func(amount string) string {
		return updateLines(
			`"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":` + amount + `,"currency":"USD"}`)
	}
	const twice = `error: .*stands there twice`
	for _, c := range []struct {
		name, text, pattern string
		want                int
	}{
		{"calls that begin before another ends are of one model call", promptLine + updateLines(
			`"sessionUpdate":"tool_call","toolCallId":"a","title":"t"`,
			`"sessionUpdate":"tool_call","toolCallId":"b","title":"t"`,
			`"sessionUpdate":"tool_call_update","toolCallId":"a","status":"completed"`,
			`"sessionUpdate":"tool_call_update","toolCallId":"b","status":"completed"`) + endLine,
			"model_calls_unknown", 0},
		{"a compaction between prompts ends once", compaction("in_progress") + compaction("completed") +
			compaction("completed"), "compaction_ended", 1},
		{"a compaction of a prompt that is over is none after it", promptLine + compaction("in_progress") + endLine +
			compaction("completed"), "compaction_started", 1},
		{"an agent that is started anew compacts again", compaction("in_progress") + compaction("completed") +
			compaction("in_progress") + compaction("completed"), `"id":"compaction-k.2"`, 1},
		{"the replay of a session states what was spent before", `{"jsonrpc":"2.0","id":0,"method":"session/load",` +
			`"params":{"sessionId":"s"}}` + "\n" + cost("1") + cost("2") + `{"jsonrpc":"2.0","id":0,"result":null}` + "\n" +
			promptLine + cost("2.5") + endLine, `"cost":0.5,`, 1},
		{"an id that is there twice", strings.Replace(promptLine, `"id":1`, `"id":1,"id":2`, 1), twice, 1},
		{"known keys that are there twice after an unknown one", strings.Replace(promptLine, `"id":1`,
			`"x":1,"x":2,"method":"a","id":1,"id":2`, 1), twice, 2},
	} {
		n := 0
		for _, line := range lines(c.text) {
			if regexp.MustCompile(c.pattern).MatchString(line) {
				n++
			}
		}
		if n != c.want {
			t.Errorf("%s: %d, want %d in\n%s", c.name, n, c.want, strings.Join(lines(c.text), "\n"))
		}
	}
}

// TestLargeSummaries sends pieces of a summary over the turns of a prompt: they count until the compaction ends.
func TestLargeSummaries(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: reads 80 MB")
	}
	piece := updateLines(`"sessionUpdate":"compaction_summary_chunk","compactionId":"k",` +
		`"content":{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}`)
	text := promptLine + updateLines(`"sessionUpdate":"compaction_update","compactionId":"k","status":"in_progress"`)
	for i := range 2 {
		text += strings.Repeat(piece, 40) + updateLines(
			fmt.Sprintf(`"sessionUpdate":"tool_call","toolCallId":"%d","status":"completed"`, i),
			`"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}`)
	}
	defects := 0
	for ev, err := range NewDecoder().Events(strings.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ev.(*event.DefectFound); ok {
			defects++
		}
	}
	if defects != 1 {
		t.Errorf("%d defects", defects)
	}
}
