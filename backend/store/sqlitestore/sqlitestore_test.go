package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// killEnv names the database that the test binary writes to until it is killed.
const killEnv = "SQLITESTORE_TEST_KILL"

func TestMain(m *testing.M) {
	if path := os.Getenv(killEnv); path != "" {
		writeForever(path)
	}
	if path := os.Getenv(openEnv); path != "" {
		openOnce(path)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if largeDir != "" {
			_ = os.RemoveAll(largeDir)
		}
		os.Exit(code)
	}))
}

func withBusy(d time.Duration) Option { return func(s *Store) { s.busy = d } }

func newStore(t *testing.T, path string, opts ...Option) *Store {
	t.Helper()
	s := must.Get(Open(t.Context(), path, opts...))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newReader(t *testing.T, path string) *Store {
	t.Helper()
	s := must.Get(OpenReadOnly(t.Context(), path))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func key(id string) session.Key { return session.Key{ID: id} }

func put(t *testing.T, s *Store, k session.Key, n int) {
	t.Helper()
	b := session.Batch{Rows: []session.Row{storetest.Row(k, n)},
		Blocks: []session.Block{storetest.Block(k, fmt.Sprint("body ", n))}}
	must.Do(t, s.Put(t.Context(), b))
}

func count(t *testing.T, s *Store, k session.Key) (rows, blocks int) {
	t.Helper()
	return len(must.All(s.Rows(t.Context(), k))(t)), len(must.All(s.Blocks(t.Context(), k))(t))
}

// TestStore also runs SQLite's check, and its own, on the file of each case when the case ends.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store {
		path := filepath.Join(t.TempDir(), "x.db")
		t.Cleanup(func() {
			s := must.Get(Open(context.WithoutCancel(t.Context()), path))(t)
			checkWhole(t, s)
			_ = s.Close()
		})
		return newStore(t, path)
	})
}

func TestParseDSN(t *testing.T) {
	for dsn, want := range map[string]string{
		"x.db": "x.db", "sqlite:x.db": "x.db", "/a b/x.db": "/a b/x.db", "sqlite:///a/x.db": "///a/x.db",
		`C:\x.db`:       `C:\x.db`,
		"sqlite:a:b.db": "a:b.db", "./what:ever": "./what:ever", "q?a=1#x.db": "q?a=1#x.db",
	} {
		if got, err := ParseDSN(dsn); err != nil || got != want {
			t.Errorf("ParseDSN(%q) = %q, %v; want %q", dsn, got, err, want)
		}
	}
	for dsn, want := range map[string]string{
		"": "no path", "sqlite:": "no path", ":memory:": "in memory", "sqlite::memory:": "in memory",
		"clickhouse://u:secret@h/db": `scheme "clickhouse" is not in this build`, "file:x.db": "URIs",
		"sqlite://host/x": "not a host", "a\x00b": "zero byte",
	} {
		_, err := ParseDSN(dsn)
		if !errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), allowed) || strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseDSN(%q): %v; want %q and what is allowed in it", dsn, err, want)
		}
	}
}

