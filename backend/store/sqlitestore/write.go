package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// checkEvery is after how many rows or blocks a Put looks whether it was cancelled.
const checkEvery = 256

// statements are those of the writing connection by their text, each prepared once. They are few: none has a value in
// it.
type statements map[string]*sql.Stmt

// stmt returns a statement of the writing connection.
func (s *Store) stmt(ctx context.Context, query string) (stmt *sql.Stmt, err error) {
	stmt, ok := s.stmts[query]
	if !ok {
		if stmt, err = s.conn.PrepareContext(ctx, query); err == nil {
			s.stmts[query] = stmt
		}
	}
	return stmt, err
}

// exec runs a statement of the writing connection.
func (s *Store) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	stmt, err := s.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, args...)
}

// scan runs a query of the writing connection that has one row.
func (s *Store) scan(ctx context.Context, query string, args []any, to ...any) error {
	stmt, err := s.stmt(ctx, query)
	if err != nil {
		return err
	}
	return stmt.QueryRowContext(ctx, args...).Scan(to...)
}

// insertRow inserts a row. Of two with one key it keeps the row that session.Supersedes prefers: blobs compare as Go
// compares bytes. Canonical bytes are unpacked only where all before them is equal.
const insertRow = `INSERT INTO rows (session, span, trace, known, end_ns, canonical) VALUES (?,?,?,?,?,?)
	ON CONFLICT DO UPDATE SET known=excluded.known, end_ns=excluded.end_ns, canonical=excluded.canonical
	WHERE (excluded.known, excluded.end_ns) > (rows.known, rows.end_ns)
	OR (excluded.known, excluded.end_ns) = (rows.known, rows.end_ns)
	AND ` + canonicalFunc + `(excluded.canonical) > ` + canonicalFunc + `(rows.canonical)`

