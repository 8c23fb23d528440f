// Package test has the tests of otelmcp: agents in front of and behind a real client and server of the MCP SDK. It is a
// module of its own so that otelmcp requires no SDK of OpenTelemetry.
package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// An agent is a loop over Anthropic messages whose tools are those of an MCP server.
type agent struct {
	tracer *otelagent.Tracer
	url    string             // of the model
	tools  *mcp.ClientSession // nil for an agent without tools
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// ask runs the loop until the model calls no tool, and returns its text.
func (a *agent) ask(ctx context.Context, info otelagent.RunInfo, question string) (text string, err error) {
	ctx, run := a.tracer.StartRun(ctx, info)
	defer func() { run.End(otelagent.RunResult{Err: err}) }()
	history := []message{{"user", []block{{Type: "text", Text: question}}}}
	trigger := spans.TriggerUser
	for {
		reply, results, err := a.turn(ctx, run, trigger, history)
		if err != nil {
			return "", err
		}
		if len(results.Content) == 0 {
			return reply.Content[0].Text, nil
		}
		history = append(history, reply, results)
		trigger = spans.TriggerContinuation
	}
}

func (a *agent) turn(ctx context.Context, run *otelagent.Run, trigger spans.Trigger, history []message) (
	reply, results message, err error) {
	ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: trigger})
	var res otelagent.TurnResult
	defer func() {
		if err != nil {
			res.Err = err
		}
		turn.End(res)
	}()
	body, err := json.Marshal(map[string]any{"model": "fake-1", "max_tokens": 100, "messages": history})
	if err != nil {
		return reply, results, err
	}
	turn.Request(otelagent.Request{Payload: body})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return reply, results, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply, results, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply, results, err
	}
	if res, err = otelagent.ParseReply(text); err != nil {
		return reply, results, err
	}
	turn.Reply(res)
	if err := json.Unmarshal(text, &reply); err != nil {
		return reply, results, err
	}
	results = a.callAll(ctx, turn, reply.Content)
	return reply, results, ctx.Err()
}

// callAll calls the tools that a reply asks for, in parallel.
func (a *agent) callAll(ctx context.Context, turn *otelagent.Turn, asked []block) message {
	results := message{Role: "user"}
	for _, b := range asked {
		if b.Type == "tool_use" {
			results.Content = append(results.Content, block{Type: "tool_result", ToolUseID: b.ID, Name: b.Name, Input: b.Input})
		}
	}
	var wg sync.WaitGroup
	for i := range results.Content {
		r := &results.Content[i]
		call := otelagent.ToolCall{ID: r.ToolUseID, Name: r.Name, Args: r.Input}
		r.Name, r.Input = "", nil
		ctx, tool := turn.StartTool(ctx, call)
		wg.Go(func() {
			text, err := a.call(ctx, call)
			if ctx.Err() != nil {
				err = ctx.Err() // the versions of the SDK wrap it differently
			}
			result, _ := json.Marshal(text)
			tool.End(otelagent.ToolResult{Result: result, Err: err})
			if err != nil {
				text = err.Error()
			}
			r.Content, r.IsError = text, err != nil
		})
	}
	wg.Wait()
	return results
}

func (a *agent) call(ctx context.Context, call otelagent.ToolCall) (string, error) {
	res, err := a.tools.CallTool(ctx, &mcp.CallToolParams{Name: call.Name, Arguments: json.RawMessage(call.Args)})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, c := range res.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			text.WriteString(c.Text)
		}
	}
	if res.IsError {
		return "", errors.New(text.String())
	}
	return text.String(), nil
}

// question is what the tool of a sub-agent takes.
type question struct {
	Question string `json:"question"`
}

// answer is the result of a tool.
func answer(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}
