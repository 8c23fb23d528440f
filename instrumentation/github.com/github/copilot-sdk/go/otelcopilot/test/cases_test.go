package test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/instrumentation/github.com/github/copilot-sdk/go/otelcopilot"
	"github.com/otelagent/otelagent/instrumentation/github.com/github/copilot-sdk/go/otelcopilot/copilottest"
	"github.com/otelagent/otelagent/otelagent"
)

// bench is one runtime, the real client of the SDK, and a model API.
type bench struct {
	t       *testing.T
	tracing *otelcopilot.Tracing
	pipe    *agenttest.Pipeline
	model   *provider.Server
	runtime *copilottest.Runtime
	client  *copilot.Client
	stream  bool
	handler bool // whether the client handles requests to the model
	config  copilot.SessionConfig
	reached chan struct{} // where a script waits
	arrived chan struct{} // a piece of a reply was read

	sessions int
	base     http.RoundTripper // of all requests to the model, if it is not nil
}

func (b *bench) start() {
	b.t.Helper()
	options := &copilot.ClientOptions{Connection: copilot.URIConnection{URL: b.runtime.URL}}
	if b.handler {
		base := &http.Transport{DisableCompression: true}
		b.t.Cleanup(base.CloseIdleConnections)
		options.RequestHandler = b.tracing.RequestHandler(&copilot.CopilotRequestHandler{Transport: arriving{base, b}})
		if b.base != nil {
			options.RequestHandler.Transport = b.base
		}
	}
	b.client = copilot.NewClient(options)
	if err := b.client.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// arriving is a transport that reports the first piece of each reply to the bench.
type arriving struct {
	*http.Transport
	b *bench
}

func (a arriving) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := a.Transport.RoundTrip(r)
	if err == nil {
		res.Body = &arrivingBody{res.Body, a.b}
	}
	return res, err
}

type arrivingBody struct {
	io.ReadCloser
	b *bench
}

func (a *arrivingBody) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	select {
	case a.b.arrived <- struct{}{}:
	default:
	}
	return n, err
}

// open creates a session that is watched.
func (b *bench) open(ctx context.Context) (*copilot.Session, func()) {
	b.t.Helper()
	config := b.config
	b.sessions++
	config.SessionID = fmt.Sprint("s", b.sessions)
	s, err := b.client.CreateSession(b.t.Context(), &config)
	if err != nil {
		b.t.Fatal(err)
	}
	stop := b.tracing.Watch(ctx, s)
	return s, func() {
		stop()
		if err := s.Disconnect(); err != nil {
			b.t.Error(err)
		}
	}
}

func ask(t *testing.T, s *copilot.Session, text string) {
	t.Helper()
	_, _ = s.SendAndWait(t.Context(), copilot.MessageOptions{Prompt: text}) // an error is part of the outline
}

// turn plays a turn up to its tools: the model is asked until it answers.
func (b *bench) turn(p *copilottest.Prompt, agent, id, question string, attempts int) bool {
	p.Says(agent, "assistant.turn_start", copilottest.Data{"turnId": id, "model": "m-1"})
	ok := true
	for range attempts {
		interaction := "conversation-agent"
		if agent != "" {
			interaction = "conversation-subagent"
		}
		if b.handler {
			_, ok = p.Model(agent, interaction, b.model.URL+"/v1/chat/completions", fmt.Sprintf(
				`{"model":"m-1", "stream":%v,"messages":[{"role":"user","content":%q}],"n":1}`, b.stream, question))
		}
	}
	if ok {
		p.Says(agent, "assistant.usage", copilottest.Data{"model": "m-1", "inputTokens": 15, "outputTokens": 5,
			"cacheReadTokens": 3, "finishReason": "stop", "interactionType": "conversation-agent"})
		p.Says(agent, "assistant.message", copilottest.Data{"messageId": "m", "content": "I look.", "turnId": id})
	}
	return ok
}

func (b *bench) turnEnds(p *copilottest.Prompt, agent, id string) {
	p.Says(agent, "assistant.turn_end", copilottest.Data{"turnId": id})
}

