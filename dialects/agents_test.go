package dialects_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	_ "modernc.org/sqlite"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/gemini"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/opencode"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// This file holds what is promised of the transcripts of all agents.

// agent is a dialect of transcripts, and the folder of its samples.
type agent struct {
	dialects.Dialect
	folder string
}

func (a agent) new(opts ...input.Settings) *transcript.Decoder {
	return a.New(opts...).(*transcript.Decoder)
}

// agentOf returns an agent. OpenCode's samples are in a folder of the test, since the reading of a database makes files
// next to it.
func agentOf(t testing.TB, name string) agent {
	t.Helper()
	d, _ := dialects.Named(name)
	folder, _, _ := strings.Cut(strings.Replace(name, "claude-", "claude", 1), "-")
	a := agent{d, folder + "/testdata"}
	if name == opencode.Agent.Dialect {
		dir := t.TempDir()
		must.Do(t, os.CopyFS(dir, os.DirFS(a.folder)))
		packed := must.Get(os.Open(dir + "/generated/opencode.db.zst"))(t)
		defer packed.Close()
		z := must.Get(zstd.NewReader(packed))(t)
		defer z.Close()
		write(t, dir+"/generated/opencode.db", must.Get(io.ReadAll(z))(t))
		a.folder = dir
	}
	return a
}

// agents returns all of them.
func agents(t testing.TB) (list []agent) {
	t.Helper()
	for _, d := range dialects.All() {
		if d.Agent != nil {
			list = append(list, agentOf(t, d.Name))
		}
	}
	return list
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o600)))
}

// families returns those of some files or folders.
func (a agent) families(t testing.TB, paths ...string) []transcript.Family {
	t.Helper()
	found, problems := transcript.Find(*a.Agent, paths...)
	if len(problems) > 0 || len(found) == 0 {
		t.Fatal(len(found), problems)
	}
	return found
}

// record records families with derived ids, so that the same records give the same rows; each with a Recorder of its
// own, as import does.
func (a agent) record(t testing.TB, level otelagent.Capture, families ...transcript.Family) *agenttest.Pipeline {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(level), writer.WithDerivedIDs)
	for _, f := range families {
		rec := event.NewRecorder(p.Tracer())
		if play.Lines(t, rec, f.Events(a.new())); rec.Lost() > 0 {
			t.Errorf("%d events lost", rec.Lost())
		}
	}
	return p
}

// tree returns sessions as JSON, without what says when and from where they came.
func tree(t testing.TB, sessions []*session.Session) string {
	t.Helper()
	return string(must.Get(json.MarshalIndent(sessions, "", " "))(t))
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
					if part.Modality == "image" {
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
	for _, a := range []agent{agentOf(t, gemini.Agent.Dialect), agentOf(t, opencode.Agent.Dialect)} {
		var files map[string]counts
		must.Do(t, json.Unmarshal(must.Get(os.ReadFile(a.folder+"/expected.json"))(t), &files))
		for name, want := range files {
			t.Run(a.Name+"/"+name, func(t *testing.T) {
				path, _, _ := strings.Cut(name, "#")
				families := a.families(t, filepath.Join(a.folder, path))
				p := a.record(t, otelagent.CaptureContent, families...)
				got := counts{Session: want.Session, Tools: []string{}, Subagents: []string{}}
				for _, s := range p.Sessions() {
					if s.ID == want.Session {
						got = countsOf(s)
					}
				}
				if a.Name == gemini.Agent.Dialect { // it counts neither
					got.Failed, got.Aborted = 0, 0
				}
				got.Images = a.images(t, families...)[want.Session]
				got.IncludesCache, got.IncludesReasoning = a.Name == gemini.Agent.Dialect, false
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
	t.Parallel()
	for _, a := range agents(t) {
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

// growing yields the beginnings of a file: of lines up to 48, of a large file fewer, every other inside a line;
// of a document after each message.
func growing(t testing.TB, path string) (beginnings [][]byte) {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	if strings.HasSuffix(path, ".jsonl") {
		lines, parts := bytes.SplitAfter(text, []byte("\n")), 24
		if testing.Short() {
			parts = 8
		}
		for n := 1; n < len(lines); n += max(1, len(lines)/parts, len(lines)*len(text)>>23) {
			part := bytes.Join(lines[:n], nil)
			if len(beginnings)%2 == 1 {
				part = append(part, lines[n][:len(lines[n])/2]...)
			}
			beginnings = append(beginnings, part)
		}
		return append(beginnings, text)
	}
	var o map[string]any
	must.Do(t, json.Unmarshal(text, &o))
	messages, _ := o["messages"].([]any)
	for i := range messages {
		o["messages"] = messages[:i+1]
		beginnings = append(beginnings, must.Get(json.Marshal(o))(t))
	}
	return beginnings
}

// files yields the files of an agent's samples that are lines or documents, each once.
func (a agent) files(t testing.TB) (list []transcript.File) {
	t.Helper()
	for _, f := range a.families(t, a.folder) {
		for _, file := range f.Files {
			if strings.Contains(filepath.Ext(file.Path), ".json") && !strings.Contains(file.Path, "/storage/") {
				list = append(list, file) // the documents of a storage folder are those of an export
			}
		}
	}
	return list
}

// TestAgentsGrow reads each file again whenever it has grown: in the end the tree is that of the whole file. On the way
// it is that of the beginning, or, where the end of a file may be taken for that of a run, the turns that were over do
// not change.
func TestAgentsGrow(t *testing.T) {
	t.Parallel()
	for _, a := range agents(t) {
		for _, file := range a.files(t) {
			if filepath.Base(file.Path) == "catalogue.jsonl" {
				continue // records of all kinds, and no session
			}
			dir := filepath.Join(t.TempDir(), "chats")
			path := filepath.Join(dir, filepath.Base(file.Path))
			if info, err := os.Stat(file.Folder); err == nil && info.IsDir() && !file.Part {
				must.Do(t, os.CopyFS(filepath.Join(dir, filepath.Base(file.Folder)), os.DirFS(file.Folder)))
			}
			beginnings := growing(t, file.Path)
			write(t, path, beginnings[len(beginnings)-1])
			whole := turnsOf(a.record(t, otelagent.CaptureContent, a.families(t, path)...).Sessions())
			var rows []session.Row
			last, want := "", ""
			for i, text := range beginnings {
				write(t, path, text)
				found, _ := transcript.Find(*a.Agent, path)
				p := a.record(t, otelagent.CaptureContent, found...)
				rows = append(rows, p.Batch().Rows...)
				want = tree(t, session.AssembleAll(p.Batch().Rows))
				last = tree(t, session.AssembleAll(rows))
				if a.Name == "codex" { // the line at which a call is known to be over depends on where the file ended
					want, last = place.ReplaceAllString(want, ""), place.ReplaceAllString(last, "")
				}
				switch {
				case a.Name == "codex", a.Name == "pi":
					for id, turn := range turnsOf(p.Sessions()) {
						if turn != whole[id] {
							t.Errorf("%s after %d of %d: %s (-whole +part)\n%s", path, i, len(beginnings), id, cmp.Diff(whole[id], turn))
						}
					}
				case a.Name != "claude-code" && i%5 == 0 && last != want:
					t.Fatalf("%s after %d of %d (-whole +grown)\n%s", path, i, len(beginnings), cmp.Diff(want, last))
				}
			}
			if last != want {
				t.Errorf("%s (-whole +grown)\n%s", path, cmp.Diff(want, last))
			}
		}
	}
}
