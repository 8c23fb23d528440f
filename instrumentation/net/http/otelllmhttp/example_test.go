package otelllmhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/instrumentation/net/http/otelllmhttp"
	"github.com/otelagent/otelagent/otelagent"
)

// A client whose requests to model APIs are recorded.
func ExampleNewTransport() {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"r1","choices":[{"index":0,"finish_reason":"stop",`+
			`"message":{"role":"assistant","content":"Hello."}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`)
	}))
	defer model.Close()
	seen := tracetest.NewInMemoryExporter()
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(seen))))

	transport := otelllmhttp.NewTransport(tracer, otelllmhttp.WithAgent("greeter"))
	defer transport.Close()
	client := &http.Client{Transport: transport}

	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, model.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"m1","messages":[{"role":"user","content":"Hello?"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	for _, span := range seen.GetSpans() {
		fmt.Println(span.Name)
	}
	// Output:
	// session.turn
	// session.run
}
