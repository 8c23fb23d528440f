package otelsetup

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The default bounds of the queue.
const (
	DefaultMaxQueueBytes = 256 << 20
	DefaultMaxQueueSpans = 4096
)

const (
	mostQueueSpans = 1 << 20 // that may be asked for: the batcher takes the memory of its queue at once
	// queueSlack is how much longer the batcher's own queue is, into which it puts a mark for each flush. So the
	// batcher itself, which does not count, never drops a span.
	queueSlack = 64
	batchSize  = 64 // spans that the batcher takes from the queue at once
)

// queue bounds the spans in the batcher, in bytes and number, until they were exported or failed.
type queue struct {
	sdktrace.SpanProcessor // the batcher

	exporter           *Exporter
	maxBytes, maxSpans int64
	blocking           bool

	bytes, spans   atomic.Int64
	ended, dropped atomic.Int64
	stopped        atomic.Bool

	cancel context.CancelFunc // of exports under way: the SDK's own Shutdown lets them run on when its context ends
}

func newQueue(e *Exporter, c *config) *queue {
	fromEnv, _ := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE"))
	q := &queue{exporter: e, blocking: c.blocking,
		maxBytes: cmp.Or(max(c.queueBytes, 0), DefaultMaxQueueBytes),
		maxSpans: int64(min(cmp.Or(max(c.queueSpans, 0), max(fromEnv, 0), DefaultMaxQueueSpans), mostQueueSpans))}
	e.queue = q
	e.ctx, q.cancel = context.WithCancel(context.Background())
	opts := []sdktrace.BatchSpanProcessorOption{sdktrace.WithMaxQueueSize(int(q.maxSpans) + queueSlack)}
	if os.Getenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") == "" {
		opts = append(opts, sdktrace.WithMaxExportBatchSize(batchSize))
	}
	if c.blocking {
		opts = append(opts, sdktrace.WithBlocking())
	}
	if c.live && os.Getenv("OTEL_BSP_SCHEDULE_DELAY") == "" {
		opts = append(opts, sdktrace.WithBatchTimeout(liveTick))
	}
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(e, opts...)
	return q
}

// OnEnd queues a span, or drops it when too much waits. With blocking it waits for the network instead: here for the
// bytes, in the batcher for the number of spans.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() || q.exporter.drops(s) {
		return // the batcher ignores the first as well
	}
	q.ended.Add(1)
	if q.stopped.Load() {
		return
	}
	m := measured(s)
	for q.blocking && q.bytes.Load() > 0 && q.bytes.Load()+m.size > q.maxBytes && !q.stopped.Load() {
		_ = q.ForceFlush(context.Background())
	}
	bytes, spans := q.bytes.Add(m.size), q.spans.Add(1)
	if !q.blocking && (bytes > q.maxBytes || spans > q.maxSpans) {
		q.release(m)
		q.exporter.lose(s)
		if q.dropped.Add(1) == 1 {
			go q.report(1) // the error handler may be slow
		}
		return
	}
	q.SpanProcessor.OnEnd(m)
}

// release takes spans off the bounds.
func (q *queue) release(list ...sdktrace.ReadOnlySpan) {
	for _, s := range list {
		q.bytes.Add(-measured(s).size)
	}
	q.spans.Add(-int64(len(list)))
}

// report calls the error handler with the number of dropped spans.
func (q *queue) report(n int64) {
	otel.Handle(fmt.Errorf("otelsetup: the queue is full (%d spans or %d bytes wait to be sent): "+
		"spans are dropped as they end, %d so far", q.maxSpans, q.maxBytes, n))
}

// Shutdown sends the queued spans and accepts no more. A second call does nothing.
func (q *queue) Shutdown(ctx context.Context) error {
	if q.stopped.Swap(true) {
		return nil
	}
	err := q.SpanProcessor.Shutdown(ctx)
	if n := q.dropped.Load(); n > 1 {
		q.report(n)
	}
	return err
}
