package adapter_test

import (
	"context"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/otelagent"
)

// The handles are in the contexts that they start.
func TestHandlesFromContext(t *testing.T) {
	check := func(name string, ctx context.Context, run *otelagent.Run, turn *otelagent.Turn, tool *otelagent.Tool) {
		t.Helper()
		if otelagent.RunFromContext(ctx) != run || otelagent.TurnFromContext(ctx) != turn ||
			otelagent.ToolCallFromContext(ctx) != tool {
			t.Errorf("%s: other handles", name)
		}
	}
	p := agenttest.New(t)
	check("outside", t.Context(), nil, nil, nil)
	runCtx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: "r"})
	check("run", runCtx, run, nil, nil)
	turnCtx, turn := run.StartTurn(runCtx, otelagent.TurnInfo{})
	check("turn", turnCtx, run, turn, nil)
	toolCtx, tool := turn.StartTool(turnCtx, otelagent.ToolCall{ID: "c"})
	check("tool call", toolCtx, run, turn, tool)
	looseCtx, loose := turn.StartTool(runCtx, otelagent.ToolCall{ID: "c2"})
	check("tool call of a turn in a context of its run", looseCtx, run, turn, loose)
	childCtx, child := p.Tracer().StartRun(toolCtx, otelagent.RunInfo{})
	check("sub-agent", childCtx, child, nil, nil)
	if run.SessionID() != "s" || run.ID() != "r" || child.SessionID() != "s" || child.ID() == "" {
		t.Errorf("session %q, run %q, sub-agent %q in %q", run.SessionID(), run.ID(), child.ID(), child.SessionID())
	}
}

// Nil handles do nothing.
func TestNilHandles(t *testing.T) {
	var tracer *otelagent.Tracer
	ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{})
	if run.SessionID() != "" || run.ID() != "" {
		t.Error("a nil run has ids")
	}
	ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	ctx, call := turn.StartTool(ctx, otelagent.ToolCall{})
	_, compaction := run.StartCompaction(ctx, otelagent.CompactionInfo{})
	turn.StartPermission(ctx, "bash", "c").End(otelagent.Decision{Err: context.Canceled})
	turn.Request(otelagent.Request{})
	turn.Partial("text", []byte("x"))
	turn.Reply(otelagent.TurnResult{})
	turn.Discard(0, otelagent.TurnResult{})
	turn.AddMessage(otelagent.Message{})
	turn.AskUser()()
	call.Progress("x", nil)
	call.End(otelagent.ToolResult{})
	compaction.End(otelagent.CompactionResult{})
	turn.End(otelagent.TurnResult{})
	run.AddMessage(otelagent.Message{})
	run.End(otelagent.RunResult{})
}
