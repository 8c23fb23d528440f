package otlprow

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
)

const conventional = `[{"role":"system","parts":[{"type":"text","content":"Be brief."}]},` +
	`{"role":"user","parts":[{"type":"text","content":"Oslo?"}]}]`

// The conventions have spelled the messages of a call as JSON text, as a structured value, as events of the span with
// and without its attributes, and as a log record: each gives the same turn.
func TestSpellingsOfMessages(t *testing.T) {
	var structured any
	must.Do(t, json.Unmarshal([]byte(conventional), &structured))
	details := func(value any) func(ptrace.Span, plog.LogRecord) {
		return func(_ ptrace.Span, r plog.LogRecord) {
			r.SetEventName("gen_ai.client.inference.operation.details")
			_ = r.Attributes().FromRaw(map[string]any{"gen_ai.input.messages": value, "gen_ai.conversation.id": "c"})
		}
	}
	event := func(s ptrace.Span, name string, attrs map[string]any) {
		e := s.Events().AppendEmpty()
		e.SetName(name)
		_ = e.Attributes().FromRaw(attrs)
	}
	for name, set := range map[string]func(ptrace.Span, plog.LogRecord){
		"text": func(s ptrace.Span, _ plog.LogRecord) { s.Attributes().PutStr("gen_ai.input.messages", conventional) },
		"structured": func(s ptrace.Span, _ plog.LogRecord) {
			v := s.Attributes().PutEmpty("gen_ai.input.messages")
			_ = v.FromRaw(structured)
		},
		"operation.details": details(conventional), "operation.details, structured": details(structured),
		"event with the attribute": func(s ptrace.Span, _ plog.LogRecord) {
			event(s, "gen_ai.client.inference.operation.details", map[string]any{"gen_ai.input.messages": conventional})
		},
		"events": func(s ptrace.Span, _ plog.LogRecord) {
			event(s, "gen_ai.system.message", map[string]any{"content": "Be brief."})
			event(s, "gen_ai.user.message", map[string]any{"role": "user", "content": "Oslo?"})
		},
		"log record of a message": func(s ptrace.Span, r plog.LogRecord) {
			event(s, "gen_ai.system.message", map[string]any{"content": `[{"type":"text","text":"Be brief."}]`})
			r.SetEventName("gen_ai.user.message")
			r.Attributes().PutStr("gen_ai.system", "openai")
			_ = r.Body().FromRaw(map[string]any{"content": "Oslo?"})
		},
		"event with a prompt": func(s ptrace.Span, _ plog.LogRecord) {
			event(s, "gen_ai.content.prompt", map[string]any{
				"gen_ai.prompt": `[{"role":"system","content":"Be brief."},{"role":"user","content":"Oslo?"}]`})
		},
	} {
		t.Run(name, func(t *testing.T) {
			td, ld := ptrace.NewTraces(), plog.NewLogs()
			s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
			r := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
			s.SetTraceID(pcommon.TraceID{1})
			s.SetSpanID(pcommon.SpanID{1})
			s.SetStartTimestamp(1e18)
			s.SetEndTimestamp(1e18 + 1e9)
			r.SetTraceID(s.TraceID())
			r.SetSpanID(s.SpanID())
			r.SetTimestamp(1e18 + 1e9)
			s.Attributes().PutStr("gen_ai.operation.name", "chat")
			s.Attributes().PutStr("gen_ai.conversation.id", "c")
			set(s, r)
			b, _ := Decode(td)
			if r.EventName() != "" {
				logs, report := DecodeLogs(ld)
				if len(logs.Rows) != 1 {
					t.Fatalf("%+v", report)
				}
				b.Rows, b.Blocks = append(b.Rows, logs.Rows...), append(b.Blocks, logs.Blocks...)
			}
			bodies := map[string]string{}
			for _, block := range b.Blocks {
				bodies[block.ID.Short().String()] = block.Body
			}
			runs := session.Assemble(foreign.Default().Map(b.Rows, session.Key{ID: "c"})).Runs
			if len(runs) != 1 || len(runs[0].Turns) != 1 || len(runs[0].Turns[0].Requests) != 1 {
				t.Fatalf("%d rows, %d runs", len(b.Rows), len(runs))
			}
			var got []string
			for _, ref := range runs[0].Turns[0].Requests[0].Messages.Items() {
				for _, m := range message.Read([]byte(bodies[ref.Block])) {
					got = append(got, fmt.Sprint(m.Role, " ", message.JoinText(m.Parts, false)))
				}
			}
			if want := "[system Be brief. user Oslo?]"; fmt.Sprint(got) != want {
				t.Errorf("%q, want %s", got, want)
			}
		})
	}
}

// Events of a span that say the same at one time are several messages: some clocks count milliseconds.
func TestEventsThatSayTheSame(t *testing.T) {
	td := ptrace.NewTraces()
	s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{1})
	s.Attributes().PutStr("gen_ai.operation.name", "chat")
	for range 2 {
		event(s, "gen_ai.user.message").PutStr("content", "again")
	}
	b, _ := Decode(td)
	runs := session.Assemble(foreign.Default().Map(b.Rows, b.Rows[0].Session)).Runs
	if n := runs[0].Turns[0].Requests[0].Messages.Len(); n != 2 {
		t.Errorf("%d messages of %d rows", n, len(b.Rows))
	}
}

// A text that holds the control characters of templates comes back as it is, and refers to no block.
func TestControlCharactersOfContent(t *testing.T) {
	const text = "\x01AAAAAAAAAAE \x02s \x03 \x01"
	td := ptrace.NewTraces()
	s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{1})
	s.Attributes().PutStr("gen_ai.operation.name", "execute_tool")
	s.Attributes().PutStr("gen_ai.tool.call.result", text)
	b, _ := Decode(td)
	var set session.BlockSet
	for _, block := range b.Blocks {
		set.Add(block)
	}
	if got, ok := set.Body(session.Ref{Block: b.Rows[0].Lists[0].Items[0]}); got != text {
		t.Errorf("%q, %v", got, ok)
	}
}

// The arguments of a tool call of Gemini CLI are kept without what its span has around them; messages under the same
// key are a list.
func TestGeminiCLI(t *testing.T) {
	for name, test := range map[string]struct {
		value string
		want  []string
	}{
		"request": {
			`[{"role":"user","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"b"}]}]`,
			[]string{`{"role":"user","parts":[{"text":"a"}]}`, `{"role":"user","parts":[{"text":"b"}]}`}},
		"call":         {`{"callId":"1","name":"ls","args":{"dir":"."}}`, []string{`{"dir":"."}`}},
		"another call": {`{"dir":"."}`, []string{`{"dir":"."}`}},
	} {
		td := ptrace.NewTraces()
		scope := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
		scope.Scope().SetName("gemini-cli")
		s := scope.Spans().AppendEmpty()
		s.SetTraceID(pcommon.TraceID{1})
		s.SetSpanID(pcommon.SpanID{1})
		s.Attributes().PutStr("gen_ai.operation.name", "tool_call")
		s.Attributes().PutStr("gen_ai.input.messages", test.value)
		b, _ := Decode(td)
		var got []string
		for _, item := range b.Rows[0].Lists[0].Items {
			for _, block := range b.Blocks {
				if block.ID.Short().String() == item {
					got = append(got, block.Body)
					break
				}
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
