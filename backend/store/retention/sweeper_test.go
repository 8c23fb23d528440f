package retention_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/retention"
	"github.com/otelagent/otelagent/internal/must"
)

// reports collects what a sweeper reports.
type reports struct {
	mu      sync.Mutex
	results []retention.Result
	errs    []error
}

func (x *reports) swept(r retention.Result, _ time.Duration, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.results, x.errs = append(x.results, r), append(x.errs, err)
}

// TestWake: a sweeper that is woken sweeps soon, not at once and not for every call.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x reports
		st := memstore.New()
		s := retention.NewSweeper(st, retention.Policy{MaxAge: time.Hour}, time.Hour, x.swept)
		synctest.Wait()
		add(t, st, key("a"), time.Now().Add(-2*time.Hour), "")
		for range 100 {
			s.Wake()
		}
		synctest.Wait()
		want(t, "not at once", left(t, st), "a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want(t, "soon", left(t, st), "")
		time.Sleep(10 * time.Minute)
		x.mu.Lock()
		if n := len(x.results); n > 3 {
			t.Errorf("%d sweeps, want at most 3: the first, and two for all who woke it", n)
		}
		x.mu.Unlock()
		must.Do(t, s.Close(t.Context()))
	})
}

func TestSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x reports
		var fails atomic.Bool
		disk := errors.New("disk")
		st := &hooked{Store: memstore.New(), beforeDelete: func(session.Key) error {
			if fails.Load() {
				return disk
			}
			return nil
		}}
		add(t, st, key("a"), time.Now().Add(-2*time.Hour), "")
		add(t, st, key("b"), time.Now().Add(-30*time.Minute), "")
		s := retention.NewSweeper(st, retention.Policy{MaxAge: time.Hour}, 0, x.swept)
		synctest.Wait()
		want(t, "at once", left(t, st), "b")
		time.Sleep(29 * time.Minute)
		want(t, "not yet", left(t, st), "b")
		time.Sleep(12 * time.Minute)
		want(t, "at an interval", left(t, st), "")
		add(t, st, key("c"), time.Now().Add(-2*time.Hour), "")
		fails.Store(true)
		time.Sleep(retention.DefaultInterval)
		synctest.Wait()
		fails.Store(false)
		time.Sleep(retention.DefaultInterval)
		synctest.Wait()
		want(t, "after an error", left(t, st), "")
		for range 2 {
			must.Do(t, s.Close(t.Context()))
		}
		add(t, st, key("d"), time.Now().Add(-2*time.Hour), "")
		time.Sleep(24 * time.Hour)
		want(t, "after Close", left(t, st), "d")
		n := len(x.errs)
		if n != 7 || x.errs[0] != nil || !errors.Is(x.errs[n-2], disk) || x.errs[n-1] != nil {
			t.Errorf("reported %v", x.errs)
		}
		deleted := 0
		for _, r := range x.results {
			deleted += r.ByAge
		}
		want(t, "deleted, as reported", deleted, 3)
	})
}

// TestSweeperClose closes a sweeper in the middle of its work: it reports what it did, and the next goes on.
func TestSweeperClose(t *testing.T) {
	var x reports
	st := &hooked{Store: memstore.New()}
	for n := range 20 {
		add(t, st, key(fmt.Sprint("s", n)), time.Now().Add(-2*time.Hour), "")
	}
	inside, goOn := make(chan struct{}), make(chan struct{})
	n := 0
	st.beforeDelete = func(session.Key) error {
		if n++; n == 10 {
			close(inside)
			<-goOn
		}
		return nil
	}
	s := retention.NewSweeper(st, retention.Policy{MaxAge: time.Hour}, 0, x.swept)
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close while a store hangs: %v", err)
	}
	close(goOn)
	must.Do(t, s.Close(t.Context()))
	if len(x.results) != 1 || x.results[0].Sessions != 9 || !errors.Is(x.errs[0], context.Canceled) {
		t.Errorf("reported %v, %v", x.results, x.errs)
	}
	want(t, "left", len(strings.Fields(left(t, st))), 11)
}
