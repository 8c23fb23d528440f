package otelsetup_test

import (
	"context"
	"fmt"

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
