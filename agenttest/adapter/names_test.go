package adapter_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// TestSpanNames holds names to the option, and the attribute otelagent.kind to the exact name on every span.
func TestSpanNames(t *testing.T) {
	play := func(tracer *writer.Tracer, _ api.Tracer) {
		ctx, r := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "run-7", Agent: "coder"})
		tctx, tn := r.StartTurn(ctx, writer.TurnInfo{Index: new(int64(3)), Model: "m"})
		_, bash := tn.StartTool(tctx, writer.ToolCall{ID: "call-1", Name: "bash"})
		bash.Permission(ctx, writer.PermissionEvaluation{Action: spans.ActionDeny})
		bash.Ask(ctx, writer.PermissionEvaluation{}).End(writer.PermissionEvaluation{Action: spans.ActionAllow})
		bash.Ask(ctx, writer.PermissionEvaluation{}).Close(writer.Moment{})
		bash.End(writer.ToolResult{})
		_, nameless := tn.StartTool(tctx, writer.ToolCall{ID: "call-2"})
		nameless.End(writer.ToolResult{})
		tn.Permission(tctx, writer.PermissionEvaluation{Action: spans.ActionAllow, Target: spans.PermissionTargetInput})
		_, c := tn.StartCompaction(tctx, writer.Compaction{})
		c.End(writer.CompactionResult{})
		tn.End(writer.TurnResult{})
		r.End(writer.RunResult{})
		_, r = tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "run-8"})
		r.End(writer.RunResult{})
		_, g := tracer.StartGroup(t.Context(), writer.GroupInfo{SessionID: "s"})
		g.End(writer.GroupResult{})
	}
	exact := []string{
		"compaction.run", "permission.evaluate", "permission.evaluate", "permission.evaluate", "permission.evaluate",
		"session.run", "session.run", "session.run", "session.turn", "tool.call", "tool.call",
	}
	detailed := []string{
		"compaction.run summary", "permission.evaluate allow", "permission.evaluate allow bash", "permission.evaluate ask bash",
		"permission.evaluate deny bash", "session.run", "session.run", "session.run coder", "session.turn", "tool.call",
		"tool.call bash",
	}
	for _, tt := range []struct {
		name string
		opts []otelagent.Option
		want []string
	}{
		{"default", nil, exact},
		{"exact", []otelagent.Option{otelagent.WithSpanNames(false)}, exact},
		{"detailed", []otelagent.Option{otelagent.WithSpanNames(true)}, detailed},
		{"derived ids", []otelagent.Option{otelagent.WithSpanNames(true), writer.WithDerivedIDs}, detailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var names, kinds []string
			for name, list := range traced(t, tt.opts, play) {
				for _, s := range list {
					names, kinds = append(names, name), append(kinds, strOf(s, spans.KindKey))
				}
			}
			slices.Sort(names)
			slices.Sort(kinds)
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(exact, kinds); diff != "" {
				t.Errorf("otelagent.kind (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamesChangeNothingElse compares all that is sent with exact and with detailed names: ids, attributes and events are the same, with
// the attributes of OpenInference too.
func TestNamesChangeNothingElse(t *testing.T) {
	inference := func(e sdktrace.SpanExporter) sdktrace.SpanExporter { return otelsetup.OpenInference(e) }
	for _, wrap := range []func(sdktrace.SpanExporter) sdktrace.SpanExporter{unchanged, inference} {
		capture := otelagent.WithCapture(otelagent.CaptureContent)
		byID := func(list tracetest.SpanStubs) map[api.SpanID]tracetest.SpanStub {
			out := map[api.SpanID]tracetest.SpanStub{}
			for _, s := range list {
				out[s.SpanContext.SpanID()] = s
			}
			return out
		}
		exact := byID(played(t, wrap, capture))
		other := 0
		for id, s := range byID(played(t, wrap, capture, otelagent.WithSpanNames(true))) {
			want := exact[id]
			if s.Name != want.Name {
				other++
			}
			if s.Name = want.Name; len(s.Attributes) != len(want.Attributes) || len(s.Events) != len(want.Events) {
				t.Errorf("%s is another span: %v, want %v", s.Name, s.Attributes, want.Attributes)
			}
			for _, kv := range want.Attributes {
				if got, ok := attrOf(s, kv.Key); !ok || got != kv.Value && got.String() != kv.Value.String() {
					t.Errorf("%s: %s is %s, want %s", s.Name, kv.Key, got.String(), kv.Value.String())
				}
			}
		}
		if other < 4 {
			t.Errorf("only %d names differ", other)
		}
	}
}
