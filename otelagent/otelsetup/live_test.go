package otelsetup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// watched keeps what is exported, as a line each, with the time since it was made.
type watched struct {
	start time.Time
	fail  error         // instead of taking it
	block chan struct{} // until it is closed, or the export is given up

	mu    sync.Mutex
	lines []string
	spans []sdktrace.ReadOnlySpan
	down  bool
}

func newWatched() *watched { return &watched{start: time.Now()} }

func (w *watched) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	if w.block != nil {
		select {
		case <-w.block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return w.fail
	}
	for _, s := range batch {
		set := attribute.NewSet(s.Attributes()...)
		known := "final"
		if v, ok := set.Value(spans.KnownAsKey); ok {
			known = v.AsString()
		}
		line := fmt.Sprintf("%v %s %s", time.Since(w.start), s.Name(), known)
		for _, key := range []attribute.Key{
			spans.TurnAttemptsKey, spans.ToolProgressCountKey, spans.WaitingForKey, spans.PermissionActionKey} {
			if v, ok := set.Value(key); ok {
				line += " " + v.String()
			}
		}
		w.lines = append(w.lines, line)
		w.spans = append(w.spans, s)
	}
	return nil
}

func (w *watched) Shutdown(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	return nil
}

// take returns what came since the last call.
func (w *watched) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	w.lines = nil
	return lines
}

// liveHost is a host with a provider of its own, which exports to one place, and a Live that exports to another.
func liveHost(t *testing.T, heartbeat time.Duration) (copies, finals *watched, _ *otelsetup.Live, _ *writer.Tracer) {
	t.Helper()
	copies, finals = newWatched(), newWatched()
	live := otelsetup.NewLive(copies, heartbeat)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(finals))
	t.Cleanup(func() {
		if err := live.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return copies, finals, live, (*writer.Tracer)(
		otelagent.NewTracer(otelagent.WithTracerProvider(provider), otelagent.WithLive(live),
			otelagent.WithCapture(otelagent.CaptureContent)),
	)
}

func TestLiveSendsAtOnceOnChangeAndEveryHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies, finals, live, tracer := liveHost(t, 0)
		wait := func(d time.Duration) { synctest.Wait(); time.Sleep(d); synctest.Wait() }
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		wait(0)
		ctx, turn := run.StartTurn(ctx, writer.TurnInfo{})
		wait(10 * time.Millisecond)
		turn.Request(writer.Request{})
		wait(990 * time.Millisecond)
		turn.Request(writer.Request{Attempt: 1})
		wait(0)
		turn.Request(writer.Request{Attempt: 2}) // too soon after the last copy
		wait(150 * time.Millisecond)
		turn.AskUser() // within the same copy
		wait(100 * time.Millisecond)
		turn.UserAnswered()
		wait(250 * time.Millisecond)
		ctx, call := turn.StartTool(ctx, writer.ToolCall{ID: "c"})
		wait(0)
		asking := writer.Ask(ctx, call, writer.PermissionEvaluation{Action: spans.ActionAsk})
		wait(300 * time.Millisecond)
		call.Progress("half", nil, writer.Moment{})
		wait(0)
		asking.End(writer.PermissionEvaluation{Action: spans.ActionAllow})
		wait(29900 * time.Millisecond)
		call.End(writer.ToolResult{})
		turn.End(writer.TurnResult{})
		run.End(writer.RunResult{})
		wait(time.Minute)
		if diff := cmp.Diff([]string{
			"0s session.run live",
			"10ms session.turn live",  // 10 ms are between two exports
			"210ms session.turn live", // the request
			"1s session.turn live 2",
			"1.2s session.turn live 3 user_input",
			"1.4s session.turn live 3",
			"1.5s tool.call live",
			"1.51s permission.evaluate live ask",
			"1.8s tool.call live 1",
			"15s session.run live", // the heartbeats
			"16.4s session.turn live 3",
			"16.8s tool.call live 1",
			"30s session.run live",
			"31.4s session.turn live 3",
		}, copies.take()); diff != "" {
			t.Errorf("copies (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{
			"1.8s permission.evaluate final allow",
			"31.7s tool.call final 1",
			"31.7s session.turn final 3",
			"31.7s session.run final",
		}, finals.take()); diff != "" {
			t.Errorf("spans that go through the provider (-want +got):\n%s", diff)
		}
		if stats := live.Stats(); stats != (otelsetup.Stats{Ended: 14, Exported: 14}) {
			t.Errorf("stats %+v", stats)
		}
		for _, s := range copies.spans {
			set := attribute.NewSet(s.Attributes()...)
			v, _ := set.Value(spans.LiveHeartbeatKey)
			if v.AsInt64() != int64(15*time.Second) || s.Status().Code != codes.Unset || s.EndTime().Before(s.StartTime()) {
				t.Errorf("%s: heartbeat %v, status %v, %v", s.Name(), v.String(), s.Status(), s.EndTime().Sub(s.StartTime()))
			}
			keys := []attribute.Key{spans.SessionIDKey, spans.RunIDKey, spans.SeqKey}
			if s.Name() != spans.SpanRun {
				keys = append(keys, spans.RunStartKey)
			}
			if s.Name() == spans.SpanTurn {
				keys = append(keys, spans.TurnIndexKey)
			}
			for _, key := range keys {
				if !set.HasValue(key) {
					t.Errorf("%s has no %s", s.Name(), key)
				}
			}
		}
	})
}

func TestLiveNewestWinsWhileReceiverIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies, _, _, tracer := liveHost(t, time.Hour)
		copies.block = make(chan struct{})
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		synctest.Wait() // the copy of the run is under way
		_, turn := run.StartTurn(ctx, writer.TurnInfo{})
		for n := range 16 {
			turn.Request(writer.Request{Attempt: n})
		}
		_, gone := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(1))})
		gone.End(writer.TurnResult{})
		close(copies.block)
		time.Sleep(20 * time.Millisecond)
		if diff := cmp.Diff([]string{"0s session.run live", "10ms session.turn live 16"}, copies.take()); diff != "" {
			t.Errorf("copies (-want +got):\n%s", diff)
		}
		turn.End(writer.TurnResult{})
		run.End(writer.RunResult{})
	})
}

func TestLiveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies, _, live, tracer := liveHost(t, 0)
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		const most = 4096
		var turns []*writer.Turn
		for range most + 7 {
			_, turn := run.StartTurn(ctx, writer.TurnInfo{})
			turns = append(turns, turn)
		}
		time.Sleep(20 * time.Millisecond)
		if n, stats := len(copies.take()), live.Stats(); n != most || stats.Dropped != 8 {
			t.Errorf("%d copies, want %d; stats %+v", n, most, stats)
		}
		for _, turn := range turns {
			turn.End(writer.TurnResult{})
			turn.UserAnswered() // what comes late is no change of an open span
			turn.Request(writer.Request{})
			turn.Discard(writer.DiscardedAttempt{})
			turn.Partial(writer.PartialText, []byte("x"))
		}
		_, turn := run.StartTurn(ctx, writer.TurnInfo{}) // there is room again
		time.Sleep(20 * time.Millisecond)
		if got := copies.take(); len(got) != 1 {
			t.Errorf("%q, want one copy", got)
		}
		turn.End(writer.TurnResult{})
		run.End(writer.RunResult{})
	})
}

// Copies that a receiver refuses are counted and made again, at first soon and then every heartbeat. The error handler
// is not called.
func TestLiveReceiverRefuses(t *testing.T) {
	handled := handledErrors(t)
	synctest.Test(t, func(t *testing.T) {
		copies, finals, live, tracer := liveHost(t, 0)
		copies.fail = errors.New("no")
		_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", Metadata: []byte(`{"a":1}`)})
		time.Sleep(2 * time.Second)
		if stats := live.Stats(); stats.Failed != 2 {
			t.Errorf("after two seconds: stats %+v, want two failures", stats)
		}
		time.Sleep(time.Hour - 3*time.Second)
		if stats := live.Stats(); stats.Failed < 240 || stats.Failed > 246 || !errors.Is(stats.LastError, copies.fail) {
			t.Errorf("stats %+v", stats)
		}
		copies.mu.Lock()
		copies.fail = nil
		copies.mu.Unlock()
		time.Sleep(16 * time.Second)
		if got := copies.take(); len(got) == 0 {
			t.Error("no copy is sent to a receiver that is back")
		}
		run.End(writer.RunResult{})
		if diff := cmp.Diff([]string{"0s session.payload final", "1h0m15s session.run final"}, finals.take()); diff != "" {
			t.Errorf("spans that go through the provider (-want +got):\n%s", diff)
		}
	})
	if lines := handled(); len(lines) > 0 {
		t.Errorf("the error handler was called with %q", lines)
	}
}

