package project

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

const (
	// DefaultQuiet is how long a session must not be touched before it is projected.
	DefaultQuiet = 2 * time.Second
	// DefaultMaxLag is after how long a session is projected although it is touched all the time.
	DefaultMaxLag = 30 * time.Second
	// endedWait is after how long a session is projected of which a run ended. Runs that end one after the other, as
	// sub-agents do, cost one projection, and a burst of spans is stored before it is projected.
	endedWait = 500 * time.Millisecond
	// retryAfter is when a session that failed is tried again; each time twice as long, up to maxRetryAfter.
	retryAfter    = 10 * time.Second
	maxRetryAfter = 10 * time.Minute
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
	sweepAt time.Time // when to ask the store for all dirty sessions; zero: not
	closed  bool

	wake   chan struct{} // holds one
	stop   chan struct{}
	done   chan struct{}
	cancel context.CancelFunc
}

// due says when a session is to be projected: at the time at, which moves, but no later than latest. wait is how long
// it waited after it failed. again says that nothing was Put to it: another projection made it stale.
type due struct {
	at, latest time.Time
	wait       time.Duration
	again      bool
}

func (d due) next() time.Time {
	if d.latest.Before(d.at) {
		return d.latest
	}
	return d.at
}

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
		pending: map[session.Key]due{}, sweepAt: time.Now(),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), cancel: cancel,
	}
	w.wake <- struct{}{}
	go w.run(ctx)
	return w
}

// TouchBatch informs the worker that a batch was Put. The worker projects a session of which the batch ends a run
// within half a second. TouchBatch does not block and keeps nothing of the batch. After Close it does nothing.
func (w *Worker) TouchBatch(b session.Batch) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Kind == session.KindRun && r.Known != spans.KnownLive {
			w.touch(r.Session, now, endedWait, endedWait)
		} else if i == 0 || r.Session != b.Rows[i-1].Session {
			w.touch(r.Session, now, DefaultQuiet, DefaultMaxLag)
		}
	}
	for i := range b.Blocks {
		if i == 0 || b.Blocks[i].Session != b.Blocks[i-1].Session {
			w.touch(b.Blocks[i].Session, now, DefaultQuiet, DefaultMaxLag)
		}
	}
}

// touch is called under the lock. The session is due after wait, or after maxLag where others touch it meanwhile.
func (w *Worker) touch(k session.Key, now time.Time, wait, maxLag time.Duration) {
	d, ok := w.pending[k]
	switch {
	case w.closed:
		return
	case !ok && len(w.pending) >= maxPending:
		if w.sweepAt.IsZero() {
			w.sweepAt = now.Add(DefaultQuiet)
		}
		return
	}
	sooner := !ok || now.Add(maxLag).Before(d.latest)
	if sooner {
		d.latest = now.Add(maxLag)
	}
	d.at, d.again = now.Add(wait), false
	w.pending[k] = d
	if sooner {
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
	for first := true; ; {
		select {
		case <-w.stop:
			return
		case <-w.wake:
		case <-timer.C:
		}
		first = !w.round(ctx, first) && first
		if wait, ok := w.next(); ok {
			timer.Reset(wait)
		}
	}
}

// mappedBefore adds to stale the sessions that other rules mapped than those of this program.
func (w *Worker) mappedBefore(ctx context.Context, stale []session.Key) ([]session.Key, error) {
	q := store.Query{AllTenants: true, NotMapped: foreign.Default().Version()}
	for m, err := range w.st.Sessions(ctx, q) {
		if err != nil {
			return stale, err
		}
		stale = append(stale, m.Key)
	}
	return stale, nil
}

// round projects what is due, and reports whether it asked the store for what is stale. The first such round also
// projects what other rules mapped.
func (w *Worker) round(ctx context.Context, first bool) (asked bool) {
	w.mu.Lock()
	now := time.Now()
	sweep := !w.sweepAt.IsZero() && !w.sweepAt.After(now)
	if sweep {
		w.sweepAt = time.Time{}
	}
	ready := map[session.Key]due{}
	for k, d := range w.pending {
		if !d.next().After(now) {
			ready[k] = d
			delete(w.pending, k)
		}
	}
	w.mu.Unlock()
	p := newProjector(w.st, slices.Collect(maps.Keys(ready)))
	for k, d := range ready {
		w.project(ctx, p, k, d.wait)
	}
	for k, d := range ready {
		if !d.again {
			w.spawned(ctx, k)
		}
	}
	if !sweep {
		return false
	}
	stale, err := store.Stale(ctx, w.st)
	if err == nil && first {
		stale, err = w.mappedBefore(ctx, stale)
	}
	if err != nil {
		w.onError(fmt.Errorf("project: %w", err))
		w.mu.Lock()
		w.sweepAt = time.Now().Add(retryAfter)
		w.mu.Unlock()
	}
	p = newProjector(w.st, stale)
	for _, k := range stale {
		w.mu.Lock()
		_, waits := w.pending[k]
		w.mu.Unlock()
		if !waits { // else its time will come
			w.project(ctx, p, k, 0)
		}
	}
	return err == nil
}

// spawned notes the sub-agents that the projection of their parent made stale: their rows in the tables of the agent
// guide name a message of it, which may be there now. They are projected at most every DefaultMaxLag, as some calls are
// never found.
func (w *Worker) spawned(ctx context.Context, k session.Key) {
	if c, ok := w.st.(chatTables); !ok || !c.ChatTables() {
		return
	}
	for m, err := range w.st.Sessions(ctx, store.Query{Tenant: k.Tenant, Parent: k.ID, Stale: true}) {
		if err != nil {
			return // the next projection of k comes here again
		}
		w.mu.Lock()
		if _, waits := w.pending[m.Key]; !waits && len(w.pending) < maxPending {
			at := time.Now().Add(DefaultMaxLag)
			w.pending[m.Key] = due{at: at, latest: at, again: true}
		}
		w.mu.Unlock()
	}
}

// project projects a session unless Close was called, which does the rest. wait is how long it waited after it failed.
func (w *Worker) project(ctx context.Context, p *projector, k session.Key, wait time.Duration) {
	select {
	case <-w.stop:
		return
	default:
	}
	err := p.project(ctx, k)
	if err == nil {
		return
	}
	w.onError(err)
	if errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrReadOnly) || errors.Is(err, store.ErrData) {
		return // trying again would not help
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, touched := w.pending[k]; !touched && len(w.pending) < maxPending {
		wait = min(max(retryAfter, 2*wait), maxRetryAfter)
		again := time.Now().Add(wait)
		w.pending[k] = due{at: again, latest: again, wait: wait}
	}
}

// next returns how long to sleep, at least a little, so that many sessions are looked at together.
func (w *Worker) next() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.sweepAt
	for _, d := range w.pending {
		if t := d.next(); first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return max(time.Until(first), DefaultQuiet/16), !first.IsZero()
}
