package dialects_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/input"
)

// good are lines of each dialect that stand before a bad one and behind it.
var good = map[string][2]string{
	"claude-code": {`{"type":"user","sessionId":"s","uuid":"u1","message":{"role":"user","content":"a"}}` + "\n",
		`{"type":"user","sessionId":"s","uuid":"u2","message":{"role":"user","content":"b"}}` + "\n"},
	"phi-core": {`{"type":"TurnStart","loop_id":"s.1","turn_index":0}` + "\n",
		`{"type":"TurnStart","loop_id":"s.1","turn_index":1}` + "\n"},
	"clark-agent": {`{"type":"agent_start"}` + "\n" + `{"type":"run_identified","identity":{"run_id":"r-1","depth":0}}` +
		"\n", `{"type":"agent_end","messages":[]}` + "\n"},
	"codex": {`{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"s","cwd":"/"}}` + "\n",
		`{"timestamp":"2026-01-01T00:00:01Z","type":"event_msg","payload":{"type":"task_started","turn_id":"t"}}` + "\n" +
			`{"timestamp":"2026-01-01T00:00:02Z","type":"event_msg","payload":{"type":"task_complete"}}` + "\n"},
	"gemini-cli": {`{"sessionId":"s","projectHash":"p","kind":"main"}` + "\n",
		`{"id":"u1","type":"user","timestamp":"2026-01-01T00:00:01Z","content":"a"}` + "\n"},
	"pi": {`{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}` + "\n",
		`{"type":"message","id":"u1","timestamp":"2026-01-01T00:00:01Z","message":{"role":"user","content":"a"}}` + "\n"},
	"acp": {"", `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n"},
	"guide": {`{"type":"session","data":{"id":"ses_1","created_at":1000}}` + "\n" +
		`{"type":"message","data":{"id":"u1","role":"user","created_at":1001}}` + "\n",
		`{"type":"session","data":{"id":"ses_1","created_at":1000}}` + "\n" +
			`{"type":"message","data":{"id":"u2","role":"user","created_at":1002}}` + "\n"},
}

// TestBadLines puts each line of testdata/bad-lines.txt between good ones: it is reported with its number and without
// its content, and the others are read.
func TestBadLines(t *testing.T) {
	text, err := os.ReadFile("testdata/bad-lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	name, line, n := "", "", 0
	for _, l := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(l, "! ") {
			out = append(out, l)
		}
		if next, begins := strings.CutPrefix(l, "== "); begins {
			name = next
		}
		if strings.HasPrefix(l, "! ") || strings.HasPrefix(l, "== ") || strings.HasPrefix(l, "#") || l == "" {
			continue
		}
		if line = l; strings.HasPrefix(l, "Go: ") {
			if line, err = strconv.Unquote(l[len("Go: "):]); err != nil {
				t.Fatal(err)
			}
		}
		before, after := good[name][0], good[name][1]
		number := int64(1 + strings.Count(before, "\n"))
		d, _ := dialects.Named(name)
		reader, behind := d.New(), 0
		for ev, err := range reader.Events(strings.NewReader(before + line + "\n" + after)) {
			var bad *input.LineError
			switch {
			case err == nil:
				if behind++; ev == nil {
					t.Errorf("%s: no event", l)
				}
			case ev != nil || !errors.As(err, &bad) || bad.Line != number || bad.Dialect != name:
				t.Errorf("%s: event %v, error %#v", l, ev, err)
			default:
				behind = 0
				place := name + ": line " + strconv.FormatInt(number, 10) + ": "
				out = append(out, "! "+strings.TrimPrefix(bad.Error(), place))
				if strings.Contains(bad.Error(), "SECRET") {
					t.Errorf("%s: the error holds content", l)
				}
				if bad.Cut != strings.Contains(bad.Reason, "too early") {
					t.Errorf("%s: cut is %v", l, bad.Cut)
				}
			}
		}
		if n++; behind == 0 || reader.Stats().Rejected < 1 {
			t.Errorf("%s: the lines behind it are not read, or %+v", l, reader.Stats())
		}
	}
	got := strings.Join(out, "\n")
	if *update {
		if err := os.WriteFile("testdata/bad-lines.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); diff != "" || n < 100 {
		t.Errorf("%d lines (-want +got, -update writes them anew):\n%s", n, diff)
	}
}
