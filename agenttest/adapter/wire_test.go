package adapter_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// wire is the content of spans as a store has it.
type wire struct {
	session.Batch
	bodies   map[spans.ShortID]string
	withheld map[spans.ShortID]session.Block
	blocks   session.BlockSet
	runs     []*session.Run
}

func readWire(t testing.TB, stubs tracetest.SpanStubs) *wire {
	t.Helper()
	w := &wire{bodies: map[spans.ShortID]string{}, withheld: map[spans.ShortID]session.Block{}}
	exporter := otelsetup.NewFuncExporter(func(_ context.Context, otlp []byte) error {
		b, _, err := otlprow.DecodeProto(otlp)
		w.Rows, w.Blocks = append(w.Rows, b.Rows...), append(w.Blocks, b.Blocks...)
		return err
	})
	must.Do(t, exporter.ExportSpans(t.Context(), stubs.Snapshots()))
	for _, b := range w.Blocks {
		w.blocks.Add(b)
		if b.Size > 0 {
			w.withheld[b.ID.Short()] = b
		} else {
			w.bodies[b.ID.Short()] = b.Body
		}
	}
	for _, s := range session.AssembleAll(w.Rows) {
		s.CheckContent(&w.blocks)
		w.runs = append(w.runs, s.Runs...)
	}
	return w
}

// payload returns the request of a turn byte for byte. Of runs with one id it is that of the nth with this turn.
func (w *wire) payload(run string, turn int64, nth int) (string, error) {
	for _, r := range w.runs {
		for _, t := range r.Turns {
			if r.ID != run || t.Index != turn || len(t.Requests) == 0 {
				continue
			}
			if nth--; nth >= 0 {
				continue
			}
			p := t.Requests[0].Payload(&w.blocks)
			if p.Bytes == nil {
				return "", fmt.Errorf("missing %+v, defects %v", p.Missing, p.Defects)
			}
			return string(p.Bytes), nil
		}
	}
	return "", fmt.Errorf("run %s has no turn %d", run, turn)
}

// checkLists checks that each list has the count and digest it states, each block that it names, and no block twice.
func (w *wire) checkLists(t *testing.T) {
	t.Helper()
	of := []spans.DefectCode{spans.DefectBlockMissing, spans.DefectBlockWithheld, spans.DefectListUnresolved,
		spans.DefectListBroken, spans.DefectListUnknown, spans.DefectEventLost}
	for _, s := range session.AssembleAll(w.Rows) {
		s.CheckContent(&w.blocks)
		for n := range s.Walk() {
			for _, d := range *n.Defects() {
				if slices.Contains(of, d.Code) {
					t.Errorf("%s: %s %s", n.Kind(), d.Code, d.Detail)
				}
			}
		}
	}
	type sent struct {
		in session.Key
		id spans.BlockID
	}
	seen := map[sent]bool{}
	for _, b := range w.Blocks {
		if s := (sent{b.Session, b.ID}); seen[s] {
			t.Errorf("a block was sent twice: %.80s", b.Body)
		} else {
			seen[s] = true
		}
	}
}

// collect returns a provider whose spans can be read when they ended.
func collect(t testing.TB) (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	exp := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exp))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p, exp
}
