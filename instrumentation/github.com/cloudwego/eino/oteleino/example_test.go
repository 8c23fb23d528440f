package oteleino_test

import (
	"context"
	"fmt"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/otelagent/otelagent/instrumentation/github.com/cloudwego/eino/oteleino"
	"github.com/otelagent/otelagent/otelagent"
)

// scripted stands for a model of eino-ext, whose HTTPClient would have the transport of otelllmhttp.
type scripted struct{}

func (scripted) Generate(ctx context.Context, _ []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	fmt.Println("the model is asked in session", otelagent.RunFromContext(ctx).SessionID())
	return schema.AssistantMessage("It is Saturday.", nil), nil
}

func (s scripted) Stream(ctx context.Context, in []*schema.Message, _ ...model.Option) (
	*schema.StreamReader[*schema.Message], error) {
	m, err := s.Generate(ctx, in)
	return schema.StreamReaderFromArray([]*schema.Message{m}), err
}

func Example() {
	tracer := otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent))
	handler := oteleino.New(tracer)
	callbacks.AppendGlobalHandlers(handler) // the one line
	defer handler.Wait()                    // before the program shuts its provider down

	ctx := oteleino.WithSession(context.Background(), "chat-1") // the conversation, which Eino has no name for
	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{Name: "assistant", Description: "answers",
		Model: scripted{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	events := adk.NewRunner(ctx, adk.RunnerConfig{Agent: agent}).Query(ctx, "Which day is it?")
	for {
		event, ok := events.Next()
		if !ok {
			break
		}
		if event.Err == nil && event.Output != nil {
			fmt.Println(event.Output.MessageOutput.Message.Content)
		}
	}
	// Output:
	// the model is asked in session chat-1
	// It is Saturday.
}
