package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/adk/middlewares/summarization"
	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/instrumentation/github.com/cloudwego/eino/oteleino"
	"github.com/otelagent/otelagent/otelagent"
)

// first gives these replies to the first requests, and then those of the script.
func first(t *testing.T, replies ...provider.Reply) func(int, provider.Request) provider.Reply {
	return func(n int, r provider.Request) provider.Reply {
		if n < len(replies) {
			return replies[n]
		}
		return said.reply(t, r)
	}
}

func TestRefusedAndAskedAgain(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, first(t, provider.Reply{Status: 429}, provider.Reply{Status: 529}), content)
		s.model.own = own
		if text, err := s.ask(t.Context(), s.agent("boss", retries), stream, "Hello?"); err != nil || text != "It rains." {
			t.Errorf("%q, %v", text, err)
		}
		s.same(`
session chat
  run boss completed
    turn 0 user stop in 15 out 5 cached 3 attempts 3 discarded 2`)
	})
}

func TestErrorThatIsNotRetried(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, nil, content)
		s.model.own = own
		if _, err := s.ask(t.Context(), s.agent("boss"), stream, "Refuse me"); err == nil {
			t.Error("no error")
		}
		global.Wait()
		got := s.Outline()
		if !strings.HasPrefix(got, "session chat\n  run boss error \"") ||
			!strings.Contains(got, "\n    turn 0 user failed provider_error \"status 400: no\"\n") {
			t.Error(got)
		}
		s.same(got)
	})
}

// A stream that is cut, and one in which the provider reports an error.
func TestStreamCut(t *testing.T) {
	for _, reply := range []provider.Reply{{Text: "It rains.", Cut: true}, {Text: "It rains.", Error: "overloaded"}} {
		for _, own := range []bool{false, true} {
			s := set(t, first(t, reply), content)
			s.model.own = own
			if _, err := s.ask(t.Context(), s.agent("boss"), true, "Hello?"); err == nil {
				t.Error("no error")
			}
			global.Wait()
			got := s.Outline()
			if !strings.Contains(got, "\n    turn 0 user ") || !strings.Contains(got, " failed provider_error ") ||
				reply.Cut != strings.Contains(got, " partial ") || !strings.Contains(got, reply.Error) {
				t.Error(got)
			}
			s.same(got)
		}
	}
}

func TestStreamCutAndAskedAgain(t *testing.T) {
	for _, own := range []bool{false, true} {
		s := set(t, first(t, provider.Reply{Text: "It rains.", Cut: true}), content)
		s.model.own = own
		if text, err := s.ask(t.Context(), s.agent("boss", retries), true, "Hello?"); err != nil || text != "It rains." {
			t.Errorf("%q, %v", text, err)
		}
		s.same(`
session chat
  run boss completed
    turn 0 user stop in 15 out 5 cached 3 attempts 2 discarded 1`)
	}
}

// A caller that closes the stream of an agent early: the turn has the whole reply, since Eino reads it for others too.
func TestStreamClosedEarly(t *testing.T) {
	s := set(t, nil, content)
	ctx := oteleino.WithSession(t.Context(), "chat")
	runner := adk.NewRunner(ctx, adk.RunnerConfig{Agent: s.agent("boss"), EnableStreaming: true})
	events := runner.Query(ctx, "Hello?")
	for {
		e, ok := events.Next()
		if !ok {
			break
		}
		if e.Output != nil && e.Output.MessageOutput != nil && e.Output.MessageOutput.MessageStream != nil {
			e.Output.MessageOutput.MessageStream.Close()
		}
	}
	s.same("session chat" + hello)
}

func TestCancelledInModel(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		ctx, cancel := context.WithCancel(t.Context())
		s := set(t, first(t, provider.Reply{Text: "It rains.", Pause: func(gone context.Context) {
			cancel()
			<-gone.Done()
		}}), content)
		s.model.own = own
		if _, err := s.ask(ctx, s.agent("boss"), stream, "Hello?"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		global.Wait()
		got := s.Outline()
		if !strings.Contains(got, "\n  run boss cancelled ") || !strings.Contains(got, "failed cancelled") {
			t.Error(got)
		}
		s.same(got)
	})
}

func TestCancelledInTool(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := set(t, nil, content)
	go func() {
		<-s.waiting
		cancel()
	}()
	if _, err := s.ask(ctx, s.agent("boss"), false, "Wait?"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	global.Wait()
	got := s.Outline()
	if !strings.Contains(got, "\n  run boss cancelled ") || !strings.Contains(got, "\n      tool c1 wait cancelled ") {
		t.Error(got)
	}
	s.same(got)
}

func TestTwoQuestions(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, nil, content)
		s.model.own = own
		a := s.agent("boss")
		for range 2 {
			if _, err := s.ask(t.Context(), a, stream, "Hello?"); err != nil {
				t.Error(err)
			}
		}
		s.same("session chat" + hello + hello)
	})
}

