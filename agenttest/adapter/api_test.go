package adapter_test

import (
	"context"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// The zero TurnInfo is the next turn, and a number that is given moves the next one on.
func TestZeroTurnInfoIsTheNextTurn(t *testing.T) {
	p := agenttest.New(t)
	ctx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	for _, info := range []otelagent.TurnInfo{{}, {}, {Index: new(int64(5))}, {}, {Index: new(int64(-1))}} {
		_, turn := run.StartTurn(ctx, info)
		turn.End(otelagent.TurnResult{})
	}
	run.End(otelagent.RunResult{})
	want := []int64{0, 1, 5, 6, 7}
	turns := p.Session().Runs[0].Turns
	if len(turns) != len(want) {
		t.Fatalf("%d turns", len(turns))
	}
	for i, turn := range turns {
		if turn.Index != want[i] {
			t.Errorf("turn %d has number %d, want %d", i, turn.Index, want[i])
		}
	}
}

// Counts that a compaction omits are unknown, and a zero is a zero.
func TestUnsetCountsOfCompactionsAreUnknown(t *testing.T) {
	p := agenttest.New(t)
	ctx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	_, c := run.StartCompaction(ctx, otelagent.Compaction{})
	c.End(otelagent.CompactionResult{MessagesAfter: new(int64(0))})
	run.End(otelagent.RunResult{})
	got := p.Session().Runs[0].Compactions[0]
	if got.MessagesAfter == nil || *got.MessagesAfter != 0 {
		t.Errorf("messages after: %v, want 0", got.MessagesAfter)
	}
	if got.MessagesBefore != nil || got.MessagesSummarized != nil || got.InputTokens != nil || got.OutputTokens != nil || got.RemovedTokens != nil || got.Runs != nil {
		t.Errorf("counts that nobody reported: %+v", got)
	}
}

// What Reply reported stays when End reports nothing, and what End reports replaces it.
func TestReplyStaysAtTheEnd(t *testing.T) {
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	ctx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	reply := otelagent.TurnResult{Model: "m", StopReason: "tool_use", Usage: &otelagent.Usage{Input: 7, Output: 3},
		Output: &otelagent.Message{Role: "assistant", Raw: []byte(`{"role":"assistant","content":"hello"}`)}}
	for _, end := range []otelagent.TurnResult{{}, {StopReason: "end_turn", Usage: &otelagent.Usage{Input: 8}}} {
		_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
		turn.Reply(reply)
		turn.End(end)
	}
	run.End(otelagent.RunResult{})
	turns := p.Session().Runs[0].Turns
	for i, want := range []struct {
		stop          string
		input, output int64
	}{{"tool_use", 7, 3}, {"end_turn", 8, 0}} {
		turn := turns[i]
		if turn.StopReason != want.stop || turn.Usage.Input != want.input || turn.Usage.Output != want.output || turn.Answered != "m" {
			t.Errorf("turn %d: %+v", i, turn)
		}
		id, err := spans.ParseShortID(turn.Output.Items()[0].Block)
		if body, ok := p.Block("s", id); err != nil || !ok || body != string(reply.Output.Raw) {
			t.Errorf("turn %d: output %q, %v", i, body, err)
		}
	}
}

// The handles are in the contexts that they start.
func TestHandlesFromContext(t *testing.T) {
	check := func(name string, ctx context.Context, run *otelagent.Run, turn *otelagent.Turn, tool *otelagent.Tool) {
		t.Helper()
		if otelagent.RunFromContext(ctx) != run || otelagent.TurnFromContext(ctx) != turn || otelagent.ToolCallFromContext(ctx) != tool {
			t.Errorf("%s: other handles", name)
		}
	}
	p := agenttest.New(t)
	check("outside", t.Context(), nil, nil, nil)
	runCtx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: "r"})
	if run.SessionID() != "s" || run.ID() != "r" {
		t.Errorf("session %q, run %q", run.SessionID(), run.ID())
	}
	check("run", runCtx, run, nil, nil)
	turnCtx, turn := run.StartTurn(runCtx, otelagent.TurnInfo{})
	check("turn", turnCtx, run, turn, nil)
	toolCtx, tool := turn.StartTool(turnCtx, otelagent.ToolCall{ID: "c"})
	check("tool call", toolCtx, run, turn, tool)
	childCtx, child := p.Tracer().StartRun(toolCtx, otelagent.RunInfo{})
	check("sub-agent", childCtx, child, nil, nil)
	if child.SessionID() != "s" || child.ID() == "" {
		t.Errorf("session %q, run %q of the sub-agent", child.SessionID(), child.ID())
	}
	var none *otelagent.Run
	if none.SessionID() != "" || none.ID() != "" {
		t.Error("a nil run has ids")
	}
}
