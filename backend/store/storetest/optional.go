package storetest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// counts holds a store.Counter to its word.
func counts(t *testing.T, s store.Store) {
	c, ok := s.(store.Counter)
	if !ok {
		t.Skipf("%T is no store.Counter", s)
	}
	k, other := key("a"), key("b")
	give := func(what string, want store.Counts, list ...session.Block) {
		t.Helper()
		put(t, s, []session.Row{Row(k, 1)}, list...)
		equal(t, what, c.Counts(), want)
	}
	give("at first", store.Counts{})
	give("two new ones", store.Counts{BlocksNew: 2, BytesNew: 9}, Block(k, "one"), Block(k, "second"))
	give("again", store.Counts{BlocksNew: 2, BytesNew: 9, BlocksKnown: 2, BytesKnown: 9}, Block(k, "one"),
		Block(k, "second"))
	before := store.Counts{BlocksNew: 3, BytesNew: 14, BlocksKnown: 3, BytesKnown: 14}
	give("twice in one batch", before, Block(k, "third"), Block(k, "third"))
	bad := Block(other, "x")
	bad.Size = -1
	wantErr(t, "Put", s.Put(t.Context(), session.Batch{Blocks: []session.Block{Block(other, "never kept"), bad}}),
		store.ErrData)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "Put", s.Put(ctx, session.Batch{Blocks: []session.Block{Block(other, "never kept")}}), context.Canceled)
	project(t, s, k, store.SummaryUpdate{Revision: mark(t, s, k)})
	remove(t, s, k)
	give("Puts that failed, summaries and deleting count nothing", before)
	before.BlocksNew, before.BytesNew = 4, 17
	give("after a deleted one came again", before, Block(k, "one"))
}

func sizes(t *testing.T, s store.Store) {
	size := func(k session.Key) int64 {
		t.Helper()
		n, err := s.Size(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	all := func() int64 {
		t.Helper()
		n, err := s.Size(t.Context(), session.Key{})
		if err != nil || n < 0 {
			t.Fatalf("Size %d, %v", n, err)
		}
		return n
	}
	k, small := key("a"), session.Key{Tenant: "t", ID: "a"}
	equal(t, "a session that is not there", size(k), 0)
	empty := all()

	// Noise that no compression makes smaller, so that Size grows too.
	var rows []session.Row
	var list []session.Block
	var want int64
	for n := range 100 {
		r := Row(k, n)
		b := Block(k, noise(uint64(n), 20_000))
		rows, list = append(rows, r), append(list, b)
		want += int64(len(r.AppendCanonical(nil)) + len(b.Body))
	}
	put(t, s, rows, list...)
	put(t, s, []session.Row{Row(small, 1)})
	about := func(what string, got, want int64) {
		t.Helper()
		if got < want*9/10 || got > want*11/10 {
			t.Errorf("%s: %d bytes, want about %d", what, got, want)
		}
	}
	about("a large session", size(k), want)
	if n := size(small); n <= 0 || n > 10_000 {
		t.Errorf("a session of one row: %d bytes", n)
	}
	full := all()
	if full < empty+want/2 {
		t.Errorf("size %d, was %d before %d bytes came", full, empty, want)
	}
	put(t, s, rows, list...)
	project(t, s, k, store.SummaryUpdate{Revision: mark(t, s, k)})
	about("the same again, with a summary", size(k), want)
	remove(t, s, k)
	equal(t, "deleted", size(k), 0)
	if n := all(); n > full-want/2 {
		t.Errorf("size %d after %d of %d bytes were deleted", n, want, full)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, of := range map[string]session.Key{"all": {}, "a session": k} {
		_, err := s.Size(ctx, of)
		wantErr(t, "Size of "+what, err, context.Canceled)
	}
}

// noise returns n bytes that do not compress, the same for the same seed.
func noise(seed uint64, n int) string {
	src := rand.New(rand.NewPCG(seed, 77))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(src.Uint32())
	}
	return string(b)
}
