package otelsetup

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// queueSlack is how much longer the batcher's own queue is than ours: it puts a mark into it for each flush. So it never drops,
// which it would do without a word.
const queueSlack = 64

// dropNotice is how often the error handler hears of dropped spans while the queue is full.
const dropNotice = time.Minute

// queue stands before the batcher and bounds what waits in it, in bytes and spans, until it was exported or failed.
type queue struct {
	sdktrace.SpanProcessor // the batcher

	lost               *lost
	maxBytes, maxSpans int64
	blocking           bool

	bytes, spans   atomic.Int64
	ended, dropped atomic.Int64
	stopped        atomic.Bool

	noticed atomic.Int64 // how many of dropped the error handler heard of
	notice  atomic.Int64 // when it did, Unix nanoseconds
}

// OnEnd queues a span, or drops it when too much waits. With blocking it waits for the network instead.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return // the batcher would not take it either
	}
	q.ended.Add(1)
	if q.stopped.Load() {
		return // nor this
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
		q.drop(s)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// drop counts a span that finds no room, and tells of it.
func (q *queue) drop(s sdktrace.ReadOnlySpan) {
	q.dropped.Add(1)
	q.lost.add([]sdktrace.ReadOnlySpan{s})
	now, last := time.Now().UnixNano(), q.notice.Load()
	if now-last >= int64(dropNotice) && q.notice.CompareAndSwap(last, now) {
		q.report()
	}
}

// report tells the error handler how many spans were dropped, unless it knows. Not here: this may be the end of a host's span.
func (q *queue) report() {
	n := q.dropped.Load()
	if q.noticed.Swap(n) == n {
		return
	}
	q.lost.do(func() {
		otel.Handle(fmt.Errorf("otelsetup: the queue is full (%d spans or %d bytes wait to be sent): spans are dropped as they end, %d so far",
			q.maxSpans, q.maxBytes, n))
	})
}

// Shutdown sends what is queued and takes no more.
func (q *queue) Shutdown(ctx context.Context) error {
	q.stopped.Store(true)
	q.report()
	return q.SpanProcessor.Shutdown(ctx)
}

// sender is the exporter at the other end of the queue.
type sender struct {
	*Exporter
	queue *queue
	// stopped ends exports under way: the SDK's own Shutdown leaves them running when its context ends.
	stopped context.Context
}

// ExportSpans sends a batch and then takes it off the account of the queue: all at once, for the batcher holds it until then.
func (e *sender) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.stopped, cancel)()
	err := e.Exporter.ExportSpans(ctx, batch)
	for _, s := range batch {
		e.queue.bytes.Add(-spanSize(s))
	}
	e.queue.spans.Add(-int64(len(batch)))
	return err
}
