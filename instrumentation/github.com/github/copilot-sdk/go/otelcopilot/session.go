package otelcopilot

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

const (
	// maxOpen is how many agents, and how many tool calls, of a session may be open. Further agents count as the main
	// one, further calls are not recorded.
	maxOpen = 1024
	// maxWaiting is how many turns of an agent may be open, how many of its requests to the model wait for the events of
	// their turns, and how many questions of a session for an answer. The oldest turn then ends, the oldest request is
	// not recorded, and neither is a further question.
	maxWaiting = 64
)

// session is a session that is watched.
type session struct {
	tracer *otelagent.Tracer
	id     string
	ctx    context.Context // in which its runs start

	mu     sync.Mutex
	over   bool
	model  string
	agents map[string]*agent        // by id; the main one has none
	calls  map[string]*call         // open ones, by id
	asked  map[string]*question     // by the id of the request for permission
	begun  map[string]chan struct{} // by id of the call that somebody waits for
}

func newSession(ctx context.Context, tracer *otelagent.Tracer, id string) *session {
	return &session{tracer: tracer, id: id, ctx: context.WithoutCancel(ctx), agents: map[string]*agent{},
		calls: map[string]*call{}, asked: map[string]*question{}, begun: map[string]chan struct{}{}}
}

// agent is the main agent or a sub-agent.
type agent struct {
	name, parentCall string
	ctx              context.Context
	run              *otelagent.Run // nil while none is open
	last             string         // the id of the run before
	input            []otelagent.Message
	turns            []*turn     // open ones, in the order of their events
	waiting          []*exchange // whose turns have not begun
	compaction       *otelagent.Compaction
	compacts         bool // the run is that of a compaction alone
	aborted          bool
}

// turn is an open turn.
type turn struct {
	id     string
	ctx    context.Context
	handle *otelagent.Turn
	last   *exchange            // nil without a request
	said   otelagent.TurnResult // by the events
}

// answered reports whether the turn has a whole reply.
func (t *turn) answered() bool { return t.last != nil && t.last.done && t.last.ok }

// call is an open tool call.
type call struct {
	agent  *agent
	ctx    context.Context
	tool   *otelagent.Tool
	name   string
	denied bool
}

// question is a request for permission without an answer.
type question struct {
	handle *otelagent.Permission
	call   string
}

// agent returns the agent of that id.
func (s *session) agent(id string) *agent {
	a := s.agents[id]
	if a == nil && id != "" && len(s.agents) >= maxOpen {
		return s.agent("")
	}
	if a == nil {
		a = &agent{name: "copilot", ctx: s.ctx}
		s.agents[id] = a
	}
	return a
}

// start starts a run of the agent unless one is open. A sub-agent whose start was not seen runs in the main one.
func (s *session) start(a *agent, at time.Time, continuation spans.Continuation) {
	if a.run != nil {
		return
	}
	info := otelagent.RunInfo{SessionID: s.id, Agent: a.name, Model: s.model, Start: at}
	ctx := s.ctx
	if main := s.agents[""]; a != main && main != nil && main.run != nil {
		ctx = main.ctx
		if c := s.calls[a.parentCall]; c != nil {
			ctx = c.ctx
		}
	} else if a.last != "" {
		info.ParentID, info.Continuation = a.last, continuation
	}
	a.ctx, a.run = s.tracer.StartRun(ctx, info)
	a.last, a.aborted, a.compacts = a.run.ID(), false, false
}

// begin begins a turn of the agent.
func (s *session) begin(a *agent, at time.Time, id, model string) *turn {
	s.start(a, at, spans.ContinuationDefault)
	if len(a.turns) == maxWaiting {
		a.finish(a.turns[0], at)
	}
	t := &turn{id: id}
	trigger := spans.TriggerContinuation
	if len(a.input) > 0 {
		trigger = spans.TriggerUser
	}
	t.ctx, t.handle = a.run.StartTurn(a.ctx, otelagent.TurnInfo{Trigger: trigger, Model: model, Start: at})
	for _, m := range a.input {
		t.handle.AddMessage(m)
	}
	a.input = nil
	a.turns = append(a.turns, t)
	for len(a.waiting) > 0 && !t.answered() {
		x := a.waiting[0]
		a.waiting = a.waiting[1:]
		attach(t, x)
	}
	return t
}

// attach records a request as the next attempt of a turn.
func attach(t *turn, x *exchange) {
	if before := t.last; before != nil {
		t.handle.Discard(before.attempt, before.res)
		x.attempt = before.attempt + 1
	}
	x.turn, t.last = t, x
	t.handle.Request(otelagent.Request{Attempt: x.attempt, Payload: x.payload})
	if x.payload = nil; x.done && x.ok {
		t.handle.Reply(x.res)
	}
}

// turnOf returns the open turn of that id, else the newest, else one that begins now.
func (s *session) turnOf(a *agent, id *string, at time.Time) *turn {
	for _, t := range a.turns {
		if id != nil && t.id == *id {
			return t
		}
	}
	if n := len(a.turns); n > 0 {
		return a.turns[n-1]
	}
	return s.begin(a, at, "", "")
}

