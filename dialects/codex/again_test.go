package codex_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/codex"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

// long is a rollout of that many turns.
type long struct {
	turns int
	line  []byte
	n     int
}

var output = strings.Repeat(`a line of output, \"quoted\"\n`, 100)

func (l *long) Read(b []byte) (int, error) {
	for len(l.line) == 0 {
		if l.n++; l.n > l.turns*4 {
			return 0, io.EOF
		}
		id := string(rune('a'+l.n/4%26)) + strings.Repeat("x", l.n/4%7)
		item := `"type":"response_item","payload":{"type":`
		payload := item + `"function_call_output","call_id":"` + id + `","output":"` + output + `"}`
		switch {
		case l.n == 1:
			payload = `"type":"session_meta","payload":{"id":"s"}`
		case l.n%4 == 1:
			payload = item + `"reasoning","summary":[],"encrypted_content":"` + output + `"}`
		case l.n%4 == 2:
			payload = item + `"function_call","name":"f","arguments":"{}","call_id":"` + id + `"}`
		case l.n%4 == 3:
			payload = `"type":"token_usage_record","payload":{"response_id":"r` + id + strings.Repeat("y", l.n/700) +
				`","usage":{"input_tokens":1,"output_tokens":1}}`
		}
		l.line = []byte(`{"timestamp":"2026-11-22T11:08:14.450Z",` + payload + "}\n")
	}
	n := copy(b, l.line)
	l.line = l.line[n:]
	return n, nil
}

// TestMemory reads a long rollout, of which nothing stays in memory but the last turn and digests.
func TestMemory(t *testing.T) {
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	events, most := 0, uint64(0)
	for ev, err := range codex.Agent.NewDecoder().Events(&long{turns: 8000}) { // 48 MB
		if err != nil || ev == nil {
			t.Fatal(err)
		}
		if events++; events%4000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
	}
	if most > before.HeapAlloc+32<<20 {
		t.Errorf("%d bytes more after %d events", most-before.HeapAlloc, events)
	}
}

func BenchmarkEvents(b *testing.B) {
	text, _ := io.ReadAll(&long{turns: 2000})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		for _, err := range codex.Agent.NewDecoder().Events(bytes.NewReader(text)) {
			must.Do(b, err)
		}
	}
}

// TestForkAlone reads a fork without tasks alone, before its parent or after it: the sums are in the end those of both.
func TestForkAlone(t *testing.T) {
	const parent = `{"timestamp":"2026-01-01T10:00:0%dZ","type":`
	line := func(second int, rest string) string { return fmt.Sprintf(parent+rest+"\n", second) }
	prompt := func(second int, text string) string {
		return line(second, `"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text",`+
			`"text":"`+text+`"}]}}`) + line(second, `"event_msg","payload":{"type":"user_message","message":"`+text+`"}}`)
	}
	reply := func(second int, total int) string {
		return line(second, `"response_item","payload":{"type":"message","role":"assistant","content":[{"type":`+
			`"output_text","text":"done"}]}}`) + line(second, fmt.Sprintf(`"event_msg","payload":{"type":"token_count",`+
			`"info":{"total_token_usage":{"input_tokens":%d,"output_tokens":1},"last_token_usage":{"input_tokens":10,`+
			`"output_tokens":1}}}}`, total))
	}
	meta := func(second int, id, more string) string {
		return line(second, `"session_meta","payload":{"id":"`+id+`","timestamp":"2026-01-01T10:00:00Z"`+more+`}}`)
	}
	folder := t.TempDir()
	fork := filepath.Join(folder, "rollout-b.jsonl")
	for path, text := range map[string]string{
		filepath.Join(folder, "rollout-a.jsonl"): meta(0, "a", "") + prompt(1, "one") + reply(2, 10) + prompt(3, "two") +
			reply(4, 20),
		fork: meta(5, "b", `,"forked_from_id":"a"`) + prompt(5, "one") + reply(5, 10) + prompt(5, "two") + reply(5, 20) +
			prompt(6, "three") + reply(7, 30),
	} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	alone, both := rows(t, otelagent.CaptureContent, fork).Rows, rows(t, otelagent.CaptureContent, folder).Rows
	for _, all := range [][]session.Row{slices.Concat(alone, both), slices.Concat(both, alone)} {
		if diff := cmp.Diff(sums(both), sums(all)); diff != "" {
			t.Errorf("(-at once +one by one):\n%s", diff)
		}
	}
}

// sums returns the input and output tokens of each session.
func sums(rows []session.Row) map[string][2]int64 {
	found := map[string][2]int64{}
	for _, s := range session.AssembleAll(rows) {
		found[s.ID] = [2]int64{s.Usage.Input, s.Usage.Output}
	}
	return found
}

// TestForkOrder reads a fork whose counts have their members in another order than those of its parent.
func TestForkOrder(t *testing.T) {
	line := func(second int, rest string) string {
		return fmt.Sprintf(`{"timestamp":"2026-01-01T10:00:%02dZ",%s}`+"\n", second, rest)
	}
	meta := func(second int, payload string) string {
		return line(second, `"type":"session_meta","payload":{`+payload+`,"timestamp":"2026-01-01T10:00:00Z"}`)
	}
	count := func(second int, counts string) string {
		return line(second, `"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{`+counts+`}}}`)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a": meta(0, `"id":"a"`) + count(1, `"input_tokens":10,"output_tokens":1`) +
			count(2, `"input_tokens":30,"output_tokens":2`),
		"b": meta(5, `"id":"b","forked_from_id":"a"`) + count(5, `"output_tokens":1,"input_tokens":10`) +
			count(5, `"output_tokens":2,"input_tokens":30`) + count(7, `"output_tokens":4,"input_tokens":70`),
	} {
		must.Do(t, os.WriteFile(filepath.Join(folder, "rollout-"+name+".jsonl"), []byte(text), 0o600))
	}
	want := map[string][2]int64{"a": {30, 2}, "b": {40, 2}}
	if diff := cmp.Diff(want, sums(rows(t, otelagent.CaptureContent, folder).Rows)); diff != "" {
		t.Error(diff)
	}
}
