package sqlitestore_test

import (
	"database/sql"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
)

// used returns how many bytes of pages each table takes with its indexes, after a checkpoint, and under "" what is
// free.
func used(tb testing.TB, path string) map[string]int64 {
	tb.Helper()
	db := must.Get(sql.Open("sqlite", path))(tb)
	defer db.Close()
	must.Get(db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"))(tb)
	out := map[string]int64{}
	rows, err := db.Query(`SELECT s.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_schema s ON s.name = d.name GROUP BY
		1
		UNION ALL SELECT '', freelist_count * page_size FROM pragma_freelist_count, pragma_page_size`)
	must.Do(tb, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int64
		must.Do(tb, rows.Scan(&name, &n))
		out[name] = n
	}
	if rows.Err() != nil {
		tb.Fatal(rows.Err())
	}
	return out
}

// goText returns about n bytes of the Go distribution's own sources: text that people wrote, the same with one
// toolchain.
func goText(tb testing.TB, n int) string {
	tb.Helper()
	var b strings.Builder
	root, err := exec.Command("go", "env", "GOROOT").Output()
	must.Do(tb, err)
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src", "net"),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			b.Write(text)
			if b.Len() >= n {
				return fs.SkipAll
			}
			return err
		})
	if err != nil || b.Len() < n {
		tb.Fatalf("%d bytes of text, want %d: %v", b.Len(), n, err)
	}
	return b.String()[:n]
}

const (
	longTurns = 200
	newText   = 4 << 10
	fixedText = 56 << 10 // prompt and tools
)

// longSession returns what a session of 200 turns comes to, turn by turn: 5 rows and 5 bodies a turn. The bytes of its
// bodies are distinct.
func longSession(tb testing.TB, k session.Key) (turns []session.Batch, distinct int64) {
	tb.Helper()
	text := goText(tb, fixedText+longTurns*newText)
	take := func(n int) session.Block {
		body := text[:n]
		text = text[n:]
		distinct += int64(n)
		return storetest.Block(k, body)
	}
	for n := range longTurns {
		var b session.Batch
		if n == 0 {
			b.Blocks = append(b.Blocks, take(fixedText/2), take(fixedText/2))
		}
		for i := range 5 {
			b.Rows = append(b.Rows, storetest.Row(k, 5*n+i))
		}
		for _, size := range []int{300, 100, 2200, 600, newText - 3200} {
			b.Blocks = append(b.Blocks, take(size))
		}
		b.Blocks = append(b.Blocks, storetest.Block(k, "{\x01"+b.Blocks[len(b.Blocks)-3].ID.Short().String()))
		turns = append(turns, b)
	}
	return turns, distinct
}

// The bodies of a long session take no more than 0.35 of their bytes on disk, index and unused parts of pages included,
// whether they came turn by turn or many turns at a time.
func TestDisk(t *testing.T) {
	k := session.Key{ID: "0194f3c2-6a1b-7c3d-9e4f-000000000001"}
	turns, distinct := longSession(t, k)
	for name, each := range map[string]int{"turn by turn": 1, "13 turns at a time": 13, "at once": longTurns} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			s := must.Get(sqlitestore.Open(t.Context(), path))(t)
			defer s.Close()
			var longest time.Duration
			for n := 0; n < len(turns); n += each {
				var b session.Batch
				for _, turn := range turns[n:min(n+each, len(turns))] {
					b.Rows, b.Blocks = append(b.Rows, turn.Rows...), append(b.Blocks, turn.Blocks...)
				}
				must.Do(t, s.Put(t.Context(), b))
				if n/each%10 == 9 {
					start := time.Now()
					must.Do(t, project.Session(t.Context(), s, k))
					longest = max(longest, time.Since(start))
				}
			}
			before := used(t, path)
			must.Do(t, project.Session(t.Context(), s, k))
			after := used(t, path)
			share := func(u map[string]int64) float64 { return float64(u["packs"]+u["blocks"]) / float64(distinct) }
			t.Logf("of %d bytes: %.3f before the last projection, %.3f after (packs %.3f, blocks %.3f); free %.3f; longest "+
				"projection %v",
				distinct, share(before), share(after), float64(after["packs"])/float64(distinct),
				float64(after["blocks"])/float64(distinct),
				float64(after[""])/float64(distinct), longest)
			if share(after) > 0.35 {
				t.Errorf("blocks take %.3f of their bytes, want 0.35 at most", share(after))
			}
			start := time.Now()
			n := len(must.All(s.Blocks(t.Context(), k))(t))
			t.Logf("%d blocks read in %v", n, time.Since(start))
		})
	}
}
