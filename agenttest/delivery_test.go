package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// What our exporter could not deliver is sent again: while the receiver is away turns are lost, and every request after it is back
// is whole, although they hold messages of the turns that were lost.
func TestLostTurnsAreSentAgain(t *testing.T) {
	for _, confirmed := range []bool{true, false} {
		t.Run(fmt.Sprint("confirmed-", confirmed), func(t *testing.T) {
			var away atomic.Bool
			var batch session.Batch
			receive := func(_ context.Context, otlp []byte) error {
				if away.Load() {
					return errors.New("away")
				}
				b, _, err := otlprow.DecodeProto(otlp)
				batch.Rows, batch.Blocks = append(batch.Rows, b.Rows...), append(batch.Blocks, b.Blocks...)
				return err
			}
			providers, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(otelsetup.NewFuncExporter(receive)), otelsetup.WithoutGlobal())
			if err != nil {
				t.Fatal(err)
			}
			opts := []otelagent.Option{content, otelagent.WithTracerProvider(providers.TracerProvider())}
			if confirmed {
				opts = append(opts, otelagent.WithDelivery(providers))
			}
			ctx, run := otelagent.NewTracer(opts...).StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: "r"})
			var messages, payloads []string
			for i := range 20 {
				away.Store(i >= 5 && i < 9)
				text := strings.Repeat(fmt.Sprint("line ", i, " "), 60)
				turnCtx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Index: int64(i)})
				_, tool := turn.StartTool(turnCtx, otelagent.ToolCall{ID: fmt.Sprint("c", i), Name: "read"})
				tool.End(otelagent.ToolResult{Result: []byte(`{"content":"` + text + `"}`)})
				messages = append(messages, `{"role":"tool","content":"`+text+`"}`)
				payloads = append(payloads, `{"model":"m","system":"s","messages":[`+strings.Join(messages, ",")+`]}`)
				turn.Request(otelagent.Request{Payload: []byte(payloads[i])})
				turn.End(otelagent.TurnResult{})
				_ = providers.ForceFlush(t.Context()) // fails while the receiver is away
			}
			run.End(otelagent.RunResult{})
			_ = providers.Shutdown(t.Context())

			s, blocks := onlySession(t, batch)
			for _, turn := range s.Runs[0].Turns {
				if len(turn.Requests) == 0 {
					if turn.Index < 5 || turn.Index > 8 {
						t.Errorf("turn %d has no request", turn.Index)
					}
					continue
				}
				p := turn.Requests[0].Payload(blocks)
				whole := p.Exact && string(p.Bytes) == payloads[turn.Index]
				if want := confirmed || turn.Index < 5; whole != want {
					t.Errorf("turn %d: whole %t, want %t; missing %v", turn.Index, whole, want, p.Missing)
				}
			}
		})
	}
}

