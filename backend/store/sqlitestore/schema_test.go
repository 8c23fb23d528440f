package sqlitestore

import (
	"bytes"
	"context"
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
	"github.com/otelagent/otelagent/internal/must"
)

// A file of another version is refused and not changed; the error names the version that was found,
// the one that is wanted, and what to do.
func TestOtherVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	must.Do(t, newStore(t, path).Close())
	for v, do := range map[int]string{
		1:           "cannot be read: record into a new database",
		Version - 1: "cannot be read: record into a new database",
		Version + 1: "use a newer program",
	} {
		exec1(t, path, fmt.Sprintf("PRAGMA user_version=%d", v))
		before := must.Get(os.ReadFile(path))(t)
		want := fmt.Sprintf("database has schema version %d, this program wants version %d: ", v, Version)
		for name, open := range map[string]func(context.Context, string, ...Option) (*Store, error){"Open": Open,
			"OpenReadOnly": OpenReadOnly} {
			var other *store.VersionError
			_, err := open(t.Context(), path)
			if !errors.As(err, &other) || other.Have != v || other.Want != Version || !errors.Is(err, store.ErrUnusable) {
				t.Errorf("%s of version %d: %v", name, v, err)
			} else if got := err.Error(); !strings.Contains(got, want) || !strings.Contains(got, do) ||
				!strings.Contains(got, path) {
				t.Errorf("%s of version %d: %v; want %q, %q and the path in it", name, v, err, want, do)
			}
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("version %d was changed, %v", v, err)
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
			backup := exec.Command(sqliteProgram(t), "-cmd", ".timeout 5000", from, ".backup '"+to+"'")
			if out, err := backup.CombinedOutput(); err != nil {
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
						err = s.Put(context.Background(), session.Batch{Rows: []session.Row{storetest.Row(key("busy"), n)},
							Blocks: []session.Block{storetest.Block(key("busy"), fmt.Sprint(n))}})
					}
				}
				<-stop
				done <- err
			}()
			backup(t, path, to)
			close(stop)
			must.Do(t, <-done)
			b := newStore(t, to)
			if diff := cmp.Diff(want, content(t, b, goldenKey), byContent); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if rows, blocks := count(t, b, key("busy")); rows != blocks {
				t.Errorf("%d rows and %d blocks of the session that was being written", rows, blocks)
			}
			checkWhole(t, b)
			must.Do(t, store.Delete(t.Context(), b, goldenKey))
			put(t, b, goldenKey, 1)
			if rows, _ := count(t, b, goldenKey); rows != 1 {
				t.Errorf("%d rows of a session that was made anew", rows)
			}
		})
	}
}
