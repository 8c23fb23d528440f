// Package otelanthropic records what a program does with Anthropic's SDK for Go as sessions: runs, turns with the exact
// bytes of every request, tool calls, compactions and sub-agents.
//
//	client := anthropic.NewClient(otelanthropic.Options(tracer)...)
//
// Put further options in front: a middleware behind ours changes requests after they were recorded.
//
// Package otelllmhttp says what is inferred, and how a run of the program's own replaces that. A program that uses the
// tool runner gives it the tools of an Instrumentation. Then the times of its tool calls are true, and model calls in a
// tool are a sub-agent of its call:
//
//	a := otelanthropic.New(tracer)
//	defer a.Close() // ends open runs
//	client := anthropic.NewClient(a.Options()...)
//	runner := client.Beta.Messages.NewToolRunner(a.Tools(weather, search), params)
//
// # Limits
//
//   - The SDK's own spans are off, because they count tokens a second time for backends that add up spans. With
//     [WithOwnSpans] they stay, and otelsetup.WithoutScopes or WithoutGenAIUsage avoid that. A tool of the SDK's MCP
//     helper that passed [Instrumentation.Tools] counts as custom there.
//   - After a compaction of the tool runner the conversation goes on as a new session, unless the program has a run.
//   - The SDK gives a tool no call id: of two open calls with one name and the same arguments, either is taken. Of two
//     conversations neither is: the times of both calls are bounds, and model calls in them are no sub-agents.
//   - Sessions of Anthropic's servers (Beta.Agents, Beta.Sessions) are not recorded.
//   - Versions before v1.81.0 have no spans of their own: use otelllmhttp.Middleware.
package otelanthropic

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/otelagent/otelagent/instrumentation/net/http/otelllmhttp"
	"github.com/otelagent/otelagent/otelagent"
)

// Version is the version of this module.
const Version = "0.1.0"

// ScopeName names this module in telemetry.
const ScopeName = "github.com/otelagent/otelagent/instrumentation/github.com/anthropics/anthropic-sdk-go/otelanthropic"

// Option configures an Instrumentation.
type Option interface{ apply(*Instrumentation) }

type optionFunc func(*Instrumentation)

func (f optionFunc) apply(a *Instrumentation) { f(a) }

// WithAgent names the agent of inferred runs. Default: none.
func WithAgent(name string) Option { return optionFunc(func(a *Instrumentation) { a.agent = name }) }

// WithOwnSpans keeps the spans that the SDK has of its own. Default: they are off.
func WithOwnSpans() Option { return optionFunc(func(a *Instrumentation) { a.own = true }) }

// Instrumentation records the model calls of the clients that have its options. Safe for concurrent use.
type Instrumentation struct {
	transport *otelllmhttp.Transport
	agent     string
	own       bool
}

// New returns an Instrumentation. The nil Tracer records nothing.
func New(tracer *otelagent.Tracer, opts ...Option) *Instrumentation {
	a := &Instrumentation{}
	for _, o := range opts {
		if o != nil {
			o.apply(a)
		}
	}
	a.transport = otelllmhttp.NewTransport(tracer, otelllmhttp.WithAgent(a.agent))
	return a
}

// Options returns the options of a new Instrumentation. A program that has to end open runs before it exits, or that
// uses the tool runner, makes the Instrumentation with [New].
func Options(tracer *otelagent.Tracer, opts ...Option) []option.RequestOption {
	return New(tracer, opts...).Options()
}

// Options returns the options of a client, or of one request.
func (a *Instrumentation) Options() []option.RequestOption {
	all := []option.RequestOption{option.WithMiddleware(a.transport.Intercept)}
	if !a.own {
		all = append(all, option.WithoutOpenTelemetry())
	}
	return all
}

// Close ends all open runs and forgets all conversations.
func (a *Instrumentation) Close() { a.transport.Close() }

// Tools returns tools that do the same, and whose calls have their true times. In their context otelagent's
// ToolCallFromContext returns the call.
func (a *Instrumentation) Tools(tools ...anthropic.BetaTool) []anthropic.BetaTool {
	all := make([]anthropic.BetaTool, len(tools))
	for i, t := range tools {
		if t != nil {
			all[i] = tool{t, a}
		}
	}
	return all
}

type tool struct {
	anthropic.BetaTool
	of *Instrumentation
}

var errPanicked = errors.New("the tool panicked")

// Execute runs the tool in the context of its call.
func (t tool) Execute(ctx context.Context, input json.RawMessage) (
	content []anthropic.BetaToolResultBlockParamContentUnion, err error) {
	ctx, call := t.of.transport.StartTool(ctx, t.Name(), input)
	res := otelagent.ToolResult{Err: errPanicked}
	defer func() { call.End(res) }()
	content, err = t.BetaTool.Execute(ctx, input)
	if res.Err = err; err == nil {
		res.Result, _ = json.Marshal(content) // of what is no JSON nothing is said
	}
	return content, err
}