func TestConversationsAtOnce(t *testing.T) {
	const n = 8
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, nil, content)
		s.model.own = own
		var wg sync.WaitGroup
		for i := range n {
			a := s.agent("boss", inTurn) // Eino 0.9 writes to an agent that runs
			wg.Go(func() {
				ctx := oteleino.WithSession(t.Context(), fmt.Sprint("chat-", i))
				runner := adk.NewRunner(ctx, adk.RunnerConfig{Agent: a, EnableStreaming: stream})
				if text, _, err := drain(runner.Query(ctx, "Both?")); err != nil || text != "It rains." {
					t.Errorf("%q, %v", text, err)
				}
			})
		}
		wg.Wait()
		global.Wait()
		got := s.Outline()
		for i := range n {
			if want := fmt.Sprintf(`session chat-%d
  run boss completed
    turn 0 user tool_calls in 15 out 5 cached 3
      tool c1 weather ok
      tool c2 broken error "[LocalFunc] failed to invoke tool, toolName=broken, err=it broke"
    turn 1 continuation stop in 15 out 5 cached 3
`, i); !strings.Contains(got, want) {
				t.Errorf("got\n%s\nwithout\n%s", got, want)
			}
		}
		s.same(got)
	})
}

// A graph that stops after a reply with calls.
func TestStopsWithCallsOpen(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, nil, content)
		s.model.own = own
		chain, err := compose.NewChain[[]*schema.Message, *schema.Message]().AppendChatModel(s.model).
			Compile(t.Context(), compose.WithGraphName("chain"))
		if err != nil {
			t.Fatal(err)
		}
		ctx := oteleino.WithSession(t.Context(), "chat")
		in := []*schema.Message{schema.UserMessage("Both?")}
		if stream {
			out, err := chain.Stream(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := schema.ConcatMessageStream(out); err != nil {
				t.Error(err)
			}
		} else if _, err := chain.Invoke(ctx, in); err != nil {
			t.Error(err)
		}
		s.same(`
session chat
  run chain completed
    turn 0 user tool_calls in 15 out 5 cached 3`)
	})
}

// An agent that Eino had before package adk.
func TestReactAgent(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, nil, content)
		s.model.own = own
		a, err := react.NewAgent(t.Context(), &react.AgentConfig{ToolCallingModel: s.model, GraphName: "react",
			ToolsConfig: compose.ToolsNodeConfig{Tools: s.tools(), ToolCallMiddlewares: []compose.ToolMiddleware{caught},
				ExecuteSequentially: true}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := oteleino.WithSession(t.Context(), "chat")
		in := []*schema.Message{schema.UserMessage("Both?")}
		if stream {
			out, err := a.Stream(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := schema.ConcatMessageStream(out); err != nil {
				t.Error(err)
			}
		} else if _, err := a.Generate(ctx, in); err != nil {
			t.Error(err)
		}
		s.same(`
session chat
  run react completed
    turn 0 user tool_calls in 15 out 5 cached 3
      tool c1 weather ok
      tool c2 broken error "[LocalFunc] failed to invoke tool, toolName=broken, err=it broke"
    turn 1 continuation stop in 15 out 5 cached 3`)
	})
}

func TestSubAgentInTool(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, nil, content)
		s.model.own = own
		helper := adk.NewAgentTool(t.Context(), s.agent("helper"))
		boss := s.agent("boss", func(c *adk.ChatModelAgentConfig) { c.ToolsConfig.Tools = []tool.BaseTool{helper} })
		if text, err := s.ask(t.Context(), boss, stream, "Ask another?"); err != nil || text != "It rains." {
			t.Errorf("%q, %v", text, err)
		}
		s.same(`
session chat
  run boss completed
    turn 0 user tool_calls in 15 out 5 cached 3
      tool c1 helper ok
        run helper completed
          turn 0 sub_agent stop in 15 out 5 cached 3
    turn 1 continuation stop in 15 out 5 cached 3`)
	})
}

// Agents in an order are runs inside that of the whole.
func TestSequentialAgents(t *testing.T) {
	s := set(t, first(t, provider.Reply{Text: "I help."}), content)
	both, err := adk.NewSequentialAgent(t.Context(), &adk.SequentialAgentConfig{Name: "both", Description: "both",
		SubAgents: []adk.Agent{s.agent("one"), s.agent("two")}})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := s.ask(t.Context(), both, false, "Hello?"); err != nil || text != "It rains." {
		t.Errorf("%q, %v", text, err)
	}
	s.same(`
session chat
  run both completed
  run one completed
    turn 0 user stop in 15 out 5 cached 3
  run two completed
    turn 0 user stop in 15 out 5 cached 3`)
}

