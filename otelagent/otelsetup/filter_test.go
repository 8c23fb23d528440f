package otelsetup_test

import (
	"context"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// framework ends a span with content and usage, as frameworks do that cannot be switched off, and a turn below it.
func framework(p *sdktrace.TracerProvider, tracer *otelagent.Tracer) {
	ctx, span := p.Tracer("gcp.vertex.agent").Start(context.Background(), "generate_content")
	span.SetAttributes(attribute.String("gcp.vertex.agent.tool_call_args", "secret"), spans.GenAIUsageInputKey.Int(7))
	ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	turn.End(otelagent.TurnResult{Usage: &otelagent.Usage{Input: 7, Output: 2, Reasoning: 1, CacheRead: 3, CacheWrite: 4}})
	run.End(otelagent.RunResult{})
	span.End()
}

// sent are the names of spans, and of their attributes those of usage.
func sent(e *tracetest.InMemoryExporter) (names, usage []string) {
	for _, s := range e.GetSpans() {
		names = append(names, s.Name)
		for _, kv := range s.Attributes {
			if kv.Value.Type() == attribute.INT64 && (kv.Value.AsInt64() == 7 || slices.Contains([]attribute.Key{
				spans.UsageReasoningKey, spans.GenAIUsageReasoningKey, spans.UsageCacheWriteKey}, kv.Key)) {
				usage = append(usage, string(kv.Key))
			}
		}
	}
	slices.Sort(usage)
	return names, usage
}

func TestFilters(t *testing.T) {
	own := []string{"otelagent.usage.cache_write_tokens", "otelagent.usage.input_tokens",
		"otelagent.usage.reasoning_tokens"}
	standard := []string{"gen_ai.usage.input_tokens", "gen_ai.usage.reasoning.output_tokens"}
	for _, tt := range []struct {
		name  string
		opts  []otelsetup.Option
		names []string
		usage []string
	}{
		{"all", nil, []string{"session.turn", "session.run", "generate_content"}, append(standard[:1:1], standard...)},
		{"without the scope", []otelsetup.Option{otelsetup.WithoutScopes("genkit-tracer", "gcp.vertex.agent")},
			[]string{"session.turn", "session.run"}, standard},
		{"without usage", []otelsetup.Option{otelsetup.WithoutGenAIUsage()},
			[]string{"session.turn", "session.run", "generate_content"}, append(standard[:1:1], own...)},
		{"without both", []otelsetup.Option{otelsetup.WithoutScopes("gcp.vertex.agent"), otelsetup.WithoutGenAIUsage()},
			[]string{"session.turn", "session.run"}, own},
	} {
		check := func(t *testing.T, e *tracetest.InMemoryExporter, lost int64) {
			t.Helper()
			names, usage := sent(e)
			if !slices.Equal(names, tt.names) || !slices.Equal(usage, tt.usage) || lost != 0 {
				t.Errorf("sent %q with %q, lost %d; want %q with %q", names, usage, lost, tt.names, tt.usage)
			}
		}
		t.Run(tt.name+": Setup", func(t *testing.T) {
			e := tracetest.NewInMemoryExporter()
			p, err := otelsetup.Setup(t.Context(), append(tt.opts, otelsetup.WithExporter(e), otelsetup.WithoutMetrics(),
				otelsetup.WithoutGlobal(), otelsetup.WithSampler(sdktrace.AlwaysSample()))...)
			must.Do(t, err)
			framework(p.TracerProvider().TracerProvider,
				otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider())))
			if err := p.ForceFlush(t.Context()); err != nil {
				t.Error(err)
			}
			check(t, e, p.Stats().Lost())
			if err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
		t.Run(tt.name+": WrapExporter", func(t *testing.T) {
			e := tracetest.NewInMemoryExporter()
			w := otelsetup.WrapExporter(e, tt.opts...)
			p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(w))
			framework(p, otelagent.NewTracer(otelagent.WithTracerProvider(p)))
			if err := p.ForceFlush(t.Context()); err != nil {
				t.Error(err)
			}
			check(t, e, w.Stats().Lost())
			if err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
