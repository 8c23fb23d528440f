package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
)

// openEnv names a path that the test binary opens, to write its error.
const openEnv = "SQLITESTORE_TEST_OPEN"

func openOnce(path string) {
	open := Open
	if rest, ok := strings.CutPrefix(path, "read "); ok {
		path, open = rest, OpenReadOnly
	}
	s, err := open(context.Background(), path)
	if err == nil {
		err = s.Close()
	}
	fmt.Println(errors.Is(err, store.ErrUnusable), err)
	os.Exit(0)
}

// sound makes a database of 20 sessions.
func sound(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	s := newStore(t, path)
	for n := range 20 {
		k := key(fmt.Sprint("s", n))
		var b session.Batch
		for i := range 50 {
			b.Rows = append(b.Rows, storetest.Row(k, 100*n+i))
			b.Blocks = append(b.Blocks, storetest.Block(k, noise(fmt.Sprint(n, i), 600)))
		}
		must.Do(t, s.Put(t.Context(), b))
	}
	must.Do(t, s.Close())
	return path
}

// damaged returns a copy of a database in which the pages that dbstat has under which were changed.
func damaged(t *testing.T, from, which string, damage func(page []byte)) string {
	t.Helper()
	pages := must.All(each(t.Context(), newReader(t, from), "find pages", `SELECT pageno FROM dbstat WHERE `+which, nil,
		scanOne[int64]))(t)
	if len(pages) == 0 {
		t.Fatalf("no page %s", which)
	}
	data := must.Get(os.ReadFile(from))(t)
	for _, n := range pages {
		damage(data[(n-1)*pageSize : n*pageSize])
	}
	path := filepath.Join(t.TempDir(), "damaged.db")
	must.Do(t, os.WriteFile(path, data, 0o600))
	return path
}

// Methods that read return ErrData for a damaged page: no waiting mends it. The error of Put is not ErrData: the sender
// tries again. Nothing panics, and sessions on other pages are read.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	from := sound(t)
	junk := func(page []byte) { copy(page, bytes.Repeat([]byte{0xa5}, len(page))) }
	zero := func(page []byte) { clear(page) }
	content := func(page []byte) { copy(page[len(page)/2:], bytes.Repeat([]byte{0x5a}, len(page)/2)) }
	pointers := func(page []byte) { copy(page[8:200], bytes.Repeat([]byte{0xff}, 192)) }
	for name, which := range map[string]string{
		"one page of rows":   "name = 'rows' AND pagetype = 'leaf' AND path LIKE '%/005/'",
		"all pages of rows":  "name = 'rows'",
		"the key of rows":    "name = 'sqlite_autoindex_rows_1' AND pagetype = 'leaf'",
		"the root of rows":   "name = 'rows' AND path = '/'",
		"packs":              "name = 'packs' AND path LIKE '%/001/%'",
		"blocks":             "name = 'blocks'",
		"sessions":           "name = 'sessions'",
		"a list of sessions": "name = 'sessions_by_last'",
		"free for all":       "pageno % 7 = 5",
		"schema":             "name = 'sqlite_schema' AND path <> '/'",
	} {
		for how, damage := range map[string]func([]byte){"junk": junk, "zero": zero, "content": content,
			"pointers": pointers} {
			t.Run(name+"/"+how, func(t *testing.T) {
				path := damaged(t, from, which, damage)
				s, err := Open(t.Context(), path, withBusy(100*time.Millisecond))
				if err != nil {
					if errors.Is(err, store.ErrUnusable) {
						t.Errorf("Open: %v, but the file may be restored", err)
					}
					return
				}
				defer s.Close()
				whole := 0
				for n := range 20 {
					k := key(fmt.Sprint("s", n))
					rows, good := 0, true
					for _, err := range s.Rows(t.Context(), k) {
						if err != nil {
							good = false
							if !errors.Is(err, store.ErrData) {
								t.Errorf("Rows: %v, want ErrData", err)
							}
						}
						rows++
					}
					for b, err := range s.Blocks(t.Context(), k) {
						if err != nil && !errors.Is(err, store.ErrData) {
							t.Errorf("Blocks: %v, want ErrData", err)
						}
						if err == nil && len(b.Body) != 600 {
							t.Errorf("a body of %d bytes", len(b.Body))
						}
					}
					if good && rows == 50 {
						whole++
					}
					err := s.Put(t.Context(), session.Batch{Rows: []session.Row{storetest.Row(k, 100*n)},
						Blocks: []session.Block{storetest.Block(k, "x")}})
					if errors.Is(err, store.ErrData) {
						t.Errorf("Put: %v, but the batch is good", err)
					}
					if n%5 == 0 {
						if err := store.Delete(t.Context(), s, k); errors.Is(err, ErrReaders) || errors.Is(err, store.ErrUnusable) {
							t.Errorf("Delete: %v", err)
						}
					}
					if m, err := s.Revision(t.Context(), k); err == nil {
						err := s.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: m})
						if err != nil && !errors.Is(err, store.ErrData) && !errors.Is(err, store.ErrNotFound) {
							t.Errorf("Project: %v, but trying again gives the same", err)
						}
						_ = s.tidy(t.Context(), k) // may fail, may not panic
					}
				}
				for _, err := range s.Sessions(t.Context(), store.Query{}) {
					if err != nil && !errors.Is(err, store.ErrData) {
						t.Errorf("Sessions: %v, want ErrData", err)
					}
				}
				if name == "one page of rows" && whole < 15 {
					t.Errorf("%d of 20 sessions are read", whole)
				}
			})
		}
	}
}

