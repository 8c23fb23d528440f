package test

import (
	"bytes"
	"os"
	"testing"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/instrumentation/github.com/github/copilot-sdk/go/otelcopilot"
	"github.com/otelagent/otelagent/otelagent"
)

// The real runtime, with a model provider of its user's, which needs no account: it asks for a command, and then says
// its result. COPILOT_CLI_PATH names the Copilot CLI, such as that of the npm package @github/copilot.
func TestRealRuntime(t *testing.T) {
	cli := os.Getenv("COPILOT_CLI_PATH")
	if cli == "" {
		t.Skip("COPILOT_CLI_PATH names no Copilot CLI")
	}
	model := provider.NewFunc(t, func(_ int, r provider.Request) provider.Reply {
		if bytes.Contains(r.Body, []byte(`"tool_call_id"`)) {
			return provider.Reply{Text: "It says ahoy."}
		}
		return provider.Reply{Text: "I look.", Calls: []provider.Call{{ID: "c1", Name: "bash",
			Args: `{"command":"echo ahoy","description":"greet","mode":"sync"}`}}}
	})
	pipe := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	tracing := otelcopilot.New(pipe.Tracer())
	dir := t.TempDir()
	client := copilot.NewClient(&copilot.ClientOptions{RequestHandler: tracing.RequestHandler(nil),
		Connection: copilot.StdioConnection{Path: cli}, WorkingDirectory: dir,
		Env: append(os.Environ(), "HOME="+dir, "COPILOT_OFFLINE=true", "COPILOT_MODEL=gpt-4.1",
			"COPILOT_PROVIDER_BASE_URL="+model.URL+"/v1")})
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := client.CreateSession(t.Context(), &copilot.SessionConfig{SessionID: "s1", Model: "gpt-4.1",
		Provider:            &copilot.ProviderConfig{Type: "openai", BaseURL: model.URL + "/v1", APIKey: "none"},
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll})
	if err != nil {
		t.Fatal(err)
	}
	stop := tracing.Watch(t.Context(), s)
	ask(t, s, "Greet me.")
	stop()
	if err := s.Disconnect(); err != nil {
		t.Error(err)
	}
	if err := client.Stop(); err != nil {
		t.Log(err)
	}
	want := `session s1
  run copilot completed
    turn 0 user tool_calls in 15 out 5 cached 3
      tool c1 bash ok
        permission bash allow once
    turn 1 continuation stop in 15 out 5 cached 3
`
	if diff := cmp.Diff(want, pipe.Outline()); diff != "" {
		t.Errorf("outline (-want +got):\n%s", diff)
	}
	pipe.SameRequests(model.Bodies())
}
