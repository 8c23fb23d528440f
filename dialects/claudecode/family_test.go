package claudecode_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/otelagent/otelagent/dialects/claudecode"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

const (
	spotter = "testdata/spotter/8463c716-a2ea-4c14-9efa-87158ebd9f20.jsonl"
	inLine  = "testdata/claude-code-viewer/5c0375b4-57a5-4f26-b12d-d022ee4e51b7.jsonl"
	forked  = "testdata/forked/-home-user-demo"
	nested  = "testdata/langfuse-plugin/nested_subagents.jsonl"
	fork    = "c0ffee00-0000-4000-8000-00000000f0f0"
)

func read(t testing.TB, path string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return text
}

func write(t testing.TB, path string, text []byte) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, text, 0o644))
	return path
}

// A fork counts what is its own, once, however it is named. Without its parent it has a defect.
func TestFork(t *testing.T) {
	fs := families(t, forked)
	if len(fs) != 1 || len(fs[0].Files) != 2 || filepath.Base(fs[0].Files[1].Path) != fork+".jsonl" {
		t.Fatalf("%+v", fs)
	}
	var both sums
	for _, s := range treeOf(t, fs[0].Events(claudecode.Agent.NewDecoder())) {
		for _, r := range s.Runs {
			if both.add(r); s.ID == fork && (r.ForkParentID != "7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9") {
				t.Errorf("run %s of the fork has the parent %q", r.ID, r.ForkParentID)
			}
		}
	}
	if both.Runs != 3 || both.Turns != 7 || both.Input != 79 || both.Copied != 2 {
		t.Errorf("%+v", both)
	}
	alone := treeOf(t, families(t, forked+"/"+fork+".jsonl")[0].Events(claudecode.Agent.NewDecoder()))[0]
	if d := alone.Runs[0].Defects; len(d) != 1 || d[0].Code != spans.DefectEventLost || d[0].Detail != "parent missing" {
		t.Errorf("%+v", d)
	}
}

