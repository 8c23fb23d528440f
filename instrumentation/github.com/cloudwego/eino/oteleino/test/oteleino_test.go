package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/instrumentation/github.com/cloudwego/eino/oteleino"
	"github.com/otelagent/otelagent/instrumentation/net/http/otelllmhttp"
	"github.com/otelagent/otelagent/otelagent"
)

// A script is what the model says, by a text of the last message of a request.
type script map[string]provider.Reply

var said = script{
	"Weather?":     calls("weather"),
	"Both?":        calls("weather", "broken"),
	"Wait?":        calls("wait"),
	"Ask another?": calls("helper"),
	"May I?":       calls("send"),
	`\"rain\":`:    {Text: "It rains."},
	"it broke":     {Text: "It rains."},
	"sent":         {Text: "It is sent."},
	"not allowed":  {Text: "It is not sent."},
	"Help me.":     {Text: "I help."},
	"I help.":      {Text: "It rains."},
	"Hello?":       {Text: "It rains."},
	"Refuse me":    {Status: http.StatusBadRequest, Error: "no"},
}

func (s script) reply(t *testing.T, r provider.Request) provider.Reply {
	last := r.Body[bytes.LastIndex(r.Body, []byte(`"role":`)):]
	for key, reply := range s {
		if bytes.Contains(last, []byte(key)) {
			return reply
		}
	}
	t.Errorf("the script has no answer to %s", last)
	return provider.Reply{Status: http.StatusBadRequest}
}

func calls(names ...string) (r provider.Reply) {
	for i, name := range names {
		args := `{"city":"Bonn"}`
		if name == "helper" {
			args = `{"request":"Help me."}`
		}
		r.Calls = append(r.Calls, provider.Call{ID: fmt.Sprint("c", i+1), Name: name, Args: args})
	}
	return r
}

// A setting is a model and a handler on one pipeline.
type setting struct {
	*agenttest.Pipeline
	t       *testing.T
	server  *provider.Server
	model   *chatModel
	waiting chan struct{} // the tool wait closes it
}

var content = otelagent.WithCapture(otelagent.CaptureContent)

// set starts a model that says what the scripts say, each in front of the ones after it.
func set(t *testing.T, reply func(n int, r provider.Request) provider.Reply, opts ...otelagent.Option) *setting {
	t.Helper()
	s := &setting{Pipeline: agenttest.New(t, opts...), t: t, waiting: make(chan struct{})}
	if reply == nil {
		reply = func(_ int, r provider.Request) provider.Reply { return said.reply(t, r) }
	}
	s.server = provider.NewFunc(t, reply)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	transport := otelllmhttp.NewTransport(s.Tracer(), otelllmhttp.WithBase(base))
	t.Cleanup(transport.Close)
	s.model = &chatModel{url: s.server.URL, client: &http.Client{Transport: transport}}
	global.Handler = oteleino.New(s.Tracer())
	return s
}

type city struct {
	City string `json:"city"`
}

func (s *setting) tools() []tool.BaseTool {
	make := func(name string, f func(context.Context, city) (map[string]any, error)) tool.BaseTool {
		t, err := utils.InferTool(name, name, f)
		if err != nil {
			s.t.Fatal(err)
		}
		return t
	}
	return []tool.BaseTool{
		make("weather", func(context.Context, city) (map[string]any, error) { return map[string]any{"rain": true}, nil }),
		make("broken", func(context.Context, city) (map[string]any, error) { return nil, errors.New("it broke") }),
		make("wait", func(ctx context.Context, _ city) (map[string]any, error) {
			close(s.waiting)
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		make("send", send),
	}
}

// caught turns errors of tools into what the model sees.
var caught = compose.ToolMiddleware{Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
	return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
		out, err := next(ctx, in)
		if _, asks := compose.IsInterruptRerunError(err); err != nil && !asks && ctx.Err() == nil {
			return &compose.ToolOutput{Result: err.Error()}, nil
		}
		return out, err
	}
}}