// A damaged row does not keep a sound one that is Put again from its place.
func TestDamagedRowIsMended(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "x.db"))
	put(t, s, key("a"), 1)
	for _, damage := range []string{"x''", "x'09'", "x'ff'", "x'02ffffffffff'", "x'0205'", "x'0300'", "x'01'",
		"x'0328b52ffd'", "x'0328b52ffda0ffffff7f0000'", "zeroblob(5)", "substr(canonical, 1, 30)"} {
		must.Get(s.conn.ExecContext(t.Context(), "UPDATE rows SET canonical = "+damage))(t)
		for _, err := range s.Rows(t.Context(), key("a")) {
			if !errors.Is(err, store.ErrData) {
				t.Errorf("%s: %v", damage, err)
			}
		}
		put(t, s, key("a"), 1)
		if rows, _ := count(t, s, key("a")); rows != 1 {
			t.Errorf("%s: %d rows", damage, rows)
		}
	}
}

// A file that was moved away or replaced takes no more: what it acknowledged would be gone. When it is back, all goes
// on.
func TestFileGone(t *testing.T) {
	dir := t.TempDir()
	path, away := filepath.Join(dir, "x.db"), filepath.Join(dir, "away.db")
	s := newStore(t, path)
	put(t, s, key("a"), 1)
	refuses := func(what, want string) {
		t.Helper()
		err := s.Put(t.Context(), session.Batch{Rows: []session.Row{storetest.Row(key("a"), 2)}})
		if err == nil || errors.Is(err, store.ErrData) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Put: %v, want %q", what, err, want)
		}
		for _, err := range s.Rows(t.Context(), key("a")) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: Rows: %v, want %q", what, err, want)
			}
		}
	}
	move := func(from, to string) {
		t.Helper()
		must.Do(t, os.Rename(from, to))
	}
	move(path, away)
	refuses("moved away", "no such file")
	must.Do(t, os.WriteFile(path, nil, 0o600))
	refuses("replaced", "open it again")
	move(away, path)
	put(t, s, key("a"), 2)
	if rows, _ := count(t, s, key("a")); rows != 2 {
		t.Errorf("%d rows after the file came back, want 2", rows)
	}
}

// A store that is open for reading writes nothing to the file and nothing to its log, whatever a caller asks for.
func TestReadersDoNotWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	w := newStore(t, path)
	put(t, w, key("a"), 1)
	put(t, w, session.Key{Tenant: "t", ID: "b"}, 2)
	must.Do(t, w.Close())
	before := must.Get(os.ReadFile(path))(t)
	r := must.Get(OpenReadOnly(t.Context(), path))(t)
	readAll(t, r)
	for name, err := range map[string]error{
		"Put":         r.Put(t.Context(), session.Batch{Rows: []session.Row{storetest.Row(key("a"), 2)}}),
		"SetSummary":  r.SetSummary(t.Context(), key("a"), store.SummaryUpdate{}),
		"ProjectChat": r.ProjectChat(t.Context(), key("a"), 1, chatRows("a", "x")),
		"Delete":      store.Delete(t.Context(), r, key("a")),
	} {
		if !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, query := range []string{
		"DELETE FROM rows", "DROP TABLE rows", "CREATE TABLE x (x)", "PRAGMA user_version=1",
		"UPDATE sqlite_dbpage SET data = zeroblob(8192) WHERE pgno = 2",
		"VACUUM", "PRAGMA query_only=0; DELETE FROM rows", "REINDEX",
	} {
		if _, err := r.readers.ExecContext(t.Context(), query); err == nil {
			t.Errorf("a reader's connection does %s", query)
		}
	}
	must.Do(t, r.Close())
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed, %v", err)
	}
	if log, err := os.ReadFile(path + "-wal"); err == nil && len(log) > 0 {
		t.Errorf("%d bytes stand in the log", len(log))
	}
}

// readAll calls everything that reads.
func readAll(t *testing.T, s *Store) {
	t.Helper()
	for tenant, err := range s.Tenants(t.Context()) {
		must.Do(t, err)
		for m, err := range s.Sessions(t.Context(), store.Query{Tenant: tenant, Prefix: "no such session", Oldest: true}) {
			t.Fatal(m.ID, err)
		}
		for m, err := range s.Sessions(t.Context(), store.Query{Tenant: tenant, Oldest: true}) {
			must.Do(t, err)
			if b := content(t, s, m.Key); len(b.Rows) == 0 {
				t.Errorf("session %q is empty", m.ID)
			}
			must.Get(s.Revision(t.Context(), m.Key))(t)
			if n, err := s.Size(t.Context(), m.Key); err != nil || n == 0 {
				t.Errorf("session %q: %d bytes, %v", m.ID, n, err)
			}
		}
	}
	if n, err := s.Size(t.Context(), session.Key{}); err != nil || n == 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
	for _, err := range s.Sessions(t.Context(), store.Query{AllTenants: true, Stale: true}) {
		must.Do(t, err)
	}
}
