// Package oteleino records the agents of Eino, the framework of CloudWeGo, as sessions: runs of agents and graphs,
// turns with their attempts and usage, tool calls, sub-agents, approvals and compactions.
//
//	callbacks.AppendGlobalHandlers(oteleino.New(tracer))
//
// The exact bytes of requests come from the HTTP client of the model, for example that of eino-ext's openai:
//
//	config.HTTPClient = &http.Client{Transport: otelllmhttp.NewTransport(tracer)}
//
// Without it a request is its messages as Eino has them, and is recorded when the reply is there.
//
// Compactions are those of the summarization middleware: summarization.New(ctx, oteleino.Summarization(config)). An
// agent needs nothing else in its Handlers: callbacks give its turns, tools and approvals.
//
// What becomes what:
//   - An agent of package adk is a run, and so is a graph, chain or workflow that calls a model and is in no agent. In
//     a tool it is a sub-agent of the tool call.
//   - In the context of a run that the program started itself, turns and tools belong to that run, and the program ends
//     it.
//   - A call of a model is a turn. Calls that repeat one that failed (ModelRetryConfig) are attempts of its turn.
//   - A tool that interrupts (tool.Interrupt) is skipped and asks for permission. In the run that resumes it, the data
//     for it is the decision: a bool, or a struct or map with a bool named Approved. Other data is no decision.
//   - The run that resumes an interrupted one continues it, in its session. A session value of package adk,
//     otelagent.run.NAME, names both in the checkpoint.
//
// Eino has no name for a conversation: [WithSession] gives it one. Without it, each run that nothing encloses is a
// session of its own, and so is an agent that another one transfers to.
//
// Limits:
//   - Eino hands replies to callbacks as a copy of the stream, which is read to its end, also where the program closes
//     its own copy early.
//   - Models, agents and messages that Eino calls agentic are not recorded.
//   - What other middlewares take out of the messages, such as reduction, is no compaction: the requests show it.
//   - A graph without an agent has no session values: a run that resumes it does not name it.
//   - A handler that is also given to a single run (compose.WithCallbacks) records it twice.
//
// Eino starts no spans of its own.
package oteleino

import (
	"context"
	"sync"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

const (
	// ScopeName is the import path of this package, as instrumentation scopes are named. Its spans are the tracer's.
	ScopeName = "github.com/otelagent/otelagent/instrumentation/github.com/cloudwego/eino/oteleino"
	// Version is the version of this module.
	Version = "0.1.0"
)

// Handler records what Eino calls it for. Safe for concurrent use.
type Handler struct {
	tracer *otelagent.Tracer

	mu   sync.Mutex
	open int // streams that are being read
	idle *sync.Cond
}

var (
	_ callbacks.Handler       = (*Handler)(nil)
	_ callbacks.TimingChecker = (*Handler)(nil)
)

// New returns a Handler for callbacks.AppendGlobalHandlers. It never fails; a nil tracer records nothing.
func New(tracer *otelagent.Tracer) *Handler {
	h := &Handler{tracer: tracer}
	h.idle = sync.NewCond(&h.mu)
	return h
}

// Wait returns when no reply and no run is still being read. Eino hands their streams to callbacks as copies, so that
// the caller of an agent may see the end before the handler does. Call it before the program flushes or shuts down its
// provider.
func (h *Handler) Wait() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.open > 0 {
		h.idle.Wait()
	}
}

// read runs f, which reads a stream to its end.
func (h *Handler) read(f func()) {
	h.mu.Lock()
	h.open++
	h.mu.Unlock()
	go func() {
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.open--; h.open == 0 {
				h.idle.Broadcast()
			}
		}()
		defer writer.Guard(ScopeName)
		f()
	}()
}

type sessionKey struct{}

// WithSession returns a context whose runs are in the session id, such as that of a conversation. Where a run of the
// program encloses them, they are in its session.
func WithSession(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, sessionKey{}, id)
}

// A frame is what one callback at the start of a component left for those at its end. Its info identifies the
// component.
type frame struct {
	info  *callbacks.RunInfo
	run   *run
	owner bool // the run ends with the component
	call  *modelCall
	said  reply // to call
	tool  *toolCall
	got   result // of tool
}

type frameKey struct{}

func frameOf(ctx context.Context) *frame {
	f, _ := ctx.Value(frameKey{}).(*frame)
	return f
}

// mine returns the frame of the component that ends.
func mine(ctx context.Context, info *callbacks.RunInfo) *frame {
	if f := frameOf(ctx); f != nil && info != nil && f.info == info {
		return f
	}
	return nil
}

