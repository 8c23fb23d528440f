package otelsetup

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// NewFuncExporter returns an exporter that calls f with each batch as the bytes of an OTLP ExportTraceServiceRequest,
// the bytes that would go over the wire: for pipelines inside one process. An error of f is the error of the batch. f
// may keep the bytes. Setup calls it from one goroutine at a time, and from two with WithLive.
func NewFuncExporter(f func(ctx context.Context, otlp []byte) error) sdktrace.SpanExporter {
	return otlptrace.NewUnstarted(client(func(ctx context.Context, r *coltracepb.ExportTraceServiceRequest) error {
		b, err := proto.Marshal(r)
		if err != nil {
			return fmt.Errorf("otelsetup: marshal batch: %w", err)
		}
		return f(ctx, b)
	}))
}

// client is a client of otlptrace without a network.
type client func(context.Context, *coltracepb.ExportTraceServiceRequest) error

func (client) Start(context.Context) error { return nil }
func (client) Stop(context.Context) error  { return nil }

func (c client) UploadTraces(ctx context.Context, rs []*tracepb.ResourceSpans) error {
	return c(ctx, &coltracepb.ExportTraceServiceRequest{ResourceSpans: rs})
}

// sized is a span that was measured before.
type sized struct {
	sdktrace.ReadOnlySpan
	size int64
}

// measured returns the span with the bytes that a request with it alone takes. In one with others it takes no more.
func measured(s sdktrace.ReadOnlySpan) (m sized) {
	if m, ok := s.(sized); ok {
		return m
	}
	m.ReadOnlySpan = s
	e := otlptrace.NewUnstarted(client(func(_ context.Context, r *coltracepb.ExportTraceServiceRequest) error {
		m.size = int64(proto.Size(r))
		return nil
	}))
	_ = e.ExportSpans(context.Background(), []sdktrace.ReadOnlySpan{s})
	return m
}
