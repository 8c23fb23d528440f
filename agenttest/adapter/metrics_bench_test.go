package adapter_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// samplesOfTurn is the number of samples that the adapter takes of an adapterTurn.
const samplesOfTurn = 12

// rawSamples returns a function that takes as many samples by plain calls of the SDK, with labels that are ready.
func rawSamples(tb testing.TB) func(context.Context) {
	tb.Helper()
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())).Meter("raw")
	known, _ := spans.LookupMetric(spans.MetricTurnTokens)
	h := must.Get(meter.Int64Histogram(known.Name, metric.WithExplicitBucketBoundaries(known.Boundaries...)))(tb)
	labels := metric.WithAttributeSet(attribute.NewSet(attribute.String("gen_ai.agent.name", "coder"),
		attribute.String("gen_ai.request.model", "claude-opus-4-6"), attribute.String("gen_ai.provider.name", "anthropic")))
	opts := []metric.RecordOption{labels}
	return func(ctx context.Context) {
		for range samplesOfTurn {
			h.Record(ctx, 300, opts...)
		}
	}
}

// measuredRun starts a run whose metrics an SDK takes.
func measuredRun() (context.Context, *writer.Run) {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	return startBenchRun(trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})), otelagent.WithMeterProvider(meters))
}

// BenchmarkMetrics compares a turn with metrics with the same turn without them and 12 samples taken by hand.
// docs/hotpaths.md names the bound of the ratio.
func BenchmarkMetrics(b *testing.B) {
	b.Run("adapter", func(b *testing.B) {
		ctx, run := measuredRun()
		b.ReportAllocs()
		for b.Loop() {
			adapterTurn(ctx, run)
		}
	})
	b.Run("raw", func(b *testing.B) {
		take := rawSamples(b)
		ctx, run := startBenchRun(
			trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})),
			otelagent.WithMeterProvider(noop.NewMeterProvider()),
		)
		b.ReportAllocs()
		for b.Loop() {
			adapterTurn(ctx, run)
			take(ctx)
		}
	})
}
