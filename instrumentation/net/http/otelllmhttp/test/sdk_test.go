// Package test runs SDKs over instrumentation/net/http/otelllmhttp, against a provider that speaks their wire.
package test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	goopenai "github.com/sashabaranov/go-openai"
	"go.uber.org/goleak"
	"google.golang.org/genai"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/instrumentation/net/http/otelllmhttp"
	"github.com/otelagent/otelagent/otelagent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sdk is a loop on one SDK: it asks, answers the call of a tool, and asks again.
type sdk struct {
	name    string
	retries bool   // it repeats a request that was refused
	cached  string // what the API says of its cache
	run     func(ctx context.Context, url string, t *otelllmhttp.Transport, stream bool) error
}

const question, args, answer = "How warm is it in Bonn?", `{"city":"Bonn"}`, "21 degrees"

// TestSDKs asks a question by each SDK, whole and streamed. The reply calls a tool; the next request is refused once,
// where the SDK asks again.
func TestSDKs(t *testing.T) {
	for _, s := range []sdk{
		{"go-openai", false, " cached 3", goOpenAI},
		{"openai-go chat", true, " cached 3", openAIChat},
		{"openai-go responses", true, " cached 3", openAIResponses},
		{"genai", false, " cached 3", gemini},
		{"ollama", false, "", ollama},
	} {
		for _, stream := range []bool{false, true} {
			name := s.name
			if stream {
				name += " streamed"
			}
			t.Run(name, func(t *testing.T) {
				replies := []provider.Reply{{Text: "I look.", Calls: []provider.Call{{ID: "c1", Name: "weather", Args: args}}},
					{Text: "21 degrees in Bonn."}}
				attempts := ""
				if s.retries {
					replies = append(replies[:1:1], provider.Reply{Status: 529}, replies[1])
					attempts = " attempts 2 discarded 1"
				}
				server := provider.New(t, replies...)
				p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
				base := http.DefaultTransport.(*http.Transport).Clone()
				defer base.CloseIdleConnections()
				tr := otelllmhttp.NewTransport(p.Tracer(), otelllmhttp.WithBase(base), otelllmhttp.WithAgent("coder"))
				if err := s.run(t.Context(), server.URL, tr, stream); err != nil {
					t.Fatal(err)
				}
				got := p.Outline() // the run has ended without Close
				tr.Close()
				lines := strings.Split(got, "\n")
				if len(lines) != 6 || lines[1] != "  run coder completed" || !strings.HasPrefix(lines[2], "    turn 0 user ") ||
					lines[3] != "      tool c1 weather ok bound" || !strings.HasPrefix(lines[4], "    turn 1 continuation ") ||
					!strings.HasSuffix(lines[4], "in 15 out 5"+s.cached+attempts) || strings.Contains(got, "!") {
					t.Errorf("outline:\n%s", got)
				}
				p.SameRequests(server.Bodies())
			})
		}
	}
}

func goOpenAI(ctx context.Context, url string, t *otelllmhttp.Transport, stream bool) error {
	config := goopenai.DefaultConfig("none")
	config.BaseURL, config.HTTPClient = url+"/v1", &http.Client{Transport: t} // the one line
	client := goopenai.NewClientWithConfig(config)
	messages := []goopenai.ChatCompletionMessage{{Role: "user", Content: question}}
	for {
		q := goopenai.ChatCompletionRequest{Model: "fake-1", Messages: messages}
		var m goopenai.ChatCompletionMessage
		if stream {
			q.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
			s, err := client.CreateChatCompletionStream(ctx, q)
			if err != nil {
				return err
			}
			m.Role = "assistant"
			for {
				chunk, err := s.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return err
				}
				for _, c := range chunk.Choices {
					m.Content += c.Delta.Content
					for _, call := range c.Delta.ToolCalls {
						if *call.Index == len(m.ToolCalls) {
							m.ToolCalls = append(m.ToolCalls, goopenai.ToolCall{ID: call.ID, Type: call.Type})
						}
						f := &m.ToolCalls[*call.Index].Function
						f.Name += call.Function.Name
						f.Arguments += call.Function.Arguments
					}
				}
			}
			_ = s.Close()
		} else {
			res, err := client.CreateChatCompletion(ctx, q)
			if err != nil {
				return err
			}
			m = res.Choices[0].Message
		}
		messages = append(messages, m)
		if len(m.ToolCalls) == 0 {
			return nil
		}
		for _, call := range m.ToolCalls {
			messages = append(messages, goopenai.ChatCompletionMessage{Role: "tool", ToolCallID: call.ID, Content: answer})
		}
	}
}

