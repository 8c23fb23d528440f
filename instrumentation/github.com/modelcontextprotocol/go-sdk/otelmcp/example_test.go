package otelmcp_test

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/otelagent/otelagent/instrumentation/github.com/modelcontextprotocol/go-sdk/otelmcp"
	"github.com/otelagent/otelagent/otelagent"
)

// The tool of an MCP server runs an agent. It is in the session of the agent that calls the tool.
func Example() {
	ctx := context.Background()
	tracer := otelagent.NewTracer()

	server := mcp.NewServer(&mcp.Implementation{Name: "research"}, nil)
	server.AddReceivingMiddleware(otelmcp.Server())
	mcp.AddTool(server, &mcp.Tool{Name: "ask"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (
		*mcp.CallToolResult, any, error) {
		_, run := tracer.StartRun(ctx, otelagent.RunInfo{Agent: "researcher"})
		defer run.End(otelagent.RunResult{})
		fmt.Println("the researcher is in session", run.SessionID())
		return &mcp.CallToolResult{}, nil, nil
	})

	client := mcp.NewClient(&mcp.Implementation{Name: "boss"}, nil)
	client.AddSendingMiddleware(otelmcp.Client())

	there, here := mcp.NewInMemoryTransports() // in place of a process or a URL
	serving, err := server.Connect(ctx, there, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer serving.Wait()
	session, err := client.Connect(ctx, here, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()

	ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{SessionID: "chat-1", Agent: "boss"})
	defer run.End(otelagent.RunResult{})
	ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	defer turn.End(otelagent.TurnResult{})
	ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "call-1", Name: "ask"})
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "ask"})
	call.End(otelagent.ToolResult{Err: err})
	// Output: the researcher is in session chat-1
}
