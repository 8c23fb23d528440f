package clickhousestore

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// each runs SELECT columns rest and yields what scan makes of each row of the result.
func each[T any](ctx context.Context, s *Store, what, columns, rest string, scan func(*reader) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		fail := func(err error) { yield(zero, s.failed(ctx, what, err)) }
		if err := s.usable(ctx); err != nil {
			fail(err)
			return
		}
		rctx, stop := s.reading(ctx)
		defer stop()
		r, body, err := s.client.query(rctx, columns, rest)
		if err != nil {
			fail(err)
			return
		}
		defer func() { _ = body.Close() }()
		for r.more() {
			if err := s.usable(ctx); err != nil {
				fail(err)
				return
			}
			v := scan(r)
			if r.err != nil {
				break
			}
			if !yield(v, nil) {
				return
			}
		}
		if r.err != nil {
			fail(r.err)
		} else if err := s.usable(ctx); err != nil {
			fail(err)
		}
	}
}

// list is each for lists (store.ReadFirst): a server ends a response that is not read for some time.
func list[T any](ctx context.Context, s *Store, what, columns, rest string, scan func(*reader) T) iter.Seq2[T, error] {
	return store.ReadFirst(each(ctx, s, what, columns, rest, scan), func() error {
		return s.failed(ctx, what, s.usable(ctx))
	})
}

// state is what says whether a session is there: who Put to it, and what of that was deleted.
type state struct {
	touched map[uint64]touched // by writer
	deleted map[uint64]uint64  // n by writer
	dead    store.Revision     // of the last deletion
	pending bool               // that is not done
}

type touched struct{ n, at uint64 }

// state reads that of a session.
func (s *Store) state(ctx context.Context, k session.Key) (state, error) {
	st := state{touched: map[uint64]touched{}, deleted: map[uint64]uint64{}}
	key := keyOf(k)
	rest := fmt.Sprintf(`FROM (
		SELECT toUInt8(0) AS kind, writer AS w, n AS m, at AS t FROM %s WHERE %s
		UNION ALL
		SELECT toUInt8(1 + done) AS kind, w, m, mark AS t FROM (%s) ARRAY JOIN writers AS w, ns AS m
	)`, s.layout.of(&touchTable), of(k), s.deletions("WHERE tenant = "+literal(k.Tenant)+" AND key = "+fixed(key[:])))
	type line struct {
		kind     uint8
		w, n, at uint64
	}
	for l, err := range each(ctx, s, "read the state of a session", "kind, w, m, t", rest,
		func(r *reader) line { return line{r.u8(), r.u64(), r.u64(), r.u64()} }) {
		if err != nil {
			return state{}, err
		}
		if l.kind == 0 {
			t := st.touched[l.w]
			st.touched[l.w] = touched{max(t.n, l.n), max(t.at, l.at)}
			continue
		}
		st.deleted[l.w], st.dead, st.pending = l.n, store.Revision(l.at), l.kind == 1
	}
	return st, nil
}

// mark returns the session's mark; false when it is not there. With each Put it grows: n of its writer does, at and
// dead never become less. It is never used again: what comes after a deletion is above dead, and above any time before.
func (st state) mark() (store.Revision, bool) {
	sum, at, alive := uint64(0), uint64(st.dead), false
	for w, t := range st.touched {
		if t.n > st.deleted[w] {
			sum, at, alive = sum+t.n, max(at, t.at), true
		}
	}
	return store.Revision(at + sum), alive
}

// of is the condition that selects a session in the tables that have its id.
func of(k session.Key) string {
	return "tenant = " + literal(k.Tenant) + " AND session = " + literal(k.ID)
}

// gone is the condition that selects what was deleted; "0" when nothing was.
func (st state) gone() string {
	if len(st.deleted) == 0 {
		return "0"
	}
	var writers, ns []string
	for w, n := range st.deleted {
		writers, ns = append(writers, fmt.Sprint(w)), append(ns, fmt.Sprint(n))
	}
	return "n <= transform(writer, [" + strings.Join(writers, ",") + "], [" + strings.Join(ns, ",") + "], toUInt64(0))"
}

// alive is the condition that selects what of a session is there.
func (st state) alive(k session.Key) string {
	if len(st.deleted) == 0 {
		return of(k)
	}
	return of(k) + " AND NOT (" + st.gone() + ")"
}

// found runs read with the condition for a session; a session that is not there has nothing to read.
func found[T any](ctx context.Context, s *Store, k session.Key, what string,
	read func(alive string) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		st, err := s.state(ctx, k)
		if err != nil {
			var zero T
			yield(zero, fmt.Errorf("clickhousestore: %s: %w", what, err))
			return
		}
		if _, ok := st.mark(); !ok {
			return
		}
		read(st.alive(k))(yield)
	}
}