func openAI(url string, t *otelllmhttp.Transport) openai.Client {
	return openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey("none"),
		option.WithMiddleware(t.Intercept)) // the one line
}

func openAIChat(ctx context.Context, url string, t *otelllmhttp.Transport, stream bool) error {
	client := openAI(url, t)
	q := openai.ChatCompletionNewParams{Model: "fake-1",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)}}
	for {
		var res *openai.ChatCompletion
		if stream {
			q.StreamOptions.IncludeUsage = openai.Bool(true)
			s, sum := client.Chat.Completions.NewStreaming(ctx, q), openai.ChatCompletionAccumulator{}
			for s.Next() {
				sum.AddChunk(s.Current())
			}
			if s.Err() != nil {
				return s.Err()
			}
			res = &sum.ChatCompletion
		} else {
			var err error
			if res, err = client.Chat.Completions.New(ctx, q); err != nil {
				return err
			}
		}
		m := res.Choices[0].Message
		q.Messages = append(q.Messages, m.ToParam())
		if len(m.ToolCalls) == 0 {
			return nil
		}
		for _, call := range m.ToolCalls {
			q.Messages = append(q.Messages, openai.ToolMessage(answer, call.ID))
		}
	}
}

// openAIResponses sends only what is new after the first request.
func openAIResponses(ctx context.Context, url string, t *otelllmhttp.Transport, stream bool) error {
	client := openAI(url, t)
	q := responses.ResponseNewParams{Model: "fake-1",
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(question)}}
	for {
		var res responses.Response
		if stream {
			s := client.Responses.NewStreaming(ctx, q)
			for s.Next() {
				if done, ok := s.Current().AsAny().(responses.ResponseCompletedEvent); ok {
					res = done.Response
				}
			}
			if s.Err() != nil {
				return s.Err()
			}
		} else {
			whole, err := client.Responses.New(ctx, q)
			if err != nil {
				return err
			}
			res = *whole
		}
		var results responses.ResponseInputParam
		for _, item := range res.Output {
			if call, ok := item.AsAny().(responses.ResponseFunctionToolCall); ok {
				results = append(results, param.Override[responses.ResponseInputItemUnionParam](map[string]string{
					"type": "function_call_output", "call_id": call.CallID, "output": answer}))
			}
		}
		if results == nil {
			return nil
		}
		q.PreviousResponseID = openai.String(res.ID)
		q.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: results}
	}
}

func gemini(ctx context.Context, url string, t *otelllmhttp.Transport, stream bool) error {
	client, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: "none", Backend: genai.BackendGeminiAPI,
		HTTPClient:  &http.Client{Transport: t}, // the one line
		HTTPOptions: genai.HTTPOptions{BaseURL: url + "/"}})
	if err != nil {
		return err
	}
	contents := genai.Text(question)
	for {
		reply := &genai.Content{Role: "model"}
		if stream {
			for chunk, err := range client.Models.GenerateContentStream(ctx, "fake-1", contents, nil) {
				if err != nil {
					return err
				}
				reply.Parts = append(reply.Parts, chunk.Candidates[0].Content.Parts...)
			}
		} else {
			res, err := client.Models.GenerateContent(ctx, "fake-1", contents, nil)
			if err != nil {
				return err
			}
			reply = res.Candidates[0].Content
		}
		contents = append(contents, reply)
		var results []*genai.Part
		for _, part := range reply.Parts {
			if call := part.FunctionCall; call != nil {
				results = append(results, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name,
					Response: map[string]any{"output": answer}}})
			}
		}
		if results == nil {
			return nil
		}
		contents = append(contents, &genai.Content{Role: "user", Parts: results})
	}
}

// ollama answers without the id of the call, which its API had not in its first years.
func ollama(ctx context.Context, base string, t *otelllmhttp.Transport, stream bool) error {
	at, err := url.Parse(base)
	if err != nil {
		return err
	}
	client := api.NewClient(at, &http.Client{Transport: t}) // the one line
	messages := []api.Message{{Role: "user", Content: question}}
	for {
		reply := api.Message{Role: "assistant"}
		q := &api.ChatRequest{Model: "fake-1", Messages: messages, Stream: &stream}
		err := client.Chat(ctx, q, func(res api.ChatResponse) error {
			reply.Content += res.Message.Content
			reply.ToolCalls = append(reply.ToolCalls, res.Message.ToolCalls...)
			return nil
		})
		if err != nil {
			return err
		}
		messages = append(messages, reply)
		if len(reply.ToolCalls) == 0 {
			return nil
		}
		for range reply.ToolCalls {
			messages = append(messages, api.Message{Role: "tool", Content: answer})
		}
	}
}
