package otelsetup_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// Most programs need this and one line more: the exporter here takes the place of a collector.
func ExampleSetup() {
	ctx := context.Background()
	received := 0
	p, err := otelsetup.Setup(ctx,
		otelsetup.WithServiceName("my-agent"),
		otelsetup.WithoutGlobal(),
		otelsetup.WithExporter(otelsetup.NewFuncExporter(func(_ context.Context, otlp []byte) error {
			received += len(otlp)
			return nil
		})))
	if err != nil {
		fmt.Println(err)
		return
	}

	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()))
	_, run := tracer.StartRun(ctx, otelagent.RunInfo{SessionID: "s1", Agent: "coder"})
	run.End(otelagent.RunResult{})

	if err := p.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	s := p.Stats()
	fmt.Println("spans ended:", s.Ended, "delivered:", s.Exported, "lost:", s.Lost(), "bytes:", received > 0)
	// Output: spans ended: 1 delivered: 1 lost: 0 bytes: true
}

// A program with an SDK of its own wraps its exporter, and changes nothing else.
func ExampleWrapExporter() {
	ctx := context.Background()
	exporter := otelsetup.NewFuncExporter(func(context.Context, []byte) error { return nil })

	wrapped := otelsetup.WrapExporter(exporter)
	wrapped.OnLost(func(session string) {
		fmt.Println("to be sent again:", session)
	})
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(wrapped))

	_, run := otelagent.NewTracer(otelagent.WithTracerProvider(provider)).StartRun(ctx, otelagent.RunInfo{SessionID: "s1"})
	run.End(otelagent.RunResult{})

	if err := provider.Shutdown(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("lost:", wrapped.Stats().Lost())
	// Output: lost: 0
}
