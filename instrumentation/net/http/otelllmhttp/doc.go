// Package otelllmhttp records the model calls that go over an HTTP client as runs, turns and tool calls, with the exact
// bytes of every request.
//
//	client := &http.Client{Transport: otelllmhttp.NewTransport(tracer)}      // any SDK over HTTP
//	option.WithMiddleware(otelllmhttp.Middleware(tracer))                   // the Anthropic and OpenAI SDKs
//
// It reads Anthropic messages, OpenAI chat completions and responses, and Gemini generateContent, whole and streamed.
// Other requests pass untouched and are not recorded.
//
// Where the context of a request has a turn ([otelagent.TurnFromContext], [ContextWithTurn]), the request is an attempt
// of that turn, and nothing is inferred. Where it has a run, turns of that run are recorded. Else a run is inferred.
package otelllmhttp

// Version is the version of this package.
const Version = "0.1.0"

// ScopeName names this package in telemetry: it is the dialect of the runs that it infers.
const ScopeName = "github.com/otelagent/otelagent/instrumentation/net/http/otelllmhttp"
