package otelsetup

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// OpenInference returns an exporter that adds the attributes of OpenInference (its semantic conventions of 2026-08-21)
// to the spans of otelagent and sends them through e, for backends that do not read all of the GenAI conventions, such
// as Phoenix and Arize. They repeat other attributes of the span:
//
//   - openinference.span.kind: AGENT on a run, LLM on a turn, TOOL on a tool call, GUARDRAIL on a permission
//     evaluation, CHAIN on a compaction and on a span that only carries content;
//   - agent.name on runs, llm.model_name and llm.token_count.* on turns, tool.name on tool calls;
//   - input.value and output.value, where the spans carry previews: of a turn the last message of its input and its
//     reply, of a tool call arguments and result, of a run the first message of the user and the last reply.
//
// It keeps the previews of 256 runs. The agent_session exporter does not keep these attributes.
func OpenInference(e sdktrace.SpanExporter) sdktrace.SpanExporter {
	return &openInference{SpanExporter: e, runs: map[trace.SpanID]inOut{}}
}

type openInference struct {
	sdktrace.SpanExporter
	mu   sync.Mutex
	runs map[trace.SpanID]inOut // by the span of the run
}

// inOut is the input and the output of a run, as JSON.
type inOut struct{ input, output string }

const maxOpenInferenceRuns = 256

// openInferenceSpans are the kinds of the spans of otelagent, and attributes for which OpenInference has another key.
var openInferenceSpans = map[string]struct {
	kind string
	keys [][2]attribute.Key
}{
	spans.SpanRun: {"AGENT", [][2]attribute.Key{{spans.AgentNameKey, spans.OpenInferenceAgentKey}}},
	spans.SpanTurn: {"LLM", [][2]attribute.Key{
		{spans.RequestModelKey, spans.OpenInferenceModelKey},
		{spans.GenAIUsageInputKey, spans.OpenInferencePromptKey},
		{spans.GenAIUsageOutputKey, spans.OpenInferenceCompletionKey},
		{spans.GenAIUsageReasoningKey, spans.OpenInferenceReasoningKey},
		{spans.GenAIUsageCacheReadKey, spans.OpenInferenceCacheReadKey},
		{spans.GenAIUsageCacheCreationKey, spans.OpenInferenceCacheWriteKey}, // its name depends on the profile
		{spans.GenAIUsageCacheWriteKey, spans.OpenInferenceCacheWriteKey},
	}},
	spans.SpanToolCall:   {"TOOL", [][2]attribute.Key{{spans.ToolNameKey, spans.OpenInferenceToolKey}}},
	spans.SpanPermission: {kind: "GUARDRAIL"},
	spans.SpanCompaction: {kind: "CHAIN"},
	spans.SpanPayload:    {kind: "CHAIN"},
}

// ExportSpans exports batch with the attributes of OpenInference.
func (e *openInference) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	e.mu.Lock()
	list := make([]sdktrace.ReadOnlySpan, len(batch))
	for i, s := range batch {
		list[i] = s
		if more := e.attributes(s); len(more) > 0 {
			list[i] = withAttributes{s, append(slices.Clip(s.Attributes()), more...)}
		}
	}
	e.mu.Unlock()
	return e.SpanExporter.ExportSpans(ctx, list)
}

// withAttributes is a span with other attributes.
type withAttributes struct {
	sdktrace.ReadOnlySpan
	list []attribute.KeyValue
}

func (s withAttributes) Attributes() []attribute.KeyValue { return s.list }

// attributes returns those that OpenInference adds to a span.
func (e *openInference) attributes(s sdktrace.ReadOnlySpan) (list []attribute.KeyValue) {
	text := func(key attribute.Key) string { return attributeOf(s, key).AsString() }
	name := cmp.Or(text(spans.KindKey), s.Name())
	of, ok := openInferenceSpans[name]
	if !ok {
		return nil
	}
	list = append(list, spans.OpenInferenceKindKey.String(of.kind))
	for _, key := range of.keys {
		if v := attributeOf(s, key[0]); v.Type() != attribute.EMPTY {
			list = append(list, attribute.KeyValue{Key: key[1], Value: v})
		}
	}
	var shown inOut
	switch name {
	case spans.SpanToolCall:
		shown = inOut{text(spans.ToolCallArgumentsKey), text(spans.ToolCallResultKey)}
	case spans.SpanTurn:
		if in := attributeOf(s, spans.GenAIUsageInputKey); in.Type() != attribute.EMPTY {
			out := attributeOf(s, spans.GenAIUsageOutputKey)
			list = append(list, spans.OpenInferenceTotalKey.Int64(in.AsInt64()+out.AsInt64()))
		}
		input := text(spans.InputMessagesKey)
		shown = inOut{lastMessage(input, ""), lastMessage(text(spans.OutputMessagesKey), "")}
		if len(e.runs) >= maxOpenInferenceRuns {
			clear(e.runs)
		}
		run := e.runs[s.Parent().SpanID()] // its first input and its last output count
		e.runs[s.Parent().SpanID()] = inOut{cmp.Or(run.input, lastMessage(input, "user")), cmp.Or(shown.output, run.output)}
	case spans.SpanRun:
		shown = e.runs[s.SpanContext().SpanID()]
	}
	list = appendValue(list, spans.OpenInferenceInputKey, spans.OpenInferenceInputTypeKey, shown.input)
	return appendValue(list, spans.OpenInferenceOutputKey, spans.OpenInferenceOutputTypeKey, shown.output)
}

// lastMessage returns the last message of a preview, or the last one of a role, as JSON: a string if it is nothing but
// text, else an array of the message. It is empty if there is none.
func lastMessage(preview, role string) string {
	var messages []json.RawMessage
	_ = json.Unmarshal([]byte(preview), &messages)
	for _, raw := range slices.Backward(messages) {
		var m struct {
			Role  string
			Parts []struct {
				Type    string
				Content any
			}
		}
		if json.Unmarshal(raw, &m) != nil || role != "" && m.Role != role {
			continue
		}
		var texts []string
		for _, p := range m.Parts {
			if text, ok := p.Content.(string); ok && p.Type == "text" {
				texts = append(texts, text)
			}
		}
		if len(texts) < len(m.Parts) {
			return "[" + string(raw) + "]"
		}
		text, _ := json.Marshal(strings.Join(texts, "\n\n")) // never fails for a string
		return string(text)
	}
	return ""
}

// appendValue adds a JSON value: a string as its text, anything else as JSON.
func appendValue(list []attribute.KeyValue, key, kind attribute.Key, value string) []attribute.KeyValue {
	var text string
	switch {
	case value == "":
		return list
	case json.Unmarshal([]byte(value), &text) == nil:
		return append(list, key.String(text), kind.String("text/plain"))
	}
	return append(list, key.String(value), kind.String("application/json"))
}
