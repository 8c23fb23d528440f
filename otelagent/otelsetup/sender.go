package otelsetup

import (
	"context"
	"errors"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// requestBytes is how large a request gets. Receivers over gRPC refuse more than 4 MiB unless told otherwise, and then all of it
// is lost.
const requestBytes = 3584 << 10

// sender sends batches in requests of bounded size and counts what became of them, until it is stopped.
type sender struct {
	sdktrace.SpanExporter
	counts *counts
	queue  *queue
	// stopped ends exports under way: the SDK's own Shutdown leaves them running when its context ends.
	stopped context.Context
}

// ExportSpans sends a batch in as many requests as its size needs; a span that is too large for one goes alone. A request of
// which the receiver refused a part counts as failed; those after it are tried.
func (e *sender) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.stopped, cancel)()
	var errs []error
	for len(batch) > 0 {
		bytes := spanSize(batch[0])
		room := requestBytes - resourceSize(batch[0].Resource()) - bytes
		n := 1
		for ; n < len(batch); n++ {
			size := spanSize(batch[n])
			if size > room {
				break
			}
			room, bytes = room-size, bytes+size
		}
		if err := e.send(ctx, batch[:n], bytes); err != nil {
			errs = append(errs, err)
		}
		batch = batch[n:]
	}
	return errors.Join(errs...)
}

// send sends one request.
func (e *sender) send(ctx context.Context, part []sdktrace.ReadOnlySpan, bytes int64) error {
	defer e.queue.left(bytes, len(part))
	err := ctx.Err()
	if err == nil {
		err = e.SpanExporter.ExportSpans(ctx, part)
	}
	if err == nil {
		e.counts.exported.Add(int64(len(part)))
		return nil
	}
	e.counts.failed.Add(int64(len(part)))
	e.counts.mu.Lock()
	e.counts.err = err
	e.counts.mu.Unlock()
	return err
}
