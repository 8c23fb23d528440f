package backends

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// What Play says of its session.
const (
	LoopSession  = "harbour-7"
	LoopQuestion = "Which ships may leave today?"
	LoopAnswer   = "The Marigold may leave; the Petrel waits for her papers."
)

// loop is a Go loop whose times are stated, so that what it sends is the same each time.
type loop struct {
	tracer   *writer.Tracer
	now      time.Time
	messages []writer.Message
}

// Play is an agent loop written in Go that does everything once: three turns, of which one is asked twice; a tool that
// succeeds with 20,000 bytes, one that fails and one that is denied; permission evaluations; a compaction; and a
// sub-agent, whose run is in the same session.
func Play(ctx context.Context, tracer *writer.Tracer) {
	l := &loop{tracer: tracer, now: time.Date(2026, 11, 2, 6, 0, 0, 0, time.UTC)}
	ctx, run := tracer.StartRun(ctx, writer.RunInfo{
		SessionID: LoopSession, ID: "run-1", Agent: "harbour-master", AgentID: "agent-1", Model: "claude-opus-4-6",
		Provider: "anthropic",
		Start:    l.at(0), Rules: []byte(`[{"permission":"log_book","action":"deny"}]`),
	})
	l.say("user", LoopQuestion)
	l.first(ctx, run)
	l.second(ctx, run)
	l.third(ctx, run)
	run.End(writer.RunResult{End: l.at(time.Second),
		Usage: &writer.Usage{Input: 3750, Output: 160, Reasoning: 20, CacheRead: 2000, CacheWrite: 1000, Total: 3910}})
}

// at is the time after d more.
func (l *loop) at(d time.Duration) writer.Moment {
	l.now = l.now.Add(d)
	return writer.Moment{Time: l.now}
}

// say adds a message to the conversation.
func (l *loop) say(role, text string) writer.Message {
	m := writer.Message{Role: role, Raw: fmt.Appendf(nil, `{"role":%q,"content":%s}`, role, quote(text))}
	l.messages = append(l.messages, m)
	return m
}

// quote is text as JSON.
func quote(text string) []byte {
	b, _ := json.Marshal(text) // never fails for a string
	return b
}

// ask records a request with the whole conversation.
func (l *loop) ask(turn *writer.Turn, attempt int) {
	temperature, most := 0.2, int64(4096)
	turn.Request(writer.Request{
		At: l.at(10 * time.Millisecond), Attempt: attempt, Messages: l.messages,
		Parameters: writer.Parameters{Model: "claude-opus-4-6", Temperature: &temperature, MaxTokens: &most, Level: "high",
			System: quote("You are the master of a harbour."),
			Tools:  []byte(`[{"name":"tides"},{"name":"log_book"},{"name":"radio"}]`)},
	})
}

// first asks twice, and then calls a tool that answers at length.
func (l *loop) first(ctx context.Context, run *writer.Run) {
	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(0)), Trigger: spans.TriggerUser,
		Start: l.at(5 * time.Millisecond)})
	turn.AddInput(l.messages[0])
	l.ask(turn, 0)
	l.ask(turn, 1)
	turn.Reply(writer.TurnResult{End: l.at(2 * time.Second)})
	reply := writer.Message{Role: "assistant", Raw: []byte(`{"role":"assistant","content":[` +
		`{"type":"thinking","thinking":"First the tides."},{"type":"text","text":"I look at the tides."},` +
		`{"type":"tool_use","id":"call-1","name":"tides","input":{"day":"2026-11-02"}}]}`)}
	l.messages = append(l.messages, reply)

	_, call := turn.StartTool(ctx, writer.ToolCall{ID: "call-1", Name: "tides", Type: "function",
		Args: []byte(`{"day":"2026-11-02"}`), Start: l.at(time.Millisecond)})
	writer.Decide(ctx, call, writer.PermissionEvaluation{Pattern: "tides", Action: spans.ActionAllow,
		Source: spans.PermissionSourceManifest,
		Start:  l.at(0), End: l.at(time.Millisecond)})
	tides := strings.Repeat("06:12 high 4.1 m, 12:31 low 0.9 m; ", 580)
	call.End(writer.ToolResult{End: l.at(300 * time.Millisecond), Result: quote(tides)})
	result := l.say("toolResult", tides)

	cost := 0.0125
	turn.End(writer.TurnResult{End: l.at(time.Millisecond), Model: "claude-opus-4-6-20260801", Provider: "anthropic",
		ResponseID: "msg_01",
		StopReason: "tool_use", FirstChunk: 400 * time.Millisecond, Cost: &cost, Currency: "USD", Output: &reply,
		Results: []writer.Message{result},
		Usage: &writer.Usage{Input: 250, Output: 80, Reasoning: 20, CacheWrite: 1000, Total: 1330,
			Rule: spans.UsageRuleExcludesCache}})
}