// finish ends a turn with its reply: as the request has it, and else as the events do.
func (a *agent) finish(t *turn, at time.Time) {
	res := t.said
	if t.last != nil && t.last.done {
		x := t.last.res
		if x.Usage == nil {
			x.Usage = res.Usage
		}
		if x.Output == nil {
			x.Output = res.Output
		}
		res = x
	}
	if res.Err == nil && res.Output == nil && res.Usage == nil && a.aborted {
		res.Err = context.Canceled
	}
	res.End = at
	t.handle.End(res)
	a.turns = slices.DeleteFunc(a.turns, func(x *turn) bool { return x == t })
}

// close ends the run of the agent, and what is open in it.
func (s *session) close(a *agent, at time.Time, res otelagent.RunResult) {
	if a.run == nil && len(a.waiting) == 0 {
		a.input = nil
		return
	}
	for len(a.waiting) > 0 { // no event of their turns came
		a.finish(s.begin(a, a.waiting[0].start, "", ""), at)
	}
	for id, q := range s.asked {
		if c := s.calls[q.call]; c == nil || c.agent == a {
			q.handle.End(otelagent.Decision{Action: spans.ActionAsk})
			delete(s.asked, id)
		}
	}
	for id, c := range s.calls {
		if c.agent == a {
			(*writer.Tool)(c.tool).End(writer.ToolResult{
				End: writer.Moment{Time: at, Source: spans.TimeSourceBound, Closed: true}})
			delete(s.calls, id)
		}
	}
	if a.compaction != nil {
		a.compaction.End(otelagent.CompactionResult{Err: errors.New("it did not end")})
		a.compaction = nil
	}
	for len(a.turns) > 0 {
		a.finish(a.turns[0], at)
	}
	if a.aborted && res.Err == nil {
		res.Status = spans.RunStatusCancelled
	}
	res.End = at
	a.run.End(res)
	a.run, a.input = nil, nil
}

// end ends what is open: nothing more is seen of the session.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.closeAll(time.Now(), otelagent.RunResult{Status: spans.RunStatusAborted})
	for id, begun := range s.begun {
		close(begun)
		delete(s.begun, id)
	}
}

// closeAll ends the runs of sub-agents before that of the main agent.
func (s *session) closeAll(at time.Time, res otelagent.RunResult) {
	for id, a := range s.agents {
		if id != "" {
			s.close(a, at, res)
			delete(s.agents, id)
		}
	}
	if a := s.agents[""]; a != nil {
		s.close(a, at, res)
	}
}

// ask records a request to the model. It returns false for one that is not recorded.
func (s *session) ask(x *exchange, id, interaction string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agent(id)
	switch {
	case s.over || interaction == "conversation-compaction":
		return false
	case !ofConversation(interaction):
		if a.run == nil {
			return false
		}
		_, x.utility = a.run.StartTurn(a.ctx, otelagent.TurnInfo{Purpose: spans.PurposeUtility})
		x.utility.Request(otelagent.Request{Payload: x.payload})
		x.payload = nil
		return true
	}
	if n := len(a.turns); n > 0 && !a.turns[n-1].answered() && len(a.waiting) == 0 {
		attach(a.turns[n-1], x)
		return true
	}
	if len(a.waiting) == maxWaiting {
		a.waiting = a.waiting[1:]
	}
	a.waiting = append(a.waiting, x)
	return true
}

// ofConversation reports whether an interaction is that of a turn.
func ofConversation(interaction string) bool {
	switch interaction {
	case "", "conversation-agent", "conversation-subagent", "conversation-user":
		return true
	}
	return false
}

// answer records the reply to a request.
func (s *session) answer(x *exchange, res otelagent.TurnResult, ok bool) {
	defer writer.Guard(ScopeName)
	s.mu.Lock()
	defer s.mu.Unlock()
	x.done, x.ok, x.res = true, ok, res
	switch {
	case x.utility != nil:
		x.utility.End(res)
	case ok && x.turn != nil && x.turn.last == x: // the runtime did not ask again
		x.turn.handle.Reply(res)
	}
}

// call returns the open call of that id. Without one it returns what is closed when the call begins, unless the session
// is over.
func (s *session) call(id string) (*call, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[id]; c != nil || s.over {
		return c, nil
	}
	if s.begun[id] == nil {
		s.begun[id] = make(chan struct{})
	}
	return nil, s.begun[id]
}

// known returns the open call of that id. Nobody waits for it afterwards.
func (s *session) known(id string) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.begun, id)
	return s.calls[id]
}

// event records one event of the runtime.
func (s *session) event(e copilot.SessionEvent) {
	defer writer.Guard(ScopeName)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	id := ""
	if e.AgentID != nil {
		id = *e.AgentID
	}
	s.record(s.agent(id), id, &e)
}