// within returns the run that ctx is in, nil where there is none or the program started one further in.
func within(ctx context.Context) *run {
	f := frameOf(ctx)
	if f == nil {
		return nil
	}
	if own := otelagent.RunFromContext(ctx); own != nil && own != f.run.above && !f.run.is(own) {
		return nil
	}
	return f.run
}

func isGraph(c components.Component) bool {
	return c == compose.ComponentOfGraph || c == compose.ComponentOfChain || c == compose.ComponentOfWorkflow
}

// Needed reports whether the handler wants to be called; Eino copies streams for it only then.
func (h *Handler) Needed(ctx context.Context, info *callbacks.RunInfo, timing callbacks.CallbackTiming) bool {
	if h.tracer == nil || info == nil {
		return false
	}
	starts := timing == callbacks.TimingOnStart || timing == callbacks.TimingOnStartWithStreamInput
	switch {
	case isGraph(info.Component) && starts:
		return within(ctx) == nil
	case info.Component == adk.ComponentOfAgent, info.Component == components.ComponentOfChatModel,
		info.Component == components.ComponentOfTool:
		return starts || mine(ctx, info) != nil
	}
	return mine(ctx, info) != nil
}

// OnStart records the start of a component.
func (h *Handler) OnStart(ctx context.Context, info *callbacks.RunInfo, input callbacks.CallbackInput) (
	in context.Context) {
	in = ctx // the framework gets a context also after a panic here
	defer writer.Guard(ScopeName)
	switch {
	case info == nil:
	case info.Component == adk.ComponentOfAgent:
		in = h.startAgent(ctx, info, adk.ConvAgentCallbackInput(input))
	case info.Component == components.ComponentOfChatModel:
		in = h.startModel(ctx, info, model.ConvCallbackInput(input))
	case info.Component == components.ComponentOfTool:
		in = h.startTool(ctx, info, tool.ConvCallbackInput(input))
	case isGraph(info.Component) && within(ctx) == nil:
		f := &frame{info: info, run: h.newRun(ctx, info), owner: true}
		in = context.WithValue(ctx, frameKey{}, f)
	}
	return in
}

// OnStartWithStreamInput is OnStart of a graph whose input is a stream.
func (h *Handler) OnStartWithStreamInput(ctx context.Context, info *callbacks.RunInfo,
	input *schema.StreamReader[callbacks.CallbackInput]) context.Context {
	input.Close()
	return h.OnStart(ctx, info, nil)
}

// OnEnd records the end of a component, and what it returned.
func (h *Handler) OnEnd(ctx context.Context, info *callbacks.RunInfo, output callbacks.CallbackOutput) context.Context {
	f := mine(ctx, info)
	if f == nil {
		return ctx
	}
	if info.Component == adk.ComponentOfAgent {
		h.follow(f, adk.ConvAgentCallbackOutput(output))
		return ctx
	}
	f.add(output)
	f.returned(ctx, nil)
	f.end(nil)
	return ctx
}

// OnEndWithStreamOutput records the end of a component when the stream that it returned ends.
func (h *Handler) OnEndWithStreamOutput(ctx context.Context, info *callbacks.RunInfo,
	output *schema.StreamReader[callbacks.CallbackOutput]) context.Context {
	f := mine(ctx, info)
	if f == nil {
		output.Close()
		return ctx
	}
	if f.call != nil {
		f.run.streams(f.call)
	}
	f.run.reading.Add(1)
	h.read(func() { f.end(f.drain(ctx, output)) })
	return ctx
}

// OnError records that a component failed.
func (h *Handler) OnError(ctx context.Context, info *callbacks.RunInfo, err error) context.Context {
	f := mine(ctx, info)
	if f == nil {
		return ctx
	}
	f.returned(ctx, err)
	f.end(err)
	return ctx
}

// add adds what the component returned, or a piece of it.
func (f *frame) add(output callbacks.CallbackOutput) {
	switch {
	case f.call != nil:
		p := model.ConvCallbackOutput(output)
		f.said.add(p)
		f.call.partial(p)
	case f.tool != nil:
		f.got.add(tool.ConvCallbackOutput(output))
	}
}

// returned records that a model or a tool is done. Of one that failed nothing counts but the error.
func (f *frame) returned(ctx context.Context, err error) {
	defer writer.Guard(ScopeName)
	switch {
	case f.call != nil:
		f.run.replied(f.call, &f.said, err)
	case f.tool != nil:
		f.run.returned(ctx, f.tool, &f.got, err)
	}
}

// end ends the run that began with the component.
func (f *frame) end(err error) {
	defer writer.Guard(ScopeName)
	if f.owner {
		f.run.end(err)
	}
}