func TestLiveShutdown(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			copies, _, live, tracer := liveHost(t, 0)
			if hangs {
				copies.block = make(chan struct{})
			}
			_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
			synctest.Wait()
			start := time.Now()
			for range 2 {
				if err := live.Shutdown(t.Context()); err != nil || time.Since(start) > 0 {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			}
			_, late := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "late"})
			late.End(writer.RunResult{})
			run.End(writer.RunResult{})
			time.Sleep(time.Hour)
			if got := copies.take(); (len(got) == 1) == hangs || !copies.down {
				t.Errorf("%q, shut down %t; want one copy, from before, unless it hangs", got, copies.down)
			}
		})
	}
	if err := otelsetup.NewLive(nil, 0).Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// With Setup the spans that carry a request are sent within 200 ms, through its own queue and once.
func TestSetupWithLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched()
		p := setup(t, otelsetup.WithExporter(w), otelsetup.WithLive(time.Minute))
		tracer := (*writer.Tracer)(
			otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()), otelagent.WithLive(p.Live()),
				otelagent.WithCapture(otelagent.CaptureContent)),
		)
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		synctest.Wait()
		ctx, turn := run.StartTurn(ctx, writer.TurnInfo{})
		time.Sleep(10 * time.Millisecond)
		synctest.Wait() // the copy without the request is made
		turn.Request(writer.Request{Payload: []byte(`{"messages":[{"role":"user","content":"hi"}]}`)})
		_, call := turn.StartTool(ctx, writer.ToolCall{ID: "c", Args: []byte(`{"x":1}`)})
		for _, want := range [][]string{
			{"0s session.run live", "10ms session.turn live"},
			{"200ms session.payload final", "200ms session.payload final", "20ms tool.call live", "210ms session.turn live"},
			{"400ms session.run final", "400ms session.turn final", "400ms tool.call final"},
		} {
			synctest.Wait()
			if diff := cmp.Diff(want, slices.Sorted(slices.Values(w.take()))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.HasPrefix(want[0], "200ms") {
				call.End(writer.ToolResult{})
				turn.End(writer.TurnResult{})
				run.End(writer.RunResult{})
			}
			time.Sleep(200 * time.Millisecond)
		}
		if err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		bodies := map[string]int{}
		for _, s := range w.spans {
			for _, e := range s.Events() {
				for _, kv := range e.Attributes {
					if kv.Key == spans.BlockBodiesKey {
						for _, body := range kv.Value.AsStringSlice() {
							bodies[body]++
						}
					}
				}
			}
		}
		for body, n := range bodies {
			if n != 1 {
				t.Errorf("%q was sent %d times", body, n)
			}
		}
		if bodies[`{"x":1}`] != 1 {
			t.Errorf("bodies are %v", bodies)
		}
		stats, live := p.Stats(), p.Live().(*otelsetup.Live).Stats()
		if live.Exported != 4 || live.Failed != 0 || stats.Ended != 5 || stats.Exported != 5 || !w.down {
			t.Errorf("stats %+v, of copies %+v, shut down %t", stats, live, w.down)
		}
	})
}

// No copy is made after the end of its span. For the race detector as well.
func TestLiveConcurrent(t *testing.T) {
	copies, finals, live, tracer := liveHost(t, 0)
	ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 50 {
				ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(g*100 + i))})
				turn.Request(writer.Request{Payload: fmt.Appendf(nil, `{"messages":[{"role":"user","content":"%d %d"}]}`, g, i)})
				_, call := turn.StartTool(ctx, writer.ToolCall{ID: "c", Args: []byte(`{}`)})
				all.Go(func() {
					turn.AddInput(writer.Message{Raw: fmt.Appendf(nil, `{"role":"user","content":"more %d %d"}`, g, i)})
					call.Progress("p", []byte(`{"a":1}`), writer.Moment{})
					turn.AskUser()
				})
				call.End(writer.ToolResult{Result: []byte(`1`)})
				turn.End(writer.TurnResult{Output: &writer.Message{Raw: []byte(`{"role":"assistant","content":"ok"}`)}})
			}
		})
	}
	all.Wait()
	run.End(writer.RunResult{})
	if err := live.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	ended := 0
	for _, s := range finals.spans {
		if s.Name() != spans.SpanPayload {
			ended++
		}
	}
	if ended != 801 {
		t.Errorf("%d spans ended, want 801", ended)
	}
	for _, s := range copies.spans {
		set := attribute.NewSet(s.Attributes()...)
		if set.HasValue(spans.EndSeqKey) {
			t.Fatalf("a copy of %s was made after its end", s.Name())
		}
	}
}
