package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/instrumentation/github.com/modelcontextprotocol/go-sdk/otelmcp"
	"github.com/otelagent/otelagent/otelagent"
)

// A script is what the model says, by a text of the last message of a request.
type script map[string]provider.Reply

func (s script) serve(t *testing.T) *provider.Server {
	return provider.NewFunc(t, func(_ int, r provider.Request) provider.Reply {
		last := r.Body[bytes.LastIndex(r.Body, []byte(`"role":`)):]
		for key, reply := range s {
			if bytes.Contains(last, []byte(key)) {
				return reply
			}
		}
		t.Errorf("the script has no answer to %s", last)
		return provider.Reply{Status: http.StatusBadRequest}
	})
}

func calls(names ...string) provider.Reply {
	var r provider.Reply
	for i, name := range names {
		r.Calls = append(r.Calls, provider.Call{ID: fmt.Sprint("c", i+1), Name: name, Args: `{"question":"Sub: rain?"}`})
	}
	return r
}

var said = script{
	"Boss: rain?": calls("research"),
	"Boss: both?": calls("weather", "broken"),
	"Boss: all?":  calls("research", "research"),
	"Boss: wait?": calls("wait"),
	"Sub: rain?":  {Text: "It rains."},
	"tool_result": {Text: "Take an umbrella."},
}

// A setting is a model, an MCP server whose tools run agents, and its client, on one pipeline.
type setting struct {
	*agenttest.Pipeline
	model   *provider.Server
	agent   *agent
	sub     otelagent.RunInfo // of the agent behind research
	waiting chan struct{}     // the tool wait closes it when it runs
	ended   chan struct{}     // and this when it was cancelled
}

// transports connect a server with a client.
var transports = map[string]func(*testing.T, context.Context, *mcp.Server) mcp.Transport{
	"in memory": func(t *testing.T, ctx context.Context, s *mcp.Server) mcp.Transport {
		there, here := mcp.NewInMemoryTransports()
		session, err := s.Connect(ctx, there, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Wait() })
		return here
	},
	"streamable HTTP": func(t *testing.T, _ context.Context, s *mcp.Server) mcp.Transport {
		h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
		t.Cleanup(h.Close)
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		return &mcp.StreamableClientTransport{Endpoint: h.URL, HTTPClient: client}
	},
}

func set(t *testing.T, transport string, opts ...otelagent.Option) *setting {
	t.Helper()
	return setIn(t.Context(), t, agenttest.New(t, opts...), transport)
}

// setIn connects in ctx.
func setIn(ctx context.Context, t *testing.T, p *agenttest.Pipeline, transport string) *setting {
	t.Helper()
	// A cleanup runs while the context of the test has ended, and a connection must outlive it.
	ctx = context.WithoutCancel(ctx)
	s := &setting{Pipeline: p, model: said.serve(t), sub: otelagent.RunInfo{Agent: "researcher"},
		waiting: make(chan struct{}), ended: make(chan struct{})}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)

	impl := &mcp.Implementation{Name: "test", Version: "1"}
	server := mcp.NewServer(impl, nil)
	server.AddReceivingMiddleware(otelmcp.Server())
	tool := func(name string, f func(context.Context, question) (*mcp.CallToolResult, error)) {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(ctx context.Context, _ *mcp.CallToolRequest, q question) (
			*mcp.CallToolResult, any, error) {
			res, err := f(ctx, q)
			return res, nil, err
		})
	}
	tool("research", func(ctx context.Context, q question) (*mcp.CallToolResult, error) {
		text, err := (&agent{tracer: p.Tracer(), url: s.model.URL}).ask(ctx, s.sub, q.Question)
		return answer("%s", text), err
	})
	tool("weather", func(context.Context, question) (*mcp.CallToolResult, error) { return answer("21 degrees"), nil })
	tool("broken", func(context.Context, question) (*mcp.CallToolResult, error) { return nil, errors.New("it broke") })
	tool("wait", func(ctx context.Context, _ question) (*mcp.CallToolResult, error) {
		ctx, run := p.Tracer().StartRun(ctx, s.sub)
		close(s.waiting)
		<-ctx.Done()
		run.End(otelagent.RunResult{Err: ctx.Err()})
		close(s.ended)
		return nil, ctx.Err()
	})

	client := mcp.NewClient(impl, nil)
	client.AddSendingMiddleware(otelmcp.Client())
	session, err := client.Connect(ctx, transports[transport](t, ctx, server), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	s.agent = &agent{tracer: p.Tracer(), url: s.model.URL, tools: session}
	return s
}

func (s *setting) ask(t *testing.T, session, text string) {
	t.Helper()
	info := otelagent.RunInfo{SessionID: session, Agent: "boss"}
	if got, err := s.agent.ask(t.Context(), info, text); err != nil || got != "Take an umbrella." {
		t.Errorf("%q, %v", got, err)
	}
}

