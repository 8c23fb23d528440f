package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// reply is what a model answers: a text, or a tool to call.
type reply struct {
	text       string
	tool, args string
	usage      otelagent.Usage
}

// model answers a conversation.
type model func(messages []otelagent.Message) (reply, error)

// chat runs the loop until the model has nothing more to call.
func chat(ctx context.Context, tracer *otelagent.Tracer, ask model, question string) error {
	ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{Agent: "quickstart", Model: "scripted-1"})
	messages := []otelagent.Message{message("user", question)}
	trigger := spans.TriggerUser
	for {
		again, err := turn(ctx, run, ask, trigger, &messages)
		if err != nil {
			run.End(otelagent.RunResult{Err: err})
			return err
		}
		if !again {
			run.End(otelagent.RunResult{})
			return nil
		}
		trigger = spans.TriggerContinuation
	}
}

// turn asks the model once and calls the tool that it wants. It says whether the model must be asked again.
func turn(ctx context.Context, run *otelagent.Run, ask model, trigger spans.Trigger,
	messages *[]otelagent.Message) (again bool, err error) {
	ctx, t := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: trigger})
	if trigger == spans.TriggerUser {
		t.AddMessage((*messages)[0])
	}
	t.Request(otelagent.Request{Payload: body(*messages)}) // the bytes that go to the provider

	r, err := ask(*messages)
	if err != nil {
		t.End(otelagent.TurnResult{Err: err})
		return false, err
	}
	answer := message("assistant", r.text)
	*messages = append(*messages, answer)
	result := otelagent.TurnResult{StopReason: "stop", Usage: &r.usage, Output: &answer}
	if r.tool != "" {
		got := callTool(ctx, t, r)
		*messages = append(*messages, got)
		t.AddMessage(got)
		result.StopReason = "tool_use"
	}
	t.End(result)
	return r.tool != "", nil
}

// body is what a provider would be sent.
func body(messages []otelagent.Message) []byte {
	raw := make([]json.RawMessage, len(messages))
	for i := range messages {
		raw[i] = messages[i].Raw
	}
	b, _ := json.Marshal(struct {
		Model    string            `json:"model"`
		System   string            `json:"system"`
		Messages []json.RawMessage `json:"messages"`
	}{"scripted-1", "Answer in one sentence.", raw}) // never fails: messages are JSON
	return b
}

// callTool asks for permission and runs the tool.
func callTool(ctx context.Context, t *otelagent.Turn, r reply) otelagent.Message {
	ctx, call := t.StartTool(ctx, otelagent.ToolCall{ID: "call-1", Name: r.tool, Args: []byte(r.args)})
	t.StartPermission(ctx, r.tool, "call-1").End(otelagent.Decision{Action: spans.ActionAllow,
		Source: spans.PermissionSourceProject})
	result := quote("Saturday")
	call.End(otelagent.ToolResult{Result: result})
	return otelagent.Message{Role: "toolResult", ToolCallID: "call-1", Raw: fmt.Appendf(nil,
		`{"role":"toolResult","content":%s}`, result)}
}

// message is a message as this loop keeps it: any JSON will do.
func message(role, text string) otelagent.Message {
	return otelagent.Message{Role: role, Raw: fmt.Appendf(nil, `{"role":%s,"content":%s}`, quote(role), quote(text))}
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // never fails for a string
	return b
}

// scriptedModel looks at the calendar, then answers.
func scriptedModel() model {
	return func(messages []otelagent.Message) (reply, error) {
		if len(messages) == 1 {
			return reply{text: "Let me look.", tool: "calendar", args: `{"zone":"UTC"}`,
				usage: otelagent.Usage{Input: 21, Output: 9}}, nil
		}
		return reply{text: "It is Saturday.", usage: otelagent.Usage{Input: 38, Output: 5, CacheRead: 21}}, nil
	}
}
