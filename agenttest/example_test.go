package agenttest_test

import (
	"context"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// A test of an instrumented loop looks at the tree that a store would hold.
func TestTreeOfALoop(t *testing.T) {
	p := agenttest.New(t)

	ctx, run := p.Tracer().StartRun(context.Background(), otelagent.RunInfo{SessionID: "s1", ID: "r1", Agent: "coder"})
	ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: spans.TriggerUser})
	_, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c1", Name: "bash"})
	call.End(otelagent.ToolResult{Outcome: spans.OutcomeError})
	turn.End(otelagent.TurnResult{StopReason: "stop", Usage: &otelagent.Usage{Input: 10, Output: 2, Total: 12}})
	run.End(otelagent.RunResult{})

	s := p.Session()
	if len(s.Runs) != 1 || len(s.Runs[0].Turns) != 1 || len(s.Runs[0].Turns[0].ToolCalls) != 1 {
		t.Fatalf("the tree has another shape: %+v", s)
	}
	if got := s.Runs[0].Status; got != spans.RunStatusCompleted {
		t.Errorf("status %q, want completed", got)
	}
	if got := s.Runs[0].Turns[0].ToolCalls[0].Outcome; got != spans.OutcomeError {
		t.Errorf("outcome %q, want error", got)
	}
	if len(s.Defects) != 0 {
		t.Errorf("defects: %+v", s.Defects)
	}
}
