package adapter_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// dropped is the processor under the benchmarks: it takes spans and does nothing.
type dropped struct{}

func (dropped) OnStart(context.Context, trace.ReadWriteSpan) {}
func (dropped) OnEnd(trace.ReadOnlySpan)                     {}
func (dropped) Shutdown(context.Context) error               { return nil }
func (dropped) ForceFlush(context.Context) error             { return nil }

// takesAll is an exporter that takes spans and does nothing.
type takesAll struct{}

func (takesAll) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }
func (takesAll) Shutdown(context.Context) error                          { return nil }

var benchUsage = writer.Usage{Input: 1200, Output: 300, Reasoning: 40, CacheRead: 800, Total: 1500}

// adapterTurn is a turn with two tool calls and a permission evaluation, as a loop reports it.
func adapterTurn(ctx context.Context, run *writer.Run) {
	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerContinuation})
	writer.Decide(ctx, turn, writer.PermissionEvaluation{
		Tool: "bash", CallID: "call_1", Action: spans.ActionAllow, Source: spans.PermissionSourceProject,
	})
	_, first := turn.StartTool(ctx, writer.ToolCall{ID: "call_1", Name: "bash", Type: "function"})
	first.End(writer.ToolResult{})
	_, second := turn.StartTool(ctx, writer.ToolCall{ID: "call_2", Name: "read_file", Type: "function"})
	second.End(writer.ToolResult{})
	turn.End(writer.TurnResult{Model: "claude-opus-4-6", StopReason: "stop", Usage: &benchUsage})
}

func startBenchRun(p api.TracerProvider, opts ...otelagent.Option) (context.Context, *writer.Run) {
	tracer := (*writer.Tracer)(otelagent.NewTracer(append(opts, otelagent.WithTracerProvider(p))...))
	return tracer.StartRun(context.Background(), writer.RunInfo{
		SessionID: "0b5cf0a5-6d0e-4f6f-9a51-2f7d8f0f7e11", ID: "run-1", Agent: "coder", AgentID: "a1",
		Model: "claude-opus-4-6", Provider: "anthropic", Dialect: "phi-core",
	})
}

// rawTurn starts and ends the same spans with the same attributes (recorded is what adapterTurn made) by plain calls of
// the SDK, each value written anew as instrumentation by hand does it.
func rawTurn(ctx context.Context, tracer api.Tracer, recorded []rawSpan) {
	turn, spansOfTurn := recorded[0], recorded[1:]
	ctx, outer := tracer.Start(
		ctx,
		turn.name,
		api.WithSpanKind(api.SpanKindClient),
		api.WithAttributes(fresh(turn.start)...),
	)
	for _, s := range spansOfTurn {
		_, inner := tracer.Start(ctx, s.name, api.WithSpanKind(api.SpanKindInternal), api.WithAttributes(fresh(s.start)...))
		inner.SetAttributes(fresh(s.end)...)
		inner.End()
	}
	outer.SetAttributes(fresh(turn.end)...)
	outer.End()
}

// fresh makes the slice that a call with that many arguments makes.
func fresh(kv []attribute.KeyValue) []attribute.KeyValue {
	return append(make([]attribute.KeyValue, 0, len(kv)), kv...)
}

// rawSpan is one span as rawTurn writes it: the attributes it starts with and those it gets later.
type rawSpan struct {
	name       string
	start, end []attribute.KeyValue
}

// record runs adapterTurn once and returns its spans, the turn first.
func record(tb testing.TB) []rawSpan {
	tb.Helper()
	seen := &startRecorder{started: map[api.SpanID]int{}}
	p := trace.NewTracerProvider(trace.WithSpanProcessor(seen))
	ctx, run := startBenchRun(p)
	adapterTurn(ctx, run)
	out := make([]rawSpan, 1, 4)
	for _, s := range tracetest.SpanStubsFromReadOnlySpans(seen.ended) {
		n := seen.started[s.SpanContext.SpanID()]
		raw := rawSpan{name: s.Name, start: s.Attributes[:n], end: s.Attributes[n:]}
		if s.Name == spans.SpanTurn {
			out[0] = raw
		} else {
			out = append(out, raw)
		}
	}
	if len(out) != 4 {
		tb.Fatalf("%d spans in a turn, want 4", len(out))
	}
	return out
}

// startRecorder notes how many attributes each span started with.
type startRecorder struct {
	started map[api.SpanID]int
	ended   []trace.ReadOnlySpan
}

func (r *startRecorder) OnStart(_ context.Context, s trace.ReadWriteSpan) {
	r.started[s.SpanContext().SpanID()] = len(s.Attributes())
}
func (r *startRecorder) OnEnd(s trace.ReadOnlySpan)     { r.ended = append(r.ended, s) }
func (*startRecorder) Shutdown(context.Context) error   { return nil }
func (*startRecorder) ForceFlush(context.Context) error { return nil }

