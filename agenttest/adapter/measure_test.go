package adapter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// measure returns what is measured of the calls of record, by name of the metric.
func measure(
	t *testing.T,
	record func(*writer.Tracer),
	opts ...sdktrace.TracerProviderOption,
) map[string]metricdata.Aggregation {
	t.Helper()
	return measureAt(t, otelagent.CaptureNone, record, opts...)
}

// measureAt is measure with a level of capture.
func measureAt(
	t *testing.T,
	level otelagent.Capture,
	record func(*writer.Tracer),
	opts ...sdktrace.TracerProviderOption,
) map[string]metricdata.Aggregation {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	record((*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(sdktrace.NewTracerProvider(opts...)),
		otelagent.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
		otelagent.WithCapture(level))))
	var all metricdata.ResourceMetrics
	must.Do(t, reader.Collect(t.Context(), &all))
	got := map[string]metricdata.Aggregation{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			got[m.Name] = m.Data
		}
	}
	return got
}

// What the processors of spans do at the end of a turn is no part of it.
func TestDurationIsNotThatOfProcessors(t *testing.T) {
	const slow = 200 * time.Millisecond
	got := measure(t, func(tracer *writer.Tracer) {
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{})
		_, turn := run.StartTurn(ctx, writer.TurnInfo{})
		turn.End(writer.TurnResult{})
		run.End(writer.RunResult{})
	}, sdktrace.WithSpanProcessor(onEnd{dropped{}, func(sdktrace.ReadOnlySpan) { time.Sleep(slow) }}))
	h, _ := got[spans.MetricTurnDuration].(metricdata.Histogram[float64])
	if len(h.DataPoints) != 1 || h.DataPoints[0].Count != 1 || h.DataPoints[0].Sum >= slow.Seconds() {
		t.Errorf("%+v, want one sample below %s", h.DataPoints, slow)
	}
}

// A host says how long it waited for a decision, if it did.
func TestWaitOfADecision(t *testing.T) {
	got := measure(t, func(tracer *writer.Tracer) {
		ctx, run := (*otelagent.Tracer)(tracer).StartRun(t.Context(), otelagent.RunInfo{})
		ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
		for _, wait := range []time.Duration{0, 3 * time.Second} {
			turn.StartPermission(ctx, "bash", "c").End(otelagent.Decision{Action: spans.ActionAllow, Wait: wait})
		}
	})
	h, _ := got[spans.MetricPermissionWaiting].(metricdata.Histogram[float64])
	if len(h.DataPoints) != 1 || h.DataPoints[0].Count != 1 || h.DataPoints[0].Sum != 3 {
		t.Errorf("%+v, want one sample of 3 s", h.DataPoints)
	}
}

// The model that a payload asks for is on the span and in the metrics, whatever is captured, sampled and stated.
func TestModelOfThePayload(t *testing.T) {
	for _, level := range []otelagent.Capture{otelagent.CaptureNone, otelagent.CaptureContent} {
		for _, messages := range [][]writer.Message{nil, {{Raw: []byte(`{}`), Role: "user"}}} {
			for _, sampled := range []bool{true, false} {
				var model string
				sampler := sdktrace.NeverSample()
				if sampled {
					sampler = sdktrace.AlwaysSample()
				}
				got := measureAt(t, level, func(tracer *writer.Tracer) {
					ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{})
					_, turn := run.StartTurn(ctx, writer.TurnInfo{})
					turn.Request(writer.Request{Payload: []byte(`{"model":"m","messages":[{}]}`), Messages: messages})
					turn.End(writer.TurnResult{})
				}, sdktrace.WithSampler(sampler),
					sdktrace.WithSpanProcessor(onEnd{dropped{}, func(s sdktrace.ReadOnlySpan) {
						set := attribute.NewSet(s.Attributes()...)
						v, _ := set.Value(spans.RequestModelKey)
						model = v.AsString()
					}}))
				h, _ := got[spans.MetricTurnDuration].(metricdata.Histogram[float64])
				if len(h.DataPoints) != 1 {
					t.Fatalf("%+v", got)
				}
				label, _ := h.DataPoints[0].Attributes.Value(spans.RequestModelKey)
				if label.AsString() != "m" || sampled && model != "m" {
					t.Errorf("%s, %d messages stated, sampled %t: %q on the span, %q in the metrics", level, len(messages),
						sampled, model, label.AsString())
				}
			}
		}
	}
}

// An end before the start gives no duration, and a call made a billion times no retries, whatever is sampled; a turn
// that we closed has no error.
func TestNonsenseIsNotMeasured(t *testing.T) {
	start := time.Unix(1e9, 0)
	samplers := map[string]sdktrace.Sampler{"all": sdktrace.AlwaysSample(), "none": sdktrace.NeverSample()}
	for name, sampler := range samplers {
		t.Run(name, func(t *testing.T) {
			got := measure(t, func(tracer *writer.Tracer) {
				ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{})
				_, stated := run.StartTurn(ctx, writer.TurnInfo{Start: writer.Moment{Time: start}})
				stated.Request(writer.Request{Attempt: 1 << 30})
				stated.End(writer.TurnResult{End: writer.Moment{Time: start.Add(-time.Second)}})
				_, half := run.StartTurn(ctx, writer.TurnInfo{})
				half.End(writer.TurnResult{End: writer.Moment{Time: start, Closed: true}})
				run.End(writer.RunResult{End: writer.Moment{Time: start}})
			}, sdktrace.WithSampler(sampler))
			for _, none := range []string{spans.MetricTurnDuration, spans.MetricAgentDuration, spans.MetricTurnRetries} {
				if got[none] != nil {
					t.Errorf("%s: %+v", none, got[none])
				}
			}
			calls, _ := got[spans.MetricAgentInferenceCalls].(metricdata.Histogram[int64])
			if len(calls.DataPoints) != 1 || calls.DataPoints[0].Sum != 2 {
				t.Errorf("calls %+v, want 2", calls.DataPoints)
			}
			for metric, data := range got {
				if h, ok := data.(metricdata.Histogram[int64]); ok {
					for _, p := range h.DataPoints {
						if v, ok := p.Attributes.Value(spans.ErrorTypeKeyKey); ok {
							t.Errorf("%s has error.type %s", metric, v.AsString())
						}
					}
				}
			}
		})
	}
}

// Only what looks like the name of a tool is a label; models write anything there.
func TestToolNamesAsLabels(t *testing.T) {
	long := strings.Repeat("x", 129)
	got := measure(t, func(tracer *writer.Tracer) {
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{})
		ctx, turn := run.StartTurn(ctx, writer.TurnInfo{})
		names := []string{"read_file", "mcp:git/log-1.2", "rm -rf /home/me", `bash{"command":"ls"}`, "läuft", "a\nb", long}
		for _, name := range names {
			_, call := turn.StartTool(ctx, writer.ToolCall{Name: name})
			call.End(writer.ToolResult{})
		}
		turn.End(writer.TurnResult{})
		run.End(writer.RunResult{})
	})
	names := map[string]int64{}
	calls, _ := got[spans.MetricToolCalls].(metricdata.Sum[int64])
	for _, p := range calls.DataPoints {
		v, _ := p.Attributes.Value(spans.ToolNameKey)
		names[v.AsString()] += p.Value
	}
	if diff := cmp.Diff(map[string]int64{"read_file": 1, "mcp:git/log-1.2": 1, "_OTHER": 5}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
