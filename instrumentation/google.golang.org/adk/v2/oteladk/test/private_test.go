package test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"google.golang.org/adk/v2/session"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/instrumentation/google.golang.org/adk/v2/oteladk"
	"github.com/otelagent/otelagent/otelagent"
)

// Without capture no byte of content is sent.
func TestCaptureNone(t *testing.T) {
	for _, bare := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			a := newApp(t, stream, provider.Reply{Text: "SecretReply", Thinking: "SecretThought", Calls: []provider.Call{
				call("c1", "weather", `{"city":"SecretCity"}`), call("c2", "weather", `{"city":"Atlantis"}`),
				call("c3", "send", `{"city":"SecretLetter"}`)}}, provider.Reply{Status: 400, Error: "SecretError"})
			a.Pipeline = agenttest.New(t)
			a.plugins = oteladk.Plugins(a.Tracer())
			a.client = &http.Client{Transport: a.base}
			if !bare {
				a.client.Transport = oteladk.NewTransport(a.Tracer(), a.base)
			}
			a.use(a.agent("assistant", nil, function(t, "weather", false, weather), function(t, "send", true, weather)))
			a.must(a.ask(t.Context(), "s1", says("SecretQuestion")))
			if a.ask(t.Context(), "s1", a.answers(true)) == nil {
				t.Error("no error")
			}
			for _, batch := range a.OTLP() {
				for _, word := range []string{"Secret", "Atlantis", "no such city", "Be kind", "degrees"} {
					if bytes.Contains(batch, []byte(word)) {
						t.Errorf("%q is sent", word)
					}
				}
			}
			if o := a.Outline(); !strings.Contains(o, "c3 send ok") || !strings.Contains(o, "in 15 out 5") {
				t.Errorf("outline:\n%s", o)
			}
		}
	}
}

// framework is the provider of the framework's own spans, which takes the global one for good.
var framework own

type own struct {
	embedded.TracerProvider
	tracer ownTracer
}

func (o *own) Tracer(string, ...trace.TracerOption) trace.Tracer { return &o.tracer }

type ownTracer struct {
	embedded.Tracer
	now atomic.Pointer[trace.Tracer]
}

func (o *ownTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (
	context.Context, trace.Span) {
	if t := o.now.Load(); t != nil {
		return (*t).Start(ctx, name, opts...)
	}
	return ctx, trace.SpanFromContext(context.Background())
}

// The part of a reply that came before the caller stopped is kept.
func TestPartialReply(t *testing.T) {
	a := newApp(t, true, provider.Reply{Text: "A long answer.",
		Pause: func(ctx context.Context) { <-ctx.Done() }})
	a.stop = func(*session.Event) bool { return true }
	a.must(a.withTool(weather).ask(t.Context(), "s1", says("Weather?")))
	turn := a.Session().Runs[0].Turns[0]
	if !turn.Partial || !turn.Failed {
		t.Errorf("partial %v, failed %v", turn.Partial, turn.Failed)
	}
}

// The tree counts usage once, whether the framework's own spans are on or not, and they change nothing else.
func TestOwnSpans(t *testing.T) {
	defer framework.tracer.now.Store(nil)
	var off string
	for _, on := range []bool{false, true} {
		a := newApp(t, true, provider.Reply{Calls: []provider.Call{call("c1", "weather", `{"city":"Bonn"}`)}},
			provider.Reply{Text: "21."})
		if on {
			tracer := a.Provider().Tracer("gcp.vertex.agent")
			framework.tracer.now.Store(&tracer)
		}
		a.must(a.withTool(weather).ask(t.Context(), "s1", says("Weather?")))
		var in, out int64
		foreign := 0
		for _, s := range a.Sessions() {
			in, out = in+s.Usage.Input, out+s.Usage.Output
			if s.ID != "s1" {
				foreign++
			}
		}
		if in != 30 || out != 10 {
			t.Errorf("own spans %v: %d and %d tokens", on, in, out)
		}
		if (foreign > 0) != on {
			t.Errorf("own spans %v: %d traces of them arrived", on, foreign)
		}
		_, tree, _ := strings.Cut(a.Outline(), "session s1\n")
		if !on {
			off = tree
		} else if tree != off {
			t.Errorf("with own spans:\n%s\nwithout:\n%s", tree, off)
		}
	}
}

// The nil Tracer records nothing and changes nothing.
func TestNilTracer(t *testing.T) {
	var none *otelagent.Tracer
	a := newApp(t, false, provider.Reply{Calls: []provider.Call{call("c1", "weather", `{"city":"Bonn"}`)}},
		provider.Reply{Text: "21."})
	a.plugins, a.client = oteladk.Plugins(none), &http.Client{Transport: oteladk.NewTransport(none, a.base)}
	a.must(a.withTool(weather).ask(t.Context(), "s1", says("Weather?")))
	if len(a.server.Requests()) != 2 || len(a.Sessions()) > 0 {
		t.Error("not as without a plugin")
	}
}
