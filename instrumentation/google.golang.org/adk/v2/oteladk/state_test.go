package oteladk

import (
	"context"
	"errors"
	"iter"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// script is a model without a network.
type script func(ctx context.Context, q *model.LLMRequest) (*model.LLMResponse, error)

func (script) Name() string { return "scripted" }

func (s script) GenerateContent(ctx context.Context, q *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) { yield(s(ctx, q)) }
}

func said(parts ...*genai.Part) *model.LLMResponse {
	return &model.LLMResponse{Content: genai.NewContentFromParts(parts, genai.RoleModel), TurnComplete: true}
}

// However an invocation ends, nothing of it stays.
func TestNothingStays(t *testing.T) {
	clients.Store(true)
	defer clients.Store(false)
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(trace.NewTracerProvider()))
	kept := newTracker(tracer)
	fetch, err := functiontool.New(functiontool.Config{Name: "fetch", Description: "fetches", IsLongRunning: true},
		func(agent.Context, struct{}) (map[string]any, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	calls := &genai.Part{FunctionCall: &genai.FunctionCall{ID: "c1", Name: "fetch"}}
	for name, run := range map[string]struct {
		model script
		other plugin.Config
		stop  bool
	}{
		"completed": {model: func(context.Context, *model.LLMRequest) (*model.LLMResponse, error) {
			return said(genai.NewPartFromText("Hi.")), nil
		}},
		"failed": {model: func(context.Context, *model.LLMRequest) (*model.LLMResponse, error) {
			return nil, errors.New("no")
		}},
		"a call stays open": {model: func(context.Context, *model.LLMRequest) (*model.LLMResponse, error) {
			return said(calls), nil
		}},
		"the caller stops": {stop: true, model: func(context.Context, *model.LLMRequest) (*model.LLMResponse, error) {
			return said(calls), nil
		}},
		"another plugin refuses the run": {other: plugin.Config{BeforeRunCallback: func(agent.InvocationContext) (
			*genai.Content, error) {
			return nil, errors.New("no")
		}}},
		"another plugin answers": {other: plugin.Config{BeforeModelCallback: func(agent.Context, *model.LLMRequest) (
			*model.LLMResponse, error) {
			return said(genai.NewPartFromText("Not now.")), nil
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := llmagent.New(llmagent.Config{Name: "a", Model: run.model, Tools: []tool.Tool{fetch}})
			if err != nil {
				t.Fatal(err)
			}
			run.other.Name = "other"
			other, err := plugin.New(run.other)
			if err != nil {
				t.Fatal(err)
			}
			r, err := runner.New(runner.Config{AppName: "app", Agent: root, SessionService: session.InMemoryService(),
				AutoCreateSession: true, PluginConfig: runner.PluginConfig{Plugins: append(kept.plugins(), other)}})
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range r.Run(t.Context(), "u", "s", genai.NewContentFromText("Hello.", "user"), agent.RunConfig{}) {
				if run.stop || err != nil {
					break
				}
			}
			if len(kept.open) > 0 {
				t.Errorf("%d invocations", len(kept.open))
			}
			marked.Range(func(k, _ any) bool { t.Errorf("mark %v", k); return true })
		})
	}
}

type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("a value of the program") }

// A panic in the plugin is reported and does not reach the framework.
func TestPanicStaysHere(t *testing.T) {
	reported := 0
	before := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { reported++ }))
	defer otel.SetErrorHandler(before)

	kept := newTracker(otelagent.NewTracer(otelagent.WithTracerProvider(trace.NewTracerProvider())))
	root, err := llmagent.New(llmagent.Config{Name: "a", Model: script(
		func(context.Context, *model.LLMRequest) (*model.LLMResponse, error) {
			p := genai.NewPartFromText("Hi.")
			p.ToolCall = &genai.ToolCall{Args: map[string]any{"a": bomb{}}}
			return said(p), nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	r, err := runner.New(runner.Config{AppName: "app", Agent: root, SessionService: session.InMemoryService(),
		AutoCreateSession: true, PluginConfig: runner.PluginConfig{Plugins: kept.plugins()}})
	if err != nil {
		t.Fatal(err)
	}
	events := 0
	for _, err := range r.Run(t.Context(), "u", "s", genai.NewContentFromText("Hello.", "user"), agent.RunConfig{}) {
		if err != nil {
			t.Error(err)
		}
		events++
	}
	if events == 0 || reported == 0 || len(kept.open) > 0 {
		t.Errorf("%d events, %d reports, %d open", events, reported, len(kept.open))
	}
}

// Invocations that begin and never end are bounded, and end with the plugin.
func TestOpenInvocationsAreBounded(t *testing.T) {
	kept := newTracker(otelagent.NewTracer(otelagent.WithTracerProvider(trace.NewTracerProvider())))
	first := ""
	for n := range maxInvocations + 10 {
		id := string(rune('a' + n))
		kept.start(begun{t.Context(), id})
		if n == 0 {
			first = id
		}
	}
	if len(kept.open) != maxInvocations || kept.open[first] != nil {
		t.Errorf("%d open", len(kept.open))
	}
	if err := kept.close(); err != nil || len(kept.open) > 0 {
		t.Error(err, len(kept.open))
	}
}

// begun is the context of an invocation of which nothing else is known.
type begun struct {
	context.Context
	id string
}

func (b begun) InvocationID() string      { return b.id }
func (begun) Session() session.Session    { return nil }
func (begun) Agent() agent.Agent          { return nil }
func (begun) UserContent() *genai.Content { return nil }

// invoked is the context of an event of an invocation.
type invoked struct{ agent.InvocationContext }

func (invoked) InvocationID() string { return "i" }

// The result of a call of one agent does not end a call of another one that has the same id.
func TestResultOfAnotherAgent(t *testing.T) {
	kept := newTracker(otelagent.NewTracer(otelagent.WithTracerProvider(trace.NewTracerProvider())))
	kept.start(begun{t.Context(), "i"})
	i := kept.open["i"]
	for _, name := range []string{"first", "second"} {
		r := kept.startRun(t.Context(), writer.RunInfo{Agent: name}, spans.TriggerSubAgent)
		r.place = place{"both." + name, name}
		i.runs[r.place] = r
		r.startTool(t.Context(), i, "c1", "fetch", nil)
	}
	e := &session.Event{Branch: "both.first", Author: "first"}
	e.Content = genai.NewContentFromParts([]*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "c1"}}}, "user")
	for _, want := range []int{1, 0} {
		if _, err := kept.onEvent(invoked{}, e); err != nil {
			t.Error(err)
		}
		if len(i.calls) != want || want > 0 && i.calls[callAt(place{"both.second", "second"}, "c1")] == nil {
			t.Errorf("open calls: %v", i.calls)
		}
		e.Branch, e.Author = "", "user" // as results of tasks come
	}
}
