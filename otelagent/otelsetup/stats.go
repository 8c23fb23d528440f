package otelsetup

import (
	"context"
	"sync"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Stats says what became of spans.
type Stats struct {
	// Ended is the number of sampled spans that ended.
	Ended int64
	// Exported is the number of spans in batches that the receiver took, Failed of those that it did not take.
	Exported, Failed int64
	// LastError is the error of the last batch that failed, nil when none did.
	LastError error
}

// Lost returns how many spans ended and were not delivered: those that failed, and those dropped because the queue was full.
// After Shutdown it is final; before, spans still under way count as well.
func (s Stats) Lost() int64 { return s.Ended - s.Exported }

// counts counts spans where they end and where they leave. As a span processor it does nothing else.
type counts struct {
	ended, exported, failed atomic.Int64

	mu  sync.Mutex
	err error
}

// OnStart does nothing.
func (*counts) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd counts a span that is going to be exported.
func (c *counts) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		c.ended.Add(1)
	}
}

// Shutdown does nothing.
func (*counts) Shutdown(context.Context) error { return nil }

// ForceFlush does nothing.
func (*counts) ForceFlush(context.Context) error { return nil }

func (c *counts) stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Ended: c.ended.Load(), Exported: c.exported.Load(), Failed: c.failed.Load(), LastError: c.err}
}

// countingExporter counts what leaves, until it is stopped.
type countingExporter struct {
	sdktrace.SpanExporter
	counts *counts
	// stopped ends exports under way: the SDK's own Shutdown leaves them running when its context ends.
	stopped context.Context
}

// ExportSpans sends a batch and counts what became of it. A batch of which the receiver refused a part counts as failed.
func (e *countingExporter) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.stopped, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, batch)
	n := int64(len(batch))
	if err == nil {
		e.counts.exported.Add(n)
		return nil
	}
	e.counts.failed.Add(n)
	e.counts.mu.Lock()
	e.counts.err = err
	e.counts.mu.Unlock()
	return err
}
