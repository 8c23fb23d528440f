package sqlitestore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// noise returns n bytes that no compressor makes smaller, as text; seed makes them unlike others.
func noise(seed string, n int) string {
	b := make([]byte, (n+1)/2)
	_, _ = rand.NewChaCha8(spans.BlockOfString(seed)).Read(b)
	return hex.EncodeToString(b)[:n]
}

// everywhereBatches is how many batches everywhere puts.
const everywhereBatches = 101

func projectFigures(t *testing.T, s *Store, k session.Key, f session.Figures) {
	t.Helper()
	mark, err := s.Revision(t.Context(), k)
	if err == nil {
		err = s.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: mark, Figures: f})
	}
	must.Do(t, err)
}

func erasedKey() session.Key { return session.Key{ID: noise("the id of a session", 60)} }

// After Delete no piece of the session is in the log or in free pages, and after Vacuum none is in any of the files:
// not as it came, not as it was compressed. Others write meanwhile.
func TestDeleteErases(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: 12 s, most of them in searching each byte of the files")
	}
	for name, gone := range map[string]session.Key{"": erasedKey(),
		" of a tenant": {Tenant: noise("tenant", 40), ID: noise("id", 60)}} {
		t.Run("session"+name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			s := newStore(t, path)
			n := everywhere(t, s, gone, true)
			before := n.in(t, path)
			for _, what := range []string{"rows.canonical", "packs.body", "rows.span", "blocks.id",
				"turns.run", "tool_calls.call", "compactions.trigger", "permission_evaluations.source"} {
				if before[what]+before[what+"-wal"] == 0 {
					t.Errorf("the test does not see %s in the file", what)
				}
			}
			must.Do(t, store.Delete(t.Context(), s, gone))
			// the marks were removed after it was emptied
			if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 1<<20 {
				t.Errorf("a log of %d bytes", info.Size())
			}
			for _, page := range freePages(t, s) {
				rest := needles{}
				for k, v := range n {
					rest[k] = v
				}
				if rest.forget(page); len(rest) < len(n) {
					t.Errorf("%d pieces stand in a free page", len(n)-len(rest))
				}
			}
			stop, done := make(chan struct{}), make(chan error)
			other := newStore(t, path)
			go func() {
				var err error
				for i := 0; err == nil; i++ {
					select {
					case <-stop:
						done <- nil
						return
					case <-time.After(time.Millisecond):
						err = other.Put(context.Background(), session.Batch{Rows: []session.Row{storetest.Row(key("writer"), 900_000+i)}})
					}
				}
				<-stop
				done <- err
			}()
			err := s.Vacuum(t.Context())
			close(stop)
			must.Do(t, errors.Join(err, <-done))
			if left := n.in(t, path); len(left) > 0 {
				t.Errorf("after Vacuum of %d kinds of data %v are left", len(before), left)
			}
			checkWhole(t, s)
			for o := range 7 {
				if rows, blocks := count(t, s, session.Key{Tenant: gone.Tenant,
					ID: fmt.Sprint("other ", o)}); rows != everywhereBatches || blocks != everywhereBatches {
					t.Errorf("another session has %d rows and %d blocks, want %d", rows, blocks, everywhereBatches)
				}
			}
		})
	}
}

// freePages returns the pages that belong to nothing.
func freePages(t *testing.T, s *Store) (out [][]byte) {
	t.Helper()
	rows := must.Get(s.readers.QueryContext(t.Context(),
		`SELECT data FROM sqlite_dbpage WHERE pgno NOT IN (SELECT pageno FROM dbstat)`))(t)
	defer rows.Close()
	for rows.Next() {
		var page []byte
		must.Do(t, rows.Scan(&page))
		out = append(out, page)
	}
	if rows.Err() != nil || len(out) == 0 {
		t.Errorf("%d free pages, %v", len(out), rows.Err())
	}
	return out
}