func (b *bench) callBegins(p *copilottest.Prompt, agent, id, tool string) {
	p.Says(agent, "tool.execution_start", copilottest.Data{"toolCallId": id, "toolName": tool,
		"arguments": copilottest.Data{"path": "a.go"}})
}

func (b *bench) callEnds(p *copilottest.Prompt, agent, id string, ok bool) {
	data := copilottest.Data{"toolCallId": id, "success": ok}
	if ok {
		data["result"] = copilottest.Data{"content": "package a"}
	} else {
		data["error"] = copilottest.Data{"message": "no such file"}
	}
	p.Says(agent, "tool.execution_complete", data)
}

func (b *bench) user(p *copilottest.Prompt) {
	p.Says("", "user.message", copilottest.Data{"content": p.Text})
}
func (b *bench) idle(p *copilottest.Prompt) { p.Says("", "session.idle", copilottest.Data{}) }

func (b *bench) error(p *copilottest.Prompt) {
	p.Says("", "session.error", copilottest.Data{"errorType": "query", "message": "the model is away"})
}

// aborted is what the runtime says after session.abort.
func (b *bench) aborted(p *copilottest.Prompt) {
	p.Says("", "abort", copilottest.Data{"reason": "user_initiated"})
	b.turnEnds(p, "", "0")
	p.Says("", "session.idle", copilottest.Data{"aborted": true})
}

func (b *bench) permission(p *copilottest.Prompt) ([]byte, bool) {
	return p.Decide("", "permission.requested", copilottest.Data{"requestId": "p1", "permissionRequest": copilottest.Data{
		"kind": "shell", "toolCallId": "c1", "fullCommandText": "ls", "intention": "list", "commands": []any{},
		"possiblePaths": []any{}, "possibleUrls": []any{}, "hasWriteFileRedirection": false,
		"canOfferSessionApproval": false}})
}

// asking plays a turn whose call wants permission.
func asking(b *bench, p *copilottest.Prompt) {
	b.user(p)
	b.turn(p, "", "0", p.Text, 1)
	b.callBegins(p, "", "c1", "bash")
	decision, answered := b.permission(p)
	if !answered {
		b.aborted(p)
		return
	}
	kind, allowed := "denied-interactively-by-user", bytes.Contains(decision, []byte("approve"))
	if allowed {
		kind = "approved"
	}
	p.Says("", "permission.completed", copilottest.Data{"requestId": "p1", "toolCallId": "c1",
		"result": copilottest.Data{"kind": kind}})
	b.callEnds(p, "", "c1", allowed)
	b.turnEnds(p, "", "0")
	b.idle(p)
}

// failing plays a turn whose model call fails, or is cancelled.
func failing(b *bench, p *copilottest.Prompt) {
	b.user(p)
	p.Says("", "assistant.turn_start", copilottest.Data{"turnId": "0"})
	p.Model("", "", b.model.URL+"/v1/chat/completions", fmt.Sprintf(
		`{"model":"m-1","stream":%v,"messages":[{"role":"user","content":"?"}]}`, b.stream))
	if p.Context.Err() != nil {
		b.aborted(p)
		return
	}
	b.turnEnds(p, "", "0")
	b.error(p)
}

// abort aborts the session where the script waits.
func abort(b *bench) {
	s, end := b.open(b.t.Context())
	defer end()
	go func() { <-b.reached; _ = s.Abort(context.WithoutCancel(b.t.Context())) }()
	ask(b.t, s, "What is there?")
}

func (b *bench) waits(ctx context.Context) {
	b.reached <- struct{}{}
	<-ctx.Done()
}

type decide = func(copilot.PermissionRequest, copilot.PermissionInvocation) (rpc.PermissionDecision, error)

