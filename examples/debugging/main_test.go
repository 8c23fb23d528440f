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

// played returns the session of a run, what the agent answered, and the folders that are left.
func played(t *testing.T, keep bool) (s *session.Session, blocks *session.BlockSet, answer string, left []string) {
	t.Helper()
	dir, err := project()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	a := &agent{tracer: p.Tracer(), root: root, keep: keep, most: 8}
	if answer, err = a.run(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if left, err = readDir(root, "."); err != nil {
		t.Fatal(err)
	}
	blocks = &session.BlockSet{}
	for _, b := range p.Batch().Blocks {
		blocks.Add(b)
	}
	return p.Session(), blocks, answer, left
}

// deletions returns the turns that deleted something, by what, and whether the user's words were in their requests.
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
			out[args] = strings.Contains(string(payload.Bytes), "Never touch migrations")
		}
	}
	return out
}

func TestOddity(t *testing.T) {
	s, blocks, answer, left := played(t, false)
	if diff := cmp.Diff([]string{"src"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if !strings.Contains(answer, "12 of 12 tests failed") {
		t.Errorf("answer %q", answer)
	}
	// The request of the turn that did it shows why: what the user said is not in it.
	got := deletions(t, s, blocks)
	if known, deleted := got[`{"folder":"migrations"}`]; !deleted || known {
		t.Errorf("deletions, and whether the rule was known: %v", got)
	}
	if known := got[`{"folder":"build"}`]; !known {
		t.Errorf("the first deletion did not know the rule: %v", got)
	}
}

func TestMended(t *testing.T) {
	s, blocks, answer, left := played(t, true)
	if diff := cmp.Diff([]string{"migrations", "src"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if !strings.Contains(answer, "12 tests passed") {
		t.Errorf("answer %q", answer)
	}
	if _, deleted := deletions(t, s, blocks)[`{"folder":"migrations"}`]; deleted {
		t.Error("migrations were deleted")
	}
}
