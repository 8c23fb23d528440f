package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// TestOddity runs the agent as it is, which deletes a folder against the rule of the user because the rule is in none
// of its later requests, and the agent that keeps the rule. The session of the first is the golden file of TestRun.
func TestOddity(t *testing.T) {
	for keep, want := range map[bool]struct {
		answer    string
		left      []string
		deletions map[string]bool // what was deleted, and whether the request had the rule
	}{
		false: {"12 of 12 tests failed", []string{"src"}, map[string]bool{"build": true, "logs": false, "migrations": false,
			"tmp": false}},
		true: {"12 tests passed", []string{"migrations", "src"}, map[string]bool{"build": true, "logs": true, "tmp": true}},
	} {
		dir, err := project()
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
		a := &agent{tracer: p.Tracer(), root: root, keep: keep, most: 8}
		answer, err := a.run(t.Context(), task)
		if err != nil || !strings.Contains(answer, want.answer) {
			t.Errorf("keep %v: %q, %v", keep, answer, err)
		}
		left, err := readDir(root, ".")
		if diff := cmp.Diff(want.left, left); diff != "" || err != nil {
			t.Errorf("keep %v: left (-want +got), %v:\n%s", keep, err, diff)
		}
		blocks := &session.BlockSet{}
		for _, b := range p.Batch().Blocks {
			blocks.Add(b)
		}
		if diff := cmp.Diff(want.deletions, deletions(t, p.Session(), blocks)); diff != "" {
			t.Errorf("keep %v: deletions (-want +got):\n%s", keep, diff)
		}
	}
}

// deletions returns the deleted folders, and whether the rule of the user was in the request of the turn.
func deletions(t *testing.T, s *session.Session, blocks *session.BlockSet) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, turn := range s.Runs[0].Turns {
		for _, c := range turn.ToolCalls {
			if c.Name != "delete_folder" || c.Outcome != spans.OutcomeOK {
				continue
			}
			args, ok := blocks.Body(c.Args.Items()[0])
			payload := turn.Requests[0].Payload(blocks)
			if !ok || !payload.Exact {
				t.Fatalf("turn %d: args %v, request exact %v", turn.Index, ok, payload.Exact)
			}
			folder := strings.TrimSuffix(strings.TrimPrefix(args, `{"folder":"`), `"}`)
			out[folder] = strings.Contains(string(payload.Bytes), "Never touch migrations")
		}
	}
	return out
}
