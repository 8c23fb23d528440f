package otelsetup

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// requestBytes bounds a request. Receivers over gRPC refuse more than 4 MiB by default, and with it all spans of the
// request.
const requestBytes = 3584 << 10

// Exporter sends batches through another exporter in requests of bounded size, counts the spans that were delivered,
// and reports the sessions of those that were not. Safe for concurrent use; it calls the other exporter as it is called
// itself.
type Exporter struct {
	to                      sdktrace.SpanExporter
	given, exported, failed atomic.Int64
	err                     atomic.Pointer[error] // of the last request that failed
	lost                    lost
}

var _ sdktrace.SpanExporter = (*Exporter)(nil)

// WrapExporter returns an exporter that sends through e, for programs that set up an SDK of their own:
//
//	exporter = otelsetup.WrapExporter(exporter)
//
// The SDK's batcher bounds a batch in spans (512) and not in bytes. A receiver bounds a request in bytes (4 MiB over
// gRPC by default) and refuses a larger one as a whole, with the spans of others in it: without the wrapper a few turns
// with content can lose a batch. The wrapped exporter sends a batch in as many requests of at most 3.5 MiB as it needs.
// It adds no queue, no waiting and no retries, and all requests of a batch share the time that the batcher allows for
// it (OTEL_BSP_EXPORT_TIMEOUT, 30 s).
//
// Spans that the program's own batcher drops because its queue is full do not reach the wrapper, which cannot count
// them. The queue of [Setup] counts.
//
// The wrapped exporter shuts e down. With nil every batch fails.
func WrapExporter(e sdktrace.SpanExporter) *Exporter {
	if e == nil {
		e = noExporter{}
	}
	return &Exporter{to: e}
}

// ExportSpans sends a batch in as many requests as its size needs; a span that is too large for one is sent alone. A
// request that the receiver refused in part counts as failed. Later requests are tried as long as ctx allows. The error
// says how many spans failed and why the first request did.
func (e *Exporter) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	e.given.Add(int64(len(batch)))
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
			e.exported.Add(int64(n))
			continue
		}
		e.failed.Add(int64(n))
		e.lost.add(part)
		failed, lost = failed+1, lost+n
		if first == nil {
			first = err
			e.err.Store(&err)
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("otelsetup: %d of %d spans were not delivered, in %d of %d requests: %w",
		lost, len(batch), failed, requests, first)
}

// request returns how many spans the first request of a batch takes, one at least.
func request(batch []sdktrace.ReadOnlySpan) int {
	var bytes int64
	for i, s := range batch {
		if bytes += measured(s).size; bytes > requestBytes && i > 0 {
			return i
		}
	}
	return len(batch)
}

// Shutdown shuts the other exporter down and waits until all losses are reported, at most until ctx ends.
func (e *Exporter) Shutdown(ctx context.Context) error {
	err := e.to.Shutdown(ctx)
	e.lost.wait(ctx)
	return err
}

// OnLost registers f, which is then called with the session.id of spans whose export finally failed, so that the
// content of the session can be sent again. Spans without session.id are passed over. A request that was refused in
// part, or whose answer did not come in time, counts as failed: some of its spans may have arrived.
//
// f is called on a goroutine of its own, never on that of an export or of a span's end, without locks held and never
// twice at a time. Losses of a session that happen while f runs are reported together. f may end spans but must not
// call ForceFlush or Shutdown. Several functions may be registered; each is called for later losses. Nil is ignored.
func (e *Exporter) OnLost(f func(session string)) { e.lost.register(f) }

// Stats counts spans. An [Exporter] counts those that it was given, [Providers] all sampled spans that ended, and
// [Live] the copies of open spans that it made.
type Stats struct {
	// Ended is the number of spans.
	Ended int64
	// Exported is the number of spans in requests that the receiver accepted, Failed of those in requests that it did
	// not.
	Exported, Failed int64
	// Dropped is the number of spans that were not queued, because too much waited already. Of a Live it is the number
	// of changes and children of spans that it did not send, for its bounds or because they are not of the SDK.
	Dropped int64
	// LastError is the first error of the last batch that failed; nil when none did.
	LastError error
}

// Lost returns how many spans ended and were not delivered: those that failed, and those dropped.
// It is final after Shutdown; before, it includes the spans that still wait.
func (s Stats) Lost() int64 { return s.Ended - s.Exported }

// Stats returns the counts so far.
func (e *Exporter) Stats() Stats {
	s := Stats{Ended: e.given.Load(), Exported: e.exported.Load(), Failed: e.failed.Load()}
	if err := e.err.Load(); err != nil {
		s.LastError = *err
	}
	return s
}

// borrowed is an exporter that somebody else shuts down.
type borrowed struct{ sdktrace.SpanExporter }

func (borrowed) Shutdown(context.Context) error { return nil }

// noExporter refuses everything.
type noExporter struct{}

func (noExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	return errors.New("otelsetup: WrapExporter was given no exporter")
}

func (noExporter) Shutdown(context.Context) error { return nil }
