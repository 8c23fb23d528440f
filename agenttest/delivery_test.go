package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	api "go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// What our exporter could not deliver is sent again: while the receiver is away turns are lost, and every request
// after it is back is whole, although they hold messages of the turns that were lost.
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
			providers, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(otelsetup.NewFuncExporter(receive)),
				otelsetup.WithoutGlobal())
			if err != nil {
				t.Fatal(err)
			}
			var provider api.TracerProvider = providers.TracerProvider()
			if !confirmed { // a provider that reports no losses
				provider = struct{ api.TracerProvider }{provider}
			}
			tracer := otelagent.NewTracer(content, otelagent.WithTracerProvider(provider))
			ctx, run := (*writer.Tracer)(tracer).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
			var messages, payloads []string
			for i := range 20 {
				away.Store(i >= 5 && i < 9)
				text := strings.Repeat(fmt.Sprint("line ", i, " "), 60)
				turnCtx, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(i))})
				_, tool := turn.StartTool(turnCtx, writer.ToolCall{ID: fmt.Sprint("c", i), Name: "read"})
				tool.End(writer.ToolResult{Result: []byte(`{"content":"` + text + `"}`)})
				messages = append(messages, `{"role":"tool","content":"`+text+`"}`)
				payloads = append(payloads, `{"model":"m","system":"s","messages":[`+strings.Join(messages, ",")+`]}`)
				turn.Request(writer.Request{Payload: []byte(payloads[i])})
				turn.End(writer.TurnResult{})
				_ = providers.ForceFlush(t.Context()) // fails while the receiver is away
			}
			run.End(writer.RunResult{})
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
