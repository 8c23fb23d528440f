package sqlitestore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
)

const (
	largeSessions = 100_000
	largeTurns    = 10_000
	smallTurns    = 20
)

var (
	bigKey   = session.Key{ID: "big"}
	smallKey = session.Key{ID: "small"}
)

// largeDir is made once for all runs, and removed by TestMain.
var largeDir string

// largeStore is a file with 100,000 sessions, projected, one of 10,000 turns and one of 20 among them.
var largeStore = sync.OnceValues(func() (string, error) {
	var err error
	if largeDir, err = os.MkdirTemp("", "sqlitestore"); err != nil {
		return "", err
	}
	path := filepath.Join(largeDir, "x.db")
	ctx := context.Background()
	s, err := Open(ctx, path)
	if err != nil {
		return "", err
	}
	var rows []session.Row
	for n := range largeSessions {
		rows = append(rows, benchRow(session.Key{ID: fmt.Sprintf("0194f3c2-6a1b-7c3d-9e4f-%012d", n)}, 4))
		if n%2 == 0 { // between those of others
			rows = append(rows, benchRow(bigKey, n/2))
		}
		if n < 5*smallTurns {
			rows = append(rows, benchRow(smallKey, n))
		}
		if len(rows) > 5000 || n == largeSessions-1 {
			if err := s.Put(ctx, session.Batch{Rows: rows}); err != nil {
				return "", err
			}
			rows = rows[:0]
		}
	}
	for n := range smallTurns {
		if err := s.Put(ctx, session.Batch{Blocks: []session.Block{storetest.Block(smallKey,
			noise(fmt.Sprint(n), 4000))}}); err != nil {
			return "", err
		}
	}
	// What 100,000 projections would write, at once.
	for _, q := range []string{
		`UPDATE sessions SET projected = mark, last_ns = session * 1000000`,
		`INSERT INTO summaries (session, ` + strings.Join(store.SummaryColumns, ", ") + `)
			SELECT session, '', CASE session % 1000 WHEN 0 THEN 'error' ELSE 'idle' END, CASE session % 1000 WHEN 0 THEN
				'reviewer' ELSE 'coder' END, 'coder-1', 'claude-opus-4-6', 'phi-core',
				last_ns - 1000, last_ns, 1, 20, 40, session % 1000 = 0, 2, 0, 12345, 678, 0, 12000, 300, 0,
				'', 'Fix number ' || session || ' of the parser', session % 10 = 0, 0.25, 'USD', 0, '', '', 0 FROM sessions`,
	} {
		if _, err := s.conn.ExecContext(ctx, q); err != nil {
			return "", err
		}
	}
	return path, s.Close()
})