// second compacts, calls a tool that is denied and one that fails, and lets a sub-agent work.
func (l *loop) second(ctx context.Context, run *writer.Run) {
	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(1)), Trigger: spans.TriggerContinuation,
		Start: l.at(time.Millisecond)})
	_, compacting := turn.StartCompaction(ctx, writer.Compaction{Trigger: "threshold", MessagesBefore: new(int64(3)),
		InputTokens: new(int64(9000)), Start: l.at(time.Millisecond)})
	compacting.End(writer.CompactionResult{End: l.at(time.Second), MessagesBefore: new(int64(3)),
		MessagesAfter: new(int64(2)), InputTokens: new(int64(9000)), OutputTokens: new(int64(400)),
		MessagesSummarized: new(int64(2)), Summary: quote("The user asks which ships may leave.")})
	l.ask(turn, 0)
	turn.Reply(writer.TurnResult{End: l.at(time.Second)})
	reply := writer.Message{Role: "assistant", Raw: []byte(`{"role":"assistant","content":[` +
		`{"type":"tool_use","id":"call-2","name":"log_book","input":{"entry":"all leave"}},` +
		`{"type":"tool_use","id":"call-3","name":"radio","input":{"channel":16}},` +
		`{"type":"tool_use","id":"call-4","name":"ask_pilot","input":{"ship":"Petrel"}}]}`)}
	l.messages = append(l.messages, reply)

	_, denied := turn.StartTool(ctx, writer.ToolCall{ID: "call-2", Name: "log_book",
		Args: []byte(`{"entry":"all leave"}`), Start: l.at(time.Millisecond)})
	writer.Decide(ctx, denied, writer.PermissionEvaluation{Pattern: "log_book", Action: spans.ActionDeny,
		Source: spans.PermissionSourceProject,
		Reason: "nobody signed it", Wait: 1500 * time.Millisecond, Start: l.at(0), End: l.at(1500 * time.Millisecond)})
	denied.End(writer.ToolResult{End: l.at(0), Outcome: spans.OutcomeDenied})

	_, failing := turn.StartTool(ctx, writer.ToolCall{ID: "call-3", Name: "radio", Args: []byte(`{"channel":16}`),
		Start: l.at(time.Millisecond)})
	failing.End(writer.ToolResult{End: l.at(50 * time.Millisecond), Outcome: spans.OutcomeError,
		Error: "no answer on channel 16"})

	l.pilot(turn.StartTool(ctx, writer.ToolCall{ID: "call-4", Name: "ask_pilot", Args: []byte(`{"ship":"Petrel"}`),
		Start: l.at(time.Millisecond)}))

	l.say("toolResult", "denied")
	l.say("toolResult", "no answer on channel 16")
	l.say("toolResult", "The Petrel has no papers.")
	turn.End(writer.TurnResult{End: l.at(time.Millisecond), Model: "claude-opus-4-6-20260801", StopReason: "tool_use",
		Output: &reply,
		Usage:  &writer.Usage{Input: 200, Output: 50, CacheRead: 1000, Total: 1250, Rule: spans.UsageRuleExcludesCache}})
}

// pilot is a sub-agent, whose run is in the same session.
func (l *loop) pilot(ctx context.Context, call *writer.Tool) {
	ctx, run := l.tracer.StartRun(ctx, writer.RunInfo{ID: "run-2", Agent: "pilot", AgentID: "agent-2",
		Model: "claude-haiku-4-6", Provider: "anthropic",
		Start: l.at(time.Millisecond)})
	_, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(0)), Trigger: spans.TriggerSubAgent,
		Start: l.at(time.Millisecond)})
	asked := writer.Message{Role: "user", Raw: []byte(`{"role":"user","content":"May the Petrel leave?"}`)}
	turn.AddInput(asked)
	turn.Request(writer.Request{At: l.at(time.Millisecond), Parameters: writer.Parameters{Model: "claude-haiku-4-6"},
		Messages: []writer.Message{asked}})
	turn.Reply(writer.TurnResult{End: l.at(500 * time.Millisecond)})
	turn.End(writer.TurnResult{End: l.at(time.Millisecond), Model: "claude-haiku-4-6", StopReason: "end_turn",
		Output: &writer.Message{Role: "assistant",
			Raw: []byte(`{"role":"assistant","content":"The Petrel has no papers."}`)},
		Usage: &writer.Usage{Input: 40, Output: 8, Total: 48}})
	run.End(writer.RunResult{End: l.at(time.Millisecond)})
	call.End(writer.ToolResult{End: l.at(time.Millisecond), Result: quote("The Petrel has no papers."),
		ChildRunID: "run-2"})
}

// third answers.
func (l *loop) third(ctx context.Context, run *writer.Run) {
	_, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(2)), Trigger: spans.TriggerContinuation,
		Start: l.at(time.Millisecond)})
	l.ask(turn, 0)
	turn.Reply(writer.TurnResult{End: l.at(time.Second)})
	reply := l.say("assistant", LoopAnswer)
	turn.End(writer.TurnResult{End: l.at(time.Millisecond), Model: "claude-opus-4-6-20260801", StopReason: "end_turn",
		Output: &reply,
		Usage:  &writer.Usage{Input: 300, Output: 30, CacheRead: 1000, Total: 1330, Rule: spans.UsageRuleExcludesCache}})
}
