package adapter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// The promises to the host: no panic, no waiting, no kept memory, next to no cost without an SDK.

func TestNilDoesNothing(t *testing.T) {
	ctx := t.Context()
	var tracer *writer.Tracer
	got, run := tracer.StartRun(ctx, writer.RunInfo{})
	if got != ctx || run != nil {
		t.Error("a nil Tracer started something")
	}
	_, group := tracer.StartGroup(ctx, writer.GroupInfo{})
	useEverything(ctx, run, group)
	rec := event.NewRecorder(nil)
	rec.Record(ctx, &event.RunStarted{})
	rec.Record(ctx, nil)
	rec.Close(ctx)
}

// useEverything calls every method of every handle, each ending twice.
func useEverything(ctx context.Context, run *writer.Run, group *writer.Run) {
	m := writer.Message{Raw: []byte(`{"role":"user"}`)}
	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{})
	turn.Request(writer.Request{Messages: []writer.Message{m},
		Parameters: writer.Parameters{System: []byte(`"s"`)}})
	turn.Reply(writer.TurnResult{})
	turn.AddInput(m)
	writer.Note(turn, "n", []byte(`1`), writer.Moment{})
	tctx, tool := turn.StartTool(ctx, writer.ToolCall{ID: "c", Name: "t", Args: []byte(`{}`)})
	tool.Progress("p", []byte(`2`), writer.Moment{})
	writer.Note(tool, "n", nil, writer.Moment{})
	writer.Decide(tctx, tool, writer.PermissionEvaluation{})
	_, compacting := turn.StartCompaction(ctx, writer.Compaction{})
	writer.Note(compacting, "n", nil, writer.Moment{})
	writer.Decide(ctx, turn, writer.PermissionEvaluation{})
	_, outside := run.StartTool(ctx, writer.ToolCall{})
	_, runCompacting := run.StartCompaction(ctx, writer.Compaction{})
	writer.Decide(ctx, run, writer.PermissionEvaluation{})
	writer.Note(run, "n", nil, writer.Moment{})
	run.AddMessage(m)
	writer.Note(group, "n", nil, writer.Moment{})
	for range 2 {
		compacting.End(writer.CompactionResult{Before: []writer.Message{m}})
		runCompacting.End(writer.CompactionResult{End: writer.Moment{Closed: true}})
		tool.End(writer.ToolResult{Result: []byte(`3`)})
		outside.End(writer.ToolResult{End: writer.Moment{Closed: true}})
		turn.End(writer.TurnResult{Output: &m, Results: []writer.Message{m}})
		turn.End(writer.TurnResult{End: writer.Moment{Closed: true}})
		run.End(writer.RunResult{Messages: []writer.Message{m}})
		run.End(writer.RunResult{End: writer.Moment{Closed: true}})
		group.EndGroup(writer.GroupResult{})
		group.EndGroup(writer.GroupResult{End: writer.Moment{Closed: true}})
	}
	// After the end everything still does nothing harmful.
	turn.Request(writer.Request{})
	turn.AddInput(m)
	run.AddMessage(m)
	tool.Progress("p", nil, writer.Moment{})
}

func TestEndingTwiceEndsOnce(t *testing.T) {
	p := agenttest.New(t, capturing)
	ctx, group := (*writer.Tracer)(p.Tracer()).StartGroup(t.Context(), writer.GroupInfo{SessionID: "s"})
	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(ctx, writer.RunInfo{ID: "r"})
	useEverything(ctx, run, group)
	rows := p.Batch().Rows
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.Span.String()] {
			t.Errorf("%v was exported twice", r.Kind)
		}
		seen[r.Span.String()] = true
	}
	if want := 10; len(rows) != want {
		t.Errorf("%d spans, want %d", len(rows), want)
	}
	if s := p.Session(); len(s.Runs) != 1 || s.Runs[0].Status != spans.RunStatusCompleted {
		t.Errorf("the run is not completed: %+v", s.Runs)
	}
}

