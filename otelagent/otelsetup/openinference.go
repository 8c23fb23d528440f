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

// WithOpenInference sends spans through [OpenInference]; copies of open spans stay as they are. Default: it does not.
func WithOpenInference() Option {
	return func(c *config) { c.openInference = true }
}

// OpenInference returns an exporter that adds the attributes of OpenInference (its semantic conventions of 2026-08-21) to the
// spans of otelagent and sends them through e, for backends that do not read all of the GenAI conventions, such as Phoenix and
// Arize. They repeat other attributes of the span:
//
//   - openinference.span.kind: AGENT on a run, LLM on a turn, TOOL on a tool call, GUARDRAIL on a permission evaluation, CHAIN
//     on a compaction and on a span that only carries content;
//   - agent.name on runs, llm.model_name and llm.token_count.* on turns, tool.name on tool calls;
//   - input.value and output.value, where the spans carry previews: of a turn the last message of its input and its reply, of a
//     tool call arguments and result, of a run the first message of the user and the last reply.
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

// inOut is what went in and out of a run, as JSON.
type inOut struct{ input, output string }

const maxOpenInferenceRuns = 256

// ExportSpans exports batch with the attributes of OpenInference.
func (e *openInference) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	e.mu.Lock()
	list := make([]sdktrace.ReadOnlySpan, len(batch))
	for i, s := range batch {
		list[i] = s
		of := attribute.NewSet(slices.Clone(s.Attributes())...) // it sorts what it is given
		name := s.Name()
		if v, ok := of.Value(spans.KindKey); ok {
			name = v.AsString()
		}
		if kind, ok := openInferenceKinds[name]; ok {
			list[i] = withAttributes{s, e.attributes(s, &of, name, kind)}
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

var openInferenceKinds = map[string]string{
	spans.SpanRun: "AGENT", spans.SpanTurn: "LLM", spans.SpanToolCall: "TOOL",
	spans.SpanPermission: "GUARDRAIL", spans.SpanCompaction: "CHAIN", spans.SpanPayload: "CHAIN",
}

// openInferenceNames are attributes that OpenInference has another key for, by the span on which they stand.
var openInferenceNames = map[string][][2]attribute.Key{
	spans.SpanRun: {{spans.AgentNameKey, spans.OpenInferenceAgentKey}},
	spans.SpanTurn: {
		{spans.RequestModelKey, spans.OpenInferenceModelKey},
		{spans.GenAIUsageInputKey, spans.OpenInferencePromptKey},
		{spans.GenAIUsageOutputKey, spans.OpenInferenceCompletionKey},
		{spans.GenAIUsageReasoningKey, spans.OpenInferenceReasoningKey},
		{spans.GenAIUsageCacheReadKey, spans.OpenInferenceCacheReadKey},
		{spans.GenAIUsageCacheCreationKey, spans.OpenInferenceCacheWriteKey}, // its name depends on the profile
		{spans.GenAIUsageCacheWriteKey, spans.OpenInferenceCacheWriteKey},
	},
	spans.SpanToolCall: {{spans.ToolNameKey, spans.OpenInferenceToolKey}},
}

// attributes returns those of s, which are of, and the ones of OpenInference. Span is the exact name of the span.
func (e *openInference) attributes(s sdktrace.ReadOnlySpan, of *attribute.Set, span, kind string) []attribute.KeyValue {
	list := append(slices.Clip(s.Attributes()), spans.OpenInferenceKindKey.String(kind))
	for _, name := range openInferenceNames[span] {
		if v, ok := of.Value(name[0]); ok {
			list = append(list, attribute.KeyValue{Key: name[1], Value: v})
		}
	}
	text := func(key attribute.Key) string {
		v, _ := of.Value(key)
		return v.AsString()
	}
	var input, output string // JSON
	switch span {
	case spans.SpanToolCall:
		input, output = text(spans.ToolCallArgumentsKey), text(spans.ToolCallResultKey)
	case spans.SpanTurn:
		if in, ok := of.Value(spans.GenAIUsageInputKey); ok {
			out, _ := of.Value(spans.GenAIUsageOutputKey)
			list = append(list, spans.OpenInferenceTotalKey.Int64(in.AsInt64()+out.AsInt64()))
		}
		asked := text(spans.InputMessagesKey)
		input, output = lastMessage(asked, ""), lastMessage(text(spans.OutputMessagesKey), "")
		e.turn(s.Parent().SpanID(), lastMessage(asked, "user"), output)
	case spans.SpanRun:
		run := e.runs[s.SpanContext().SpanID()]
		input, output = run.input, run.output
	}
	list = appendValue(list, spans.OpenInferenceInputKey, spans.OpenInferenceInputTypeKey, input)
	return appendValue(list, spans.OpenInferenceOutputKey, spans.OpenInferenceOutputTypeKey, output)
}

// turn records what went in and out of a turn of a run: the first input and the last output count.
func (e *openInference) turn(id trace.SpanID, input, output string) {
	if len(e.runs) >= maxOpenInferenceRuns {
		clear(e.runs)
	}
	run := e.runs[id]
	e.runs[id] = inOut{cmp.Or(run.input, input), cmp.Or(output, run.output)}
}

// lastMessage returns the last message of a preview, or the last one of a role, as JSON: a string if it is nothing but text, else
// an array of the message. It is empty if there is none.
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
