package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// usable returns why a method must not begin, nil if it may.
func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// each runs a query and yields the result of scan for each of its rows. what names the operation in errors.
func each[T any](ctx context.Context, s *Store, what, query string, args []any,
	scan func(*sql.Rows) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		fail := func(err error) {
			switch {
			case s.closed.Load():
				err = store.ErrClosed
			case ctx.Err() != nil:
				err = ctx.Err() // the driver says "interrupted"
			default:
				err = atRest(err)
			}
			yield(zero, fmt.Errorf("sqlitestore: %s: %w", what, err))
		}
		if err := errors.Join(s.usable(ctx), s.there()); err != nil {
			fail(err)
			return
		}
		rows, err := s.readers.QueryContext(ctx, query, args...)
		if err != nil {
			fail(err)
			return
		}
		defer func() { _ = rows.Close() }() // what matters is in rows.Err
		for n := int64(1); rows.Next(); n++ {
			err := s.usable(ctx)
			if err == nil && n%4096 == 0 && n > s.mostRows() {
				err = errManyRows
			}
			var v T
			if err == nil {
				v, err = scan(rows)
			}
			if err != nil {
				fail(err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
		if err := errors.Join(rows.Err(), s.usable(ctx)); err != nil {
			fail(err)
		}
	}
}

// errManyRows is about a damaged or crafted file in whose trees pages are linked many times.
var errManyRows = fmt.Errorf("more rows than the file can hold: %w", store.ErrData)

// mostRows returns more rows than any table or index of the file, with its log, can hold.
func (s *Store) mostRows() int64 {
	const rowBytes = 8
	var size int64
	for _, suffix := range []string{"", "-wal"} {
		if fi, err := os.Stat(s.path + suffix); err == nil {
			size += fi.Size()
		}
	}
	return size / rowBytes
}

// list is each for lists (store.ReadFirst).
func list[T any](ctx context.Context, s *Store, what, query string, args []any,
	scan func(*sql.Rows) (T, error)) iter.Seq2[T, error] {
	return store.ReadFirst(each(ctx, s, what, query, args, scan), func() error {
		if err := s.usable(ctx); err != nil {
			return fmt.Errorf("sqlitestore: %s: %w", what, err)
		}
		return nil
	})
}

const whichSession = `(SELECT session FROM sessions WHERE tenant = ?1 AND id = ?2)`

// Rows implements store.Store.
func (s *Store) Rows(ctx context.Context, k session.Key) iter.Seq2[session.Row, error] {
	// By rowid, which is the order of arrival: in the order of the key every row would be on another page. Where a
	// quarter of the rows from the first to the last are of the session, those between them are read one after the other.
	const which = `session = ` + whichSession
	const query = `WITH own AS MATERIALIZED (SELECT min(rowid) AS first, max(rowid) AS last, count(*) AS n FROM rows
			WHERE ` + which + `)
		SELECT canonical FROM own CROSS JOIN rows WHERE last - first < 4 * n AND rowid BETWEEN first AND last
			AND +` + which + `
		UNION ALL
		SELECT canonical FROM own CROSS JOIN rows WHERE last - first >= 4 * n AND rowid IN (SELECT rowid FROM rows
			WHERE ` + which + `)`
	var raw sql.RawBytes
	var buf []byte
	var rr session.RowReader
	return each(ctx, s, "read rows", query, []any{k.Tenant, k.ID}, func(rows *sql.Rows) (session.Row, error) {
		if err := rows.Scan(&raw); err != nil {
			return session.Row{}, err
		}
		canonical, err := unpackRow(buf, raw)
		if err != nil {
			return session.Row{}, err
		}
		if cap(canonical) > cap(buf) && raw[0] != rowPlain {
			buf = canonical // Parse keeps nothing of it
		}
		r, err := rr.Parse(canonical)
		if err != nil {
			return session.Row{}, fmt.Errorf("%w: %w", store.ErrData, err)
		}
		return r, nil
	})
}

// Blocks implements store.Store.
func (s *Store) Blocks(ctx context.Context, k session.Key) iter.Seq2[session.Block, error] {
	what := "read blocks of session " + k.ID
	const query = `SELECT 'pack', pack, raw, body, NULL FROM packs WHERE session = ` + whichSession + ` UNION ALL
		SELECT 'withheld', 0, size, body, id FROM withheld w WHERE session = ` + whichSession + ` AND NOT EXISTS
			(SELECT 1 FROM blocks b WHERE b.session = w.session AND b.id = substr(w.id, 1, 16)) UNION ALL
		SELECT 'count', 0, count(*), NULL, NULL FROM blocks WHERE session = ` + whichSession
	var pack, found int64
	var size int64 // of a pack, of the whole of a body that was withheld, or how many bodies are in packs
	var body, id sql.RawBytes
	var raw []byte
	parts := each(ctx, s, what, query, []any{k.Tenant, k.ID}, func(rows *sql.Rows) (kind string, err error) {
		if err := rows.Scan(&kind, &pack, &size, &body, &id); err != nil {
			return kind, err
		}
		switch {
		case kind == "pack":
			raw, err = unpack(raw, body, pack, size)
		case kind == "withheld" && len(id) != len(spans.BlockID{}):
			err = fmt.Errorf("%w: a block id of %d bytes, want %d", store.ErrData, len(id), len(spans.BlockID{}))
		case kind == "count" && found < size:
			err = fmt.Errorf("%w: %d of %d bodies are in packs", errPack, found, size)
		}
		return kind, err
	})
	return func(yield func(session.Block, error) bool) {
		for kind, err := range parts {
			switch {
			case err != nil:
				yield(session.Block{}, err)
				return
			case kind == "withheld":
				if !yield(session.Block{Session: k, ID: spans.BlockID(id), Body: string(body), Size: size}, nil) {
					return
				}
			case kind == "pack":
				for text, err := range bodies(pack, raw) {
					if err = errors.Join(err, s.usable(ctx)); err != nil {
						yield(session.Block{}, fmt.Errorf("sqlitestore: %s: %w", what, err))
						return
					}
					if found++; !yield(session.Block{Session: k, ID: spans.BlockOf(text), Body: string(text)}, nil) {
						return
					}
				}
			}
		}
	}
}

// sessionsQuery returns what Sessions asks.
func sessionsQuery(q store.Query) (query string, args []any) {
	where, args := []string{"s.tenant = ?"}, []any{q.Tenant}
	if q.AllTenants {
		where, args = []string{"true"}, nil
	}
	and := func(cond string, values ...any) { where, args = append(where, cond), append(args, values...) }
	if q.Prefix != "" {
		and("s.id >= ?", q.Prefix)
		if end := after(q.Prefix); end != "" {
			and("s.id < ?", end)
		}
	}
	if q.Stale {
		and("s.mark > s.projected")
	}
	const contains = "instr(CAST(lower(%s) AS BLOB), CAST(lower(?) AS BLOB))" // texts would skip what is no character
	conditions, values, order := q.SQL(store.SQLNames{
		ID: "s.id", Last: "s.last_ns", Summarized: "m.session IS NOT NULL", Contains: contains,
	})
	where, args = append(where, conditions...), append(args, values...)
	// What selects few sessions is looked up by its own index, in place of looking through all of the tenant's in the
	// order of the list: a plus keeps a column from the index of another.
	few := ""
	switch {
	case q.AllTenants:
	case q.Stale || q.Parent != "" || q.ForkedFrom != "" || q.OnlyOpen() || len(q.Traces) > 0:
		where[0] = "+s.tenant = ?"
	case q.Prefix != "":
		few = "+"
	}
	in := ""
	if len(q.Traces) > 0 {
		var list []string
		for _, id := range q.Traces {
			list = append(list, "x'"+id.String()+"'")
		}
		in = " IN (" + strings.Join(list, ", ") + ")"
		and("s.session IN (SELECT session FROM session_traces WHERE trace" + in + ")")
	}
	if q.Span != (session.SpanID{}) {
		// One step into the primary key per session: an index over all spans would cost every insert.
		cond := "x.session = s.session AND x.span = ?"
		if in != "" {
			cond += " AND x.trace" + in
		}
		and("EXISTS (SELECT 1 FROM rows x WHERE "+cond+")", q.Span[:])
	}
	query = `SELECT s.tenant, s.id, m.` + strings.Join(store.SummaryColumns, ", m.") + ` FROM sessions s LEFT JOIN
		summaries m ON m.session = s.session
		WHERE ` + strings.Join(where, " AND ") + ` ORDER BY ` + few + order
	if q.Limit > 0 {
		query, args = query+" LIMIT ?", append(args, q.Limit)
	}
	return query, args
}

// Sessions implements store.Store.
func (s *Store) Sessions(ctx context.Context, q store.Query) iter.Seq2[session.Summary, error] {
	query, args := sessionsQuery(q)
	values, to := scanned(2 + len(store.SummaryColumns))
	return list(ctx, s, "list sessions", query, args, func(rows *sql.Rows) (m session.Summary, err error) {
		if err := rows.Scan(to...); err != nil {
			return m, err
		}
		m.Tenant, _ = values[0].(string)
		m.ID, _ = values[1].(string)
		for i, f := range store.SummaryFields(&m) { // NULL where there is no summary, or a time is not known
			fromColumn(f, values[i+2])
		}
		return m, nil
	})
}

// after returns the least text that is greater than every text with that prefix, empty when there is none.
func after(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}

// listTenants steps from one tenant to the next, however many sessions each has.
const listTenants = `WITH RECURSIVE t (tenant) AS (SELECT min(tenant) FROM sessions
		UNION ALL SELECT (SELECT min(tenant) FROM sessions s WHERE s.tenant > t.tenant) FROM t WHERE t.tenant IS NOT NULL)
	SELECT tenant FROM t WHERE tenant IS NOT NULL`

// Tenants implements store.Store.
func (s *Store) Tenants(ctx context.Context) iter.Seq2[string, error] {
	return list(ctx, s, "list tenants", listTenants, nil, scanOne[string])
}

// Revision implements store.Store.
func (s *Store) Revision(ctx context.Context, k session.Key) (store.Revision, error) {
	const query = `SELECT mark FROM sessions WHERE tenant = ? AND id = ?`
	for mark, err := range each(ctx, s, "mark", query, []any{k.Tenant, k.ID}, scanOne[store.Revision]) {
		return mark, err
	}
	return 0, fmt.Errorf("sqlitestore: mark: %w", store.ErrNotFound)
}

// scanOne reads the one column of a row.
func scanOne[T any](rows *sql.Rows) (v T, err error) {
	err = rows.Scan(&v)
	return v, err
}

// Counts implements store.Counter.
func (s *Store) Counts() store.Counts {
	s.counting.Lock()
	defer s.counting.Unlock()
	return s.counts
}

// Size implements store.Store. Of the store it returns the pages of the file that are in use, and the log and its
// index; of a session rows that were replaced count too.
func (s *Store) Size(ctx context.Context, k session.Key) (size int64, err error) {
	query, args := `SELECT ifnull(bytes, 0) FROM sessions WHERE tenant = ? AND id = ?`, []any{k.Tenant, k.ID}
	var logs []string
	if k == (session.Key{}) {
		query, args = `SELECT (page_count - freelist_count) * page_size
			FROM pragma_page_count, pragma_freelist_count, pragma_page_size`, nil
		logs = []string{"-wal", "-shm"}
	}
	for n, err := range each(ctx, s, "size", query, args, scanOne[int64]) {
		if err != nil {
			return 0, err
		}
		size = n
	}
	for _, suffix := range logs {
		if fi, err := os.Stat(s.path + suffix); err == nil {
			size += fi.Size()
		}
	}
	return size, nil
}
