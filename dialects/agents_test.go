package dialects_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	_ "modernc.org/sqlite"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/gemini"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/opencode"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// This file holds what is promised of the transcripts of OpenCode and Gemini CLI.

// agent is a dialect of transcripts, and the files that hold its expected.json.
type agent struct {
	layout transcript.Layout
	new    func(...input.Settings) *transcript.Decoder
	folder string
}

var geminiCLI = agent{gemini.Layout, gemini.NewDecoder,
	"gemini/testdata"}

// noError ends the test with an error.
func noError(tb testing.TB, err error) {
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}

// openCode returns the agent with its database in a folder of its own, since reading makes files next to it.
func openCode(t testing.TB) agent {
	t.Helper()
	dir := t.TempDir()
	noError(t, os.CopyFS(dir, os.DirFS("opencode/testdata")))
	packed := must(os.Open("opencode/testdata/generated/opencode.db.zst"))(t)
	defer packed.Close()
	z := must(zstd.NewReader(packed))(t)
	defer z.Close()
	write(t, dir+"/generated/opencode.db", must(io.ReadAll(z))(t))
	return agent{opencode.Layout, opencode.NewDecoder, dir}
}

// must returns a value that comes without an error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	must(0, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o600)))(t)
}

// families returns those of some files or folders.
func (a agent) families(t testing.TB, paths ...string) []transcript.Family {
	t.Helper()
	found, problems := transcript.Find(a.layout, paths...)
	if len(problems) > 0 || len(found) == 0 {
		t.Fatal(len(found), problems)
	}
	return found
}

// pipeline records families with derived ids, so that the same records give the same rows.
func (a agent) record(t testing.TB, level otelagent.Capture, families ...transcript.Family) *agenttest.Pipeline {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(level), writer.WithDerivedIDs)
	rec := event.NewRecorder(p.Tracer())
	for _, f := range families {
		for ev, err := range f.Events(a.new()) {
			if err == nil {
				rec.Record(t.Context(), ev)
			} else if !errors.As(err, new(*input.LineError)) {
				t.Fatal(err)
			}
		}
	}
	rec.Close(t.Context())
	if rec.Lost() > 0 {
		t.Errorf("%d events lost", rec.Lost())
	}
	return p
}

// tree returns sessions as JSON, without what says when and from where they came.
func tree(t testing.TB, sessions []*session.Session) string {
	t.Helper()
	return string(must(json.MarshalIndent(sessions, "", " "))(t))
}

// counts are those of an entry of expected.json that a tree has.
type counts struct {
	Session              string `json:"session_id"`
	Runs, Turns          int
	Tools                []string
	Input                int64 `json:"input_tokens"`
	Output               int64 `json:"output_tokens"`
	CacheRead            int64 `json:"cache_read"`
	CacheWrite           int64 `json:"cache_write"`
	Reasoning            int64
	Cost                 float64
	Compaction           compacted `json:"compaction_tokens"`
	Denied               int
	Failed               int `json:"failed_tools"`
	Aborted              int
	Compactions, Rewinds int
	Images               int
	Subagents            []string
	IncludesCache        bool `json:"input_includes_cache"`
	IncludesReasoning    bool `json:"output_includes_reasoning"`
}

type compacted struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// countsOf counts what a session holds.
func countsOf(s *session.Session) (c counts) {
	c = counts{Session: s.ID, Tools: []string{}, Subagents: []string{}}
	for _, r := range s.Runs {
		if r.Continuation != "compaction" {
			c.Runs++
		}
		for _, t := range r.Turns {
			if t.Failed {
				c.Aborted++
				continue
			}
			c.Turns++
			if t.Cost != nil {
				c.Cost += *t.Cost
			}
			if u := t.Reported; u != nil {
				c.Input, c.Output, c.Reasoning = c.Input+u.Input, c.Output+u.Output, c.Reasoning+u.Reasoning
				c.CacheRead, c.CacheWrite = c.CacheRead+u.CacheRead, c.CacheWrite+u.CacheWrite
			}
		}
		for call := range r.Calls() {
			c.Tools = append(c.Tools, call.Name)
			if call.Outcome == "error" {
				c.Failed++
			}
			if call.ChildSessionID != "" {
				c.Subagents = append(c.Subagents, call.ChildSessionID)
			}
		}
		for n := range r.Walk() {
			switch {
			case n.Permission != nil && n.Permission.Action == "deny" && n.Permission.Derived:
				c.Denied++
			case n.Compaction != nil:
				c.Compactions++
				if cost := n.Compaction.Cost; cost != nil {
					c.Cost += *cost
				}
				if u := n.Compaction.Usage; u != nil {
					c.Compaction = compacted{u.Input - u.CacheRead - u.CacheWrite, u.Output, u.CacheRead, u.CacheWrite}
				}
			}
		}
	}
	return c
}

