package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// agent is a loop: it asks the model, calls the tools that it wants, and goes on until it wants none.
type agent struct {
	role
	tracer *otelagent.Tracer
	client client
	model  string
	root   *os.Root
	rules  []rule
	most   int // messages in a request; beyond it the oldest are compacted

	messages []known
}

// known is a message as the provider spells it, and where it came from.
type known struct {
	raw  json.RawMessage
	from spans.Provenance
}

// role is what an agent is there for.
type role struct {
	name, system string
	tools        json.RawMessage // as the provider wants them
}

var (
	keeper   = role{"notes", "You look after a folder of notes. Use the tools; answer in one sentence.", keeperTools}
	reviewer = role{"reviewer", "You review one note. Read it, then say in one sentence whether it is ready.",
		reviewerTools}
)

// maxTurns ends a run that goes in circles.
const maxTurns = 20

func (a *agent) run(ctx context.Context, question string) (answer string, err error) {
	rules, err := json.Marshal(a.rules)
	if err != nil {
		return "", err
	}
	ctx, run := a.tracer.StartRun(ctx, otelagent.RunInfo{Agent: a.name, Model: a.model, Provider: "openai", Rules: rules})
	defer func() {
		run.End(otelagent.RunResult{Err: err}) // an error that wraps context.Canceled is a cancellation
	}()
	asked := a.add(message("user", question), spans.Provenance{Kind: spans.ProvenanceLoopTurn, Role: "user-message"})
	run.AddMessage(asked)
	trigger := spans.TriggerUser
	for n := range maxTurns {
		reply, err := a.turn(ctx, run, n, trigger)
		if err != nil {
			return "", err
		}
		if len(reply.ToolCalls) == 0 {
			return reply.Content, nil
		}
		trigger = spans.TriggerContinuation
	}
	return "", fmt.Errorf("no answer after %d turns", maxTurns)
}

// turn asks the model once and calls the tools that it wants.
func (a *agent) turn(ctx context.Context, run *otelagent.Run, n int, trigger spans.Trigger) (reply answer, err error) {
	ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: trigger})
	if len(a.messages) > a.most {
		a.compact(ctx, run)
	}

	// The turn records the bytes that the provider is sent, with where each message came from.
	request := otelagent.Request{Payload: a.request(), Messages: make([]otelagent.Message, 1)} // the system prompt first
	for _, m := range a.messages {
		request.Messages = append(request.Messages, otelagent.Message{Provenance: m.from})
	}
	turn.Request(request)
	got, err := a.client.ask(ctx, request.Payload)
	if err != nil {
		turn.End(otelagent.TurnResult{Err: err})
		return answer{}, err
	}
	output := a.add(got.result.Output.Raw, spans.Provenance{Kind: spans.ProvenanceLoopTurn, TurnIndex: int64(n),
		Role: "assistant-response"})

	result := got.result
	result.Output = &output
	turn.Reply(result) // so that it is there while the tools run, and if they are the end of this process
	for i, call := range got.answer.ToolCalls {
		m := a.add(a.call(ctx, turn, call), spans.Provenance{Kind: spans.ProvenanceLoopTurn, TurnIndex: int64(n),
			Role: "tool-call-result", MessageIndex: int64(i)})
		m.ToolCallID = call.ID
		turn.AddMessage(m)
	}
	turn.End(otelagent.TurnResult{}) // with what Reply said
	return got.answer, nil
}

// call evaluates the rules and runs the tool, or refuses to.
func (a *agent) call(ctx context.Context, turn *otelagent.Turn, c toolCall) json.RawMessage {
	args := json.RawMessage(c.Function.Arguments)
	if !json.Valid(args) {
		args, _ = json.Marshal(c.Function.Arguments)
	}
	ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: c.ID, Name: c.Function.Name, Args: args})
	decided := decide(a.rules, c.Function.Name, target(args))
	decision := otelagent.Decision{Action: decided.Action, Source: decided.Source, Pattern: decided.Pattern}
	if !decided.found {
		decision.Reason = decided.why()
	}
	turn.StartPermission(ctx, c.Function.Name, c.ID).End(decision)
	if decided.Action != spans.ActionAllow {
		text := "refused: " + decided.why()
		call.End(otelagent.ToolResult{Outcome: spans.OutcomeDenied, Err: errors.New(text)})
		return toolMessage(c.ID, text)
	}
	text, cut, err := a.runTool(ctx, c.Function.Name, args)
	if err != nil {
		call.End(otelagent.ToolResult{Err: err})
		return toolMessage(c.ID, "error: "+err.Error())
	}
	call.End(otelagent.ToolResult{Result: quoted(text), Truncated: &cut})
	return toolMessage(c.ID, text)
}

// runTool runs a tool in the context of its call.
func (a *agent) runTool(ctx context.Context, name string, args json.RawMessage) (result string, cut bool, err error) {
	if name != "review" {
		return fileTool(a.root, name, args)
	}
	// A sub-agent is an agent that is run in the context of a tool call; its run finds whose child it is.
	sub := &agent{role: reviewer, tracer: a.tracer, client: a.client, model: a.model, root: a.root, rules: a.rules,
		most: a.most}
	result, err = sub.run(ctx, "Is "+target(args)+" ready?")
	return result, false, err
}

// compact replaces all but the last messages by a summary of them. It never parts a tool result from the call that it
// answers.
func (a *agent) compact(ctx context.Context, run *otelagent.Run) {
	keep := len(a.messages) - a.most/2
	for keep > 0 && roleOf(a.messages[keep].raw) == "tool" {
		keep--
	}
	if keep < 2 {
		return
	}
	gone := a.messages[:keep]
	before := int64(len(a.messages))
	_, compaction := run.StartCompaction(ctx, otelagent.CompactionInfo{
		Kind: spans.CompactionKindSummary, Trigger: "message_count", MessagesBefore: new(before),
	})
	summary := message("user", summarise(gone))
	a.messages = append([]known{{summary, spans.Provenance{Kind: spans.ProvenanceMemoryTier, Tier: "summary",
		RecordID: fmt.Sprint(keep)}}}, a.messages[keep:]...)
	compaction.End(otelagent.CompactionResult{
		MessagesAfter: new(int64(len(a.messages))), MessagesSummarized: new(int64(keep)), Summary: summary,
	})
}

// add appends a message to the conversation.
func (a *agent) add(raw json.RawMessage, from spans.Provenance) otelagent.Message {
	a.messages = append(a.messages, known{raw, from})
	return otelagent.Message{Raw: raw, Role: roleOf(raw)}
}

// request is what the provider is sent.
func (a *agent) request() []byte {
	messages := []json.RawMessage{message("system", a.system)}
	for _, m := range a.messages {
		messages = append(messages, m.raw)
	}
	body, _ := json.Marshal(struct { // never fails: messages are JSON
		Model    string            `json:"model"`
		Messages []json.RawMessage `json:"messages"`
		Tools    json.RawMessage   `json:"tools"`
	}{a.model, messages, a.tools})
	return body
}
