package acp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// TestBounds opens more of everything than a Decoder holds. It reports that, and what is held stays below the bound.
func TestBounds(t *testing.T) {
	const more = maxHeld/entry + 50
	request := func(format string) string { return `{"jsonrpc":"2.0","id":"%d","method":` + format + `}` + "\n" }
	update := func(format string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":` +
			format + "}}}\n"
	}
	prompt := `{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n"
	for name, c := range map[string]struct{ first, line string }{
		"sessions": {"", request(`"session/prompt","params":{"sessionId":"s%[1]d","prompt":[]}`)},
		"prompts":  {"", request(`"session/prompt","params":{"sessionId":"s","prompt":[]}`)},
		"requests": {prompt, request(`"_x/y","params":{}`)},
		"questions": {prompt, request(`"session/request_permission","params":{"sessionId":"s",` +
			`"toolCall":{"toolCallId":"c"},"options":[]}`)},
		"terminals":   {prompt, request(`"terminal/create","params":{"sessionId":"s","command":"x"}`)},
		"calls":       {prompt, update(`"tool_call","toolCallId":"c%d","title":"t"`)},
		"compactions": {prompt, update(`"compaction_update","compactionId":"k%d","status":"in_progress"`)},
		"thoughts":    {prompt, update(`"agent_thought_chunk","messageId":"m%d","content":{"type":"text","text":"x"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString(c.first)
			for i := range more {
				fmt.Fprintf(&b, c.line, i)
			}
			d := NewDecoder()
			defects := 0
			for ev, err := range d.Events(strings.NewReader(b.String())) {
				must.Do(t, err)
				if e, ok := ev.(*event.DefectFound); ok && e.Code == spans.DefectEventLost {
					defects++
				}
				if d.held > maxHeld+3*entry {
					t.Fatalf("%d bytes are held", d.held)
				}
			}
			if defects == 0 {
				t.Error("no defect")
			}
		})
	}
}

// TestCompactionsAtOnce ends each of two compactions of one session that go on at once with its own summary.
func TestCompactionsAtOnce(t *testing.T) {
	update := func(typ, id, rest string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":`+
			`{"sessionUpdate":%q,"compactionId":%q,%s}}}`+"\n", typ, id, rest)
	}
	text := `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n"
	for _, id := range []string{"a", "b"} {
		text += update("compaction_update", id, `"status":"in_progress"`)
	}
	for _, id := range []string{"a", "b", "a"} { // the last one changes nothing
		text += update("compaction_summary_chunk", id, fmt.Sprintf(`"content":{"type":"text","text":%q}`, id))
		text += update("compaction_update", id, `"status":"completed"`)
	}
	var got []string
	for ev, err := range NewDecoder().Events(strings.NewReader(text)) {
		if err != nil {
			t.Error(err)
		}
		if e, ok := ev.(*event.CompactionEnded); ok {
			got = append(got, string(e.Summary))
		}
	}
	if want := `[{"type":"text","text":"a"}] [{"type":"text","text":"b"}]`; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestLargeReply ends the turn of a reply that is too large, and reports that once.
func TestLargeReply(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: reads 70 MB")
	}
	chunk := fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s",`+
		`"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}}}`+"\n",
		strings.Repeat("x", 1<<20))
	text := `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n" +
		strings.Repeat(chunk, 70) + `{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}`
	d := NewDecoder()
	defects, size := 0, 0
	for ev, err := range d.Events(strings.NewReader(text)) {
		must.Do(t, err)
		switch e := ev.(type) {
		case *event.DefectFound:
			defects++
		case *event.TurnEnded:
			size += len(e.Output.Raw)
		}
	}
	if defects != 1 || size < maxHeld || size > maxHeld+2<<20 || d.held > 2*entry {
		t.Errorf("%d defects, a reply of %d bytes, %d held", defects, size, d.held)
	}
}

// Agents that are started anew count from 0 again: each prompt is a run all the same, and none costs more than the one
// before.
func TestIDsUsedAgain(t *testing.T) {
	const prompts = 4096
	var b strings.Builder
	for range prompts {
		b.WriteString(`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}` + "\n")
	}
	b.WriteString(`{"jsonrpc":"2.0","id":"1.2","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n")
	start := time.Now()
	ids := map[string]bool{}
	for ev, err := range NewDecoder().Events(strings.NewReader(b.String())) {
		must.Do(t, err)
		if e, ok := ev.(*event.RunStarted); ok {
			ids[e.ID] = true
		}
		if time.Since(start) > 5*time.Second { // it takes a tenth of one
			t.Fatalf("%d prompts took 5 seconds", len(ids))
		}
	}
	for _, id := range []string{"prompt-1", "prompt-1.2", fmt.Sprint("prompt-1.", prompts), "prompt-1.2.2"} {
		if !ids[id] {
			t.Errorf("no run %s", id)
		}
	}
	if len(ids) != prompts+1 {
		t.Errorf("%d ids of %d runs", len(ids), prompts+1)
	}
}