func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a b%20c?mode=memory#x&y.db", "ü.db", "new/dirs/x.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := newStore(t, "sqlite:"+path)
		put(t, s, key("a"), 1)
		if _, err := os.Stat(path); err != nil || s.Path() != path {
			t.Errorf("%q: path %q, %v", path, s.Path(), err)
		}
		if n, _ := count(t, newReader(t, path), key("a")); n != 1 {
			t.Errorf("%q: %d rows", path, n)
		}
	}
	t.Chdir(t.TempDir())
	put(t, newStore(t, "rel.db"), key("a"), 1)
	if _, err := os.Stat("rel.db"); err != nil {
		t.Error(err)
	}
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "x.db")
	s := newStore(t, path)
	put(t, s, key("a"), 1)
	for name, want := range map[string]fs.FileMode{path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600, dir: 0o700,
		filepath.Dir(dir): 0o700} {
		fi := must.Get(os.Stat(name))(t)
		if fi.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, fi.Mode().Perm(), want)
		}
	}
	must.Do(t, s.Close())
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("after Close the directory holds %v, %v", left, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	foreign := filepath.Join(dir, "foreign.db")
	exec1(t, foreign, "CREATE TABLE precious (x); INSERT INTO precious VALUES (1)")
	text := write("text", strings.Repeat("this is no database ", 1000))
	for path, want := range map[string]string{
		foreign: errNotOurs.Error(), text: "not a database", dir: "regular file",
	} {
		before, _ := os.ReadFile(path)
		for name, open := range map[string]func(context.Context, string, ...Option) (*Store, error){"Open": Open,
			"OpenReadOnly": OpenReadOnly} {
			_, err := open(t.Context(), path)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s(%s): %v; want %q in it", name, path, err, want)
			}
			if !errors.Is(err, store.ErrUnusable) {
				t.Errorf("%s(%s): %v is no ErrUnusable", name, path, err)
			}
			if v := (*store.VersionError)(nil); errors.As(err, &v) {
				t.Errorf("%s(%s): %v", name, path, err)
			}
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%s was changed", path)
		}
	}
	for _, path := range []string{filepath.Join(dir, "none.db"), write("empty", "")} {
		if _, err := OpenReadOnly(t.Context(), path); err == nil {
			t.Errorf("OpenReadOnly(%s) succeeded", path)
		}
	}
	if _, err := OpenReadOnly(t.Context(), filepath.Join(dir, "none.db")); !errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, store.ErrUnusable) {
		t.Errorf("a file that is not there: %v", err)
	}
	newStore(t, filepath.Join(dir, "empty")) // an empty file is a new database
}

func exec1(t *testing.T, path, text string) {
	t.Helper()
	db := must.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	must.Get(db.Exec(text))(t)
}

// Somebody else holds the lock: waiting ends with ctx or the busy timeout, and neither is the fault of the data.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	holder := newStore(t, path)
	s := newStore(t, path, withBusy(50*time.Millisecond))
	patient := newStore(t, path, withBusy(time.Minute))
	must.Get(holder.conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"))(t)
	b := session.Batch{Rows: []session.Row{storetest.Row(key("a"), 1)}}
	if err := s.Put(t.Context(), b); err == nil || errors.Is(err, store.ErrData) ||
		!strings.Contains(err.Error(), "locked") {
		t.Errorf("Put: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := patient.Put(ctx, b); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > patient.busy/2 {
		t.Errorf("Put: %v after %v", err, time.Since(start))
	}
	must.Get(holder.conn.ExecContext(t.Context(), "ROLLBACK"))(t)
	for _, s := range []*Store{s, patient} {
		if err := s.Put(t.Context(), b); err != nil {
			t.Errorf("Put after the lock went: %v", err)
		}
	}
}

func TestDiskFull(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "x.db"))
	var pages int
	must.Do(t, s.conn.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages))
	limit := func(n int) {
		must.Get(s.conn.ExecContext(t.Context(), fmt.Sprint("PRAGMA max_page_count=", n)))(t)
	}
	limit(pages + 4)
	body := make([]byte, 1<<20) // that nothing makes smaller
	_, _ = rand.NewChaCha8([32]byte{}).Read(body)
	b := session.Batch{Blocks: []session.Block{storetest.Block(key("a"), string(body))}}
	if err := s.Put(t.Context(), b); err == nil || errors.Is(err, store.ErrData) {
		t.Errorf("Put on a full disk: %v, want an error that may go away", err)
	} else if !strings.Contains(err.Error(), "free some space") {
		t.Errorf("Put on a full disk: %v, want one that says what to do", err)
	}
	limit(1 << 20)
	if err := s.Put(t.Context(), b); err != nil {
		t.Errorf("Put when there is room again: %v", err)
	}
}

