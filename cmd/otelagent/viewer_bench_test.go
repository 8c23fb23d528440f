package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/backend/web"
)

// manySessions is how many there are besides in the database of BenchmarkShow.
const manySessions = 100_000

// manyPath is made once for all runs, and removed by cleaning.
var (
	manyOnce sync.Once
	manyPath string
)

// manyDatabase holds the recording of 200 turns with requests of up to 1 MB, and 100,000 small sessions that are copies
// of one another, with summaries.
func manyDatabase(b *testing.B) string {
	b.Helper()
	manyOnce.Do(func() {
		dir, err := os.MkdirTemp("", "otelagent-many-") // for all runs; cleaning removes it
		must(b, err)
		path := filepath.Join(dir, "s.db")
		long := longDatabase(b)
		must(b, os.Rename(long, path))
		copySessions(b, path)
		manyPath = path
	})
	if manyPath == "" {
		b.Fatal("the database could not be made")
	}
	return manyPath
}

// copySessions puts very many copies of the demo's sub-agent into a database, and gives them summaries as
// projections would.
func copySessions(b *testing.B, path string) {
	b.Helper()
	file := filepath.Join(b.TempDir(), "demo.ndjson")
	must(b, os.WriteFile(file, demoEvents, 0o600))
	rec, err := quiet.openRecording(b.Context(), []string{file}, auto)
	must(b, err)
	defer rec.close()
	const child = "c41d7b1e-93a2-4a0e-8f55-6b7a1f0d2c90"
	var rows []session.Row
	for r, err := range rec.Store.Rows(b.Context(), session.Key{ID: child}) {
		must(b, err)
		rows = append(rows, r)
	}
	if len(rows) < 2 {
		b.Fatalf("%d rows", len(rows))
	}
	to, err := sqlitestore.Open(b.Context(), path)
	must(b, err)
	var batch []session.Row
	for n := range manySessions {
		for i, r := range rows[:2] {
			r.Session.ID = fmt.Sprintf("0194f3c2-6a1b-7c3d-9e4f-%012d", n)
			binary.BigEndian.PutUint64(r.Trace[:8], uint64(n+1))
			binary.BigEndian.PutUint64(r.Span[:], uint64(4*n+i+1))
			batch = append(batch, r)
		}
		if len(batch) > 6000 || n == manySessions-1 {
			must(b, to.Put(context.Background(), session.Batch{Rows: batch}))
			batch = batch[:0]
		}
	}
	must(b, to.Close())
	raw, err := sql.Open("sqlite", path)
	must(b, err)
	defer raw.Close()
	var columns, same string
	if err := raw.QueryRowContext(b.Context(), `SELECT group_concat(name), group_concat('m.' || name) `+
		`FROM pragma_table_info('summaries') WHERE name <> 'session'`).Scan(&columns, &same); err != nil {
		b.Fatal(err)
	}
	for _, q := range []string{
		`INSERT INTO summaries (session, ` + columns + `) SELECT s.session, ` + same + ` FROM sessions s,
			(SELECT * FROM summaries LIMIT 1) m WHERE s.session NOT IN (SELECT session FROM summaries)`,
		`UPDATE sessions SET projected = mark, last_ns = session * 1000000 WHERE projected <> mark OR projected IS NULL`,
		`ANALYZE`,
	} {
		if _, err := raw.ExecContext(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
}

// pageFiles are the assets that a browser loads with the first page.
func pageFiles(b *testing.B) []string {
	b.Helper()
	var out []string
	err := filepath.WalkDir("../../backend/web/page/assets", func(path string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err == nil && (ext == ".js" || ext == ".css" || ext == ".svg") {
			out = append(out, "/assets/"+filepath.ToSlash(strings.TrimPrefix(path, "../../backend/web/page/assets/")))
		}
		return err
	})
	if err != nil || len(out) == 0 {
		b.Fatal("no assets", err)
	}
	return out
}

// BenchmarkShow looks at one session of 200 turns among 100,000: with a browser that comes for the first time, and
// on the command line.
func BenchmarkShow(b *testing.B) {
	path := manyDatabase(b)
	db, err := quiet.open(b.Context(), path)
	must(b, err)
	defer db.close()
	var id string
	must(b, queryOne(b, path, `SELECT id FROM sessions WHERE id NOT LIKE '0194f3c2%' LIMIT 1`, &id))
	handler := func(b *testing.B) *web.Handler {
		h, err := web.New(web.Options{Store: db.Store, Refresh: db.refresh})
		must(b, err)
		return h
	}
	get := func(b *testing.B, h http.Handler, target string) {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.Host = "127.0.0.1:8321"
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK || w.Body.Len() == 0 {
			b.Fatalf("%s: %d %.200s", target, w.Code, w.Body)
		}
	}
	assets := pageFiles(b)
	b.Run("first-paint", func(b *testing.B) {
		for b.Loop() {
			h := handler(b) // which remembers nothing
			get(b, h, "/s/"+id)
			for _, a := range assets {
				get(b, h, a)
			}
			get(b, h, "/api/v1/about")
			get(b, h, "/api/v1/outline/"+id)
			get(b, h, "/api/v1/turns/"+id+"?from=0&count=50&text=4096")
			h.Close()
		}
	})
	b.Run("command", func(b *testing.B) { // all of it but the process
		for b.Loop() {
			if code := run(b.Context(), []string{"show", id, "--db", path}, nil, io.Discard, io.Discard); code != exitOK {
				b.Fatal(code)
			}
		}
	})
}

func queryOne(b *testing.B, path, text string, into any) error {
	b.Helper()
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer raw.Close()
	return raw.QueryRowContext(b.Context(), text).Scan(into)
}
