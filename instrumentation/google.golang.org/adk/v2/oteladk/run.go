package oteladk

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// maxInvocations bounds the open invocations. Beyond it the one that began first ends as aborted: the framework calls
// no hook for an invocation that fails between its start and its loop.
const maxInvocations = 4096

// tracker holds the open invocations of the runners that share a plugin.
type tracker struct {
	tracer *otelagent.Tracer

	mu    sync.Mutex
	open  map[string]*invocation // by invocation id
	begun int64
}

func newTracker(tracer *otelagent.Tracer) *tracker {
	return &tracker{tracer: tracer, open: map[string]*invocation{}}
}

// invocation is one call of Runner.Run.
type invocation struct {
	number int64             // order of the starts
	above  map[string]string // names of agents, and of the agents that they belong to

	mu    sync.Mutex
	root  *run
	runs  map[place]*run   // the open runs of agents below the first
	calls map[string]*call // the open tool calls, by place and id
}

// place is where an agent works. Agents that work at the same time are in different branches, or have different names.
type place struct{ branch, agent string }

func callAt(p place, id string) string { return p.branch + "\x00" + p.agent + "\x00" + id }

// run is what one agent does.
type run struct {
	*otelagent.Run
	ctx     context.Context
	place   place
	trigger spans.Trigger    // of its next turn
	turn    *turn            // the last
	err     error            // of the last model call
	handed  map[string]*call // the last call that hands over to an agent, by its name
}

// call is one tool call.
type call struct {
	*otelagent.Tool
	ctx context.Context
	run *run
	id  string
}

// beginning is what the start of an invocation reads of its context.
type beginning interface {
	context.Context
	InvocationID() string
	Session() session.Session
	Agent() agent.Agent
	UserContent() *genai.Content
}

// start starts the run of an invocation.
func (t *tracker) start(ctx beginning) {
	if t.tracer == nil {
		return
	}
	i := &invocation{above: map[string]string{}, runs: map[place]*run{}, calls: map[string]*call{}}
	info := writer.RunInfo{ID: ctx.InvocationID(), Continuation: spans.ContinuationInitial}
	if s := ctx.Session(); s != nil && otelagent.RunFromContext(ctx) == nil {
		info.SessionID = s.ID()
	}
	if a := ctx.Agent(); a != nil {
		info.Agent = a.Name()
		parents(a, i.above)
	}
	trigger := spans.TriggerUser
	if n, before := resumed(ctx); n > 0 {
		info.ParentID, info.ID = resumption(info.ID, before), resumption(info.ID, n)
		info.Continuation, trigger = spans.ContinuationDefault, spans.TriggerContinuation
	}
	i.root = t.startRun(ctx, info, trigger)

	t.mu.Lock()
	same := t.open[ctx.InvocationID()]
	if same == nil && len(t.open) >= maxInvocations {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(t.open)), func(a, b string) int {
			return cmp.Compare(t.open[a].number, t.open[b].number)
		})
		same = t.open[oldest]
		delete(t.open, oldest)
	}
	t.begun++
	i.number = t.begun
	t.open[ctx.InvocationID()] = i
	t.mu.Unlock()
	if same != nil {
		same.end(nil)
	}
}

func (t *tracker) startRun(ctx context.Context, info writer.RunInfo, trigger spans.Trigger) *run {
	ctx, r := (*writer.Tracer)(t.tracer).StartRun(ctx, info)
	return &run{Run: (*otelagent.Run)(r), ctx: ctx, trigger: trigger, handed: map[string]*call{}}
}

// resumption is the id of the run of an invocation that goes on with its nth event; with 0 of the one that began it.
func resumption(invocation string, n int) string {
	if n == 0 {
		return invocation
	}
	return fmt.Sprint(invocation, "-", n)
}

// resumed returns with which event, the answer that the user gives now, the invocation goes on, and with which it did
// so before: 0 for an invocation that begins.
func resumed(ctx beginning) (at, before int) {
	c, s := ctx.UserContent(), ctx.Session()
	if s == nil || !answers(c) {
		return 0, 0
	}
	n, agents := 0, false // whether the event before was of an agent
	for e := range s.Events().All() {
		if e == nil || e.InvocationID != ctx.InvocationID() {
			continue
		}
		if n++; agents && e.Author == "user" && answers(e.Content) {
			at, before = n, at
		}
		agents = e.Author != "user"
	}
	if agents { // the answer is no event yet
		at, before = n+1, at
	}
	return at, before
}

// answers reports whether a message has the result of a call.
func answers(c *genai.Content) bool {
	return c != nil && slices.ContainsFunc(c.Parts, func(p *genai.Part) bool {
		return p != nil && p.FunctionResponse != nil
	})
}

