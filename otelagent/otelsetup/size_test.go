package otelsetup

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// The estimate is never below the real size, and near it where bodies are large.
func TestSizeErrsHigh(t *testing.T) {
	for name, attrs := range map[string][]attribute.KeyValue{
		"none":    nil,
		"scalars": {attribute.Bool("b", true), attribute.Int64("i", -1), attribute.Float64("f", 1.5), attribute.String("", "")},
		"lists": {attribute.BoolSlice("b", make([]bool, 99)), attribute.Int64Slice("i", []int64{-1, -2, -3, 1 << 62}),
			attribute.Float64Slice("f", make([]float64, 99)), attribute.StringSlice("s", make([]string, 999))},
		"large": {attribute.String("s", strings.Repeat("é", 2<<20)), attribute.StringSlice("l", []string{strings.Repeat("x", 1<<20), "y"})},
	} {
		t.Run(name, func(t *testing.T) {
			var size, want int64
			to := NewFuncExporter(func(_ context.Context, otlp []byte) error { size = int64(len(otlp)); return nil })
			p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(estimating{to, &want}), sdktrace.WithRawSpanLimits(spanLimits()))
			tracer := p.Tracer("scope", trace.WithInstrumentationVersion("1"), trace.WithInstrumentationAttributes(attribute.String("k", "v")))
			ctx, span := tracer.Start(context.Background(), "name", trace.WithAttributes(attrs...))
			for range 20 {
				span.AddEvent("e")
				span.AddLink(trace.LinkFromContext(ctx, attribute.String("k", "v")))
			}
			span.AddEvent("with", trace.WithAttributes(attrs...))
			span.SetStatus(codes.Error, "description")
			span.End()
			if size > want || want > size*3/2+60_000 {
				t.Errorf("estimated %d, it is %d", want, size)
			}
		})
	}
}

type estimating struct {
	sdktrace.SpanExporter
	size *int64
}

func (s estimating) ExportSpans(ctx context.Context, l []sdktrace.ReadOnlySpan) error {
	for _, span := range l {
		*s.size += measured(span).size
	}
	return s.SpanExporter.ExportSpans(ctx, l)
}

// anySpan makes spans of everything that a span can hold, content of ours among it.
type anySpan struct{ *rand.Rand }

// length is of every size of a varint, small ones more often.
func (r anySpan) length() int { return r.IntN(1 << r.IntN(16)) }

func (r anySpan) text() string { return strings.Repeat("é", r.length()) }

func (r anySpan) texts() []string {
	list := make([]string, r.IntN(20))
	for i := range list {
		list[i] = r.text()
	}
	return list
}

func (r anySpan) value(depth int) attribute.Value {
	n := r.IntN(30)
	kinds := 11
	if depth == 3 {
		kinds = 9
	}
	switch r.IntN(kinds) {
	case 0:
		return attribute.BoolValue(r.IntN(2) == 0)
	case 1:
		return attribute.Int64Value(-r.Int64N(math.MaxInt64))
	case 2:
		return attribute.Float64Value(r.NormFloat64())
	case 3:
		return attribute.StringValue(r.text())
	case 4:
		return attribute.ByteSliceValue(make([]byte, r.length()))
	case 5:
		return attribute.BoolSliceValue(make([]bool, n))
	case 6:
		list := make([]int64, n)
		for i := range list {
			list[i] = -r.Int64()
		}
		return attribute.Int64SliceValue(list)
	case 7:
		return attribute.Float64SliceValue(make([]float64, n))
	case 8:
		return attribute.StringSliceValue(r.texts())
	case 9:
		list := make([]attribute.Value, r.IntN(4))
		for i := range list {
			list[i] = r.value(depth + 1)
		}
		return attribute.SliceValue(list...)
	}
	return attribute.MapValue(r.attributes(4, depth+1)...)
}

func (r anySpan) attributes(most, depth int) []attribute.KeyValue {
	list := make([]attribute.KeyValue, r.IntN(most))
	for i := range list {
		list[i] = attribute.KeyValue{Key: attribute.Key(fmt.Sprint(i, strings.Repeat("k", r.IntN(200)))), Value: r.value(depth)}
	}
	return list
}

func (r anySpan) context() trace.SpanContext {
	state, _ := trace.ParseTraceState("a=" + strings.Repeat("v", r.IntN(200)+1))
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: 0xff, TraceState: state, Remote: true})
}

func (r anySpan) span(res *resource.Resource) sdktrace.ReadOnlySpan {
	end := time.Unix(0, math.MaxInt64)
	s := tracetest.SpanStub{
		Name: r.text(), SpanContext: r.context(), Parent: r.context(), SpanKind: trace.SpanKindConsumer, StartTime: end, EndTime: end,
		Attributes: r.attributes(8, 0), DroppedAttributes: math.MaxInt32, DroppedEvents: math.MaxInt32, DroppedLinks: math.MaxInt32,
		Status: sdktrace.Status{Code: codes.Error, Description: r.text()}, Resource: res,
		InstrumentationScope: instrumentation.Scope{Name: r.text(), Version: r.text(), SchemaURL: r.text(), Attributes: attribute.NewSet(r.attributes(4, 0)...)},
	}
	for range r.IntN(4) {
		s.Events = append(s.Events, sdktrace.Event{Name: r.text(), Attributes: r.attributes(4, 0), DroppedAttributeCount: math.MaxInt32, Time: end})
		s.Links = append(s.Links, sdktrace.Link{SpanContext: r.context(), Attributes: r.attributes(4, 0), DroppedAttributeCount: math.MaxInt32})
	}
	if r.IntN(2) == 0 {
		s.Events = append(s.Events,
			sdktrace.Event{Name: spans.EventBlocks, Time: end, Attributes: []attribute.KeyValue{
				spans.BlockBodiesKey.StringSlice(r.texts()), spans.ListsKey.StringSlice(r.texts())}})
	}
	return s.Snapshot()
}

// No request is ever larger than what its spans and resources are estimated at, whatever is on them.
func TestSizeIsNeverTooLow(t *testing.T) {
	for seed := range uint64(500) {
		r := anySpan{rand.New(rand.NewPCG(seed, 0))}
		var batch []sdktrace.ReadOnlySpan
		var estimate int64
		for range 1 + r.IntN(2) {
			res := resource.NewWithAttributes(r.text(), r.attributes(8, 0)...)
			for range 1 + r.IntN(3) {
				s := r.span(res)
				batch, estimate = append(batch, s), estimate+measured(s).size
			}
		}
		var size int64
		e := NewFuncExporter(func(_ context.Context, otlp []byte) error { size = int64(len(otlp)); return nil })
		if err := e.ExportSpans(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if size > estimate {
			t.Fatalf("seed %d: %d spans take %d bytes, estimated at %d", seed, len(batch), size, estimate)
		}
	}
}
