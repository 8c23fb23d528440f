package pi_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/pi"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// read returns the sessions that a file or folder holds, by id.
func read(t *testing.T, path string) map[string]*session.Session {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
	rec := event.NewRecorder(p.Tracer())
	families, problems := transcript.Find(pi.Layout, path)
	if problems != nil {
		t.Fatal(problems)
	}
	for _, f := range families {
		for ev, err := range f.Events(pi.NewDecoder()) {
			if err == nil {
				rec.Record(t.Context(), ev)
			}
		}
	}
	rec.Close(t.Context())
	found := map[string]*session.Session{}
	for _, s := range session.AssembleAll(p.Batch().Rows) {
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
	text, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var samples map[string]counts
	if err := json.Unmarshal(text, &samples); err != nil {
		t.Fatal(err)
	}
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
