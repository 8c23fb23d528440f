package test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
	"google.golang.org/adk/v2/tool/functiontool"

	"github.com/otelagent/otelagent/agenttest/provider"
)

// cases are those that every integration is tested with, and the ways of the framework to run agents in agents. The
// framework has no compaction.
var cases = []struct {
	name    string
	wire    bool // only the client sees it
	replies []provider.Reply
	run     func(t *testing.T, a *app)
}{
	{
		name: "parallel tools of which one fails",
		replies: []provider.Reply{{Text: "I look.", Calls: []provider.Call{call("c1", "weather", `{"city":"Bonn"}`),
			call("c2", "weather", `{"city":"Atlantis"}`)}}, {Text: "21 degrees."}},
		run: func(t *testing.T, a *app) { a.must(a.withTool(weather).ask(t.Context(), "s1", says("Weather?"))) },
	},
	{
		name:    "an attempt refused and asked again",
		wire:    true,
		replies: []provider.Reply{{Status: 429, Error: "slow down"}, {Status: 529}, {Text: "Done."}},
		run: func(t *testing.T, a *app) {
			a.client.Transport = retrying{a.client.Transport}
			a.must(a.withTool(weather).ask(t.Context(), "s1", says("Weather?")))
		},
	},
	{
		name:    "an error that is not retried",
		replies: []provider.Reply{{Status: 400, Error: "bad request"}},
		run: func(t *testing.T, a *app) {
			if a.withTool(weather).ask(t.Context(), "s1", says("Weather?")) == nil {
				t.Error("no error")
			}
		},
	},
	{
		name:    "a stream cut in the middle",
		replies: []provider.Reply{{Text: "A long answer.", Cut: true}},
		run: func(t *testing.T, a *app) {
			_ = a.withTool(weather).ask(t.Context(), "s1", says("Weather?")) // nil where it is streamed
		},
	},
	{
		name:    "an error in the middle of a stream",
		replies: []provider.Reply{{Text: "A long answer.", Error: "overloaded"}},
		run: func(t *testing.T, a *app) {
			a.must(a.withTool(weather).ask(t.Context(), "s1", says("Weather?"))) // the framework overlooks it
		},
	},
	{
		name: "a stream closed early by the caller",
		replies: []provider.Reply{{Text: "A long answer.", Pause: func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}}},
		run: func(t *testing.T, a *app) {
			a.stop = func(*session.Event) bool { return true }
			a.must(a.withTool(weather).ask(t.Context(), "s1", says("Weather?")))
		},
	},
	{
		name:    "cancellation in a model call",
		replies: []provider.Reply{{Text: "A long answer."}},
		run: func(t *testing.T, a *app) {
			ctx, cancel := context.WithCancel(t.Context())
			a.serve(func(_ int, _ provider.Request) provider.Reply {
				return provider.Reply{Text: "A long answer.", Pause: func(ctx context.Context) { cancel(); <-ctx.Done() }}
			})
			_ = a.withTool(weather).ask(ctx, "s1", says("Weather?")) // the framework reports it in some forms
		},
	},
	{
		name:    "cancellation in a tool",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "weather", `{"city":"Bonn"}`)}}},
		run: func(t *testing.T, a *app) {
			ctx, cancel := context.WithCancel(t.Context())
			a.withTool(func(ctx agent.Context, _ city) (degrees, error) { cancel(); return degrees{}, ctx.Err() })
			_ = a.ask(ctx, "s1", says("Weather?"))
		},
	},
	{
		name:    "two questions in one conversation",
		replies: []provider.Reply{{Text: "One."}, {Text: "Two."}},
		run: func(t *testing.T, a *app) {
			a.must(a.withTool(weather).ask(t.Context(), "s1", says("First?")))
			a.must(a.ask(t.Context(), "s1", says("Second?")))
		},
	},
	{
		name: "two conversations at once",
		run: func(t *testing.T, a *app) {
			var both sync.WaitGroup
			both.Add(2)
			a.serve(func(_ int, r provider.Request) provider.Reply {
				if bytes.Contains(r.Body, []byte("functionResponse")) {
					return provider.Reply{Text: "21 degrees."}
				}
				both.Done()
				both.Wait()
				return provider.Reply{Calls: []provider.Call{call("same", "weather", `{"city":"Bonn"}`)}}
			})
			a.withTool(weather)
			var done sync.WaitGroup
			for _, id := range []string{"s1", "s2"} {
				done.Go(func() { a.must(a.ask(t.Context(), id, says("Weather, "+id+"?"))) })
			}
			done.Wait()
		},
	},
	{
		name:    "a loop that stops with calls open",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "order", `{"city":"Bonn"}`)}}},
		run: func(t *testing.T, a *app) {
			order, err := functiontool.New(functiontool.Config{Name: "order", IsLongRunning: true},
				func(agent.Context, city) (map[string]any, error) { return nil, nil })
			a.must(err)
			a.must(a.use(a.agent("assistant", nil, order)).ask(t.Context(), "s1", says("Order.")))
		},
	},
	{
		name: "a sub-agent in a tool",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "research", `{"city":"Bonn"}`)}},
			{Calls: []provider.Call{call("c2", "weather", `{"city":"Bonn"}`)}}, {Text: "21."}, {Text: "Done."}},
		run: func(t *testing.T, a *app) {
			a.use(a.agent("researcher", nil, function(t, "weather", false, weather)))
			inner := a.runner
			a.use(a.agent("assistant", nil, function(t, "research", false,
				func(ctx agent.Context, _ city) (degrees, error) {
					for _, err := range inner.Run(ctx, "u", "inner", says("Research."), agent.RunConfig{}) {
						a.must(err)
					}
					return degrees{21}, nil
				})))
			a.must(a.ask(t.Context(), "s1", says("Weather?")))
		},
	},
	{
		name: "an agent as a tool",
		wire: true,
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "researcher", `{"request":"Weather?"}`)}},
			{Calls: []provider.Call{call("c2", "weather", `{"city":"Bonn"}`)}}, {Text: "21."}, {Text: "Done."}},
		run: func(t *testing.T, a *app) {
			researcher := a.agent("researcher", nil, function(t, "weather", false, weather))
			a.must(a.use(a.agent("assistant", nil, agenttool.New(researcher, nil))).ask(t.Context(), "s1", says("Weather?")))
		},
	},
	{
		name: "a transfer to an agent",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "transfer_to_agent", `{"agent_name":"researcher"}`)}},
			{Calls: []provider.Call{call("c2", "weather", `{"city":"Bonn"}`)}}, {Text: "Done."}},
		run: func(t *testing.T, a *app) {
			researcher := a.agent("researcher", nil, function(t, "weather", false, weather))
			a.must(a.use(a.agent("assistant", []agent.Agent{researcher})).ask(t.Context(), "s1", says("Weather?")))
		},
	},
	{
		name: "a task of an agent",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "researcher", `{"request":"Weather?"}`)}},
			{Calls: []provider.Call{call("c2", "weather", `{"city":"Bonn"}`)}},
			{Calls: []provider.Call{call("c3", "finish_task", `{"result":"21"}`)}}, {Text: "Done."}},
		run: func(t *testing.T, a *app) {
			researcher, err := llmagent.New(llmagent.Config{Name: "researcher", Model: a.model(), Mode: llmagent.ModeTask,
				Description: "Researches.", Tools: []tool.Tool{function(t, "weather", false, weather)}})
			a.must(err)
			a.must(a.use(a.agent("assistant", []agent.Agent{researcher})).ask(t.Context(), "s1", says("Weather?")))
		},
	},
	{
		name:    "parallel agents",
		replies: []provider.Reply{{Text: "One."}, {Text: "Two."}, {Text: "Sum."}},
		run: func(t *testing.T, a *app) {
			both, err := parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "both",
				SubAgents: []agent.Agent{a.agent("first", nil), a.agent("second", nil)}}})
			a.must(err)
			all, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{Name: "all",
				SubAgents: []agent.Agent{both, a.agent("last", nil)}}})
			a.must(err)
			a.must(a.use(all).ask(t.Context(), "s1", says("Go.")))
		},
	},
	{
		name:    "approval given",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "send", `{"city":"Bonn"}`)}}, {Text: "Sent."}},
		run: func(t *testing.T, a *app) {
			a.must(a.use(a.agent("assistant", nil, function(t, "send", true, weather))).ask(t.Context(), "s1", says("Send.")))
			a.must(a.ask(t.Context(), "s1", a.answers(true)))
		},
	},
	{
		name:    "approval refused",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "send", `{"city":"Bonn"}`)}}, {Text: "Not sent."}},
		run: func(t *testing.T, a *app) {
			a.must(a.use(a.agent("assistant", nil, function(t, "send", true, weather))).ask(t.Context(), "s1", says("Send.")))
			a.must(a.ask(t.Context(), "s1", a.answers(false)))
		},
	},
	{
		name: "approval given twice",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "send", `{"city":"Bonn"}`)}},
			{Calls: []provider.Call{call("c2", "send", `{"city":"Rome"}`)}}, {Text: "Sent."}},
		run: func(t *testing.T, a *app) {
			a.must(a.use(a.agent("assistant", nil, function(t, "send", true, weather))).ask(t.Context(), "s1", says("Send.")))
			a.must(a.ask(t.Context(), "s1", a.answers(true)))
			a.must(a.ask(t.Context(), "s1", a.answers(true)))
		},
	},
	{
		name:    "approval never answered",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "send", `{"city":"Bonn"}`)}}},
		run: func(t *testing.T, a *app) {
			a.must(a.use(a.agent("assistant", nil, function(t, "send", true, weather))).ask(t.Context(), "s1", says("Send.")))
		},
	},
	{
		name:    "a tool that the agent does not have",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "fly", `{}`)}}, {Text: "I cannot."}},
		run:     func(t *testing.T, a *app) { a.must(a.withTool(weather).ask(t.Context(), "s1", says("Fly."))) },
	},
}

