package oteleino

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/compose"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// run is an agent or graph that runs. That of a graph starts with its first turn or tool call.
type run struct {
	tracer  *otelagent.Tracer
	above   *otelagent.Run // that encloses it
	reading sync.WaitGroup // of streams

	mu      sync.Mutex
	ctx     context.Context // where it starts; nil once it started
	info    writer.RunInfo
	run     *otelagent.Run
	adopted bool // the program started it
	ended   bool
	asked   bool // it had a turn
	first   spans.Trigger
	open    []*turn
	tools   []*toolCall // that run
	compact *compaction
}

// newRun returns a run that has not started, or the run that the program started in ctx.
func (h *Handler) newRun(ctx context.Context, info *callbacks.RunInfo) *run {
	above := otelagent.RunFromContext(ctx)
	r := &run{tracer: h.tracer, above: above, ctx: ctx,
		info: writer.RunInfo{Agent: info.Name, Start: writer.Moment{Time: time.Now()}}}
	if above == nil {
		r.info.SessionID, _ = ctx.Value(sessionKey{}).(string)
	}
	r.first = spans.TriggerUser
	if otelagent.ToolCallFromContext(ctx) != nil {
		r.first = spans.TriggerSubAgent
	}
	ours := frameOf(ctx) != nil && frameOf(ctx).run.is(above)
	if above != nil && !ours && otelagent.TurnFromContext(ctx) == nil {
		r.run, r.ctx, r.adopted = above, nil, true
	}
	return r
}

// started returns the run, which starts now if it has not. The caller holds the lock.
func (r *run) started() *otelagent.Run {
	if r.ctx != nil {
		r.start(r.ctx)
	}
	return r.run
}

// start starts the run, and returns its context. The caller holds the lock, or nobody else has r.
func (r *run) start(ctx context.Context) context.Context {
	ctx, run := (*writer.Tracer)(r.tracer).StartRun(ctx, r.info)
	r.run, r.ctx = (*otelagent.Run)(run), nil
	return ctx
}

func (r *run) is(run *otelagent.Run) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run == run
}

func (h *Handler) startAgent(ctx context.Context, info *callbacks.RunInfo, in *adk.AgentCallbackInput) context.Context {
	if f := frameOf(ctx); f != nil && f.tool != nil {
		f.tool.nested.Store(true)
	}
	r := h.newRun(ctx, info)
	r.asked = in != nil && in.ResumeInfo != nil // its turns continue those of another run
	if !r.adopted {
		outermost := r.above == nil
		if r.asked && outermost {
			r.resumes(ctx)
		}
		if ctx = r.start(ctx); outermost {
			adk.AddSessionValue(ctx, runKey+info.Name, r.run.SessionID()+"\n"+r.run.ID())
		}
	}
	return context.WithValue(ctx, frameKey{}, &frame{info: info, run: r, owner: true})
}

// runKey begins the key of the session value that has the session and the run of an agent. Eino keeps such values in
// checkpoints, so that a run finds there which one it resumes, also in another process.
const runKey = "otelagent.run."

// resumes makes r the continuation of the run that the checkpoint in ctx is of, if that was recorded.
func (r *run) resumes(ctx context.Context) {
	v, _ := adk.GetSessionValue(ctx, runKey+r.info.Agent)
	text, _ := v.(string)
	session, id, _ := strings.Cut(text, "\n")
	if id == "" {
		return
	}
	r.info.ParentID, r.info.Continuation = id, spans.ContinuationDefault
	switch r.info.SessionID {
	case "", session:
		r.info.SessionID = session
	default:
		r.info.ParentSessionID = session
	}
}

// follow ends the run of an agent when its events end.
func (h *Handler) follow(f *frame, out *adk.AgentCallbackOutput) {
	if out == nil || out.Events == nil {
		f.end(nil)
		return
	}
	h.read(func() {
		var failed error
		for {
			e, ok := out.Events.Next()
			if !ok {
				break
			}
			if e == nil {
				continue
			}
			if e.Err != nil {
				failed = e.Err
			}
			if e.Output != nil && e.Output.MessageOutput != nil && e.Output.MessageOutput.MessageStream != nil {
				e.Output.MessageOutput.MessageStream.Close() // the turn has it
			}
		}
		f.end(failed)
	})
}

// interrupted reports whether err is no failure but an interrupt.
func interrupted(err error) bool {
	if err == nil {
		return false
	}
	_, whole := compose.ExtractInterruptInfo(err)
	_, rerun := compose.IsInterruptRerunError(err)
	return whole || rerun
}

// end ends what is open, and the run. It waits for replies that are still being read. Eino reports no end of a model
// call or a tool that panicked, and makes the panic the error of the run.
func (r *run) end(err error) {
	r.reading.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	if interrupted(err) {
		err = nil
	}
	for _, c := range r.tools {
		(*writer.Tool)(c.Tool).End(writer.ToolResult{End: writer.Moment{Closed: true}})
	}
	r.tools = nil
	for _, t := range slices.Clone(r.open) {
		if t.calling > 0 && err != nil {
			t.failed = &modelCall{err: err}
		}
		r.settle(t, true)
	}
	if r.compact != nil {
		r.compact.end(nil, nil)
		r.compact = nil
	}
	if r.run != nil && !r.adopted {
		r.run.End(otelagent.RunResult{Err: err})
	}
}

// turn is an open turn.
type turn struct {
	*otelagent.Turn
	span     trace.Span
	info     *callbacks.RunInfo
	answered bool // the model has replied
	last     *modelCall
	failed   *modelCall // the last, where it failed
	calling  int        // calls of the model that run
	wanted   []string   // tool calls of the reply that have not ended
	running  int        // tool calls
	past     bool       // another turn has started
}

// settle ends a turn that has nothing to wait for, or in any case. The caller holds the lock.
func (r *run) settle(t *turn, anyway bool) {
	anyway = anyway || t.past && t.running == 0 && t.calling == 0
	done := t.answered && len(t.wanted) == 0 && t.running == 0 && t.calling == 0
	at := slices.Index(r.open, t)
	if at < 0 || !done && !anyway {
		return
	}
	r.open = slices.Delete(r.open, at, at+1)
	if t.failed != nil {
		t.End(otelagent.TurnResult{Err: t.failed.err, End: t.failed.end})
		return
	}
	t.End(otelagent.TurnResult{})
}

// turnOf returns the turn whose reply asked for a tool call, else the last turn that is open.
func (r *run) turnOf(call string) *turn {
	for _, t := range r.open {
		if slices.Contains(t.wanted, call) {
			return t
		}
	}
	if len(r.open) > 0 {
		return r.open[len(r.open)-1]
	}
	return nil
}

func (r *run) trigger() (t spans.Trigger) {
	t = r.first
	if r.asked {
		t = spans.TriggerContinuation
	}
	r.asked = true
	return t
}

// tried returns how many attempts of a turn have a request, how many were discarded, and whether the last has a reply.
func (t *turn) tried() (attempts, discarded int, replied bool) {
	return (*writer.Turn)(t.Turn).Tried()
}
