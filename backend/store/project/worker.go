package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

const (
	// DefaultQuiet is how long a session must not be touched before it is projected.
	DefaultQuiet = 2 * time.Second
	// DefaultMaxLag is after how long a session is projected although it is touched all the time.
	DefaultMaxLag = 30 * time.Second
	// retryAfter is when a session that failed is tried again; each time twice as long, up to maxRetryAfter.
	retryAfter    = 10 * time.Second
	maxRetryAfter = 10 * time.Minute
	// badData is a time to wait: until the session is touched.
	badData = -1
	// maxPending bounds the sessions a worker remembers; beyond it the store's own dirty marks are asked instead. A
	// session takes about 200 bytes: 2 MB.
	maxPending = 10_000
)

// Worker projects sessions in the background, one at a time. Use NewWorker. All methods are safe for concurrent use.
type Worker struct {
	st      store.Store
	onError func(error)

	mu      sync.Mutex
	pending map[session.Key]due
	failed  map[session.Key]time.Duration // how long those that failed last wait; at most maxPending
	sweepAt time.Time                     // when to ask the store for all dirty sessions; zero: not
	closed  bool

	wake   chan struct{} // holds one
	stop   chan struct{}
	done   chan struct{}
	cancel context.CancelFunc
}

// due says when a session is to be projected: at quiet, which moves, but no later than latest.
type due struct{ quiet, latest time.Time }

// NewWorker starts a worker. It begins with the sessions that are stale already, for instance since a crash. onError,
// if not nil, gets the error of each projection that failed; the worker's goroutine calls it and waits for it. A
// projection that failed is tried again after 10 s, then after twice as long each time, up to 10 min, and whenever the
// session is touched; one that failed because of its data (store.ErrData) only when it is touched. Close must be
// called, before the store is closed.
func NewWorker(st store.Store, onError func(error)) *Worker {
	if onError == nil {
		onError = func(error) {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Worker{
		st: st, onError: onError,
		pending: map[session.Key]due{}, failed: map[session.Key]time.Duration{}, sweepAt: time.Now(),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), cancel: cancel,
	}
	w.wake <- struct{}{}
	go w.run(ctx)
	return w
}

// Touch informs the worker that sessions were Put to. It does not block and keeps nothing of keys. After Close it does
// nothing.
func (w *Worker) Touch(keys ...session.Key) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range keys {
		w.touch(k, now, DefaultQuiet)
	}
}

// TouchBatch is Touch for the sessions of a batch; those of which it ends a run are projected at once.
func (w *Worker) TouchBatch(b session.Batch) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Kind == session.KindRun && r.Known != spans.KnownLive {
			w.touch(r.Session, now, 0)
		} else if i == 0 || r.Session != b.Rows[i-1].Session {
			w.touch(r.Session, now, DefaultQuiet)
		}
	}
	for i := range b.Blocks {
		if i == 0 || b.Blocks[i].Session != b.Blocks[i-1].Session {
			w.touch(b.Blocks[i].Session, now, DefaultQuiet)
		}
	}
}

// touch is called under the lock. With no wait the session stays due at once, whatever touches it afterwards.
func (w *Worker) touch(k session.Key, now time.Time, wait time.Duration) {
	if w.closed {
		return
	}
	if w.failed[k] == badData {
		delete(w.failed, k) // what came may mend it
	}
	d, ok := w.pending[k]
	switch {
	case !ok && len(w.pending) >= maxPending:
		if w.sweepAt.IsZero() {
			w.sweepAt = now.Add(DefaultQuiet)
		}
		return
	case !ok:
		d.latest = now.Add(DefaultMaxLag)
	}
	d.quiet = now.Add(wait)
	if wait == 0 {
		d.latest = now
	}
	w.pending[k] = d
	if !ok || wait == 0 {
		w.wakeUp()
	}
}

func (w *Worker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Close stops the worker and brings every dirty session of the store up to date, so that after it returned nil all
// projections are current; those that fail keep no other from it, and the error names them. When ctx ends before
// that it gives up with an error; what is left stays dirty. Closing twice is harmless.
func (w *Worker) Close(ctx context.Context) error {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	w.mu.Unlock()
	if first {
		close(w.stop)
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		w.cancel()
		<-w.done
	}
	w.cancel()
	if !first {
		return nil
	}
	return Refresh(ctx, w.st)
}

func (w *Worker) run(ctx context.Context) {
	defer close(w.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-w.wake:
		case <-timer.C:
		}
		w.round(ctx)
		if wait, ok := w.next(); ok {
			timer.Reset(wait)
		}
	}
}

// round projects what is due.
func (w *Worker) round(ctx context.Context) {
	w.mu.Lock()
	now := time.Now()
	sweep := !w.sweepAt.IsZero() && !w.sweepAt.After(now)
	if sweep {
		w.sweepAt = time.Time{}
	}
	var keys []session.Key
	for k, d := range w.pending {
		if !d.quiet.After(now) || !d.latest.After(now) {
			keys = append(keys, k)
			delete(w.pending, k)
		}
	}
	w.mu.Unlock()

	w.project(ctx, keys)
	if !sweep {
		return
	}
	stale, err := store.Stale(ctx, w.st)
	if err != nil {
		w.onError(fmt.Errorf("project: %w", err))
	}
	w.mu.Lock()
	if err != nil {
		w.sweepAt = time.Now().Add(retryAfter)
	}
	keys = slices.DeleteFunc(stale, func(k session.Key) bool { // of those that wait the time will come
		_, waits := w.pending[k]
		return waits || w.failed[k] == badData
	})
	w.mu.Unlock()
	w.project(ctx, keys)
}

// project projects sessions until Close is called, which does the rest.
func (w *Worker) project(ctx context.Context, keys []session.Key) {
	for _, k := range keys {
		select {
		case <-w.stop:
			return
		default:
		}
		w.settle(k, Session(ctx, w.st, k))
	}
}

// settle reports an error and decides when the session is tried again.
func (w *Worker) settle(k session.Key, err error) {
	if err != nil {
		w.onError(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, touched := w.pending[k] // meanwhile
	wait := min(max(retryAfter, 2*w.failed[k]), maxRetryAfter)
	switch {
	case err == nil, errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrReadOnly): // trying again would not help
		delete(w.failed, k)
		return
	case errors.Is(err, store.ErrData) && touched:
		return
	case errors.Is(err, store.ErrData):
		wait = badData
	case !touched && len(w.pending) < maxPending:
		again := time.Now().Add(wait)
		w.pending[k] = due{again, again}
	}
	if _, ok := w.failed[k]; ok || len(w.failed) < maxPending {
		w.failed[k] = wait
	}
}

// next returns how long to sleep, at least a little, so that many sessions are looked at together.
func (w *Worker) next() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.sweepAt
	for _, d := range w.pending {
		t := d.quiet
		if d.latest.Before(t) {
			t = d.latest
		}
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	if first.IsZero() {
		return 0, false
	}
	return max(time.Until(first), DefaultQuiet/16), true
}
