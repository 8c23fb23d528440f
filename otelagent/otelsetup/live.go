package otelsetup

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/otelagent"
)

// DefaultHeartbeat is how often a copy of each open span is sent again by default.
const DefaultHeartbeat = 15 * time.Second

// The limits of a Live.
const (
	liveTick       = 200 * time.Millisecond // between two copies of a span, and how late a change is found
	liveRetry      = time.Second            // after a failure, doubled by each further one, up to the heartbeat
	liveTimeout    = 5 * time.Second        // of an export: its copies are old by then
	liveBatch      = 64                     // copies that are made at once
	maxLiveSpans   = 4096                   // that are shown at a time
	liveChildBytes = 16 << 20               // of ended children that wait
)

// Live sends copies of open spans to an exporter, for otelagent.WithLive: at once when a span opens, within 200 ms when
// it changes, and every heartbeat. It keeps one entry per open span, up to 4,096, and the newest state wins. It calls
// no processor of a provider and never makes its caller wait. Failures are counted and not logged. Safe for concurrent
// use.
type Live struct {
	to        *Exporter
	heartbeat time.Duration
	queue     *queue // of Setup, which children go through; nil for NewLive

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc
	wake   chan struct{} // holds one when there is something to send at once
	done   chan struct{} // closed when run has returned
	failed int           // exports in a row, for run

	mu         sync.Mutex
	open       map[*otelagent.OpenSpan]*openSpan
	opened     int // spans so far
	children   []sdktrace.ReadOnlySpan
	childBytes int64
	dropped    atomic.Int64
}

var _ otelagent.Live = (*Live)(nil)

// openSpan is the entry of an open span.
type openSpan struct {
	of     *otelagent.OpenSpan
	span   sdktrace.ReadOnlySpan
	number int
	sent   time.Time // when the last copy was made
	next   time.Time // when the next one is due
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
// The spans must be those of the OpenTelemetry SDK; of others nothing is sent before they end. Spans that carry a
// request are sent with e as well, at once, and a second time through the provider, which may wait. A goroutine of its
// own calls e, which should not be the exporter of a processor.
func NewLive(e sdktrace.SpanExporter, heartbeat time.Duration) *Live {
	return newLive(e, heartbeat, nil)
}

func newLive(e sdktrace.SpanExporter, heartbeat time.Duration, q *queue) *Live {
	if heartbeat < 1 {
		heartbeat = DefaultHeartbeat
	}
	l := &Live{to: WrapExporter(e), heartbeat: max(heartbeat, liveTick), queue: q,
		wake: make(chan struct{}, 1), done: make(chan struct{}), open: make(map[*otelagent.OpenSpan]*openSpan)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.run()
	return l
}

// Live returns the sender of copies, for otelagent.WithLive: nil without WithLive, and where nothing is sent.
func (p *Providers) Live() otelagent.Live {
	if p.live == nil {
		return nil
	}
	return p.live
}

// LiveStats returns the counts of copies so far; zero without WithLive. A copy that failed is no loss: the span follows
// when it ends.
func (p *Providers) LiveStats() Stats {
	if p.live == nil {
		return Stats{}
	}
	return p.live.Stats()
}

// Stats returns the counts of copies, and of the children that NewLive sends, so far.
func (l *Live) Stats() Stats {
	s := l.to.Stats()
	s.Dropped = l.dropped.Load()
	return s
}

// Heartbeat is as in otelagent.Live.
func (l *Live) Heartbeat() time.Duration { return l.heartbeat }

// Changed is as in otelagent.Live.
func (l *Live) Changed(s *otelagent.OpenSpan, apart time.Duration) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return
	}
	x := l.open[s]
	if x == nil {
		span, ok := s.Span().(sdktrace.ReadOnlySpan)
		if !ok || len(l.open) >= maxLiveSpans {
			l.dropped.Add(1)
			return
		}
		l.opened++
		x = &openSpan{of: s, span: span, number: l.opened, next: now}
		l.open[s] = x
	} else if at := x.sent.Add(max(apart, liveTick)); at.Before(x.next) {
		x.next = at
	}
	if !x.next.After(now) { // otherwise the tick finds it
		l.rouse()
	}
}

// Ended is as in otelagent.Live.
func (l *Live) Ended(s *otelagent.OpenSpan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, s)
}

