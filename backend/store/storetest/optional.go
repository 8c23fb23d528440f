package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// counts holds a store.Counter to its word.
func counts(t *testing.T, s store.Store) {
	c, ok := s.(store.Counter)
	if !ok {
		t.Skipf("%T is no store.Counter", s)
	}
	equal(t, "at first", c.Counts(), store.Counts{})
	k, other := key("a"), key("b")
	var given store.Counts // BlocksNew and BytesNew stand for both
	give := func(list ...session.Block) {
		t.Helper()
		put(t, s, []session.Row{Row(k, 1)}, list...)
		for _, b := range list {
			given.BlocksNew++
			given.BytesNew += int64(len(b.Body))
		}
		got := c.Counts()
		if got.BlocksNew+got.BlocksKnown != given.BlocksNew || got.BytesNew+got.BytesKnown != given.BytesNew {
			t.Errorf("%+v, but %d blocks of %d bytes were given", got, given.BlocksNew, given.BytesNew)
		}
	}
	give(Block(k, "one"), Block(k, "second"))
	equal(t, "two new ones", c.Counts(), store.Counts{BlocksNew: 2, BytesNew: 9})
	give(Block(k, "one"), Block(k, "second"))
	equal(t, "again", c.Counts(), store.Counts{BlocksNew: 2, BytesNew: 9, BlocksKnown: 2, BytesKnown: 9})
	give(Block(k, "third"), Block(k, "third"))
	equal(t, "twice in one batch", c.Counts(), store.Counts{BlocksNew: 3, BytesNew: 14, BlocksKnown: 3, BytesKnown: 14})

	// Whether a body of another session is written anew is the store's affair.
	large := strings.Repeat("a tool catalogue ", 1000)
	for n := range 3 {
		k := key(fmt.Sprint("shares", n))
		b := Block(k, large)
		given.BlocksNew++
		given.BytesNew += int64(len(large))
		put(t, s, []session.Row{withParams(Row(k, 1), b)}, b)
		give()
	}
	before := c.Counts()
	bad := Block(other, "x")
	bad.Size = -1
	wantErr(t, "Put", s.Put(t.Context(), session.Batch{Blocks: []session.Block{Block(other, "never kept"), bad}}),
		store.ErrData)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "Put", s.Put(ctx, session.Batch{Blocks: []session.Block{Block(other, "never kept")}}), context.Canceled)
	equal(t, "Puts that failed count nothing", c.Counts(), before)
	project(t, s, k, store.SummaryUpdate{Revision: mark(t, s, k)})
	remove(t, s, k)
	equal(t, "neither summaries nor deleting counts", c.Counts(), before)
	give(Block(k, "one"))
	if got := c.Counts().BlocksNew; got != before.BlocksNew+1 {
		t.Errorf("%d new ones after a deleted one came again, want %d", got, before.BlocksNew+1)
	}
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
	replaced := int64(0) // may count
	about := func(what string, got, want int64) {
		t.Helper()
		if got < want*9/10 || got > (want+replaced)*11/10 {
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
	about("the same again", size(k), want)
	const large = 1_000_000
	cut := Block(k, noise(1000, large))
	whole := cut
	cut.Body, cut.Size = cut.Body[:large*3/4], large
	put(t, s, nil, cut)
	about("with a block that was cut", size(k), want+large*3/4)
	put(t, s, nil, whole)
	replaced = large * 3 / 4
	about("which is whole now", size(k), want+large)
	project(t, s, k, store.SummaryUpdate{Revision: mark(t, s, k)})
	about("with a summary", size(k), want+large)
	remove(t, s, k)
	equal(t, "deleted", size(k), 0)
	if n := all(); n > full-want/2 {
		t.Errorf("size %d after %d of %d bytes were deleted", n, want, full)
	}
	put(t, s, []session.Row{Row(k, 1)})
	if n := size(k); n <= 0 || n > 10_000 {
		t.Errorf("a session made anew, of one row: %d bytes", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, of := range map[string]session.Key{"all": {}, "a session": k} {
		_, err := s.Size(ctx, of)
		wantErr(t, "Size of "+what, err, context.Canceled)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for what, of := range map[string]session.Key{"all": {}, "a session": k} {
		_, err := s.Size(t.Context(), of)
		wantErr(t, "Size of "+what+" of a closed store", err, store.ErrClosed)
	}
}

// withParams returns the row with a list that names blocks as system prompt and tool catalogue of its request.
func withParams(r session.Row, list ...session.Block) session.Row {
	l := session.List{Name: spans.ListParams, Count: int64(len(list)), Whole: "digest"}
	for i, b := range list {
		provenance := "system"
		if i%2 == 1 {
			provenance = "tools"
		}
		l.Items = append(l.Items, spans.Item{Block: b.ID.Short(), Provenance: provenance}.Encode())
	}
	r.Lists = append(slices.Clone(r.Lists), l)
	return r
}
