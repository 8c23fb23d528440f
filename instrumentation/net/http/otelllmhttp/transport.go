package otelllmhttp

import (
	"container/list"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// The limits of a Transport.
const (
	// maxConversations are remembered. The one whose last request is the oldest is forgotten for a new one, and its open
	// run ends.
	maxConversations = 4096
	// maxKeys are remembered of a conversation: by which requests it goes on.
	maxKeys = 256
	// maxIdle is how long a conversation is remembered after its last request.
	maxIdle = time.Hour
	// maxBody bounds the bytes of a request that is recorded, and those of a reply.
	maxBody = 64 << 20
)

// Option configures a Transport.
type Option interface{ apply(*Transport) }

type option func(*Transport)

func (o option) apply(t *Transport) { o(t) }

// WithBase sets what sends the requests of [Transport.RoundTrip]. Default, and with nil: http.DefaultTransport.
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
	tracer *writer.Tracer
	base   http.RoundTripper
	agent  string
	seed   maphash.Seed

	mu     sync.Mutex
	recent list.List                  // of *conversation, by their last request
	index  map[uint64][]*conversation // by what a request may have in common with them, in the order of time
	timer  *time.Timer                // forgets idle conversations; nil while there is none
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a Transport that sends requests with http.DefaultTransport, or that of [WithBase]. Close it
// before the providers of the tracer are shut down. Without a tracer it records nothing.
func NewTransport(tracer *otelagent.Tracer, opts ...Option) *Transport {
	t := &Transport{tracer: (*writer.Tracer)(tracer), base: http.DefaultTransport, seed: maphash.MakeSeed(),
		index: map[uint64][]*conversation{}}
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
// read, to its end. A Transport below this one does not record it again. The body of the response passes byte for byte,
// as it comes. A panic of next passes, and ends the turn as failed.
func (t *Transport) Intercept(req *http.Request, next func(*http.Request) (*http.Response, error)) (
	res *http.Response, err error) {
	if t.tracer == nil || req.Context().Value(takenKey{}) != nil || !asksModel(req) {
		return next(req)
	}
	req, text, err := readBody(req)
	if err != nil {
		return nil, err
	}
	e := t.begin(req, text)
	if e == nil {
		return next(req)
	}
	why := errNoResponse // also where next panics
	defer func() {
		if why != nil {
			var failed writer.TurnResult
			fail(e.ctx, &failed, why)
			e.end(failed, err != nil && !failed.Cancelled)
		}
	}()
	if res, err = next(req); err != nil || res != nil {
		why = err
	}
	if why == nil {
		if b := newBody(e, res); res.Body != nil {
			res.Body = b
		} else {
			b.took(nil, io.EOF)
		}
	}
	return res, err
}

var errNoResponse = errors.New("no response")

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
	return context.WithValue(ctx, turnKey{}, (*writer.Turn)(turn))
}

// exchange is one request and its response.
type exchange struct {
	ctx  context.Context
	sent time.Time
	turn *writer.Turn
	of   *conversation // nil where the turn is that of the program

	attempt int
}

// begin records a request. It returns nil where that is no model call.
func (t *Transport) begin(req *http.Request, text []byte) *exchange {
	defer writer.Guard(ScopeName)
	ctx := req.Context()
	run, turn, utility := writer.ModelCallIn(ctx)
	if bound, ok := ctx.Value(turnKey{}).(*writer.Turn); ok {
		if turn = bound; bound == nil {
			return nil // of a program without an SDK
		}
	}
	q := t.parse(req, text)
	if q == nil {
		return nil
	}
	e := &exchange{ctx: ctx, sent: time.Now(), turn: turn}
	switch {
	case turn != nil:
		e.request(q)
	case utility:
		e.of = &conversation{t: t, utility: true}
		e.of.ask(e, q, run, nil, false)
	default:
		c, from, again := t.enter(q)
		e.of = c
		c.ask(e, q, run, from, again)
	}
	return e
}

// request records the request as the next attempt of the turn.
func (e *exchange) request(q *request) {
	e.attempt, _, _ = e.turn.Tried()
	q.Attempt = e.attempt
	e.turn.Request(q.Request)
}

// end records the reply, or how the attempt failed. again says that a client may repeat the request.
func (e *exchange) end(res writer.TurnResult, again bool) {
	defer writer.Guard(ScopeName)
	if e.of != nil {
		e.of.answer(e, res, again)
	} else if e.last() {
		e.turn.Reply(res)
	}
}

// explain replaces the failure that end recorded by one that has the words of the body, unless the client has asked
// again or the turn is over.
func (e *exchange) explain(res writer.TurnResult) {
	defer writer.Guard(ScopeName)
	c := e.of
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	if !e.last() || c != nil && c.turn != e.turn {
		return
	}
	e.turn.Reply(res)
	if c != nil {
		c.seen, c.failure.Error = time.Now(), res.Error
	}
}

// last reports whether the request is the last one of its turn.
func (e *exchange) last() bool {
	attempts, _, _ := e.turn.Tried()
	return attempts <= e.attempt+1
}

// StartTool starts the open tool call of an inferred turn that has that name and these arguments (JSON), with the true
// time of its start, and returns a context for what it does, so that agents in it are sub-agents. Without it the call
// lasts from the reply to the request that has its result, and its times are marked as bounds. It returns ctx and nil
// where no such call is open, and where several conversations have one, since nothing says whose it is.
func (t *Transport) StartTool(ctx context.Context, name string, args []byte) (context.Context, *otelagent.Tool) {
	key := t.key("tool", name)
	t.mu.Lock()
	list := slices.Clone(t.index[key])
	t.mu.Unlock()
	list = slices.DeleteFunc(list, func(c *conversation) bool {
		_, _, open := c.startTool(ctx, name, args, false)
		return !open
	})
	if len(list) != 1 {
		return ctx, nil
	}
	ctx, tool, _ := list[0].startTool(ctx, name, args, true)
	return ctx, (*otelagent.Tool)(tool)
}

// Close ends all open runs and forgets all conversations. A later request begins a new one. A reply that comes after
// Close to a request before it is not recorded.
func (t *Transport) Close() {
	t.mu.Lock()
	gone := t.forget(func(*conversation) bool { return true })
	t.mu.Unlock()
	closeAll(gone)
}
