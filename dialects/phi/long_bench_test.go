package phi_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

// BenchmarkLongSession plays 200 turns of the real crate, 110 MB of events of which 105 MB are requests: otelagent
// reads them and makes spans with every request in them, for a processor that drops them; sha256 hashes the same bytes.
func BenchmarkLongSession(b *testing.B) {
	events := must.Get(io.ReadAll(phifixtures.Long(b, "../..", "long-200")))(b)
	b.Run("otelagent", func(b *testing.B) {
		b.SetBytes(int64(len(events)))
		b.ReportAllocs()
		for b.Loop() {
			p := sdktrace.NewTracerProvider()
			rec := event.NewRecorder(otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent),
				otelagent.WithTracerProvider(p)))
			for ev, err := range phi.NewDecoder().Events(bytes.NewReader(events)) {
				must.Do(b, err)
				rec.Record(context.Background(), ev)
			}
			rec.Close(context.Background())
		}
	})
	b.Run("sha256", func(b *testing.B) {
		b.SetBytes(int64(len(events)))
		for b.Loop() {
			sha256.Sum256(events)
		}
	})
}
