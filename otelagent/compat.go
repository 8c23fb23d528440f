package otelagent

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/spans"
)

// The keys of OpenInference are written in this file and nowhere else.

// WithOpenInference adds to each span the keys of OpenInference (its semantic conventions of 2026-08-21), for backends that read those
// and not, or not all of, the GenAI conventions: Phoenix and Arize above all. They say again what other keys say:
//
//   - openinference.span.kind: AGENT on a run, LLM on a turn, TOOL on a tool call, GUARDRAIL on a permission evaluation, CHAIN on a
//     compaction and on what only carries content;
//   - agent.name on runs, llm.model_name and llm.token_count.* on turns, tool.name on tool calls;
//   - with CaptureContent, bounded like other previews (see [WithPreviewBytes]), input.value and output.value: of a turn the last message of
//     its request and its reply, of a run the first message of the user and the last reply, of a tool call arguments and result.
//
// The exporter does not keep them. Default: none of them; docs/backends.md says who needs them.
func WithOpenInference() Option {
	return optionFunc(func(c config) config { c.openInference = true; return c })
}

// openInference is what OpenInference calls a kind of span, and the key that it has for a name on it.
type openInference struct {
	kind     attribute.KeyValue
	from, to attribute.Key
}

var openInferenceOf = map[string]openInference{
	spans.SpanRun:        {spans.OpenInferenceKindKey.String("AGENT"), spans.AgentNameKey, spans.OpenInferenceAgentKey},
	spans.SpanTurn:       {spans.OpenInferenceKindKey.String("LLM"), spans.RequestModelKey, spans.OpenInferenceModelKey},
	spans.SpanToolCall:   {spans.OpenInferenceKindKey.String("TOOL"), spans.ToolNameKey, spans.OpenInferenceToolKey},
	spans.SpanPermission: {kind: spans.OpenInferenceKindKey.String("GUARDRAIL")},
	spans.SpanCompaction: {kind: spans.OpenInferenceKindKey.String("CHAIN")},
	spans.SpanPayload:    {kind: spans.OpenInferenceKindKey.String("CHAIN")},
}

// openInference adds what a span starts with. The other attributes that it starts with are there already.
func (a *attrs) openInference(span string) {
	if !a.origin.tracer.config.openInference {
		return
	}
	word := openInferenceOf[span]
	for _, kv := range a.kv {
		if word.to != "" && kv.Key == word.from {
			a.kv = append(a.kv, attribute.KeyValue{Key: word.to, Value: kv.Value})
			break
		}
	}
	a.kv = append(a.kv, word.kind)
}

// openInferenceUsage adds the normalised counts.
func (a *attrs) openInferenceUsage(u normalUsage) {
	if !a.origin.tracer.config.openInference {
		return
	}
	a.int(spans.OpenInferencePromptKey, u.input)
	a.int(spans.OpenInferenceCompletionKey, u.output)
	a.int(spans.OpenInferenceTotalKey, plus(u.input, u.output))
	a.int(spans.OpenInferenceReasoningKey, u.reasoning)
	a.int(spans.OpenInferenceCacheReadKey, u.cacheRead)
	a.int(spans.OpenInferenceCacheWriteKey, u.cacheWrite)
}

// openInferenceViews reports whether input.value and output.value are wanted.
func (h *handle) openInferenceViews() bool { return h.tracer.config.openInference && h.previews() }

// inputValue is m as what came in.
func (h *handle) inputValue(m Message) []attribute.KeyValue {
	return asValue(spans.OpenInferenceInputKey, spans.OpenInferenceInputTypeKey,
		messageText(genaijson.AppendMessages(nil, h.redacted([]Message{m}), h.tracer.config.preview)))
}

// outputValue is m as what went out.
func (h *handle) outputValue(m Message) []attribute.KeyValue {
	return asValue(spans.OpenInferenceOutputKey, spans.OpenInferenceOutputTypeKey,
		messageText(genaijson.AppendMessages(nil, h.redacted([]Message{m}), h.tracer.config.preview)))
}

// asValue is the preview of a JSON value: a text as it is, anything else as JSON.
func asValue(value, kind attribute.Key, preview []byte) []attribute.KeyValue {
	var text string
	if json.Unmarshal(preview, &text) == nil {
		return []attribute.KeyValue{value.String(text), kind.String("text/plain")}
	}
	return []attribute.KeyValue{value.String(string(preview)), kind.String("application/json")}
}

// messageText returns a preview of messages as one JSON text where they hold nothing but text, else the preview.
func messageText(preview []byte) []byte {
	var messages []struct {
		Parts []struct {
			Type    string
			Content *string
		}
	}
	if json.Unmarshal(preview, &messages) != nil {
		return preview
	}
	var texts []string
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Type != "text" || p.Content == nil {
				return preview
			}
			texts = append(texts, *p.Content)
		}
	}
	text, _ := json.Marshal(strings.Join(texts, "\n\n")) // never fails for a string
	return text
}

// openInferenceInput takes the first message of the user as what came into the run.
func (r *Run) openInferenceInput(m *Message) {
	if m.Role == "user" && r.openInferenceViews() && r.inputSeen.CompareAndSwap(false, true) {
		r.span.SetAttributes(r.inputValue(*m)...)
	}
}

// openInferenceRequest adds what came into the turn, and tells the run of what came into it when it was not told of any message of its own.
func (t *Turn) openInferenceRequest(req *Request, a *attrs) {
	if !t.openInferenceViews() || len(req.Messages) == 0 {
		return
	}
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if m := &req.Messages[i]; m.Role == "user" {
			t.run.openInferenceInput(m)
			break
		}
	}
	a.add(t.inputValue(req.Messages[len(req.Messages)-1])...)
}

// openInferenceReply adds what went out of the turn, and so far of its run.
func (t *Turn) openInferenceReply(reply *Message, a *attrs) {
	if t.openInferenceViews() {
		value := t.outputValue(*reply)
		a.add(value...)
		t.run.span.SetAttributes(value...)
	}
}

// openInferenceTool says the preview of a tool's arguments or result once more.
func (a *attrs) openInferenceTool(key attribute.Key, preview string) {
	if key == spans.ToolCallArgumentsKey {
		a.add(asValue(spans.OpenInferenceInputKey, spans.OpenInferenceInputTypeKey, []byte(preview))...)
	} else {
		a.add(asValue(spans.OpenInferenceOutputKey, spans.OpenInferenceOutputTypeKey, []byte(preview))...)
	}
}