// images counts the images of the prompts of each session.
func (a agent) images(t testing.TB, families ...transcript.Family) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, f := range families {
		for ev, _ := range f.Events(a.new()) {
			added, ok := ev.(*event.MessageAdded)
			if !ok {
				continue
			}
			for _, m := range message.Read(added.Message.Raw) {
				for _, part := range m.Parts {
					if part.Kind == message.MediaPart && part.Media.Modality == "image" {
						found[added.Session]++
					}
				}
			}
		}
	}
	return found
}

// TestAgentsExpected compares each session of expected.json, whole, with what the samples come to.
func TestAgentsExpected(t *testing.T) {
	for _, a := range []agent{geminiCLI, openCode(t)} {
		var files map[string]counts
		must(0, json.Unmarshal(must(os.ReadFile(a.folder+"/expected.json"))(t), &files))(t)
		for name, want := range files {
			t.Run(a.layout.Dialect+"/"+name, func(t *testing.T) {
				path, _, _ := strings.Cut(name, "#")
				families := a.families(t, filepath.Join(a.folder, path))
				p := a.record(t, otelagent.CaptureContent, families...)
				got := counts{Session: want.Session, Tools: []string{}, Subagents: []string{}}
				for _, s := range p.Sessions() {
					if s.ID == want.Session {
						got = countsOf(s)
					}
				}
				if a.layout.Dialect == gemini.Dialect { // it counts neither
					got.Failed, got.Aborted = 0, 0
				}
				got.Images = a.images(t, families...)[want.Session]
				got.IncludesCache, got.IncludesReasoning = a.layout.Dialect == gemini.Dialect, false
				if len(got.Tools) == 0 {
					got.Tools = want.Tools
				}
				got.Cost = float64(int64(got.Cost*1e7+0.5)) / 1e7
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		}
	}
}

// TestAgentsTwice reads each family twice, and after its beginnings: nothing changes.
func TestAgentsTwice(t *testing.T) {
	for _, a := range []agent{geminiCLI, openCode(t)} {
		for _, f := range a.families(t, a.folder) {
			once := a.record(t, otelagent.CaptureContent, f)
			want := tree(t, session.AssembleAll(once.Batch().Rows))
			twice := a.record(t, otelagent.CaptureContent, f, f)
			if got := tree(t, session.AssembleAll(append(twice.Batch().Rows, once.Batch().Rows...))); got != want {
				t.Errorf("%s read twice (-once +twice)\n%s", f.Files[0].Path, cmp.Diff(want, got))
			}
		}
	}
}

// grown yields the beginnings of a file: of lines after each, of a document after each message.
func grown(t testing.TB, path string) (beginnings [][]byte) {
	t.Helper()
	text := must(os.ReadFile(path))(t)
	if strings.HasSuffix(path, ".jsonl") {
		for line := range bytes.Lines(text) {
			from := []byte{}
			if n := len(beginnings); n > 0 {
				from = beginnings[n-1]
			}
			beginnings = append(beginnings, append(slices.Clip(from), line...))
		}
		return beginnings
	}
	var o map[string]any
	must(0, json.Unmarshal(text, &o))(t)
	messages, _ := o["messages"].([]any)
	for i := range messages {
		o["messages"] = messages[:i+1]
		beginnings = append(beginnings, must(json.Marshal(o))(t))
	}
	return beginnings
}

// TestAgentsGrow reads each file again whenever it has grown: in the end the tree is that of the whole file, and no run
// or turn that was over, but for the last ones, changed on the way.
func TestAgentsGrow(t *testing.T) {
	for _, a := range []agent{geminiCLI, openCode(t)} {
		for _, f := range a.families(t, a.folder) {
			for _, file := range f.Files {
				if strings.HasSuffix(file.Path, ".db") || strings.Contains(file.Path, "/storage/") {
					continue // their documents are those of the export
				}
				beginnings := grown(t, file.Path)
				path := filepath.Join(t.TempDir(), "chats", filepath.Base(file.Path))
				var rows []session.Row
				last, want := "", ""
				for i, text := range beginnings {
					write(t, path, text)
					p := a.record(t, otelagent.CaptureContent, a.families(t, path)...)
					rows = append(rows, p.Batch().Rows...)
					want = tree(t, session.AssembleAll(p.Batch().Rows))
					last = tree(t, session.AssembleAll(rows))
					if i%5 == 0 && last != want {
						t.Errorf("%s after %d of %d (-whole +grown)\n%s", path, i, len(beginnings), cmp.Diff(want, last))
						break
					}
				}
				if last != want {
					t.Errorf("%s (-whole +grown)\n%s", path, cmp.Diff(want, last))
				}
			}
		}
	}
}
