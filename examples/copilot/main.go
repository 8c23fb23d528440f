// Command copilot asks GitHub Copilot through its Go SDK and traces the session. Set COPILOT_CLI_PATH to the Copilot
// CLI to ask the real one, which wants an account; without it a script plays the runtime and a model.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/otelagent/otelagent/instrumentation/github.com/github/copilot-sdk/go/otelcopilot"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

func main() {
	ctx := context.Background()
	sdk, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("copilot-example"))
	if err != nil {
		log.Fatal(err)
	}
	err = chat(ctx, otelcopilot.New(otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent))))
	if err := errors.Join(err, sdk.Shutdown(ctx)); err != nil {
		log.Fatal(err)
	}
}

// chat asks one question in a session.
func chat(ctx context.Context, tracing *otelcopilot.Tracing) error {
	options := &copilot.ClientOptions{RequestHandler: tracing.RequestHandler(nil)}
	scripted := os.Getenv("COPILOT_CLI_PATH") == ""
	if scripted {
		url, stop, err := script()
		if err != nil {
			return err
		}
		defer stop()
		options.Connection = copilot.URIConnection{URL: url}
	}
	client := copilot.NewClient(options)
	if !scripted {
		defer client.ForceStop()
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	session, err := client.CreateSession(ctx, &copilot.SessionConfig{SessionID: "chat-1",
		OnPermissionRequest: copilot.PermissionHandler.ApproveAll})
	if err != nil {
		return err
	}
	stop := tracing.Watch(ctx, session)
	answer, err := session.SendAndWait(ctx, copilot.MessageOptions{Prompt: "Which tests fail?"})
	stop()
	if answer != nil {
		if m, ok := answer.Data.(*copilot.AssistantMessageData); ok {
			fmt.Println(m.Content)
		}
	}
	return errors.Join(err, session.Disconnect())
}