func TestCompaction(t *testing.T) {
	for _, own := range []bool{false, true} {
		s := set(t, first(t, provider.Reply{Text: "A summary."}, provider.Reply{Text: "It rains."}), content)
		s.model.own = own
		called := 0
		config := oteleino.Summarization(&summarization.Config{Model: s.model,
			Trigger: &summarization.TriggerCondition{ContextTokens: 50},
			Callback: func(context.Context, adk.ChatModelAgentState, adk.ChatModelAgentState) error {
				called++
				return nil
			}})
		m, err := summarization.New(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		a := s.agent("boss", func(c *adk.ChatModelAgentConfig) { c.Handlers = []adk.ChatModelAgentMiddleware{m} })
		if text, err := s.ask(t.Context(), a, false, strings.Repeat("Hello? ", 100)); err != nil || text != "It rains." {
			t.Errorf("%q, %v", text, err)
		}
		s.same(`
session chat
  run boss completed
    compaction summary summarization
    turn 0 utility stop in 15 out 5 cached 3
    turn 1 user stop in 15 out 5 cached 3`)
		c := s.Session().Runs[0].Compactions[0]
		if one := int64(1); called != 1 || !reflect.DeepEqual(c.MessagesBefore, &one) ||
			!reflect.DeepEqual(c.MessagesAfter, &one) {
			t.Errorf("%d callbacks, %+v", called, c)
		}
	}
}

type memory struct{ sync.Map }

func (m *memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	v, ok := m.Load(key)
	if !ok {
		return nil, false, nil
	}
	return v.([]byte), true, nil
}

func (m *memory) Set(_ context.Context, key string, data []byte) error {
	m.Store(key, data)
	return nil
}

func init() { schema.RegisterName[approval]("approval") } // for checkpoints

const asks = `
session chat
  run boss completed
    turn 0 user tool_calls in 15 out 5 cached 3
      tool c1 send skipped
        permission send ask tool`

func TestApproval(t *testing.T) {
	for name, tt := range map[string]struct {
		answer any // nil: never answered
		want   string
	}{
		"given": {approval{true}, `
  run boss completed continues 1
    tool c1 send ok
      permission send allow user
    turn 0 continuation stop in 15 out 5 cached 3`},
		"refused": {approval{false}, `
  run boss completed continues 1
    tool c1 send denied
      permission send deny user
    turn 0 continuation stop in 15 out 5 cached 3`},
		"never answered": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, stream, own bool) {
				s := set(t, nil, content)
				s.model.own = own
				ctx := oteleino.WithSession(t.Context(), "chat")
				runner := adk.NewRunner(ctx, adk.RunnerConfig{Agent: s.agent("boss"), EnableStreaming: stream,
					CheckPointStore: &memory{}})
				_, interrupt, err := drain(runner.Query(ctx, "May I?", adk.WithCheckPointID("1")))
				if err != nil || interrupt == nil {
					t.Fatal(interrupt, err)
				}
				global.Wait()
				if tt.answer != nil {
					events, err := runner.ResumeWithParams(ctx, "1", &adk.ResumeParams{
						Targets: map[string]any{interrupt.InterruptContexts[0].ID: tt.answer}})
					if err != nil {
						t.Fatal(err)
					}
					if _, _, err := drain(events); err != nil {
						t.Error(err)
					}
				}
				s.same(asks + tt.want)
			})
		})
	}
}

// A run that resumes another is in the session of that, which the checkpoint names: also in a process with a handler of
// its own that gives the conversation no name, and through several interrupts.
func TestResumedElsewhere(t *testing.T) {
	s := set(t, first(t, calls("send"), calls("send")), content)
	store := &memory{}
	ctx := oteleino.WithSession(t.Context(), "chat")
	_, interrupt, err := drain(adk.NewRunner(ctx, adk.RunnerConfig{Agent: s.agent("boss"), CheckPointStore: store}).
		Query(ctx, "May I?", adk.WithCheckPointID("1")))
	for range 2 {
		if err != nil || interrupt == nil {
			t.Fatal(interrupt, err)
		}
		global.Wait()
		global.Handler = oteleino.New(s.Tracer())
		runner := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: s.agent("boss"), CheckPointStore: store})
		events, failed := runner.ResumeWithParams(t.Context(), "1", &adk.ResumeParams{
			Targets: map[string]any{interrupt.InterruptContexts[0].ID: approval{true}}})
		if failed != nil {
			t.Fatal(failed)
		}
		_, interrupt, err = drain(events)
	}
	if err != nil || interrupt != nil {
		t.Error(interrupt, err)
	}
	s.same(asks + `
  run boss completed continues 1
    tool c1 send ok
      permission send allow user
    turn 0 continuation tool_calls in 15 out 5 cached 3
      tool c1 send skipped
        permission send ask tool
  run boss completed continues 2
    tool c1 send ok
      permission send allow user
    turn 0 continuation stop in 15 out 5 cached 3`)
}

