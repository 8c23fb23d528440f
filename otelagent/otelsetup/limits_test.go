package otelsetup_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// recordBodies makes n spans with a body of size bytes each, in an event.
func recordBodies(p *otelsetup.Providers, n, size int) (longest time.Duration) {
	tracer := p.TracerProvider().Tracer("limits")
	for i := range n {
		_, span := tracer.Start(context.Background(), "session.turn")
		body := fmt.Sprint(i) + strings.Repeat("b", size)
		span.AddEvent("otelagent.blocks", trace.WithAttributes(attribute.StringSlice("otelagent.block.bodies", []string{body})))
		start := time.Now()
		span.End()
		longest = max(longest, time.Since(start))
	}
	return longest
}

// hanging is an exporter that takes nothing until its context ends.
type hanging struct{}

func (hanging) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}
func (hanging) Shutdown(context.Context) error { return nil }

// What blocks drops nothing, whatever the bound; what has left makes room again without it.
func TestQueueBoundWhenBlocking(t *testing.T) {
	most := 0
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithBlocking(), otelsetup.WithMaxQueue(0, 1<<20),
		otelsetup.WithExporter(otelsetup.NewFuncExporter(func(_ context.Context, otlp []byte) error {
			most = max(most, len(otlp))
			return nil
		})))
	if err != nil {
		t.Fatal(err)
	}
	recordBodies(p, 50, 400_000)
	recordBodies(p, 2, 2_000_000)
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.Ended != 52 || s.Exported != 52 || s.Dropped != 0 || most > 2_100_000 {
		t.Errorf("stats %+v, largest request %d", s, most)
	}
}

func TestQueueMakesRoomAgain(t *testing.T) {
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithMaxQueue(5, 1<<20),
		otelsetup.WithExporter(otelsetup.NewFuncExporter(func(context.Context, []byte) error { return nil })))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		recordBodies(p, 2, 400_000)
		if err := p.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.Exported != 40 {
		t.Errorf("stats %+v", s)
	}
}