// BenchmarkTurn compares a turn through the adapter, capture off, without and with live copies, with the same spans
// written by hand. docs/hotpaths.md names the bound of the ratio.
func BenchmarkTurn(b *testing.B) {
	b.Run("adapter", func(b *testing.B) {
		ctx, run := startBenchRun(trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})))
		b.ReportAllocs()
		for b.Loop() {
			adapterTurn(ctx, run)
		}
	})
	// The goroutine that makes and sends the copies counts as far as it takes the processor away. These turns are over
	// before the next export, so that few of their spans have a copy: this is what a span costs, not what a copy does.
	b.Run("live", func(b *testing.B) {
		live := otelsetup.NewLive(takesAll{}, 0)
		defer func() { _ = live.Shutdown(context.Background()) }()
		ctx, run := startBenchRun(trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})), otelagent.WithLive(live))
		b.ReportAllocs()
		for b.Loop() {
			adapterTurn(ctx, run)
		}
		b.ReportMetric(float64(live.Stats().Exported)/float64(b.N), "copies/op")
	})
	b.Run("raw", func(b *testing.B) {
		recorded := record(b)
		tracer := trace.NewTracerProvider(trace.WithSpanProcessor(dropped{})).Tracer("raw")
		ctx, _ := tracer.Start(context.Background(), spans.SpanRun)
		b.ReportAllocs()
		for b.Loop() {
			rawTurn(ctx, tracer, recorded)
		}
	})
	b.Run("unsampled", func(b *testing.B) {
		ctx, run := startBenchRun(trace.NewTracerProvider(trace.WithSampler(trace.NeverSample())))
		b.ReportAllocs()
		for b.Loop() {
			adapterTurn(ctx, run)
		}
	})
	b.Run("no-sdk", func(b *testing.B) {
		ctx, run := startBenchRun(noop.NewTracerProvider())
		b.ReportAllocs()
		for b.Loop() {
			adapterTurn(ctx, run)
		}
	})
}

// history is a session that grows by two messages, 4 KB, a turn.
type history struct {
	messages []writer.Message
	payload  []byte
	spare    []byte // what the payload before stood in
	bytes    int
	random   *rand.Rand
}

func newHistory() *history {
	return &history{random: rand.New(rand.NewPCG(1, 2))}
}

func (h *history) turn() {
	text := func(n int) string {
		const letters = "etaoin shrdlu cmfwyp vbgkqj xz .,\\n"
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[h.random.IntN(len(letters)-2)]
		}
		return string(b)
	}
	for _, raw := range [][]byte{
		fmt.Appendf(nil, `{"role":"assistant","content":[{"type":"text","text":"%s"},{"type":"toolCall","id":"c",`+
			`"name":"bash","arguments":{"command":"ls"}}],"stopReason":"toolUse","timestamp":%d}`, text(1000), len(h.messages)),
		fmt.Appendf(nil, `{"role":"toolResult","toolCallId":"c","toolName":"bash","content":[{"type":"text","text":"%s"}],`+
			`"isError":false,"timestamp":%d}`, text(2800), len(h.messages)),
	} {
		h.messages = append(h.messages, writer.Message{Raw: raw, Provenance: spans.Provenance{
			Kind: spans.ProvenanceLoopTurn, TurnIndex: int64(len(h.messages) / 2), Role: "tool-call-result",
			MessageIndex: int64(len(h.messages) % 2),
		}})
		h.bytes += len(raw)
	}
}

// emit makes the payload, of which the messages become pieces, as with a dialect.
func (h *history) emit(prompt, tools []byte) {
	b := append(append(h.spare[:0], `{"system_prompt":`...), prompt...)
	b = append(b, `,"messages":[`...)
	ends := make([]int, 0, len(h.messages))
	for i := range h.messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, h.messages[i].Raw...)
		ends = append(ends, len(b))
	}
	b = append(append(b, `],"tools":`...), tools...)
	h.payload, h.spare = append(b, `,"model_id":"m"}`...), h.payload
	for i, end := range ends {
		h.messages[i].Raw = h.payload[end-len(h.messages[i].Raw) : end]
	}
}

// BenchmarkCapture records requests of 1.0 to 1.2 MB of which 4 KB are new, with their exact bytes; sha256 hashes the
// same requests whole. docs/hotpaths.md names the bound of the ratio.
func BenchmarkCapture(b *testing.B) {
	prompt, tools := []byte(
		`"`+strings.Repeat("Be careful. ", 3000)+`"`,
	), []byte(
		`[{"name":"`+strings.Repeat("bash", 5000)+`"}]`,
	)
	b.Run("adapter", func(b *testing.B) {
		provider := trace.NewTracerProvider(trace.WithSpanProcessor(dropped{}))
		var h *history
		var run *writer.Run
		var ctx context.Context
		ask := func() {
			_, turn := run.StartTurn(ctx, writer.TurnInfo{})
			turn.Request(writer.Request{
				Payload: h.payload, Messages: h.messages, Parameters: writer.Parameters{Model: "m"},
			})
			turn.End(writer.TurnResult{})
		}
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			if h == nil || h.bytes > 1_200_000 {
				h = newHistory()
				for h.bytes < 1_000_000 {
					h.turn()
				}
				tracer := (*writer.Tracer)(
					otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent), otelagent.WithTracerProvider(provider)),
				)
				ctx, run = tracer.StartRun(context.Background(), writer.RunInfo{SessionID: "s"})
				h.emit(prompt, tools)
				ask()
			}
			h.turn()
			h.emit(prompt, tools)
			b.StartTimer()
			ask()
		}
		b.SetBytes(1_100_000)
	})
	b.Run("sha256", func(b *testing.B) {
		h := newHistory()
		for h.bytes < 1_100_000 {
			h.turn()
		}
		var payload []byte
		for _, m := range h.messages {
			payload = append(payload, m.Raw...)
		}
		b.SetBytes(int64(len(payload)))
		for b.Loop() {
			sha256.Sum256(payload)
		}
	})
}