// writeForever puts batches of one row and one block and says which are acknowledged.
func writeForever(path string) {
	s, err := Open(context.Background(), path)
	for n := 0; err == nil; n++ {
		err = s.Put(context.Background(), session.Batch{
			Rows:   []session.Row{storetest.Row(key("a"), n)},
			Blocks: []session.Block{storetest.Block(key("a"), fmt.Sprint("body ", n))},
		})
		if err == nil {
			fmt.Println(n)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killEnv+"="+path)
		var out bytes.Buffer
		pipe := must.Get(cmd.StdoutPipe())(t)
		cmd.Stderr = os.Stderr
		must.Do(t, cmd.Start())
		buf := make([]byte, 64)
		for out.Len() < 300+round*200 {
			n := must.Get(pipe.Read(buf))(t)
			out.Write(buf[:n])
		}
		must.Do(t, cmd.Process.Kill())
		for n, err := pipe.Read(buf); err == nil; n, err = pipe.Read(buf) {
			out.Write(buf[:n])
		}
		_ = cmd.Wait() // killed
		acknowledged := bytes.Count(out.Bytes(), []byte("\n"))
		s := newStore(t, path)
		rows, blocks := count(t, s, key("a"))
		if rows < acknowledged || rows != blocks {
			t.Errorf("round %d: %d batches were acknowledged; %d rows and %d blocks are there", round, acknowledged, rows,
				blocks)
		}
		var check string
		if err := s.conn.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
			t.Errorf("integrity check: %s, %v", check, err)
		}
		must.Do(t, s.Close())
	}
}

// goldenKey is the session that fill puts.
var goldenKey = session.Key{Tenant: "acme", ID: "a"}

// fill puts rows and blocks of every form.
func fill(t *testing.T, s *Store) {
	t.Helper()
	a, b := goldenKey, key("b")
	live := storetest.Row(a, 3)
	live.Known = spans.KnownLive
	for _, batch := range []session.Batch{
		{Rows: []session.Row{storetest.Row(a, 1), storetest.Row(a, 2), live},
			Blocks: []session.Block{storetest.Block(a, "body"), {Session: a, ID: spans.BlockOfString("cut"), Size: 99}}},
		{Rows: []session.Row{storetest.Row(b, 4)}},
		{Rows: []session.Row{storetest.Row(a, 5)}},
		{Blocks: []session.Block{storetest.Block(a, "a \x01"+spans.BlockOfString("body").Short().String()),
			storetest.Block(a, strings.Repeat("long ", 50))}},
	} {
		must.Do(t, s.Put(t.Context(), batch))
	}
	m := must.Get(s.Revision(t.Context(), a))(t)
	must.Do(t, s.SetSummary(t.Context(), a, store.SummaryUpdate{Revision: m, Summary: goldenSummary(),
		Figures: storetest.FiguresFor(a, 2)}))
	must.Do(t, s.ProjectChat(t.Context(), b, m, chatRows("b", "hi")))
}

func goldenSummary() session.Summary {
	m := storetest.Summary(goldenKey)
	m.Parent = "parent"
	return m
}

// byContent compares batches whatever the order.
var byContent = cmp.Options{
	cmpopts.SortSlices(func(a, b session.Row) bool {
		return string(a.AppendCanonical(nil)) < string(
			b.AppendCanonical(nil))
	}),
	cmpopts.SortSlices(func(a, b session.Block) bool { return string(a.ID[:]) < string(b.ID[:]) }),
	cmp.Comparer(func(a, b session.Row) bool { return string(a.AppendCanonical(nil)) == string(b.AppendCanonical(nil)) }),
}

// content reads all of a session.
func content(t *testing.T, s *Store, k session.Key) session.Batch {
	t.Helper()
	return session.Batch{Rows: must.All(s.Rows(t.Context(), k))(t), Blocks: must.All(s.Blocks(t.Context(), k))(t)}
}

