package otelanthropic_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/instrumentation/github.com/anthropics/anthropic-sdk-go/otelanthropic"
	"github.com/otelagent/otelagent/otelagent"
)

func ExampleOptions() {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(printer{})) // yours has an OTLP exporter
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(provider))
	api := httptest.NewServer(http.HandlerFunc(hello)) // in place of Anthropic's
	defer api.Close()

	client := anthropic.NewClient(append([]option.RequestOption{option.WithBaseURL(api.URL), option.WithAPIKey("none")},
		otelanthropic.Options(tracer)...)...)
	reply, err := client.Messages.New(context.Background(), anthropic.MessageNewParams{Model: "claude", MaxTokens: 100,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello?"))}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Content[0].Text)
	// Output:
	// session.turn
	// session.run
	// Hello.
}

func hello(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude","stop_reason":"end_turn",`+
		`"content":[{"type":"text","text":"Hello."}],"usage":{"input_tokens":9,"output_tokens":2}}`)
}

// printer is an exporter that prints names.
type printer struct{}

func (printer) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	for _, s := range spans {
		fmt.Println(s.Name())
	}
	return nil
}

func (printer) Shutdown(context.Context) error { return nil }
