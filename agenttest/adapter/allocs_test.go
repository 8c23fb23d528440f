//go:build !race

// The race detector allocates, so allocations are counted without it: `make test` does.

package adapter_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// TestAllocations counts the allocations of a turn: none without an SDK, at most 4 more than raw SDK calls make, and no
// more with live copies, whose sending in the background is not counted.
func TestAllocations(t *testing.T) {
	measure := func(p api.TracerProvider, opts ...otelagent.Option) float64 {
		ctx, run := startBenchRun(p, opts...)
		return testing.AllocsPerRun(200, func() { adapterTurn(ctx, run) })
	}
	if n := measure(noop.NewTracerProvider()); n != 0 {
		t.Errorf("a turn without an SDK makes %v allocations, want 0", n)
	}
	recorded := record(t)
	p := trace.NewTracerProvider(trace.WithSpanProcessor(dropped{}))
	ctx, _ := p.Tracer("raw").Start(t.Context(), spans.SpanRun)
	raw := testing.AllocsPerRun(200, func() { rawTurn(ctx, p.Tracer("raw"), recorded) })
	off, none, on := measure(p), measure(p, otelagent.WithLive(nil)), measure(p, otelagent.WithLive(listens{}))
	t.Logf("allocations of a turn: adapter %v, raw SDK %v, live nil %v, live %v", off, raw, none, on)
	if off > raw+4 || none != off || on != off {
		t.Errorf("a turn makes %v allocations, raw SDK calls %v, WithLive(nil) %v, WithLive %v", off, raw, none, on)
	}
}

// listens is a Live that sends nothing.
type listens struct{}

func (listens) Heartbeat() time.Duration                { return time.Minute }
func (listens) Changed(*writer.OpenSpan, time.Duration) {}
func (listens) Ended(*writer.OpenSpan)                  {}

// Metrics cost a turn at most five allocations a sample: its labels are built anew for each.
func TestMetricsAllocateLittle(t *testing.T) {
	count := func(ctx context.Context, run *writer.Run, take func(context.Context)) float64 {
		turn := func() {
			adapterTurn(ctx, run)
			take(ctx)
		}
		for range 2000 { // until the reservoirs of exemplars are full
			turn()
		}
		return testing.AllocsPerRun(500, turn)
	}
	ctx, run := measuredRun()
	ours := count(ctx, run, func(context.Context) {})
	ctx, run = startBenchRun(
		trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})),
		otelagent.WithMeterProvider(metricnoop.NewMeterProvider()),
	)
	bare := count(ctx, run, func(context.Context) {})
	raw := count(ctx, run, rawSamples(t))
	t.Logf("allocations of a turn: %v, with metrics %v, with metrics by hand %v", bare, ours, raw)
	if most := raw + 5*samplesOfTurn; ours > most {
		t.Errorf("a turn makes %v allocations with metrics, %v with samples taken by hand: want at most %v", ours, raw, most)
	}
}

// Capturing a request allocates in proportion to what is new in it, not to the history: docs/hotpaths.md says how much.
func TestCaptureAllocatesForWhatIsNew(t *testing.T) {
	perTurn := func(level otelagent.Capture) (allocated, fresh float64) {
		tracer := (*writer.Tracer)(
			otelagent.NewTracer(otelagent.WithCapture(level), func(c *writer.Config) { c.PreviewBytes = -1 },
				otelagent.WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})))),
		)
		_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		h := newHistory()
		prompt, tools := []byte(`"Be careful."`), []byte(`[]`)
		var before, after runtime.MemStats
		var sum uint64
		const turns = 200
		start := 0
		for i := range 2 * turns { // the first half warms up
			h.turn()
			h.emit(prompt, tools)
			if i == turns {
				start = h.bytes
			}
			runtime.ReadMemStats(&before)
			_, turn := run.StartTurn(t.Context(), writer.TurnInfo{})
			turn.Request(writer.Request{Payload: h.payload, Messages: h.messages})
			turn.End(writer.TurnResult{})
			if runtime.ReadMemStats(&after); i >= turns {
				sum += after.TotalAlloc - before.TotalAlloc
			}
		}
		return float64(sum) / turns, float64(h.bytes-start) / turns
	}
	bare, _ := perTurn(otelagent.CaptureNone)
	captured, fresh := perTurn(otelagent.CaptureContent)
	ratio := (captured - bare) / fresh
	t.Logf("%.0f new bytes a turn, %.0f allocated for them: %.2f times", fresh, captured-bare, ratio)
	if ratio > 3 || ratio < 1 {
		t.Errorf("%.2f times the new bytes", ratio)
	}
}
