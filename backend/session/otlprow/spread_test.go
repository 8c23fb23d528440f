package otlprow

import (
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
)

// Messages that are spread over keys, as OpenInference and older Traceloop write them, are those of the request and of
// the reply.
func TestSpreadMessages(t *testing.T) {
	for name, attrs := range map[string]map[string]any{
		"openinference": {
			"openinference.span.kind": "LLM", "input.value": "everything", "llm.token_count.prompt": 7,
			"llm.input_messages.10.message.role":                                        "user",
			"llm.input_messages.10.message.contents.0.message_content.type":             "text",
			"llm.input_messages.10.message.contents.0.message_content.text":             "And Oslo?",
			"llm.input_messages.2.message.role":                                         "system",
			"llm.input_messages.2.message.content":                                      "Be brief.",
			"llm.output_messages.0.message.role":                                        "assistant",
			"llm.output_messages.0.message.tool_calls.0.tool_call.id":                   "c1",
			"llm.output_messages.0.message.tool_calls.0.tool_call.function.name":        "weather",
			"llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments":   `{"city":"Oslo"}`,
			"llm.input_messages.10.message.contents.0.message_content.type.and.no.leaf": "lost",
			"llm.input_messages.10" + strings.Repeat(".0", 300):                         "too deep",
		},
		"traceloop": {
			"llm.request.type": "chat", "gen_ai.usage.prompt_tokens": 7,
			"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "Be brief.",
			"gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "And Oslo?",
			"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.finish_reason": "tool_calls",
			"gen_ai.completion.0.tool_calls.0.id": "c1", "gen_ai.completion.0.tool_calls.0.name": "weather",
			"gen_ai.completion.0.tool_calls.0.arguments": `{"city":"Oslo"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			td := ptrace.NewTraces()
			s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
			s.SetTraceID(pcommon.TraceID{1})
			s.SetSpanID(pcommon.SpanID{1})
			s.SetStartTimestamp(1e18)
			s.SetEndTimestamp(1e18 + 1)
			must.Do(t, s.Attributes().FromRaw(attrs))
			b, _ := Decode(td)
			if len(b.Rows) != 1 {
				t.Fatalf("%d rows", len(b.Rows))
			}
			bodies := map[string]string{}
			for _, block := range b.Blocks {
				bodies[block.ID.Short().String()] = block.Body
			}
			turn := session.Assemble(foreign.Default().Map(b.Rows, b.Rows[0].Session)).Runs[0].Turns[0]
			said := func(l *session.Refs) (out []message.Message) {
				for _, ref := range l.Items() {
					out = append(out, message.Read([]byte(bodies[ref.Block]))...)
				}
				return out
			}
			in, out := said(turn.Requests[0].Messages), said(turn.Output)
			text := func(m message.Message) string { return message.JoinText(m.Parts, true) }
			if len(in) != 2 || in[0].Role != "system" || text(in[0]) != "Be brief." ||
				in[1].Role != "user" || text(in[1]) != "And Oslo?" {
				t.Errorf("request %+v", in)
			}
			if len(out) != 1 || len(out[0].Parts) != 1 || out[0].Parts[0].Type != message.ToolCall ||
				out[0].Parts[0].ID != "c1" || out[0].Parts[0].Name != "weather" ||
				string(out[0].Parts[0].Content) != `{"city":"Oslo"}` {
				t.Errorf("reply %+v", out)
			}
			if b, r := Decode(td, WithoutContent()); len(b.Blocks) > 0 || r.Spans != 1 {
				t.Errorf("without content there are %d blocks", len(b.Blocks))
			}
		})
	}
}