// Every sub-agent hangs on the call that spawned it, also one in line and one that a sub-agent spawned.
func TestSubAgents(t *testing.T) {
	for path, want := range map[string]string{
		spotter: "a7be2f0<-Task",
		inLine:  "6340ddef-f656<-Task 83e2917c-8940<-Task",
		nested:  "outer-agent<-Agent inner-agent<-Agent",
	} {
		s := treeOf(t, families(t, path)[0].Events(claudecode.Agent.NewDecoder()))[0]
		var got []string
		for _, r := range s.Runs {
			if r.ParentToolCallID == "" {
				continue
			}
			for _, parent := range s.Runs {
				for c := range parent.Calls() {
					if c.ID == r.ParentToolCallID && parent.ID == r.ParentID && c.ChildRunID == r.ID {
						got = append(got, strings.SplitN(r.ID, "-4", 2)[0]+"<-"+c.Name)
					}
				}
			}
			if r.Status != "completed" && path != nested {
				t.Errorf("%s: %s", r.ID, r.Status)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// An output that is in a file of its own is read from below the session's own folder, and from nowhere else.
func TestSideOutputs(t *testing.T) {
	const id = "11111111-2222-4333-8444-555555555555"
	dir := t.TempDir()
	own := filepath.Join(dir, id, "tool-results")
	write(t, filepath.Join(own, "big.txt"), []byte("all of it"))
	secret := write(t, filepath.Join(dir, "secret.txt"), []byte("SECRET"))
	must.Do(t, os.Symlink(secret, filepath.Join(own, "link.txt")))
	write(t, filepath.Join(own, "huge.txt"), make([]byte, 8<<20+1))
	for path, want := range map[string]string{
		own + "/big.txt": "all of it", "/elsewhere/" + id + "/tool-results/big.txt": "all of it", secret: "part",
		own + "/link.txt": "part", own + "/huge.txt": "part", own + "/../../secret.txt": "part", "../secret.txt": "part",
		own + "/none.txt": "part", own: "part",
	} {
		lines := fmt.Sprintf(`{"type":"user","sessionId":"%s","uuid":"u1","message":{"role":"user","content":"go"}}
{"type":"assistant","uuid":"a1","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash"}]}}
{"type":"user","uuid":"u2","toolUseResult":{"persistedOutputPath":%q},"message":{"role":"user","content":[`+
			`{"type":"tool_result","tool_use_id":"t1","content":"part"}]}}
`, id, path)
		file := write(t, filepath.Join(dir, id+".jsonl"), []byte(lines))
		got := ""
		for ev, err := range families(t, file)[0].Events(claudecode.Agent.NewDecoder()) {
			must.Do(t, err)
			if end, ok := ev.(*event.ToolEnded); ok {
				got = string(end.Result)
			}
		}
		if got != `"`+want+`"` {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// Files of settings, credentials and prompts are not opened, links not followed; an archive is read.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	text := read(t, "testdata/agtrace/claude_session.jsonl")
	for _, name := range []string{"history.jsonl", "settings.jsonl", ".credentials.json", "auth.jsonl", "journal.jsonl"} {
		write(t, filepath.Join(dir, name), text)
	}
	write(t, filepath.Join(dir, "notes.jsonl"), []byte("{\"a\":1}\n"))
	z, _ := zstd.NewWriter(nil)
	write(t, filepath.Join(dir, "p", "old.jsonl.zst"), z.EncodeAll(text, nil))
	must.Do(t, os.Symlink(dir, filepath.Join(dir, "p", "loop")))
	must.Do(t, os.Symlink(filepath.Join(dir, "history.jsonl"), filepath.Join(dir, "p", "link.jsonl")))
	fs := families(t, dir)
	if len(fs) != 1 || len(fs[0].Files) != 1 {
		t.Fatalf("%+v", fs)
	}
	if s := treeOf(t, fs[0].Events(claudecode.Agent.NewDecoder())); len(s[0].Runs) != 2 {
		t.Errorf("%d runs", len(s[0].Runs))
	}
}

// A fork of a session whose first prompt is longer than what is read of other files counts it once.
func TestFindLongPrompt(t *testing.T) {
	dir, total := t.TempDir(), int64(0)
	for _, id := range []string{fork, here} {
		lines := strings.Repeat(`{"type":"summary","summary":"other","leafUuid":"z"}`+"\n", 2000)
		for _, line := range []string{
			`"user","message":{"content":"` + strings.Repeat("x", input.HeadSize) + `"},"uuid":"u1"`,
			`"assistant","uuid":"a1","message":{"id":"m1","usage":{"input_tokens":10}}`} {
			lines += fmt.Sprintf(`{"sessionId":%q,"type":%s,"timestamp":"2026-01-01T00:00:01Z","forkedFrom":{"sessionId":%q}}`,
				id, line, here) + "\n"
		}
		write(t, filepath.Join(dir, id+".jsonl"), []byte(lines))
	}
	for _, f := range families(t, dir) {
		for _, s := range treeOf(t, f.Events(claudecode.Agent.NewDecoder())) {
			total += s.Usage.Input
		}
	}
	if total != 10 {
		t.Errorf("%d tokens, want 10", total)
	}
}

// A session that goes on with the history of another one in lines with other uuids counts each reply once.
func TestFindSameReply(t *testing.T) {
	dir, total := t.TempDir(), int64(0)
	for i, id := range []string{here, fork} {
		lines := ""
		for n, line := range []string{`"user","message":{"content":"go"}`,
			`"assistant","message":{"id":"msg_01ABCDEFGHIJKLMNOPQR","usage":{"input_tokens":10}}`,
			fmt.Sprintf(`"assistant","message":{"id":"msg_%d","usage":{"input_tokens":1}}`, i)} {
			lines += fmt.Sprintf(`{"sessionId":%q,"type":%s,"uuid":"u%d-%d","timestamp":"2026-01-01T00:0%[3]d:0%[4]dZ"}`+"\n",
				id, line, i, n)
		}
		write(t, filepath.Join(dir, id+".jsonl"), []byte(lines))
	}
	for _, f := range families(t, dir) {
		for _, s := range treeOf(t, f.Events(claudecode.Agent.NewDecoder())) {
			total += s.Usage.Input
		}
	}
	if total != 12 {
		t.Errorf("%d tokens, want 12", total)
	}
}

// Files that name each other as parents, ids without end, nesting and long lines do no harm.
func TestHostile(t *testing.T) {
	dir := t.TempDir()
	line := func(session, from, uuid string) string {
		return fmt.Sprintf(`{"type":"user","timestamp":"2026-01-01T00:00:00Z","sessionId":%q,"session_id":%q,"uuid":%q,`+
			`"parentUuid":"x","message":{"role":"user","content":"hello"}}`+"\n", session, from, uuid)
	}
	write(t, filepath.Join(dir, "a.jsonl"), []byte(line("a", "b", "1")))
	write(t, filepath.Join(dir, "b.jsonl"), []byte(line("b", "a", "2")))
	fs := families(t, dir)
	if len(fs) != 1 || len(fs[0].Files) != 2 {
		t.Fatalf("%+v", fs)
	}
	treeOf(t, fs[0].Events(claudecode.Agent.NewDecoder()))
	many := []byte(line("s", "", "0"))
	for i := range 20_000 {
		many = fmt.Appendf(many, `{"type":"assistant","isSidechain":true,"sessionId":"s","uuid":"%d","parentUuid":"%d",`+
			`"message":{"id":"m","content":[{"type":"tool_use","id":"t%[1]d","name":"Task",`+
			`"input":{"prompt":"p%[1]d"}}]}}`+"\n", i+9, i+8)
	}
	deep := strings.Repeat(`{"type":"user","message":`, 300) + "1" + strings.Repeat("}", 300) + "\n"
	many = append(append(many, deep...), []byte(`{"type":"user","sessionId":5,"message":[]}`+"\n")...)
	rejected := 0
	for _, err := range claudecode.Agent.NewDecoder(input.Settings{MaxLine: 1 << 20}).Events(bytes.NewReader(many)) {
		if err != nil {
			rejected++
		}
	}
	if rejected < 2 {
		t.Errorf("%d lines rejected", rejected)
	}
}

// The speed of reading, and that of a scan of the JSON.
func BenchmarkDecoder(b *testing.B) {
	text := read(b, spotter)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		for _, err := range claudecode.Agent.NewDecoder().Events(bytes.NewReader(text)) {
			must.Do(b, err)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	text := read(b, spotter)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		for line := range bytes.Lines(text) {
			if !json.Valid(line) {
				b.Fatal("no JSON")
			}
		}
	}
}

// repeated is a transcript of n times the same turns, each with ids of its own.
type repeated struct {
	text []byte
	n    int
	rest []byte
}

func (r *repeated) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.n--; r.n < 0 {
			return 0, io.EOF
		}
		r.rest = bytes.ReplaceAll(r.text, []byte("ID"), strconv.AppendInt(nil, int64(r.n), 10))
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// A file of 200 MB is read in at most 150 MB of memory.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: reads 200 MB")
	}
	text := fmt.Appendf(nil, `{"type":"user","sessionId":"s","uuid":"uID","message":{"role":"user","content":"go"}}
{"type":"assistant","uuid":"aID","message":{"id":"mID","content":[{"type":"tool_use","id":"tID","name":"Bash"}]}}
{"type":"user","uuid":"rID","message":{"content":[{"type":"tool_result","tool_use_id":"tID","content":"%s"}]}}
`, strings.Repeat("x", 1<<10))
	debug.SetMemoryLimit(100 << 20)
	defer debug.SetMemoryLimit(math.MaxInt64)
	peak, n := uint64(0), 0
	for _, err := range claudecode.Agent.NewDecoder().Events(&repeated{text: text, n: 200 << 20 / len(text)}) {
		must.Do(t, err)
		if n++; n%50_000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.Sys-m.HeapReleased)
		}
	}
	if peak > 150<<20 || n < 500_000 {
		t.Errorf("%d bytes of memory for %d events", peak, n)
	}
	t.Log(peak>>20, "MiB,", n, "events")
}
