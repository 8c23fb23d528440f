package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// testLiveAgent is the variable of the environment that makes this test's program an agent that is watched as it runs:
// its value is where spans go. It does what its argument says, says where it is, and waits to be killed.
const testLiveAgent = "OTELAGENT_TEST_LIVE_AGENT"

// liveHeartbeat is that of the agent.
const liveHeartbeat = 300 * time.Millisecond

// liveRequest is what it asks the model on its second turn.
const liveRequest = `{"model":"m-1","temperature": 0.5,"system":"You are careful.","messages":[` +
	`{"role":"user","content":"read it"},{"role":"assistant","content":"I read it."},` +
	`{"role":"user","content":"and now \u00e9dit it"}]}`

// liveReply is what it is answered before it runs a tool.
func liveReply() writer.TurnResult {
	return writer.TurnResult{
		Output: &writer.Message{Role: "assistant", Raw: []byte(`{"role":"assistant","content":"First I mark the place."}`)},
		Usage:  &writer.Usage{Input: 1234, Output: 56}, StopReason: "tool_use", Model: "m-1-of-may",
	}
}

func liveAgentMain() {
	if err := liveAgent(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func liveAgent(ctx context.Context, mode string) error {
	p, err := otelsetup.Setup(
		ctx,
		otelsetup.WithEndpoint("http://"+os.Getenv(testLiveAgent)),
		otelsetup.WithProtocol(otelsetup.GRPC),
		otelsetup.WithLive(liveHeartbeat),
	)
	if err != nil {
		return err
	}
	tracer := (*writer.Tracer)(
		otelagent.NewTracer(
			otelagent.WithCapture(otelagent.CaptureContent),
			otelagent.WithLive(p.Live()),
			func(c *writer.Config) { c.PartialEvery = 50 * time.Millisecond },
		),
	)
	text := func(role, s string) writer.Message {
		raw, err := json.Marshal(map[string]string{"role": role, "content": s})
		if err != nil {
			return writer.Message{}
		}
		return writer.Message{Role: role, Raw: raw}
	}
	ctx, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "live-" + mode, ID: "r1", Agent: "coder", Model: "m-1"})
	_, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(0)), Trigger: spans.TriggerUser})
	turn.AddInput(text("user", "read it"))
	turn.Request(writer.Request{Payload: []byte(`{"model":"m-1","messages":[{"role":"user","content":"read it"}]}`)})
	reply := text("assistant", "I read it.")
	turn.End(writer.TurnResult{StopReason: "stop", Output: &reply, Usage: &writer.Usage{Input: 10, Output: 3}})

	turnCtx, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(1)), Trigger: spans.TriggerUser})
	turn.AddInput(text("user", "and now édit it"))
	turn.Request(writer.Request{Payload: []byte(liveRequest)})
	switch mode {
	case "model": // killed while the model answers
		turn.Partial(writer.PartialText, []byte("I will look at "))
		turn.Partial(writer.PartialText, []byte("the file first, bec"))
	case "tool": // killed while a tool runs
		turn.Partial(writer.PartialText, []byte("First I ma"))
		turn.Reply(liveReply())
		_, call := turn.StartTool(turnCtx, writer.ToolCall{ID: "c1", Name: "edit", Args: []byte(`{"path":"a.txt"}`)})
		call.Progress("progress", []byte(`"half of it"`), writer.Moment{})
	case "ask": // killed while it waits for somebody
		turn.Reply(writer.TurnResult{})
		_, call := turn.StartTool(turnCtx, writer.ToolCall{ID: "c1", Name: "edit", Args: []byte(`{"path":"a.txt"}`)})
		writer.Ask(turnCtx, call, writer.PermissionEvaluation{Tool: "edit", CallID: "c1", Action: spans.ActionAsk})
	case "input":
		turn.AskUser()
	case "retry":
		turn.Request(writer.Request{Attempt: 1, Payload: []byte(liveRequest)})
	case "done":
		done := text("assistant", "I edited it.")
		time.Sleep(2 * liveHeartbeat)
		turn.End(writer.TurnResult{StopReason: "stop", Output: &done})
		run.End(writer.RunResult{})
		return p.Shutdown(ctx)
	}
	fmt.Println("waiting")
	time.Sleep(time.Minute)
	return nil
}
