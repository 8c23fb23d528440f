// Command service is an HTTP service that had tracing before it had an agent: otelhttp makes a span of each request,
// and the agent's run is a child of it. One tool of the agent calls another instrumented service, which shows under
// its tool call; a second tool asks an agent of another service, whose run is a child of the call that asked.
//
//	go run ./service
//
// starts all three on loopback, each with a name and an SDK of its own, asks one question and prints the answer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := play(ctx); err != nil {
		stop()
		log.Fatal(err)
	}
}

// play starts the three, asks and prints the answer.
func play(ctx context.Context) (err error) {
	services := map[string]telemetry{}
	for _, name := range []string{"orders", "research", "support", "front"} {
		t, end, e := traced(ctx, name)
		if e != nil {
			return e
		}
		defer func() { err = errors.Join(err, end()) }()
		services[name] = t
	}
	start := func(name, orders, research string) string {
		s := httptest.NewServer(services[name].service(name, orders, research))
		context.AfterFunc(ctx, s.Close)
		return s.URL
	}
	support := start("support", start("orders", "", ""), start("research", "", ""))
	// The front end names the conversation; the services below know it from baggage only.
	answer, err := question(ctx, services["front"].client(), support, "ticket-4711",
		"Where is order 17, and is that usual?")
	if err == nil {
		fmt.Println(answer)
	}
	return err
}

// telemetry is what all of them have: a tracer for agents, and options of the HTTP instrumentation.
type telemetry struct {
	tracer *otelagent.Tracer
	http   []otelhttp.Option
}

// traced returns the telemetry of a service, which goes to the collector on this machine, or where
// OTEL_EXPORTER_OTLP_ENDPOINT says, and a function that waits until it is delivered. A service in a process of its own
// needs none of WithoutGlobal and the two providers.
func traced(ctx context.Context, name string) (telemetry, func() error, error) {
	providers, err := otelsetup.Setup(ctx, otelsetup.WithServiceName(name), otelsetup.WithoutGlobal())
	if err != nil {
		return telemetry{}, nil, err
	}
	end := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := errors.Join(providers.Shutdown(ctx), providers.Stats().LastError); err != nil {
			return fmt.Errorf("the spans were not delivered, is `otelagent up` running? %w", err)
		}
		return nil
	}
	return telemetry{
		tracer: otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent),
			otelagent.WithTracerProvider(providers.TracerProvider()), otelagent.WithMeterProvider(providers.MeterProvider())),
		http: []otelhttp.Option{otelhttp.WithTracerProvider(providers.TracerProvider()), otelhttp.WithPropagators(
			propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))},
	}, end, nil
}

// client returns one that makes a span of each request and sends the trace context with it.
func (t telemetry) client() *http.Client {
	return &http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport, t.http...), Timeout: 30 * time.Second}
}

// service returns one of the three, with a span for each request.
func (t telemetry) service(name, orders, research string) http.Handler {
	mux := http.NewServeMux()
	switch name {
	case "support":
		s := support{tracer: t.tracer, client: t.client(), orders: orders, research: research}
		mux.HandleFunc("POST /ask", s.ask)
	case "orders": // which knows nothing of agents
		mux.HandleFunc("GET /orders/17", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "on its way since Tuesday")
		})
	case "research":
		mux.HandleFunc("POST /ask", researcher{t.tracer}.ask)
	}
	return otelhttp.NewHandler(mux, name, t.http...)
}

// question asks the support service in a session.
func question(ctx context.Context, client *http.Client, url, session, text string) (string, error) {
	member, err := baggage.NewMemberRaw(string(spans.SessionIDKey), session)
	if err != nil {
		return "", err
	}
	bag, err := baggage.New(member)
	if err != nil {
		return "", err
	}
	return send(baggage.ContextWithBaggage(ctx, bag), client, http.MethodPost, url+"/ask", text)
}

// send makes a request and returns the body of the answer.
func send(ctx context.Context, client *http.Client, method, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, req.URL.Path, resp.Status)
	}
	return string(answer), err
}
