package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
	"github.com/otelagent/otelagent/store"
)

// checkEvery is after how many rows or blocks a Put looks whether it was cancelled.
const checkEvery = 256

// statements are those of the writing connection, prepared once.
type statements struct {
	mark, session, trace, row, live, block, newest, pack *sql.Stmt
}

// columns of rows and live_rows, in the order in which writer.args gives them.
var columns = []string{
	"session", "span", "trace", "parent", "kind", "known", "start_ns", "end_ns", "failed", "status", "run", "run_start_ns", "turn",
	"model", "tool", "input", "output", "reasoning", "cache_read", "cache_write", "canonical",
}

// keyColumns is how many of columns are the primary key.
const keyColumns = 3

// insertRow keeps the row that session.Supersedes prefers: blobs compare as Go compares bytes. Canonical bytes are
// unpacked only where all before them is equal.
func insertRow(table string) string {
	var set []string
	for _, c := range columns[keyColumns:] {
		set = append(set, c+"=excluded."+c)
	}
	return "INSERT INTO " + table + " (" + strings.Join(columns, ",") + ") VALUES (?" + strings.Repeat(",?", len(columns)-1) + ")" +
		" ON CONFLICT DO UPDATE SET " + strings.Join(set, ",") +
		" WHERE (excluded.known, excluded.end_ns) > (" + table + ".known, " + table + ".end_ns)" +
		" OR (excluded.known, excluded.end_ns) = (" + table + ".known, " + table + ".end_ns)" +
		" AND " + canonicalFunc + "(excluded.canonical) > " + canonicalFunc + "(" + table + ".canonical)"
}

func (s *statements) prepare(ctx context.Context, c *sql.Conn) error {
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&s.mark, `UPDATE marks SET last = last + 1 RETURNING last`},
		// A new session counts as projected just before this batch, so that a projection made of a deleted session of the
		// same name is too old for it.
		{&s.session, `INSERT INTO sessions (tenant, id, mark, projected, last_ns) VALUES (?1, ?2, ?3, ?3 - 1, 9223372036854775807)
			ON CONFLICT DO UPDATE SET mark = excluded.mark RETURNING session`},
		{&s.trace, `INSERT INTO session_traces (trace, session) VALUES (?, ?) ON CONFLICT DO NOTHING`},
		{&s.row, insertRow("rows")},
		{&s.live, insertRow("live_rows")},
		{&s.block, `INSERT INTO blocks (session, id, recipe, size, pack, start, length) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET recipe = excluded.recipe, size = excluded.size, pack = excluded.pack, start = excluded.start, length = excluded.length
			WHERE (excluded.size = 0, excluded.size) > (blocks.size = 0, blocks.size)`},
		{&s.newest, `SELECT ifnull(max(pack), 0) FROM packs`},
		{&s.pack, `INSERT INTO packs (pack, session, raw, body) VALUES (?, ?, ?, ?)`},
	} {
		var err error
		if *p.stmt, err = c.PrepareContext(ctx, p.text); err != nil {
			return err
		}
	}
	return nil
}

func (s *statements) close() {
	for _, st := range []*sql.Stmt{s.mark, s.session, s.trace, s.row, s.live, s.block, s.newest, s.pack} {
		if st != nil {
			_ = st.Close() // the connection is closed next
		}
	}
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, b session.Batch) error {
	if err := store.CheckBatch(b); err != nil {
		return fmt.Errorf("sqlitestore: put: %w", err)
	}
	if len(b.Rows)+len(b.Blocks) == 0 {
		if err := s.usable(ctx); err != nil {
			return fmt.Errorf("sqlitestore: put: %w", err)
		}
		return nil
	}
	return s.write(ctx, "put", func(inner context.Context) error {
		w := putter{ctx: inner, stmts: &s.stmts, sessions: map[session.Key]int64{}, traces: map[sessionTrace]struct{}{},
			packs: packer{ctx: inner, stmts: &s.stmts}}
		if err := s.stmts.mark.QueryRowContext(inner).Scan(&w.mark); err != nil {
			return err
		}
		for i := range b.Rows {
			if i%checkEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := w.row(&b.Rows[i]); err != nil {
				return fmt.Errorf("row %d: %w", i, err)
			}
		}
		for i := range b.Blocks {
			if i%checkEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := w.block(&b.Blocks[i]); err != nil {
				return fmt.Errorf("block %d: %w", i, err)
			}
		}
		return w.packs.flush()
	})
}

