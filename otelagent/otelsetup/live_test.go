package otelsetup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"go.opentelemetry.io/otel/trace/noop"

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
		for _, key := range []attribute.Key{spans.TurnAttemptsKey, spans.ToolProgressCountKey, spans.WaitingForKey, spans.PermissionActionKey} {
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
func liveHost(t *testing.T, heartbeat time.Duration) (copies, finals *watched, live *otelsetup.Live, tracer *otelagent.Tracer) {
	t.Helper()
	copies, finals = newWatched(), newWatched()
	live = otelsetup.NewLive(copies, heartbeat)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(finals))
	t.Cleanup(func() {
		if err := live.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	tracer = otelagent.NewTracer(otelagent.WithTracerProvider(provider), otelagent.WithLive(live), otelagent.WithoutMetrics(),
		otelagent.WithCapture(otelagent.CaptureContent))
	return copies, finals, live, tracer
}

func TestLiveSendsAtOnceOnChangeAndEveryHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies, finals, live, tracer := liveHost(t, 0)
		ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
		synctest.Wait()
		if diff := cmp.Diff([]string{"0s session.run live"}, copies.take()); diff != "" {
			t.Fatalf("as the run starts (-want +got):\n%s", diff)
		}
		ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
		synctest.Wait()
		turn.Request(otelagent.Request{})
		time.Sleep(time.Second)
		turn.Request(otelagent.Request{Attempt: 1})
		turn.Request(otelagent.Request{Attempt: 2}) // these two within one copy
		synctest.Wait()
		time.Sleep(150 * time.Millisecond)
		turn.AskUser() // too soon after the last copy
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		turn.UserAnswered()
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if diff := cmp.Diff([]string{
			"0s session.turn live",
			"200ms session.turn live", // the request
			"1s session.turn live 3",
			"1.2s session.turn live 3 user_input",
			"1.4s session.turn live 3",
		}, copies.take()); diff != "" {
			t.Fatalf("as the turn goes on (-want +got):\n%s", diff)
		}
		ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c"})
		asking := call.Ask(ctx, otelagent.PermissionEvaluation{})
		synctest.Wait()
		time.Sleep(300 * time.Millisecond)
		call.Progress("half", nil, otelagent.Moment{})
		synctest.Wait()
		asking.End(otelagent.PermissionEvaluation{Action: spans.ActionAllow})
		if diff := cmp.Diff([]string{
			"1.5s tool.call live",
			"1.5s permission.evaluate live ask",
			"1.8s tool.call live 1",
		}, copies.take()); diff != "" {
			t.Fatalf("as it asks (-want +got):\n%s", diff)
		}
		time.Sleep(29900 * time.Millisecond)
		synctest.Wait()
		call.End(otelagent.ToolResult{})
		turn.End(otelagent.TurnResult{})
		run.End(otelagent.RunResult{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{
			"15s session.run live",
			"16.4s session.turn live 3",
			"16.8s tool.call live 1",
			"30s session.run live",
			"31.4s session.turn live 3",
		}, copies.take()); diff != "" {
			t.Errorf("the heartbeats, and nothing after the end (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{
			"1.8s permission.evaluate final allow",
			"31.7s tool.call final 1",
			"31.7s session.turn final 3",
			"31.7s session.run final",
		}, finals.take()); diff != "" {
			t.Errorf("what goes through the provider (-want +got):\n%s", diff)
		}
		stats := live.Stats()
		if stats.Failed != 0 || stats.Dropped != 0 || stats.Exported != 14 {
			t.Errorf("stats %+v", stats)
		}
		for _, s := range copies.spans {
			set := attribute.NewSet(s.Attributes()...)
			if v, _ := set.Value(spans.LiveHeartbeatKey); v.AsInt64() != int64(15*time.Second) || s.Status().Code != codes.Unset || s.EndTime().Before(s.StartTime()) {
				t.Errorf("%s: heartbeat %v, status %v, from %v to %v", s.Name(), v.String(), s.Status(), s.StartTime(), s.EndTime())
			}
			for _, key := range []attribute.Key{spans.SessionIDKey, spans.RunIDKey, spans.RunStartKey, spans.SchemaKey, spans.SeqKey} {
				if !set.HasValue(key) {
					t.Errorf("%s has no %s", s.Name(), key)
				}
			}
			if s.Name() == spans.SpanTurn && (!set.HasValue(spans.TurnIndexKey) || !set.HasValue(spans.RunOrdinalKey) || !set.HasValue(spans.RunContinuationKey)) {
				t.Errorf("a turn lacks its index or the header of its run: %v", s.Attributes())
			}
		}
	})
}

func TestLiveNewestWinsWhileReceiverIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies, _, live, tracer := liveHost(t, time.Hour)
		copies.block = make(chan struct{})
		ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
		synctest.Wait() // that one is under way
		_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
		for n := range 16 {
			turn.Request(otelagent.Request{Attempt: n})
		}
		_, gone := run.StartTurn(ctx, otelagent.TurnInfo{Index: new(int64(1))})
		gone.End(otelagent.TurnResult{})
		close(copies.block)
		synctest.Wait()
		if diff := cmp.Diff([]string{"0s session.run live", "0s session.turn live 16"}, copies.take()); diff != "" {
			t.Errorf("what was sent (-want +got):\n%s", diff)
		}
		if stats := live.Stats(); stats.Exported != 2 {
			t.Errorf("stats %+v", stats)
		}
		turn.End(otelagent.TurnResult{})
		run.End(otelagent.RunResult{})
	})
}

func TestLiveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies, _, live, tracer := liveHost(t, 0)
		ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
		const most = 4096
		var turns []*otelagent.Turn
		for range most + 7 {
			_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
			turns = append(turns, turn)
		}
		synctest.Wait()
		if n := len(copies.take()); n != most {
			t.Errorf("%d copies, want %d", n, most)
		}
		if stats := live.Stats(); stats.Dropped != 8 {
			t.Errorf("stats %+v", stats)
		}
		for _, turn := range turns {
			turn.End(otelagent.TurnResult{})
		}
		_, turn := run.StartTurn(ctx, otelagent.TurnInfo{}) // there is room again
		synctest.Wait()
		if got := copies.take(); len(got) != 1 {
			t.Errorf("%q, want one copy", got)
		}
		turn.End(otelagent.TurnResult{})
		run.End(otelagent.RunResult{})
	})
}

// While a receiver hangs, at most 16 MiB of what ended ahead of open spans wait; the rest is counted, and goes through
// the provider as all does.
func TestLiveChildrenAreBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies, finals, live, tracer := liveHost(t, 0)
		copies.block = make(chan struct{})
		ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
		synctest.Wait() // the copy of the run is under way
		const turns, size = 30, 900 << 10
		for i := range turns {
			_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
			turn.Request(otelagent.Request{Payload: fmt.Appendf(nil, `{"messages":[{"role":"user","content":"%s"}]}`, strings.Repeat(fmt.Sprintf("turn %02d ", i), size/8))})
			turn.End(otelagent.TurnResult{})
		}
		close(copies.block)
		synctest.Wait()
		of := func(w *watched) (n int) {
			for _, line := range w.take() {
				if strings.Contains(line, spans.SpanPayload) {
					n++
				}
			}
			return n
		}
		const fit = 16 << 20 / size
		sent, dropped := of(copies), live.Stats().Dropped
		if sent < fit-1 || sent > fit || dropped != int64(turns-sent) {
			t.Errorf("%d of %d children of %d bytes were sent and %d dropped; %d fit", sent, turns, size, dropped, fit)
		}
		if n := of(finals); n != turns {
			t.Errorf("%d children went through the provider, want %d", n, turns)
		}
		run.End(otelagent.RunResult{})
	})
}

// A receiver that refuses everything costs counts, and nothing else: no line in a log, no more memory.
func TestLiveReceiverRefuses(t *testing.T) {
	heard := hear(t)
	synctest.Test(t, func(t *testing.T) {
		copies, finals, live, tracer := liveHost(t, 0)
		copies.fail = errors.New("no")
		_, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", Metadata: []byte(`{"a":1}`)})
		time.Sleep(time.Hour)
		run.End(otelagent.RunResult{})
		synctest.Wait()
		// The first, 240 heartbeats, what is tried in between before it gives up on that, and the child with the
		// metadata.
		if stats := live.Stats(); stats.Failed < 240 || stats.Failed > 246 || stats.Exported != 0 || !errors.Is(stats.LastError, copies.fail) {
			t.Errorf("stats %+v", stats)
		}
		if diff := cmp.Diff([]string{"0s session.payload final", "1h0m0s session.run final"}, finals.take()); diff != "" {
			t.Errorf("what goes through the provider (-want +got):\n%s", diff)
		}
	})
	if lines := heard(); len(lines) > 0 {
		t.Errorf("the error handler heard %q", lines)
	}
}