// Questions without an answer are evaluated when their prompt ends, once.
func TestQuestionsWithoutAnswer(t *testing.T) {
	const questions = 10
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n")
	for i := range questions {
		fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":"p%d","method":"session/request_permission",`+
			`"params":{"sessionId":"s","toolCall":{"toolCallId":"c%[1]d"},"options":[]}}`+"\n", i)
	}
	b.WriteString(`{"jsonrpc":"2.0","id":"p0","result":{"outcome":{"outcome":"cancelled"}}}` + "\n" +
		`{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}` + "\n" +
		`{"jsonrpc":"2.0","id":"p1","result":{"outcome":{"outcome":"cancelled"}}}`)
	n := 0
	for ev, err := range NewDecoder().Events(strings.NewReader(b.String())) {
		must.Do(t, err)
		if _, ok := ev.(*event.PermissionEvaluated); ok {
			n++
		}
	}
	if n != questions {
		t.Errorf("%d questions were evaluated, want %d", n, questions)
	}
}

// The code of an error is a number. Anything else there is content, and no status of a run.
func TestCodeOfAnErrorIsANumber(t *testing.T) {
	for code, want := range map[string]string{`-32603`: "-32603", `"SECRET"`: "", `{"SECRET":1}`: "", `1e3`: ""} {
		text := `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"error":{"code":` + code + `,"message":"m"}}` + "\n"
		ended := false
		for ev, err := range NewDecoder().Events(strings.NewReader(text)) {
			if e, ok := ev.(*event.RunEnded); ok {
				ended = true
				if e.Word != want || e.Error != "m" {
					t.Errorf("code %s: word %q, error %q", code, e.Word, e.Error)
				}
			}
			if err != nil {
				t.Error(err)
			}
		}
		if !ended {
			t.Errorf("code %s: the run did not end", code)
		}
	}
}

// TestLaterVersion agrees on version 2: its messages are kept as they are, until the next initialize.
func TestLaterVersion(t *testing.T) {
	agree := func(version int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}
{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":%d}}
{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
`, version)
	}
	var got []string
	for _, ev := range lines(agree(2) + agree(1)) {
		if _, typ, ok := strings.Cut(ev, `"type":"`); ok {
			ev, _, _ = strings.Cut(typ, `"`)
		} else {
			ev, _, _ = strings.Cut(strings.TrimPrefix(ev, `{"event":"`), `"`)
		}
		got = append(got, ev)
	}
	want := []string{"initialize.response", "session/prompt", "run_started", "turn_started", "message_added"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// lines reads all of text and returns its events, dumped, and its errors.
func lines(text string, opts ...input.Settings) []string {
	var out []string
	for ev, err := range NewDecoder(opts...).Events(strings.NewReader(text)) {
		if err != nil {
			out = append(out, "error: "+err.Error())
			continue
		}
		out = append(out, agenttest.Dump(ev))
	}
	return out
}