// putter writes one batch, inside a transaction.
type putter struct {
	ctx   context.Context
	stmts *statements
	mark  int64

	sessions map[session.Key]int64
	lastKey  session.Key
	lastID   int64

	traces    map[sessionTrace]struct{}
	lastTrace sessionTrace

	packs packer

	args          []any
	bytes, packed []byte
}

type sessionTrace struct {
	trace   session.TraceID
	session int64
}

// session marks the session as dirty, once a batch, and returns the integer it has in the file.
func (w *putter) session(k session.Key) (int64, error) {
	if k == w.lastKey {
		return w.lastID, nil
	}
	id, ok := w.sessions[k]
	if !ok {
		if err := w.stmts.session.QueryRowContext(w.ctx, k.Tenant, k.ID, w.mark).Scan(&id); err != nil {
			return 0, err
		}
		w.sessions[k] = id
	}
	w.lastKey, w.lastID = k, id
	return id, nil
}

func (w *putter) trace(t sessionTrace) error {
	if t == w.lastTrace {
		return nil
	}
	w.lastTrace = t
	if _, ok := w.traces[t]; ok {
		return nil
	}
	w.traces[t] = struct{}{}
	_, err := w.stmts.trace.ExecContext(w.ctx, t.trace[:], t.session)
	return err
}

func (w *putter) row(r *session.Row) error {
	id, err := w.session(r.Session)
	if err != nil {
		return err
	}
	if err := w.trace(sessionTrace{r.Trace, id}); err != nil {
		return err
	}
	w.bytes = r.AppendCanonical(w.bytes[:0])
	if len(w.bytes) > store.MaxValue {
		return fmt.Errorf("%d bytes, at most %d: %w", len(w.bytes), store.MaxValue, store.ErrData)
	}
	w.packed = packRow(w.packed[:0], w.bytes)
	w.args = appendArgs(w.args[:0], r, id, w.packed)
	st := w.stmts.row
	if r.Known == spans.KnownLive {
		st = w.stmts.live
	}
	_, err = st.ExecContext(w.ctx, w.args...)
	return err
}

// statusKeys names what the status column holds of each kind.
var statusKeys = [session.KindPayload + 1]attribute.Key{
	session.KindRun: spans.RunStatusKeyKey, session.KindTurn: spans.TurnStopReasonKey,
	session.KindToolCall: spans.ToolOutcomeKey, session.KindPermission: spans.PermissionActionKey,
}

// appendArgs appends the values of columns.
func appendArgs(args []any, r *session.Row, id int64, canonical []byte) []any {
	var parent any
	if r.Parent != (session.SpanID{}) {
		parent = r.Parent[:]
	}
	known := int64(2)
	switch r.Known {
	case spans.KnownLive:
		known = 0
	case spans.KnownClosed:
		known = 1
	}
	args = append(args, id, r.Span[:], r.Trace[:], parent, int64(r.Kind), known, r.Start, r.End, r.Failed)
	if key := statusKeys[r.Kind]; key != "" {
		args = append(args, text(r.Attr(key)))
	} else {
		args = append(args, nil)
	}
	args = append(args, r.Run, r.RunStart)
	if r.Turn == session.NoTurn {
		args = append(args, nil)
	} else {
		args = append(args, r.Turn)
	}
	var model, tool any
	switch r.Kind {
	case session.KindRun, session.KindTurn:
		if model = text(r.Attr(spans.ResponseModelKey)); model == nil {
			model = text(r.Attr(spans.RequestModelKey))
		}
	case session.KindToolCall, session.KindPermission:
		tool = text(r.Attr(spans.ToolNameKey))
	}
	args = append(args, model, tool)
	if r.Kind == session.KindTurn {
		args = append(args, number(r.Attr(spans.UsageInputKey)), number(r.Attr(spans.UsageOutputKey)), number(r.Attr(spans.UsageReasoningKey)),
			number(r.Attr(spans.UsageCacheReadKey)), number(r.Attr(spans.UsageCacheWriteKey)))
	} else {
		args = append(args, nil, nil, nil, nil, nil)
	}
	return append(args, canonical)
}

