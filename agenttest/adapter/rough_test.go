package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	api "go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// A run takes messages and notes while one of its turns records a request with the results of tools.
func TestRunAndRequestDoNotWaitForEachOther(t *testing.T) {
	run, _ := start(t)
	var wg sync.WaitGroup
	done := make(chan struct{})
	for i := range 2 {
		wg.Go(func() {
			for j := range 1000 {
				_, turn := run.StartTurn(t.Context(), writer.TurnInfo{})
				turn.Request(writer.Request{Payload: fmt.Appendf(nil,
					`{"messages":[{"role":"tool","tool_call_id":"c%d","content":"%d"}]}`, j, i)})
				turn.End(writer.TurnResult{})
			}
		})
		wg.Go(func() {
			for i := range 3000 {
				run.AddMessage(writer.Message{Raw: fmt.Appendf(nil, `{"n":%d}`, i)})
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the calls wait for each other")
	}
}

// A deferred second End does not change how the run fails.
func TestSecondEndKeepsTheCause(t *testing.T) {
	all := traced(t, nil, public(func(ctx context.Context, tracer *otelagent.Tracer) {
		ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{})
		_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
		turn.End(otelagent.TurnResult{Err: errors.New("overloaded")})
		turn.End(otelagent.TurnResult{})
		run.End(otelagent.RunResult{Err: errors.New("overloaded")})
	}))
	for _, s := range all {
		if got := strOf(s, spans.ErrorTypeKeyKey); got != string(spans.ErrorTypeProvider) {
			t.Errorf("%s: error.type %q, want that of the turn", s.Name, got)
		}
	}
}

// badError is an error whose methods panic, as those of a nil pointer do.
type badError struct{ text string }

func (e *badError) Error() string { return e.text }

func (e *badError) Is(error) bool { return e.text == "" }

// A panic of an error that the host passes stays in the adapter.
func TestErrorsThatPanic(t *testing.T) {
	var err *badError
	all := traced(t, []otelagent.Option{capturing}, public(func(ctx context.Context, tracer *otelagent.Tracer) {
		ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{})
		tctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
		_, tool := turn.StartTool(tctx, otelagent.ToolCall{})
		turn.StartPermission(tctx, "bash", "").End(otelagent.Decision{Err: err})
		tool.End(otelagent.ToolResult{Err: err})
		_, compaction := run.StartCompaction(tctx, otelagent.CompactionInfo{})
		compaction.End(otelagent.CompactionResult{Err: err})
		turn.Reply(otelagent.TurnResult{Err: err})
		turn.Discard(0, otelagent.TurnResult{Err: err})
		turn.End(otelagent.TurnResult{Err: err})
		run.End(otelagent.RunResult{Err: err})
	}))
	if len(all) != 5 {
		t.Errorf("%d spans, want 5", len(all))
	}
}

// A cost that is no number is not added up.
func TestCostThatIsNoNumber(t *testing.T) {
	got := measure(t, func(tracer *writer.Tracer) {
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{})
		for _, cost := range []float64{1, math.NaN(), math.Inf(1), math.Inf(-1)} {
			_, turn := run.StartTurn(ctx, writer.TurnInfo{})
			turn.End(writer.TurnResult{Cost: &cost, Currency: "USD"})
		}
	})
	sum, _ := got[spans.MetricTurnCost].(metricdata.Sum[float64])
	if len(sum.DataPoints) != 1 || sum.DataPoints[0].Value != 1 {
		t.Errorf("%+v, want 1", sum.DataPoints)
	}
}

// The ids of facts follow from their values as they may be sent.
func TestIDsOfFactsAreRedacted(t *testing.T) {
	word := otelagent.WithRedactor(redactorFunc(func(p spans.Redactable) ([]byte, int) {
		return []byte(strings.NewReplacer("SECRET", "*", "PRIVATE", "*").Replace(string(p.Body))), 1
	}))
	ids := map[string]bool{}
	for _, value := range []string{`"SECRET"`, `"PRIVATE"`} {
		all := traced(t, []otelagent.Option{capturing, writer.WithDerivedIDs, word}, func(
			ctx context.Context, tracer *writer.Tracer, _ api.Tracer,
		) {
			tracer.StateFacts(ctx, writer.RunInfo{SessionID: "s"}, writer.Fact{Subject: "session", Key: "title",
				Value: []byte(value), At: writer.Moment{Time: stamp(0)}})
		})
		ids[all[0].SpanContext.SpanID().String()] = true
	}
	if len(ids) != 1 {
		t.Error("an id differs by what is not sent")
	}
}

// The error of a reply says that it was cancelled, and is never empty.
func TestErrorsOfReplies(t *testing.T) {
	for body, cancelled := range map[string]bool{
		`{"object":"response","status":"cancelled","output":[]}`:   true,
		`{"object":"response","status":"failed","output":[]}`:      false,
		`{"role":"assistant","content":[],"stopReason":"aborted"}`: true,
		`{"error":{}}`: false,
		`{"error":{"type":"overloaded_error","message":"Overloaded"}}`: false,
	} {
		res, err := otelagent.ParseReply([]byte(body))
		if err != nil || res.Err == nil || res.Err.Error() == "" || errors.Is(res.Err, context.Canceled) != cancelled {
			t.Errorf("%s: %q, %v", body, res.Err, err)
		}
	}
}

// The public API takes no context for an empty one.
func TestNoContext(t *testing.T) {
	var none context.Context
	all := traced(t, nil, public(func(_ context.Context, tracer *otelagent.Tracer) {
		if otelagent.RunFromContext(none) != nil || otelagent.TurnFromContext(none) != nil ||
			otelagent.ToolCallFromContext(none) != nil || otelagent.ContextWithBaggage(none) != nil {
			t.Error("no context has a run")
		}
		_, run := tracer.StartRun(none, otelagent.RunInfo{NewRoot: true})
		_, turn := run.StartTurn(none, otelagent.TurnInfo{})
		turn.StartPermission(none, "bash", "c").End(otelagent.Decision{})
		_, tool := turn.StartTool(none, otelagent.ToolCall{})
		tool.End(otelagent.ToolResult{})
		_, compaction := run.StartCompaction(none, otelagent.CompactionInfo{})
		compaction.End(otelagent.CompactionResult{})
		turn.End(otelagent.TurnResult{})
		run.End(otelagent.RunResult{})
	}))
	if len(all) != 5 {
		t.Errorf("%d spans, want 5", len(all))
	}
}

// A failed attempt is discarded once where two goroutines send the next one at the same time.
func TestAttemptIsDiscardedOnce(t *testing.T) {
	run, exp := start(t)
	for range 500 {
		_, turn := run.StartTurn(t.Context(), writer.TurnInfo{})
		turn.Request(writer.Request{})
		turn.Reply(writer.TurnResult{Failed: true, Usage: &writer.Usage{Input: 3}})
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { turn.Request(writer.Request{Attempt: 1}) })
		}
		both.Wait()
		turn.End(writer.TurnResult{})
	}
	for _, s := range exp.GetSpans() {
		if n, input := intOf(s, spans.AttemptsDiscardedKey), intOf(s, spans.DiscardedUsageInputKey); n != 1 || input != 3 {
			t.Fatalf("%d attempts were discarded, with %d input tokens; want 1, with 3", n, input)
		}
	}
}
