package otelcopilot_test

import (
	"context"
	"fmt"

	copilot "github.com/github/copilot-sdk/go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/instrumentation/github.com/github/copilot-sdk/go/otelcopilot"
	"github.com/otelagent/otelagent/instrumentation/github.com/github/copilot-sdk/go/otelcopilot/copilottest"
	"github.com/otelagent/otelagent/otelagent"
)

func Example() {
	spans := tracetest.NewInMemoryExporter() // otelsetup.Setup sends them to a collector
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))))

	runtime, err := copilottest.Start(func(p *copilottest.Prompt) { // stands for the Copilot runtime
		p.Says("", "user.message", copilottest.Data{"content": p.Text})
		p.Says("", "assistant.turn_start", copilottest.Data{"turnId": "0"})
		p.Says("", "tool.execution_start", copilottest.Data{"toolCallId": "c1", "toolName": "view"})
		p.Says("", "tool.execution_complete", copilottest.Data{"toolCallId": "c1", "success": true})
		p.Says("", "assistant.turn_end", copilottest.Data{"turnId": "0"})
		p.Says("", "session.idle", copilottest.Data{})
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	tracing := otelcopilot.New(tracer)
	client := copilot.NewClient(&copilot.ClientOptions{
		Connection:     copilot.URIConnection{URL: runtime.URL},
		RequestHandler: tracing.RequestHandler(nil),
	})
	if err := client.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	session, err := client.CreateSession(ctx, &copilot.SessionConfig{SessionID: "s1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	stop := tracing.Watch(ctx, session)
	_, err = session.SendAndWait(ctx, copilot.MessageOptions{Prompt: "What is there?"})
	stop()
	fmt.Println("errors:", err, session.Disconnect())
	runtime.Close() // a program calls client.Stop
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// errors: <nil> <nil>
	// tool.call
	// session.turn
	// session.run
}
