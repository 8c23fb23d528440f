package export

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
)

// What tests of this folder share, those of the package itself and those that look at it from outside.

// Recorded is a session as it came through the whole pipeline.
type Recorded struct {
	session.Tree
}

func (r *Recorded) Write(t *testing.T, write func(io.Writer, session.Tree, Options) ([]Missing, error),
	opts Options) []byte {
	t.Helper()
	var out bytes.Buffer
	if missing, err := write(&out, r.Tree, opts); err != nil || len(missing) > 0 {
		t.Fatalf("session %s: %v, %v", r.ID, missing, err)
	}
	return out.Bytes()
}

func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", "guide", name)
	if *update {
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, os.WriteFile(name, got, 0o644))
	}
	want := must.Get(os.ReadFile(name))(t)
	if d := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); d != "" {
		t.Errorf("%s: -want +got:\n%s", name, d)
	}
}

// Line is one line of JSONL.
type Line struct {
	Type string
	Data map[string]any
}

func LinesOf(t *testing.T, raw []byte) []Line {
	t.Helper()
	var l []Line
	for text := range bytes.Lines(raw) {
		var x Line
		must.Do(t, json.Unmarshal(text, &x))
		l = append(l, x)
	}
	return l
}

func (l *Line) Str(key string) string { s, _ := l.Data[key].(string); return s }
func (l *Line) Num(key string) int64  { f, _ := l.Data[key].(float64); return int64(f) }

func (l *Line) Inner(key string) map[string]any {
	var m map[string]any
	if json.Unmarshal([]byte(l.Str(key)), &m) != nil {
		return nil
	}
	return m
}

func CheckOrder(t *testing.T, l []Line) {
	t.Helper()
	if l[0].Type != "session" {
		t.Fatalf("the first line is a %s", l[0].Type)
	}
	seen := map[string]bool{}
	var message *Line
	index := int64(0)
	for i := range l {
		x := &l[i]
		if x.Type == "session" && i > 0 {
			t.Error("a second session")
		}
		if id := x.Str("id"); id != "" {
			if seen[id] {
				t.Errorf("%s occurs twice", id)
			}
			seen[id] = true
		}
		switch x.Type {
		case "message":
			if message != nil && cmp.Or(cmp.Compare(message.Num("created_at"), x.Num("created_at")),
				strings.Compare(message.Str("id"), x.Str("id"))) >= 0 {
				t.Errorf("%s stands before %s", message.Str("id"), x.Str("id"))
			}
			message, index = x, 0
		case "part":
			data := x.Inner("data_json")
			if x.Num("index") != index || x.Str("message_id") != message.Str("id") || data["type"] != x.Str("type") {
				t.Errorf("part %s: index %d, want %d", x.Str("id"), x.Num("index"), index)
			}
			if id, _ := data["toolCallId"].(string); id != x.Str("tool_call_id") {
				t.Errorf("part %s: tool_call_id %q, want %q", x.Str("id"), x.Str("tool_call_id"), id)
			}
			if data["state"] != nil && strings.HasPrefix(x.Str("type"), "tool-") && data["state"] != x.Str("tool_state") {
				t.Errorf("part %s: tool_state %q", x.Str("id"), x.Str("tool_state"))
			}
			index++
		}
	}
}

func CheckSums(t *testing.T, s *session.Session, raw []byte) {
	t.Helper()
	records := must.Get(csv.NewReader(bytes.NewReader(raw)).ReadAll())(t)
	if d := gocmp.Diff(csvHeader, records[0]); d != "" {
		t.Error(d)
	}
	var sum [5]int64
	for _, r := range records[1:] {
		for i := range sum {
			if r[9+i] != "" {
				n := must.Get(strconv.ParseInt(r[9+i], 10, 64))(t)
				sum[i] += n
			}
		}
	}
	got := session.Usage{Input: sum[0], Output: sum[1], Reasoning: sum[2], CacheRead: sum[3], CacheWrite: sum[4]}
	if got != s.Usage {
		t.Errorf("session %s: sums %+v, want %+v", s.ID, got, s.Usage)
	}
}
