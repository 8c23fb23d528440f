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
	// Exported is the number of spans in requests that the receiver took, Failed of those in requests that it did not take.
	Exported, Failed int64
	// Dropped is the number of spans that were not even queued, because too much waited already (WithMaxQueueBytes,
	// WithMaxQueueSpans).
	Dropped int64
	// LastError is the error of the last request that failed, nil when none did.
	LastError error
}

// Lost returns how many spans ended and were not delivered: those that failed, and those dropped.
// After Shutdown it is final; before, spans still under way count as well.
func (s Stats) Lost() int64 { return s.Ended - s.Exported }

// counts counts spans where they end and where they leave. As a span processor it does nothing else.
type counts struct {
	ended, exported, failed, dropped atomic.Int64

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
	return Stats{Ended: c.ended.Load(), Exported: c.exported.Load(), Failed: c.failed.Load(), Dropped: c.dropped.Load(), LastError: c.err}
}
