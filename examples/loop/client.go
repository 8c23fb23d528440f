package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/otelagent/otelagent/otelagent"
)

// client asks an endpoint for chat completions.
type client struct {
	endpoint, key string
}

// answer is what the model says.
type answer struct {
	Content   string     `json:"content"`
	ToolCalls []toolCall `json:"tool_calls"`
}

type toolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// completion is one reply of the endpoint.
type completion struct {
	answer answer
	result otelagent.TurnResult
}

// maxReply bounds a reply.
const maxReply = 16 << 20

func (c *client) ask(ctx context.Context, body []byte) (completion, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.endpoint,
		"/")+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return completion{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return completion{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return completion{}, err
	}
	if res.StatusCode != http.StatusOK {
		return completion{}, fmt.Errorf("the endpoint says %s", res.Status)
	}
	result, err := otelagent.ParseReply(text)
	if err != nil || result.Output == nil {
		return completion{}, fmt.Errorf("the endpoint's reply is no chat completion: %w", cmp.Or(err, io.ErrUnexpectedEOF))
	}
	out := completion{result: result}
	return out, json.Unmarshal(result.Output.Raw, &out.answer)
}

func message(role, text string) json.RawMessage {
	return fmt.Appendf(nil, `{"role":%s,"content":%s}`, quoted(role), quoted(text))
}

func toolMessage(id, text string) json.RawMessage {
	return fmt.Appendf(nil, `{"role":"tool","tool_call_id":%s,"content":%s}`, quoted(id), quoted(text))
}

func quoted(s string) json.RawMessage {
	b, _ := json.Marshal(s) // never fails for a string
	return b
}

func roleOf(raw json.RawMessage) string {
	var m struct{ Role string }
	_ = json.Unmarshal(raw, &m) // a message without a role has none
	return m.Role
}
