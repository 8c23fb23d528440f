package provider

import (
	"encoding/json"
	"maps"
	"net/http"
)

const model = "fake-1"

// stop returns the stop reason: the script's, else one of a reply with or without calls.
func (a *answer) stop(with, without string) string {
	switch {
	case a.Stop != "":
		return a.Stop
	case len(a.Calls) > 0:
		return with
	}
	return without
}

// failure is the body of an error.
func (a *answer) failure() object {
	status := a.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	text := a.Error
	if text == "" {
		text = "status " + http.StatusText(status)
	}
	switch a.api {
	case Anthropic:
		typ := "api_error"
		switch status {
		case 529:
			typ = "overloaded_error"
		case http.StatusTooManyRequests:
			typ = "rate_limit_error"
		case http.StatusBadRequest:
			typ = "invalid_request_error"
		}
		return object{"type": "error", "error": object{"type": typ, "message": text}}
	case Gemini:
		return object{"error": object{"code": status, "message": text, "status": "UNAVAILABLE"}}
	case Ollama:
		return object{"error": text}
	}
	return object{"error": object{"message": text, "type": "server_error", "param": nil, "code": nil}}
}

// message is the whole reply.
func (a *answer) message() object {
	switch a.api {
	case Anthropic:
		m := a.anthropic(a.anthropicBlocks())
		m["stop_reason"] = a.stop("tool_use", "end_turn")
		return m
	case OpenAIChat:
		m := a.chat("chat.completion", "message", a.chatMessage(), a.stop("tool_calls", "stop"))
		m["usage"] = a.openAIUsage("prompt", "completion")
		return m
	case OpenAIResponses:
		return a.response("completed", a.items())
	case Ollama:
		return a.ollamaEnd(a.ollamaMessage())
	}
	return a.gemini(a.parts(), a.stop("STOP", "STOP"))
}

// events are the events of the streamed reply.
func (a *answer) events() [][]byte {
	switch a.api {
	case Anthropic:
		return a.anthropicEvents()
	case OpenAIChat:
		return a.chatEvents()
	case OpenAIResponses:
		return a.responseEvents()
	case Ollama:
		return a.ollamaLines()
	}
	return a.geminiEvents()
}

// Anthropic messages.

func (a *answer) anthropic(content []object) object {
	u := a.Usage
	return object{
		"id": a.id(), "type": "message", "role": "assistant", "model": model, "content": content,
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{
			"input_tokens": u.Input - u.CacheRead - u.CacheWrite, "output_tokens": u.Output,
			"cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite,
		},
	}
}

func (a *answer) blocks() []object {
	l := []object{}
	for _, b := range a.Blocks {
		var o object
		if err := json.Unmarshal([]byte(b), &o); err != nil {
			panic(err)
		}
		l = append(l, o)
	}
	return l
}

func (a *answer) anthropicBlocks() []object {
	l := a.blocks()
	if a.Thinking != "" {
		l = append(l, object{"type": "thinking", "thinking": a.Thinking, "signature": "c2ln"})
	}
	if a.Text != "" || len(a.Calls)+len(l) == 0 {
		l = append(l, object{"type": "text", "text": a.Text})
	}
	for i := range a.Calls {
		c := &a.Calls[i]
		l = append(l, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.args())})
	}
	return l
}

func (a *answer) anthropicEvents() (l [][]byte) {
	say := func(typ string, v object) {
		v["type"] = typ
		l = append(l, event(typ, v))
	}
	m := a.anthropic([]object{})
	m["usage"].(object)["output_tokens"] = 1
	say("message_start", object{"message": m})
	for i, b := range a.anthropicBlocks() {
		start, text := maps.Clone(b), ""
		typ, key, begin := "", "", any("")
		switch b["type"] {
		case "text":
			typ, key, text = "text_delta", "text", a.Text
		case "thinking":
			typ, key, text = "thinking_delta", "thinking", a.Thinking
			start["signature"] = ""
		case "tool_use":
			typ, key, text = "input_json_delta", "partial_json", string(b["input"].(json.RawMessage))
			start["input"], begin = object{}, nil
		}
		if b["type"] == "compaction" {
			typ, key, begin = "compaction_delta", "content", nil
			text, _ = b["content"].(string)
			start["content"] = nil
		}
		if begin != nil && key != "" {
			start[key] = begin
		}
		say("content_block_start", object{"index": i, "content_block": start})
		if key != "" {
			for _, piece := range halves(text) {
				say("content_block_delta", object{"index": i, "delta": object{"type": typ, key: piece}})
			}
		}
		if b["type"] == "thinking" {
			say("content_block_delta",
				object{"index": i, "delta": object{"type": "signature_delta", "signature": b["signature"]}})
		}
		say("content_block_stop", object{"index": i})
	}
	say("message_delta", object{
		"delta": object{"stop_reason": a.stop("tool_use", "end_turn"), "stop_sequence": nil},
		"usage": object{"output_tokens": a.Usage.Output},
	})
	say("message_stop", object{})
	return l
}