// checkWhole holds the file to SQLite's own check, and to its references.
func checkWhole(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also in a cleanup
	var check string
	if err := s.conn.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Errorf("integrity check: %s, %v", check, err)
	}
	for what, query := range map[string]string{
		"rows of no session":     `SELECT count(*) FROM rows WHERE session NOT IN (SELECT session FROM sessions)`,
		"blocks of no session":   `SELECT count(*) FROM blocks WHERE session NOT IN (SELECT session FROM sessions)`,
		"packs of no session":    `SELECT count(*) FROM packs WHERE session NOT IN (SELECT session FROM sessions)`,
		"withheld of no session": `SELECT count(*) FROM withheld WHERE session NOT IN (SELECT session FROM sessions)`,
		"traces of no session": "SELECT count(*) FROM session_traces " +
			`WHERE session NOT IN (SELECT session FROM sessions)`,
		"summaries of no session":   `SELECT count(*) FROM summaries WHERE session NOT IN (SELECT session FROM sessions)`,
		"turns of no session":       `SELECT count(*) FROM turns WHERE session NOT IN (SELECT session FROM sessions)`,
		"tool calls of no session":  `SELECT count(*) FROM tool_calls WHERE session NOT IN (SELECT session FROM sessions)`,
		"compactions of no session": `SELECT count(*) FROM compactions WHERE session NOT IN (SELECT session FROM sessions)`,
		"evaluations of no session": "SELECT count(*) FROM permission_evaluations " +
			`WHERE session NOT IN (SELECT session FROM sessions)`,
		"parts of no session": `SELECT count(*) FROM chat_parts WHERE session_id NOT IN (SELECT id FROM chat_sessions)`,
		"messages of no session": "SELECT count(*) FROM chat_messages " +
			`WHERE session_id NOT IN (SELECT id FROM chat_sessions)`,
		"prompts of no session": "SELECT count(*) FROM system_prompts " +
			`WHERE digest NOT IN (SELECT digest FROM chat_prompts)`,
		"marks of the deleted": `SELECT count(*) FROM erasing`,
	} {
		var n int
		if err := s.conn.QueryRowContext(ctx, query).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
}

// A reader that began before keeps its snapshot, and with it copies in the log. Delete says so, and the next one takes
// them away.
func TestDeleteWithReader(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"deleted again", "opened again", "another deleted"} {
		if testing.Short() && how != "opened again" {
			continue // of one kind to the race detector
		}
		t.Run(how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			s := newStore(t, path, withBusy(50*time.Millisecond))
			gone := erasedKey()
			n := everywhere(t, s, gone, true)
			rows, _ := count(t, s, gone)
			reader := newReader(t, path)
			seen := 0
			for _, err := range reader.Rows(t.Context(), gone) {
				must.Do(t, err)
				if seen++; seen == 1 {
					if err := store.Delete(t.Context(), s, gone); !errors.Is(err, ErrReaders) {
						t.Fatalf("Delete while a reader is open: %v", err)
					}
					if rows, blocks := count(t, reader, gone); rows+blocks != 0 {
						t.Errorf("a reader that begins afterwards sees %d rows and %d blocks", rows, blocks)
					}
				}
			}
			if seen != rows {
				t.Errorf("the reader saw %d rows, want the %d that were there when it began", seen, rows)
			}
			switch how {
			case "opened again":
				must.Do(t, s.Close())
				s = newStore(t, path)
			case "another deleted":
				gone = key("never there")
				fallthrough
			default:
				must.Do(t, store.Delete(t.Context(), s, gone))
			}
			if left := n.in(t, path); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
			checkWhole(t, s)
		})
	}
}

// copyFiles copies a database as it is on the disk at this moment, as if the process had died.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(from + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		must.Do(t, err)
		must.Do(t, os.WriteFile(to+suffix, data, 0o600))
	}
}

// When a process dies half way, no reader sees the session. The next Open for writing erases the rest of it.
func TestDeleteDies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	s := newStore(t, path)
	gone := erasedKey()
	n := everywhere(t, s, gone, true)
	halfWay := 0
	for i := 0; ; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+5*i)*time.Millisecond)
		err := store.Delete(ctx, s, gone)
		cancel()
		var marks int
		must.Do(t, s.readers.QueryRowContext(t.Context(), `SELECT count(*) FROM erasing`).Scan(&marks))
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "interrupted") {
			t.Fatal(err)
		}
		if marks == 0 {
			continue // it had not begun
		}
		if halfWay++; halfWay > 3 && testing.Short() {
			continue // each costs seconds under the race detector
		}
		if rows, blocks := count(t, s, gone); rows+blocks != 0 {
			t.Errorf("half way %d rows and %d blocks are seen", rows, blocks)
		}
		copied := filepath.Join(dir, fmt.Sprint("copy", i, ".db"))
		copyFiles(t, path, copied)
		if rows, blocks := count(t, newReader(t, copied), gone); rows+blocks != 0 {
			t.Errorf("half way %d rows and %d blocks are seen by a reader", rows, blocks)
		}
		c := newStore(t, copied, withErase(time.Minute))
		if left := n.in(t, copied); len(left) > 0 {
			t.Errorf("opened again after it died half way, %v are left", left)
		}
		checkWhole(t, c)
	}
	if halfWay == 0 {
		t.Error("Delete was never stopped half way")
	}
	t.Logf("stopped half way %d times", halfWay)
	if left := n.in(t, path); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func withErase(d time.Duration) Option { return func(s *Store) { s.openErase = d } }

