package retention

import (
	"context"
	"time"

	"github.com/otelagent/otelagent/backend/store"
)

// DefaultInterval is how often a Sweeper applies its policy.
const DefaultInterval = 10 * time.Minute

// Sweeper applies a policy in the background: at once and then at an interval. Use NewSweeper.
type Sweeper struct {
	st       store.Store
	policy   Policy
	interval time.Duration
	onSweep  func(Result, time.Duration, error)

	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{}
}

// NewSweeper starts a sweeper, which waits that long after one Apply before the next: DefaultInterval for zero or less.
// It does not block. onSweep, if not nil, gets the result of each Apply, how long it took, and its error, which the
// next one may not have; the sweeper's goroutine calls it and waits for it, but not for an Apply that Close ended
// before it did anything. Close must be called, before the store is closed.
func NewSweeper(st store.Store, p Policy, interval time.Duration, onSweep func(Result, time.Duration, error)) *Sweeper {
	if interval <= 0 {
		interval = DefaultInterval
	}
	if onSweep == nil {
		onSweep = func(Result, time.Duration, error) {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sweeper{
		st: st, policy: p, interval: interval, onSweep: onSweep,
		cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	go s.run(ctx)
	return s
}

func (s *Sweeper) run(ctx context.Context) {
	defer close(s.done)
	timer := time.NewTimer(s.interval)
	defer timer.Stop()
	for {
		start := time.Now()
		result, err := Apply(ctx, s.st, start, s.policy)
		took := time.Since(start)
		if ctx.Err() == nil || result != (Result{}) {
			s.onSweep(result, took, err)
		}
		timer.Reset(s.interval)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			continue
		case <-s.wake:
		}
		// Not at once: Wake may come with every write.
		timer.Reset(min(s.interval, max(wakeAfter, 4*took)))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// wakeAfter is how long a sweeper that is woken rests after a sweep, and four times as long as that took where that is
// more.
const wakeAfter = time.Second

// Wake makes the next sweep come soon, for instance because the store is full. It does not block, and may be called at
// any time, any number of times.
func (s *Sweeper) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close stops the sweeper, in the middle of an Apply too; the next program that sweeps goes on from there. It waits
// until nothing of it runs any more, or with an error until ctx ends. Closing twice is harmless. Safe for concurrent
// use.
func (s *Sweeper) Close(ctx context.Context) error {
	s.cancel()
	select {
	case <-s.done:
		return nil
	default:
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
