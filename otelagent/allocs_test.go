//go:build !race

// The race detector allocates, so allocations are counted without it: `make test` does.

package otelagent_test

import (
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/otelagent/otelagent/spans"
)

func TestAllocations(t *testing.T) {
	measure := func(p api.TracerProvider) float64 {
		ctx, run := startBenchRun(p)
		return testing.AllocsPerRun(200, func() { adapterTurn(ctx, run) })
	}
	if n := measure(noop.NewTracerProvider()); n != 0 {
		t.Errorf("a turn without an SDK makes %v allocations, want 0", n)
	}
	told := record(t)
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})).Tracer("raw")
	ctx, _ := tracer.Start(t.Context(), spans.SpanRun)
	raw := testing.AllocsPerRun(200, func() { rawTurn(ctx, tracer, told) })
	ours := measure(trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})))
	t.Logf("allocations of a turn: adapter %v, raw SDK %v", ours, raw)
	if ours > raw+8 {
		t.Errorf("a turn makes %v allocations, raw SDK calls %v: more than 8 above", ours, raw)
	}
}