func text(v session.Value) any {
	if v.Type() != session.TypeString {
		return nil
	}
	return v.Str()
}

func number(v session.Value) any {
	if n, ok := v.Int(); ok {
		return n
	}
	return nil
}

func (w *putter) block(b *session.Block) error {
	id, err := w.session(b.Session)
	if err != nil {
		return err
	}
	return w.packs.add(id, b)
}

// Project implements store.Store. It also removes live rows that are superseded.
func (s *Store) Project(ctx context.Context, k session.Key, p store.Projection) error {
	return s.write(ctx, "project", func(ctx context.Context) error {
		var id, projected, newest int64
		err := s.conn.QueryRowContext(ctx, `SELECT session, projected, (SELECT last FROM marks) FROM sessions WHERE tenant = ? AND id = ?`, k.Tenant, k.ID).
			Scan(&id, &projected, &newest)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return store.ErrNotFound
		case err != nil:
			return err
		case int64(p.Mark) > newest:
			return fmt.Errorf("mark %d was never given out: %w", p.Mark, store.ErrData)
		case int64(p.Mark) < projected:
			return nil
		}
		m := &p.Summary
		last := int64(math.MinInt64)
		if !m.Last.IsZero() {
			last = m.Last.UnixNano()
		}
		if _, err := s.conn.ExecContext(ctx, `UPDATE sessions SET projected = ?, last_ns = ? WHERE session = ?`, int64(p.Mark), last, id); err != nil {
			return err
		}
		if _, err := s.conn.ExecContext(ctx, `DELETE FROM live_rows WHERE session = ? AND EXISTS (SELECT 1 FROM rows r
				WHERE r.session = live_rows.session AND r.span = live_rows.span AND r.trace = live_rows.trace)`, id); err != nil {
			return err
		}
		_, err = s.conn.ExecContext(ctx, `INSERT OR REPLACE INTO summaries (session, `+summaryColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
			id, string(m.Status), m.Agent, m.AgentID, m.Model, m.Dialect, nanos(m.Start), nanos(m.Last),
			m.Runs, m.Turns, m.ToolCalls, m.Errors, m.Denied, m.Defects,
			m.Usage.Input, m.Usage.Output, m.Usage.Reasoning, m.Usage.CacheRead, m.Usage.CacheWrite)
		return err
	})
}

const summaryColumns = `status, agent, agent_id, model, dialect, start_ns, last_ns, runs, turns, tool_calls, errors, denied, defects,
	input, output, reasoning, cache_read, cache_write`

func nanos(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixNano()
}

// Delete implements store.Store. The content is overwritten in the file, and in the log beside it unless somebody is reading
// just then; it is gone from there after the next checkpoint.
func (s *Store) Delete(ctx context.Context, k session.Key) error {
	err := s.write(ctx, "delete", func(ctx context.Context) error {
		var id int64
		err := s.conn.QueryRowContext(ctx, `DELETE FROM sessions WHERE tenant = ? AND id = ? RETURNING session`, k.Tenant, k.ID).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, table := range []string{"rows", "live_rows", "session_traces", "blocks", "packs", "summaries"} {
			if _, err := s.conn.ExecContext(ctx, `DELETE FROM `+table+` WHERE session = ?`, id); err != nil {
				return err
			}
		}
		return s.deleteChat(ctx, k, id)
	})
	if err != nil {
		return err
	}
	if s.lock(ctx) == nil {
		defer s.unlock()
		ctx := context.WithoutCancel(ctx)
		var busy int64
		if s.conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&busy) == nil {
			_, _ = s.conn.ExecContext(ctx, "PRAGMA busy_timeout=0")
			_, _ = s.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
			_, _ = s.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout=%d", busy))
		}
	}
	return nil
}