// Several programs make a database at once; all of them use it.
func TestMadeAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	var wait sync.WaitGroup
	for n := range 4 {
		wait.Go(func() {
			s, err := Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			err = s.Put(t.Context(), session.Batch{Rows: []session.Row{storetest.Row(key("a"), n)}})
			if err := errors.Join(err, s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if rows, _ := count(t, newStore(t, path), key("a")); rows != 4 {
		t.Errorf("%d rows, want 4", rows)
	}
}

// TestFewAreLookedUp: a query that names few sessions uses the index that has them, and does not look through the whole
// list.
func TestFewAreLookedUp(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "x.db"))
	for _, c := range []struct {
		q    store.Query
		want string
	}{
		{store.Query{}, "sessions_by_last"},
		{store.Query{Limit: 50, Oldest: true}, "sessions_by_last"},
		{store.Query{Prefix: "0b5c"}, "sqlite_autoindex_sessions_1 (tenant=? AND id>? AND id<?)"},
		{store.Query{Prefix: "0b5c", Oldest: true}, "sqlite_autoindex_sessions_1 (tenant=? AND id>? AND id<?)"},
		{store.Query{Parent: "p"}, "SEARCH s USING INTEGER PRIMARY KEY"},
		{store.Query{ForkedFrom: "p"}, "SEARCH s USING INTEGER PRIMARY KEY"},
		{store.Query{Agent: "coder", Status: []spans.SessionStatus{"idle"}, Now: time.Now(), Limit: 50},
			"SEARCH s USING COVERING INDEX sessions_by_last (tenant=?)"},
		{store.Query{Status: []spans.SessionStatus{"busy", "retrying"}, Now: time.Now()}, "summaries_open"},
		{store.Query{Since: time.Unix(1, 0), Until: time.Unix(9, 0), Errors: true},
			"SEARCH s USING COVERING INDEX sessions_by_last (tenant=? AND last_ns>?)"},
		{store.Query{After: &store.Cursor{Last: time.Unix(1, 0)}, Search: "x"},
			"SEARCH s USING COVERING INDEX sessions_by_last (tenant=? AND last_ns<?)"},
		{store.Query{Traces: []session.TraceID{{1}}}, "SEARCH s USING INTEGER PRIMARY KEY"},
		{store.Query{Traces: []session.TraceID{{1}}, Span: session.SpanID{1}, Prefix: "0"},
			"SEARCH s USING INTEGER PRIMARY KEY"},
	} {
		query, args := sessionsQuery(c.q)
		rows := must.Get(s.conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...))(t)
		var plan []string
		for rows.Next() {
			var a, b, n int
			var text string
			must.Do(t, rows.Scan(&a, &b, &n, &text))
			plan = append(plan, text)
		}
		must.Do(t, errors.Join(rows.Err(), rows.Close()))
		if got := strings.Join(plan, "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%+v: want %s\n%s", c.q, c.want, got)
		}
	}
}

// Rows come in the order of arrival, whether those of other sessions between them are few or many.
func TestRowsOfMixedSessions(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "x.db"))
	want := map[string][]session.SpanID{}
	for n := range 200 {
		id := "dense"
		if n%20 == 0 {
			id = "sparse"
		}
		r := storetest.Row(key(id), n)
		r.Span = session.SpanID{byte(255 - n), 1} // the order of the key is another
		must.Do(t, s.Put(t.Context(), session.Batch{Rows: []session.Row{r}}))
		want[id] = append(want[id], r.Span)
	}
	for id, want := range want {
		var got []session.SpanID
		for r, err := range s.Rows(t.Context(), key(id)) {
			if must.Do(t, err); r.Session.ID != id {
				t.Errorf("a row of session %s", r.Session.ID)
			}
			got = append(got, r.Span)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d rows, want %d in the order of arrival", id, len(got), len(want))
		}
	}
}
