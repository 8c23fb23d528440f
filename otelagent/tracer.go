package otelagent

import (
	"context"

	"github.com/otelagent/otelagent/internal/writer"
)

// Tracer starts runs. Make one per process and keep it: it remembers which blocks of content each session has sent.
// The nil Tracer does nothing. Safe for concurrent use.
type Tracer writer.Tracer

// NewTracer returns a Tracer. It never fails and never returns nil; nil options are ignored.
func NewTracer(opts ...Option) *Tracer {
	c := writer.Config{PartialEvery: partialInterval}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	return (*Tracer)(writer.NewTracer(c))
}

// StartRun starts a run and returns a context in which its turns, and runs that it spawns, are to be started.
//
// The run is a child of the span in ctx; in a context that a run, turn, tool call or compaction started, it is a child
// of that, in its session. Where no run of this process encloses it, session, parent run and tool call are taken from
// the baggage that [ContextWithBaggage] writes. The returned context has no baggage that names that run and tool call.
// A run that continues another one of this process is linked to it.
func (t *Tracer) StartRun(ctx context.Context, info RunInfo) (context.Context, *Run) {
	if info.NewRoot {
		ctx = writer.WithSource(ctx, &writer.Source{NewRoot: true})
	}
	ctx, run := (*writer.Tracer)(t).StartRun(ctx, info.full())
	return ctx, (*Run)(run)
}

// RunFromContext returns the innermost run whose context ctx is, or derives from; nil without one.
func RunFromContext(ctx context.Context) *Run {
	run, _, _ := writer.InContext(ctx)
	return (*Run)(run)
}

// TurnFromContext returns the turn of the innermost run whose context ctx is, or derives from; nil without one. In the
// context of a tool call or a compaction it is the turn that the context was started in.
func TurnFromContext(ctx context.Context) *Turn {
	_, turn, _ := writer.InContext(ctx)
	return (*Turn)(turn)
}

// ToolCallFromContext returns the tool call of the innermost run whose context ctx is, or derives from, so that a tool
// can report its progress; nil without one, and nil does nothing.
func ToolCallFromContext(ctx context.Context) *Tool {
	_, _, tool := writer.InContext(ctx)
	return (*Tool)(tool)
}

// ContextWithBaggage returns ctx with W3C baggage that names the session, run and tool call that ctx is in, for a call
// of another process that runs an agent of its own. There [Tracer.StartRun] finds them: the run becomes a child of this
// run and tool call, in this session unless it names another one. Outside any run ctx comes back as it is.
//
//	ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c1", Name: "ask_researcher", Args: args})
//	req, err := http.NewRequestWithContext(otelagent.ContextWithBaggage(ctx), "POST", url, body)
//	resp, err := client.Do(req) // with a transport that propagates, such as otelhttp's
//
// The members are ids of at most 256 bytes each:
//   - session.id
//   - otelagent.run.id
//   - gen_ai.tool.call.id
//   - otelagent.session.made_up, where the tracer generated the session id
//
// Other members of ctx are kept, and take precedence: where all do not fit into the 8,192 bytes and 64 members that
// baggage may have, none of these is added. Baggage goes to every service that is called with the context, so give it
// to calls of your own agents only. A service whose callers are strangers has a Tracer [WithoutBaggage].
func ContextWithBaggage(ctx context.Context) context.Context { return writer.ContextWithBaggage(ctx) }
