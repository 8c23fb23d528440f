package otelsetup

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/otelagent"
)

// idGenerator derives ids where the tracer asks for it (otelagent.WithDerivedIDs, WithSessionTrace) and makes random
// ones otherwise.
type idGenerator struct{ tenant string }

// NewIDs returns the ids of a span without a parent.
func (g idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	t, s, _ := otelagent.DerivedIDs(ctx, g.tenant)
	for !t.IsValid() {
		binary.NativeEndian.PutUint64(t[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(t[8:], rand.Uint64())
	}
	return t, randomUnless(s)
}

// NewSpanID returns the id of a span in an existing trace.
func (g idGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, s, _ := otelagent.DerivedIDs(ctx, g.tenant)
	return randomUnless(s)
}

func randomUnless(s trace.SpanID) trace.SpanID {
	for !s.IsValid() {
		binary.NativeEndian.PutUint64(s[:], rand.Uint64())
	}
	return s
}
