package stats_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/backend/store/stats"
	"github.com/otelagent/otelagent/internal/must"
)

// BenchmarkStats makes statistics of 1,000,000 turns in 10,000 sessions. The floor reads the same columns with the same
// statement and keeps nothing.
func BenchmarkStats(b *testing.B) {
	path := filepath.Join(b.TempDir(), "s.db")
	st := must.Get(sqlitestore.Open(context.Background(), path))(b)
	b.Cleanup(func() { _ = st.Close() })
	db := must.Get(sql.Open("sqlite", path))(b)
	b.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{
		`INSERT INTO sessions (tenant, id, mark, projected, last_ns) WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1
			FROM n WHERE n < 10000)
			SELECT '', printf('0194f3c2-6a1b-7c3d-9e4f-%012d', n), 1, 1, n FROM n`,
		`INSERT INTO turns (session, run, run_start_ns, turn, start_ns, end_ns, model_call_ns, first_chunk_ns, agent,
			provider, model, response_model, stop_reason, failed, attempts,
				input, output, reasoning, cache_read, cache_write, lower_bound,
				cost, currency, request_messages, request_bytes, tool_calls)
			WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 999999)
			SELECT 1 + n / 100, 'run', n / 100, n % 100, n * 1000000000, n * 1000000000 + 5000000000 + n * 7919 % 1000000007, n *
				7919 % 1000000007, n * 104729 % 100000007, 'coder', 'anthropic',
				'claude-' || (n % 7), 'claude-20260101', 'tool_use', n % 50 = 0, 1, 1000 + n * 31 % 100003,
				10 + n * 17 % 5003, 0, n * 31 % 100003, 0, 0, 0.01, 'USD', n % 100, 1000 * (n % 100), 2 FROM n`,
	} {
		must.Get(db.Exec(statement))(b)
	}
	o := stats.Options{By: stats.ByModel}
	b.Run("collect", func(b *testing.B) {
		for b.Loop() {
			r, err := stats.Collect(context.Background(), st, o)
			if err != nil || r.Total.Turns != 1_000_000 || len(r.Groups) != 7 || r.Total.Sessions != 10_000 {
				b.Fatal(err, r.Total.Turns, len(r.Groups))
			}
		}
	})
	b.Run("select", func(b *testing.B) {
		query := `SELECT s.id, f.start_ns, f.end_ns, f.model_call_ns, f.first_chunk_ns, f.provider, f.failed, f.attempts,
			f.input, f.output, f.reasoning,
			f.cache_read, f.cache_write, f.cost, f.currency, f.model FROM turns f
			CROSS JOIN sessions s ON s.session = f.session WHERE s.tenant = ''`
		for b.Loop() {
			rows, err := db.Query(query)
			must.Do(b, err)
			columns, err := rows.Columns()
			must.Do(b, err)
			values, to := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				to[i] = &values[i]
			}
			n := 0
			for rows.Next() {
				must.Do(b, rows.Scan(to...))
				n++
			}
			if err := rows.Close(); err != nil || n != 1_000_000 {
				b.Fatal(err, n)
			}
		}
	})
}
