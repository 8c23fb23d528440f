package otelacp_test

import (
	"context"
	"fmt"
	"io"

	"github.com/coder/acp-go-sdk"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/instrumentation/github.com/coder/acp-go-sdk/otelacp"
	"github.com/otelagent/otelagent/otelagent"
)

// editor stands for your client.
type editor struct{ acp.Client }

func (editor) SessionUpdate(context.Context, acp.SessionNotification) error { return nil }

// agent stands for the agent, which is another program as a rule.
type agent struct {
	acp.Agent
	conn chan *acp.AgentSideConnection
}

func (a agent) NewSession(context.Context, acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	return acp.NewSessionResponse{SessionId: "s1"}, nil
}

func (a agent) Prompt(ctx context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	err := (<-a.conn).SessionUpdate(ctx, acp.SessionNotification{SessionId: p.SessionId,
		Update: acp.StartReadToolCall("c1", "Read main.go", "main.go", acp.WithStartStatus(acp.ToolCallStatusCompleted))})
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, err
}

func Example() {
	spans := tracetest.NewInMemoryExporter() // otelsetup.Setup sends them to a collector
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))))

	stdin, stdinOfClient := io.Pipe()
	stdoutOfAgent, stdout := io.Pipe()
	a := agent{conn: make(chan *acp.AgentSideConnection, 1)}
	a.conn <- acp.NewAgentSideConnection(a, stdout, stdin)

	conn := otelacp.NewClientSideConnection(tracer, editor{}, stdinOfClient, stdoutOfAgent) // the one line

	ctx := context.Background()
	session, err := conn.NewSession(ctx, acp.NewSessionRequest{Cwd: "/", McpServers: []acp.McpServer{}})
	if err == nil {
		_, err = conn.Prompt(ctx, acp.PromptRequest{SessionId: session.SessionId,
			Prompt: []acp.ContentBlock{acp.TextBlock("What is in main.go?")}})
	}
	fmt.Println("error:", err)
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	_, _ = stdinOfClient.Close(), stdout.Close() // as the end of the agent does
	<-conn.Done()
	// Output:
	// error: <nil>
	// session.payload
	// tool.call
	// session.turn
	// session.run
}