// Flush is as in otelagent.Live.
func (l *Live) Flush(child trace.Span) {
	if l.queue != nil {
		return
	}
	span, ok := child.(sdktrace.ReadOnlySpan)
	if !ok {
		l.dropped.Add(1)
		return
	}
	m := measured(span)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil || l.childBytes > 0 && l.childBytes+m.size > liveChildBytes {
		l.dropped.Add(1)
		return
	}
	l.children, l.childBytes = append(l.children, m), l.childBytes+m.size
	l.rouse()
}

// OnLost is that of the Providers, which makes their Live an otelagent.Delivery; of NewLive it does nothing.
func (l *Live) OnLost(f func(session string)) {
	if l.queue != nil {
		l.queue.exporter.OnLost(f)
	}
}

func (l *Live) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run sends the copies that are due and the children, until Shutdown.
func (l *Live) run() {
	defer close(l.done)
	timer := time.NewTimer(l.heartbeat)
	defer timer.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
		due, next := l.due(time.Now())
		for list := range slices.Chunk(due, liveBatch) {
			l.send(list)
		}
		l.mu.Lock()
		children := l.children
		l.children, l.childBytes = nil, 0
		l.mu.Unlock()
		_ = l.export(children)
		timer.Reset(time.Until(next))
	}
}

// due returns the spans of which a copy is due, in the order in which they were opened, and when to look again.
func (l *Live) due(now time.Time) (list []*openSpan, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = now.Add(l.heartbeat)
	if len(l.open) > 0 {
		next = now.Add(liveTick)
	}
	for _, x := range l.open {
		if !x.next.After(now) {
			list = append(list, x)
		} else if x.next.Before(next) {
			next = x.next
		}
	}
	slices.SortFunc(list, func(a, b *openSpan) int { return cmp.Compare(a.number, b.number) })
	return list, next
}

// send sends a copy of each span that is still open. After a failure newer copies follow before the heartbeat.
func (l *Live) send(list []*openSpan) {
	var copies []sdktrace.ReadOnlySpan
	for _, x := range list {
		l.mu.Lock()
		x.sent = time.Now()
		x.next = x.sent.Add(l.heartbeat)
		l.mu.Unlock()
		if c := x.copy(); c != nil {
			copies = append(copies, c)
		} else {
			l.Ended(x.of)
		}
	}
	if l.export(copies) == nil {
		l.failed = 0
		return
	}
	again := time.Now().Add(liveRetry << min(l.failed, 10))
	l.failed++
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range list {
		if again.Before(x.next) {
			x.next = again
		}
	}
}

func (l *Live) export(batch []sdktrace.ReadOnlySpan) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.ctx, liveTimeout)
	defer cancel()
	return l.to.ExportSpans(ctx, batch)
}

// Shutdown ends sending, also exports under way, and shuts the exporter down. It waits for that until ctx ends. A
// second call does nothing.
func (l *Live) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	again := l.ctx.Err() != nil
	l.cancel()
	l.open, l.children = nil, nil
	l.mu.Unlock()
	if again {
		return nil
	}
	var err error
	select {
	case <-l.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return errors.Join(err, l.to.Shutdown(ctx))
}

// liveCopy is an open span as it stands; the span itself has the rest, which never changes.
type liveCopy struct {
	sdktrace.ReadOnlySpan
	attributes []attribute.KeyValue
	events     []sdktrace.Event
	end        time.Time
}

func (c *liveCopy) Attributes() []attribute.KeyValue { return c.attributes }
func (c *liveCopy) Events() []sdktrace.Event         { return c.events }
func (c *liveCopy) EndTime() time.Time               { return c.end }
func (c *liveCopy) Status() sdktrace.Status          { return sdktrace.Status{} }

// copy returns a copy of the span; nil when it has ended.
func (x *openSpan) copy() sdktrace.ReadOnlySpan {
	more, ok := x.of.Copy()
	if !ok {
		return nil
	}
	c := &liveCopy{ReadOnlySpan: x.span, events: x.span.Events(), end: time.Now()}
	own := x.span.Attributes()
	if x.of.Ended() { // the end may have added to them, with all its content
		return nil
	}
	c.attributes = append(c.attributes, more.Attributes...)
	for _, kv := range own {
		if !slices.ContainsFunc(more.Attributes, func(m attribute.KeyValue) bool { return m.Key == kv.Key }) {
			c.attributes = append(c.attributes, kv)
		}
	}
	if start := x.span.StartTime(); c.end.Before(start) {
		c.end = start
	}
	for _, e := range more.Events {
		c.events = append(c.events, sdktrace.Event{Name: e.Name, Time: c.end, Attributes: e.Attributes})
	}
	return c
}
