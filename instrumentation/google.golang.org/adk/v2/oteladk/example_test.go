package oteladk_test

import (
	"context"
	"fmt"
	"iter"
	"log"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"github.com/otelagent/otelagent/instrumentation/google.golang.org/adk/v2/oteladk"
	"github.com/otelagent/otelagent/otelagent"
)

func ExamplePlugins() {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(printer{})) // yours has an OTLP exporter
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(provider))

	// With Gemini: gemini.NewModel(ctx, "gemini-2.5-flash", &genai.ClientConfig{HTTPClient: oteladk.HTTPClient(tracer)})
	root, err := llmagent.New(llmagent.Config{Name: "assistant", Model: greeter{}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := runner.New(runner.Config{AppName: "app", Agent: root, SessionService: session.InMemoryService(),
		AutoCreateSession: true, PluginConfig: runner.PluginConfig{Plugins: oteladk.Plugins(tracer)}})
	if err != nil {
		log.Fatal(err)
	}
	question := genai.NewContentFromText("Hello?", genai.RoleUser)
	for _, err := range r.Run(context.Background(), "user", "session", question, agent.RunConfig{}) {
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// session.turn
	// session.run
}

// greeter is a model that needs no network.
type greeter struct{}

func (greeter) Name() string { return "greeter" }

func (greeter) GenerateContent(context.Context, *model.LLMRequest, bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		yield(&model.LLMResponse{Content: genai.NewContentFromText("Hello.", genai.RoleModel)}, nil)
	}
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
