package agentsessionexporter

import (
	"context"
	"sync"
	"time"

	"github.com/otelagent/otelagent/backend/store"
)

const (
	// maxRejects bounds the rejects that wait to be written: 200 every two seconds is what a flood of bad spans may cost.
	maxRejects = 200
	// rejectsTimeout bounds one write of them.
	rejectsTimeout = 5 * time.Second
)

// rejects takes rejects without blocking and writes them a little later, so that a batch neither waits for them nor fails with
// them. What does not fit, or the store does not take, is counted.
type rejects struct {
	dropped func(n int)

	mu   sync.Mutex
	wait []store.Reject
}

func newRejects(dropped func(int)) *rejects { return &rejects{dropped: dropped} }

// add takes l, and as many more that nobody described.
func (r *rejects) add(l []store.Reject, more int) {
	r.mu.Lock()
	n := min(len(l), maxRejects-len(r.wait))
	r.wait = append(r.wait, l[:n]...)
	r.mu.Unlock()
	if lost := len(l) - n + more; lost > 0 {
		r.dropped(lost)
	}
}

func (r *rejects) take() []store.Reject {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.wait
	r.wait = nil
	return l
}

// run writes what waits until ctx ends; what is left then flush writes.
func (r *rejects) run(ctx context.Context, st store.Rejecter, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			// Not ctx: what was taken is written, also when the exporter stops just now.
			r.flush(context.WithoutCancel(ctx), st)
		}
	}
}

func (r *rejects) flush(ctx context.Context, st store.Rejecter) {
	l := r.take()
	if len(l) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rejectsTimeout)
	defer cancel()
	if st.PutRejects(ctx, l) != nil {
		r.dropped(len(l))
	}
}

// drop counts what waits as lost.
func (r *rejects) drop() {
	if n := len(r.take()); n > 0 {
		r.dropped(n)
	}
}