// A copy that was refused is made again a second later, and not at the next heartbeat.
func TestLiveTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies, _, _, tracer := liveHost(t, 0)
		copies.fail = errors.New("away")
		_, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		copies.mu.Lock()
		copies.fail = nil
		copies.mu.Unlock()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"3s session.run live"}, copies.take()); diff != "" {
			t.Errorf("copies (-want +got):\n%s", diff)
		}
		run.End(otelagent.RunResult{})
	})
}

func TestLiveShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		copies, _, live, tracer := liveHost(t, 0)
		_, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
		synctest.Wait()
		for range 2 {
			if err := live.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
		_, late := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: "late"})
		late.End(otelagent.RunResult{})
		run.End(otelagent.RunResult{})
		time.Sleep(time.Hour)
		if got := copies.take(); len(got) != 1 || !copies.down {
			t.Errorf("%q, shut down %t; want one copy, from before", got, copies.down)
		}
	})
	t.Run("while an export hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			copies, _, live, tracer := liveHost(t, 0)
			copies.block = make(chan struct{})
			_, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
			synctest.Wait()
			start := time.Now()
			if err := live.Shutdown(t.Context()); err != nil || time.Since(start) > 0 {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			run.End(otelagent.RunResult{})
		})
	})
	t.Run("of nothing", func(t *testing.T) {
		if err := otelsetup.NewLive(nil, 0).Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestLiveOfForeignSpansSendsNothing(t *testing.T) {
	copies := newWatched()
	live := otelsetup.NewLive(copies, 0)
	// Not sampled, and no spans of the SDK at all.
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	for _, opt := range []otelagent.Option{otelagent.WithTracerProvider(unsampled), otelagent.WithTracerProvider(noop.NewTracerProvider())} {
		ctx, run := otelagent.NewTracer(opt, otelagent.WithLive(live)).StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
		_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
		turn.Request(otelagent.Request{Payload: []byte(`{"messages":[]}`)})
		turn.End(otelagent.TurnResult{})
		run.End(otelagent.RunResult{})
	}
	if err := live.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := copies.take(); len(got) > 0 || live.Stats() != (otelsetup.Stats{}) {
		t.Errorf("%q, %+v", got, live.Stats())
	}
}

// With Setup the spans that carry a request are sent within 200 ms, through its own queue and once.
func TestSetupWithLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched()
		p, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(w), otelsetup.WithLive(time.Minute),
			otelsetup.WithoutGlobal(), otelsetup.WithoutMetrics())
		if err != nil {
			t.Fatal(err)
		}
		tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()), otelagent.WithLive(p.Live()),
			otelagent.WithCapture(otelagent.CaptureContent), otelagent.WithDelivery(p))
		ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
		ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
		synctest.Wait() // the copy without the request is made
		turn.Request(otelagent.Request{Payload: []byte(`{"messages":[{"role":"user","content":"hi"}]}`)})
		_, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c", Args: []byte(`{"x":1}`)})
		synctest.Wait()
		if diff := cmp.Diff([]string{"0s session.run live", "0s session.turn live", "0s tool.call live"}, w.take()); diff != "" {
			t.Errorf("at once (-want +got):\n%s", diff)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		got := w.take()
		slices.Sort(got)
		want := []string{"200ms session.payload final", "200ms session.payload final", "200ms session.turn live"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("within 200 ms (-want +got):\n%s", diff)
		}
		call.End(otelagent.ToolResult{})
		turn.End(otelagent.TurnResult{})
		run.End(otelagent.RunResult{})
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"400ms tool.call final", "400ms session.turn final", "400ms session.run final"}, w.take()); diff != "" {
			t.Errorf("soon after their end (-want +got):\n%s", diff)
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
		if !slices.Contains(slices.Collect(maps.Keys(bodies)), `{"x":1}`) {
			t.Errorf("bodies are %v", bodies)
		}
		stats, live := p.Stats(), p.LiveStats()
		if live.Exported != 4 || live.Failed != 0 || stats.Ended != 5 || stats.Exported != 5 || !w.down {
			t.Errorf("stats %+v, of copies %+v, shut down %t", stats, live, w.down)
		}
	})
}

