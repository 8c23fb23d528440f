package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
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
				turnCtx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Index: new(int64(i))})
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
