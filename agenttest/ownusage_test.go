package agenttest_test

import (
	"bytes"
	"context"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// generated are ids of spans and traces, and of runs that have none.
var generated = regexp.MustCompile(`\b([0-9a-f]{16}|[0-9a-f]{32}|[A-Z2-7]{26})\b`)

// Without gen_ai.usage.* the trees of all recordings are the same, whole, and the standard keys are on no span. Metrics
// are recorded before spans are exported, and stay.
func TestUsageUnderOwnKeys(t *testing.T) {
	t.Parallel()
	standard := []byte("gen_ai.usage.")
	seen := false
	recordings(t, func(t *testing.T, text []byte, _ bool) {
		p := agenttest.New(t, writer.WithDerivedIDs)
		want := treesOf(sendAll(t, p, text).Batch())
		for _, batch := range p.OTLP() {
			seen = seen || bytes.Contains(batch, standard)
		}

		var got session.Batch
		sdk := must.Get(otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithBlocking(),
			otelsetup.WithSampler(sdktrace.AlwaysSample()), otelsetup.WithoutMetrics(), otelsetup.WithoutGenAIUsage(),
			otelsetup.WithExporter(otelsetup.NewFuncExporter(func(_ context.Context, otlp []byte) error {
				if bytes.Contains(otlp, standard) {
					t.Error("gen_ai.usage.* was sent")
				}
				b, _, err := otlprow.DecodeProto(otlp)
				got.Rows = append(got.Rows, b.Rows...)
				return err
			}))))(t)
		tracer := otelagent.NewTracer(writer.WithDerivedIDs, otelagent.WithTracerProvider(sdk.TracerProvider()))
		record(t, event.NewRecorder(tracer), text, input.Settings{Session: "given-session"})
		must.Do(t, sdk.Shutdown(t.Context()))
		trees := treesOf(got)
		if len(trees) != len(want) {
			t.Errorf("%d sessions, want %d", len(trees), len(want))
		}
		for id, s := range want {
			if diff := cmp.Diff(string(generated.ReplaceAll(asJSON(t, s), nil)),
				string(generated.ReplaceAll(asJSON(t, trees[id]), nil))); diff != "" {
				t.Errorf("%s (-gen_ai.usage.* +own keys):\n%s", id, diff)
			}
		}
	})
	if !seen {
		t.Error("no recording has usage")
	}
}