// Rows implements store.Store. The engine holds a row in each of the forms in which it came; the last one in the order
// of session.Supersedes is chosen here, since canonical bytes are a part of that order and no version number holds
// them.
func (s *Store) Rows(ctx context.Context, k session.Key) iter.Seq2[session.Row, error] {
	const what = "read rows"
	return found(ctx, s, k, what, func(alive string) iter.Seq2[session.Row, error] {
		rest := "FROM " + s.layout.of(&rowTable) + " WHERE " + alive +
			" ORDER BY span, trace, known DESC, end_ns DESC, canonical DESC LIMIT 1 BY span, trace"
		var buf []byte
		var rr session.RowReader
		return each(ctx, s, what, "canonical", rest, func(r *reader) session.Row {
			buf = r.bytes(buf)
			if r.err != nil {
				return session.Row{}
			}
			row, err := rr.Parse(buf)
			if err != nil {
				r.err = errDamaged
			}
			return row
		})
	})
}

// Blocks implements store.Store.
func (s *Store) Blocks(ctx context.Context, k session.Key) iter.Seq2[session.Block, error] {
	const what = "read blocks"
	return found(ctx, s, k, what, func(alive string) iter.Seq2[session.Block, error] {
		rest := "FROM " + s.layout.of(&blockTable) + " WHERE " + alive +
			" ORDER BY id, size = 0 DESC, size DESC LIMIT 1 BY id"
		return each(ctx, s, what, "id, size, body", rest, func(r *reader) session.Block {
			return session.Block{Session: k, ID: blockID(r), Size: r.i64(), Body: r.str()}
		})
	})
}

func blockID(r *reader) (id spans.BlockID) {
	r.full(id[:])
	return id
}

// deletions selects the last deletion of each session.
func (s *Store) deletions(where string) string {
	return "SELECT * FROM " + s.layout.of(&deletionTable) + " FINAL " + where
}

// present selects the sessions that are there: key, tenant, id, n (sum of n), at (time of the last Put) and dead
// (mark of the last deletion). touched selects among touches, deleted among deletions; both begin with WHERE or are
// empty.
func (s *Store) present(touched, deleted string) string {
	return fmt.Sprintf(`SELECT t.key AS key, any(t.tenant) AS tenant, any(t.session) AS id, sum(t.n) AS n, max(t.at)
		AS at, max(d.mark) AS dead
		FROM (SELECT * FROM %s FINAL %s) AS t GLOBAL LEFT JOIN (%s) AS d ON d.key = t.key
		WHERE t.n > d.ns[indexOf(d.writers, t.writer)] GROUP BY t.key`, s.layout.of(&touchTable), touched,
		s.deletions(deleted))
}

// Sessions implements store.Store.
func (s *Store) Sessions(ctx context.Context, q store.Query) iter.Seq2[session.Summary, error] {
	tenant := "WHERE tenant = " + literal(q.Tenant)
	if q.AllTenants {
		tenant = "WHERE 1"
	}
	touched := tenant
	if q.Prefix != "" {
		// the latter for the index
		touched += " AND startsWith(session, " + literal(q.Prefix) + ") AND session >= " + literal(q.Prefix)
	}
	var holds []string
	if len(q.Traces) > 0 {
		var list []string
		for _, id := range q.Traces {
			list = append(list, fixed(id[:]))
		}
		holds = append(holds, "trace IN ("+strings.Join(list, ", ")+")")
	}
	if q.Span != (session.SpanID{}) {
		holds = append(holds, "span = "+fixed(q.Span[:]))
	}
	if len(holds) > 0 {
		where := tenant + " AND " + strings.Join(holds, " AND ")
		touched += fmt.Sprintf(" AND (tenant, session) GLOBAL IN (SELECT tenant, session FROM %s %s)",
			s.layout.of(&rowTable), where)
	}
	deleted := tenant
	// Summaries of sessions that were deleted since are none.
	summaries := fmt.Sprintf(
		`SELECT s.* FROM (SELECT * FROM %s FINAL %s) AS s GLOBAL LEFT JOIN (%s) AS d ON d.key = s.key WHERE s.mark > d.mark`,
		s.layout.of(&summaryTable), tenant, s.deletions(deleted))
	conditions, args, order := q.SQL(store.SQLNames{
		ID: "p.id", Last: "if(m.mark > 0, m.last_ns, toInt64('9223372036854775807'))", Summarized: "m.mark > 0",
		Contains: "position(lower(%s), lower(?)) > 0", // of ASCII alone
	})
	if q.Stale {
		conditions = append(conditions, "greatest(p.at, p.dead) + p.n > m.mark")
	}
	rest := fmt.Sprintf("FROM (%s) AS p GLOBAL LEFT JOIN (%s) AS m ON m.key = p.key WHERE %s ORDER BY %s, p.tenant",
		s.present(touched, deleted), summaries, bind(strings.Join(append(conditions, "1"), " AND "), args), order)
	if q.Limit > 0 {
		rest += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	columns := "p.tenant, p.id, toUInt8(m.mark > 0), m.`" + strings.Join(store.SummaryColumns, "`, m.`") + "`"
	return list(ctx, s, "list sessions", columns, rest, func(r *reader) (m session.Summary) {
		m.Tenant, m.ID = r.str(), r.str()
		known := r.u8() == 1
		for _, f := range store.SummaryFields(&m) {
			r.field(f, false)
		}
		if !known {
			return session.Summary{Key: m.Key}
		}
		return m
	})
}

// bind returns SQL with literals in place of each ?.
func bind(sql string, args []any) string {
	parts := strings.Split(sql, "?")
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			parts[i] += literal(v)
		case int64:
			parts[i] += fmt.Sprintf("toInt64('%d')", v)
		case float64:
			parts[i] += "toFloat64('" + strconv.FormatFloat(v, 'g', -1, 64) + "')"
		}
	}
	return strings.Join(parts, "")
}

