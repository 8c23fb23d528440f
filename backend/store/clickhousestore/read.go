package clickhousestore

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// idsAtOnce is how many block ids one statement asks for: servers take statements of 256 KiB.
const idsAtOnce = 2000

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
			if err := r.end(); err != nil {
				fail(err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
		if r.err != nil {
			fail(bare(r.err))
		} else if err := s.usable(ctx); err != nil {
			fail(err)
		}
	}
}

// state is what says whether a session is there: who Put to it, and what of that was deleted.
type state struct {
	touched map[uint64]touched // by writer
	deleted map[uint64]uint64  // n by writer
	dead    store.Mark         // of the last deletion
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
		SELECT toUInt8(1 + done) AS kind, w, m, mark AS t FROM (
			SELECT done, writers, ns, mark, version FROM %s WHERE tenant = %s AND key = %s ORDER BY version DESC LIMIT 1
		) ARRAY JOIN writers AS w, ns AS m
	)`, s.layout.of(&touchTable), of(k), s.layout.of(&deletionTable), literal(k.Tenant), fixed(key[:]))
	type line struct {
		kind     uint8
		w, n, at uint64
	}
	for l, err := range each(ctx, s, "read the state of a session", "kind, w, m, t", rest, func(r *reader) line { return line{r.u8(), r.u64(), r.u64(), r.u64()} }) {
		if err != nil {
			return state{}, err
		}
		if l.kind == 0 {
			t := st.touched[l.w]
			st.touched[l.w] = touched{max(t.n, l.n), max(t.at, l.at)}
			continue
		}
		st.deleted[l.w], st.dead, st.pending = l.n, store.Mark(l.at), l.kind == 1
	}
	return st, nil
}

// mark returns the session's mark; false when it is not there. With each Put it grows: n of its writer does, at and dead never become
// less. It is never used again: what comes after a deletion is above dead, and above any time before.
func (st state) mark() (store.Mark, bool) {
	sum, at, alive := uint64(0), uint64(st.dead), false
	for w, t := range st.touched {
		if t.n > st.deleted[w] {
			sum, at, alive = sum+t.n, max(at, t.at), true
		}
	}
	return store.Mark(at + sum), alive
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
func found[T any](ctx context.Context, s *Store, k session.Key, what string, read func(alive string) iter.Seq2[T, error]) iter.Seq2[T, error] {
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

// Rows implements store.Store. The engine holds a row in each of the forms in which it came; the last one in the order of
// session.Supersedes is chosen here, since canonical bytes are a part of that order and no version number holds them.
func (s *Store) Rows(ctx context.Context, k session.Key) iter.Seq2[session.Row, error] {
	const what = "read rows"
	return found(ctx, s, k, what, func(alive string) iter.Seq2[session.Row, error] {
		const columns = "span, trace, known, end_ns, canonical"
		rest := fmt.Sprintf(`FROM (SELECT %[1]s FROM %[2]s WHERE %[4]s UNION ALL SELECT %[1]s FROM %[3]s WHERE %[4]s)
			ORDER BY span, trace, known DESC, end_ns DESC, canonical DESC LIMIT 1 BY span, trace`,
			columns, s.layout.of(&rowTable), s.layout.of(&liveTable), alive)
		var buf []byte
		return each(ctx, s, what, "canonical", rest, func(r *reader) session.Row {
			buf = r.bytes(buf)
			if r.err != nil {
				return session.Row{}
			}
			row, err := session.ParseRow(buf) // which keeps nothing of it
			if err != nil {
				r.err = errNoRow
			}
			return row
		})
	})
}

// Blocks implements store.Store.
func (s *Store) Blocks(ctx context.Context, k session.Key, ids []spans.BlockID) iter.Seq2[session.Block, error] {
	if ids == nil {
		return s.blocks(ctx, k, nil)
	}
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b spans.BlockID) int { return slices.Compare(a[:], b[:]) })
	ids = slices.Compact(ids)
	return func(yield func(session.Block, error) bool) {
		if err := s.usable(ctx); err != nil && len(ids) == 0 {
			yield(session.Block{}, s.failed(ctx, "read blocks", err))
			return
		}
		for some := range slices.Chunk(ids, idsAtOnce) {
			for b, err := range s.blocks(ctx, k, some) {
				if !yield(b, err) || err != nil {
					return
				}
			}
		}
	}
}

// blocks yields blocks by at most idsAtOnce ids, or all.
func (s *Store) blocks(ctx context.Context, k session.Key, ids []spans.BlockID) iter.Seq2[session.Block, error] {
	const what = "read blocks"
	return found(ctx, s, k, what, func(alive string) iter.Seq2[session.Block, error] {
		return func(yield func(session.Block, error) bool) {
			if ids != nil {
				alive += " AND id IN (" + idList(ids) + ")"
			}
			var refs []spans.BlockID
			for id, err := range each(ctx, s, what, "id", "FROM "+s.layout.of(&refTable)+" WHERE "+alive+" GROUP BY id", blockID) {
				if err != nil {
					yield(session.Block{}, err)
					return
				}
				refs = append(refs, id)
			}
			done := map[spans.BlockID]struct{}{}
			for some := range slices.Chunk(refs, idsAtOnce) {
				rest := "FROM " + s.layout.of(&sharedTable) + " WHERE tenant = " + literal(k.Tenant) + " AND id IN (" + idList(some) + ") LIMIT 1 BY id"
				for b, err := range each(ctx, s, what, "id, body", rest, func(r *reader) session.Block {
					return session.Block{Session: k, ID: blockID(r), Body: r.str()}
				}) {
					done[b.ID] = struct{}{}
					if !yield(b, err) || err != nil {
						return
					}
				}
			}
			rest := "FROM " + s.layout.of(&blockTable) + " WHERE " + alive + " ORDER BY id, size = 0 DESC, size DESC LIMIT 1 BY id"
			for b, err := range each(ctx, s, what, "id, size, body", rest, func(r *reader) session.Block {
				return session.Block{Session: k, ID: blockID(r), Size: r.i64(), Body: r.str()}
			}) {
				if _, ok := done[b.ID]; ok && err == nil {
					continue
				}
				if !yield(b, err) || err != nil {
					return
				}
			}
		}
	})
}

func blockID(r *reader) (id spans.BlockID) {
	r.full(id[:])
	return id
}

// idList is a subquery: so many literals would take the server longer than the search.
func idList(ids []spans.BlockID) string {
	var all []byte
	for _, id := range ids {
		all = append(all, id[:]...)
	}
	const size = len(spans.BlockID{})
	return fmt.Sprintf("SELECT toFixedString(substring(%s, i * %d + 1, %d), %d) FROM (SELECT arrayJoin(range(%d)) AS i)", literal(all), size, size, size, len(ids))
}

// deletions selects the last deletion of each session.
func (s *Store) deletions(where string) string {
	return "SELECT tenant, key, version, mark, session, writers, ns, done, at FROM " + s.layout.of(&deletionTable) + where + " ORDER BY version DESC LIMIT 1 BY tenant, key"
}

// present selects the sessions that are there as k2 (key), t2 (tenant), s2 (id), n2 (sum of n) and a2 (time of the last Put). touched
// selects among touches, deleted among deletions; both begin with WHERE or are empty.
func (s *Store) present(touched, deleted string) string {
	return fmt.Sprintf(`SELECT k1 AS k2, max(t1) AS t2, max(s1) AS s2, sum(n1) AS n2, max(a1) AS a2 FROM (
		SELECT k0 AS k1, w0 AS w1, max(t0) AS t1, max(s0) AS s1, max(n0) AS n1, max(a0) AS a1, max(d0) AS d1 FROM (
			SELECT key AS k0, writer AS w0, tenant AS t0, session AS s0, n AS n0, at AS a0, toUInt64(0) AS d0 FROM %s %s
			UNION ALL
			SELECT key AS k0, w0, '' AS t0, '' AS s0, toUInt64(0) AS n0, toUInt64(0) AS a0, d0 FROM (%s) ARRAY JOIN writers AS w0, ns AS d0
		) GROUP BY k0, w0 HAVING n1 > d1
	) GROUP BY k1`, s.layout.of(&touchTable), touched, s.deletions(deleted))
}

// unknown is the time that is not known, in columns: the least integer.
const unknown = "toInt64('-9223372036854775808')"

// Sessions implements store.Store.
func (s *Store) Sessions(ctx context.Context, q store.Query) iter.Seq2[session.Summary, error] {
	tenant := "WHERE tenant = " + literal(q.Tenant)
	touched := tenant
	if q.Prefix != "" {
		touched += " AND startsWith(session, " + literal(q.Prefix) + ")"
		// For the index. Servers of 2018 compare texts up to their first zero byte.
		from, _, _ := strings.Cut(q.Prefix, "\x00")
		if from != "" {
			touched += " AND session >= " + literal(from)
		}
		if end := after(from); end != "" {
			touched += " AND session < " + literal(end)
		}
	}
	var holds []string
	if q.Trace != (session.TraceID{}) {
		holds = append(holds, "trace = "+fixed(q.Trace[:]))
	}
	if q.Span != (session.SpanID{}) {
		holds = append(holds, "span = "+fixed(q.Span[:]))
	}
	if len(holds) > 0 {
		where := tenant + " AND " + strings.Join(holds, " AND ")
		touched += fmt.Sprintf(" AND session GLOBAL IN (SELECT session FROM %s %s UNION ALL SELECT session FROM %s %s)",
			s.layout.of(&rowTable), where, s.layout.of(&liveTable), where)
	}

	// Which sessions, in order; then what there is to say of them, a page at a time: it would be carried through all of this for
	// sessions that the limit cuts.
	cols := []string{"last_ns"}
	none := []string{unknown + " AS last_ns1"} // as the other side of a union has them
	best := []string{"max(last_ns1) AS last_ns2"}
	conditions := filters(&q)
	for _, c := range filterColumns {
		if strings.Contains(conditions, c.name+"2") { // what filters look at alone is carried along
			cols, none, best = append(cols, c.name), append(none, c.least+" AS "+c.name+"1"), append(best, "max("+c.name+"1) AS "+c.name+"2")
		}
	}
	as := func(from, to string) string {
		out := make([]string, len(cols))
		for i, c := range cols {
			out[i] = c + from + " AS " + c + to
		}
		return strings.Join(out, ", ")
	}
	noneOf := strings.Join(none, ", ")
	// Unions, for want of joins that all servers understand alike: each column has its value in one of the rows that come together, and the
	// least there is in the others.
	last := fmt.Sprintf(`SELECT k0, r0, %s FROM (
			SELECT key AS k0, mark AS m0, at AS w0, toUInt8(1) AS r0, %s FROM %s %s
			UNION ALL
			SELECT key AS k0, mark AS m0, toUInt64(18446744073709551615) AS w0, toUInt8(0) AS r0, %s FROM (%s)
		) ORDER BY m0 DESC, w0 DESC LIMIT 1 BY k0`,
		as("1", "1"), as("", "1"), s.layout.of(&summaryTable), tenant, noneOf, s.deletions(" "+tenant))
	rest := fmt.Sprintf(`FROM (
			SELECT k0, max(s0) AS id, max(p0) AS present, max(r0) AS projected, %s FROM (
				SELECT k2 AS k0, s2 AS s0, toUInt8(1) AS p0, toUInt8(0) AS r0, %s FROM (%s)
				UNION ALL
				SELECT k0, '' AS s0, toUInt8(0) AS p0, r0, %s FROM (%s)
			) GROUP BY k0
		) WHERE present = 1`, strings.Join(best, ", "), noneOf, s.present(touched, " "+tenant), as("1", "1"), last)
	rest += conditions
	if !q.Before.IsZero() {
		rest += fmt.Sprintf(" AND projected = 1 AND last_ns2 < toInt64('%d')", q.Before.UnixNano())
	}
	if q.Oldest {
		rest += " ORDER BY projected DESC, last_ns2, id DESC"
	} else {
		rest += " ORDER BY projected, last_ns2 DESC, id"
	}
	if q.Limit > 0 {
		rest += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	return s.summaries(ctx, q.Tenant, each(ctx, s, "list sessions", "id, projected", rest, func(r *reader) listed { return listed{r.str(), r.u8() == 1} }))
}

// filterColumns are those of summaries that filters look at, with the least value that each can have: what stands beside it in a union never hides it.
var filterColumns = []struct{ name, least string }{
	{"parent", "''"}, {"forked_from", "''"}, {"agent_id", "''"}, {"agent", "''"}, {"model", "''"}, {"status", "''"}, {"settled", "''"}, {"title", "''"},
	{"errors", leastInt}, {"denied", leastInt}, {"heartbeat_ns", leastInt}, {"start_ns", leastInt},
	{"cost", "toFloat64('-1e308')"}, {"archived", "toUInt8(0)"},
}

const leastInt = "toInt64('-9223372036854775808')"

// filters returns the conditions of store.Query.Matches, of Parent and of After, each behind an AND, of the columns of filterColumns with a 2 behind
// their names.
func filters(q *store.Query) string {
	var b strings.Builder
	and := func(cond string) { b.WriteString(" AND " + cond) }
	summary := func(cond string) { and("projected = 1 AND " + cond) }
	if q.Parent != "" {
		summary("parent2 = " + literal(q.Parent))
	}
	if q.ForkedFrom != "" {
		summary("forked_from2 = " + literal(q.ForkedFrom))
	}
	if q.Agent != "" {
		summary("(agent2 = " + literal(q.Agent) + " OR agent_id2 = " + literal(q.Agent) + ")")
	}
	if q.Model != "" {
		summary("model2 = " + literal(q.Model))
	}
	if len(q.Status) > 0 {
		status := "status2"
		if !q.Now.IsZero() { // as session.Summary.StatusAt
			status = fmt.Sprintf("if(heartbeat_ns2 > 0 AND (last_ns2 = %s OR intDiv(toInt64('%d') - last_ns2, 3) > heartbeat_ns2), if(settled2 = '', 'aborted', settled2), status2)", unknown, store.RankOf(q.Now))
		}
		var words []string
		for _, s := range q.Status {
			words = append(words, status+" = "+literal(s))
		}
		summary("(" + strings.Join(words, " OR ") + ")")
	}
	if q.Errors {
		summary("errors2 > 0")
	}
	if q.Denied {
		summary("denied2 > 0")
	}
	if q.MinCost > 0 {
		summary("cost2 >= toFloat64('" + strconv.FormatFloat(q.MinCost, 'g', -1, 64) + "')")
	}
	if !q.Since.IsZero() {
		summary(fmt.Sprintf("last_ns2 >= toInt64('%d')", store.RankOf(q.Since)))
	}
	if !q.Until.IsZero() {
		summary(fmt.Sprintf("start_ns2 < toInt64('%d')", store.RankOf(q.Until)))
	}
	switch q.Archived {
	case store.ArchivedNot:
		and("archived2 = 0")
	case store.ArchivedOnly:
		and("archived2 = 1")
	}
	if q.Search != "" {
		var in []string
		for _, c := range []string{"id", "title2", "agent2", "agent_id2", "model2"} {
			in = append(in, "position(lower("+c+"), lower("+literal(q.Search)+")) > 0") // of ASCII alone
		}
		and("(" + strings.Join(in, " OR ") + ")")
	}
	if c := q.After; c != nil {
		last, id, later := fmt.Sprintf("toInt64('%d')", c.Rank()), literal(c.ID), "<"
		behind := "id > " + id
		if q.Oldest {
			behind, later = "id < "+id, ">"
		}
		switch {
		case c.New && q.Oldest:
			and("projected = 0 AND " + behind)
		case c.New:
			and("(projected = 1 OR " + behind + ")")
		case q.Oldest:
			and("(projected = 0 OR last_ns2 " + later + " " + last + " OR last_ns2 = " + last + " AND " + behind + ")")
		default:
			and("projected = 1 AND (last_ns2 " + later + " " + last + " OR last_ns2 = " + last + " AND " + behind + ")")
		}
	}
	return b.String()
}

// listed is a session of a list, and whether there is a summary of it.
type listed struct {
	id        string
	projected bool
}

const (
	// pageSessions and pageBytes bound a page of summaries, by how many and by their ids.
	pageSessions = 500
	pageBytes    = 64 << 10
)

// summaries yields the summaries of a list. One that was deleted meanwhile is left out.
func (s *Store) summaries(ctx context.Context, tenant string, list iter.Seq2[listed, error]) iter.Seq2[session.Summary, error] {
	return func(yield func(session.Summary, error) bool) {
		var page []listed
		size := 0
		flush := func() bool {
			found, err := s.page(ctx, tenant, page)
			if err != nil {
				yield(session.Summary{}, err)
				return false
			}
			for _, l := range page {
				m, ok := found[l.id]
				if !ok && l.projected {
					continue
				}
				m.Key = session.Key{Tenant: tenant, ID: l.id}
				if err := s.usable(ctx); err != nil {
					yield(session.Summary{}, s.failed(ctx, "list sessions", err))
					return false
				}
				if !yield(m, nil) {
					return false
				}
			}
			page, size = page[:0], 0
			return true
		}
		for l, err := range list {
			if err != nil {
				yield(session.Summary{}, err)
				return
			}
			page, size = append(page, l), size+len(l.id)
			if (len(page) == pageSessions || size > pageBytes) && !flush() {
				return
			}
		}
		flush()
	}
}

// page reads the summaries of those sessions that have one.
func (s *Store) page(ctx context.Context, tenant string, page []listed) (map[string]session.Summary, error) {
	var ids []string
	for _, l := range page {
		if l.projected {
			ids = append(ids, literal(l.id))
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	out := make(map[string]session.Summary, len(ids))
	rest := fmt.Sprintf("FROM %s WHERE tenant = %s AND session IN (%s) ORDER BY mark DESC, at DESC LIMIT 1 BY session",
		s.layout.of(&summaryTable), literal(tenant), strings.Join(ids, ", "))
	columns := "session, parent, status, agent, agent_id, model, dialect, start_ns, last_ns, runs, turns, tool_calls, errors, denied, defects, " +
		"input, output, reasoning, cache_read, cache_write, forked_from, title, archived, cost, currency, heartbeat_ns, settled"
	for m, err := range each(ctx, s, "list sessions", columns, rest, func(r *reader) (m session.Summary) {
		m.ID, m.Parent = r.str(), r.str()
		m.Status = spans.SessionStatus(r.str())
		m.Agent, m.AgentID, m.Model, m.Dialect = r.str(), r.str(), r.str(), r.str()
		m.Start, m.Last = instant(r.i64()), instant(r.i64())
		for _, n := range []*int64{
			&m.Runs, &m.Turns, &m.ToolCalls, &m.Errors, &m.Denied, &m.Defects,
			&m.Usage.Input, &m.Usage.Output, &m.Usage.Reasoning, &m.Usage.CacheRead, &m.Usage.CacheWrite,
		} {
			*n = r.i64()
		}
		m.ForkedFrom, m.Title, m.Archived, m.Cost = r.str(), r.str(), r.u8() == 1, math.Float64frombits(r.u64())
		m.Currency, m.HeartbeatNS, m.Settled = r.str(), r.i64(), spans.SessionStatus(r.str())
		return m
	}) {
		if err != nil {
			return nil, err
		}
		out[m.ID] = m
	}
	return out, nil
}

// nanos is a time as a column has it.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixNano()
}

func instant(n int64) time.Time {
	if n == math.MinInt64 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
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

// Tenants implements store.Store.
func (s *Store) Tenants(ctx context.Context) iter.Seq2[string, error] {
	return each(ctx, s, "list tenants", "t2", "FROM ("+s.present("", "")+") GROUP BY t2 ORDER BY t2", func(r *reader) string { return r.str() })
}

// Dirty implements store.Store.
func (s *Store) Dirty(ctx context.Context) iter.Seq2[session.Key, error] {
	rest := fmt.Sprintf(`FROM (
		SELECT k2, max(t2) AS t3, max(s2) AS s3, max(n2) AS n3, max(a2) AS a3, max(p2) AS p3, max(m2) AS m3 FROM (
			SELECT k2, t2, s2, n2, a2, toUInt64(0) AS p2, toUInt64(0) AS m2 FROM (%s)
			UNION ALL
			SELECT key AS k2, '' AS t2, '' AS s2, toUInt64(0) AS n2, toUInt64(0) AS a2, mark AS p2, toUInt64(0) AS m2 FROM %s
			UNION ALL
			SELECT key AS k2, '' AS t2, '' AS s2, toUInt64(0) AS n2, toUInt64(0) AS a2, toUInt64(0) AS p2, mark AS m2 FROM (%s)
		) GROUP BY k2 HAVING n3 > 0 AND greatest(a3, m3) + n3 > p3
	) ORDER BY a3, t3, s3`, s.present("", ""), s.layout.of(&summaryTable), s.deletions(""))
	return each(ctx, s, "list dirty sessions", "t3, s3", rest, func(r *reader) session.Key { return session.Key{Tenant: r.str(), ID: r.str()} })
}

// Mark implements store.Store.
func (s *Store) Mark(ctx context.Context, k session.Key) (store.Mark, error) {
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

// Project implements store.Store: it inserts, and the greatest mark wins. Of figures it inserts those that changed, into all tables at once,
// and the summary after them. A projection that is older than what is there changes nothing.
func (s *Store) Project(ctx context.Context, k session.Key, p store.Projection) error {
	return s.failed(ctx, "project", s.project(ctx, k, p))
}

func (s *Store) project(ctx context.Context, k session.Key, p store.Projection) error {
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
	case p.Mark > mark:
		return fmt.Errorf("mark %d was never given out: %w", p.Mark, store.ErrData)
	case p.Mark <= st.dead: // of the session that was deleted, or none
		return nil
	}
	return s.projectIn(ctx, st, k, &p)
}

// projectIn projects a session that was there in the state st.
func (s *Store) projectIn(ctx context.Context, st state, k session.Key, p *store.Projection) error {
	wctx, stop := writing(ctx)
	defer stop()
	at := projectAt{key: k, mark: uint64(p.Mark), dead: st.dead}
	if goesOn(p.Summary.Status) || p.Summary.HeartbeatNS > 0 {
		if err := s.keepLive(wctx, st, k); err != nil {
			return err
		}
	}
	if err := s.projectFigures(wctx, at, &p.Figures, func() error { return s.summarize(wctx, k, p) }); err != nil {
		return err
	}
	// A deletion that was done meanwhile looked for what we had not written yet.
	st, err := s.state(wctx, k)
	if err != nil || st.dead < p.Mark {
		return err
	}
	where := map[*table]string{&rowTable: of(k) + " AND " + st.gone()}
	for _, t := range append([]*table{&summaryTable}, figureTables...) {
		where[t] = of(k) + fmt.Sprintf(" AND mark <= toUInt64(%d)", st.dead)
	}
	return s.mutate(ctx, where)
}

// goesOn reports whether a session of that status has a run that is open.
func goesOn(s spans.SessionStatus) bool {
	switch s {
	case spans.SessionStatusIdle, spans.SessionStatusError, spans.SessionStatusAborted:
		return false
	}
	return true
}

// keepLive copies the newest live row of each span that is still open to the rows, for as long as the session stays: live rows go after
// liveFor, and of a run that was killed they are all there is. There all of one span have one key, so that merges leave the last.
func (s *Store) keepLive(ctx context.Context, st state, k session.Key) error {
	var columns []string
	for _, c := range rowColumns {
		if c.name == "content" {
			columns = append(columns, "toUInt64(0) AS content")
		} else {
			columns = append(columns, c.name)
		}
	}
	alive := st.alive(k)
	sql := fmt.Sprintf(`INSERT INTO %s SELECT %s FROM %s WHERE %s AND (span, trace) GLOBAL NOT IN (SELECT span, trace FROM %s WHERE %s AND known > 0)
		ORDER BY span, trace, end_ns DESC, canonical DESC LIMIT 1 BY span, trace`,
		s.layout.into(&rowTable), strings.Join(columns, ", "), s.layout.of(&liveTable), alive, s.layout.of(&rowTable), alive)
	body, err := s.client.do(ctx, sql, nil, s.client.inserts)
	if err != nil {
		return err
	}
	return drain(body)
}

// summarize inserts the summary, which takes the dirty mark away.
func (s *Store) summarize(ctx context.Context, k session.Key, p *store.Projection) error {
	key := keyOf(k)
	m := &p.Summary
	b := append(appendString(appendString(nil, k.Tenant), k.ID), key[:]...)
	b = appendU64(appendU64(b, uint64(p.Mark)), s.clock())
	for _, t := range []string{m.Parent, string(m.Status), m.Agent, m.AgentID, m.Model, m.Dialect} {
		b = appendString(b, t)
	}
	for _, n := range []int64{
		nanos(m.Start), nanos(m.Last), m.Runs, m.Turns, m.ToolCalls, m.Errors, m.Denied, m.Defects,
		m.Usage.Input, m.Usage.Output, m.Usage.Reasoning, m.Usage.CacheRead, m.Usage.CacheWrite,
	} {
		b = appendI64(b, n)
	}
	archived := byte(0)
	if m.Archived {
		archived = 1
	}
	b = append(appendString(appendString(b, m.ForkedFrom), m.Title), archived)
	b = appendI64(appendString(appendU64(b, math.Float64bits(m.Cost)), m.Currency), m.HeartbeatNS)
	b = appendString(b, string(m.Settled))
	return s.client.insert(ctx, s.layout.into(&summaryTable), b, fmt.Sprintf("project-%x-%d-%d", key, p.Mark, s.clock()))
}

// Size implements store.Sizer: of a cluster one replica of each shard counts. What merges and deletions left, and the server has not
// yet removed, does not.
func (s *Store) Size(ctx context.Context) (int64, error) {
	from := "system.parts"
	if c := s.layout.cluster; c != "" {
		from = "cluster('" + c + "', system, parts)"
	}
	for n, err := range each(ctx, s, "size", "toUInt64(sum(bytes_on_disk))", "FROM "+from+" WHERE active AND database = "+literal(s.layout.database),
		func(r *reader) uint64 { return r.u64() }) {
		return int64(n), err
	}
	return 0, nil
}

// SessionSize implements store.Sizer.
func (s *Store) SessionSize(ctx context.Context, k session.Key) (int64, error) {
	for n, err := range found(ctx, s, k, "size of a session", func(alive string) iter.Seq2[uint64, error] {
		rest := fmt.Sprintf(`FROM (
			SELECT max(b0) AS b FROM (SELECT span, trace, bytes AS b0 FROM %[1]s WHERE %[5]s UNION ALL SELECT span, trace, bytes AS b0 FROM %[2]s WHERE %[5]s) GROUP BY span, trace
			UNION ALL
			SELECT max(b0) AS b FROM (SELECT id, bytes AS b0 FROM %[3]s WHERE %[5]s UNION ALL SELECT id, bytes AS b0 FROM %[4]s WHERE %[5]s) GROUP BY id)`,
			s.layout.of(&rowTable), s.layout.of(&liveTable), s.layout.of(&blockTable), s.layout.of(&refTable), alive)
		return each(ctx, s, "size of a session", "toUInt64(sum(b))", rest, func(r *reader) uint64 { return r.u64() })
	}) {
		return int64(n), err
	}
	return 0, nil
}
