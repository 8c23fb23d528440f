package otelacp

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/otelagent"
)

// cases are what a connection can go through. The outline is that of both sides where they can see the same.
var cases = []struct {
	name   string
	script func(context.Context, *turn) (sdk.PromptResponse, error)
	answer answer
	run    func(*testing.T, *pair)
	want   string
	agent  string // where the outline of the agent's side differs
}{
	{
		name: "parallel tools of which one fails",
		script: func(_ context.Context, p *turn) (sdk.PromptResponse, error) {
			p.says("I look.")
			p.starts("c1", "a.go")
			p.starts("c2", "b.go")
			p.ends("c2", sdk.ToolCallStatusFailed, "no such file")
			p.ends("c1", sdk.ToolCallStatusCompleted, "package a")
			p.says("There is one.")
			return done()
		},
		want: `
session s1
  run scripted completed
    turn 0 user
      tool c1 read ok
      tool c2 read error "no such file"
    turn 1 continuation end_turn
`,
	},
	{
		name: "two questions in one conversation",
		script: func(_ context.Context, p *turn) (sdk.PromptResponse, error) {
			p.says("answer to " + p.text)
			return done()
		},
		run: func(t *testing.T, p *pair) {
			for _, q := range []string{"one?", "two?"} {
				if err := p.prompt(t.Context(), "s1", q); err != nil {
					t.Error(err)
				}
			}
		},
		want: `
session s1
  run scripted completed
    turn 0 user end_turn
  run scripted completed continues 1
    turn 0 user end_turn
`,
	},
	{
		name: "two conversations at once",
		script: func(ctx context.Context, p *turn) (sdk.PromptResponse, error) {
			p.says("I look.")
			if p.session == "s1" { // goes on when the other has ended
				p.waits(ctx)
			}
			p.starts("c1", string(p.session))
			p.ends("c1", sdk.ToolCallStatusCompleted, "package a")
			return done()
		},
		run: func(t *testing.T, p *pair) {
			p.open()
			var first sync.WaitGroup
			first.Go(func() {
				if err := p.prompt(t.Context(), "s1", "first?"); err != nil {
					t.Error(err)
				}
			})
			<-p.script.reached
			if err := p.prompt(t.Context(), "s2", "second?"); err != nil {
				t.Error(err)
			}
			close(p.script.goOn)
			first.Wait()
		},
		want: `
session s1
  run scripted completed
    turn 0 user end_turn
      tool c1 read ok
session s2
  run scripted completed
    turn 0 user end_turn
      tool c1 read ok
`,
	},
	{
		name: "an error",
		script: func(_ context.Context, p *turn) (sdk.PromptResponse, error) {
			p.says("I beg")
			return sdk.PromptResponse{}, sdk.NewInternalError("the model is away")
		},
		run: func(t *testing.T, p *pair) {
			if err := p.prompt(t.Context(), "s1", "?"); err == nil {
				t.Error("no error")
			}
		},
		want: `
session s1
  run scripted error "Internal error"
    turn 0 user failed provider_error "Internal error"
`,
	},
	{
		name: "cancellation in a model call",
		script: func(ctx context.Context, p *turn) (sdk.PromptResponse, error) {
			p.says("I beg")
			p.waits(ctx)
			return sdk.PromptResponse{StopReason: sdk.StopReasonCancelled}, nil
		},
		run: cancels,
		want: `
session s1
  run scripted cancelled
    turn 0 user cancelled failed cancelled
`,
	},
	{
		name: "cancellation in a tool",
		script: func(ctx context.Context, p *turn) (sdk.PromptResponse, error) {
			p.starts("c1", "a.go")
			p.waits(ctx)
			p.ends("c1", sdk.ToolCallStatusFailed, "cancelled")
			return sdk.PromptResponse{StopReason: sdk.StopReasonCancelled}, nil
		},
		run: cancels,
		want: `
session s1
  run scripted cancelled
    turn 0 user cancelled failed cancelled
      tool c1 read error "cancelled"
`,
	},
	{
		name: "a loop that stops with calls open",
		script: func(_ context.Context, p *turn) (sdk.PromptResponse, error) {
			p.starts("c1", "a.go")
			return sdk.PromptResponse{StopReason: sdk.StopReasonMaxTurnRequests}, nil
		},
		want: `
session s1
  run scripted completed
    turn 0 user max_turn_requests
      tool c1 read bound
`,
	},
	{
		name: "compaction",
		script: func(_ context.Context, p *turn) (sdk.PromptResponse, error) {
			// The SDK does not have this update yet: it goes past the agent's side.
			for _, status := range []string{"in_progress", "completed"} {
				_, _ = io.WriteString(p.agent.raw, `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1",`+
					`"update":{"sessionUpdate":"compaction_update","compactionId":"k1","status":"`+status+`"}}}`+"\n")
			}
			p.says("shorter now")
			return done()
		},
		want: `
session s1
  run scripted completed
    turn 0 user end_turn
      compaction summary
`,
		agent: `
session s1
  run scripted completed
    turn 0 user end_turn
`,
	},
	{
		name:   "approval given",
		script: asking,
		answer: chooses("allow"),
		want: `
session s1
  run scripted completed
    turn 0 user
      tool c1 read ok
        permission read allow once
    turn 1 continuation end_turn
`,
	},
	{
		name:   "approval refused",
		script: asking,
		answer: chooses("reject"),
		want: `
session s1
  run scripted completed
    turn 0 user
      tool c1 read denied "refused"
        permission read deny once
    turn 1 continuation end_turn
`,
	},
	{
		name:   "approval never answered",
		script: asking,
		answer: func(ctx context.Context, a *scripted) (sdk.RequestPermissionResponse, error) {
			a.reached <- struct{}{}
			<-ctx.Done() // the connection ends
			return sdk.RequestPermissionResponse{}, ctx.Err()
		},
		run: cut,
		want: `
session s1
  run scripted aborted
    turn 0 user
      tool c1 read bound
        permission read ask
`,
	},
	{
		name: "a connection cut in the middle",
		script: func(ctx context.Context, p *turn) (sdk.PromptResponse, error) {
			p.says("I beg")
			p.starts("c1", "a.go")
			p.waits(ctx)
			return sdk.PromptResponse{}, ctx.Err()
		},
		run: cut,
		want: `
session s1
  run scripted aborted
    turn 0 user
      tool c1 read bound
`,
	},
	{
		name: "a line that is too long for the SDK",
		script: func(ctx context.Context, p *turn) (sdk.PromptResponse, error) {
			p.says("I beg")
			_, _ = io.WriteString(p.agent.raw, strings.Repeat("x", 11<<20))
			return sdk.PromptResponse{}, ctx.Err()
		},
		run: func(t *testing.T, p *pair) {
			if err := p.prompt(t.Context(), "s1", "?"); err == nil {
				t.Error("no error")
			}
			if outline := p.outline(); p.traced != nil && outline == "" {
				t.Error("the run is still open")
			}
		},
		want: `
session s1
  run scripted aborted
    turn 0 user
`,
	},
}

