package codex_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/codex"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// grown are the rollouts that the tests of this file cut.
var grown = []string{"agtrace/codex_session.jsonl", "traps.jsonl",
	"generated/sessions/2026/11/22/rollout-2026-11-22T11-08-14-01a202f1-3e87-79c1-8b33-e728850da6a5.jsonl"}

func shown(t *testing.T, rows []session.Row) string {
	t.Helper()
	text, err := json.MarshalIndent(session.AssembleAll(rows), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGrown reads a rollout as it grows, each time from its beginning, and twice at last: the tree is that of the
// whole. What was finished before does not change.
func TestGrown(t *testing.T) {
	for _, file := range grown {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "rollout.jsonl")
		write := func(text []byte) session.Batch {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return rows(t, otelagent.CaptureContent, path)
		}
		whole := write(text)
		want := shown(t, whole.Rows)
		ended := map[string]string{} // turns
		for _, s := range session.AssembleAll(whole.Rows) {
			for id, turn := range turns(s) {
				ended[id] = turn
			}
		}
		var all []session.Row
		lines := bytes.SplitAfter(text, []byte("\n"))
		for n := 1; n <= len(lines); n += 3 {
			part := write(bytes.Join(lines[:n], nil))
			all = append(all, part.Rows...)
			for _, s := range session.AssembleAll(part.Rows) {
				for id, turn := range turns(s) {
					if turn != ended[id] {
						t.Errorf("%s, %d lines: turn %s (-whole +cut):\n%s", file, n, id, cmp.Diff(ended[id], turn))
					}
				}
			}
		}
		all = append(append(all, write(text).Rows...), whole.Rows...)
		if got := shown(t, all); got != want {
			t.Errorf("%s (-once +grown):\n%s", file, cmp.Diff(want, got))
		}
	}
}

// turns returns usage and tools of the turns whose end was seen, by their ids.
func turns(s *session.Session) map[string]string {
	found := map[string]string{}
	for _, r := range s.Runs {
		for i, turn := range r.Turns {
			if turn.Known == spans.KnownClosed {
				continue
			}
			text := turn.ResponseID
			for _, c := range turn.ToolCalls {
				text += " " + c.Name + " " + string(c.Outcome)
			}
			usage, _ := json.Marshal(turn.Usage)
			found[r.ID+string(rune('0'+i))] = text + string(usage)
		}
	}
	return found
}

// TestCut cuts rollouts at bytes anywhere. What is read is no panic, and an error of the last line at most.
func TestCut(t *testing.T) {
	for _, file := range grown {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(text); n += 97 {
			failed := 0
			for _, err := range codex.NewDecoder().Events(bytes.NewReader(text[:n])) {
				var bad *input.LineError
				if err != nil && (!errors.As(err, &bad) || !bad.Cut) {
					t.Fatalf("%s, %d bytes: %v", file, n, err)
				} else if err != nil {
					failed++
				}
			}
			if failed > 1 {
				t.Fatalf("%s, %d bytes: %d errors", file, n, failed)
			}
		}
	}
}

// TestFollowed reads a rollout in pieces with one Decoder, as one that follows the file does.
func TestFollowed(t *testing.T) {
	for _, file := range grown {
		path := "testdata/" + file
		want := turns(session.AssembleAll(rows(t, otelagent.CaptureContent, path).Rows)[0])
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		growing := filepath.Join(t.TempDir(), "rollout.jsonl")
		p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
		rec, d := event.NewRecorder(p.Tracer()), codex.NewDecoder(input.Settings{Live: true})
		lines := bytes.SplitAfter(text, []byte("\n"))
		for n := 0; n < len(lines); n += 5 {
			part := append(bytes.Join(lines[:n], nil), lines[n][:len(lines[n])/2]...) // it ends inside a line
			if n+5 >= len(lines) {
				part = text
			}
			if err := os.WriteFile(growing, part, 0o600); err != nil {
				t.Fatal(err)
			}
			for ev, err := range d.Read(transcript.File{Path: growing}) {
				if err != nil {
					t.Fatal(err)
				}
				rec.Record(t.Context(), ev)
			}
		}
		rec.Close(t.Context())
		found := map[string]string{}
		for _, s := range p.Sessions() {
			found = turns(s)
		}
		for id, turn := range found {
			if turn != want[id] {
				t.Errorf("%s: turn %s (-whole +followed):\n%s", file, id, cmp.Diff(want[id], turn))
			}
		}
		if len(found) < len(want)-1 { // the last one may go on
			t.Errorf("%s: %d turns, want %d", file, len(found), len(want))
		}
	}
}

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
	for ev, err := range codex.NewDecoder().Events(&long{turns: 8000}) { // 48 MB
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

// TestForkAlone reads forks alone, before their parents or after them: the sums are in the end those of both at once.
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
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for whole, forks := range map[string][]string{folder: {fork}, "testdata/codexbar": codexbarForks(t)} {
		both := rows(t, otelagent.CaptureContent, whole).Rows
		want := sums(both)
		for _, fork := range forks {
			alone := rows(t, otelagent.CaptureContent, fork).Rows
			for _, all := range [][]session.Row{append(slices.Clone(alone), both...), append(slices.Clone(both), alone...)} {
				if diff := cmp.Diff(want, sums(all)); diff != "" {
					t.Errorf("%s (-at once +one by one):\n%s", fork, diff)
				}
			}
		}
	}
}

func codexbarForks(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/codexbar/*/*.jsonl")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	return files
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
		if err := os.WriteFile(filepath.Join(folder, "rollout-"+name+".jsonl"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][2]int64{"a": {30, 2}, "b": {40, 2}}
	if diff := cmp.Diff(want, sums(rows(t, otelagent.CaptureContent, folder).Rows)); diff != "" {
		t.Error(diff)
	}
}
