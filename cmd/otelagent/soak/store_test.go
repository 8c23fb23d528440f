//go:build linux

package soak

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/otelagent/otelagent/internal/must"
)

// look opens a database as another program would.
func look(t *testing.T, path string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path}).String()+"?_pragma=busy_timeout(5000)"))(t)
	return db
}

// storedSpans counts rows as another program would. A file that is not there has none.
func storedSpans(t *testing.T, path string) (n int) {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return 0
	}
	db := look(t, path)
	defer db.Close()
	must.Do(t, db.QueryRowContext(t.Context(),
		"SELECT count(*) FROM rows").Scan(&n))
	return n
}

// lock makes a database busy for all others who want to write, as long as it is not unlocked.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db := look(t, path)
	conn := must.Get(db.Conn(t.Context()))(t)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		_, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("lock the database: %v", err)
		}
	}
	return sync.OnceFunc(func() {
		_, _ = conn.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK")
		_ = conn.Close()
		_ = db.Close()
	})
}