// asking starts a call and asks for permission.
func asking(ctx context.Context, p *turn) (sdk.PromptResponse, error) {
	p.starts("c1", "a.go")
	allowed, err := p.asks(ctx, "c1")
	if err != nil {
		return sdk.PromptResponse{}, err
	}
	if allowed {
		p.ends("c1", sdk.ToolCallStatusCompleted, "package a")
	} else {
		p.ends("c1", sdk.ToolCallStatusFailed, "refused")
	}
	p.says("so be it")
	return done()
}

// cancels cancels a prompt where its script waits.
func cancels(t *testing.T, p *pair) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { <-p.script.reached; cancel() }()
	if err := p.prompt(ctx, "s1", "?"); err == nil {
		t.Error("no error")
	}
	for !strings.Contains(p.outline(), " cancelled\n") { // the client does not wait for the answer
		time.Sleep(time.Millisecond)
	}
}

// cut ends the connection where a script waits.
func cut(t *testing.T, p *pair) {
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.prompt(t.Context(), "s1", "?") }()
	<-p.script.reached
	p.close()
	<-ended
}

func TestCases(t *testing.T) {
	for _, tt := range cases {
		for _, at := range []side{atClient, atAgent} {
			t.Run(tt.name+" at "+string(at), func(t *testing.T) {
				pipe := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
				p := connect(t, at, pipe.Tracer(), tt.answer, newScripted(tt.script))
				p.outline = pipe.Outline
				if tt.run != nil {
					tt.run(t, p)
				} else if err := p.prompt(t.Context(), "s1", "What is there?"); err != nil {
					t.Error(err)
				}
				p.close()
				want := tt.want
				if at == atAgent && tt.agent != "" {
					want = tt.agent
				}
				if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), pipe.Outline()); diff != "" {
					t.Errorf("outline (-want +got):\n%s", diff)
				}
			})
		}
	}
}
