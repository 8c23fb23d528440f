package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/interop/clickhouse/ring"
)

// TestFigures prints how fast Put is beside a bare insert of the very bytes that it made, and what a span takes on disk. Nothing is held
// to a bound here: the machine is shared, and the ratio is the benchmark's affair (docs/hotpaths.md).
func TestFigures(t *testing.T) {
	const (
		writers = 2
		puts    = 15 // of each writer
		perPut  = 2000
		total   = writers * puts * perPut
	)
	r := start(t)
	first := r.Server
	batches := make([]session.Batch, writers*puts)
	for i := range batches {
		for j := range perPut {
			k := session.Key{ID: "session-" + strconv.Itoa(j%50)}
			batches[i].Rows = append(batches[i].Rows, storetest.Row(k, i*perPut+j))
		}
	}
	stores := make([]store.Store, writers)
	for i := range stores {
		stores[i] = open(t, database(r, "figures_put"))
	}
	open(t, database(r, "figures_bare")) // makes the tables

	parallel := func(f func(writer, i int) error) time.Duration {
		begin := time.Now()
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range puts {
					if err := f(w, w*puts+i); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(begin)
	}
	put := parallel(func(w, i int) error { return stores[w].Put(t.Context(), batches[i]) })
	if t.Failed() {
		return
	}

	// What Put inserted into the table of rows, Put by Put, as the engine has it.
	names := query(t, first, "SELECT DISTINCT writer, n FROM figures_put.rows FORMAT TSV")
	var bodies [][]byte
	for line := range strings.Lines(names) {
		writer, n, _ := strings.Cut(strings.TrimSpace(line), "\t")
		out := query(t, first, fmt.Sprintf("SELECT * FROM figures_put.rows WHERE writer = %s AND n = %s FORMAT RowBinary", writer, n))
		bodies = append(bodies, []byte(out))
	}
	if len(bodies) != len(batches) {
		t.Fatalf("%d Puts are there, want %d", len(bodies), len(batches))
	}
	settings := url.Values{"query": {"INSERT INTO figures_bare.rows FORMAT RowBinary"}}
	target := fmt.Sprintf("http://127.0.0.1:%d/?%s", first.Port, settings.Encode())
	bare := parallel(func(_, i int) error {
		resp, err := http.Post(target, "application/octet-stream", strings.NewReader(string(bodies[i])))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("HTTP %d", resp.StatusCode)
		}
		return nil
	})
	if t.Failed() {
		return
	}
	rate := func(d time.Duration) float64 { return total / d.Seconds() }
	t.Logf("%d rows in Puts of %d by %d writers: %.0f rows/s; bare inserts of the same bytes: %.0f rows/s; ratio %.2f",
		total, perPut, writers, rate(put), rate(bare), bare.Seconds()/put.Seconds())

	query(t, first, "OPTIMIZE TABLE figures_put.rows FINAL")
	out := query(t, first, "SELECT sum(bytes_on_disk), sum(rows) FROM system.parts WHERE active AND database = 'figures_put' AND table = 'rows' FORMAT TSV")
	var bytes, rows int
	if _, err := fmt.Sscan(out, &bytes, &rows); err != nil || rows != total {
		t.Fatal(out, err, total)
	}
	t.Logf("%.0f bytes a row on disk", float64(bytes)/float64(rows))
}

func query(t *testing.T, s *ring.Server, sql string) string {
	t.Helper()
	out, err := s.Query(t.Context(), sql, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
