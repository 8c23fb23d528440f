package acp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/spans"
)

func TestBadLines(t *testing.T) {
	good := `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`
	for _, c := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","method":"session/update"`, "acp: line 1: JSON ends too early at byte 43"},
		{"{\"jsonrpc\":\"\xff\"}", "acp: line 1: text that is not UTF-8 at byte 13"},
		{`7`, "acp: line 1: want an object, got a number"},
		{`{"hello":"secret"}`, "acp: line 1: method: missing, and no response with id and result or error"},
		{`{"direction":"agent_to_client","message":"secret"}`, "acp: line 1: message: want an object, got a string"},
		{`{"direction":"agent_to_client","message":{"secret":1}}`,
			"acp: line 1: message.method: missing, and no response with id and result or error"},
		{`{"type":"secret","ts":1.5,"from":"Client","to":"Agent","method":"m"}`,
			"acp: line 1: type: want request, response or notification"},
		{`{"jsonrpc":"2.0"}`, "acp: line 1: method: missing, and no response with id and result or error"},
		{`{"jsonrpc":"2.0","method":7}`, "acp: line 1: method: want a string, got a number"},
		{`{"jsonrpc":"2.0","id":1,"error":"secret"}`, "acp: line 1: error: want an object, got a string"},
		{`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":"secret"}}`,
			"acp: line 1: session/prompt: params.prompt: want an array, got a string"},
		{`{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`,
			"acp: line 1: session/prompt: id: missing"},
		{`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"","prompt":[]}}`,
			"acp: line 1: session/prompt: params.sessionId: want a string that is not empty"},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update",` +
			`"used":-1}}}`,
			"acp: line 1: session/update: params.update.used: want an integer from 0 to 9223372036854775807"},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s",` +
			`"update":{"sessionUpdate":"compaction_update","compactionId":"c"}}}`,
			"acp: line 1: session/update: params.update.status: missing"},
		{`{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s"}}`,
			"acp: line 1: fs/read_text_file: params.path: missing"},
		{strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300), "acp: line 1: JSON nested too deeply at byte 1041"},
		{`{"jsonrpc":"2.0","x":"` + strings.Repeat("y", 5000) + `"}`, "acp: line 1: longer than 4096 bytes"},
	} {
		got := lines(c.line+"\n"+good+"\n", input.WithMaxLine(4096))
		if len(got) < 3 || got[0] != "error: "+c.want {
			t.Errorf("%.80s\n got %q\nwant %q, and the next line", c.line, got[:min(1, len(got))], c.want)
		}
		if strings.Contains(got[0], "secret") {
			t.Errorf("an error holds content: %s", got[0])
		}
	}
}

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
				if err != nil {
					t.Fatal(err)
				}
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
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
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
	for ev, err := range Events(strings.NewReader(b.String())) {
		if err != nil {
			t.Fatal(err)
		}
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
		for ev, err := range Events(strings.NewReader(text)) {
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

// lines reads all of text and returns its events as otelagent's own lines, and its errors.
func lines(text string, opts ...input.Option) []string {
	var out []string
	for ev, err := range Events(strings.NewReader(text), opts...) {
		if err != nil {
			out = append(out, "error: "+err.Error())
			continue
		}
		out = append(out, string(ndjson.AppendEvent(nil, ev)))
	}
	return out
}
