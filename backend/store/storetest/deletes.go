package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

func remove(t *testing.T, s store.Store, k session.Key) {
	t.Helper()
	if err := store.Delete(t.Context(), s, k); err != nil {
		t.Fatalf("Delete: %v", err)
	}
}

// gone reports everything that a store still gives of a session.
func gone(t *testing.T, s store.Store, k session.Key) {
	t.Helper()
	if n := len(rows(t, s, k)) + len(blocks(t, s, k)); n != 0 {
		t.Errorf("session %q: %d rows and blocks of a deleted session", k.ID, n)
	}
	_, err := s.Revision(t.Context(), k)
	wantErr(t, "Revision of a deleted session", err, store.ErrNotFound)
	if _, ok := summary(t, s, k); ok {
		t.Errorf("session %q is listed after it was deleted", k.ID)
	}
	stale, err := store.Stale(t.Context(), s)
	if slices.Contains(stale, k) || err != nil {
		t.Errorf("session %q is stale after it was deleted, %v", k.ID, err)
	}
	if n, err := s.Size(t.Context(), k); n != 0 || err != nil {
		t.Errorf("session %q: %d bytes, %v, after it was deleted", k.ID, n, err)
	}
}

// deleteCancelled cancels a Delete at every stage. The session is then there or not, and nothing between.
func (u suite) deleteCancelled(t *testing.T, s store.Store) {
	k, other := key("big"), key("other")
	shared := strings.Repeat("a system prompt that two sessions share ", 100)
	var list []session.Row
	var bl []session.Block
	for n := range 1500 {
		list = append(list, Row(k, n))
		bl = append(bl, Block(k, noise(uint64(n), 500)))
	}
	bl = append(bl, Block(k, shared))
	put(t, s, []session.Row{Row(other, 1)}, Block(other, shared),
		Block(other, noise(1, 500)))

	stopped := 0
	times := u.times(12, 4)
	for i := range times {
		put(t, s, list, bl...)
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(i*i)*100*time.Microsecond, cancel)
		err := store.Delete(ctx, s, k)
		timer.Stop()
		cancel()
		nr, nb := len(rows(t, s, k)), len(blocks(t, s, k))
		switch {
		case err != nil && !errors.Is(err, context.Canceled):
			t.Fatalf("Delete: %v", err)
		case err == nil && nr+nb != 0:
			t.Errorf("%d rows and %d blocks after Delete", nr, nb)
		case err != nil && (nr != 0 || nb != 0) && (nr != len(list) || nb != len(bl)):
			t.Errorf("%d rows of %d and %d blocks of %d after a Delete that was cancelled: want all or none", nr, len(list), nb,
				len(bl))
		}
		if err != nil {
			stopped++
		}
		switch {
		case nr != 0: // it had not begun
		case i%2 == 0: // one that was left half way is finished, and what was Put after that stays
			gone(t, s, k)
			remove(t, s, k)
		default:
			put(t, s, list[:3], bl[:2]...)
			remove(t, s, key("another one"))
			equal(t, "rows of one made anew", rows(t, s, k), canonical(list[:3]))
			equal(t, "blocks of one made anew", len(blocks(t, s, k)), 2)
		}
		remove(t, s, k)
		gone(t, s, k)
		equal(t, "rows of the other", rows(t, s, other), canonical([]session.Row{Row(other, 1)}))
		got := blocks(t, s, other)
		if len(got) != 2 || got[spans.BlockOfString(shared)].Body != shared || got[bl[1].ID].Body != bl[1].Body {
			t.Fatalf("the other session has %d blocks, want its 2", len(got))
		}
	}
	t.Logf("%d of %d were cancelled", stopped, times)
}

// deleteWhilePut deletes a session over and over while another puts to it, batch after batch: what is there at any time
// are whole batches, and what was Put after the last Delete stays.
func (u suite) deleteWhilePut(t *testing.T, s store.Store) {
	batches, each := u.times(60, 15), 5
	k := key("a")
	shared := Block(k, strings.Repeat("a tool catalogue that all batches name ", 100))
	batch := func(n int) (b session.Batch) {
		for i := range each {
			b.Rows = append(b.Rows, Row(k, n*each+i))
		}
		b.Blocks = []session.Block{shared, Block(k, fmt.Sprint("own ", n))}
		return b
	}
	done := make(chan error, 1)
	go func() {
		for n := range batches {
			if err := s.Put(t.Context(), batch(n)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	whole := func() {
		t.Helper()
		if n := len(rows(t, s, k)); n%each != 0 {
			t.Errorf("%d rows: a part of a batch", n)
		}
	}
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("Put: %v", err)
			}
			running = false
		default:
			remove(t, s, k)
			whole()
		}
	}
	whole()
	left := len(rows(t, s, k)) / each
	got := blocks(t, s, k)
	for n := batches - left; n < batches; n++ {
		if got[spans.BlockOfString(fmt.Sprint("own ", n))].Body == "" || got[shared.ID] != shared {
			t.Errorf("batch %d has its rows and not its blocks", n)
		}
	}
	put(t, s, batch(0).Rows)
	equal(t, "after the last Delete", len(rows(t, s, k)), min(left+1, batches)*each)
	remove(t, s, k)
	gone(t, s, k)
}