// What left ahead of its span and did not arrive arrives with the end of that span, or once more after it when the loss is heard of
// later: a moment without a collector while the model thinks costs no request. Where nothing is lost nothing is sent twice.
func TestLostAheadIsSentAgain(t *testing.T) {
	const payload, second, args, rules = `{"model":"m","messages":[{"role":"user","content":"Is it in?"}]}`, `{"model":"m","messages":[{"role":"user","content":"Well?"}]}`,
		`{"cmd":"ls"}`, `[{"action":"ask"}]`
	for _, tt := range []struct {
		name        string
		away, later bool
	}{{name: "nothing is lost"}, {name: "heard of while it is open", away: true}, {name: "heard of after its end", away: true, later: true}} {
		t.Run(tt.name, func(t *testing.T) {
			var away atomic.Bool
			var mu sync.Mutex
			var batch session.Batch
			release := make(chan struct{})
			receive := func(_ context.Context, otlp []byte) error {
				if away.Load() {
					if tt.later {
						<-release
					}
					return errors.New("away")
				}
				b, _, err := otlprow.DecodeProto(otlp)
				mu.Lock()
				defer mu.Unlock()
				batch.Rows, batch.Blocks = append(batch.Rows, b.Rows...), append(batch.Blocks, b.Blocks...)
				return err
			}
			providers, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(otelsetup.NewFuncExporter(receive)), otelsetup.WithoutGlobal(), otelsetup.WithLive(0))
			if err != nil {
				t.Fatal(err)
			}
			tracer := otelagent.NewTracer(content, otelagent.WithTracerProvider(providers.TracerProvider()), otelagent.WithLive(providers.Live()))
			away.Store(tt.away)
			ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: "r", Rules: []byte(rules)})
			ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
			turn.Request(otelagent.Request{Payload: []byte(payload)})
			turn.Request(otelagent.Request{Payload: []byte(second), Attempt: 1})
			_, tool := turn.StartTool(ctx, otelagent.ToolCall{ID: "c", Name: "bash", Args: []byte(args)})
			end := func() {
				tool.End(otelagent.ToolResult{Result: []byte(`"x"`)})
				turn.End(otelagent.TurnResult{})
				run.End(otelagent.RunResult{})
			}
			if tt.later {
				for providers.Stats().Ended < 4 { // all that leaves ahead is in the queue, some of it on its way
					time.Sleep(time.Millisecond)
				}
				time.Sleep(50 * time.Millisecond)
				end() // while the first of it, the rules, is still on its way
				away.Store(false)
				close(release)
			} else {
				_ = providers.ForceFlush(t.Context()) // fails while the receiver is away
				away.Store(false)
				end()
			}
			_ = providers.ForceFlush(t.Context())
			_ = providers.ForceFlush(t.Context()) // what leaves once more
			_ = providers.Shutdown(t.Context())

			s, blocks := onlySession(t, batch)
			if len(s.Runs[0].Turns) != 1 || len(s.Runs[0].Turns[0].Requests) != 2 || len(s.Runs[0].Turns[0].ToolCalls) != 1 {
				t.Fatalf("%d runs, turns %+v", len(s.Runs), s.Runs[0].Turns)
			}
			last := s.Runs[0].Turns[0]
			for i, want := range []string{payload, second} {
				if p := last.Requests[i].Payload(blocks); !p.Exact || string(p.Bytes) != want {
					t.Errorf("request %d is %q, missing %v", i, p.Bytes, p.Missing)
				}
			}
			if got := bodiesOf(batch, last.ToolCalls[0].Args); len(got) != 1 || got[0] != args {
				t.Errorf("arguments are %q", got)
			}
			if got := bodiesOf(batch, s.Runs[0].Rules); len(got) != 1 || got[0] != rules {
				t.Errorf("rules are %q", got)
			}
			times := map[string]int{}
			for _, b := range batch.Blocks {
				times[b.Body]++
			}
			for body, n := range times {
				if n > 1 && !tt.away {
					t.Errorf("%q was sent %d times", body, n)
				}
			}
			if len(times) < 4 {
				t.Errorf("only %d bodies", len(times))
			}
		})
	}
}

// What left ahead leaves again as often as it is lost, within bounds: here the collector is away when the model is asked, is there when the
// turn ends, and is away once more when the request leaves again. It waits longer each time, whatever else ends in the session, but for the
// end of its own run.
func TestLostAheadIsSentAgainAndAgain(t *testing.T) {
	const payload = `{"model":"m","messages":[{"role":"user","content":"Is it in?"}]}`
	waits := []int{0, 0, 1, 2, 4, 8, 16, 32, 32} // seconds after the time before: when the turn has the request, when that is lost ...
	for _, losses := range []int{1, 2, 7, 8, 9} {
		t.Run(fmt.Sprintf("lost %d times", losses), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ahead := &aheadCounter{refuse: losses}
				tracer, flush, shutdown := aheadTracer(t, ahead)
				defer shutdown()
				ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: "r"})
				_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
				hold := ahead.hold()
				turn.Request(otelagent.Request{Payload: []byte(payload)})
				turn.End(otelagent.TurnResult{}) // the loss is heard of after it
				hold()
				flush()
				for range 2 * 120 { // half seconds
					run.Ask(ctx, otelagent.PermissionEvaluation{}).End(otelagent.PermissionEvaluation{})
					_, other := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: "other"})
					other.End(otelagent.RunResult{})
					flush()
					time.Sleep(time.Second / 2)
				}
				run.End(otelagent.RunResult{})
				flush()
				want := waits[:min(losses+1, 9)] // at once, and again up to eight times
				if sent, arrived := ahead.waits(); !slices.Equal(sent, want) || arrived != (losses < 9) {
					t.Errorf("the request left after %v seconds, want %v; arrived: %v", sent, want, arrived)
				}
			})
		})
	}
}

