package adapter_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
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

// Ids that hold the byte between the fields of an address do not come to the ids of another address.
func TestDerivedIDsOfNames(t *testing.T) {
	met := map[string]bool{}
	for _, name := range [][2]string{{"a\x00b", "c"}, {"a", "b\x00c"}, {"a\x00", "b\x00c"}, {"a", "\x00b\x00c"}} {
		derived := []otelagent.Option{writer.WithDerivedIDs}
		for _, s := range traced(t, derived, func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
			_, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: name[0], ID: name[1], Start: writer.Moment{Time: stamp(0)}})
			run.End(writer.RunResult{End: writer.Moment{Time: stamp(1)}})
		}) {
			met[s.SpanContext.TraceID().String()+s.SpanContext.SpanID().String()] = true
		}
	}
	if len(met) != 4 {
		t.Errorf("4 runs have %d different ids", len(met))
	}
}

func TestDerivedIDsAreTheSameEachTime(t *testing.T) {
	record := func(opts ...otelagent.Option) (ids []string, trace string) {
		opts = append(opts, writer.WithDerivedIDs)
		for _, s := range traced(t, opts, func(ctx context.Context, tracer *writer.Tracer, caller api.Tracer) {
			at := func(ms int) writer.Moment { return writer.Moment{Time: stamp(ms)} }
			ctx, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", ID: "r", Start: at(0)})
			for i := range 3 { // the same index twice
				tctx, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(i / 2)), Start: at(10 * i)})
				for range 2 { // the same call id twice
					cctx, tool := turn.StartTool(tctx, writer.ToolCall{ID: "c", Start: at(10*i + 1)})
					tool.Permission(cctx, writer.PermissionEvaluation{Start: at(2), End: at(3)})
					_, foreign := caller.Start(cctx, "foreign")
					foreign.End()
					tool.End(writer.ToolResult{End: at(10*i + 2)})
				}
				_, c := turn.StartCompaction(tctx, writer.Compaction{Start: at(10 * i)})
				c.End(writer.CompactionResult{End: at(10 * i)})
				turn.End(writer.TurnResult{End: at(10*i + 5)})
			}
			run.End(writer.RunResult{End: at(100)})
		}) {
			if s.Name != "foreign" {
				ids = append(ids, s.Name+s.SpanContext.SpanID().String())
			}
			trace = s.SpanContext.TraceID().String()
		}
		return ids, trace
	}
	a, ta := record()
	b, tb := record()
	if diff := cmp.Diff(a, b); diff != "" || ta != tb {
		t.Errorf("traces %s and %s (-first +second):\n%s", ta, tb, diff)
	}
	if slices.Sort(a); len(slices.Compact(a)) != 19 {
		t.Errorf("%d different ids of 19 spans", len(a))
	}
	// spans/README.md: SHA-256("trace" 0 tenant 0 session 0 run id 0 run start), computed with sha256sum.
	if want := "85e64c63e5ba63145b30b98753d3e230"; ta != want {
		t.Errorf("trace id %s, want %s", ta, want)
	}
	if _, whole := record(writer.WithSessionTrace); whole != "a60471d7fb283d36878c2f3b531089ee" {
		t.Errorf("trace id of the session %s", whole)
	}
}

func TestNotesAreBounded(t *testing.T) {
	s := traced(t, []otelagent.Option{capturing}, func(ctx context.Context, tracer *writer.Tracer, _ api.Tracer) {
		ctx, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s"})
		_, tool := run.StartTool(ctx, writer.ToolCall{})
		for range 40 {
			tool.Progress(strings.Repeat("x", 300), []byte("\xff"), writer.Moment{})
		}
		tool.End(writer.ToolResult{})
		run.End(writer.RunResult{})
	})[0]
	notes := 0
	for _, e := range s.Events {
		if e.Name == spans.EventOther {
			if notes++; len(e.Attributes[0].Value.AsString()) != 128 {
				t.Fatalf("a type of %d bytes", len(e.Attributes[0].Value.AsString()))
			}
		}
	}
	dropped, counted := intOf(s, spans.EventsDroppedKey), intOf(s, spans.ToolProgressCountKey)
	if notes != 32 || dropped != 8 || counted != 40 {
		t.Errorf("%d notes, %d dropped, %d counted", notes, dropped, counted)
	}
}