// parents adds the agents below a.
func parents(a agent.Agent, above map[string]string) {
	for _, sub := range a.SubAgents() {
		if _, seen := above[sub.Name()]; !seen {
			above[sub.Name()] = a.Name()
			parents(sub, above)
		}
	}
}

// invocation returns the open invocation of ctx; nil where there is none.
func (t *tracker) invocation(ctx interface{ InvocationID() string }) *invocation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[ctx.InvocationID()]
}

// take is invocation, which is then no longer open.
func (t *tracker) take(id string) *invocation {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := t.open[id]
	delete(t.open, id)
	return i
}

// close ends what is open.
func (t *tracker) close() error {
	defer writer.Guard(ScopeName)
	t.mu.Lock()
	open := t.open
	t.open = map[string]*invocation{}
	t.mu.Unlock()
	for _, i := range open {
		i.end(nil)
	}
	return nil
}

// run returns the open run of a place, which is that of the invocation for its first agent. The caller holds the lock.
func (i *invocation) run(p place) *run {
	if r := i.runs[p]; r != nil {
		return r
	}
	return i.root
}

// startAgent starts the run of an agent, unless it is the first of the invocation, which has one.
func (i *invocation) startAgent(t *tracker, ctx agent.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	p := placeOf(ctx)
	if i.root.place == (place{}) {
		i.root.place = p
	}
	if i.root.place == p {
		return
	}
	above := i.root
	for at, r := range i.runs { // the nearest one that works
		if at.agent == i.above[p.agent] && strings.HasPrefix(p.branch, at.branch) {
			above = r
		}
	}
	in := above.ctx
	if c := above.delegated(i, p.agent); c != nil {
		in = c.ctx
	}
	if old := i.runs[p]; old != nil {
		old.end(i, otelagent.RunResult{})
	}
	r := t.startRun(in, writer.RunInfo{Agent: p.agent}, spans.TriggerSubAgent)
	r.place, i.runs[p] = p, r
}

// delegated returns the last call that hands over to an agent; nil where there is none. The framework runs task agents
// without their tools: their call starts with them.
func (r *run) delegated(i *invocation, name string) *call {
	if r.turn != nil {
		for n, f := range r.turn.tasks {
			if f.Name == name {
				r.turn.tasks = slices.Delete(r.turn.tasks, n, n+1)
				return r.startTool(r.ctx, i, f.ID, f.Name, f.Args)
			}
		}
	}
	return r.handed[name]
}

// endAgent ends the run of an agent that is done. That of the first agent ends with the invocation.
func (i *invocation) endAgent(p place) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r := i.runs[p]; r != nil {
		delete(i.runs, p)
		r.end(i, r.result(nil))
	}
}

// end ends the invocation, whose context ended with err.
func (i *invocation) end(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, r := range i.runs {
		r.end(i, r.result(err))
	}
	clear(i.runs)
	i.root.end(i, i.root.result(err))
}

// result returns how a run ends by what its last model call came to. A caller that stops early ends a turn without a
// reply.
func (r *run) result(err error) (res otelagent.RunResult) {
	if res.Err = cmp.Or(err, r.err); res.Err == nil && r.turn != nil && !r.turn.replied {
		res.Status = spans.RunStatusAborted
	}
	return res
}

// end ends the run and what is open in it. The caller holds the lock of the invocation.
func (r *run) end(i *invocation, res otelagent.RunResult) {
	for key, c := range i.calls {
		if c.run == r {
			(*writer.Tool)(c.Tool).End(writer.ToolResult{End: writer.Moment{Closed: true}})
			delete(i.calls, key)
		}
	}
	r.endTurn()
	r.Run.End(res)
}

// startTool starts a call of the last turn, or of the run where the model was not asked yet: a call that the user
// confirmed.
func (r *run) startTool(ctx context.Context, i *invocation, id, name string, args map[string]any) *call {
	c := &call{run: r, id: id}
	info := writer.ToolCall{ID: id, Name: name, Type: "function", Args: raw(args)}
	var w *writer.Tool
	if r.turn != nil {
		c.ctx, w = (*writer.Turn)(r.turn.Turn).StartTool(ctx, info)
		r.turn.tasks = slices.DeleteFunc(r.turn.tasks, func(f *genai.FunctionCall) bool { return f.ID == id })
	} else {
		c.ctx, w = (*writer.Run)(r.Run).StartTool(ctx, info)
	}
	c.Tool = (*otelagent.Tool)(w)
	i.calls[callAt(r.place, id)] = c
	if name == "transfer_to_agent" {
		name, _ = args["agent_name"].(string)
	}
	if _, agents := i.above[name]; agents {
		r.handed[name] = c
	}
	return c
}
