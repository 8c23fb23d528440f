package pi_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/pi"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// rows returns the rows of what a file or folder holds.
func rows(t *testing.T, path string) []session.Row {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
	families, problems := transcript.Find(pi.Agent, path)
	if problems != nil {
		t.Fatal(problems)
	}
	var all []iter.Seq2[event.Event, error]
	for _, f := range families {
		all = append(all, f.Events(pi.Agent.NewDecoder()))
	}
	play.Lines(t, event.NewRecorder(p.Tracer()), all...)
	return p.Batch().Rows
}

// read returns the sessions that a file or folder holds, by id.
func read(t *testing.T, path string) map[string]*session.Session {
	t.Helper()
	found := map[string]*session.Session{}
	for _, s := range session.AssembleAll(rows(t, path)) {
		found[s.ID] = s
	}
	return found
}

// counts are the fields of testdata/expected.json.
type counts struct {
	Session           string   `json:"session_id"`
	Runs              int      `json:"runs"`
	Turns             int      `json:"turns"`
	Tools             []string `json:"tools"`
	Input             int64    `json:"input_tokens"`
	Output            int64    `json:"output_tokens"`
	Read              int64    `json:"cache_read"`
	Write             int64    `json:"cache_write"`
	Cost              float64  `json:"cost"`
	Errors            int      `json:"errors"`
	Aborted           int      `json:"aborted"`
	Compactions       int      `json:"compactions"`
	Branches          int      `json:"branches"`
	IncludesCache     bool     `json:"input_includes_cache"`
	IncludesReasoning bool     `json:"output_includes_reasoning"`
	Subagents         []string `json:"subagents"`
	Denied            int      `json:"denied"`
}

func countsOf(s *session.Session) counts {
	c := counts{Session: s.ID, Runs: len(s.Runs), Tools: []string{}, Subagents: []string{}, IncludesReasoning: true}
	for n := range s.Walk() {
		switch {
		case n.Compaction != nil:
			c.Compactions++
		case n.Permission != nil && n.Permission.Action == spans.ActionDeny:
			c.Denied++
		}
	}
	for _, r := range s.Runs {
		if r.Status == spans.RunStatusCancelled {
			c.Aborted++
		}
		if r.Continuation == spans.ContinuationBranch {
			c.Branches++
		}
		for call := range r.Calls() {
			c.Tools = append(c.Tools, call.Name)
		}
		for _, turn := range r.Turns {
			c.Turns++
			if turn.Failed {
				c.Errors++
			}
			if u := turn.Reported; u != nil {
				c.Input, c.Output, c.Read, c.Write = c.Input+u.Input, c.Output+u.Output, c.Read+u.CacheRead, c.Write+u.CacheWrite
			}
			if turn.Cost != nil {
				c.Cost += *turn.Cost
			}
			c.IncludesCache = c.IncludesCache || turn.Rule != spans.UsageRuleExcludesCache
		}
	}
	return c
}

// TestExpected compares every sample with the counts that an independent script found in it.
func TestExpected(t *testing.T) {
	text := must.Get(os.ReadFile("testdata/expected.json"))(t)
	var samples map[string]counts
	must.Do(t, json.Unmarshal(text, &samples))
	for file, want := range samples {
		s := read(t, "testdata/"+file)[want.Session]
		if s == nil {
			t.Fatalf("%s: no session", file)
		}
		if diff := cmp.Diff(want, countsOf(s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	if len(samples) != 2 {
		t.Errorf("%d samples", len(samples))
	}
}

// TestMade reads sessions that were made by hand: a refused and a skipped call, a prompt that steers, an aborted reply,
// a branch, a session that copied its beginning, and one of version 1.
func TestMade(t *testing.T) {
	found := read(t, "testdata/made")
	var got []string
	for _, id := range []string{"parent", "child", "v1"} {
		for _, r := range found[id].Runs {
			line := fmt.Sprintf("%s/%s %s %s", id, r.ID, r.Status, r.Continuation)
			for _, turn := range r.Turns {
				line += fmt.Sprintf(" [%s %s %d", turn.Trigger, turn.StopReason, turn.Usage.Input)
				if (turn.StopReason == "aborted") != (turn.Reported == nil) { // zero is no usage
					t.Errorf("%s: %+v", line, turn.Reported)
				}
				for _, c := range turn.ToolCalls {
					line += " " + string(c.Outcome)
				}
				line += "]"
			}
			if r.Copied {
				line += " copied from " + r.ForkParentID
			}
			got = append(got, line)
		}
		got = append(got, fmt.Sprintf("%s: %d tokens, %d facts", id, found[id].Usage.Input, len(found[id].Facts)))
	}
	want := []string{
		"parent/u1 completed initial [user toolUse 16 denied skipped] [continuation stop 20]",
		"parent/u3 cancelled default [user aborted 0]",
		"parent/u4 completed branch [user stop 30]",
		"parent: 66 tokens, 3 facts",
		"child/u1 completed initial [user toolUse 16  ] copied from parent",
		"child/a9 completed default [ stop 40]",
		"child: 40 tokens, 1 facts",
		"v1/run-2 completed initial [user stop 1]",
		"v1/run-5 aborted default",
		"v1: 1 tokens, 1 facts",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestForkOfVersion1 reads a session whose entries have no ids, and a fork of it: what that copied counts once, and its
// own runs count, wherever they stand in the file.
func TestForkOfVersion1(t *testing.T) {
	at := func(n int) string { return fmt.Sprintf("2024-12-03T14:00:%02d.000Z", n) }
	user := func(n int) string {
		return `{"type":"message","timestamp":"` + at(n) + `","message":{"role":"user","content":"Hello"}}` + "\n"
	}
	reply := func(n int) string {
		return `{"type":"message","timestamp":"` + at(n) + `","message":{"role":"assistant","content":[],` +
			`"usage":{"input":` + strconv.Itoa(n) + `,"output":1},"stopReason":"stop"}}` + "\n"
	}
	head := func(id, more string, n int) string {
		return `{"type":"session","id":"` + id + `","timestamp":"` + at(n) + `","cwd":"/w"` + more + "}\n"
	}
	level := `{"type":"thinking_level_change","timestamp":"` + at(0) + `","thinkingLevel":"off"}` + "\n"
	folder := t.TempDir()
	for name, text := range map[string]string{
		"1_parent.jsonl": head("parent", "", 0) + user(1) + reply(2) + user(3) + reply(4),
		"2_same.jsonl": head("same", `,"branchedFrom":"/w/1_parent.jsonl"`, 10) + user(1) + reply(2) + user(11) +
			reply(12),
		"3_moved.jsonl": head("moved", `,"branchedFrom":"/w/1_parent.jsonl"`, 20) + level + user(1) + reply(2) +
			user(21) + reply(22),
	} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	found := read(t, folder)
	for id, want := range map[string]int64{"parent": 6, "same": 12, "moved": 22} {
		if s := found[id]; s.Usage.Input != want || len(s.Runs) != 2 || len(s.Defects) > 0 {
			t.Errorf("%s: %d tokens in %d runs, want %d; %v", id, s.Usage.Input, len(s.Runs), want, s.Defects)
		}
	}
}

// TestCompactedAtEnd reads a session that ends with a compaction after a final reply: its last run has completed.
func TestCompactedAtEnd(t *testing.T) {
	for _, s := range read(t, "testdata/agent-sessions/small.jsonl") {
		if last := s.Runs[len(s.Runs)-1]; last.Status != spans.RunStatusCompleted || len(last.Compactions) != 1 {
			t.Errorf("%s: status %s, %d compactions", last.ID, last.Status, len(last.Compactions))
		}
	}
}
