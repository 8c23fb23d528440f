// Package test has the tests of otelcopilot on a fake model API and a fake runtime. It is a module of its own so that
// otelcopilot requires no SDK of OpenTelemetry beyond its floor.
package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/instrumentation/github.com/github/copilot-sdk/go/otelcopilot"
	"github.com/otelagent/otelagent/instrumentation/github.com/github/copilot-sdk/go/otelcopilot/copilottest"
	"github.com/otelagent/otelagent/otelagent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one plays a message of a user with one turn.
func one(b *bench, p *copilottest.Prompt) {
	b.user(p)
	b.turn(p, "", "0", p.Text, 1)
	b.turnEnds(p, "", "0")
	b.idle(p)
}

// A program that uses Copilot in a tool of its own loop: Copilot's runs are those of a sub-agent.
func TestWatchedInATool(t *testing.T) {
	b := newBench(t, true, true, one)
	b.play(texts(1), nil, func(b *bench) {
		ctx, run := b.pipe.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "main", Agent: "boss"})
		ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
		ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c9", Name: "delegate"})
		s, end := b.open(ctx)
		ask(t, s, "?")
		end()
		call.End(otelagent.ToolResult{})
		turn.End(otelagent.TurnResult{})
		run.End(otelagent.RunResult{})
	})
	for _, s := range b.pipe.Sessions() {
		for _, r := range s.Runs {
			if s.ID == "s1" && (r.ParentSessionID != "main" || r.ParentToolCallID != "c9") {
				t.Errorf("the run's parent is %q, call %q", r.ParentSessionID, r.ParentToolCallID)
			}
		}
	}
}

// A tool of the program that runs an agent of its own: that is a sub-agent of the call, whichever is seen first, the
// event that it began or the request to run it.
func TestToolContext(t *testing.T) {
	b := newBench(t, true, false, func(b *bench, p *copilottest.Prompt) {
		b.user(p)
		b.turn(p, "", "0", p.Text, 1)
		b.callBegins(p, "", "c1", "research")
		p.Decide("", "external_tool.requested", copilottest.Data{"requestId": "t1", "sessionId": p.Session,
			"toolCallId": "c1", "toolName": "research", "arguments": copilottest.Data{}})
		b.callEnds(p, "", "c1", true)
		b.turnEnds(p, "", "0")
		b.idle(p)
	})
	b.config.Tools = []copilot.Tool{{Name: "research", Parameters: copilottest.Data{"type": "object"},
		Handler: func(inv copilot.ToolInvocation) (copilot.ToolResult, error) {
			_, run := b.pipe.Tracer().StartRun(b.tracing.ToolContext(inv), otelagent.RunInfo{Agent: "researcher"})
			run.End(otelagent.RunResult{})
			return copilot.ToolResult{TextResultForLLM: "found"}, nil
		}}}
	b.play(texts(1), nil, nil)
	want := `session s1
  run copilot completed
    turn 0 user stop in 15 out 5 cached 3
      tool c1 research ok
        run researcher completed
`
	if diff := cmp.Diff(want, b.pipe.Outline()); diff != "" {
		t.Error(diff)
	}
}

// A compaction that the user asks for between two messages is a run of its own.
func TestCompactionAlone(t *testing.T) {
	b := newBench(t, false, false, func(b *bench, p *copilottest.Prompt) {
		p.Says("", "session.compaction_start", copilottest.Data{"trigger": "manual"})
		p.Says("", "session.compaction_complete", copilottest.Data{"success": true})
		one(b, p)
	})
	b.play(texts(0), nil, nil)
	want := `session s1
  run copilot completed
    compaction summary manual
  run copilot completed continues 1
    turn 0 user stop in 15 out 5 cached 3
`
	if diff := cmp.Diff(want, b.pipe.Outline()); diff != "" {
		t.Error(diff)
	}
}

// A stream that is cut keeps the part of the reply that came.
func TestPartialReply(t *testing.T) {
	b := newBench(t, true, true, failing, otelagent.WithCapture(otelagent.CaptureContent))
	b.play(func(b *bench) []provider.Reply {
		return []provider.Reply{{Text: "I look for it.", Pause: func(ctx context.Context) {
			<-b.arrived
			b.waits(ctx)
		}}}
	}, nil, abort)
	turn := b.pipe.Session().Runs[0].Turns[0]
	if turn.Output == nil || !turn.Failed || len(turn.Requests) != 1 {
		t.Errorf("output %v, failed %v, %d requests", turn.Output, turn.Failed, len(turn.Requests))
	}
}

// Without capture no byte of a message, a reply, an argument, a result or an error is sent.
func TestNothingLeavesWithoutCapture(t *testing.T) {
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, true, true, tt.script)
			b.play(tt.replies, tt.decide, tt.run)
			for _, batch := range b.pipe.OTLP() {
				for _, content := range []string{"What is", "I look", "a.go", "package a", "no such file", "in short",
					"model is away", "too long", "a title"} {
					if bytes.Contains(batch, []byte(content)) {
						t.Errorf("%q was sent", content)
					}
				}
			}
		})
	}
}

// recovers is a transport that turns a panic of another one into an error.
type recovers struct{ http.RoundTripper }

func (f recovers) RoundTrip(r *http.Request) (res *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("recovered: %v", p)
		}
	}()
	if res, err = f.RoundTripper.RoundTrip(r); res == nil && err == nil {
		err = errors.New("nothing")
	}
	return res, err
}

type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A panic of the program's own transport passes. Its request has failed, and so has one without a response.
func TestNoResponse(t *testing.T) {
	for _, base := range []answers{
		func(*http.Request) (*http.Response, error) { panic("the transport breaks") },
		func(*http.Request) (*http.Response, error) { return nil, nil },
	} {
		b := newBench(t, true, false, failing, otelagent.WithCapture(otelagent.CaptureContent))
		b.base = recovers{b.tracing.RequestHandler(&copilot.CopilotRequestHandler{Transport: base}).Transport}
		b.play(texts(0), nil, nil)
		want := `session s1
  run copilot error "the model is away"
    turn 0 user failed provider_error "no response"
`
		if diff := cmp.Diff(want, b.pipe.Outline()); diff != "" {
			t.Error(diff)
		}
	}
}

// A program may have replaced the default transport by one of another type.
func TestDefaultTransport(t *testing.T) {
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = recovers{before}
	if h := otelcopilot.New(nil).RequestHandler(nil); h.Transport == nil {
		t.Error("no transport")
	}
}

// Requests of a session that nobody watches pass, and nothing is recorded.
func TestNotWatched(t *testing.T) {
	for _, tracer := range []*otelagent.Tracer{nil, otelagent.NewTracer()} {
		b := newBench(t, true, false, one)
		b.tracing = otelcopilot.New(tracer)
		b.play(texts(1), nil, func(b *bench) {
			config := copilot.SessionConfig{SessionID: "s1"}
			s, err := b.client.CreateSession(t.Context(), &config)
			if err != nil {
				t.Fatal(err)
			}
			if tracer == nil {
				defer b.tracing.Watch(t.Context(), s)()
			}
			ask(t, s, "?")
		})
		if n := len(b.model.Bodies()); n != 1 || len(b.pipe.Sessions()) > 0 {
			t.Errorf("%d requests, %d sessions", n, len(b.pipe.Sessions()))
		}
	}
}
