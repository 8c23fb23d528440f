package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// played runs the agent against an endpoint and returns its session.
func played(t *testing.T, endpoint http.Handler, rules []rule) (s *session.Session, blocks *session.BlockSet,
	answer string, err error) {
	t.Helper()
	dir, err := sampleFolder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	server := httptest.NewServer(endpoint)
	t.Cleanup(server.Close)
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	a := &agent{role: keeper, tracer: p.Tracer(), client: client{endpoint: server.URL + "/v1"}, model: "scripted-1",
		root: root, rules: rules, most: 8}
	answer, err = a.run(t.Context(), "Which of my notes need work?")
	blocks = &session.BlockSet{}
	for _, b := range p.Batch().Blocks {
		blocks.Add(b)
	}
	return p.Session(), blocks, answer, err
}

// TestLoop checks the session beyond the golden file of TestRun: requests, rules, provenance.
func TestLoop(t *testing.T) {
	var sent [][]byte
	play := scripted()
	s, blocks, answer, err := played(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent = append(sent, body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		play.ServeHTTP(w, r)
	}), defaultRules)
	if err != nil || !strings.Contains(answer, "spring.md") {
		t.Fatalf("%q, %v", answer, err)
	}
	run := s.Runs[0]
	if run.Status != spans.RunStatusCompleted || len(run.Defects) > 0 || len(s.Defects) > 0 {
		t.Errorf("status %s, defects %v %v", run.Status, run.Defects, s.Defects)
	}
	if rules, ok := blocks.Body(run.Rules.Items()[0]); !ok || !strings.Contains(rules, `"permission":"write_file"`) {
		t.Errorf("rules %q", rules)
	}
	for _, turn := range run.Turns {
		for _, c := range turn.Compactions {
			if *c.MessagesBefore <= *c.MessagesAfter || c.Summary == nil {
				t.Errorf("compaction %d to %d, summary %v", *c.MessagesBefore, *c.MessagesAfter, c.Summary)
			}
		}
	}
	// The sub-agent is a run of the same session, under the call that asked for it.
	if len(s.Runs) != 2 {
		t.Fatalf("%d runs, want the keeper's and the reviewer's", len(s.Runs))
	}
	if sub := s.Runs[1]; sub.Agent != "reviewer" || sub.ParentID != run.ID || sub.ParentToolCallID != "call_5" ||
		len(sub.Turns) != len(reviewerScript) {
		t.Errorf("sub-agent %s under run %s and call %s, %d turns", sub.Agent, sub.ParentID, sub.ParentToolCallID,
			len(sub.Turns))
	}
	// The store has each request byte for byte, with the provenance of each message.
	turns := slices.Concat(run.Turns, s.Runs[1].Turns)
	slices.SortFunc(turns, func(a, b *session.Turn) int { return a.Start.Compare(b.Start) })
	if len(turns) != len(sent) || len(run.Turns) != len(script) {
		t.Fatalf("%d turns, %d requests, %d in the script", len(turns), len(sent), len(script))
	}
	for i, turn := range turns {
		payload := turn.Requests[0].Payload(blocks)
		if !payload.Exact || string(payload.Bytes) != string(sent[i]) {
			t.Errorf("turn %d: exact %v\n%s\nsent\n%s", i, payload.Exact, payload.Bytes, sent[i])
		}
	}
	var from []string
	for _, ref := range run.Turns[3].Requests[0].Messages.Items() {
		from = append(from, ref.Provenance)
	}
	if diff := cmp.Diff([]string{"", "mt:summary:3", "t:1:a:0"}, from[:3]); diff != "" {
		t.Errorf("provenance after the compaction (-want +got):\n%s\n%v", diff, from)
	}
	// Tokens: input includes what was read from cache.
	if u := run.Turns[1].Usage; u.CacheRead == 0 || u.Input <= u.CacheRead ||
		run.Turns[1].Rule != spans.UsageRuleIncludesCache {
		t.Errorf("usage %+v by %s", u, run.Turns[1].Rule)
	}
}

func TestLoopWithoutRules(t *testing.T) {
	s, _, _, err := played(t, scripted(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range s.Runs[0].Turns {
		for _, c := range turn.ToolCalls {
			if c.Outcome != spans.OutcomeDenied {
				t.Errorf("%s: %s", c.Name, c.Outcome)
			}
		}
	}
}

func TestDecide(t *testing.T) {
	rules := []rule{
		{"read_file", "*", spans.ActionAllow, spans.PermissionSourceManifest},
		{"read_file", "a*", spans.ActionDeny, spans.PermissionSourceProject},
		{"read_file", "a*", spans.ActionAllow, spans.PermissionSourceSession},
		{"read_file", "a[", spans.ActionAllow, spans.PermissionSourceSession}, // no pattern
	}
	for target, want := range map[string]spans.Action{"b": spans.ActionAllow, "ab": spans.ActionDeny,
		"x/y": spans.ActionDeny} {
		if got := decide(rules, "read_file", target); got.Action != want {
			t.Errorf("%s: %s by %+v, want %s", target, got.Action, got, want)
		}
	}
	if got := decide(rules, "bash", "b"); got.Action != spans.ActionDeny || got.found {
		t.Errorf("%+v", got)
	}
}

// TestWork runs the program without a receiver: it works, and reports that the spans were not delivered.
func TestWork(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
	err := work(context.Background(), "", "scripted-1", "", "Which of my notes need work?")
	if err == nil || !strings.Contains(err.Error(), "otelagent up") {
		t.Errorf("%v", err)
	}
}
