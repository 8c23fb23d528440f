package otelsetup

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/internal/exportsize"
	"github.com/otelagent/otelagent/spans"
)

// requestBytes is how large a request gets. Receivers over gRPC refuse more than 4 MiB unless told otherwise, and then all of it
// is lost.
const requestBytes = 3584 << 10

// Exporter sends batches through another exporter in requests of bounded size, counts what became of them and tells what was
// lost. Safe for concurrent use; it calls the other exporter as it is called itself.
type Exporter struct {
	to     sdktrace.SpanExporter
	counts counts
	lost   lost
}

var _ sdktrace.SpanExporter = (*Exporter)(nil)

// WrapExporter returns an exporter that sends through e, for programs that set up an SDK of their own:
//
//	exporter = otelsetup.WrapExporter(exporter)
//
// The SDK's batcher bounds a batch in spans (512) and not in bytes, receivers bound a request in bytes (4 MiB over gRPC unless
// told otherwise) and refuse all of one that is larger. The wrapped exporter sends a batch in as many requests of at most
// 3.5 MiB as it needs. It adds no queue, no waiting and no retries to what e does, but all requests of a batch share the time
// that the batcher allows for it (OTEL_BSP_EXPORT_TIMEOUT, 30 s).
//
// What the program's own batcher drops because its queue is full never comes here, and nobody is told. Setup has a queue that
// counts.
//
// The wrapped exporter shuts e down. Without an exporter, that is with nil, every batch fails.
func WrapExporter(e sdktrace.SpanExporter) *Exporter {
	exportsize.MarkGuarded()
	if e == nil {
		e = noExporter{}
	}
	return &Exporter{to: e}
}

// ExportSpans sends a batch in as many requests as its size needs; a span that is too large for one goes alone. A request of
// which the receiver refused a part counts as failed; those after it are tried, as long as ctx allows. The error says how much
// of the batch failed, and why the first did.
func (e *Exporter) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	e.counts.given.Add(int64(len(batch)))
	var requests, failed, lost int
	var first error
	for rest := batch; len(rest) > 0; requests++ {
		n := request(rest)
		part := rest[:n]
		rest = rest[n:]
		err := ctx.Err()
		if err == nil {
			err = e.to.ExportSpans(ctx, part)
		}
		if err == nil {
			e.counts.exported.Add(int64(n))
		} else {
			e.counts.failed.Add(int64(n))
			e.lost.add(part)
			failed, lost = failed+1, lost+n
			if first == nil {
				first = err
				e.counts.setError(err)
			}
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("otelsetup: %d of %d spans were not delivered, in %d of %d requests: %w", lost, len(batch), failed, requests, first)
}

// request returns how many spans the first request of a batch takes, one at least.
func request(batch []sdktrace.ReadOnlySpan) int {
	var bytes int64
	var res *resource.Resource
	for i, s := range batch {
		bytes += spanSize(s)
		if r := s.Resource(); i == 0 || r != res { // a batch may be of several providers
			res, bytes = r, bytes+resourceSize(r)
		}
		if bytes > requestBytes && i > 0 {
			return i
		}
	}
	return len(batch)
}

// Shutdown shuts the other exporter down and waits until everybody who asked was told what was lost, at most until ctx ends.
func (e *Exporter) Shutdown(ctx context.Context) error {
	err := e.to.Shutdown(ctx)
	e.lost.wait(ctx)
	return err
}

// Stats returns what became of the spans so far. Ended is the number of those that came here; none are dropped here.
func (e *Exporter) Stats() Stats { return e.counts.stats() }

// OnLost makes f hear of content that did not arrive, so that it can be sent again: of each span whose export finally failed,
// with the value of its session.id and the ids of the blocks that rode on it. A recipe goes by its spans.RecipeID. Without
// blocks, the span had lists only: what was sent of them cannot be built upon. Spans without session.id, or without either,
// are passed over.
//
// A request that was refused in part, or whose answer was not waited for, counts as failed: some of these blocks may have
// arrived.
//
// f is called on a goroutine of its own, never that of an export or of a span's end, without locks held and never twice at a
// time. It may keep blocks and must not change them. It must return soon, for what it is told waits in memory; it may end spans,
// but must not call ForceFlush or Shutdown. Several callbacks may be registered, each hears of what is lost from then on. Nil is
// ignored.
func (e *Exporter) OnLost(f func(session string, blocks []spans.BlockID)) { e.lost.tell(f) }

// noExporter refuses everything.
type noExporter struct{}

func (noExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	return errors.New("otelsetup: WrapExporter was given no exporter")
}

func (noExporter) Shutdown(context.Context) error { return nil }