// BenchmarkLarge reads from a file with 100,000 sessions that is written to all the while.
func BenchmarkLarge(b *testing.B) {
	path := must.Get(largeStore())(b)
	s, err := Open(b.Context(), path)
	must.Do(b, err)
	stop, stopped := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { // some 5,000 rows a second
		var err error
		k := session.Key{ID: "written to"}
		for n := 0; err == nil && stop.Err() == nil; n++ {
			var rows []session.Row
			for i := range 50 {
				rows = append(rows, benchRow(k, 50*n+i))
			}
			err = s.Put(context.Background(), session.Batch{Rows: rows})
			select {
			case <-stop.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
		done <- err
	}()
	defer func() {
		stopped()
		if err := <-done; err != nil {
			b.Error(err)
		}
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	b.Run("newest50", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for _, err := range s.Sessions(b.Context(), store.Query{Limit: 50}) {
				must.Do(b, err)
				n++
			}
			if n != 50 {
				b.Fatalf("%d sessions", n)
			}
		}
	})
	read := func(b *testing.B, k session.Key, turns, blocks int) {
		var rows []session.Row
		for r, err := range s.Rows(b.Context(), k) {
			must.Do(b, err)
			rows = append(rows, r)
		}
		tree := session.Assemble(rows)
		n := 0
		for _, err := range s.Blocks(b.Context(), k) {
			must.Do(b, err)
			n++
		}
		if len(rows) != 5*turns || len(tree.Runs) == 0 || n != blocks {
			b.Fatalf("%d rows, %d runs, %d blocks", len(rows), len(tree.Runs), n)
		}
	}
	b.Run("small", func(b *testing.B) {
		for b.Loop() {
			read(b, smallKey, smallTurns, smallTurns)
		}
	})
	b.Run("big", func(b *testing.B) {
		for b.Loop() {
			read(b, bigKey, largeTurns, 0)
		}
	})
}

// payloadTurns is how many turns BenchmarkPutPayload writes in a transaction, each of five rows and 4 KiB of text.
const payloadTurns = 50

// payloadBatch returns the n-th batch.
func payloadBatch(n int, text string) session.Batch {
	var b session.Batch
	k := session.Key{ID: fmt.Sprintf("0194f3c2-6a1b-7c3d-9e4f-%012d", n/20)}
	for i := range payloadTurns {
		at := (n*payloadTurns + i) * 997 % (len(text) - 4096)
		for j := range 5 {
			b.Rows = append(b.Rows, benchRow(k, 5*(n*payloadTurns+i)+j))
		}
		b.Blocks = append(b.Blocks, storetest.Block(k, fmt.Sprint(n, i)+text[at:at+1024]),
			storetest.Block(k, fmt.Sprint(i, n)+text[at+1024:at+4096]))
	}
	return b
}

// payloadText is text as agents write it, more or less: words that come again and again.
func payloadText() string {
	var b strings.Builder
	for n := 0; b.Len() < 1<<20; n++ {
		h := sha256.Sum256(fmt.Append(nil, n))
		fmt.Fprintf(&b, "%s the %x of %x", strings.Fields("func return if err != nil string int range for type struct")[n%12],
			h[:2], h[2:3+h[4]%3])
	}
	return b.String()
}

// BenchmarkPutPayload writes 50 turns of 4 KiB of text in a transaction. sqlite is Put; bare is what cannot be left
// out: SHA-256 of the bodies, their compression, and prepared plain inserts of rows that are encoded already, of the
// compressed bodies, and of the keys of bodies, into tables that have nothing but their primary key.
func BenchmarkPutPayload(b *testing.B) {
	text := payloadText()
	b.Run("sqlite", func(b *testing.B) {
		s := benchOpen(b)
		n := 0
		for b.Loop() {
			b.StopTimer()
			batch := payloadBatch(n, text)
			n++
			b.StartTimer()
			must.Do(b, s.Put(b.Context(), batch))
		}
		b.ReportMetric(float64(b.N)*payloadTurns/b.Elapsed().Seconds(), "turns/s")
	})
	b.Run("bare", func(b *testing.B) {
		s := benchOpen(b)
		ctx := context.Background()
		exec := func(text string) {
			must.Get(s.conn.ExecContext(ctx, text))(b)
		}
		rows := bareRows(b, s)
		exec(`CREATE TABLE bare_blocks (session INTEGER NOT NULL, id BLOB NOT NULL, PRIMARY KEY (session, id)) STRICT,` +
			` WITHOUT ROWID;
			CREATE TABLE bare_packs (pack INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT`)
		blocks := must.Get(s.conn.PrepareContext(ctx, `INSERT INTO bare_blocks VALUES (?, ?)`))(b)
		packs := must.Get(s.conn.PrepareContext(ctx, `INSERT INTO bare_packs (body) VALUES (?)`))(b)
		defer func() {
			for _, stmt := range []*sql.Stmt{rows, blocks, packs} {
				_ = stmt.Close()
			}
		}()
		n := 0
		for b.Loop() {
			b.StopTimer()
			batch := payloadBatch(n, text)
			args := make([][]any, len(batch.Rows))
			for i := range batch.Rows {
				args[i] = rowArgs(&batch.Rows[i], int64(n/20), batch.Rows[i].AppendCanonical(nil))
			}
			n++
			b.StartTimer()
			exec("BEGIN IMMEDIATE")
			for _, a := range args {
				if _, err := rows.ExecContext(ctx, a...); err != nil {
					b.Fatal(err)
				}
			}
			var raw []byte
			for i := range batch.Blocks {
				id := sha256.Sum256([]byte(batch.Blocks[i].Body))
				if _, err := blocks.ExecContext(ctx, n/20, id[:blockKey]); err != nil {
					b.Fatal(err)
				}
				raw = append(raw, batch.Blocks[i].Body...)
			}
			if _, err := packs.ExecContext(ctx, packEncoder().EncodeAll(raw, nil)); err != nil {
				b.Fatal(err)
			}
			exec("COMMIT")
		}
		b.ReportMetric(float64(b.N)*payloadTurns/b.Elapsed().Seconds(), "turns/s")
	})
}
