package otelsetup

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Defaults of a Live.
const (
	DefaultHeartbeat    = 15 * time.Second
	DefaultMaxLiveSpans = 4096
)

const (
	// liveApart is how long after one copy of a span the next one leaves at the earliest.
	liveApart = 200 * time.Millisecond
	// liveBatch is how many copies are made at once.
	liveBatch = 64
	// liveTimeout bounds one request: what it holds is old by then.
	liveTimeout = 5 * time.Second
	// liveShared is the same where ended spans wait for it.
	liveShared = time.Second
	// liveShutdown is how long Shutdown of Providers waits for copies, which nobody needs any more.
	liveShutdown = time.Second
	// liveChildBytes bounds what waits of ended children. They go through the host's own pipeline as well.
	liveChildBytes = 16 << 20
	// liveRetry is how long after a failure copies leave again; twice as long after each further one, up to the heartbeat.
	liveRetry = time.Second
	// liveDelay is how long spans wait for others before they are sent, where copies of open ones do not wait.
	liveDelay = 500 * time.Millisecond
)

// LiveOption configures NewLive and WithLive.
type LiveOption interface {
	applyLive(*Live)
}

type liveOptionFunc func(*Live)

func (f liveOptionFunc) applyLive(l *Live) { f(l) }

// WithHeartbeat sets how often a copy of each open span is sent again. What was not heard of for three times as long counts as dead by who
// reads. Default, and below 1: DefaultHeartbeat; below 200 ms it is 200 ms.
func WithHeartbeat(d time.Duration) LiveOption {
	return liveOptionFunc(func(l *Live) {
		if l.heartbeat = max(d, liveApart); d < 1 {
			l.heartbeat = DefaultHeartbeat
		}
	})
}

// WithMaxLiveSpans bounds how many open spans are shown at a time. Of what opens beyond nothing is sent until it ends, and it is counted.
// Default, and below 1: DefaultMaxLiveSpans.
func WithMaxLiveSpans(n int) LiveOption {
	return liveOptionFunc(func(l *Live) {
		if l.max = n; n < 1 {
			l.max = DefaultMaxLiveSpans
		}
	})
}

// Live sends copies of open spans straight to an exporter, for otelagent.WithLive: at once when a span opens, at most every 200 ms when
// something of it changes, and every heartbeat. There is one place per open span, and the newest copy wins; a receiver that is away costs
// nothing but copies, which are counted and not told of. It never goes through the processors of a provider, and never keeps its caller
// waiting. Safe for concurrent use.
type Live struct {
	to        sdktrace.SpanExporter
	shared    bool // to is not ours
	heartbeat time.Duration
	max       int
	// flush makes the queue of Setup send what waits in it; nil where spans go through a provider that we know nothing of.
	flush func(context.Context) error
	lost  *lost // of Setup; nil with flush

	ctx     context.Context // ends with Shutdown
	cancel  context.CancelFunc
	wake    chan struct{} // has one when there is something to do
	push    chan struct{} // has one when the queue is to be flushed
	running sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	slots      map[*otelagent.OpenSpan]*slot
	due        slots
	children   []sdktrace.ReadOnlySpan
	childBytes int64

	sent, replaced, dropped, failed atomic.Int64
	err                             atomic.Pointer[error]
}

var _ otelagent.Live = (*Live)(nil)

// slot is the place of one open span.
type slot struct {
	of      *otelagent.OpenSpan
	span    sdktrace.ReadOnlySpan
	at      time.Time // when the next copy is due
	sent    time.Time // when the last one was made
	changed bool      // since then
	failed  uint      // copies since the last one that was taken
	index   int       // in due
}

// NewLive sends with e, which it takes over, for programs that have a provider of their own:
//
//	live := otelsetup.NewLive(exporter)
//	defer live.Shutdown(ctx)
//	tracer := otelagent.NewTracer(otelagent.WithLive(live))
//
// The spans must be those of the OpenTelemetry SDK; of others nothing is sent before they end. What carries a request leaves with e as well,
// at once, and a second time through the provider, which may wait. e should not be the exporter of a processor: it is called by a goroutine of
// its own.
func NewLive(e sdktrace.SpanExporter, opts ...LiveOption) *Live {
	if e == nil {
		e = noExporter{}
	}
	return newLive(e, nil, opts)
}

