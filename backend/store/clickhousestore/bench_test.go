package clickhousestore

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

const (
	benchBatch    = 10_000
	benchSessions = 40 // in a batch
)

// benchBatches returns the n-th batch: of five rows one turn with its new message of 4 KB, in sessions that take turns.
func benchBatches(n int, bodies bool) session.Batch {
	var b session.Batch
	for i := range benchBatch {
		k := session.Key{ID: fmt.Sprintf("0194f3c2-6a1b-7c3d-9e4f-%012d", n/10*benchSessions+i%benchSessions)}
		r := storetest.Row(k, n*benchBatch+i)
		h := sha256.Sum256(fmt.Append(nil, n, i))
		copy(r.Span[:], h[:])
		copy(r.Parent[:], h[8:])
		b.Rows = append(b.Rows, r)
		if bodies && i%5 == 0 {
			body := ""
			for j := range 64 {
				body += fmt.Sprintf("%x says word %06d of the turn %08d; ", h[j%16:j%16+12], j, i)
			}
			b.Blocks = append(b.Blocks, session.Block{Session: k, ID: spans.BlockOfString(body), Body: body})
		}
	}
	return b
}

// BenchmarkPut writes 10,000 rows at once. clickhouse is Put, encoding included; bare is a plain insert of rows that
// are encoded already, through the same client, into a table of the same columns that has nothing but its key. With
// bodies both do the same for 2,000 blocks of 4 KB.
func BenchmarkPut(b *testing.B) {
	server(b)
	for _, bodies := range []bool{false, true} {
		suffix := ""
		if bodies {
			suffix = "-bodies"
		}
		b.Run("clickhouse"+suffix, func(b *testing.B) {
			s := benchOpen(b)
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				batch := benchBatches(n, bodies)
				b.StartTimer()
				must.Do(b, s.Put(b.Context(), batch))
			}
			report(b)
		})
		b.Run("bare"+suffix, func(b *testing.B) {
			s := benchOpen(b)
			bare := map[*table]string{}
			for _, t := range []*table{&rowTable, &blockTable} {
				plain := table{name: "bare_" + t.name, columns: t.columns, order: t.order, granularity: t.granularity,
					shard: t.shard}
				for _, sql := range s.layout.create(&plain) {
					must.Do(b, s.client.exec(b.Context(), sql))
				}
				bare[t] = s.layout.into(&plain)
			}
			w := &putter{writer: 1 << 62}
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				must.Do(b, w.encode(benchBatches(n, bodies), s.clock()))
				b.StartTimer()
				for t, rows := range map[*table][]byte{&blockTable: w.blocks, &rowTable: w.rows} {
					if len(rows) == 0 {
						continue
					}
					must.Do(b, s.client.insert(b.Context(), bare[t], rows, fmt.Sprint(t.name, n)))
				}
			}
			report(b)
		})
	}
}

func report(b *testing.B) {
	b.ReportMetric(float64(b.N)*benchBatch/b.Elapsed().Seconds(), "rows/s")
}

func benchOpen(b *testing.B) *Store {
	b.Helper()
	s := must.Get(Open(b.Context(), missing(b)))(b)
	b.Cleanup(func() { _ = s.Close() })
	return s
}
