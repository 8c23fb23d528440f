package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// support answers customers: the service that was there before, with an agent in it.
type support struct {
	tracer           *otelagent.Tracer
	client           *http.Client
	orders, research string // URLs
}

// ask is the handler of one question. The context of the request has the span that otelhttp made and the baggage of the
// caller, and that is all that the run needs: the span becomes its parent, and the session is the one that the baggage
// names.
func (s support) ask(w http.ResponseWriter, r *http.Request) {
	asked, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "no question", http.StatusBadRequest)
		return
	}
	ctx, run := s.tracer.StartRun(r.Context(), otelagent.RunInfo{Agent: "support", Model: "scripted-1"})
	answer, err := s.answer(ctx, run, string(asked))
	if err != nil {
		run.End(otelagent.RunResult{Err: err})
		http.Error(w, "no answer", http.StatusBadGateway)
		return
	}
	run.End(otelagent.RunResult{})
	fmt.Fprint(w, answer)
}

// answer asks the model, calls both tools, and asks it again.
func (s support) answer(ctx context.Context, run *otelagent.Run, asked string) (string, error) {
	question := message("user", asked)
	turnCtx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: spans.TriggerUser})
	turn.AddMessage(question)
	turn.Request(request("scripted-1", question))
	calls := message("assistant", "I look up the order and ask what is usual.")
	status, err := s.tool(turnCtx, turn, "c1", "order_status", `{"number":17}`, func(ctx context.Context) (string, error) {
		// The traceparent is in ctx: what the service does shows under this call.
		return send(ctx, s.client, http.MethodGet, s.orders+"/orders/17", "")
	})
	if err != nil {
		turn.End(otelagent.TurnResult{Output: &calls, StopReason: "tool_use"})
		return "", err
	}
	usual, err := s.tool(turnCtx, turn, "c2", "ask_researcher", `{"question":"How long do parcels take?"}`,
		func(ctx context.Context) (string, error) {
			// An agent: with session, run and call in the baggage its run is a child of this call.
			return send(otelagent.ContextWithBaggage(ctx), s.client, http.MethodPost, s.research+"/ask",
				"How long do parcels take?")
		})
	turn.End(otelagent.TurnResult{Output: &calls, StopReason: "tool_use", Usage: &otelagent.Usage{Input: 30, Output: 24}})
	if err != nil {
		return "", err
	}

	_, turn = run.StartTurn(ctx, otelagent.TurnInfo{Trigger: spans.TriggerContinuation})
	turn.Request(request("scripted-1", question, calls, message("tool", status), message("tool", usual)))
	text := fmt.Sprintf("Order 17 is %s. %s", status, usual)
	reply := message("assistant", text)
	turn.End(otelagent.TurnResult{Output: &reply, StopReason: "stop", Usage: &otelagent.Usage{Input: 71, Output: 18,
		CacheRead: 30}})
	return text, nil
}

// tool calls a tool in the context of its call.
func (s support) tool(ctx context.Context, turn *otelagent.Turn, id, name, args string,
	do func(context.Context) (string, error)) (string, error) {
	ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: id, Name: name, Args: []byte(args)})
	result, err := do(ctx)
	if err != nil {
		call.End(otelagent.ToolResult{Err: err})
		return "", err
	}
	call.End(otelagent.ToolResult{Result: quoted(result)})
	return result, nil
}

// request is what a model is sent.
func request(model string, messages ...otelagent.Message) otelagent.Request {
	raw := make([]json.RawMessage, len(messages))
	for i := range messages {
		raw[i] = messages[i].Raw
	}
	payload, _ := json.Marshal(map[string]any{"model": model, "messages": raw}) // never fails: messages are JSON
	return otelagent.Request{Payload: payload}
}

func message(role, text string) otelagent.Message {
	return otelagent.Message{Role: role, Raw: fmt.Appendf(nil, `{"role":%s,"content":%s}`, quoted(role), quoted(text))}
}

func quoted(s string) []byte {
	b, _ := json.Marshal(s) // never fails for a string
	return b
}