func newLive(e sdktrace.SpanExporter, flush func(context.Context) error, opts []LiveOption) *Live {
	l := &Live{
		to: e, heartbeat: DefaultHeartbeat, max: DefaultMaxLiveSpans, flush: flush,
		wake: make(chan struct{}, 1), push: make(chan struct{}, 1), slots: map[*otelagent.OpenSpan]*slot{},
	}
	for _, o := range opts {
		if o != nil {
			o.applyLive(l)
		}
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.running.Go(l.run)
	if flush != nil {
		go l.flushes() // ends with the last flush, for which nobody waits
	}
	return l
}

// Heartbeat is as in otelagent.Live.
func (l *Live) Heartbeat() time.Duration { return l.heartbeat }

// Changed is as in otelagent.Live.
func (l *Live) Changed(s *otelagent.OpenSpan, apart time.Duration) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	x := l.slots[s]
	if x == nil {
		span, ok := s.Span().(sdktrace.ReadOnlySpan)
		if !ok || len(l.slots) >= l.max {
			l.dropped.Add(1)
			return
		}
		x = &slot{of: s, span: span, at: now, changed: true}
		l.slots[s] = x
		heap.Push(&l.due, x)
		l.rouse()
		return
	}
	if x.changed {
		l.replaced.Add(1)
	}
	x.changed = true
	at := x.sent.Add(max(apart, liveApart))
	if now.After(at) {
		at = now
	}
	if at.Before(x.at) {
		x.at = at
		heap.Fix(&l.due, x.index)
		l.rouse()
	}
}

// Ended is as in otelagent.Live.
func (l *Live) Ended(s *otelagent.OpenSpan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.slots[s]; x != nil {
		delete(l.slots, s)
		heap.Remove(&l.due, x.index)
	}
}

// OnLost is that of the Providers that it was made by, which makes it an otelagent.Delivery; of NewLive it does nothing.
func (l *Live) OnLost(f func(session string, blocks []spans.BlockID)) {
	if l.lost != nil {
		l.lost.tell(f)
	}
}

// Flush is as in otelagent.Live.
func (l *Live) Flush(child trace.Span) {
	if l.flush != nil {
		select {
		case l.push <- struct{}{}:
		default:
		}
		return
	}
	span, ok := child.(sdktrace.ReadOnlySpan)
	if !ok {
		l.dropped.Add(1)
		return
	}
	size := spanSize(span)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.childBytes+size > liveChildBytes && l.childBytes > 0 {
		l.dropped.Add(1)
		return
	}
	l.children = append(l.children, span)
	l.childBytes += size
	l.rouse()
}

func (l *Live) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// flushes flushes the queue when asked to, until Shutdown.
func (l *Live) flushes() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.push:
			// What is under way when we end is not ours to cancel. What fails is counted by its exporter.
			_ = l.flush(context.WithoutCancel(l.ctx))
		}
	}
}

// run sends what is due, until Shutdown.
func (l *Live) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		taken, next := l.take(time.Now())
		copies := l.copies(taken)
		if len(copies) > 0 {
			l.sentAll(taken, l.export(copies))
		}
		if children := l.takeChildren(); len(children) > 0 {
			l.export(children)
		}
		if len(taken) > 0 {
			if l.ctx.Err() != nil {
				return
			}
			continue
		}
		timer.Reset(next)
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
	}
}

// take returns spans whose copies are due, some of them where there are many; when there are none, how long until then.
func (l *Live) take(now time.Time) (taken []*slot, next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.due) > 0 && len(taken) < liveBatch {
		x := l.due[0]
		if x.at.After(now) {
			return taken, x.at.Sub(now)
		}
		x.sent, x.changed, x.at = now, false, now.Add(l.heartbeat)
		heap.Fix(&l.due, 0)
		taken = append(taken, x)
	}
	return taken, l.heartbeat
}

// copies makes the copies. What has ended meanwhile is left out.
func (l *Live) copies(taken []*slot) []sdktrace.ReadOnlySpan {
	var batch []sdktrace.ReadOnlySpan
	for _, x := range taken {
		if c, ok := copyOf(x); ok {
			batch = append(batch, c)
		} else {
			l.Ended(x.of)
		}
	}
	return batch
}

// takeChildren takes the children that ended.
func (l *Live) takeChildren() []sdktrace.ReadOnlySpan {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.children
	l.children, l.childBytes = nil, 0
	return list
}

// sentAll hears whether copies of the spans were taken. If not, newer ones follow before the heartbeat.
func (l *Live) sentAll(taken []*slot, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range taken {
		if all {
			x.failed = 0
			continue
		}
		again := x.sent.Add(min(liveRetry<<min(x.failed, 10), l.heartbeat))
		x.failed++
		if l.slots[x.of] == x && again.Before(x.at) {
			x.at = again
			heap.Fix(&l.due, x.index)
		}
	}
}

