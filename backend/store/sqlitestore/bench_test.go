package sqlitestore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/mapped"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

const (
	benchBatch    = 1000
	benchSessions = 4 // in a batch
)

// benchRow returns the n-th row of a session as an agent makes them: of five rows one turn, two tool calls, a
// permission evaluation and a run or compaction, with 12 attributes and random ids.
func benchRow(k session.Key, n int) session.Row {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h := sha256.Sum256(append(b[:], k.ID...))
	trace := sha256.Sum256(fmt.Append(nil, k.ID, n/500))
	start := int64(1_700_000_000_000_000_000) + int64(n)*1_000_000
	r := session.Row{
		Trace: session.TraceID(trace[:16]), Span: session.SpanID(h[:8]), Parent: session.SpanID(h[8:16]), Session: k,
		Run: "0194f3c2-6a1b-7c3d-9e4f-0123456789ab.cfg.1", RunStart: start - start%500_000_000, Turn: int64(n / 5 % 100),
		Kind: session.KindTurn, Known: spans.KnownObserved, Start: start, End: start + 900_000, Seq: int64(n),
		EndSeq: int64(n) + 3, Service: "coder",
	}
	str := func(key, v string) { r.Attrs = append(r.Attrs, session.Attr{Key: key, Value: session.StringValue(v)}) }
	num := func(key string, v int64) {
		r.Attrs = append(r.Attrs, session.Attr{Key: key, Value: session.IntValue(v)})
	}
	str("gen_ai.agent.name", "coder")
	switch n % 5 {
	case 0:
		str("gen_ai.operation.name", "chat")
		str(string(spans.RequestModelKey), "claude-opus-4-6")
		str(string(spans.ResponseModelKey), "claude-opus-4-6-20260101")
		num("gen_ai.usage.input_tokens", 12345)
		num("gen_ai.usage.output_tokens", 678)
		num(string(spans.UsageCacheReadKey), 12000)
		num(string(spans.UsageCacheWriteKey), 300)
		num(string(spans.UsageInputKey), 12345)
		num(string(spans.UsageOutputKey), 678)
		num(string(spans.UsageReasoningKey), 0)
		str(string(spans.TurnStopReasonKey), "tool_use")
	case 1, 2:
		r.Kind = session.KindToolCall
		str("gen_ai.operation.name", "execute_tool")
		str("gen_ai.tool.call.id", fmt.Sprintf("toolu_%x", h[:12]))
		str(string(spans.ToolNameKey), "bash")
		num("otelagent.ordinal", int64(n%5))
		str(string(spans.ToolOutcomeKey), "ok")
	case 3:
		r.Kind = session.KindPermission
		str("gen_ai.tool.call.id", fmt.Sprintf("toolu_%x", h[:12]))
		str(string(spans.ToolNameKey), "bash")
		str(string(spans.PermissionActionKey), "allow")
	default:
		r.Kind, r.Turn = session.KindRun, session.NoTurn
		str(string(spans.RequestModelKey), "claude-opus-4-6")
		str(string(spans.RunStatusKeyKey), "completed")
	}
	for i := len(r.Attrs); i < 12; i++ {
		num(fmt.Sprintf("zz.number.%d", i), int64(n))
	}
	// Keys above are nearly sorted.
	for i := 1; i < len(r.Attrs); i++ {
		for j := i; j > 0 && r.Attrs[j].Key < r.Attrs[j-1].Key; j-- {
			r.Attrs[j], r.Attrs[j-1] = r.Attrs[j-1], r.Attrs[j]
		}
	}
	return r
}

// benchRows returns the n-th batch, of sessions that take turns.
func benchRows(n int) []session.Row {
	rows := make([]session.Row, benchBatch)
	for i := range rows {
		k := session.Key{ID: fmt.Sprintf("0194f3c2-6a1b-7c3d-9e4f-%012d", n/50*benchSessions+i%benchSessions)}
		rows[i] = benchRow(k, n*benchBatch+i)
	}
	return rows
}

// BenchmarkPut writes 1,000 rows in a transaction. sqlite is Put, encoding included; bare is a prepared plain insert of
// rows that are encoded already, into a table of the same columns that has nothing but its primary key.
func BenchmarkPut(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		s := benchOpen(b)
		n := 0
		for b.Loop() {
			b.StopTimer()
			rows := benchRows(n)
			n++
			b.StartTimer()
			must.Do(b, s.Put(b.Context(), session.Batch{Rows: rows}))
		}
		report(b)
	})
	b.Run("bare", func(b *testing.B) {
		s := benchOpen(b)
		ctx := context.Background()
		exec := func(text string) {
			must.Get(s.conn.ExecContext(ctx, text))(b)
		}
		st := bareRows(b, s)
		defer st.Close()
		n := 0
		for b.Loop() {
			b.StopTimer()
			rows := benchRows(n)
			args := make([][]any, len(rows))
			for i := range rows {
				args[i] = rowArgs(&rows[i], int64(n/50*benchSessions+i%benchSessions), rows[i].AppendCanonical(nil))
			}
			n++
			b.StartTimer()
			exec("BEGIN IMMEDIATE")
			for _, a := range args {
				if _, err := st.ExecContext(ctx, a...); err != nil {
					b.Fatal(err)
				}
			}
			exec("COMMIT")
		}
		report(b)
	})
}

// bareRows makes a table with the columns of rows and nothing but its primary key, and returns a plain insert into it.
func bareRows(b *testing.B, s *Store) *sql.Stmt {
	b.Helper()
	from := strings.Index(schema, "CREATE TABLE rows")
	table := schema[from : from+strings.Index(schema[from:], ";")]
	must.Get(s.conn.ExecContext(b.Context(), strings.Replace(table, "CREATE TABLE rows", "CREATE TABLE bare",
		1)))(b)
	st := must.Get(s.conn.PrepareContext(b.Context(), "INSERT INTO bare VALUES (?,?,?,?,?,?)"))(b)
	return st
}

func report(b *testing.B) {
	b.ReportMetric(float64(b.N)*benchBatch/b.Elapsed().Seconds(), "rows/s")
}

func benchOpen(b *testing.B) *Store {
	b.Helper()
	s := must.Get(Open(b.Context(), filepath.Join(b.TempDir(), "x.db")))(b)
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// BenchmarkRead reads one session of 50,000 rows from a file that was just opened, among those of other sessions, and
// assembles it.
func BenchmarkRead(b *testing.B) {
	b.Run("50000rows", func(b *testing.B) {
		const turns = 10_000
		path := filepath.Join(b.TempDir(), "x.db")
		s := must.Get(Open(b.Context(), path))(b)
		k, other := session.Key{ID: "big"}, session.Key{ID: "other"}
		for n := 0; n < 5*turns; n += benchBatch {
			var rows []session.Row
			for i := range benchBatch {
				rows = append(rows, benchRow(k, n+i), benchRow(other, n+i))
			}
			must.Do(b, s.Put(b.Context(), session.Batch{Rows: rows}))
		}
		must.Do(b, s.Close())
		for b.Loop() {
			s, err := OpenReadOnly(b.Context(), path)
			must.Do(b, err)
			tree, err := mapped.Tree(b.Context(), s, k)
			if err != nil || len(tree.Runs) == 0 {
				b.Fatalf("%+v, %v", tree, err)
			}
			must.Do(b, s.Close())
		}
	})
}
