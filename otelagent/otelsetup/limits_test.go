package otelsetup_test

import (
	"context"
	"fmt"
	"runtime"
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

// A receiver that takes 4 MiB, as gRPC does unless told otherwise, gets everything.
func TestRequestsFitStockReceivers(t *testing.T) {
	for _, tt := range []struct {
		name        string
		spans, size int
		lost        int64
	}{
		{"100 turns of 100 kB", 100, 100_000, 0},
		{"20 turns of 1 MB", 20, 1_000_000, 0},
		{"3 turns just below the limit", 3, 3_600_000, 0},
		{"turns too large go alone", 2, 5_000_000, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, addr := startGRPC(t)
			p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithEndpoint(addr))
			if err != nil {
				t.Fatal(err)
			}
			recordBodies(p, tt.spans, tt.size)
			record(t, p, 3) // small ones beside them
			_ = p.Shutdown(t.Context())
			s := p.Stats()
			if n, _, _ := r.sum(); int64(n) != int64(tt.spans)+3-tt.lost || s.Lost() != tt.lost || s.Failed != tt.lost || s.Dropped != 0 {
				t.Errorf("%d spans arrived, stats %+v", n, s)
			}
		})
	}
}

// hanging is an exporter that takes nothing until its context ends.
type hanging struct{}

func (hanging) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}
func (hanging) Shutdown(context.Context) error { return nil }

// With a receiver that hangs, what waits stays below the bound, the rest is dropped and counted, and nobody waits.
func TestQueueIsBoundedInBytes(t *testing.T) {
	const bound, spans, size = 16 << 20, 200, 1 << 20
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithExporter(hanging{}), otelsetup.WithMaxQueue(0, bound))
	if err != nil {
		t.Fatal(err)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	longest := recordBodies(p, spans, size)
	if grown := heap() - before; grown > bound+4<<20 {
		t.Errorf("the heap grew by %d bytes, the bound is %d", grown, bound)
	}
	if longest > 2*time.Second {
		t.Errorf("the end of a span took %v", longest)
	}
	if s := p.Stats(); s.Dropped < spans-bound/size || s.Dropped > spans-bound/size+1 {
		t.Errorf("stats %+v", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_ = p.Shutdown(ctx)
	if s := p.Stats(); s.Ended != spans || s.Lost() != spans {
		t.Errorf("stats %+v", s)
	}
}

func TestQueueIsBoundedInSpans(t *testing.T) {
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithExporter(hanging{}), otelsetup.WithMaxQueue(100, 0))
	if err != nil {
		t.Fatal(err)
	}
	record(t, p, 250)
	if s := p.Stats(); s.Dropped != 150 {
		t.Errorf("stats %+v", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_ = p.Shutdown(ctx)
}

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
