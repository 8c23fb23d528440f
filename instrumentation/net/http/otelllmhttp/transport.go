package otelllmhttp

import (
	"context"
	"net/http"

	"github.com/otelagent/otelagent/otelagent"
)

// Option configures a Transport.
type Option interface{ apply(*Transport) }

type option func(*Transport)

func (o option) apply(t *Transport) { o(t) }

// WithBase sets what sends the requests. Default, and with nil: http.DefaultTransport.
func WithBase(base http.RoundTripper) Option {
	return option(func(t *Transport) {
		if base != nil {
			t.base = base
		}
	})
}

// WithAgent names the agent of inferred runs. Default: none.
func WithAgent(name string) Option { return option(func(t *Transport) { t.agent = name }) }

// Transport records model calls. Safe for concurrent use.
type Transport struct {
	tracer *otelagent.Tracer
	base   http.RoundTripper
	agent  string
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a Transport that sends requests with http.DefaultTransport, or that of [WithBase]. Close it
// before the providers of the tracer are shut down.
func NewTransport(tracer *otelagent.Tracer, opts ...Option) *Transport {
	t := &Transport{tracer: tracer, base: http.DefaultTransport}
	for _, o := range opts {
		if o != nil {
			o.apply(t)
		}
	}
	return t
}

// Middleware returns the Intercept of a new Transport. It has the type option.Middleware of anthropic-sdk-go and of
// openai-go. A program that has to end open runs before it exits makes the Transport, and calls its Close:
//
//	t := otelllmhttp.NewTransport(tracer)
//	defer t.Close()
//	client := anthropic.NewClient(option.WithMiddleware(t.Intercept))
func Middleware(tracer *otelagent.Tracer, opts ...Option) func(
	*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return NewTransport(tracer, opts...).Intercept
}

// RoundTrip sends a request with the base and records it.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.Intercept(req, t.base.RoundTrip)
}

// Intercept sends a request with next and records it. The request is not changed; next gets a copy where its body was
// read. The body of the response passes byte for byte, as it comes.
func (t *Transport) Intercept(req *http.Request, next func(*http.Request) (*http.Response, error)) (
	*http.Response, error) {
	return next(req)
}

// StartTool starts the open tool call of an inferred turn that has that name and these arguments (JSON), with the true
// time of its start, and returns a context for what it does, so that agents in it are sub-agents. Without it the call
// lasts from the reply to the request that has its result, and its times are marked as bounds. Where no call is open
// it returns ctx and nil.
func (t *Transport) StartTool(ctx context.Context, name string, args []byte) (context.Context, *otelagent.Tool) {
	return ctx, nil
}

// Close ends all open runs and forgets all conversations. Requests after it are recorded as those of new ones.
func (t *Transport) Close() {}

// CloseIdleConnections does that of the base, if it has it.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type turnKey struct{}

// ContextWithTurn returns ctx with a turn: model requests with that context are attempts of that turn, whatever run
// ctx is in. It is for integrations that know the turn of a request and cannot give the context of the turn to the SDK.
// The transport then records requests, replies (Turn.Reply) and failed attempts, and does not end the turn.
func ContextWithTurn(ctx context.Context, turn *otelagent.Turn) context.Context {
	return context.WithValue(ctx, turnKey{}, turn)
}
