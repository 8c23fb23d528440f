// Package play reports an afternoon of two agents to a tracer: whatever a query may ask for happens in it at least
// once. Tests of queries have it as their data.
package play

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// Duration is how long an afternoon takes on the clock of the agents. Nobody waits for it.
const Duration = 4 * time.Minute

// Runs is how many runs there are in an afternoon, the sub-agent's included.
const Runs = 3

// Afternoon reports the sessions `harbour-NAME` and `lighthouse-NAME`, which begin at start. The first has a
// sub-agent, a retry, a compaction, a cache miss, a slow and expensive turn, and permissions of every kind; the
// second fails.
func Afternoon(ctx context.Context, tracer *writer.Tracer, name string, start time.Time) {
	p := player{tracer: tracer, now: start}
	p.harbour(ctx, "harbour-"+name)
	p.lighthouse(ctx, "lighthouse-"+name)
}

type player struct {
	tracer   *writer.Tracer
	now      time.Time
	messages []writer.Message
}

func (p *player) moment() writer.Moment { return writer.Moment{Time: p.now} }
func (p *player) wait(d time.Duration)  { p.now = p.now.Add(d) }

// say adds a message to what the next request holds.
func (p *player) say(role, text string) {
	raw, _ := json.Marshal(map[string]string{"role": role, "content": text}) // never fails: strings only
	p.messages = append(p.messages, writer.Message{Raw: raw, Role: role,
		Provenance: spans.Provenance{Kind: spans.ProvenanceLoopTurn, Role: role}})
}

func (p *player) request(turn *writer.Turn, attempt int) {
	turn.Request(writer.Request{
		At: p.moment(), Attempt: attempt, Messages: p.messages,
		Parameters: writer.Parameters{System: []byte(`"You keep the berths of the harbour."`),
			Tools: []byte(`[{"name":"bash"},{"name":"read_file"},{"name":"edit"},{"name":"task"}]`)},
	})
}

// answered ends the turn with a reply.
func (p *player) answered(turn *writer.Turn, text string, usage writer.Usage, call, first time.Duration, cost float64) {
	p.say("assistant", text)
	turn.End(writer.TurnResult{
		End: p.moment(), Model: "", StopReason: "end_turn", Usage: &usage, Cost: &cost, Currency: "USD",
		ModelCall: call, FirstChunk: first, Output: &p.messages[len(p.messages)-1],
	})
}

func (p *player) tool(ctx context.Context, turn *writer.Turn, id, name string, took time.Duration,
	decision writer.PermissionEvaluation, result writer.ToolResult) {
	args, _ := json.Marshal(map[string]string{"berth": id})
	ctx, call := turn.StartTool(ctx, writer.ToolCall{ID: id, Name: name, Type: "function", Args: args, Start: p.moment()})
	decision.Start = p.moment()
	p.wait(decision.Wait)
	decision.End = p.moment()
	writer.Decide(ctx, call, decision)
	p.wait(took)
	result.End = p.moment()
	call.End(result)
	p.say("tool", fmt.Sprintf("%s %s: %s", name, id, strings.Repeat("A barge lies at the quay. ", 40)))
}

func allow(source spans.PermissionSource) writer.PermissionEvaluation {
	return writer.PermissionEvaluation{Action: spans.ActionAllow, Source: source, Pattern: "*"}
}