// TestCases compares the tree of each case with testdata/outlines.txtar, which has those of the streamed form, and of
// programs without the client of the module, where they differ. Requests are compared byte for byte.
func TestCases(t *testing.T) {
	want := outlines(t)
	for _, c := range cases {
		for _, form := range []string{"", ", streamed", ", without client", ", streamed, without client"} {
			streamed, bare := strings.Contains(form, "streamed"), strings.Contains(form, "without")
			if bare && c.wire {
				continue
			}
			t.Run(c.name+form, func(t *testing.T) {
				a := newApp(t, streamed, c.replies...)
				if bare {
					a.client = &http.Client{Transport: a.base}
				}
				c.run(t, a)
				genai := regexp.MustCompile(`google-genai-sdk/[0-9.]+`).FindString(
					strings.Join(a.server.Requests()[0].Header["X-Goog-Api-Client"], " "))
				want.compare(t, c.name, form, genai, ordered(a.Outline()))
				for _, r := range a.server.Requests() {
					if v := r.Header.Get("X-Otelagent-Turn"); v != "" && !bare {
						t.Errorf("the header left: %s", v)
					}
				}
				if !bare {
					a.SameRequests(a.server.Bodies())
				}
			})
		}
	}
}

// retrying asks again while the answer says that it helps.
type retrying struct{ http.RoundTripper }

func (r retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	for {
		again := req.Clone(req.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		res, err := r.RoundTripper.RoundTrip(again)
		if err != nil || res.Header.Get("Retry-After-Ms") == "" {
			return res, err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}
