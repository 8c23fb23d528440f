package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A step is one reply of the model: a text, or calls of tools, and the usage that it reports.
type step struct {
	text  string
	calls []call
	usage usage
}

type call struct {
	name string
	args map[string]any
}

// usage counts as OpenAI does: input holds what was cached, output holds reasoning.
type usage struct{ input, output, cached, reasoning int64 }

// title is the reply to a request that is no part of the conversation: OpenCode asks for a title of the session.
var title = step{text: "Notes", usage: usage{input: 90, output: 4}}

// object is a JSON object.
type object = map[string]any

// A model plays a script over the APIs of OpenAI (chat completions, responses) and Gemini. Each request takes the next
// step; the last step repeats.
type model struct {
	url string

	mu     sync.Mutex
	script []step
	served int
	titles int
	others []string // requests that it does not play
}

func serveModel(t *testing.T, script []step) *model {
	m := &model{script: script}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

// take returns the step for a request and its number, from 1 on.
func (m *model) take(body []byte) (step, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.served++
	if bytes.Contains(body, []byte("You are a title generator")) {
		m.titles++
		return title, m.served
	}
	return m.script[min(m.served-m.titles, len(m.script))-1], m.served
}

// played counts the steps that were asked for.
func (m *model) played() (steps, titles int, others []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.served - m.titles, m.titles, slices.Clone(m.others)
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var asked struct {
		Model  string
		Stream bool
	}
	_ = json.Unmarshal(body, &asked)
	var answer object
	var stream []event
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/responses"):
		answer, stream = responses(m.take(body))
	case strings.HasSuffix(path, "/chat/completions"):
		answer, stream = chat(m.take(body))
	case strings.HasSuffix(path, "enerateContent"):
		answer, stream = gemini(m.take(body))
		asked.Stream = strings.HasSuffix(path, ":streamGenerateContent")
	default:
		m.mu.Lock()
		m.others = append(m.others, r.Method+" "+path)
		m.mu.Unlock()
		answer = object{"object": "list", "models": []any{}, "data": []any{object{"id": "m1", "object": "model"}}}
	}
	if asked.Model != "" {
		answer["model"] = asked.Model
	}
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range stream {
		if e.name != "" {
			_, _ = fmt.Fprintf(w, "event: %s\n", e.name)
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", e.data)
	}
}

// An event is one server-sent event.
type event struct{ name, data string }

func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// responses plays a step as OpenAI's Responses API does.
func responses(s step, n int) (object, []event) {
	var items []any
	if s.text != "" {
		part := object{"type": "output_text", "text": s.text, "annotations": []any{}, "logprobs": []any{}}
		items = append(items, object{"type": "message", "id": fmt.Sprint("msg_", n), "role": "assistant",
			"status": "completed", "content": []any{part}})
	}
	for k, c := range s.calls {
		items = append(items, object{"type": "function_call", "id": "fc_" + id(n, k), "call_id": id(n, k),
			"name": c.name, "arguments": text(c.args), "status": "completed"})
	}
	reply := func(status string, output []any, counts any) object {
		return object{"id": fmt.Sprint("resp_", n), "object": "response", "created_at": 1767225600,
			"status": status, "model": "m1", "output": output, "usage": counts,
			"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}}
	}
	u := s.usage
	whole := reply("completed", items, object{"input_tokens": u.input, "output_tokens": u.output,
		"total_tokens": u.input + u.output, "input_tokens_details": object{"cached_tokens": u.cached},
		"output_tokens_details": object{"reasoning_tokens": u.reasoning}})
	var stream []event
	say := func(name string, fields object) {
		fields["type"], fields["sequence_number"] = name, len(stream)
		stream = append(stream, event{name, text(fields)})
	}
	say("response.created", object{"response": reply("in_progress", []any{}, nil)})
	for k, item := range items {
		say("response.output_item.added", object{"output_index": k, "item": item})
		if s.text != "" && k == 0 {
			say("response.output_text.delta", object{"output_index": 0, "content_index": 0,
				"item_id": fmt.Sprint("msg_", n), "delta": s.text, "logprobs": []any{}})
		}
		say("response.output_item.done", object{"output_index": k, "item": item})
	}
	say("response.completed", object{"response": whole})
	return whole, stream
}

// chat plays a step as OpenAI's Chat Completions API does.
func chat(s step, n int) (object, []event) {
	finish := "stop"
	var calls []any
	for k, c := range s.calls {
		finish = "tool_calls"
		calls = append(calls, object{"index": k, "id": id(n, k), "type": "function",
			"function": object{"name": c.name, "arguments": text(c.args)}})
	}
	message := object{"role": "assistant", "content": nil}
	if s.text != "" {
		message["content"] = s.text
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	u := s.usage
	counts := object{"prompt_tokens": u.input, "completion_tokens": u.output, "total_tokens": u.input + u.output,
		"prompt_tokens_details":     object{"cached_tokens": u.cached},
		"completion_tokens_details": object{"reasoning_tokens": u.reasoning}}
	reply := func(kind string, choices []any) object {
		return object{"id": fmt.Sprint("chatcmpl-", n), "object": kind, "created": 1767225600, "model": "m1",
			"choices": choices}
	}
	choice := object{"index": 0, "finish_reason": finish, "message": message}
	whole := reply("chat.completion", []any{choice})
	whole["usage"] = counts
	const kind = "chat.completion.chunk"
	last := reply(kind, []any{})
	last["usage"] = counts
	return whole, []event{
		{"", text(reply(kind, []any{object{"index": 0, "delta": message, "finish_reason": nil}}))},
		{"", text(reply(kind, []any{object{"index": 0, "delta": object{}, "finish_reason": finish}}))},
		{"", text(last)}, {"", "[DONE]"},
	}
}

// gemini plays a step as the Gemini API does, which counts reasoning outside of the candidates.
func gemini(s step, n int) (object, []event) {
	var parts []any
	if s.text != "" {
		parts = append(parts, object{"text": s.text})
	}
	for k, c := range s.calls {
		parts = append(parts, object{"functionCall": object{"id": id(n, k), "name": c.name, "args": c.args}})
	}
	u := s.usage
	content := object{"role": "model", "parts": parts}
	whole := object{"modelVersion": "gemini-2.5-flash", "responseId": fmt.Sprint("r", n),
		"candidates": []any{object{"index": 0, "finishReason": "STOP", "content": content}},
		"usageMetadata": object{"promptTokenCount": u.input, "candidatesTokenCount": u.output - u.reasoning,
			"thoughtsTokenCount": u.reasoning, "cachedContentTokenCount": u.cached,
			"totalTokenCount": u.input + u.output}}
	return whole, []event{{"", text(whole)}}
}

// id names the k-th call of the n-th reply.
func id(n, k int) string { return fmt.Sprintf("call_%d_%d", n, k) }
