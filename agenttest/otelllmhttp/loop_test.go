// Package otelllmhttp tests instrumentation/net/http/otelllmhttp, which is in the root module and so cannot use
// agenttest.
package otelllmhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// loop is an agent loop on plain HTTP, which spells its requests for one API.
type loop struct {
	api      provider.API
	stream   bool
	url      string
	client   *http.Client
	messages []any
	system   string
	// previous is the id of the last response, for a loop on OpenAI's responses that sends what is new.
	previous string
	stateful bool
}

// errStatus is an error that the provider answers with.
type errStatus int

func (e errStatus) Error() string { return fmt.Sprint("status ", int(e)) }

func (l *loop) user(text string) {
	switch l.api {
	case provider.Gemini:
		l.messages = append(l.messages, object{"role": "user", "parts": []object{{"text": text}}})
	default:
		l.messages = append(l.messages, object{"role": "user", "content": text})
	}
}

// result is that of a tool call.
type result struct {
	id, name, text string
	failed         bool
}

func (l *loop) results(list ...result) {
	var blocks []object
	for _, r := range list {
		switch l.api {
		case provider.Anthropic:
			blocks = append(blocks, object{"type": "tool_result", "tool_use_id": r.id, "content": r.text, "is_error": r.failed})
		case provider.OpenAIChat:
			l.messages = append(l.messages, object{"role": "tool", "tool_call_id": r.id, "content": r.text})
		case provider.OpenAIResponses:
			l.messages = append(l.messages, object{"type": "function_call_output", "call_id": r.id, "output": r.text})
		case provider.Gemini:
			blocks = append(blocks, object{"functionResponse": object{"id": r.id, "name": r.name,
				"response": object{"output": r.text}}})
		case provider.Ollama: // which pairs results by the name, and by their order
			l.messages = append(l.messages, object{"role": "tool", "tool_name": r.name, "content": r.text})
		}
	}
	switch l.api {
	case provider.Anthropic:
		l.messages = append(l.messages, object{"role": "user", "content": blocks})
	case provider.Gemini:
		l.messages = append(l.messages, object{"role": "user", "parts": blocks})
	}
}

// body is the next request.
func (l *loop) body() []byte {
	q := object{"stream": l.stream, "model": "fake-1"}
	system := l.system
	if system == "" {
		system = "Be brief."
	}
	switch l.api {
	case provider.Anthropic:
		q["messages"], q["system"], q["max_tokens"] = l.messages, system, 100
	case provider.OpenAIChat, provider.Ollama:
		q["messages"] = append([]any{object{"role": "system", "content": system}}, l.messages...)
		if l.stream && l.api == provider.OpenAIChat {
			q["stream_options"] = object{"include_usage": true}
		}
	case provider.OpenAIResponses:
		q["input"], q["instructions"] = l.messages, system
		if l.previous != "" {
			q["previous_response_id"] = l.previous
		}
	case provider.Gemini:
		q = object{"contents": l.messages, "systemInstruction": object{"parts": []object{{"text": system}}}}
	}
	b, err := json.Marshal(q)
	if err != nil {
		panic(err)
	}
	return b
}

// send sends one request and returns the response, which the caller closes.
func (l *loop) send(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+l.api.Path(l.stream), bytes.NewReader(l.body()))
	if err != nil {
		return nil, err
	}
	return l.client.Do(req)
}

// ask sends the messages and appends the reply.
func (l *loop) ask(ctx context.Context) error {
	res, err := l.send(ctx)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return errStatus(res.StatusCode)
	}
	reply, err := otelagent.ParseReply(text)
	if err != nil {
		return fmt.Errorf("%w in %s", err, text)
	}
	if l.stateful {
		l.messages, l.previous = nil, reply.ResponseID
		return reply.Err
	}
	if reply.Output != nil {
		l.add(reply.Output.Raw)
	}
	return reply.Err
}

// add appends a reply to the messages.
func (l *loop) add(raw json.RawMessage) {
	if items := []json.RawMessage{}; json.Unmarshal(raw, &items) == nil {
		for _, item := range items {
			l.messages = append(l.messages, item)
		}
		return
	}
	l.messages = append(l.messages, raw)
}

// must asks and fails the test for an error; a status that asks to retry is retried at once.
func (l *loop) must(ctx context.Context, t *testing.T) {
	t.Helper()
	for {
		err := l.ask(ctx)
		var status errStatus
		if errors.As(err, &status) && (status == 429 || status == 529) {
			continue
		}
		must.Do(t, err)
		return
	}
}

// spelled replaces the names of stop reasons in an outline by those of the API, and outcomes that only one API states.
func (l *loop) spelled(outline string) string {
	words := map[provider.API][]string{
		provider.Anthropic: {"CALLS", "tool_use", "STOP", "end_turn", "FAILED", `error "no such city"`,
			"PARTIAL", "in 15 out 1 cached 3 partial", "BROKEN", "api_error", "SOFAR", "in 15 out 1 cached 3"},
		provider.OpenAIChat: {"CALLS", "tool_calls", "STOP", "stop", "FAILED", "ok", "PARTIAL", "partial",
			"BROKEN", "server_error", "SOFAR ", ""},
		provider.OpenAIResponses: {"CALLS", "completed", "STOP", "completed", "FAILED", "ok", "PARTIAL", "partial",
			"BROKEN", "server_error", "SOFAR ", ""},
		provider.Gemini: {"FAILED", "ok", "CALLS", "STOP", "PARTIAL", "in 15 out 5 cached 3 partial",
			"BROKEN", "UNAVAILABLE", "SOFAR", "in 15 out 5 cached 3"},
		provider.Ollama: {"CALLS", "stop", "STOP", "stop", "FAILED", "ok", "PARTIAL", "partial", " cached 3", "",
			"ERROR: ", "", "BROKEN: ", "", "SOFAR ", ""},
	}
	return strings.NewReplacer(words[l.api]...).Replace(strings.TrimPrefix(outline, "\n"))
}
