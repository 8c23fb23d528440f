// Command mcp is an agent whose tool is an agent behind an MCP server, in a process of its own. With otelmcp on both
// sides the second agent is a sub-agent of the tool call, in the same session:
//
//	go run ./mcp
//
// The models are scripted; the MCP client and server are those of the official SDK.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/otelagent/otelagent/instrumentation/github.com/modelcontextprotocol/go-sdk/otelmcp"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

func main() {
	process := boss
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		process = serve
	}
	if err := traced(context.Background(), process); err != nil {
		log.Fatal(err)
	}
}

// traced runs a process with a tracer, and sends what is left at its end.
func traced(ctx context.Context, process func(context.Context, *otelagent.Tracer) error) error {
	providers, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("mcp"))
	if err != nil {
		return err
	}
	err = process(ctx, otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent)))
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return errors.Join(err, providers.Shutdown(ctx), providers.Stats().LastError)
}

// boss starts the server as a process and calls its tool.
func boss(ctx context.Context, tracer *otelagent.Tracer) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "boss", Version: "1"}, nil)
	client.AddSendingMiddleware(otelmcp.Client()) // the one line of the client
	command := exec.Command(os.Args[0], "serve")
	command.Stderr = os.Stderr
	server, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		return err
	}

	ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{SessionID: "trip", Agent: "boss", Model: "scripted-1"})
	args := json.RawMessage(`{"question":"How warm is it in Bonn?"}`)
	turnCtx, turn := ask(ctx, run, spans.TriggerUser, "What do I wear in Bonn?")
	turn.Reply(otelagent.TurnResult{StopReason: "tool_use"})
	toolCtx, call := turn.StartTool(turnCtx, otelagent.ToolCall{ID: "call-1", Name: "ask_researcher", Args: args})
	got, err := server.CallTool(toolCtx, &mcp.CallToolParams{Name: "ask_researcher", Arguments: args})
	var result string
	if err == nil && len(got.Content) == 1 {
		result = got.Content[0].(*mcp.TextContent).Text
	}
	call.End(otelagent.ToolResult{Result: quote(result), Err: err})
	turn.End(otelagent.TurnResult{})
	if err == nil {
		answer(ctx, run, spans.TriggerContinuation, result, "At "+result+" a shirt will do.")
	}
	run.End(otelagent.RunResult{Err: err})
	return errors.Join(err, server.Close())
}

// serve is the other process: an MCP server whose tool runs an agent.
func serve(ctx context.Context, tracer *otelagent.Tracer) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "research", Version: "1"}, nil)
	server.AddReceivingMiddleware(otelmcp.Server()) // the one line of the server
	type input struct {
		Question string `json:"question"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "ask_researcher", Description: "asks another agent"}, func(
		ctx context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{Agent: "researcher", Model: "scripted-2"})
		text := answer(ctx, run, spans.TriggerUser, in.Question, "21 degrees")
		run.End(otelagent.RunResult{})
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	return server.Run(ctx, &mcp.StdioTransport{})
}

// ask starts a turn with a request of one message.
func ask(ctx context.Context, run *otelagent.Run, trigger spans.Trigger, text string) (context.Context,
	*otelagent.Turn) {
	ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: trigger})
	turn.Request(otelagent.Request{Payload: fmt.Appendf(nil, `{"messages":[{"role":"user","content":%s}]}`, quote(text))})
	return ctx, turn
}

// answer is a turn whose model replies with a text.
func answer(ctx context.Context, run *otelagent.Run, trigger spans.Trigger, text, reply string) string {
	_, turn := ask(ctx, run, trigger, text)
	turn.End(otelagent.TurnResult{StopReason: "stop", Output: &otelagent.Message{Role: "assistant",
		Raw: fmt.Appendf(nil, `{"role":"assistant","content":%s}`, quote(reply))}})
	return reply
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // never fails for a string
	return b
}