var cases = []struct {
	name    string
	only    []string // modes
	replies func(*bench) []provider.Reply
	script  func(*bench, *copilottest.Prompt)
	decide  decide
	run     func(*bench)
	want    string
}{
	{
		name: "parallel tools of which one fails",
		script: func(b *bench, p *copilottest.Prompt) {
			b.user(p)
			b.turn(p, "", "0", p.Text, 1)
			b.callBegins(p, "", "c1", "view")
			b.callBegins(p, "", "c2", "view")
			b.callEnds(p, "", "c2", false)
			b.callEnds(p, "", "c1", true)
			b.turnEnds(p, "", "0")
			b.turn(p, "", "1", "results", 1)
			b.turnEnds(p, "", "1")
			b.idle(p)
		},
		replies: texts(2),
		want: `
session s1
  run copilot completed
    turn 0 user stop in 15 out 5 cached 3
      tool c1 view ok
      tool c2 view error "no such file"
    turn 1 continuation stop in 15 out 5 cached 3
`,
	},
	{
		name: "an attempt refused and asked again",
		only: []string{"whole", "streamed"},
		script: func(b *bench, p *copilottest.Prompt) {
			b.user(p)
			b.turn(p, "", "0", p.Text, 2)
			b.turnEnds(p, "", "0")
			b.idle(p)
		},
		replies: func(*bench) []provider.Reply { return []provider.Reply{{Status: 429}, {Text: "I look."}} },
		want: `
session s1
  run copilot completed
    turn 0 user stop in 15 out 5 cached 3 attempts 2 discarded 1
`,
	},
	{
		name: "two questions in one conversation",
		script: func(b *bench, p *copilottest.Prompt) {
			b.user(p)
			b.turn(p, "", "0", p.Text, 1)
			b.turnEnds(p, "", "0")
			b.idle(p)
		},
		replies: texts(2),
		run: func(b *bench) {
			s, end := b.open(b.t.Context())
			defer end()
			ask(b.t, s, "one?")
			ask(b.t, s, "two?")
		},
		want: `
session s1
  run copilot completed
    turn 0 user stop in 15 out 5 cached 3
  run copilot completed continues 1
    turn 0 user stop in 15 out 5 cached 3
`,
	},
	{
		name: "two conversations at once",
		script: func(b *bench, p *copilottest.Prompt) {
			b.user(p)
			b.turn(p, "", "0", p.Text, 1)
			if p.Session == "s1" { // goes on when the other has ended
				b.reached <- struct{}{}
				<-b.reached
			}
			b.callBegins(p, "", "c1", "view")
			b.callEnds(p, "", "c1", true)
			b.turnEnds(p, "", "0")
			b.idle(p)
		},
		replies: texts(2),
		run: func(b *bench) {
			first, end := b.open(b.t.Context())
			defer end()
			second, end := b.open(b.t.Context())
			defer end()
			done := make(chan struct{})
			go func() { defer close(done); ask(b.t, first, "first?") }()
			<-b.reached
			ask(b.t, second, "second?")
			b.reached <- struct{}{}
			<-done
		},
		want: `
session s1
  run copilot completed
    turn 0 user stop in 15 out 5 cached 3
      tool c1 view ok
session s2
  run copilot completed
    turn 0 user stop in 15 out 5 cached 3
      tool c1 view ok
`,
	},
	{
		name: "a loop that stops with calls open",
		script: func(b *bench, p *copilottest.Prompt) {
			b.user(p)
			b.turn(p, "", "0", p.Text, 1)
			b.callBegins(p, "", "c1", "view")
			b.error(p)
		},
		replies: texts(1),
		want: `
session s1
  run copilot error "the model is away"
    turn 0 user stop in 15 out 5 cached 3
      tool c1 view bound
`,
	},
	{
		name: "a sub-agent in a tool",
		script: func(b *bench, p *copilottest.Prompt) {
			b.user(p)
			b.turn(p, "", "0", p.Text, 1)
			b.callBegins(p, "", "c1", "task")
			p.Says("a1", "subagent.started", copilottest.Data{"toolCallId": "c1", "agentName": "explore",
				"agentDisplayName": "Explore", "agentDescription": "explores"})
			b.turn(p, "a1", "0", "explore", 1)
			b.callBegins(p, "a1", "c2", "view")
			b.callEnds(p, "a1", "c2", true)
			b.turnEnds(p, "a1", "0")
			p.Says("a1", "subagent.completed", copilottest.Data{"toolCallId": "c1", "agentName": "explore",
				"agentDisplayName": "Explore"})
			b.callEnds(p, "", "c1", true)
			b.turnEnds(p, "", "0")
			b.idle(p)
		},
		replies: texts(2),
		want: `
session s1
  run copilot completed
    turn 0 user stop in 15 out 5 cached 3
      tool c1 task ok
        run explore completed
          turn 0 continuation stop in 15 out 5 cached 3
            tool c2 view ok
`,
	},
	{
		name: "compaction",
		script: func(b *bench, p *copilottest.Prompt) {
			b.user(p)
			b.turn(p, "", "0", p.Text, 1)
			b.turnEnds(p, "", "0")
			p.Says("", "session.compaction_start", copilottest.Data{"conversationTokens": 900, "trigger": "auto"})
			p.Says("", "session.compaction_complete", copilottest.Data{"success": true, "preCompactionTokens": 900,
				"postCompactionTokens": 90, "summaryContent": "in short", "messagesRemoved": 8,
				"compactionTokensUsed": copilottest.Data{"inputTokens": 900, "outputTokens": 90}})
			b.turn(p, "", "1", "shorter", 1)
			b.turnEnds(p, "", "1")
			b.idle(p)
		},
		replies: texts(2),
		want: `
session s1
  run copilot completed
    compaction summary auto
    turn 0 user stop in 15 out 5 cached 3
    turn 1 continuation stop in 15 out 5 cached 3
`,
	},
	{
		name:    "approval given",
		script:  asking,
		replies: texts(1),
		decide:  copilot.PermissionHandler.ApproveAll,
		want: `
session s1
  run copilot completed
    turn 0 user stop in 15 out 5 cached 3
      tool c1 bash ok
        permission bash allow once
`,
	},
	{
		name:    "approval refused",
		script:  asking,
		replies: texts(1),
		decide: func(copilot.PermissionRequest, copilot.PermissionInvocation) (rpc.PermissionDecision, error) {
			return &rpc.PermissionDecisionReject{}, nil
		},
		want: `
session s1
  run copilot completed
    turn 0 user stop in 15 out 5 cached 3
      tool c1 bash denied "no such file"
        permission bash deny once
`,
	},
	{
		name:    "approval never answered",
		script:  asking,
		replies: texts(1),
		run: func(b *bench) {
			b.config.OnPermissionRequest = func(copilot.PermissionRequest, copilot.PermissionInvocation) (
				rpc.PermissionDecision, error) {
				b.reached <- struct{}{}
				return &rpc.PermissionDecisionNoResult{}, nil
			}
			abort(b)
		},
		want: `
session s1
  run copilot cancelled
    turn 0 user stop in 15 out 5 cached 3
      tool c1 bash bound
        permission bash ask
`,
	},
	{
		name: "cancellation in a tool",
		script: func(b *bench, p *copilottest.Prompt) {
			b.user(p)
			b.turn(p, "", "0", p.Text, 1)
			b.callBegins(p, "", "c1", "view")
			b.waits(p.Context)
			p.Says("", "abort", copilottest.Data{"reason": "user_initiated"})
			b.callEnds(p, "", "c1", false)
			b.aborted(p)
		},
		replies: texts(1),
		run:     abort,
		want: `
session s1
  run copilot cancelled
    turn 0 user stop in 15 out 5 cached 3
      tool c1 view cancelled "no such file"
`,
	},
	{
		name:    "an error that is not retried",
		only:    []string{"whole", "streamed"},
		script:  failing,
		replies: func(*bench) []provider.Reply { return []provider.Reply{{Status: 400, Error: "too long"}} },
		want: `
session s1
  run copilot error "the model is away"
    turn 0 user failed provider_error "server_error: too long"
`,
	},
	{
		name:    "a stream cut in the middle",
		only:    []string{"streamed"},
		script:  failing,
		replies: func(*bench) []provider.Reply { return []provider.Reply{{Text: "I look.", Cut: true}} },
		want: `
session s1
  run copilot error "the model is away"
    turn 0 user failed provider_error "unexpected EOF"
`,
	},
	{
		name:    "an error in the middle of a stream",
		only:    []string{"streamed"},
		script:  failing,
		replies: func(*bench) []provider.Reply { return []provider.Reply{{Text: "I look.", Error: "overloaded"}} },
		want: `
session s1
  run copilot error "the model is away"
    turn 0 user failed provider_error "server_error: overloaded"
`,
	},
	{
		name:   "cancellation in a model call",
		only:   []string{"streamed"},
		script: failing,
		replies: func(b *bench) []provider.Reply {
			return []provider.Reply{{Text: "I look.", Pause: func(ctx context.Context) { b.waits(ctx) }}}
		},
		run: abort,
		want: `
session s1
  run copilot cancelled
    turn 0 user failed cancelled "context canceled"
`,
	},
	{
		name: "calls that are no part of the conversation",
		only: []string{"whole", "streamed"},
		script: func(b *bench, p *copilottest.Prompt) {
			b.user(p)
			b.turn(p, "", "0", p.Text, 1)
			p.Model("", "conversation-background", b.model.URL+"/v1/chat/completions",
				`{"model":"m-2","messages":[{"role":"user","content":"a title"}]}`)
			p.Says("", "assistant.usage", copilottest.Data{"model": "m-2", "inputTokens": 15, "outputTokens": 5,
				"interactionType": "conversation-background"})
			b.turnEnds(p, "", "0")
			b.idle(p)
		},
		replies: texts(2),
		want: `
session s1
  run copilot completed
    turn 0 user stop in 15 out 5 cached 3
    turn 1 utility stop in 15 out 5 cached 3
`,
	},
}