// OpenAI chat completions.

func (a *answer) openAIUsage(input, output string) object {
	u := a.Usage
	return object{
		input + "_tokens": u.Input, output + "_tokens": u.Output, "total_tokens": u.Input + u.Output,
		input + "_tokens_details":  object{"cached_tokens": u.CacheRead},
		output + "_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

func (a *answer) chat(kind, key string, m object, stop any) object {
	return object{
		"id": a.id(), "object": kind, "created": 1764000000, "model": model,
		"choices": []object{{"index": 0, key: m, "logprobs": nil, "finish_reason": stop}},
	}
}

func (a *answer) chatMessage() object {
	m := object{"role": "assistant", "content": a.Text, "refusal": nil}
	if a.Thinking != "" {
		m["reasoning_content"] = a.Thinking
	}
	if len(a.Calls) > 0 {
		if a.Text == "" {
			m["content"] = nil
		}
		calls := []object{}
		for i := range a.Calls {
			c := &a.Calls[i]
			calls = append(calls, object{"id": c.ID, "type": "function",
				"function": object{"name": c.Name, "arguments": c.args()}})
		}
		m["tool_calls"] = calls
	}
	return m
}

func (a *answer) chatEvents() (l [][]byte) {
	say := func(delta object, stop any) {
		l = append(l, event("", a.chat("chat.completion.chunk", "delta", delta, stop)))
	}
	say(object{"role": "assistant", "content": ""}, nil)
	pieces := func(key, text string) {
		if text == "" {
			return
		}
		for _, piece := range halves(text) {
			say(object{key: piece}, nil)
		}
	}
	pieces("reasoning_content", a.Thinking)
	pieces("content", a.Text)
	for i := range a.Calls {
		c := &a.Calls[i]
		say(object{"tool_calls": []object{{"index": i, "id": c.ID, "type": "function",
			"function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, piece := range halves(c.args()) {
			say(object{"tool_calls": []object{{"index": i, "function": object{"arguments": piece}}}}, nil)
		}
	}
	say(object{}, a.stop("tool_calls", "stop"))
	var asked struct {
		Options struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if json.Unmarshal(a.request, &asked) == nil && asked.Options.Usage {
		last := a.chat("chat.completion.chunk", "delta", object{}, nil)
		last["choices"], last["usage"] = []object{}, a.openAIUsage("prompt", "completion")
		l = append(l, event("", last))
	}
	return append(l, []byte("data: [DONE]\n\n"))
}

// OpenAI responses.

func (a *answer) response(status string, output []object) object {
	r := object{"id": a.id(), "object": "response", "created_at": 1764000000, "status": status, "model": model,
		"output": output, "error": nil, "incomplete_details": nil, "parallel_tool_calls": true, "tools": []any{}}
	if status == "completed" {
		r["usage"] = a.openAIUsage("input", "output")
	}
	return r
}

func (a *answer) items() []object {
	l := a.blocks()
	if a.Thinking != "" {
		l = append(l, object{"id": "rs_" + a.id(), "type": "reasoning",
			"summary": []object{{"type": "summary_text", "text": a.Thinking}}})
	}
	if a.Text != "" || len(a.Calls)+len(l) == 0 {
		l = append(l, object{"id": "msg_" + a.id(), "type": "message", "status": "completed", "role": "assistant",
			"content": []object{{"type": "output_text", "text": a.Text, "annotations": []any{}}}})
	}
	for i := range a.Calls {
		c := &a.Calls[i]
		l = append(l, object{"id": "fc_" + c.ID, "type": "function_call", "status": "completed", "call_id": c.ID,
			"name": c.Name, "arguments": c.args()})
	}
	return l
}

func (a *answer) responseEvents() (l [][]byte) {
	say := func(typ string, v object) {
		v["type"], v["sequence_number"] = typ, len(l)
		l = append(l, event(typ, v))
	}
	say("response.created", object{"response": a.response("in_progress", []object{})})
	items := a.items()
	for i, item := range items {
		start := maps.Clone(item)
		at := object{"item_id": item["id"], "output_index": i}
		pieces := func(typ, text string, more object) {
			for _, piece := range halves(text) {
				v := maps.Clone(at)
				maps.Copy(v, more)
				v["delta"] = piece
				say(typ, v)
			}
		}
		switch item["type"] {
		case "message":
			start["content"], start["status"] = []any{}, "in_progress"
			say("response.output_item.added", object{"output_index": i, "item": start})
			say("response.content_part.added", object{"item_id": item["id"], "output_index": i, "content_index": 0,
				"part": object{"type": "output_text", "text": "", "annotations": []any{}}})
			pieces("response.output_text.delta", a.Text, object{"content_index": 0})
			say("response.output_text.done", object{"item_id": item["id"], "output_index": i, "content_index": 0,
				"text": a.Text})
		case "function_call":
			start["arguments"], start["status"] = "", "in_progress"
			say("response.output_item.added", object{"output_index": i, "item": start})
			args := item["arguments"].(string)
			pieces("response.function_call_arguments.delta", args, nil)
			say("response.function_call_arguments.done", object{"item_id": item["id"], "output_index": i,
				"arguments": args})
		case "reasoning":
			start["summary"] = []any{}
			say("response.output_item.added", object{"output_index": i, "item": start})
			pieces("response.reasoning_summary_text.delta", a.Thinking, object{"summary_index": 0})
		default:
			say("response.output_item.added", object{"output_index": i, "item": start})
		}
		say("response.output_item.done", object{"output_index": i, "item": item})
	}
	say("response.completed", object{"response": a.response("completed", items)})
	return l
}

// Gemini generateContent.

func (a *answer) gemini(parts []object, stop string) object {
	u := a.Usage
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if stop != "" {
		candidate["finishReason"] = stop
	}
	counts := object{"promptTokenCount": u.Input, "candidatesTokenCount": u.Output - u.Reasoning,
		"totalTokenCount": u.Input + u.Output, "cachedContentTokenCount": u.CacheRead}
	if u.Reasoning > 0 {
		counts["thoughtsTokenCount"] = u.Reasoning
	}
	return object{"responseId": a.id(), "modelVersion": model, "candidates": []object{candidate}, "usageMetadata": counts}
}

func (a *answer) parts() []object {
	l := a.blocks()
	if a.Thinking != "" {
		l = append(l, object{"text": a.Thinking, "thought": true})
	}
	if a.Text != "" || len(a.Calls)+len(l) == 0 {
		l = append(l, object{"text": a.Text})
	}
	for i := range a.Calls {
		c := &a.Calls[i]
		call := object{"name": c.Name, "args": json.RawMessage(c.args())}
		if c.ID != "" {
			call["id"] = c.ID
		}
		l = append(l, object{"functionCall": call})
	}
	return l
}

func (a *answer) geminiEvents() (l [][]byte) {
	for _, p := range a.parts() {
		text, isText := p["text"].(string)
		if !isText {
			l = append(l, event("", a.gemini([]object{p}, "")))
			continue
		}
		for _, piece := range halves(text) {
			p = maps.Clone(p)
			p["text"] = piece
			l = append(l, event("", a.gemini([]object{p}, "")))
		}
	}
	return append(l, event("", a.gemini([]object{{"text": ""}}, a.stop("STOP", "STOP"))))
}

// Ollama chat.

func (a *answer) ollama(m object, done bool) object {
	m["role"] = "assistant"
	if m["content"] == nil {
		m["content"] = ""
	}
	return object{"model": model, "created_at": "2026-01-02T15:04:05.123456Z", "message": m, "done": done}
}

// ollamaEnd is a whole reply with that message, or the last line of a streamed one.
func (a *answer) ollamaEnd(m object) object {
	r := a.ollama(m, true)
	r["done_reason"], r["prompt_eval_count"], r["eval_count"] = a.stop("stop", "stop"), a.Usage.Input, a.Usage.Output
	r["total_duration"], r["load_duration"] = 5000000, 1000000
	return r
}

func (a *answer) ollamaMessage() object {
	m := object{"content": a.Text}
	if a.Thinking != "" {
		m["thinking"] = a.Thinking
	}
	var calls []object
	for i := range a.Calls {
		calls = append(calls, a.Calls[i].ollama(i))
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return m
}

func (c *Call) ollama(index int) object {
	call := object{"function": object{"index": index, "name": c.Name, "arguments": json.RawMessage(c.args())}}
	if c.ID != "" {
		call["id"] = c.ID
	}
	return call
}

func (a *answer) ollamaLines() (l [][]byte) {
	say := func(m object) { l = append(l, line(a.ollama(m, false))) }
	for _, text := range [][2]string{{"thinking", a.Thinking}, {"content", a.Text}} {
		if text[1] != "" {
			for _, piece := range halves(text[1]) {
				say(object{text[0]: piece})
			}
		}
	}
	for i := range a.Calls {
		say(object{"tool_calls": []object{a.Calls[i].ollama(i)}})
	}
	return append(l, line(a.ollamaEnd(object{})))
}