// The first End counts also while its redactor works.
func TestSecondEndWhileTheFirstRedacts(t *testing.T) {
	var turn *otelagent.Turn
	var once sync.Once
	redactor := redactorFunc(func(p spans.Redactable) ([]byte, int) {
		once.Do(func() {
			done := make(chan struct{})
			go func() {
				defer close(done)
				turn.End(otelagent.TurnResult{StopReason: "second"})
			}()
			<-done
		})
		return p.Body, 0
	})
	opts := []otelagent.Option{capturing, otelagent.WithRedactor(redactor)}
	all := traced(t, opts, public(func(ctx context.Context, tracer *otelagent.Tracer) {
		ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{})
		_, turn = run.StartTurn(ctx, otelagent.TurnInfo{})
		turn.End(otelagent.TurnResult{StopReason: "first", Err: errors.New("no")})
		run.End(otelagent.RunResult{})
	}))
	if got := strOf(all[0], spans.TurnStopReasonKey); got != "first" {
		t.Errorf("the end is %q", got)
	}
}

func TestCallerMayOverwriteItsBuffers(t *testing.T) {
	record := func(overwrite bool) string {
		exp := tracetest.NewInMemoryExporter()
		tracer := (*writer.Tracer)(
			otelagent.NewTracer(otelagent.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(exp))),
				capturing),
		)
		var used [][]byte
		buf := func(s string) []byte { b := []byte(s); used = append(used, b); return b }
		done := func() {
			if overwrite {
				for _, b := range used {
					for i := range b {
						b[i] = 'X'
					}
				}
			}
			used = nil
		}
		at := func(ms int) writer.Moment { return writer.Moment{Time: stamp(ms)} }
		ctx := t.Context()
		ctx, run := tracer.StartRun(ctx, writer.RunInfo{SessionID: "s", ID: "r", Start: at(0),
			Config: buf(`{"a":1}`), Metadata: buf(`{"m":1}`), Rules: buf(`[]`)})
		done()
		ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Start: at(1)})
		turn.Request(writer.Request{At: at(2), Messages: []writer.Message{{Raw: buf(`{"role":"user","turnId":1}`)}},
			Parameters: writer.Parameters{System: buf(`"sys"`), Tools: buf(`[{}]`)}})
		done()
		turn.AddInput(writer.Message{Raw: buf(`{"in":1}`)})
		done()
		writer.Note(turn, "n", buf(`{"note":1}`), at(3))
		done()
		_, tool := turn.StartTool(ctx, writer.ToolCall{ID: "c", Args: buf(`{"x":1}`), Start: at(4)})
		done()
		tool.Progress("p", buf(`{"progress":1}`), at(5))
		done()
		tool.End(writer.ToolResult{Result: buf(`"res"`), End: at(6)})
		done()
		_, c := turn.StartCompaction(ctx, writer.Compaction{Start: at(7)})
		c.End(writer.CompactionResult{Summary: buf(`"sum"`), Before: []writer.Message{{Raw: buf(`{"b":1}`)}}, End: at(8)})
		done()
		turn.End(writer.TurnResult{Output: &writer.Message{Raw: buf(`{"out":1}`)}, End: at(9)})
		done()
		run.AddMessage(writer.Message{Raw: buf(`{"outside":1}`)})
		done()
		run.End(writer.RunResult{End: at(10)})
		return sketch(exp.GetSpans())
	}
	if diff := gocmp.Diff(record(false), record(true)); diff != "" {
		t.Errorf("overwriting buffers after each call changed what was sent:\n%s", diff)
	}
}

func TestConcurrentSafe(t *testing.T) {
	p := agenttest.New(t, capturing, func(c *writer.Config) { c.MaxBlockIDs = 64 })
	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
	rec := event.NewRecorder(p.Tracer())
	tctx, turn := run.StartTurn(ctx, writer.TurnInfo{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			id := "c" + strconv.Itoa(i)
			for j := range 20 {
				m := writer.Message{Raw: fmt.Appendf(nil, `{"role":"user","n":%d}`, j)}
				_, tool := turn.StartTool(tctx, writer.ToolCall{ID: id, Args: m.Raw})
				writer.Decide(tctx, tool, writer.PermissionEvaluation{Action: spans.ActionAllow})
				tool.Progress("p", m.Raw, writer.Moment{})
				turn.AddInput(m)
				writer.Note(turn, "n", m.Raw, writer.Moment{})
				run.AddMessage(m)
				tool.End(writer.ToolResult{Result: m.Raw})
				turn.Request(writer.Request{Messages: []writer.Message{m}, Attempt: i})
				meta := event.Meta{Session: "other", Run: id}
				rec.Record(ctx, &event.RunStarted{Meta: meta})
				rec.Record(ctx, &event.MessageAdded{Meta: meta, Message: m})
				rec.Record(ctx, &event.RunEnded{Meta: meta})
			}
		})
	}
	wg.Wait()
	rec.Close(ctx)
	turn.End(writer.TurnResult{})
	run.End(writer.RunResult{})
	for _, s := range p.Sessions() {
		for _, r := range s.Runs {
			for _, turn := range r.Turns {
				if len(turn.ToolCalls) != 160 || len(turn.Defects) > 0 {
					t.Errorf("%d tool calls, want 160; defects %v", len(turn.ToolCalls), turn.Defects)
				}
			}
		}
	}
}

