package adapter_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

func attrOf(s tracetest.SpanStub, k attribute.Key) (attribute.Value, bool) {
	for _, kv := range s.Attributes {
		if kv.Key == k {
			return kv.Value, true
		}
	}
	return attribute.Value{}, false
}

func strOf(s tracetest.SpanStub, k attribute.Key) string {
	v, _ := attrOf(s, k)
	return v.AsString()
}

// TestDerivedIDs compares the trace ids of a run with those of spans/README.md (SHA-256 of "trace" 0 tenant 0 session 0
// run id 0 run start, by sha256sum), and finds as many ids as spans where call ids and turn indices repeat, and where
// ids contain the byte between the fields of an address.
func TestDerivedIDs(t *testing.T) {
	at := func(ms int) writer.Moment { return writer.Moment{Time: stamp(ms)} }
	play := func(session, id string, more ...otelagent.Option) tracetest.SpanStubs {
		return traced(t, append(more, writer.WithDerivedIDs), func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
			ctx, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: session, ID: id, Start: at(0)})
			for i := range 3 {
				ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(i / 2)), Start: at(10 * i)})
				for range 2 {
					_, tool := turn.StartTool(ctx, writer.ToolCall{ID: "c", Start: at(10*i + 1)})
					writer.Decide(ctx, tool, writer.PermissionEvaluation{Start: at(2), End: at(3)})
					tool.End(writer.ToolResult{End: at(10*i + 2)})
				}
				turn.End(writer.TurnResult{End: at(10*i + 5)})
			}
			run.End(writer.RunResult{End: at(100)})
		})
	}
	if id := play("s", "r")[0].SpanContext.TraceID().String(); id != "85e64c63e5ba63145b30b98753d3e230" {
		t.Errorf("trace id %s", id)
	}
	whole := play("s", "r", otelagent.WithSessionTrace())[0].SpanContext.TraceID().String()
	if whole != "a60471d7fb283d36878c2f3b531089ee" {
		t.Errorf("trace id of the session %s", whole)
	}
	ids := map[string]bool{}
	for _, name := range [][2]string{{"a\x00b", "c"}, {"a", "b\x00c"}, {"a\x00", "b\x00c"}, {"a", "\x00b\x00c"}} {
		for _, s := range play(name[0], name[1]) {
			ids[s.SpanContext.SpanID().String()] = true
		}
	}
	if len(ids) != 4*16 {
		t.Errorf("%d different ids of 4 runs with 16 spans", len(ids))
	}
}
