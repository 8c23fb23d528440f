package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

func (u suite) leftEarly(t *testing.T, s store.Store) {
	k := key("a")
	for n := range u.times(50, 5) {
		put(t, s, []session.Row{Row(k, n), Row(key(fmt.Sprint("x", n)), n)}, Block(k, fmt.Sprint(n)))
	}
	for range u.times(100, 20) {
		for _, err := range s.Rows(t.Context(), k) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		for _, err := range s.Blocks(t.Context(), k) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		for _, err := range s.Sessions(t.Context(), store.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	put(t, s, []session.Row{Row(k, 1000)})
}

func callsInside(t *testing.T, s store.Store) {
	for n := range 5 {
		put(t, s, []session.Row{Row(key(fmt.Sprint("s", n)), n)})
	}
	seen := 0
	for sum, err := range s.Sessions(t.Context(), store.Query{AllTenants: true, Stale: true}) {
		if err != nil {
			t.Fatal(err)
		}
		k := sum.Key
		m := mark(t, s, k)
		for _, err := range s.Rows(t.Context(), k) {
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, []session.Row{Row(key("new"), seen)})
		}
		project(t, s, k, store.SummaryUpdate{Revision: m})
		if err := store.Delete(t.Context(), s, key("new")); err != nil {
			t.Fatal(err)
		}
		seen++
	}
	if seen != 5 {
		t.Errorf("%d dirty sessions, want the 5 that were there at the start", seen)
	}
}

func cancelled(t *testing.T, s store.Store) {
	k := key("a")
	put(t, s, []session.Row{Row(k, 1), Row(k, 2), Row(k, 3)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range s.Rows(ctx, k) {
		if n++; n == 1 {
			cancel()
			continue
		}
		wantErr(t, "Rows", err, context.Canceled)
	}
	if n != 2 {
		t.Errorf("%d steps after a cancellation at the first, want 2", n)
	}
	wantErr(t, "Put", s.Put(ctx, session.Batch{Rows: []session.Row{Row(key("b"), 1)}}), context.Canceled)
	_, err := s.Revision(ctx, k)
	wantErr(t, "Revision", err, context.Canceled)
	wantErr(t, "SetSummary", s.SetSummary(ctx, k, store.SummaryUpdate{Revision: 1}), context.Canceled)
	wantErr(t, "Delete", store.Delete(ctx, s, k), context.Canceled)
	for _, err := range s.Sessions(ctx, store.Query{}) {
		wantErr(t, "Sessions", err, context.Canceled)
	}
	equal(t, "sessions", ids(t, s, store.Query{}), "a")

	// Cancelled at any moment: wholly or not at all.
	var list []session.Row
	for n := range 2000 {
		list = append(list, Row(key("big"), n))
	}
	for i := range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*i)*time.Millisecond)
		err := s.Put(ctx, session.Batch{Rows: list})
		cancel()
		switch n := len(rows(t, s, key("big"))); {
		case err == nil && n != len(list):
			t.Errorf("Put succeeded and kept %d of %d rows", n, len(list))
		case err != nil && n != 0 && n != len(list):
			t.Errorf("Put failed with %v and kept %d of %d rows", err, n, len(list))
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("Put: %v", err)
		}
		if err := store.Delete(t.Context(), s, key("big")); err != nil {
			t.Fatal(err)
		}
	}
}

// cancelledThenUsed cancels writes while they begin, where a store that notes its transaction too late would keep it.
func (u suite) cancelledThenUsed(t *testing.T, s store.Store) {
	k := key("a")
	for i := range u.times(500, 50) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i%100)*time.Microsecond, cancel)
		err := s.Put(ctx, session.Batch{Rows: []session.Row{Row(k, i)}})
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("Put %d: %v", i, err)
		}
	}
	put(t, s, []session.Row{Row(k, 0)})
}

func (u suite) concurrent(t *testing.T, s store.Store) {
	workers, batches := u.times(8, 4), u.times(20, 4)
	k := key("shared")
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := range batches {
				own := key(fmt.Sprint("own", w))
				r := Row(k, n)
				r.End += int64(w)
				err := s.Put(t.Context(), session.Batch{
					Rows:   []session.Row{r, Row(own, n)},
					Blocks: []session.Block{Block(k, fmt.Sprint(n)), Block(own, fmt.Sprint(n))},
				})
				if err != nil {
					t.Errorf("Put: %v", err)
					return
				}
				if m, err := s.Revision(t.Context(), own); err != nil {
					t.Errorf("Revision: %v", err)
				} else if err := s.SetSummary(t.Context(), own, store.SummaryUpdate{Revision: m}); err != nil {
					t.Errorf("SetSummary: %v", err)
				}
				for _, err := range s.Rows(t.Context(), k) {
					if err != nil {
						t.Errorf("Rows: %v", err)
					}
				}
				for _, err := range s.Sessions(t.Context(), store.Query{}) {
					if err != nil {
						t.Errorf("Sessions: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	var want []session.Row
	for n := range batches {
		r := Row(k, n)
		r.End += int64(workers) - 1
		want = append(want, r)
	}
	equal(t, "rows of the shared session", rows(t, s, k), canonical(want))
	if n := len(blocks(t, s, k)); n != batches {
		t.Errorf("%d blocks, want %d", n, batches)
	}
	equal(t, "dirty", dirtyKeys(t, s), "shared")
}

func closed(t *testing.T, s store.Store) {
	k := key("a")
	put(t, s, []session.Row{Row(k, 1)})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	wantErr(t, "Put", s.Put(t.Context(), session.Batch{Rows: []session.Row{Row(k, 1)}}), store.ErrClosed)
	wantErr(t, "Put of nothing", s.Put(t.Context(), session.Batch{}), store.ErrClosed)
	_, err := s.Revision(t.Context(), k)
	wantErr(t, "Revision", err, store.ErrClosed)
	wantErr(t, "SetSummary", s.SetSummary(t.Context(), k, store.SummaryUpdate{}), store.ErrClosed)
	wantErr(t, "Delete", store.Delete(t.Context(), s, k), store.ErrClosed)
	_, err = s.Size(t.Context(), k)
	wantErr(t, "Size", err, store.ErrClosed)
	errs := map[string]int{}
	note := func(name string, err error) { errs[name]++; wantErr(t, name, err, store.ErrClosed) }
	for _, err := range s.Rows(t.Context(), k) {
		note("Rows", err)
	}
	for _, err := range s.Blocks(t.Context(), k) {
		note("Blocks", err)
	}
	for _, err := range s.Sessions(t.Context(), store.Query{}) {
		note("Sessions", err)
	}
	for _, err := range s.Tenants(t.Context()) {
		note("Tenants", err)
	}
	for _, err := range s.Figures(t.Context(), store.FigureQuery{}) {
		note("Figures", err)
	}
	if want := map[string]int{"Rows": 1, "Blocks": 1, "Sessions": 1, "Figures": 1, "Tenants": 1}; !maps.Equal(errs, want) {
		t.Errorf("errors %v, want one of each", errs)
	}
}

func closedIterating(t *testing.T, s store.Store) {
	k := key("a")
	put(t, s, []session.Row{Row(k, 1), Row(k, 2), Row(k, 3)})
	n := 0
	for _, err := range s.Rows(t.Context(), k) {
		if n++; n == 1 {
			if err := s.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			continue
		}
		wantErr(t, "Rows", err, store.ErrClosed)
	}
	if n != 2 {
		t.Errorf("%d steps after Close at the first, want 2", n)
	}
}