// hanging is an exporter whose receiver never answers.
type hanging struct{ release chan struct{} }

func (h hanging) ExportSpans(ctx context.Context, _ []trace.ReadOnlySpan) error {
	select {
	case <-h.release:
	case <-ctx.Done():
	}
	return ctx.Err()
}
func (hanging) Shutdown(context.Context) error { return nil }

func TestHangingCollectorBlocksNoCall(t *testing.T) {
	h := hanging{make(chan struct{})}
	p := must.Get(otelsetup.Setup(t.Context(), otelsetup.WithExporter(h), otelsetup.WithoutGlobal()))(t)
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()), capturing))
	start := time.Now()
	body := bytes.Repeat([]byte("x"), 1000)
	for i := range 5000 { // more than any queue holds
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: strconv.Itoa(i)})
		_, tool := run.StartTool(ctx, writer.ToolCall{ID: "c", Args: fmt.Appendf(body, "%d", i)})
		tool.End(writer.ToolResult{})
		run.End(writer.RunResult{})
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("10,000 spans took %v with a hanging collector", took)
	}
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	if mem.HeapAlloc > 256<<20 {
		t.Errorf("%d MB are held for a collector that is away", mem.HeapAlloc>>20)
	}
	close(h.release)
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if s := p.Stats(); s.Ended != 10000 || s.Lost() == 0 {
		t.Errorf("stats %+v: want 10,000 spans ended and some lost", s)
	}
}

func TestNilContext(t *testing.T) {
	p := agenttest.New(t, writer.WithDerivedIDs)
	var none context.Context
	_, group := (*writer.Tracer)(p.Tracer()).StartGroup(none, writer.GroupInfo{SessionID: "s"})
	_, run := (*writer.Tracer)(p.Tracer()).StartRun(none, writer.RunInfo{SessionID: "s"})
	useEverything(none, run, group)
	rec := event.NewRecorder(p.Tracer())
	rec.Record(none, &event.RunStarted{Meta: event.Meta{Session: "s", Run: "r", Time: stamp(0)}})
	rec.Close(none)
	if n := len(p.Session().Runs); n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
}

// sampler decides by a function.
type sampler func() trace.SamplingDecision

func (s sampler) ShouldSample(trace.SamplingParameters) trace.SamplingResult {
	return trace.SamplingResult{Decision: s()}
}
func (sampler) Description() string { return "test" }

// A span that is not recorded, or recorded and not sent, takes no content with it, no ordinal and no count.
func TestUnsampledTakesNoContent(t *testing.T) {
	for _, unsent := range []trace.SamplingDecision{trace.Drop, trace.RecordOnly} {
		exp := tracetest.NewInMemoryExporter()
		var decision trace.SamplingDecision
		sampled := trace.WithSampler(sampler(func() trace.SamplingDecision { return decision }))
		p := trace.NewTracerProvider(trace.WithSyncer(exp), sampled)
		tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(p), capturing))
		for _, decision = range []trace.SamplingDecision{unsent, trace.RecordAndSample} {
			ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", Metadata: []byte(`{"k":"v"}`)})
			decision = unsent
			_, tool := run.StartTool(ctx, writer.ToolCall{ID: "c"})
			tool.End(writer.ToolResult{})
			run.End(writer.RunResult{})
		}
		got := exp.GetSpans()
		if len(got) != 1 {
			t.Fatalf("%d spans, want 1", len(got))
		}
		if e := got[0].Events; len(e) == 0 || e[0].Name != spans.EventBlocks {
			t.Errorf("%v: the block was taken as sent by a span that was not: events %v", unsent, e)
		}
		if n, calls := intOf(got[0], spans.RunOrdinalKey), intOf(got[0], spans.CountToolCallsKey); n != 1 || calls != 0 {
			t.Errorf("%v: ordinal %d, %d tool calls are counted, want 1 and none", unsent, n, calls)
		}
	}
}
