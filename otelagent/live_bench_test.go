package otelagent_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// takesAll is an exporter that takes spans and does nothing.
type takesAll struct{}

func (takesAll) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }
func (takesAll) Shutdown(context.Context) error                          { return nil }

// BenchmarkLiveTurn compares a turn whose copies leave while it is open, capture off, with the same spans written by hand. What makes and
// sends the copies runs beside it and is in the time as far as it takes the processor away. docs/hotpaths.md names the bound of the ratio.
func BenchmarkLiveTurn(b *testing.B) {
	run := func(b *testing.B, opts ...otelagent.Option) {
		ctx, run := startBenchRun(trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})), opts...)
		b.ReportAllocs()
		for b.Loop() {
			adapterTurn(ctx, run)
		}
	}
	b.Run("off", func(b *testing.B) { run(b) })
	b.Run("on", func(b *testing.B) {
		live := otelsetup.NewLive(takesAll{})
		defer func() { _ = live.Shutdown(context.Background()) }()
		run(b, otelagent.WithLive(live))
	})
	b.Run("raw", func(b *testing.B) {
		told := record(b)
		tracer := trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})).Tracer("raw")
		ctx, _ := tracer.Start(context.Background(), spans.SpanRun)
		b.ReportAllocs()
		for b.Loop() {
			rawTurn(ctx, tracer, told)
		}
	})
}