// The end of a run waits for nothing: it may be the last end there is. Those of others are not.
func TestLostAheadLeavesWithTheEndOfItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := &aheadCounter{refuse: 2}
		tracer, flush, shutdown := aheadTracer(t, ahead)
		defer shutdown()
		ctx, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: "r"})
		_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
		hold := ahead.hold()
		turn.Request(otelagent.Request{Payload: []byte(`{"model":"m","messages":[]}`)})
		turn.End(otelagent.TurnResult{})
		hold()
		flush()
		for range 20 {
			run.Ask(ctx, otelagent.PermissionEvaluation{}).End(otelagent.PermissionEvaluation{})
			_, other := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: "other"})
			other.End(otelagent.RunResult{})
			flush()
		}
		if sent, arrived := ahead.waits(); len(sent) != 2 || arrived {
			t.Errorf("the request left %d times before its run ended, want 2; arrived: %v", len(sent), arrived)
		}
		run.End(otelagent.RunResult{})
		flush()
		if sent, arrived := ahead.waits(); len(sent) != 3 || !arrived {
			t.Errorf("the request left %d times, want 3; arrived: %v", len(sent), arrived)
		}
	})
}

// aheadTracer exports to ahead, live. Flush waits for what was lost to be heard of.
func aheadTracer(t *testing.T, ahead *aheadCounter) (tracer *otelagent.Tracer, flush, shutdown func()) {
	t.Helper()
	providers, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(ahead), otelsetup.WithoutGlobal(), otelsetup.WithLive(0))
	if err != nil {
		t.Fatal(err)
	}
	flush = func() {
		_ = providers.ForceFlush(t.Context()) // fails for what is refused
		_ = providers.ForceFlush(t.Context()) // what left again when that was heard of
	}
	tracer = otelagent.NewTracer(content, otelagent.WithTracerProvider(providers.TracerProvider()), otelagent.WithLive(providers.Live()))
	return tracer, flush, func() { _ = providers.Shutdown(context.WithoutCancel(t.Context())) }
}

// aheadCounter takes all but the first session.payload spans of the list of a request.
type aheadCounter struct {
	refuse int

	mu      sync.Mutex
	sent    []time.Time
	arrived bool
	held    sync.Mutex
}

// hold lets exports wait until the function that it returns is called.
func (a *aheadCounter) hold() func() { a.held.Lock(); return a.held.Unlock }

// waits returns how many seconds after the time before each was sent, and whether one arrived.
func (a *aheadCounter) waits() (seconds []int, arrived bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.sent {
		seconds = append(seconds, int(a.sent[i].Sub(a.sent[max(i-1, 0)]).Seconds()))
	}
	return seconds, a.arrived
}

func (a *aheadCounter) Shutdown(context.Context) error { return nil }

func (a *aheadCounter) ExportSpans(_ context.Context, list []trace.ReadOnlySpan) error {
	a.held.Lock()
	defer a.held.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range list {
		if s.Name() == spans.SpanPayload {
			if a.sent = append(a.sent, time.Now()); len(a.sent) <= a.refuse {
				return errors.New("away")
			}
			a.arrived = true
		}
	}
	return nil
}
