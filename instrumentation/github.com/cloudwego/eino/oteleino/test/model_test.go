package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
)

// chatModel speaks OpenAI chat completions over an http.Client, as the models of eino-ext do.
type chatModel struct {
	url    string
	client *http.Client
	own    bool // calls the callbacks itself, as those of eino-ext do
}

func (m *chatModel) GetType() string          { return "OpenAI" }
func (m *chatModel) IsCallbacksEnabled() bool { return m.own }

func (m *chatModel) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return m, nil }

type wireMessage struct {
	Role       string            `json:"role,omitempty"`
	Content    string            `json:"content"`
	ToolCalls  []schema.ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
}

type wireReply struct {
	Choices []struct {
		Message, Delta wireMessage
		FinishReason   string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error *struct{ Message string }
}

func (r *wireReply) message(streamed bool) (*schema.Message, error) {
	if r.Error != nil {
		return nil, fmt.Errorf("%s", r.Error.Message)
	}
	m := &schema.Message{Role: schema.Assistant}
	if len(r.Choices) > 0 {
		c := r.Choices[0]
		w := c.Message
		if streamed {
			w = c.Delta
		}
		m.Content, m.ToolCalls = w.Content, w.ToolCalls
		if c.FinishReason != "" {
			m.ResponseMeta = &schema.ResponseMeta{FinishReason: c.FinishReason}
		}
	}
	if u := r.Usage; u != nil {
		if m.ResponseMeta == nil {
			m.ResponseMeta = &schema.ResponseMeta{}
		}
		m.ResponseMeta.Usage = &schema.TokenUsage{PromptTokens: u.Prompt, CompletionTokens: u.Completion,
			TotalTokens: u.Total, PromptTokenDetails: schema.PromptTokenDetails{CachedTokens: u.Details.Cached}}
	}
	return m, nil
}

func (m *chatModel) post(ctx context.Context, in []*schema.Message, stream bool) (*http.Response, error) {
	messages := make([]wireMessage, 0, len(in))
	for _, x := range in {
		text := x.Content
		for _, part := range x.UserInputMultiContent {
			text += part.Text
		}
		messages = append(messages, wireMessage{string(x.Role), text, x.ToolCalls, x.ToolCallID})
	}
	asked := map[string]any{"model": "fake-1", "messages": messages}
	if stream {
		asked["stream"], asked["stream_options"] = true, map[string]any{"include_usage": true}
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := m.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		var e wireReply
		_ = json.Unmarshal(text, &e)
		return nil, fmt.Errorf("status %d: %s", res.StatusCode, e.Error.Message)
	}
	return res, nil
}

func (m *chatModel) Generate(ctx context.Context, in []*schema.Message, _ ...model.Option) (out *schema.Message,
	err error) {
	if m.own {
		ctx = callbacks.EnsureRunInfo(ctx, m.GetType(), components.ComponentOfChatModel)
		ctx = callbacks.OnStart(ctx, &model.CallbackInput{Messages: in, Config: &model.Config{Model: "fake-1"}})
		defer func() {
			switch {
			case err != nil:
				callbacks.OnError(ctx, err)
			case out != nil: // else it panics
				callbacks.OnEnd(ctx, &model.CallbackOutput{Message: out})
			}
		}()
	}
	res, err := m.post(ctx, in, false)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	var r wireReply
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	return r.message(false)
}

func (m *chatModel) Stream(ctx context.Context, in []*schema.Message, _ ...model.Option) (
	*schema.StreamReader[*schema.Message], error) {
	if m.own {
		ctx = callbacks.EnsureRunInfo(ctx, m.GetType(), components.ComponentOfChatModel)
		ctx = callbacks.OnStart(ctx, &model.CallbackInput{Messages: in, Config: &model.Config{Model: "fake-1"}})
	}
	res, err := m.post(ctx, in, true) //nolint:bodyclose // the goroutine below closes it
	if err != nil {
		if m.own {
			callbacks.OnError(ctx, err)
		}
		return nil, err
	}
	out, pieces := schema.Pipe[*schema.Message](1)
	go func() {
		defer res.Body.Close()
		defer pieces.Close()
		m.read(res.Body, pieces)
	}()
	if m.own {
		_, out = callbacks.OnEndWithStreamOutput(ctx, out)
	}
	return out, nil
}

// read sends the pieces of a stream until it ends or nobody reads them.
func (m *chatModel) read(body io.Reader, pieces *schema.StreamWriter[*schema.Message]) {
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			_, _ = io.Copy(io.Discard, body)
			return
		}
		var r wireReply
		err := json.Unmarshal([]byte(data), &r)
		if err == nil {
			var piece *schema.Message
			if piece, err = r.message(true); err == nil {
				if pieces.Send(piece, nil) {
					return
				}
				continue
			}
		}
		pieces.Send(nil, err)
		return
	}
	err := lines.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	pieces.Send(nil, err)
}
