package otelagent_test

import (
	"context"
	"errors"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// newTracer returns a tracer and what prints the spans that ended, each with its status.
func newTracer() (*otelagent.Tracer, func()) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	return otelagent.NewTracer(otelagent.WithTracerProvider(provider), otelagent.WithSpanNames(true)), func() {
		for _, s := range exporter.GetSpans() {
			fmt.Println(s.Name, s.Status.Code)
		}
	}
}

func ExampleTracer() {
	tracer, print := newTracer()
	ctx, run := tracer.StartRun(context.Background(), otelagent.RunInfo{SessionID: "s1", Agent: "coder", Model: "gpt-5"})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: spans.TriggerUser})
	turn.End(otelagent.TurnResult{StopReason: "stop", Usage: &otelagent.Usage{Input: 90, Output: 10, Total: 100}})
	run.End(otelagent.RunResult{})
	print()
	// Output:
	// session.turn Unset
	// session.run coder Unset
}

// A run that fails has the error of its loop. A job that is run for a request can have a trace of its own.
func ExampleRun() {
	tracer, print := newTracer()
	_, run := tracer.StartRun(context.Background(), otelagent.RunInfo{Agent: "nightly", NewRoot: true})
	run.End(otelagent.RunResult{Err: errors.New("no quota left")})
	print()
	// Output:
	// session.run nightly Error
}

// A turn may ask the model several times. Each attempt has its request, and a failed one its error.
func ExampleTurn() {
	tracer, print := newTracer()
	ctx, run := tracer.StartRun(context.Background(), otelagent.RunInfo{Agent: "coder"})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	payload := []byte(`{"model":"gpt-5","messages":[{"role":"user","content":"Hello"}]}`)
	turn.Request(otelagent.Request{Payload: payload})
	turn.Discard(0, otelagent.TurnResult{Err: errors.New("529 overloaded")})
	turn.Request(otelagent.Request{Payload: payload, Attempt: 1})
	reply, err := otelagent.ParseReply([]byte(`{"object":"chat.completion","model":"gpt-5","choices":[` +
		`{"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":8,"completion_tokens":1}}`))
	if err != nil {
		reply.Err = err
	}
	turn.End(reply)
	run.End(otelagent.RunResult{})
	fmt.Println(reply.StopReason, reply.Usage.Input)
	print()
	// Output:
	// stop 8
	// session.turn Unset
	// session.run coder Unset
}

// A run that starts in the context of a tool call is a sub-agent: a child of that call, in its session.
func ExampleTool() {
	tracer, print := newTracer()
	ctx, run := tracer.StartRun(context.Background(), otelagent.RunInfo{Agent: "coder"})
	ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c1", Name: "review", Args: []byte(`{"file":"main.go"}`)})
	_, sub := tracer.StartRun(ctx, otelagent.RunInfo{Agent: "reviewer"})
	fmt.Println(sub.SessionID() == run.SessionID())
	sub.End(otelagent.RunResult{})
	call.Progress("percent", []byte(`50`))
	call.End(otelagent.ToolResult{Err: errors.New("main.go: no such file")})
	turn.End(otelagent.TurnResult{})
	run.End(otelagent.RunResult{})
	print()
	// Output:
	// true
	// session.run reviewer Unset
	// tool.call review Error
	// session.turn Unset
	// session.run coder Unset
}

// The evaluation is a child of the tool call whose context it is in. A refused call did not run.
func ExamplePermission() {
	tracer, print := newTracer()
	ctx, run := tracer.StartRun(context.Background(), otelagent.RunInfo{Agent: "coder"})
	ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c1", Name: "bash", Args: []byte(`{"command":"rm -r /"}`)})
	asked := turn.StartPermission(ctx, "bash", "c1")
	asked.End(otelagent.Decision{Action: spans.ActionDeny, Pattern: "rm *", Source: spans.PermissionSourceProject})
	call.End(otelagent.ToolResult{Outcome: spans.OutcomeDenied})
	turn.End(otelagent.TurnResult{})
	run.End(otelagent.RunResult{})
	print()
	// Output:
	// permission.evaluate deny bash Unset
	// tool.call bash Unset
	// session.turn Unset
	// session.run coder Unset
}

func ExampleCompaction() {
	tracer, print := newTracer()
	ctx, run := tracer.StartRun(context.Background(), otelagent.RunInfo{Agent: "coder"})
	_, compaction := run.StartCompaction(ctx, otelagent.CompactionInfo{MessagesBefore: new(int64(40))})
	compaction.End(otelagent.CompactionResult{MessagesAfter: new(int64(6)), Summary: []byte(`"So far: ..."`)})
	run.End(otelagent.RunResult{})
	print()
	// Output:
	// compaction.run summary Unset
	// session.run coder Unset
}
