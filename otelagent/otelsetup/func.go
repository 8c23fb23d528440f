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

// NewFuncExporter returns an exporter that hands each batch to f as the bytes of an OTLP ExportTraceServiceRequest, the very
// bytes that would go over the wire: for pipelines inside one process. An error of f is the error of the batch. f may keep the
// bytes and is never called by two goroutines at once when the exporter is used through Setup.
func NewFuncExporter(f func(ctx context.Context, otlp []byte) error) sdktrace.SpanExporter {
	return otlptrace.NewUnstarted(funcClient(f))
}

// funcClient is a client of otlptrace without a network.
type funcClient func(ctx context.Context, otlp []byte) error

func (funcClient) Start(context.Context) error { return nil }
func (funcClient) Stop(context.Context) error  { return nil }

func (f funcClient) UploadTraces(ctx context.Context, rs []*tracepb.ResourceSpans) error {
	b, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: rs})
	if err != nil {
		return fmt.Errorf("otelsetup: marshal batch: %w", err)
	}
	return f(ctx, b)
}
