package otelsetup

import (
	"context"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// queueSlack is how much longer the batcher's own queue is than ours: it puts a mark into it for each flush. So it never drops,
// which it would do without a word.
const queueSlack = 64

// queue stands before the batcher and bounds what waits in it, in bytes and spans, until it was exported or failed.
type queue struct {
	sdktrace.SpanProcessor // the batcher

	counts             *counts
	maxBytes, maxSpans int64
	blocking           bool

	bytes, spans atomic.Int64
	stopped      atomic.Bool
}

// OnEnd queues a span, or drops it when too much waits. With blocking it waits for the network instead.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() || q.stopped.Load() {
		return // the batcher would not take it either
	}
	size := spanSize(s)
	bytes, spans := q.bytes.Add(size), q.spans.Add(1)
	switch {
	case q.blocking: // for the number of spans the batcher waits
		if bytes > q.maxBytes && bytes > size {
			q.bytes.Add(-size) // a flush must not wait for what is not queued yet
			for q.bytes.Load() > 0 && q.bytes.Load()+size > q.maxBytes && !q.stopped.Load() {
				_ = q.ForceFlush(context.Background())
			}
			q.bytes.Add(size)
		}
	case bytes > q.maxBytes || spans > q.maxSpans:
		q.bytes.Add(-size)
		q.spans.Add(-1)
		q.counts.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// left takes what was exported or failed off the account.
func (q *queue) left(bytes int64, spans int) {
	q.bytes.Add(-bytes)
	q.spans.Add(-int64(spans))
}

// Shutdown sends what is queued and takes no more.
func (q *queue) Shutdown(ctx context.Context) error {
	q.stopped.Store(true)
	return q.SpanProcessor.Shutdown(ctx)
}
