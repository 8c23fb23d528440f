package otelsetup

import (
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// BenchmarkCopy compares a copy of an open turn with a span that has the same attributes, started and ended by plain
// calls of the SDK. docs/hotpaths.md names the bound of the ratio.
func BenchmarkCopy(b *testing.B) {
	provider := sdktrace.NewTracerProvider()
	live := &Live{heartbeat: DefaultHeartbeat, wake: make(chan struct{}, 1)}
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(provider), otelagent.WithLive(live))
	ctx, run := tracer.StartRun(b.Context(), otelagent.RunInfo{SessionID: "0b5cf0a5-6d0e-4f6f-9a51-2f7d8f0f7e11",
		Agent: "coder", Model: "claude-opus-4-6", Provider: "anthropic"})
	ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: spans.TriggerUser})
	turn.Reply(otelagent.TurnResult{StopReason: "tool_use", Usage: &otelagent.Usage{Input: 1200, Output: 300}})
	open := &live.open[len(live.open)-1]
	attributes := open.copy().Attributes()
	b.Run("copy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			open.copy()
		}
	})
	b.Run("raw", func(b *testing.B) {
		raw := provider.Tracer("raw")
		b.ReportAllocs()
		for b.Loop() {
			_, span := raw.Start(ctx, spans.SpanTurn, trace.WithAttributes(slices.Clone(attributes)...))
			span.End()
		}
	})
}