func (p *player) harbour(ctx context.Context, session string) {
	p.messages = nil
	ctx, run := p.tracer.StartRun(ctx, writer.RunInfo{
		SessionID: session, Agent: "harbourmaster", Model: "claude-sonnet-4-5", Provider: "anthropic", Start: p.moment(),
	})
	// the one that AWS gives as an example
	p.say("user", "Which berths are free on Saturday? The key of the gate is AKIAIOSFODNN7EXAMPLE.")

	// An ordinary turn: the prompt is written to the cache, one tool works, another fails.
	turnCtx, turn := run.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerUser, Start: p.moment()})
	p.request(turn, 0)
	p.wait(2 * time.Second)
	turn.Reply(writer.TurnResult{End: p.moment()})
	p.tool(turnCtx, turn, "c1", "read_file", 30*time.Millisecond, allow(spans.PermissionSourceProject),
		writer.ToolResult{Result: []byte(`"ok"`)})
	p.tool(turnCtx, turn, "c2", "bash", 3*time.Second, allow(spans.PermissionSourceSession),
		writer.ToolResult{Outcome: spans.OutcomeError, Error: "exit status 1"})
	p.answered(turn, "Two tools were asked.", writer.Usage{Input: 5200, Output: 220, Reasoning: 60, CacheWrite: 4800},
		2*time.Second, 700*time.Millisecond, 0.021)

	// A slow one: the third attempt is answered, a call is denied, and somebody is asked for leave.
	turnCtx, turn = run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(1)), Trigger: spans.TriggerContinuation,
		Start: p.moment()})
	for attempt := range 3 {
		p.request(turn, attempt)
		p.wait(9 * time.Second)
	}
	turn.Reply(writer.TurnResult{End: p.moment()})
	p.tool(turnCtx, turn, "c3", "bash", 0, writer.PermissionEvaluation{Action: spans.ActionDeny,
		Source: spans.PermissionSourceManifest, Pattern: "bash(rm *)"},
		writer.ToolResult{Outcome: spans.OutcomeDenied, Error: "denied by the manifest"})
	p.tool(turnCtx, turn, "c4", "edit", 40*time.Millisecond,
		writer.PermissionEvaluation{Action: spans.ActionAllow, Source: spans.PermissionSourceSession,
			Wait: 12 * time.Second, DecidedBy: "user", Option: "allow_once"}, writer.ToolResult{})
	for i := range 40 { // more than a span keeps
		writer.Note(turn, "gangway", fmt.Appendf(nil, `{"plank":%d}`, i), p.moment())
	}
	p.answered(turn, "Berth 4 is taken.", writer.Usage{Input: 6100, Output: 350, CacheRead: 5000}, 9*time.Second,
		1200*time.Millisecond, 0.012)

	// A large one: the history is compacted first, nothing comes from the cache, and a sub-agent is sent.
	turnCtx, turn = run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(2)), Trigger: spans.TriggerContinuation,
		Start: p.moment()})
	_, compaction := turn.StartCompaction(turnCtx, writer.Compaction{
		Kind: spans.CompactionKindSummary, Trigger: "context_window", MessagesBefore: new(int64(len(p.messages))),
		InputTokens: new(int64(150000)), Start: p.moment(),
	})
	p.wait(4 * time.Second)
	p.messages = p.messages[len(p.messages)-2:]
	compaction.End(writer.CompactionResult{
		End: p.moment(), MessagesBefore: new(int64(8)), MessagesAfter: new(int64(2)), MessagesSummarized: new(int64(6)),
		InputTokens: new(int64(150000)), OutputTokens: new(int64(9000)),
		Summary: []byte(`"Berths 1 to 4 were looked at."`),
	})
	p.request(turn, 0)
	p.wait(11 * time.Second)
	turn.Reply(writer.TurnResult{End: p.moment()})
	p.reviewed(turnCtx, turn, session)
	p.answered(turn, "The plan was reviewed.", writer.Usage{Input: 92000, Output: 4100, Reasoning: 2500}, 11*time.Second,
		3*time.Second, 0.34)

	_, turn = run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(3)), Trigger: spans.TriggerContinuation,
		Start: p.moment()})
	p.request(turn, 0)
	p.wait(1500 * time.Millisecond)
	turn.Reply(writer.TurnResult{End: p.moment()})
	p.answered(turn, "Berths 2 and 5 are free.", writer.Usage{Input: 93000, Output: 40, CacheRead: 91000},
		1500*time.Millisecond, 400*time.Millisecond, 0.03)
	run.End(writer.RunResult{End: p.moment()})
}