// What was left half way keeps no program from the file for long: the rest is erased while the store is open.
func TestOpenErasesInTheBackground(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	other := newStore(t, path)
	put(t, other, erasedKey(), 1)
	if hidden, err := other.hide(t.Context(), store.Deletion{Key: erasedKey()}); err != nil || !hidden {
		t.Fatal(hidden, err)
	}
	left := func(want string) {
		t.Helper()
		if got := column(t, other, `SELECT count(*) FROM packs`); got[0] != want {
			t.Errorf("%s packs, want %s", got[0], want)
		}
	}
	must.Do(t, run(t.Context(), other.conn, "BEGIN IMMEDIATE"))
	began := time.Now()
	must.Do(t, newStore(t, path, withErase(1)).Close())
	s := newStore(t, path, withErase(1))
	if took := time.Since(began); took > s.busy {
		t.Errorf("opened after %v", took)
	}
	left("1")
	must.Do(t, run(t.Context(), other.conn, "ROLLBACK"))
	s.background.Wait()
	left("0")
}

// What is Put to the key of a session that is being erased is a new one, in the tables of the agent guide as well.
func TestDeleteAndPutAnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	s := newStore(t, path, WithChatTables())
	k := erasedKey()
	everywhere(t, s, k, true)
	// The first transaction of Delete, and no more.
	if hidden, err := s.hide(t.Context(), store.Deletion{Key: k}); err != nil || !hidden {
		t.Fatal(hidden, err)
	}
	want := session.Batch{Rows: []session.Row{storetest.Row(k, 3)}, Blocks: []session.Block{storetest.Block(k, "new")}}
	must.Do(t, s.Put(t.Context(), want))
	m := must.Get(s.Revision(t.Context(), k))(t)
	must.Do(t, s.ProjectChat(t.Context(), k, m, chatRows(k.ID, "new text")))
	must.Do(t, store.Delete(t.Context(), s, key("another")))
	if diff := cmp.Diff(want, content(t, s, k), byContent); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var texts string
	if err := s.readers.QueryRowContext(t.Context(), `SELECT group_concat(data_json) FROM chat_parts`).Scan(
		&texts); err != nil || !strings.Contains(texts, "new text") || len(texts) > 1000 {
		t.Errorf("parts %.200q, %v", texts, err)
	}
	checkWhole(t, s)
}

// longWait is what no Put may take while a session is deleted: twice the 50 ms that are promised, for noise.
const longWait = 100 * time.Millisecond

// Others are written to while a large session is deleted: no Put waits for long.
func TestDeleteLetsOthersWrite(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("-short: measures times, of deleting sessions of 10,000 turns")
	}
	path := filepath.Join(t.TempDir(), "x.db")
	s := newStore(t, path)
	for try := 0; ; try++ {
		big := key(fmt.Sprint("big ", try))
		for n := 0; n < 10_000; n += 200 {
			var b session.Batch
			for i := n; i < n+200; i++ {
				for j := range 5 {
					b.Rows = append(b.Rows, benchRow(big, 5*i+j))
				}
				b.Blocks = append(b.Blocks, storetest.Block(big, noise(fmt.Sprint(try, i), 4000)))
			}
			must.Do(t, s.Put(t.Context(), b))
		}
		done := make(chan error)
		began := time.Now()
		go func() { done <- store.Delete(t.Context(), s, big) }()
		var took []time.Duration
		var err error
		for n, deleting := 0, true; deleting; n++ {
			start := time.Now()
			put(t, s, key("other"), n)
			took = append(took, time.Since(start))
			select {
			case err = <-done:
				deleting = false
			case <-time.After(time.Millisecond):
			}
		}
		must.Do(t, err)
		slices.Sort(took)
		most := took[len(took)-1]
		t.Logf("Delete of 50,000 rows and 40 MB: %v; %d Puts meanwhile: median %v, 99 of 100 within %v, most %v",
			time.Since(began).Round(time.Millisecond), len(took), took[len(took)/2], took[len(took)*99/100], most)
		if most <= longWait && len(took) > 20 {
			break
		}
		if try == 2 {
			t.Fatalf("a Put took %v, at most %v is allowed; %d Puts came through", most, longWait, len(took))
		}
	}
	checkWhole(t, s)
}
