package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
)

//go:embed down4.sql
var down4 string

//go:embed down5.sql
var down5 string

//go:embed down6.sql
var down6 string

// A program of any older version refuses a file of this one and leaves it alone; this one reads no file of an older version that nobody has
// opened for writing, and leaves that alone as well.
func TestOtherVersions(t *testing.T) {
	dir := t.TempDir()
	for v := 1; v < Version; v++ {
		golden, err := os.ReadFile(fmt.Sprintf("testdata/v%d.sql", v))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, fmt.Sprintf("v%d.db", v))
		exec1(t, path, string(golden))
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var other *VersionError
		if _, err := OpenReadOnly(t.Context(), path); !errors.As(err, &other) || other.Have != v || errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), "open it once for writing") {
			t.Errorf("version %d opened for reading: %v", v, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("version %d was changed by a reader, %v", v, err)
		}
		if err := newStore(t, path).Close(); err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// What a program of version v does when it opens a file.
		err = migrate(t.Context(), c, migrations[:v])
		if !errors.As(err, &other) || other.Have != Version || other.Want != v || !errors.Is(unusable(err), store.ErrUnusable) || !strings.Contains(err.Error(), "use a newer program") {
			t.Errorf("a program of version %d: %v", v, err)
		}
		if err := errors.Join(c.Close(), db.Close()); err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(now, after) {
			t.Errorf("a program of version %d changed the file, %v", v, err)
		}
	}
}

// A backup that was made while a program writes is whole, and opens.
func TestBackup(t *testing.T) {
	for name, backup := range map[string]func(t *testing.T, from, to string){
		"VACUUM INTO": func(t *testing.T, from, to string) {
			t.Helper()
			exec1(t, from, "VACUUM INTO '"+to+"'")
		},
		".backup": func(t *testing.T, from, to string) {
			t.Helper()
			cli, err := exec.LookPath("sqlite3")
			if err != nil {
				t.Skip("the program sqlite3 is not installed (Debian: apt-get install sqlite3); CI installs it")
			}
			if out, err := exec.Command(cli, "-cmd", ".timeout 5000", from, ".backup '"+to+"'").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, to := filepath.Join(dir, "x.db"), filepath.Join(dir, "backup.db")
			s := newStore(t, path)
			fill(t, s)
			want := content(t, s, goldenKey)
			stop, done := make(chan struct{}), make(chan error)
			go func() {
				var err error
				for n := 0; err == nil; n++ {
					select {
					case <-stop:
						done <- nil
						return
					default:
						err = s.Put(context.Background(), session.Batch{Rows: []session.Row{storetest.Row(key("busy"), n)}, Blocks: []session.Block{storetest.Block(key("busy"), fmt.Sprint(n))}})
					}
				}
				<-stop
				done <- err
			}()
			backup(t, path, to)
			close(stop)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			b := newStore(t, to)
			if diff := cmp.Diff(want, content(t, b, goldenKey), byContent); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if rows, blocks := count(t, b, key("busy")); rows != blocks {
				t.Errorf("%d rows and %d blocks of the session that was being written", rows, blocks)
			}
			checkWhole(t, b)
			if err := b.Delete(t.Context(), goldenKey); err != nil {
				t.Fatal(err)
			}
			put(t, b, goldenKey, 1)
			if rows, _ := count(t, b, goldenKey); rows != 1 {
				t.Errorf("%d rows of a session that was made anew", rows)
			}
		})
	}
}

// The way back, a version after the other to version 3, and up again loses nothing of rows and blocks, and leaves nothing behind of what was being deleted.
func TestDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := newStore(t, path)
	fill(t, s)
	for n := range 3 {
		k := key(fmt.Sprint("shares ", n))
		b := storetest.Block(k, strings.Repeat("the same prompt ", 1000))
		if err := s.Put(t.Context(), session.Batch{Rows: []session.Row{fixed(storetest.Row(k, n), b)}, Blocks: []session.Block{b, storetest.Block(k, fmt.Sprint(n))}}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[session.Key]session.Batch{}
	for _, k := range []session.Key{goldenKey, key("b"), key("shares 0"), key("shares 1")} {
		want[k] = content(t, s, k)
	}
	if _, err := s.Hide(t.Context(), key("shares 2"), 0); err != nil {
		t.Fatal(err)
	}
	const states = `SELECT (SELECT last FROM marks) || ' ' || group_concat(tenant || id || mark || last_ns) FROM sessions`
	var before string
	if err := s.readers.QueryRowContext(t.Context(), states).Scan(&before); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	columnsOf := func(path string) string {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var out string
		if err := db.QueryRow(`SELECT group_concat(m.type || ' ' || m.name || ' ' || ifnull(c.name || ' ' || c.type || c."notnull" || ifnull(c.dflt_value, '') || c.pk, ''), char(10))
			FROM (SELECT * FROM sqlite_schema ORDER BY type, name) m LEFT JOIN pragma_table_info(m.name) c`).Scan(&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, step := range []struct {
		to          int
		down, other string
	}{{5, down6, down5}, {4, down5, down4}, {3, down4, down6}} {
		if err := exec2(path, step.other); err == nil {
			t.Errorf("another way back can be taken where that to version %d is the right one", step.to)
		}
		exec1(t, path, step.down)
		if err := exec2(path, step.down); err == nil {
			t.Errorf("the way back to version %d can be taken from there", step.to)
		}
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := version(t.Context(), db, step.to); v != step.to || err != nil {
			t.Fatalf("version %d, %v", v, err)
		}
		_ = db.Close()
		golden, err := os.ReadFile(fmt.Sprintf("testdata/v%d.sql", step.to))
		if err != nil {
			t.Fatal(err)
		}
		old := filepath.Join(t.TempDir(), "old.db")
		exec1(t, old, string(golden))
		if diff := cmp.Diff(columnsOf(old), columnsOf(path)); diff != "" {
			t.Errorf("schema (-version %d +got):\n%s", step.to, diff)
		}
	}

	s = newStore(t, path)
	for k, want := range want {
		if diff := cmp.Diff(want, content(t, s, k), byContent); diff != "" {
			t.Errorf("%v (-want +got):\n%s", k, diff)
		}
	}
	var after string
	if err := s.readers.QueryRowContext(t.Context(), states).Scan(&after); err != nil || before != after {
		t.Errorf("sessions %q, want %q, %v", after, before, err)
	}
	checkWhole(t, s)
}

// exec2 is exec1 that may fail.
func exec2(path, text string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	_, err = db.Exec(text)
	return errors.Join(err, db.Close())
}
