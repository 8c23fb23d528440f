// Command anthropic is an agent on the tool runner of Anthropic's SDK. One of its tools asks a model in turn, which is
// a sub-agent. The model is a script in this process that speaks Anthropic's API; with ANTHROPIC_API_KEY it is Claude.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/toolrunner"

	"github.com/otelagent/otelagent/instrumentation/github.com/anthropics/anthropic-sdk-go/otelanthropic"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

func main() {
	ctx := context.Background()
	sdk, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("guide"))
	if err != nil {
		log.Fatal(err)
	}
	err = run(ctx, otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent)))
	if err := errors.Join(err, sdk.Shutdown(ctx)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, tracer *otelagent.Tracer) error {
	var options []option.RequestOption
	if os.Getenv("ANTHROPIC_API_KEY") == "" {
		api := httptest.NewServer(&script{replies: []string{
			`"tool_use","content":[{"type":"tool_use","id":"toolu_1","name":"translate","input":{"text":"Hello"}}]`,
			`"end_turn","content":[{"type":"text","text":"Guten Tag"}]`,
			`"end_turn","content":[{"type":"text","text":"In Bonn you say: Guten Tag."}]`}})
		defer api.Close()
		options = append(options, option.WithBaseURL(api.URL), option.WithAPIKey("none"))
	}
	traced := otelanthropic.New(tracer, otelanthropic.WithAgent("guide")) // the options and the tools of it
	defer traced.Close()
	client := anthropic.NewClient(append(options, traced.Options()...)...)

	translate := toolrunner.NewBetaTool("translate", "Translates into German.", schema,
		func(ctx context.Context, in phrase) (result anthropic.BetaToolResultBlockParamContentUnion, err error) {
			reply, err := client.Messages.New(ctx, anthropic.MessageNewParams{Model: "claude-opus-4-6", MaxTokens: 1000,
				Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("In German: " + in.Text))}})
			if err != nil {
				return result, err
			}
			result.OfText = &anthropic.BetaTextBlockParam{Text: reply.Content[0].Text}
			return result, nil
		})
	runner := client.Beta.Messages.NewToolRunner(traced.Tools(translate), anthropic.BetaToolRunnerParams{
		BetaMessageNewParams: anthropic.BetaMessageNewParams{Model: "claude-opus-4-6", MaxTokens: 1000,
			Messages: []anthropic.BetaMessageParam{anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(
				"How do I say hello in Bonn?"))}}})
	reply, err := runner.RunToCompletion(ctx)
	if err != nil {
		return err
	}
	for _, block := range reply.Content {
		fmt.Println(block.Text)
	}
	return nil
}

// schema is that of phrase. The SDK writes a schema that it infers with its keys in an order that changes.
var schema = anthropic.BetaToolInputSchemaParam{
	Properties: map[string]any{"text": map[string]string{"type": "string"}}, Required: []string{"text"},
}

type phrase struct {
	Text string `json:"text"`
}

// script answers with its replies, one a request.
type script struct{ replies []string }

func (s *script) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if len(s.replies) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"id":"msg_%d","type":"message","role":"assistant","model":"scripted","stop_reason":%s,`+
		`"usage":{"input_tokens":40,"output_tokens":8}}`, len(s.replies), s.replies[0])
	s.replies = s.replies[1:]
}
