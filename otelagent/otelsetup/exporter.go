package otelsetup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/spans"
)

// requestBytes bounds a request. Receivers over gRPC refuse more than 4 MiB by default, and with it all spans of the
// request.
const requestBytes = 3584 << 10

// Exporter sends batches through another exporter in requests of bounded size, counts the spans that were delivered,
// and reports the sessions of those that were not. Safe for concurrent use; it calls the other exporter as it is called
// itself.
type Exporter struct {
	to                      sdktrace.SpanExporter
	without                 []string // scopes
	ownUsage                bool
	given, exported, failed atomic.Int64
	err                     atomic.Pointer[error] // of the last request that failed

	queue *queue          // that the spans come from, or nil
	ctx   context.Context // ends exports under way

	mu     sync.Mutex
	onLost []func(session string)
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
// The wrapped exporter shuts e down. With nil every batch fails. It has the options [WithoutScopes] and
// [WithoutGenAIUsage]; others have no effect on it.
func WrapExporter(e sdktrace.SpanExporter, opts ...Option) *Exporter {
	c := configOf(opts)
	return c.wrap(e)
}

func (c *config) wrap(e sdktrace.SpanExporter) *Exporter {
	if e == nil {
		e = NewFuncExporter(func(context.Context, []byte) error {
			return errors.New("otelsetup: WrapExporter was given no exporter")
		})
	}
	return &Exporter{to: e, without: c.without, ownUsage: c.ownUsage, ctx: context.Background()}
}

// ExportSpans sends a batch in as many requests as its size needs. A span that is too large for one is sent alone, and
// each span is where a text in the batch is not UTF-8: OTLP cannot hold that. A request that the receiver refused in
// part counts as failed. Later requests are tried as long as ctx allows. The error says how many spans failed and why
// the first request did.
func (e *Exporter) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	if e.queue != nil {
		defer e.queue.release(batch...) // all at once: the batcher holds the spans until then
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	if slices.ContainsFunc(batch, e.drops) {
		batch = slices.DeleteFunc(slices.Clone(batch), e.drops)
	}
	e.given.Add(int64(len(batch)))
	failed, alone := 0, false
	var first error
	for rest := batch; len(rest) > 0; {
		part := rest[:request(rest)]
		if alone {
			part = rest[:1]
		}
		err := ctx.Err()
		if err == nil {
			err = e.to.ExportSpans(ctx, e.withUsage(part))
		}
		if err != nil && len(part) > 1 && strings.Contains(err.Error(), "invalid UTF-8") {
			alone = true // the host may have such a text on a span of its own
			continue
		}
		rest = rest[len(part):]
		if err == nil {
			e.exported.Add(int64(len(part)))
			continue
		}
		if first == nil {
			first = err
			e.err.Store(&err)
		}
		failed += len(part)
		e.failed.Add(int64(len(part)))
		e.lose(part...)
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("otelsetup: %d of %d spans were not delivered: %w", failed, len(batch), first)
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

// Shutdown shuts the other exporter down.
func (e *Exporter) Shutdown(ctx context.Context) error { return e.to.Shutdown(ctx) }

// OnLost registers f, which is then called with the session.id of spans whose export finally failed, so that the
// content of the session can be sent again: once for all spans of a session in a request. Spans without session.id are
// passed over. A request that was refused in part, or whose answer did not come in time, counts as failed: some of its
// spans may have arrived.
//
// f is called by the goroutine that exports or ends a span, also by several at a time: it must return at once, must not
// end spans, and must not wait for locks that are held while a span ends. Several functions may be registered. Nil is
// ignored.
func (e *Exporter) OnLost(f func(session string)) {
	if f == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.onLost = append(e.onLost, f)
}

// lose reports the sessions of spans that were not delivered, each once.
func (e *Exporter) lose(list ...sdktrace.ReadOnlySpan) {
	e.mu.Lock()
	funcs := e.onLost
	e.mu.Unlock()
	reported := make(map[string]bool)
	for _, s := range list {
		session := attributeOf(s, spans.SessionIDKey).AsString()
		if session == "" || reported[session] {
			continue
		}
		reported[session] = true
		for _, f := range funcs {
			f(session)
		}
	}
}

// attributeOf returns an attribute of a span, or the zero Value.
func attributeOf(s sdktrace.ReadOnlySpan, key attribute.Key) attribute.Value {
	for _, kv := range s.Attributes() {
		if kv.Key == key {
			return kv.Value
		}
	}
	return attribute.Value{}
}

// Stats counts spans. An [Exporter] counts those that it was given, [Providers] all sampled spans that ended, and
// [Live] the copies of open spans that it made.
type Stats struct {
	// Ended is the number of spans.
	Ended int64
	// Exported is the number of spans in requests that the receiver accepted, Failed of those in requests that it did
	// not.
	Exported, Failed int64
	// Dropped is the number of spans that were not queued, because too much waited already. Of a Live it is the number
	// of changes that it did not send, because too many spans are open or the span is not of the SDK.
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