// Tenants implements store.Store.
func (s *Store) Tenants(ctx context.Context) iter.Seq2[string, error] {
	return each(ctx, s, "list tenants", "tenant", "FROM ("+s.present("", "")+") GROUP BY tenant ORDER BY tenant",
		(*reader).str)
}

// Revision implements store.Store.
func (s *Store) Revision(ctx context.Context, k session.Key) (store.Revision, error) {
	st, err := s.state(ctx, k)
	if err != nil {
		return 0, fmt.Errorf("clickhousestore: mark: %w", err)
	}
	m, ok := st.mark()
	if !ok {
		return 0, fmt.Errorf("clickhousestore: mark: %w", store.ErrNotFound)
	}
	return m, nil
}

// SetSummary implements store.Store: it inserts figures and then the summary, and the greatest mark wins.
func (s *Store) SetSummary(ctx context.Context, k session.Key, p store.SummaryUpdate) error {
	return s.failed(ctx, "project", s.project(ctx, k, p))
}

func (s *Store) project(ctx context.Context, k session.Key, p store.SummaryUpdate) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	st, err := s.state(ctx, k)
	if err != nil {
		return err
	}
	switch mark, ok := st.mark(); {
	case !ok:
		return store.ErrNotFound
	case p.Revision > mark:
		return fmt.Errorf("mark %d was never given out: %w", p.Revision, store.ErrData)
	case p.Revision <= st.dead: // of the session that was deleted, or none
		return nil
	}
	return s.derive(ctx, k, &p)
}

// derive writes what is derived of a session that was there: figures, and last the summary, after which the session is
// not stale.
func (s *Store) derive(ctx context.Context, k session.Key, p *store.SummaryUpdate) error {
	wctx, stop := writing(ctx)
	defer stop()
	if err := s.insertFigures(wctx, k, p); err != nil {
		return err
	}
	key := keyOf(k)
	b := append(appendString(appendString(nil, k.Tenant), k.ID), key[:]...)
	b = appendU64(appendU64(b, uint64(p.Revision)), s.clock())
	for _, f := range store.SummaryFields(&p.Summary) {
		b = appendField(b, f, false)
	}
	token := fmt.Sprintf("project-%x-%d-%d", key, p.Revision, s.clock())
	if err := s.client.insert(wctx, s.layout.into(&summaryTable), b, token); err != nil {
		return err
	}
	// A deletion that was done meanwhile looked for what we had not written yet.
	st, err := s.state(wctx, k)
	if err != nil || st.dead < p.Revision {
		return err
	}
	where := map[*table]string{}
	for _, t := range derivedTables {
		where[t] = of(k) + fmt.Sprintf(" AND mark <= toUInt64(%d)", st.dead)
	}
	return s.alter(ctx, where)
}

// Size implements store.Store: of a cluster one replica of each shard counts. What merges and deletions left, and the
// server has not yet removed, does not.
func (s *Store) Size(ctx context.Context, k session.Key) (int64, error) {
	if k != (session.Key{}) {
		return s.sessionSize(ctx, k)
	}
	from := "system.parts"
	if c := s.layout.cluster; c != "" {
		from = "cluster('" + c + "', system, parts)"
	}
	for n, err := range each(ctx, s, "size", "toUInt64(sum(bytes_on_disk))", "FROM "+from+" WHERE active AND database = "+
		literal(s.layout.database), (*reader).u64) {
		return int64(n), err
	}
	return 0, nil
}

func (s *Store) sessionSize(ctx context.Context, k session.Key) (int64, error) {
	for n, err := range found(ctx, s, k, "size of a session", func(alive string) iter.Seq2[uint64, error] {
		rest := fmt.Sprintf(`FROM (
			SELECT max(bytes) AS b FROM %[1]s WHERE %[3]s GROUP BY span, trace
			UNION ALL
			SELECT max(bytes) AS b FROM %[2]s WHERE %[3]s GROUP BY id)`,
			s.layout.of(&rowTable), s.layout.of(&blockTable), alive)
		return each(ctx, s, "size of a session", "toUInt64(sum(b))", rest, (*reader).u64)
	}) {
		return int64(n), err
	}
	return 0, nil
}
