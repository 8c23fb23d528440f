package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// The zero TurnInfo is the next turn, and a number that an event gives moves the next one on.
func TestZeroTurnInfoIsTheNextTurn(t *testing.T) {
	p := agenttest.New(t)
	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
	for _, info := range []writer.TurnInfo{{}, {}, {Index: new(int64(5))}, {}, {Index: new(int64(-1))}} {
		_, turn := run.StartTurn(ctx, info)
		turn.End(writer.TurnResult{})
	}
	run.End(writer.RunResult{})
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
	_, c := run.StartCompaction(ctx, otelagent.CompactionInfo{})
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
		if otelagent.RunFromContext(ctx) != run || otelagent.TurnFromContext(ctx) != turn ||
			otelagent.ToolCallFromContext(ctx) != tool {
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

// Every handle reports a failure the same way: by the Err of its result. An error that wraps context.Canceled is a
// cancellation.
func TestFailures(t *testing.T) {
	failure := errors.New("no connection to the provider")
	for _, tt := range []struct {
		err     error
		run     spans.RunStatus
		outcome spans.Outcome
		cancel  bool
	}{
		{nil, spans.RunStatusCompleted, spans.OutcomeOK, false},
		{failure, spans.RunStatusError, spans.OutcomeError, false},
		{fmt.Errorf("stopped: %w", context.Canceled), spans.RunStatusCancelled, spans.OutcomeCancelled, true},
	} {
		t.Run(fmt.Sprint(tt.err), func(t *testing.T) {
			p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
			ctx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
			turnCtx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
			_, compaction := run.StartCompaction(turnCtx, otelagent.CompactionInfo{})
			compaction.End(otelagent.CompactionResult{Err: tt.err})
			callCtx, call := turn.StartTool(turnCtx, otelagent.ToolCall{ID: "c", Name: "bash"})
			turn.StartPermission(callCtx, "bash", "c").End(otelagent.Decision{Err: tt.err})
			call.End(otelagent.ToolResult{Err: tt.err})
			turn.End(otelagent.TurnResult{Err: tt.err})
			run.End(otelagent.RunResult{Err: tt.err})

			text := ""
			if tt.err != nil {
				text = tt.err.Error()
			}
			r := p.Session().Runs[0]
			if r.Status != tt.run || r.Error != text {
				t.Errorf("run: %s %q", r.Status, r.Error)
			}
			tn := r.Turns[0]
			if tn.Failed != (tt.err != nil) || tn.Error != text || (tn.ErrorType == spans.ErrorTypeCancelled) != tt.cancel {
				t.Errorf("turn: failed %v, %q %q", tn.Failed, tn.ErrorType, tn.Error)
			}
			if c := tn.ToolCalls[0]; c.Outcome != tt.outcome || c.Error != text {
				t.Errorf("tool call: %s %q", c.Outcome, c.Error)
			}
			if c := tn.Compactions[0]; (c.Applied != nil && !*c.Applied) != (tt.err != nil) || c.Reason != text {
				t.Errorf("compaction: applied %v, %q", c.Applied, c.Reason)
			}
			if e := tn.ToolCalls[0].Permissions[0]; (e.Action == spans.ActionDeny) != (tt.err != nil) || e.Reason != text {
				t.Errorf("permission: %s %q", e.Action, e.Reason)
			}
		})
	}
}

// A rejected run says why its input was refused.
func TestRejectedRun(t *testing.T) {
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	_, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	run.End(otelagent.RunResult{Status: spans.RunStatusRejected, Err: errors.New("no questions about the weather")})
	if r := p.Session().Runs[0]; r.Status != spans.RunStatusRejected || !r.Rejected || r.Rejection != "no questions about the weather" {
		t.Errorf("%s, rejected %v: %q", r.Status, r.Rejected, r.Rejection)
	}
}

// One run of a tracer can be in a trace of its own while others are children of their callers.
func TestNewRootOfOneRun(t *testing.T) {
	p := agenttest.New(t)
	ctx, caller := p.Provider().Tracer("test").Start(t.Context(), "caller")
	for _, root := range []bool{false, true} {
		ctx, run := p.Tracer().StartRun(ctx, otelagent.RunInfo{SessionID: "s", NewRoot: root})
		sc := trace.SpanContextFromContext(ctx)
		if own := sc.TraceID() != caller.SpanContext().TraceID(); own != root {
			t.Errorf("NewRoot %v: in a trace of its own %v", root, own)
		}
		run.End(otelagent.RunResult{})
	}
	caller.End()
}

// An attempt that failed and was made again keeps its error in the turn, which succeeds.
func TestErrorOfARetriedAttempt(t *testing.T) {
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	ctx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	turn.Request(otelagent.Request{Payload: []byte(`{"messages":[]}`)})
	turn.Discard(0, otelagent.TurnResult{Err: errors.New("529 overloaded"), Usage: &otelagent.Usage{Input: 3}})
	turn.Request(otelagent.Request{Attempt: 1, Payload: []byte(`{"messages":[]}`)})
	turn.End(otelagent.TurnResult{StopReason: "stop"})
	run.End(otelagent.RunResult{})
	tn := p.Session().Runs[0].Turns[0]
	if tn.Failed || tn.DiscardedAttempts != 1 || len(tn.Events) != 1 {
		t.Fatalf("failed %v, %d attempts discarded, %d events", tn.Failed, tn.DiscardedAttempts, len(tn.Events))
	}
	id, err := spans.ParseShortID(tn.Events[0].Body.Block)
	if body, ok := p.Block("s", id); err != nil || !ok || !strings.Contains(body, `"error":"529 overloaded"`) {
		t.Errorf("the note is %q, %v", body, err)
	}
}

// Nil handles do nothing, and only the first End counts.
func TestNilHandles(t *testing.T) {
	var tracer *otelagent.Tracer
	ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{})
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

	p := agenttest.New(t)
	_, run = p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	run.End(otelagent.RunResult{})
	run.End(otelagent.RunResult{Err: context.Canceled})
	if s := p.Session().Runs[0].Status; s != spans.RunStatusCompleted {
		t.Errorf("status %s after two ends", s)
	}
}

// Of the messages that a turn gets, those that name a tool call are its results, the others its input.
func TestMessagesOfATurn(t *testing.T) {
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	ctx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	turn.AddMessage(otelagent.Message{Role: "user", Raw: []byte(`{"role":"user","content":"x"}`)})
	for _, id := range []string{"c1", "c2"} {
		turn.AddMessage(otelagent.Message{Role: "tool", ToolCallID: id, Raw: []byte(`{"role":"tool","content":"` + id + `"}`)})
	}
	turn.End(otelagent.TurnResult{})
	run.End(otelagent.RunResult{})
	tn := p.Session().Runs[0].Turns[0]
	if in, res := len(tn.Input.Items()), len(tn.Results.Items()); in != 1 || res != 2 {
		t.Errorf("%d messages of input and %d results, want 1 and 2", in, res)
	}
}

// A parsed request has the roles, the answered calls and the parameters; a caller adds provenance and records it.
func TestParseRequest(t *testing.T) {
	body := `{"model":"m","system":"Be brief.","max_tokens":9,"tools":[{"name":"bash"}],"thinking":{"budget_tokens":1},` +
		`"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"bash",` +
		`"input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"y"}]}]}`
	req, err := otelagent.ParseRequest([]byte(body))
	if err != nil || len(req.Messages) != 3 || req.Messages[2].ToolCallID != "c1" {
		t.Fatalf("%v, %+v", err, req)
	}
	if p := req.Parameters; p.Model != "m" || *p.MaxTokens != 9 || string(p.System) != `"Be brief."` ||
		string(p.Tools) != `[{"name":"bash"}]` {
		t.Errorf("parameters %+v", p)
	}
	req.Messages[0].Provenance = spans.Provenance{Kind: spans.ProvenanceSteering}
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	ctx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	turn.Request(req)
	turn.End(otelagent.TurnResult{})
	run.End(otelagent.RunResult{})
	if got := p.Session().Runs[0].Turns[0].Requests[0]; got.Messages.Count != 3 {
		t.Errorf("%+v", got)
	}
	if _, err := otelagent.ParseRequest([]byte("[]")); err == nil {
		t.Error("no error for a list")
	}
}
