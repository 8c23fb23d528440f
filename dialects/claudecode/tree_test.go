package claudecode_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/claudecode"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

type events = iter.Seq2[event.Event, error]

// sums are the counts of expected.json that the tree has.
type sums struct {
	Runs, Turns                                      int
	Tools                                            []string
	Input, Output, CacheRead, CacheWrite, Compaction int64
	Denied, Interrupted, Compactions, Prunes, Copied int
}

// add adds a run.
func (s *sums) add(r *session.Run) {
	if r.Copied {
		s.Copied++
		return
	}
	for i, t := range r.Turns {
		if i == 0 && (t.Trigger == "user" || t.Trigger == "teammate") {
			s.Runs++
		}
		s.Turns++
		if t.Reported == nil {
			continue
		}
		s.Input += t.Reported.Input
		s.Output += t.Reported.Output
		s.CacheRead += t.Reported.CacheRead
		s.CacheWrite += t.Reported.CacheWrite
	}
	if len(r.Turns) == 0 && r.Continuation != "compaction" {
		s.Runs++
	}
	if r.StatusWord == "interrupted" {
		s.Interrupted++
	}
	for n := range r.Walk() {
		switch {
		case n.Kind() == session.KindToolCall:
			s.Tools = append(s.Tools, n.Call.Name)
		case n.Kind() == session.KindPermission && n.Permission.Action == "deny" && n.Permission.Derived:
			s.Denied++
		case n.Kind() == session.KindCompaction && n.Compaction.Kind == "prune":
			s.Prunes++
		case n.Kind() == session.KindCompaction:
			s.Compactions++
			if u := n.Compaction.Usage; u != nil {
				s.Compaction += u.Input + u.Output // input holds what was cached
			}
		}
	}
}

// families returns the families of files below testdata, or those that the caller wrote.
func families(t testing.TB, paths ...string) []transcript.Family {
	t.Helper()
	found, problems := transcript.Find(claudecode.Agent, paths...)
	if len(problems) > 0 || len(found) == 0 {
		t.Fatal(len(found), problems)
	}
	return found
}

// treeOf is what the spans of events come to.
func treeOf(t testing.TB, all ...events) []*session.Session {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	record(t, p, all...)
	return p.Sessions()
}

// record records events in a pipeline.
func record(t testing.TB, p *agenttest.Pipeline, all ...events) {
	t.Helper()
	if lost := play.Events(t, event.NewRecorder(p.Tracer()), all...); lost > 0 {
		t.Errorf("%d events lost", lost)
	}
}

// expected.json, whole: each file with its companions.
func TestExpected(t *testing.T) {
	text := must.Get(os.ReadFile("testdata/expected.json"))(t)
	var files map[string]struct {
		Session                                            string `json:"session_id"`
		Runs, Turns                                        int
		Tools                                              []string
		Input                                              int64 `json:"input_tokens"`
		Output                                             int64 `json:"output_tokens"`
		CacheRead                                          int64 `json:"cache_read"`
		CacheWrite                                         int64 `json:"cache_write"`
		Denied, Interrupted, Compactions, Microcompactions int
		Retries                                            int `json:"api_retries"`
		Images                                             int
		Subagents                                          []struct {
			ID, Kind     string
			Turns, Tools int
			Input        int64 `json:"input_tokens"`
			Output       int64 `json:"output_tokens"`
			CacheRead    int64 `json:"cache_read"`
			CacheWrite   int64 `json:"cache_write"`
		}
	}
	must.Do(t, json.Unmarshal(text, &files))
	for name, want := range files {
		t.Run(name, func(t *testing.T) {
			fs := families(t, "testdata/"+name)
			if len(fs) != 1 {
				t.Fatalf("%d families", len(fs))
			}
			tree := treeOf(t, fs[0].Events(claudecode.Agent.NewDecoder()))
			if len(tree) != 1 || tree[0].ID != want.Session {
				t.Fatalf("%d sessions, %s", len(tree), tree[0].ID)
			}
			var main sums
			agents := map[string]*sums{}
			for _, r := range tree[0].Runs {
				of := &main
				if len(r.Turns) > 0 && r.Turns[0].Trigger == "sub_agent" {
					of = &sums{}
					agents[r.ID] = of
				}
				of.add(r)
			}
			wanted := sums{want.Runs, want.Turns, want.Tools, want.Input, want.Output, want.CacheRead, want.CacheWrite, 0,
				want.Denied, want.Interrupted, want.Compactions, want.Microcompactions, 0}
			inLine := sums{}
			for _, a := range want.Subagents {
				got := agents[a.ID]
				switch {
				case a.Kind == "compaction":
					wanted.Compaction = a.Input + a.Output + a.CacheRead + a.CacheWrite
					continue
				case a.ID == "in-line":
					got = &inLine
					for _, s := range agents {
						inLine.Turns += s.Turns
						inLine.Tools = append(inLine.Tools, s.Tools...)
						inLine.Input, inLine.Output = inLine.Input+s.Input, inLine.Output+s.Output
						inLine.CacheRead, inLine.CacheWrite = inLine.CacheRead+s.CacheRead, inLine.CacheWrite+s.CacheWrite
					}
				case got == nil:
					t.Fatalf("no run %s", a.ID)
				}
				line := fmt.Sprint(got.Turns, len(got.Tools), got.Input, got.Output, got.CacheRead, got.CacheWrite)
				if want := fmt.Sprint(a.Turns, a.Tools, a.Input, a.Output, a.CacheRead, a.CacheWrite); line != want {
					t.Errorf("sub-agent %s: %s, want %s", a.ID, line, want)
				}
			}
			if diff := cmp.Diff(wanted, main); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
