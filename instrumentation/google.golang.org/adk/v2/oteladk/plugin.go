package oteladk

import (
	"errors"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Plugins returns the plugin that records what a runner does, as runner.PluginConfig takes it. Put other plugins behind
// it. It never answers for the framework and never fails. One value may serve several runners. With the nil Tracer it
// records nothing.
func Plugins(tracer *otelagent.Tracer) []*plugin.Plugin {
	return newTracker(tracer).plugins()
}

func (t *tracker) plugins() []*plugin.Plugin {
	p, err := plugin.New(plugin.Config{
		Name:                 "otelagent",
		BeforeRunCallback:    t.beforeRun,
		AfterRunCallback:     t.afterRun,
		OnEventCallback:      t.onEvent,
		BeforeAgentCallback:  t.beforeAgent,
		AfterAgentCallback:   t.afterAgent,
		BeforeModelCallback:  t.beforeModel,
		AfterModelCallback:   t.afterModel,
		OnModelErrorCallback: t.onModelError,
		BeforeToolCallback:   t.beforeTool,
		AfterToolCallback:    t.afterTool,
		OnToolErrorCallback:  t.onToolError,
		CloseFunc:            t.close,
	})
	if err != nil {
		return nil // no version of the framework returns one
	}
	return []*plugin.Plugin{p}
}

func (t *tracker) beforeRun(ctx agent.InvocationContext) (*genai.Content, error) {
	defer writer.Guard(ScopeName)
	t.start(ctx)
	return nil, nil
}

func (t *tracker) afterRun(ctx agent.InvocationContext) {
	defer writer.Guard(ScopeName)
	if i := t.take(ctx.InvocationID()); i != nil {
		i.end(ctx.Err())
	}
}

// onEvent ends the calls whose result comes later than their tool returns, those of task agents, and takes the reply of
// a turn whose model was not asked, because another plugin or the agent answered for it.
func (t *tracker) onEvent(ctx agent.InvocationContext, e *session.Event) (*session.Event, error) {
	defer writer.Guard(ScopeName)
	i := t.invocation(ctx)
	if i == nil || e == nil || e.Content == nil {
		return nil, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	r, user := i.run(place{e.Branch, e.Author}), e.Author == "user" // who is the author of a result of a task
	if r.turn != nil && !e.Partial && !user {
		r.turn.answered(&e.LLMResponse)
	}
	for _, p := range e.Content.Parts {
		if p == nil || p.FunctionResponse == nil {
			continue
		}
		for key, c := range i.calls {
			if c.id == p.FunctionResponse.ID && (user || c.run == r) {
				c.Tool.End(otelagent.ToolResult{Result: raw(p.FunctionResponse.Response)})
				delete(i.calls, key)
			}
		}
	}
	return nil, nil
}

func (t *tracker) beforeAgent(ctx agent.Context) (*genai.Content, error) {
	defer writer.Guard(ScopeName)
	if i := t.invocation(ctx); i != nil {
		i.startAgent(t, ctx)
	}
	return nil, nil
}

func (t *tracker) afterAgent(ctx agent.Context) (*genai.Content, error) {
	defer writer.Guard(ScopeName)
	if i := t.invocation(ctx); i != nil {
		i.endAgent(placeOf(ctx))
	}
	return nil, nil
}

func (t *tracker) beforeModel(ctx agent.Context, q *model.LLMRequest) (*model.LLMResponse, error) {
	defer writer.Guard(ScopeName)
	i := t.invocation(ctx)
	if i == nil || q == nil {
		return nil, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	r := i.run(placeOf(ctx))
	r.startTurn(q)
	for name, v := range q.Tools {
		if w := withContext(v, i, r.place); w != nil {
			q.Tools[name] = w
		}
	}
	return nil, nil
}

func (t *tracker) afterModel(ctx agent.Context, res *model.LLMResponse, err error) (*model.LLMResponse, error) {
	defer writer.Guard(ScopeName)
	if i := t.invocation(ctx); i != nil && res != nil && err == nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		if r := i.run(placeOf(ctx)); r.turn != nil {
			r.turn.reply(res)
			if r.turn.keepTasks(i, res); !res.Partial {
				r.err = nil
			}
			if err := ctx.Err(); err != nil { // the framework takes a stream that the caller closed for a whole one
				r.err = err
				r.turn.fail(err)
			}
		}
	}
	return nil, nil
}

func (t *tracker) onModelError(ctx agent.Context, _ *model.LLMRequest, err error) (*model.LLMResponse, error) {
	defer writer.Guard(ScopeName)
	if i := t.invocation(ctx); i != nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		r := i.run(placeOf(ctx))
		r.err = err
		if r.turn != nil {
			r.turn.fail(err)
		}
	}
	return nil, nil
}

func (t *tracker) beforeTool(ctx agent.Context, tl tool.Tool, args map[string]any) (map[string]any, error) {
	defer writer.Guard(ScopeName)
	i := t.invocation(ctx)
	if i == nil {
		return nil, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	r := i.run(placeOf(ctx))
	c := r.startTool(ctx, i, ctx.FunctionCallID(), tl.Name(), args)
	if said := ctx.ToolConfirmation(); said != nil {
		e := writer.PermissionEvaluation{Action: spans.ActionDeny, Source: "user", Reason: said.Hint}
		if said.Confirmed {
			e.Action = spans.ActionAllow
		}
		c.decide(e)
	}
	return nil, nil
}

func (t *tracker) afterTool(ctx agent.Context, tl tool.Tool, _, result map[string]any, err error) (
	map[string]any, error) {
	defer writer.Guard(ScopeName)
	if err == nil && !(result == nil && (deferred(tl) || tl.IsLongRunning())) {
		t.endTool(ctx, otelagent.ToolResult{Result: raw(result)})
	}
	return nil, nil
}

func (t *tracker) onToolError(ctx agent.Context, tl tool.Tool, args map[string]any, err error) (map[string]any, error) {
	defer writer.Guard(ScopeName)
	res := otelagent.ToolResult{Err: err}
	switch {
	case errors.Is(err, tool.ErrConfirmationRequired):
		res.Outcome = spans.OutcomeSkipped
	case errors.Is(err, tool.ErrConfirmationRejected):
		res.Outcome = spans.OutcomeDenied
	}
	if i := t.invocation(ctx); i != nil && !t.endTool(ctx, res) { // a tool that the agent does not have: it never began
		_, _ = t.beforeTool(ctx, tl, args)
		t.endTool(ctx, res)
	}
	return nil, nil
}

// endTool ends the call of ctx and reports whether it was open. A confirmation that the tool asked for is an evaluation
// of it.
func (t *tracker) endTool(ctx agent.Context, res otelagent.ToolResult) bool {
	i := t.invocation(ctx)
	if i == nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	key := callAt(i.run(placeOf(ctx)).place, ctx.FunctionCallID())
	c := i.calls[key]
	if c == nil {
		return false
	}
	delete(i.calls, key)
	if a := ctx.Actions(); a != nil {
		if asked, ok := a.RequestedToolConfirmations[c.id]; ok {
			c.decide(writer.PermissionEvaluation{Action: spans.ActionAsk, Source: "tool", Reason: asked.Hint})
		}
	}
	c.Tool.End(res)
	return true
}

// decide records an evaluation of the call that took no time here.
func (c *call) decide(e writer.PermissionEvaluation) {
	writer.Decide(c.ctx, (*writer.Tool)(c.Tool), e)
}

// placeOf is where an agent works.
func placeOf(ctx agent.Context) place { return place{branch: ctx.Branch(), agent: ctx.AgentName()} }
