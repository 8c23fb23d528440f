package otelllmhttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

// panics is a span processor of a program that fails when spans end, and with start when they start.
type panics struct {
	trace.SpanProcessor
	start bool
}

func (p panics) OnStart(_ context.Context, s trace.ReadWriteSpan) {
	if p.start {
		panic(s.Name())
	}
}

func (panics) OnEnd(s trace.ReadOnlySpan) { panic(s.Name()) }

// A panic while a request is recorded reaches neither the request nor its reply nor Close, and holds no lock.
func TestPanicStaysHere(t *testing.T) {
	before := otel.GetErrorHandler()
	defer otel.SetErrorHandler(before)
	for _, start := range []bool{true, false} {
		reported := 0
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { reported++ }))
		p := trace.NewTracerProvider(trace.WithSpanProcessor(panics{tracetest.NewSpanRecorder(), start}))
		tr := NewTransport(otelagent.NewTracer(otelagent.WithTracerProvider(p)),
			WithBase(answers(func(*http.Request) (*http.Response, error) { return response(http.StatusOK, chatReply), nil })))
		for range 2 {
			res, err := tr.RoundTrip(post(t, "/v1/chat/completions", question("a")))
			must.Do(t, err)
			body, err := io.ReadAll(res.Body)
			if _ = res.Body.Close(); err != nil || string(body) != chatReply {
				t.Errorf("%q, %v", body, err)
			}
		}
		tr.Close()
		if reported < 2 {
			t.Errorf("spans that panic at their start %v: %d reports", start, reported)
		}
	}
}

// A panic of the transport below passes, and the run is over: nobody asks again after a panic, nor after no response.
func TestNoResponse(t *testing.T) {
	for _, panics := range []bool{true, false} {
		tracer, seen := recorded(t)
		tr := NewTransport(tracer, WithBase(answers(func(*http.Request) (*http.Response, error) {
			if panics {
				panic(http.ErrAbortHandler)
			}
			return nil, nil
		})))
		func() {
			defer func() {
				if p := recover(); (p == http.ErrAbortHandler) != panics { //nolint:errorlint // the very value passes
					t.Errorf("the panic is %v", p)
				}
			}()
			if res, err := tr.RoundTrip(post(t, "/v1/chat/completions", question("a"))); res != nil || err != nil {
				t.Error(res, err)
			}
		}()
		if got := fmt.Sprint(outcomes(seen)); got != "[session.turn no response session.run no response]" {
			t.Errorf("panics %v: %s", panics, got)
		}
		tr.Close()
	}
}
