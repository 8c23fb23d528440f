package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// ourSpans returns requests of a session of turns with a tool call each, as the adapter sends them.
func ourSpans(b *testing.B, turns int) (out []ptrace.Traces) {
	b.Helper()
	p, err := otelsetup.Setup(b.Context(), otelsetup.WithoutGlobal(), otelsetup.WithBlocking(), otelsetup.WithoutMetrics(),
		otelsetup.WithExporter(otelsetup.NewFuncExporter(func(_ context.Context, raw []byte) error {
			req := ptraceotlp.NewExportRequest()
			err := req.UnmarshalProto(raw)
			out = append(out, req.Traces())
			return err
		})))
	must(b, err)
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()),
		otelagent.WithCapture(otelagent.CaptureContent))
	ctx, run := tracer.StartRun(b.Context(), otelagent.RunInfo{SessionID: "long", Agent: "a", Model: "m"})
	for i := range turns {
		ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
		turn.Request(otelagent.Request{
			Payload: fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"in %d"}]}`, i),
		})
		_, call := turn.StartTool(ctx, otelagent.ToolCall{ID: fmt.Sprint("c", i), Name: "t", Args: []byte(`{"n":1}`)})
		call.End(otelagent.ToolResult{Result: []byte(`"done"`)})
		turn.End(otelagent.TurnResult{StopReason: "tool_use", Usage: &otelagent.Usage{Input: 100, Output: 10}})
	}
	run.End(otelagent.RunResult{})
	stop, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(b, p.Shutdown(stop))
	return out
}

// otherSpans returns the same session as spans of the GenAI conventions.
func otherSpans(b *testing.B, turns int) (out []ptrace.Traces) {
	b.Helper()
	const atOnce = 512
	n := 0
	var ss ptrace.ScopeSpans
	add := func(name string, parent uint64, from, took int64, attrs map[string]any) {
		if n++; n%atOnce == 1 {
			td := ptrace.NewTraces()
			out = append(out, td)
			ss = td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
			ss.Scope().SetName("my.framework")
		}
		id := func(n uint64) (id pcommon.SpanID) { copy(id[:], fmt.Sprintf("%08d", n)); return id }
		s := ss.Spans().AppendEmpty()
		s.SetName(name)
		s.SetTraceID(pcommon.TraceID{1})
		s.SetSpanID(id(uint64(n)))
		if parent > 0 {
			s.SetParentSpanID(id(parent))
		}
		s.SetStartTimestamp(pcommon.Timestamp(1e18 + from))
		s.SetEndTimestamp(pcommon.Timestamp(1e18 + from + took))
		attrs["gen_ai.conversation.id"] = "long"
		must(b, s.Attributes().FromRaw(attrs))
	}
	add("invoke_agent a", 0, 0, int64(turns)*1e9, map[string]any{"gen_ai.operation.name": "invoke_agent"})
	for i := range int64(turns) {
		add("chat m", 1, i*1e9, 5e8, map[string]any{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
			"gen_ai.provider.name": "p", "gen_ai.response.id": fmt.Sprint("r", i), "gen_ai.usage.input_tokens": 100,
			"gen_ai.usage.output_tokens": 10, "gen_ai.response.finish_reasons": []any{"tool_use"},
			"gen_ai.input.messages": fmt.Sprintf(`[{"role":"user","content":"in %d"}]`, i)})
		add("execute_tool t", 1, i*1e9+5e8, 1e8, map[string]any{"gen_ai.operation.name": "execute_tool",
			"gen_ai.tool.name": "t", "gen_ai.tool.call.id": fmt.Sprint("c", i), "gen_ai.tool.call.arguments": `{"n":1}`,
			"gen_ai.tool.call.result": "done"})
	}
	return out
}

// BenchmarkForeign compares a session that another program's spans report with the same session by spans of this
// format: OTLP to stored, and show.
func BenchmarkForeign(b *testing.B) {
	for name, spans := range map[string]func(*testing.B, int) []ptrace.Traces{"ours": ourSpans, "other": otherSpans} {
		small, long := spans(b, 1000), spans(b, 10_000)
		put := func(b *testing.B, st store.Store, all []ptrace.Traces) {
			for _, td := range all {
				batch, r := otlprow.Decode(td)
				if r.Foreign > 0 {
					b.Fatalf("%+v", r)
				}
				must(b, st.Put(b.Context(), batch))
			}
		}
		b.Run("store/"+name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				st, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "s.db"))
				must(b, err)
				b.StartTimer()
				put(b, st, small)
				b.StopTimer()
				must(b, st.Close())
				b.StartTimer()
			}
		})
		b.Run("show/"+name, func(b *testing.B) {
			db := filepath.Join(b.TempDir(), "s.db")
			st, err := sqlitestore.Open(b.Context(), db)
			must(b, err)
			put(b, st, long)
			must(b, st.Close())
			show := func() {
				var said bytes.Buffer
				if code := run(b.Context(), []string{"show", "--db", db, "long"}, nil, io.Discard, &said); code != exitOK {
					b.Fatal(said.String())
				}
			}
			for show(); b.Loop(); {
				show()
			}
		})
	}
}
