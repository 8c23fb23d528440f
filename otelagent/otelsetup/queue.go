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
	reported       atomic.Int64 // the value of dropped that the error handler was called with
	stopped        atomic.Bool

	ctx    context.Context // ends exports under way: the SDK's own Shutdown lets them run on when its context ends
	cancel context.CancelFunc
}

func newQueue(e *Exporter, c *config) *queue {
	fromEnv, _ := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE"))
	q := &queue{exporter: e, blocking: c.blocking,
		maxBytes: cmp.Or(max(c.queueBytes, 0), DefaultMaxQueueBytes),
		maxSpans: int64(cmp.Or(max(c.queueSpans, 0), max(fromEnv, 0), DefaultMaxQueueSpans))}
	q.ctx, q.cancel = context.WithCancel(context.Background())
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
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(sender{e, q}, opts...)
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
		q.bytes.Add(-m.size)
		q.spans.Add(-1)
		q.drop(s)
		return
	}
	q.SpanProcessor.OnEnd(m)
}

// drop counts a span that is not queued, and reports the first one. A goroutine of its own calls the error handler,
// which may be slow.
func (q *queue) drop(s sdktrace.ReadOnlySpan) {
	n := q.dropped.Add(1)
	q.exporter.lose([]sdktrace.ReadOnlySpan{s})
	if n == 1 {
		go q.report(n)
	}
}

// report calls the error handler with the number of dropped spans, once for each number.
func (q *queue) report(n int64) {
	if q.reported.Swap(n) != n {
		otel.Handle(fmt.Errorf("otelsetup: the queue is full (%d spans or %d bytes wait to be sent): "+
			"spans are dropped as they end, %d so far", q.maxSpans, q.maxBytes, n))
	}
}

// Shutdown sends the queued spans and accepts no more.
func (q *queue) Shutdown(ctx context.Context) error {
	q.stopped.Store(true)
	err := q.SpanProcessor.Shutdown(ctx)
	q.report(q.dropped.Load())
	return err
}

// sender is the exporter behind the batcher.
type sender struct {
	*Exporter
	queue *queue
}

// ExportSpans sends a batch and then releases its bytes, all at once: the batcher holds the spans until then.
func (e sender) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.queue.ctx, cancel)()
	err := e.Exporter.ExportSpans(ctx, batch)
	for _, s := range batch {
		e.queue.bytes.Add(-measured(s).size)
	}
	e.queue.spans.Add(-int64(len(batch)))
	return err
}