func texts(n int) func(*bench) []provider.Reply {
	return func(*bench) (l []provider.Reply) {
		for range n {
			l = append(l, provider.Reply{Text: "I look."})
		}
		return l
	}
}

func newBench(t *testing.T, handler, stream bool, script func(*bench, *copilottest.Prompt),
	opts ...otelagent.Option) *bench {
	t.Helper()
	b := &bench{t: t, handler: handler, stream: stream, reached: make(chan struct{}, 1),
		arrived: make(chan struct{}, 1)}
	b.pipe = agenttest.New(t, opts...)
	b.tracing = otelcopilot.New(b.pipe.Tracer())
	var err error
	if b.runtime, err = copilottest.Start(func(p *copilottest.Prompt) { script(b, p) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.runtime.Close)
	return b
}

func (b *bench) play(replies func(*bench) []provider.Reply, decide decide, run func(*bench)) {
	b.model = provider.New(b.t, replies(b)...)
	b.config.OnPermissionRequest = decide
	b.start()
	if run == nil {
		run = func(b *bench) {
			s, end := b.open(b.t.Context())
			defer end()
			ask(b.t, s, "What is there?")
		}
	}
	run(b)
	if err := b.client.Stop(); err != nil {
		b.t.Log(err)
	}
}

func TestCases(t *testing.T) {
	for _, tt := range cases {
		for _, mode := range []string{"whole", "streamed", "events alone"} {
			if tt.only != nil && !slices.Contains(tt.only, mode) {
				continue
			}
			t.Run(tt.name+" "+mode, func(t *testing.T) {
				b := newBench(t, mode != "events alone", mode == "streamed", tt.script,
					otelagent.WithCapture(otelagent.CaptureContent))
				b.play(tt.replies, tt.decide, tt.run)
				if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), b.pipe.Outline()); diff != "" {
					t.Errorf("outline (-want +got):\n%s", diff)
				}
				b.pipe.SameRequests(b.model.Bodies())
			})
		}
	}
}
