package sqlitestore

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/spans"
)

// tableCount returns how many rows a table has.
func tableCount(t *testing.T, s *Store, table string) (n int) {
	t.Helper()
	if err := s.readers.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// What is not shared: bodies that no row of the batch names, small ones, those that were cut, and those whose
// session has them already.
func TestSharedNot(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "x.db"))
	k := key("a")
	large := strings.Repeat("large ", 1000)
	b := storetest.Block(k, large)
	cut := b
	cut.Body, cut.Size = large[:2000], int64(len(large))
	small := storetest.Block(k, large[:sharedMin-1])
	other := key("other")
	for name, batch := range map[string]session.Batch{
		"not named": {Rows: []session.Row{storetest.Row(other, 1)},
			Blocks: []session.Block{storetest.Block(other, large)}},
		"small": {Rows: []session.Row{fixed(storetest.Row(k, 1), small)}, Blocks: []session.Block{small}},
		"cut":   {Rows: []session.Row{fixed(storetest.Row(k, 1), cut)}, Blocks: []session.Block{cut}},
		"named by another": {Rows: []session.Row{fixed(storetest.Row(key("b"), 1), storetest.Block(other, large))},
			Blocks: []session.Block{storetest.Block(other, large)}},
		"there already": {Rows: []session.Row{fixed(storetest.Row(other, 1), storetest.Block(other, large))},
			Blocks: []session.Block{storetest.Block(other, large)}},
		"named by another list": {Rows: []session.Row{storetest.Row(other, 1)},
			Blocks: []session.Block{storetest.Block(other, large)}},
	} {
		if name == "there already" {
			if err := s.Put(t.Context(), session.Batch{Blocks: batch.Blocks}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Put(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if n := tableCount(t, s, "shared_bodies"); n != 0 {
			t.Fatalf("%s: shared", name)
		}
	}
	// The whole body takes the place of the one that was cut, and is shared then.
	if err := s.Put(t.Context(), session.Batch{Rows: []session.Row{fixed(storetest.Row(k, 1), b)},
		Blocks: []session.Block{b}}); err != nil {
		t.Fatal(err)
	}
	if n := tableCount(t, s, "shared_bodies"); n != 1 {
		t.Errorf("%d shared bodies, want 1", n)
	}
	for got, err := range s.Blocks(t.Context(), k, []spans.BlockID{b.ID}) {
		if err != nil || got != b {
			t.Errorf("block of %d bytes and size %d, %v", len(got.Body), got.Size, err)
		}
	}
	if err := s.tidy(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), s, k); err != nil {
		t.Fatal(err)
	}
	if n := tableCount(t, s, "shared_bodies"); n != 0 {
		t.Errorf("%d shared bodies after the last session that has it is deleted", n)
	}
	checkWhole(t, s)
}

// A shared body that was damaged at rest is told of, and costs nobody else anything.
func TestSharedDamaged(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "x.db"))
	b := storetest.Block(key("a"), strings.Repeat("prompt ", 500))
	if err := s.Put(t.Context(), session.Batch{Rows: []session.Row{fixed(storetest.Row(key("a"), 1), b)},
		Blocks: []session.Block{b}}); err != nil {
		t.Fatal(err)
	}
	put(t, s, key("b"), 1)
	for _, damage := range []string{"SET id = zeroblob(32)", "SET raw = raw + 1", "SET body = zeroblob(10)"} {
		if _, err := s.conn.ExecContext(t.Context(), "UPDATE shared_bodies "+damage); err != nil {
			t.Fatal(err)
		}
		for _, err := range s.Blocks(t.Context(), key("a"), nil) {
			if !errors.Is(err, store.ErrData) || !strings.Contains(err.Error(), b.ID.String()) {
				t.Errorf("%s: %v, want an error that names the block", damage, err)
			}
		}
	}
	if rows, blocks := count(t, s, key("b")); rows != 1 || blocks != 1 {
		t.Errorf("another session has %d rows and %d blocks", rows, blocks)
	}
}