// In a run of the program, turns and tools are that run's.
func TestRunOfTheProgram(t *testing.T) {
	s := set(t, nil, content)
	ctx, run := s.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "own", Agent: "mine"})
	for range 2 {
		if _, err := s.ask(ctx, s.agent("boss"), false, "Weather?"); err != nil {
			t.Error(err)
		}
	}
	global.Wait()
	run.End(otelagent.RunResult{})
	s.same(`
session own
  run mine completed
    turn 0 user tool_calls in 15 out 5 cached 3
      tool c1 weather ok
    turn 1 continuation stop in 15 out 5 cached 3
    turn 2 user tool_calls in 15 out 5 cached 3
      tool c1 weather ok
    turn 3 continuation stop in 15 out 5 cached 3`)
}

// Without the transport of otelllmhttp the tree is the same, and a request is its messages.
func TestWithoutTransport(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, first(t, provider.Reply{Status: 429}, provider.Reply{Text: "It", Cut: true}), content)
		base := &http.Transport{}
		defer base.CloseIdleConnections()
		s.model.own, s.model.client = own, &http.Client{Transport: base}
		if text, err := s.ask(t.Context(), s.agent("boss", retries, inTurn), stream, "Weather?"); err != nil ||
			text != "It rains." {
			t.Errorf("%q, %v", text, err)
		}
		global.Wait()
		want := `session chat
  run boss completed
    turn 0 user tool_calls in 15 out 5 cached 3 attempts 3 discarded 2
      tool c1 weather ok
    turn 1 continuation stop in 15 out 5 cached 3
`
		if got := s.Outline(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		for i, turn := range s.Session().Runs[0].Turns {
			q := turn.Requests[len(turn.Requests)-1]
			if q.Messages == nil || q.Messages.Count != []int64{1, 3}[i] {
				t.Errorf("turn %d has the messages %+v", i, q.Messages)
			}
		}
	})
}

// A model that the program calls by itself.
func TestModelAlone(t *testing.T) {
	s := set(t, nil, content)
	s.model.own = true
	ctx := oteleino.WithSession(t.Context(), "chat")
	if _, err := s.model.Generate(ctx, []*schema.Message{schema.UserMessage("Hello?")}); err != nil {
		t.Error(err)
	}
	s.same(`
session chat
  run completed
    turn 0 user stop in 15 out 5 cached 3`)
}

func TestCaptureNone(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, nil)
		s.model.own = own
		if _, err := s.ask(t.Context(), s.agent("boss", inTurn), stream, "Both?"); err != nil {
			t.Error(err)
		}
		global.Wait()
		if got := s.Outline(); strings.Count(got, "\n") != 6 {
			t.Error(got)
		}
		for _, batch := range s.OTLP() {
			for _, word := range []string{"Both?", "It rains", "Bonn", "broke"} {
				if bytes.Contains(bytes.ReplaceAll(batch, []byte("broken"), nil), []byte(word)) {
					t.Errorf("a span has %q", word)
				}
			}
		}
	})
}

// What no framework calls a handler with records nothing, and harms nobody.
func TestHostile(t *testing.T) {
	s := set(t, func(int, provider.Request) provider.Reply { return provider.Reply{Status: http.StatusTeapot} })
	for _, h := range []*oteleino.Handler{oteleino.New(nil), oteleino.New(s.Tracer())} {
		for _, c := range []components.Component{"", adk.ComponentOfAgent, components.ComponentOfChatModel,
			components.ComponentOfTool, compose.ComponentOfGraph, compose.ComponentOfLambda} {
			for _, info := range []*callbacks.RunInfo{nil, {Component: c}} {
				for _, v := range []any{nil, "{", 1, (*schema.Message)(nil), []*schema.Message{nil}, []any{nil}} {
					ctx := h.OnStart(t.Context(), info, v)
					h.Needed(ctx, info, callbacks.TimingOnEnd)
					h.OnEnd(ctx, info, v)
					h.OnEnd(ctx, info, v)
					h.OnError(ctx, info, nil)
					h.OnError(t.Context(), info, errors.New("x"))
					ctx = h.OnStartWithStreamInput(t.Context(), info, schema.StreamReaderFromArray([]callbacks.CallbackInput{v}))
					h.OnEndWithStreamOutput(ctx, info, schema.StreamReaderFromArray([]callbacks.CallbackOutput{v, v}))
				}
			}
		}
		h.Wait()
	}
	if oteleino.Summarization(nil) != nil {
		t.Error("a config of nothing")
	}
}
