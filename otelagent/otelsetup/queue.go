package otelsetup

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

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
	// batchSize is how many spans the batcher takes from the queue at once.
	batchSize = 64
	// dropNotice is how often the error handler is called about dropped spans while the queue is full.
	dropNotice = time.Minute
)

// queue bounds the spans in the batcher, in bytes and number, until they were exported or failed.
type queue struct {
	sdktrace.SpanProcessor // the batcher

	exporter           *Exporter
	maxBytes, maxSpans int64
	blocking           bool

	bytes, spans   atomic.Int64
	ended, dropped atomic.Int64
	noticed        atomic.Int64 // the value of dropped that the error handler was called with
	notice         atomic.Int64 // when it was, in Unix nanoseconds
	stopped        atomic.Bool
	reporting      chan struct{} // holds a value while a goroutine calls the error handler about dropped spans

	ctx    context.Context // ends exports under way: the SDK's own Shutdown lets them run on when its context ends
	cancel context.CancelFunc
}

func newQueue(e *Exporter, c *config) *queue {
	fromEnv, _ := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE"))
	q := &queue{exporter: e, blocking: c.blocking, reporting: make(chan struct{}, 1),
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

// OnEnd queues a span, or drops it when too much waits. With blocking it waits for the network instead.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return // the batcher ignores it as well
	}
	q.ended.Add(1)
	if q.stopped.Load() {
		return
	}
	m := measured(s)
	size := m.size
	bytes, spans := q.bytes.Add(size), q.spans.Add(1)
	switch {
	case q.blocking: // the batcher itself waits for the number of spans
		if bytes > q.maxBytes && bytes > size {
			q.bytes.Add(-size) // a flush must not wait for a span that is not queued yet
			for q.bytes.Load() > 0 && q.bytes.Load()+size > q.maxBytes && !q.stopped.Load() {
				_ = q.ForceFlush(context.Background())
			}
			q.bytes.Add(size)
		}
	case bytes > q.maxBytes || spans > q.maxSpans:
		q.bytes.Add(-size)
		q.spans.Add(-1)
		q.dropped.Add(1)
		q.exporter.lost.add([]sdktrace.ReadOnlySpan{s})
		now, last := time.Now().UnixNano(), q.notice.Load()
		if now-last >= int64(dropNotice) && q.notice.CompareAndSwap(last, now) {
			q.notify(q.dropped.Load())
		}
		return
	}
	q.SpanProcessor.OnEnd(m)
}

// notify calls report on a goroutine of its own: an error handler may be slow, and the caller ends a span of the host.
// It does nothing while the call before still runs.
func (q *queue) notify(n int64) {
	select {
	case q.reporting <- struct{}{}:
		go func() {
			defer func() { <-q.reporting }()
			q.report(n)
		}()
	default:
	}
}

// report calls the error handler with the number of dropped spans, once for each number.
func (q *queue) report(n int64) {
	if q.noticed.Swap(n) != n {
		otel.Handle(fmt.Errorf("otelsetup: the queue is full (%d spans or %d bytes wait to be sent): "+
			"spans are dropped as they end, %d so far", q.maxSpans, q.maxBytes, n))
	}
}

// Shutdown sends the queued spans and accepts no more. It waits for a report that runs, so that the last report has the
// highest number; at most a second, because an error handler may call Shutdown itself.
func (q *queue) Shutdown(ctx context.Context) error {
	q.stopped.Store(true)
	part, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	select {
	case q.reporting <- struct{}{}: // for good: no later report runs
	case <-part.Done():
	}
	q.report(q.dropped.Load())
	return q.SpanProcessor.Shutdown(ctx)
}

// sender is the exporter behind the batcher.
type sender struct {
	*Exporter
	queue *queue
}

// ExportSpans sends a batch and then takes it off the account of the queue, all at once: the batcher holds it until
// then.
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
