package otelsetup

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// The size of a span is that of a request with it alone; together spans take no more than the sum.
func TestSize(t *testing.T) {
	var size int64
	to := NewFuncExporter(func(_ context.Context, otlp []byte) error { size = int64(len(otlp)); return nil })
	keep := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(keep))
	var batch []sdktrace.ReadOnlySpan
	var sum int64
	for i := range 9 {
		scope := trace.WithInstrumentationAttributes(attribute.String("k", strings.Repeat("v", i)))
		_, span := p.Tracer(fmt.Sprint("scope", i%2), scope).Start(t.Context(), "name")
		span.AddEvent("e", trace.WithAttributes(attribute.StringSlice("l", make([]string, 1<<i)), attribute.Int("i", -1)))
		span.AddEvent("f", trace.WithAttributes(attribute.String("s", strings.Repeat("é", 1<<(2*i)))))
		span.End()
		s := keep.GetSpans().Snapshots()[i]
		batch, sum = append(batch, s), sum+measured(s).size
		if err := to.ExportSpans(t.Context(), batch[i:]); err != nil || size != measured(s).size {
			t.Errorf("%v, measured %d, it is %d", err, measured(s).size, size)
		}
	}
	if err := to.ExportSpans(t.Context(), batch); err != nil || size > sum {
		t.Errorf("%v, together %d bytes, alone %d", err, size, sum)
	}
}
