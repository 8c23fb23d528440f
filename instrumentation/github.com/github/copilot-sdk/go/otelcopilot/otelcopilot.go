// Package otelcopilot traces the sessions of programs on github.com/github/copilot-sdk/go, the SDK of GitHub Copilot:
//
//	tracing := otelcopilot.New(tracer)
//	client := copilot.NewClient(&copilot.ClientOptions{RequestHandler: tracing.RequestHandler(nil)})
//	session, err := client.CreateSession(ctx, config)
//	defer tracing.Watch(ctx, session)()
//
// The runtime's session events, which Watch reads, give runs, turns, tool calls, permissions, compactions, sub-agents
// and usage, with the times of the runtime. RequestHandler gives the exact requests to the model and its replies. Each
// works without the other: without the handler a turn has the reply and usage of the events and no request; requests of
// a session that is not watched pass unrecorded.
//
// A run lasts from a message of the user to the time at which the session is idle or has an error. The runtime does not
// say which turn a request belongs to. It belongs to the open turn of its agent, unless that has a whole reply: then to
// the next one. Calls of another interaction type than a conversation are turns of the purpose utility.
//
// A run continues the one before it. The first one after Watch does not name the run that an earlier Watch, or another
// process, saw last of the session: the runtime does not keep where a run ended.
//
// Not recorded are requests over WebSockets, those of compactions, and events that this list does not name.
//
// In the tests a server plays the runtime (package copilottest): it speaks the SDK's JSON-RPC over its real client,
// with the events of the SDK's types. Of the runtime itself, Copilot CLI 1.0.102 was tried, with a model provider of
// its user's: turns, a tool, a permission and the requests. Sub-agents, compaction, retries and cancellation were not,
// nor the models of GitHub, which want an account.
package otelcopilot

import (
	"context"
	"net/http"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/otelagent/otelagent/otelagent"
)

// ScopeName is the name of this instrumentation, its import path.
const ScopeName = "github.com/otelagent/otelagent/instrumentation/github.com/github/copilot-sdk/go/otelcopilot"

// Version is the version of this module.
const Version = "0.1.0"

// Tracing traces the sessions of any number of clients. Safe for concurrent use.
type Tracing struct {
	tracer *otelagent.Tracer

	mu       sync.Mutex
	sessions map[string]*session // those that are watched
}

// New returns a Tracing that writes with t; with nil it records nothing.
func New(t *otelagent.Tracer) *Tracing {
	return &Tracing{tracer: t, sessions: map[string]*session{}}
}

// direct is like the transport of the SDK, which decodes nothing: the runtime asks for what it can decode. Both are
// made before the program can replace http.DefaultTransport.
var direct = func() http.RoundTripper {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DisableCompression = true
	return base
}()

// RequestHandler returns a handler that does what h does and records the requests of watched sessions to the model,
// with their replies. It changes no byte, holds a reply until it is whole, and decodes it then. With nil it sends
// requests where the runtime would.
func (t *Tracing) RequestHandler(h *copilot.CopilotRequestHandler) *copilot.CopilotRequestHandler {
	var traced copilot.CopilotRequestHandler
	if h != nil {
		traced = *h
	}
	if traced.Transport == nil {
		traced.Transport = direct
	}
	traced.Transport = &transport{t, traced.Transport}
	return &traced
}

// Watch records the events of a session from now on, until the returned function is called or the session shuts down.
// What is open then ends as aborted. Runs start in ctx: in the context of a tool call they are those of a sub-agent.
func (t *Tracing) Watch(ctx context.Context, s *copilot.Session) (stop func()) {
	if t.tracer == nil {
		return func() {}
	}
	w := newSession(ctx, t.tracer, s.SessionID)
	t.mu.Lock()
	t.sessions[w.id] = w
	t.mu.Unlock()
	off := s.On(w.event)
	return sync.OnceFunc(func() {
		off()
		t.mu.Lock()
		if t.sessions[w.id] == w {
			delete(t.sessions, w.id)
		}
		t.mu.Unlock()
		w.end()
	})
}

// toolWait bounds how long ToolContext waits for the event that a call began, which comes at about the same time.
const toolWait = time.Second

// ToolContext returns the context of a tool call, for the handler of a tool that runs an agent of its own or calls
// services. Where the call is not known it is inv.TraceContext.
func (t *Tracing) ToolContext(inv copilot.ToolInvocation) context.Context {
	ctx := inv.TraceContext
	if ctx == nil {
		ctx = context.Background()
	}
	t.mu.Lock()
	s := t.sessions[inv.SessionID]
	t.mu.Unlock()
	if s == nil {
		return ctx
	}
	c, begun := s.call(inv.ToolCallID)
	if begun != nil {
		select {
		case <-begun:
		case <-ctx.Done():
		case <-time.After(toolWait):
		}
		c = s.known(inv.ToolCallID)
	}
	if c == nil {
		return ctx
	}
	return c.ctx
}
