package adapter_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// rawSample is one sample as a program takes it by plain calls of the SDK, with labels that are ready.
type rawSample func(context.Context)

// samplesOf returns the samples of one adapterTurn, learned from what the adapter measures of it.
func samplesOf(tb testing.TB) []rawSample {
	tb.Helper()
	reader := sdkmetric.NewManualReader()
	ctx, run := startBenchRun(trace.NewTracerProvider(), otelagent.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
	adapterTurn(ctx, run)
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		tb.Fatal(err)
	}
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())).Meter("raw")
	var samples []rawSample
	counted := func(name string, set attribute.Set, n int64) {
		c, err := meter.Int64Counter(name)
		if err != nil {
			tb.Fatal(err)
		}
		opts := []metric.AddOption{metric.WithAttributeSet(set)}
		for range n {
			samples = append(samples, func(ctx context.Context) { c.Add(ctx, 1, opts...) })
		}
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		known, _ := spans.LookupMetric(m.Name)
		bounds := metric.WithExplicitBucketBoundaries(known.Boundaries...)
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				if m.Name != spans.MetricRunActive { // of the run, not of the turn
					counted(m.Name, p.Attributes, p.Value)
				}
			}
		case metricdata.Histogram[int64]:
			h, err := meter.Int64Histogram(m.Name, bounds)
			if err != nil {
				tb.Fatal(err)
			}
			for _, p := range d.DataPoints {
				opts := []metric.RecordOption{metric.WithAttributeSet(p.Attributes)}
				for range p.Count {
					samples = append(samples, func(ctx context.Context) { h.Record(ctx, 300, opts...) })
				}
			}
		case metricdata.Histogram[float64]:
			h, err := meter.Float64Histogram(m.Name, bounds)
			if err != nil {
				tb.Fatal(err)
			}
			for _, p := range d.DataPoints {
				opts := []metric.RecordOption{metric.WithAttributeSet(p.Attributes)}
				for range p.Count {
					samples = append(samples, func(ctx context.Context) { h.Record(ctx, 0.3, opts...) })
				}
			}
		}
	}
	if len(samples) != 12 {
		tb.Fatalf("%d samples of a turn, want 12", len(samples))
	}
	return samples
}

// measuredRun starts a run whose metrics an SDK takes.
func measuredRun() (context.Context, *writer.Run) {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	return startBenchRun(trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})), otelagent.WithMeterProvider(meters))
}

// BenchmarkMetrics compares a turn with metrics with the same turn without them and its 12 samples taken by hand. docs/hotpaths.md names
// the bound of the ratio.
func BenchmarkMetrics(b *testing.B) {
	b.Run("adapter", func(b *testing.B) {
		ctx, run := measuredRun()
		b.ReportAllocs()
		for b.Loop() {
			adapterTurn(ctx, run)
		}
	})
	b.Run("raw", func(b *testing.B) {
		samples := samplesOf(b)
		ctx, run := startBenchRun(trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})), otelagent.WithMeterProvider(noop.NewMeterProvider()))
		b.ReportAllocs()
		for b.Loop() {
			adapterTurn(ctx, run)
			for _, take := range samples {
				take(ctx)
			}
		}
	})
}