const (
	// A new session counts as projected at the number between this mark and the one before, which is never given out,
	// so that a projection made of a deleted session of the same name is too old for it.
	nextMark    = `UPDATE marks SET last = last + 2 RETURNING last`
	markSession = `INSERT INTO sessions (tenant, id, mark, projected, last_ns) VALUES (?1, ?2, ?3, ?3 - 1,
		9223372036854775807) ON CONFLICT DO UPDATE SET mark = excluded.mark RETURNING session`
	growSession = `UPDATE sessions SET bytes = ifnull(bytes, 0) + ? WHERE session = ?`
	insertTrace = `INSERT INTO session_traces (trace, session) VALUES (?, ?) ON CONFLICT DO NOTHING`
	insertBlock = `INSERT INTO blocks (session, id) VALUES (?, ?) ON CONFLICT DO NOTHING`
	insertHeld  = `INSERT INTO withheld (session, id, size, body)
		SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS (SELECT 1 FROM blocks WHERE session = ?1 AND id = substr(?2, 1, 16))
		ON CONFLICT DO UPDATE SET size = excluded.size, body = excluded.body WHERE excluded.size > withheld.size`
	insertPack = `INSERT INTO packs (session, pack, raw, body)
		VALUES (?1, (SELECT ifnull(max(pack), 0) + 1 FROM packs WHERE session = ?1), ?2, ?3)`
)

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
	packed, err := prepare(ctx, b)
	if err != nil {
		return fmt.Errorf("sqlitestore: put: %w", err)
	}
	var counts store.Counts
	err = s.write(ctx, "put", func(inner context.Context) error {
		w := putter{ctx: inner, s: s, sessions: map[session.Key]*touched{}, packs: packer{ctx: inner, s: s}}
		if err := s.scan(inner, nextMark, nil, &w.mark); err != nil {
			return err
		}
		for i := range b.Rows {
			if i%checkEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := w.row(&b.Rows[i], &packed[i]); err != nil {
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
		counts = w.counts
		return w.flush()
	})
	if err == nil {
		s.counting.Lock()
		defer s.counting.Unlock()
		s.counts.BlocksNew += counts.BlocksNew
		s.counts.BlocksKnown += counts.BlocksKnown
		s.counts.BytesNew += counts.BytesNew
		s.counts.BytesKnown += counts.BytesKnown
	}
	return err
}

// preparedRow is a packed row, and how many bytes it was before.
type preparedRow struct {
	packed []byte
	size   int
}

// prepare encodes rows before the writing connection is taken: writers take turns with it, and encoding needs no turn.
// It fails with store.ErrData for rows that are too large.
func prepare(ctx context.Context, b session.Batch) ([]preparedRow, error) {
	var packed, canonical []byte
	rows := make([]preparedRow, 0, len(b.Rows))
	for i := range b.Rows {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		canonical = b.Rows[i].AppendCanonical(canonical[:0])
		if len(canonical) > store.MaxValue {
			return nil, fmt.Errorf("row %d: %d bytes, at most %d: %w", i, len(canonical), store.MaxValue, store.ErrData)
		}
		packed = packRow(packed[:0], canonical)
		rows = append(rows, preparedRow{slices.Clone(packed), len(canonical)})
	}
	return rows, nil
}

// putter writes one batch, inside a transaction.
type putter struct {
	ctx  context.Context
	s    *Store
	mark int64

	sessions map[session.Key]*touched
	packs    packer
	counts   store.Counts
}

// touched is a session that the batch has something for.
type touched struct {
	id     int64 // in the file
	bytes  int   // that it grew by
	traces map[session.TraceID]bool
}

// session marks the session as dirty, once a batch.
func (w *putter) session(k session.Key) (*touched, error) {
	t, ok := w.sessions[k]
	if !ok {
		t = &touched{traces: map[session.TraceID]bool{}}
		if err := w.s.scan(w.ctx, markSession, []any{k.Tenant, k.ID, w.mark}, &t.id); err != nil {
			return nil, err
		}
		w.sessions[k] = t
	}
	return t, nil
}

// flush writes what was gathered.
func (w *putter) flush() error {
	for _, t := range w.sessions {
		if t.bytes == 0 {
			continue
		}
		if _, err := w.s.exec(w.ctx, growSession, t.bytes, t.id); err != nil {
			return err
		}
	}
	return w.packs.flush()
}

// row inserts a row.
func (w *putter) row(r *session.Row, p *preparedRow) error {
	t, err := w.session(r.Session)
	if err != nil {
		return err
	}
	if !t.traces[r.Trace] {
		t.traces[r.Trace] = true
		if _, err := w.s.exec(w.ctx, insertTrace, r.Trace[:], t.id); err != nil {
			return err
		}
	}
	res, err := w.s.exec(w.ctx, insertRow, rowArgs(r, t.id, p.packed)...)
	if err != nil {
		return err
	}
	kept, err := res.RowsAffected()
	t.bytes += p.size * int(kept)
	return err
}

// rowArgs returns the values of the columns of a row.
func rowArgs(r *session.Row, id int64, canonical []byte) []any {
	return []any{id, r.Span[:], r.Trace[:], int64(session.KnownRank(r.Known)), r.End, canonical}
}

func (w *putter) block(b *session.Block) error {
	t, err := w.session(b.Session)
	if err != nil {
		return err
	}
	kept, err := w.packs.add(t.id, b)
	if err != nil {
		return err
	}
	if kept {
		t.bytes += len(b.Body)
		w.counts.BlocksNew++
		w.counts.BytesNew += int64(len(b.Body))
	} else {
		w.counts.BlocksKnown++
		w.counts.BytesKnown += int64(len(b.Body))
	}
	return nil
}

// SetSummary implements store.Store. It also merges small packs.
func (s *Store) SetSummary(ctx context.Context, k session.Key, p store.SummaryUpdate) error {
	err := s.transact(ctx, func(ctx context.Context) error {
		var id, projected, newest int64
		err := s.scan(ctx, `SELECT session, projected, (SELECT last FROM marks) FROM sessions WHERE tenant = ? AND id = ?`,
			[]any{k.Tenant, k.ID}, &id, &projected, &newest)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return store.ErrNotFound
		case err != nil:
			return err
		case int64(p.Revision) > newest:
			return fmt.Errorf("mark %d was never given out: %w", p.Revision, store.ErrData)
		case int64(p.Revision) < projected:
			return nil // a later state is projected
		}
		if err := s.replaceFigures(ctx, id, &p.Figures); err != nil {
			return err
		}
		if _, err := s.exec(ctx, `UPDATE sessions SET projected = ?, last_ns = ? WHERE session = ?`,
			int64(p.Revision), store.RankOf(p.Summary.Last), id); err != nil {
			return err
		}
		args := []any{id}
		for _, f := range store.SummaryFields(&p.Summary) {
			args = append(args, toColumn(f, false))
		}
		_, err = s.exec(ctx, "INSERT OR REPLACE INTO summaries (session, "+strings.Join(store.SummaryColumns, ", ")+
			") VALUES (?"+strings.Repeat(",?", len(store.SummaryColumns))+")", args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("sqlitestore: set summary: %w", atRest(err))
	}
	return s.tidy(ctx, k)
}
