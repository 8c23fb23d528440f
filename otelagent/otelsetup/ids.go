package otelsetup

import (
	"context"
	"crypto/rand"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/writer"
)

// idGenerator derives ids where the tracer asks for it (writer.WithDerivedIDs) and makes random
// ones otherwise.
type idGenerator struct{ tenant string }

// NewIDs returns the ids of a span without a parent.
func (g idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	t, s, _ := writer.DerivedIDs(ctx, g.tenant)
	if !t.IsValid() {
		_, _ = rand.Read(t[:]) // it never fails
	}
	if !s.IsValid() {
		_, _ = rand.Read(s[:])
	}
	return t, s
}

// NewSpanID returns the id of a span in an existing trace.
func (g idGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, s := g.NewIDs(ctx)
	return s
}
