// Package test runs the framework with the plugin against a model API on loopback, and compares the rebuilt sessions.
package test

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/model/gemini"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/instrumentation/google.golang.org/adk/v2/oteladk"
	"github.com/otelagent/otelagent/otelagent"
)

func TestMain(m *testing.M) {
	otel.SetTracerProvider(&framework)
	goleak.VerifyTestMain(m)
}

var content = otelagent.WithCapture(otelagent.CaptureContent)

// app is a program on the framework: one agent with tools, a model API, and the plugin.
type app struct {
	*agenttest.Pipeline
	t       *testing.T
	server  *provider.Server
	plugins []*plugin.Plugin
	base    *http.Transport
	client  *http.Client
	runner  *runner.Runner
	stream  bool
	stop    func(*session.Event) bool // whether the caller stops here
	confirm []string                  // ids of the questions that were asked
}

// newApp returns an app whose model gives the replies.
func newApp(t *testing.T, stream bool, replies ...provider.Reply) *app {
	p, base := agenttest.New(t, content), &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return &app{Pipeline: p, t: t, server: provider.New(t, replies...), plugins: oteladk.Plugins(p.Tracer()),
		base: base, client: &http.Client{Transport: oteladk.NewTransport(p.Tracer(), base)}, stream: stream}
}

// serve replaces the replies by those of a function.
func (a *app) serve(reply func(int, provider.Request) provider.Reply) {
	a.server = provider.NewFunc(a.t, reply)
}

// withTool makes the runner for an agent with one tool. Without a mode, first questions at once race in the framework.
func (a *app) withTool(f func(agent.Context, city) (degrees, error)) *app {
	g, err := llmagent.New(llmagent.Config{Name: "assistant", Model: a.model(), Mode: llmagent.ModeChat,
		Tools: []tool.Tool{function(a.t, "weather", false, f)}})
	a.must(err)
	return a.use(g)
}

func (a *app) model() model.LLM {
	m, err := gemini.NewModel(a.t.Context(), "fake-1", &genai.ClientConfig{APIKey: "none",
		Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: a.server.URL}, HTTPClient: a.client})
	if err != nil {
		a.t.Fatal(err)
	}
	return m
}

type city struct {
	City string `json:"city"`
}

type degrees struct {
	Degrees int `json:"degrees"`
}

func function[A, R any](t *testing.T, name string, confirm bool, f func(agent.Context, A) (R, error)) tool.Tool {
	t.Helper()
	tl, err := functiontool.New(functiontool.Config{Name: name, Description: "does " + name,
		RequireConfirmation: confirm}, f)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func weather(_ agent.Context, c city) (degrees, error) {
	if c.City == "Atlantis" {
		return degrees{}, errors.New("no such city")
	}
	return degrees{21}, nil
}

func (a *app) agent(name string, sub []agent.Agent, tools ...tool.Tool) agent.Agent {
	g, err := llmagent.New(llmagent.Config{Name: name, Model: a.model(), Description: "does " + name,
		Instruction: "Be kind.", Tools: tools, SubAgents: sub})
	if err != nil {
		a.t.Fatal(err)
	}
	return g
}

// use makes the runner for an agent.
func (a *app) use(root agent.Agent) *app {
	r, err := runner.New(runner.Config{AppName: "app", Agent: root, SessionService: session.InMemoryService(),
		AutoCreateSession: true, PluginConfig: runner.PluginConfig{Plugins: a.plugins}})
	if err != nil {
		a.t.Fatal(err)
	}
	a.runner = r
	return a
}

// ask runs one question to its end and returns the first error.
func (a *app) ask(ctx context.Context, id string, question *genai.Content) (failed error) {
	mode := agent.StreamingModeNone
	if a.stream {
		mode = agent.StreamingModeSSE
	}
	for e, err := range a.runner.Run(ctx, "u", id, question, agent.RunConfig{StreamingMode: mode}) {
		if err != nil {
			return err
		}
		if e.Content != nil {
			for _, p := range e.Content.Parts {
				if p.FunctionCall != nil && p.FunctionCall.Name == "adk_request_confirmation" {
					a.confirm = append(a.confirm, p.FunctionCall.ID)
				}
			}
		}
		if a.stop != nil && a.stop(e) {
			break
		}
	}
	return nil
}

func (a *app) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Error(err)
	}
}

func says(text string) *genai.Content { return genai.NewContentFromText(text, "user") }

// answers is what a user says to the last question.
func (a *app) answers(yes bool) *genai.Content {
	if len(a.confirm) == 0 {
		a.t.Fatal("nobody was asked")
	}
	return &genai.Content{Role: "user", Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
		ID: a.confirm[len(a.confirm)-1], Name: "adk_request_confirmation", Response: map[string]any{"confirmed": yes}}}}}
}

// ordered sorts what begins in any order: calls that are one below the other, and sessions. It takes off what depends
// on the time of a cancellation, and on which of two parallel agents is first.
func ordered(outline string) string {
	outline = cancelled.ReplaceAllString(strings.ReplaceAll(outline, "run second", "run first"), `"context canceled"`)
	outline = stopped.ReplaceAllString(outline, "failed cancelled")
	lines := strings.Split(strings.TrimSuffix(outline, "\n"), "\n")
	for i := range lines {
		for j := i; j > 0 && isCall(lines[j-1]) && isCall(lines[j]) && lines[j] < lines[j-1]; j-- {
			lines[j-1], lines[j] = lines[j], lines[j-1]
		}
	}
	sessions := strings.Split("\n"+strings.Join(lines, "\n"), "\nsession")[1:]
	slices.Sort(sessions)
	return "session" + strings.Join(sessions, "\nsession") + "\n"
}

var (
	cancelled = regexp.MustCompile(`"([^"\\]|\\.)*context canceled"`)
	stopped   = regexp.MustCompile(`(in 15 out 5 cached 3 )?(partial )?failed cancelled`)
)

func isCall(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), "tool ") }

func call(id, name, args string) provider.Call { return provider.Call{ID: id, Name: name, Args: args} }

var update = flag.Bool("update", false, "write testdata/outlines.txtar")

// golden are the outlines of the cases.
type golden struct {
	*txtar.Archive
	written []txtar.File
}

const goldenFile = "testdata/outlines.txtar"

func outlines(t *testing.T) *golden {
	t.Helper()
	a, err := txtar.ParseFile(goldenFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	g := &golden{Archive: a}
	if *update {
		t.Cleanup(func() {
			if a != nil {
				for _, f := range a.Files {
					if strings.Contains(f.Name, "google-genai-sdk") {
						g.written = append(g.written, f)
					}
				}
			}
			if err := os.WriteFile(goldenFile, txtar.Format(&txtar.Archive{Files: g.written}), 0o600); err != nil {
				t.Error(err)
			}
		})
	}
	return g
}

func find(files []txtar.File, name string) (string, bool) {
	i := slices.IndexFunc(files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		return "", false
	}
	return string(files[i].Data), true
}

// compare compares an outline with that of the case in a form and a version of genai, else in the form, else with that
// of the case alone.
func (g *golden) compare(t *testing.T, name, form, version, got string) {
	t.Helper()
	if *update {
		if first, ok := find(g.written, name); !ok || first != got {
			g.written = append(g.written, txtar.File{Name: name + form, Data: []byte(got)})
		}
		return
	}
	want, ok := find(g.Files, name+form+", "+version)
	if !ok {
		want, ok = find(g.Files, name+form)
	}
	if !ok {
		want, _ = find(g.Files, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outline (-want +got):\n%s", diff)
	}
}