// agent is a ChatModelAgent with the tools, and more of its configuration.
func (s *setting) agent(name string, more ...func(*adk.ChatModelAgentConfig)) adk.Agent {
	s.t.Helper()
	config := &adk.ChatModelAgentConfig{Name: name, Description: name, Model: s.model}
	config.ToolsConfig.Tools = s.tools()
	config.ToolsConfig.ToolCallMiddlewares = []compose.ToolMiddleware{caught}
	for _, m := range more {
		m(config)
	}
	a, err := adk.NewChatModelAgent(s.t.Context(), config)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func retries(c *adk.ChatModelAgentConfig) { c.ModelRetryConfig = retryAtOnce }

// drain reads the events of an agent, and returns the last text and error.
func drain(events *adk.AsyncIterator[*adk.AgentEvent]) (text string, interrupt *adk.InterruptInfo, err error) {
	for {
		e, ok := events.Next()
		if !ok {
			return text, interrupt, err
		}
		if e.Err != nil {
			err = e.Err
		}
		if e.Action != nil && e.Action.Interrupted != nil {
			interrupt = e.Action.Interrupted
		}
		if e.Output != nil && e.Output.MessageOutput != nil {
			m, failed := e.Output.MessageOutput.GetMessage()
			if failed == nil && m != nil && m.Role == schema.Assistant {
				text = m.Content
			}
		}
	}
}

// ask runs an agent in session chat.
func (s *setting) ask(ctx context.Context, a adk.Agent, stream bool, text string) (string, error) {
	runner := adk.NewRunner(ctx, adk.RunnerConfig{Agent: a, EnableStreaming: stream})
	got, _, err := drain(runner.Query(oteleino.WithSession(ctx, "chat"), text))
	return got, err
}

// same compares the tree with an outline, and the requests with those that the model received.
func (s *setting) same(outline string) {
	s.t.Helper()
	global.Wait()
	if got := s.Outline(); strings.TrimSpace(got) != strings.TrimSpace(outline) {
		s.t.Errorf("got\n%s\nwant\n%s", got, outline)
	}
	s.SameRequests(s.server.Bodies())
}

// both runs a test with whole replies and with streamed ones, with callbacks by the framework and by the model.
func both(t *testing.T, f func(t *testing.T, stream, own bool)) {
	for _, stream := range []bool{false, true} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprintf("streamed %v, own callbacks %v", stream, own), func(t *testing.T) { f(t, stream, own) })
		}
	}
}

const hello = `
  run boss completed
    turn 0 user stop in 15 out 5 cached 3`

func TestAnswer(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, nil, content)
		s.model.own = own
		if text, err := s.ask(t.Context(), s.agent("boss"), stream, "Hello?"); err != nil || text != "It rains." {
			t.Errorf("%q, %v", text, err)
		}
		s.same("session chat" + hello)
	})
}

func TestParallelToolsOfWhichOneFails(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, nil, content)
		s.model.own = own
		if text, err := s.ask(t.Context(), s.agent("boss", inTurn), stream, "Both?"); err != nil || text != "It rains." {
			t.Errorf("%q, %v", text, err)
		}
		s.same(`
session chat
  run boss completed
    turn 0 user tool_calls in 15 out 5 cached 3
      tool c1 weather ok
      tool c2 broken error "[LocalFunc] failed to invoke tool, toolName=broken, err=it broke"
    turn 1 continuation stop in 15 out 5 cached 3`)
	})
}

var retryAtOnce = &adk.ModelRetryConfig{MaxRetries: 2,
	BackoffFunc: func(context.Context, int) time.Duration { return time.Millisecond }}

// inTurn lets the tools of a reply start in its order.
func inTurn(c *adk.ChatModelAgentConfig) { c.ToolsConfig.ExecuteSequentially = true }

type approval struct{ Approved bool }

// send asks for permission.
func send(ctx context.Context, _ city) (map[string]any, error) {
	if asked, _, _ := tool.GetInterruptState[any](ctx); !asked {
		return nil, tool.Interrupt(ctx, "send it?")
	}
	if target, has, answer := tool.GetResumeContext[approval](ctx); !target || !has {
		return nil, tool.Interrupt(ctx, "send it?")
	} else if !answer.Approved {
		return map[string]any{"not allowed": true}, nil
	}
	return map[string]any{"sent": true}, nil
}