// same compares the tree with an outline, and the requests with those that the model received.
func (s *setting) same(t *testing.T, outline string) {
	t.Helper()
	if got := s.Outline(); strings.TrimSpace(got) != strings.TrimSpace(outline) {
		t.Errorf("got\n%s\nwant\n%s", got, outline)
	}
	s.SameRequests(s.model.Bodies())
}

var content = otelagent.WithCapture(otelagent.CaptureContent)

const research = `
  run boss completed
    turn 0 user tool_use in 15 out 5 cached 3
      tool c1 research ok
        run researcher completed
          turn 0 user end_turn in 15 out 5 cached 3
    turn 1 continuation end_turn in 15 out 5 cached 3`

func TestSubAgentInTool(t *testing.T) {
	for name := range transports {
		t.Run(name, func(t *testing.T) {
			s := set(t, name, content)
			s.ask(t, "chat", "Boss: rain?")
			s.same(t, "session chat"+research)
		})
	}
}

func TestSubAgentOfGeneratedSession(t *testing.T) {
	s := set(t, "in memory", content)
	s.ask(t, "", "Boss: rain?")
	s.same(t, "session"+research)
}

func TestSubAgentInSessionOfItsOwn(t *testing.T) {
	s := set(t, "in memory", content)
	s.sub.SessionID = "own"
	s.ask(t, "chat", "Boss: rain?")
	for _, session := range s.Sessions() {
		for _, r := range session.Runs {
			if r.Agent == "researcher" && (session.ID != "own" || r.ParentSessionID != "chat" || r.ParentToolCallID != "c1") {
				t.Errorf("run in session %s is under call %q of session %q", session.ID, r.ParentToolCallID, r.ParentSessionID)
			}
		}
	}
	s.SameRequests(s.model.Bodies())
}

func TestParallelToolsOfWhichOneFails(t *testing.T) {
	s := set(t, "in memory", content)
	s.ask(t, "chat", "Boss: both?")
	s.same(t, `
session chat
  run boss completed
    turn 0 user tool_use in 15 out 5 cached 3
      tool c1 weather ok
      tool c2 broken error "it broke"
    turn 1 continuation end_turn in 15 out 5 cached 3`)
}

func TestParallelSubAgents(t *testing.T) {
	s := set(t, "streamable HTTP", content)
	s.ask(t, "chat", "Boss: all?")
	s.same(t, `
session chat
  run boss completed
    turn 0 user tool_use in 15 out 5 cached 3
      tool c1 research ok
        run researcher completed
          turn 0 user end_turn in 15 out 5 cached 3
      tool c2 research ok
        run researcher completed
          turn 0 user end_turn in 15 out 5 cached 3
    turn 1 continuation end_turn in 15 out 5 cached 3`)
}

func TestTwoQuestions(t *testing.T) {
	s := set(t, "in memory", content)
	s.ask(t, "chat", "Boss: rain?")
	s.ask(t, "chat", "Boss: rain?")
	s.same(t, "session chat"+research+research)
}

func TestConversationsAtOnce(t *testing.T) {
	const n = 8
	s := set(t, "in memory", content)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { s.ask(t, fmt.Sprint("chat-", i), "Boss: rain?") })
	}
	wg.Wait()
	got := s.Outline()
	for i := range n {
		if want := fmt.Sprint("session chat-", i, research, "\n"); !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwithout\n%s", got, want)
		}
	}
	s.SameRequests(s.model.Bodies())
}

func TestCancelledInTool(t *testing.T) {
	s := set(t, "in memory", content)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.waiting
		cancel()
	}()
	_, err := s.agent.ask(ctx, otelagent.RunInfo{SessionID: "chat", Agent: "boss"}, "Boss: wait?")
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-s.ended
	s.same(t, `
session chat
  run boss cancelled "context canceled"
    turn 0 user tool_use in 15 out 5 cached 3 failed cancelled "context canceled"
      tool c1 wait cancelled "context canceled"
        run researcher cancelled "context canceled"`)
}

// A server that was connected inside a run of the same process: the run does not enclose what its tools start.
func TestConnectedInRun(t *testing.T) {
	p := agenttest.New(t, content)
	ctx, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "chat", Agent: "main"})
	s := setIn(ctx, t, p, "in memory")
	if _, err := s.agent.ask(ctx, otelagent.RunInfo{Agent: "boss"}, "Boss: rain?"); err != nil {
		t.Error(err)
	}
	run.End(otelagent.RunResult{})
	s.same(t, "session chat\n  run main completed"+research)
}

// Without capture the spans have none of the content of either agent, and the tree is the same.
func TestCaptureNone(t *testing.T) {
	s := set(t, "in memory")
	s.ask(t, "chat", "Boss: rain?")
	if got := s.Outline(); got != "session chat"+research+"\n" {
		t.Error(got)
	}
	for _, batch := range s.OTLP() {
		for _, word := range []string{"rain", "umbrella", "fake question"} {
			if bytes.Contains(batch, []byte(word)) {
				t.Errorf("a span has %q", word)
			}
		}
	}
}
