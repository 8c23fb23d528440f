package otelsetup

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// DefaultHeartbeat is how often a copy of each open span is sent again by default.
const DefaultHeartbeat = 15 * time.Second

// The limits of a Live.
const (
	liveTick     = 200 * time.Millisecond // between two copies of a span
	livePause    = 10 * time.Millisecond  // between two exports: what is over within it costs no copy
	liveRetry    = time.Second            // after a failure, doubled by each further one up to 16 s or the heartbeat
	liveTimeout  = 5 * time.Second        // of an export: its copies are old by then
	liveBatch    = 64                     // copies that are made at once
	maxLiveSpans = 4096                   // that are open at a time
)

// Live sends copies of open spans to an exporter, for otelagent.WithLive: within 10 ms when a span opens, within 200 ms
// when it changes, and every heartbeat. A span that ends before has no copy. Live keeps one entry per open span, up to
// 4,096, and the newest state wins. It calls no processor of a provider and never makes its caller wait. Failures are
// counted and not logged. Safe for concurrent use.
type Live struct {
	to        *Exporter
	heartbeat time.Duration

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc
	wake   chan struct{} // holds one when the next copy is due earlier than before
	done   chan struct{} // closed when run has returned

	mu      sync.Mutex
	open    []openSpan // in the order in which they were opened
	dropped atomic.Int64
}

var _ writer.Live = (*Live)(nil)

// openSpan is the entry of an open span.
type openSpan struct {
	*writer.OpenSpan
	span sdktrace.ReadOnlySpan
	sent time.Time // when the last copy was made
	next time.Time // when the next one is due
}

// NewLive sends with e, which it shuts down, for programs that have a provider of their own:
//
//	live := otelsetup.NewLive(exporter, 0)
//	defer live.Shutdown(ctx)
//	tracer := otelagent.NewTracer(otelagent.WithLive(live))
//
// It sends a copy of each open span again every heartbeat. Readers take an agent for dead that is silent for three
// times as long. Below 1 it is DefaultHeartbeat, and 200 ms at least.
//
// The spans must be those of the OpenTelemetry SDK; of others nothing is sent before they end. A goroutine of its own
// calls e, which should not be the exporter of a processor. Spans that carry a request ahead of its turn go through the
// provider: OTEL_BSP_SCHEDULE_DELAY=200 makes its batcher send them as soon as that of Setup does.
func NewLive(e sdktrace.SpanExporter, heartbeat time.Duration) *Live {
	if heartbeat < 1 {
		heartbeat = DefaultHeartbeat
	}
	l := &Live{to: WrapExporter(e), heartbeat: max(heartbeat, liveTick),
		wake: make(chan struct{}, 1), done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.run()
	return l
}

// Live returns the sender of copies, for otelagent.WithLive: nil without WithLive, and where nothing is sent.
func (p *Providers) Live() writer.Live {
	if p.live == nil {
		return nil
	}
	return p.live
}

// Stats returns the counts of copies so far.
func (l *Live) Stats() Stats {
	s := l.to.Stats()
	s.Dropped = l.dropped.Load()
	return s
}

// Heartbeat is as in writer.Live.
func (l *Live) Heartbeat() time.Duration { return l.heartbeat }

// Changed is as in writer.Live.
func (l *Live) Changed(s *writer.OpenSpan, apart time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.entry(s); x != nil {
		at := x.sent.Add(max(apart, liveTick))
		if !at.Before(x.next) {
			return
		}
		x.next = at
	} else {
		span, ok := s.Span().(sdktrace.ReadOnlySpan)
		if !ok || len(l.open) >= maxLiveSpans {
			l.dropped.Add(1)
			return
		}
		l.open = append(l.open, openSpan{OpenSpan: s, span: span})
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// entry returns the entry of a span; nil without one. The caller holds the lock.
func (l *Live) entry(s *writer.OpenSpan) *openSpan {
	i := slices.IndexFunc(l.open, func(x openSpan) bool { return x.OpenSpan == s })
	if i < 0 {
		return nil
	}
	return &l.open[i]
}

// Ended is as in writer.Live.
func (l *Live) Ended(s *writer.OpenSpan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = slices.DeleteFunc(l.open, func(x openSpan) bool { return x.OpenSpan == s })
}

// run sends the copies that are due, until Shutdown. After a failure it waits a while, and the copies are due again.
func (l *Live) run() {
	defer close(l.done)
	for failed := 0; ; failed++ {
		due, wait := l.due(time.Now())
		wake := l.wake
		if len(due) > 0 {
			wait, wake = livePause, nil
		}
		if l.send(due) == nil {
			failed = -1
		} else {
			wait, wake = min(liveRetry<<min(failed, 4), l.heartbeat), nil
			l.mu.Lock()
			for _, sent := range due {
				if x := l.entry(sent.OpenSpan); x != nil {
					x.next = x.sent
				}
			}
			l.mu.Unlock()
		}
		select {
		case <-l.ctx.Done():
			return
		case <-wake:
		case <-time.After(wait):
		}
	}
}

// due returns the spans of which a copy is due, and the time until the next copy of another.
func (l *Live) due(now time.Time) (list []openSpan, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait = l.heartbeat
	for i := range l.open {
		x := &l.open[i]
		if x.next.After(now) {
			wait = min(wait, x.next.Sub(now))
			continue
		}
		x.sent, x.next = now, now.Add(l.heartbeat)
		list = append(list, *x)
	}
	return list, wait
}

// send sends a copy of each span that is still open.
func (l *Live) send(due []openSpan) error {
	for list := range slices.Chunk(due, liveBatch) {
		var copies []sdktrace.ReadOnlySpan
		for _, x := range list {
			if c := x.copy(); c != nil {
				copies = append(copies, c)
			}
		}
		if len(copies) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(l.ctx, liveTimeout)
		err := l.to.ExportSpans(ctx, copies)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// Shutdown ends sending, also exports under way, and shuts the exporter down. It waits for that until ctx ends.
func (l *Live) Shutdown(ctx context.Context) error {
	l.cancel()
	var err error
	select {
	case <-l.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return errors.Join(err, l.to.Shutdown(ctx))
}

// liveCopy is an open span as it is; the span itself has the rest, which never changes.
type liveCopy struct {
	sdktrace.ReadOnlySpan
	list   []attribute.KeyValue
	events []sdktrace.Event
	end    time.Time
}

func (c liveCopy) Attributes() []attribute.KeyValue { return c.list }

func (c liveCopy) Events() []sdktrace.Event { return c.events }
func (c liveCopy) EndTime() time.Time       { return c.end }
func (c liveCopy) Status() sdktrace.Status  { return sdktrace.Status{} }

// copy returns a copy of the span; nil when it has ended.
func (x *openSpan) copy() sdktrace.ReadOnlySpan {
	c := liveCopy{ReadOnlySpan: x.span}
	var own []attribute.KeyValue
	more, blocks, ok := x.Copy(func() {
		own, c.events = slices.Clone(x.span.Attributes()), slices.Clone(x.span.Events())
	})
	if !ok {
		return nil
	}
	c.list, c.end = more, time.Now()
	for _, kv := range own {
		if !slices.ContainsFunc(more, func(m attribute.KeyValue) bool { return m.Key == kv.Key }) {
			c.list = append(c.list, kv)
		}
	}
	if start := x.span.StartTime(); c.end.Before(start) {
		c.end = start
	}
	if blocks != nil {
		c.events = append(c.events, sdktrace.Event{Name: spans.EventBlocks, Time: c.end, Attributes: blocks})
	}
	return c
}