// reviewed is a tool call that is another agent, with another model, in a session of its own.
func (p *player) reviewed(ctx context.Context, turn *writer.Turn, session string) {
	ctx, call := turn.StartTool(ctx, writer.ToolCall{ID: "c5", Name: "task", Type: "function",
		Args: []byte(`{"goal":"review the plan"}`), Start: p.moment()})
	writer.Decide(ctx, call, writer.PermissionEvaluation{Action: spans.ActionAllow, Source: spans.PermissionSourceManifest,
		Start: p.moment(), End: p.moment()})
	before := p.messages
	p.messages = nil
	p.say("user", "Review the plan.")
	ctx, run := p.tracer.StartRun(ctx, writer.RunInfo{
		SessionID: session + "-review", ID: "review", Agent: "reviewer", Model: "gpt-5", Provider: "openai",
		Start: p.moment(), ParentSessionID: session, ParentToolCallID: "c5",
	})
	for i := range 2 {
		turnCtx, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(i)), Trigger: spans.TriggerSubAgent,
			Start: p.moment()})
		p.request(turn, 0)
		p.wait(3 * time.Second)
		turn.Reply(writer.TurnResult{End: p.moment()})
		if i == 0 {
			p.tool(turnCtx, turn, "r1", "read_file", 25*time.Millisecond, allow(spans.PermissionSourceProject),
				writer.ToolResult{})
		}
		p.answered(turn, "It holds.", writer.Usage{Input: 2100 + 700*int64(i), Output: 300, Reasoning: 192,
			CacheRead: 1024 * int64(i)}, 3*time.Second, 900*time.Millisecond, 0.004)
	}
	run.End(writer.RunResult{End: p.moment()})
	p.messages = before
	call.End(writer.ToolResult{End: p.moment(), ChildRunID: "review", ChildSessionID: session + "-review"})
	p.say("tool", "task c5: It holds.")
}

// lighthouse asks for leave and gets no answer, prunes its history, and ends with an error of the provider.
func (p *player) lighthouse(ctx context.Context, session string) {
	p.messages = nil
	ctx, run := p.tracer.StartRun(ctx, writer.RunInfo{
		SessionID: session, Agent: "keeper", Model: "gpt-5", Provider: "openai", Start: p.moment(),
	})
	p.say("user", "Is the lamp lit? "+strings.Repeat("The log says: lit. ", 8000)) // longer than a piece may be
	turnCtx, turn := run.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerUser, Start: p.moment()})
	p.request(turn, 0)
	p.wait(4 * time.Second)
	turn.Reply(writer.TurnResult{End: p.moment()})
	p.tool(turnCtx, turn, "k1", "edit", 0, writer.PermissionEvaluation{Action: spans.ActionAsk,
		Source: spans.PermissionSourceProject, Wait: 30 * time.Second},
		writer.ToolResult{Outcome: spans.OutcomeCancelled})
	p.tool(turnCtx, turn, "k2", "bash", 0, allow(spans.PermissionSourceProject),
		writer.ToolResult{Outcome: spans.OutcomeSkipped})
	p.answered(turn, "Nobody answered.", writer.Usage{Input: 1500, Output: 90, CacheRead: 0}, 4*time.Second,
		800*time.Millisecond, 0.002)

	_, compaction := run.StartCompaction(ctx, writer.Compaction{Kind: spans.CompactionKindPrune,
		Trigger: "message_count", MessagesBefore: new(int64(4)), InputTokens: new(int64(40000)), Start: p.moment()})
	p.wait(20 * time.Millisecond)
	compaction.End(writer.CompactionResult{End: p.moment(), MessagesBefore: new(int64(4)), MessagesAfter: new(int64(2)),
		MessagesSummarized: new(int64(2)), InputTokens: new(int64(40000)), OutputTokens: new(int64(21000))})

	_, turn = run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(1)), Trigger: spans.TriggerContinuation,
		Start: p.moment()})
	p.request(turn, 0)
	p.wait(45 * time.Second)
	turn.Reply(writer.TurnResult{End: p.moment()})
	turn.End(writer.TurnResult{End: p.moment(), Failed: true, StopReason: "error", Error: "overloaded",
		ModelCall: 45 * time.Second})
	run.End(writer.RunResult{End: p.moment(), Status: spans.RunStatusError, Error: "overloaded"})
}
