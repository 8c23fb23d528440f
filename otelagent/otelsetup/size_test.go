package otelsetup

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

type measure struct {
	funcClient
	size int
}

func (m *measure) UploadTraces(_ context.Context, rs []*tracepb.ResourceSpans) error {
	for _, r := range rs {
		m.size += proto.Size(r) + fieldBytes
	}
	return nil
}

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
			m := &measure{}
			var want int64
			p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(sized{otlptrace.NewUnstarted(m), &want}), sdktrace.WithRawSpanLimits(spanLimits()))
			tracer := p.Tracer("scope", trace.WithInstrumentationVersion("1"), trace.WithInstrumentationAttributes(attribute.String("k", "v")))
			ctx, span := tracer.Start(context.Background(), "name", trace.WithAttributes(attrs...))
			for range 20 {
				span.AddEvent("e")
				span.AddLink(trace.LinkFromContext(ctx, attribute.String("k", "v")))
			}
			span.AddEvent("with", trace.WithAttributes(attrs...))
			span.SetStatus(codes.Error, "description")
			span.End()
			if int64(m.size) > want || want > int64(m.size)*3/2+60_000 {
				t.Errorf("estimated %d, it is %d", want, m.size)
			}
		})
	}
}

type sized struct {
	sdktrace.SpanExporter
	size *int64
}

func (s sized) ExportSpans(ctx context.Context, l []sdktrace.ReadOnlySpan) error {
	for _, span := range l {
		*s.size += spanSize(span) + resourceSize(span.Resource())
	}
	return s.SpanExporter.ExportSpans(ctx, l)
}
