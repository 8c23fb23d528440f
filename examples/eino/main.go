// Command eino is an agent on CloudWeGo's Eino that asks another agent, and a user before it books. The model is a
// script; a model of eino-ext with the HTTP transport of otelllmhttp would give the exact requests too.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/schema"

	"github.com/otelagent/otelagent/instrumentation/github.com/cloudwego/eino/oteleino"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	providers, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("eino"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, providers.Shutdown(ctx)) }()
	tracer := otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent))

	handler := oteleino.New(tracer)
	callbacks.AppendGlobalHandlers(handler) // the one line
	defer handler.Wait()

	return travel(oteleino.WithSession(ctx, "trip"))
}

// travel asks a clerk, who interrupts to be allowed to book, and resumes.
func travel(ctx context.Context) error {
	guide, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{Name: "guide", Description: "knows the weather",
		Model: &script{replies: []*schema.Message{schema.AssistantMessage("21 degrees.", nil)}}})
	if err != nil {
		return err
	}
	book, err := utils.InferTool("book", "books a journey", booking)
	if err != nil {
		return err
	}
	config := &adk.ChatModelAgentConfig{Name: "clerk", Description: "books journeys", Model: &script{
		replies: []*schema.Message{
			calls("c1", "guide", `{"request":"How warm is it in Bonn?"}`),
			calls("c2", "book", `{"city":"Bonn"}`),
			schema.AssistantMessage("It is 21 degrees in Bonn, and your journey is booked.", nil),
		}}}
	config.ToolsConfig.Tools = []tool.BaseTool{adk.NewAgentTool(ctx, guide), book}
	clerk, err := adk.NewChatModelAgent(ctx, config)
	if err != nil {
		return err
	}

	runner := adk.NewRunner(ctx, adk.RunnerConfig{Agent: clerk, CheckPointStore: &memory{}})
	question, err := last(runner.Query(ctx, "Bring me to Bonn if it is warm.", adk.WithCheckPointID("1")))
	if err != nil || question == nil {
		return err
	}
	fmt.Println(question.Info, "Yes.")
	events, err := runner.ResumeWithParams(ctx, "1", &adk.ResumeParams{Targets: map[string]any{question.ID: true}})
	if err == nil {
		_, err = last(events)
	}
	return err
}

type journey struct {
	City string `json:"city"`
}

func booking(ctx context.Context, j journey) (string, error) {
	if _, answered, yes := tool.GetResumeContext[bool](ctx); !answered {
		return "", tool.Interrupt(ctx, "May I book "+j.City+"?")
	} else if !yes {
		return "refused", nil
	}
	return "booked", nil
}

// last prints what an agent says, and returns the question that it stopped with.
func last(events *adk.AsyncIterator[*adk.AgentEvent]) (question *adk.InterruptCtx, err error) {
	for {
		e, ok := events.Next()
		switch {
		case !ok:
			return question, err
		case e.Err != nil:
			err = e.Err
		case e.Action != nil && e.Action.Interrupted != nil:
			for _, c := range e.Action.Interrupted.InterruptContexts {
				if c.IsRootCause {
					question = c
				}
			}
		case e.Output != nil && e.Output.MessageOutput != nil:
			if m := e.Output.MessageOutput.Message; m != nil && m.Role == schema.Assistant && m.Content != "" {
				fmt.Println(m.Content)
			}
		}
	}
}

// script is a model that says what it is given.
type script struct{ replies []*schema.Message }

func calls(id, name, args string) *schema.Message {
	return schema.AssistantMessage("", []schema.ToolCall{{ID: id, Type: "function",
		Function: schema.FunctionCall{Name: name, Arguments: args}}})
}

func (s *script) Generate(context.Context, []*schema.Message, ...model.Option) (*schema.Message, error) {
	if len(s.replies) == 0 {
		return nil, errors.New("the script has ended")
	}
	m := s.replies[0]
	s.replies = s.replies[1:]
	return m, nil
}

func (s *script) Stream(ctx context.Context, in []*schema.Message, _ ...model.Option) (
	*schema.StreamReader[*schema.Message], error) {
	m, err := s.Generate(ctx, in)
	return schema.StreamReaderFromArray([]*schema.Message{m}), err
}

// memory keeps checkpoints.
type memory struct{ sync.Map }

func (m *memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	if v, ok := m.Load(key); ok {
		return v.([]byte), true, nil
	}
	return nil, false, nil
}

func (m *memory) Set(_ context.Context, key string, data []byte) error {
	m.Store(key, data)
	return nil
}