// export sends a batch in requests that receivers take, and reports whether all of it was taken.
func (l *Live) export(batch []sdktrace.ReadOnlySpan) bool {
	all := true
	for len(batch) > 0 {
		n := request(batch)
		ctx, cancel := context.WithTimeout(l.ctx, liveTimeout)
		err := l.to.ExportSpans(ctx, batch[:n])
		cancel()
		if err == nil {
			l.sent.Add(int64(n))
		} else {
			all = false
			l.failed.Add(int64(n))
			l.err.Store(&err)
		}
		batch = batch[n:]
	}
	return all
}

// Shutdown ends sending, also what is under way, and shuts the exporter down. It waits for that until ctx ends. A second call does nothing.
func (l *Live) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.slots, l.due, l.children = map[*otelagent.OpenSpan]*slot{}, nil, nil
	l.mu.Unlock()
	l.cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.running.Wait()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if l.shared {
		return err
	}
	return errors.Join(err, l.to.Shutdown(ctx))
}

// LiveStats says what became of the copies of open spans. A copy more or less is no loss: what counts is the span when it ends.
type LiveStats struct {
	// Sent is the number of copies that the receiver took, Failed of those that it did not take.
	Sent, Failed int64
	// Replaced is the number of changes that needed no copy of their own, because one was about to leave.
	Replaced int64
	// Dropped is the number of changes of spans of which no copy leaves: beyond WithMaxLiveSpans, or not of the SDK.
	Dropped int64
	// LastError is why the last copies failed that did. Nil when none did.
	LastError error
}

// Stats returns what became of the copies so far.
func (l *Live) Stats() LiveStats {
	s := LiveStats{Sent: l.sent.Load(), Failed: l.failed.Load(), Replaced: l.replaced.Load(), Dropped: l.dropped.Load()}
	if err := l.err.Load(); err != nil {
		s.LastError = *err
	}
	return s
}

// slots is a heap by the time at which the next copy is due.
type slots []*slot

func (s slots) Len() int           { return len(s) }
func (s slots) Less(i, j int) bool { return s[i].at.Before(s[j].at) }

func (s slots) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

func (s *slots) Push(x any) {
	x.(*slot).index = len(*s)
	*s = append(*s, x.(*slot))
}

func (s *slots) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return x
}

// liveCopy is an open span as it stands: what never changes of it is read from the span itself.
type liveCopy struct {
	sdktrace.ReadOnlySpan
	attributes []attribute.KeyValue
	events     []sdktrace.Event
	end        time.Time
}

// copyOf returns a copy of what is open; false when it is not any more.
func copyOf(x *slot) (*liveCopy, bool) {
	more, ok := x.of.Copy()
	if !ok {
		return nil, false
	}
	c := &liveCopy{ReadOnlySpan: x.span, events: x.span.Events(), end: time.Now()}
	if start := x.span.StartTime(); c.end.Before(start) {
		c.end = start
	}
	own := x.span.Attributes()
	if x.of.Ended() { // what was read may be of its end, with all its content
		return nil, false
	}
	c.attributes = make([]attribute.KeyValue, 0, len(own)+len(more.Attributes))
	for _, kv := range own {
		if !has(more.Attributes, kv.Key) {
			c.attributes = append(c.attributes, kv)
		}
	}
	c.attributes = append(c.attributes, more.Attributes...)
	for _, e := range more.Events {
		c.events = append(c.events, sdktrace.Event{Name: e.Name, Time: c.end, Attributes: e.Attributes})
	}
	return c, true
}

func has(list []attribute.KeyValue, key attribute.Key) bool {
	for _, kv := range list {
		if kv.Key == key {
			return true
		}
	}
	return false
}

func (c *liveCopy) Attributes() []attribute.KeyValue { return c.attributes }
func (c *liveCopy) Events() []sdktrace.Event         { return c.events }
func (c *liveCopy) EndTime() time.Time               { return c.end }
func (c *liveCopy) Status() sdktrace.Status          { return sdktrace.Status{} }

// oneByOne lets two senders use an exporter that is not to be called by both at a time.
type oneByOne struct {
	sdktrace.SpanExporter
	turn chan struct{} // has one while the exporter is used
}

// ExportSpans waits for its turn, at most until ctx ends.
func (e *oneByOne) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.turn }()
	return e.SpanExporter.ExportSpans(ctx, batch)
}

// whenFree sends copies with an exporter that spans go through: never while it is used, and for no longer than what a span may wait.
type whenFree struct{ *oneByOne }

var errBusy = errors.New("otelsetup: the exporter is sending spans that have ended")

func (e whenFree) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	select {
	case e.turn <- struct{}{}:
	default:
		return errBusy
	}
	defer func() { <-e.turn }()
	ctx, cancel := context.WithTimeout(ctx, liveShared)
	defer cancel()
	return e.SpanExporter.ExportSpans(ctx, batch)
}