// Without WithLive there is nothing to give to a tracer, and that is no Live either.
func TestSetupWithoutLive(t *testing.T) {
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(newWatched()), otelsetup.WithoutGlobal(), otelsetup.WithoutMetrics())
	if err != nil {
		t.Fatal(err)
	}
	if p.Live() != nil {
		t.Error("there is a Live")
	}
	_, run := otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()), otelagent.WithLive(p.Live())).
		StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	run.End(otelagent.RunResult{})
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// Over OTLP the copies have a connection of their own: a queue that is stuck does not keep them.
func TestSetupWithLiveOverOTLP(t *testing.T) {
	for protocol, start := range map[otelsetup.Protocol]func(*testing.T) (*receiver, string){otelsetup.GRPC: startGRPC, otelsetup.HTTP: startHTTP} {
		t.Run(string(protocol), func(t *testing.T) {
			r, endpoint := start(t)
			p, err := otelsetup.Setup(t.Context(), otelsetup.WithProtocol(protocol), otelsetup.WithEndpoint(endpoint),
				otelsetup.WithLive(0), otelsetup.WithoutGlobal(), otelsetup.WithoutMetrics())
			if err != nil {
				t.Fatal(err)
			}
			_, run := otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()), otelagent.WithLive(p.Live())).
				StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
			deadline := time.Now().Add(10 * time.Second)
			for p.LiveStats().Exported == 0 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			run.End(otelagent.RunResult{})
			if err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			var known []string
			for _, req := range r.requests {
				word := "final"
				for _, kv := range req.ResourceSpans[0].ScopeSpans[0].Spans[0].Attributes {
					if kv.Key == string(spans.KnownAsKey) {
						word = kv.Value.GetStringValue()
					}
				}
				known = append(known, word)
			}
			if got := strings.Join(known, " "); got != "live final" {
				t.Errorf("%s, want live final; %+v", got, p.Stats())
			}
		})
	}
}

// Many goroutines at once: for the race detector, and for what must not be left behind.
func TestLiveConcurrent(t *testing.T) {
	copies, finals, live, tracer := liveHost(t, 0)
	ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 50 {
				ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Index: new(int64(g*100 + i))})
				turn.Request(otelagent.Request{Payload: fmt.Appendf(nil, `{"messages":[{"role":"user","content":"%d %d"}]}`, g, i)})
				ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c", Args: []byte(`{}`)})
				all.Go(func() {
					turn.AddInput(otelagent.Message{Raw: fmt.Appendf(nil, `{"role":"user","content":"more %d %d"}`, g, i)})
					call.Progress("p", []byte(`{"a":1}`), otelagent.Moment{})
					turn.AskUser()
				})
				q := call.Ask(ctx, otelagent.PermissionEvaluation{Options: []byte(`[]`)})
				q.End(otelagent.PermissionEvaluation{Action: spans.ActionAllow})
				call.End(otelagent.ToolResult{Result: []byte(`1`)})
				turn.End(otelagent.TurnResult{Output: &otelagent.Message{Raw: []byte(`{"role":"assistant","content":"ok"}`)}})
			}
		})
	}
	all.Wait()
	run.End(otelagent.RunResult{})
	if err := live.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	finals.mu.Lock()
	defer finals.mu.Unlock()
	n := map[string]int{}
	for _, s := range finals.spans {
		n[s.Name()]++
	}
	if n[spans.SpanTurn] != 400 || n[spans.SpanToolCall] != 400 || n[spans.SpanPermission] != 400 || n[spans.SpanRun] != 1 {
		t.Errorf("finals %v", n)
	}
	copies.mu.Lock()
	defer copies.mu.Unlock()
	for _, s := range copies.spans {
		set := attribute.NewSet(s.Attributes()...)
		if s.Name() != spans.SpanPayload && set.HasValue(spans.EndSeqKey) {
			t.Fatalf("a copy of %s was made after its end", s.Name())
		}
	}
}

// What is being flushed at once is not lost when everything is shut down meanwhile.
func TestSetupWithLiveShutdownLosesNothing(t *testing.T) {
	w := newWatched()
	w.block = make(chan struct{})
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(w), otelsetup.WithLive(0), otelsetup.WithoutGlobal(), otelsetup.WithoutMetrics())
	if err != nil {
		t.Fatal(err)
	}
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()), otelagent.WithLive(p.Live()),
		otelagent.WithCapture(otelagent.CaptureContent))
	ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s"})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	turn.Request(otelagent.Request{Payload: []byte(`{"messages":[{"role":"user","content":"hi"}]}`)})
	turn.End(otelagent.TurnResult{})
	run.End(otelagent.RunResult{})
	time.AfterFunc(100*time.Millisecond, func() { close(w.block) }) // the request is under way until then
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if stats := p.Stats(); stats.Ended != 3 || stats.Exported != 3 {
		t.Errorf("stats %+v", stats)
	}
}
