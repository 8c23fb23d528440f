// Command acp-client is an editor that drives an agent over the Agent Client Protocol, both on its Go SDK. The editor
// traces the connection. The agent runs in the same process, over pipes; an editor starts a program instead.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/coder/acp-go-sdk"

	"github.com/otelagent/otelagent/instrumentation/github.com/coder/acp-go-sdk/otelacp"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

func main() {
	ctx := context.Background()
	sdk, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("editor"))
	if err != nil {
		log.Fatal(err)
	}
	err = edit(ctx, otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent)))
	if err := errors.Join(err, sdk.Shutdown(ctx)); err != nil {
		log.Fatal(err)
	}
}

// edit starts the agent and prompts it twice.
func edit(ctx context.Context, tracer *otelagent.Tracer) error {
	stdin, stdout, stop := start()
	defer stop()
	conn := otelacp.NewClientSideConnection(tracer, editor{}, stdin, stdout)
	conn.SetLogger(slog.New(slog.DiscardHandler))

	hello := acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber}
	if _, err := conn.Initialize(ctx, hello); err != nil {
		return err
	}
	session, err := conn.NewSession(ctx, acp.NewSessionRequest{Cwd: "/project", McpServers: []acp.McpServer{}})
	if err != nil {
		return err
	}
	for _, text := range []string{"Delete the old build.", "And the sources?"} {
		_, err := conn.Prompt(ctx, acp.PromptRequest{SessionId: session.SessionId,
			Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
		if err != nil {
			return err
		}
	}
	return nil
}

// editor shows what the agent says and allows one tool call.
type editor struct{ acp.Client }

func (editor) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	if c := n.Update.AgentMessageChunk; c != nil {
		fmt.Println(c.Content.Text.Text)
	}
	return nil
}

func (editor) RequestPermission(_ context.Context, p acp.RequestPermissionRequest) (
	acp.RequestPermissionResponse, error) {
	option := acp.PermissionOptionId("no")
	if p.ToolCall.ToolCallId == "call-1" {
		option = "yes"
	}
	return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected(option)}, nil
}

// start starts the agent and returns its input and its output, and what ends it.
func start() (io.Writer, io.Reader, func()) {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	a := &agent{connected: make(chan struct{})}
	a.conn = acp.NewAgentSideConnection(a, out, in)
	a.conn.SetLogger(slog.New(slog.DiscardHandler))
	close(a.connected)
	return stdin, stdout, func() { _, _ = stdin.Close(), out.Close() }
}
