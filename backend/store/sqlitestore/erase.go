package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// ErrReaders is wrapped by the error of a Delete that is done but for copies in the log, which a reader keeps there that began before and
// is not done. The next Delete after that, of whatever session, or the next program that opens the file for writing takes them away.
var ErrReaders = errors.New("deleted, but a reader that began before keeps copies in the log: delete again when it is done")

const (
	// eraseHold is how long a transaction that erases should hold the write lock.
	eraseHold = 15 * time.Millisecond
	// eraseMost bounds how long statements go on in it, and eraseLeast how little: writing what they changed comes on top.
	eraseMost, eraseLeast = 8 * time.Millisecond, time.Millisecond / 2
)

// Delete implements store.Store. When it returns nil, no byte of the session is left in the file or in the log beside it, other than
// what other sessions have too. A reader, also one of another process, that began before and goes on keeps copies in the log: Delete
// waits for it as long as for another writer, and then fails with ErrReaders. An iterator that the caller is inside of is such a
// reader, unless it is one of Sessions, Dirty or Tenants that came to no more than 1,024 things.
//
// Other sessions are written to meanwhile: a step holds the write lock for about 15 ms, longer only where one row or body takes more than
// a few MiB in the file. Puts of the same process come between two steps, and other processes get as much time as the steps take.
//
// It reads all of the file once, to see whether copies are left in unused space: about a second per GiB. Hide and Erase do it once for
// many sessions.
func (s *Store) Delete(ctx context.Context, k session.Key) error {
	if _, err := s.Hide(ctx, k, 0); err != nil {
		return err
	}
	return s.Erase(ctx)
}

// Hide implements store.Store.
func (s *Store) Hide(ctx context.Context, k session.Key, m store.Mark) (bool, error) {
	hidden, err := s.hide(ctx, k, m)
	if err != nil {
		return false, fmt.Errorf("sqlitestore: delete: %w", classify(err))
	}
	return hidden, nil
}

// Erase implements store.Store; see Delete.
func (s *Store) Erase(ctx context.Context) error {
	if s.turn == nil {
		return fmt.Errorf("sqlitestore: delete: %w", store.ErrReadOnly)
	}
	if err := s.erase(ctx, s.busy); err != nil {
		return fmt.Errorf("sqlitestore: delete: %w", classify(err))
	}
	return nil
}

func (s *Store) hide(ctx context.Context, k session.Key, m store.Mark) (hidden bool, err error) {
	if m != 0 {
		switch now, err := s.Mark(ctx, k); {
		case errors.Is(err, store.ErrNotFound):
			return false, nil
		case err != nil || now != m:
			return false, err
		}
	}
	err = s.transact(ctx, func(ctx context.Context) error {
		hidden, err = s.hideNow(ctx, k, m)
		return err
	})
	return hidden && err == nil, err
}

// hideNow is the transaction after which nobody finds the session. What is left has its number only, which is never used again.
func (s *Store) hideNow(ctx context.Context, k session.Key, m store.Mark) (bool, error) {
	var id int64
	switch err := s.conn.QueryRowContext(ctx, `DELETE FROM sessions WHERE tenant = ?1 AND id = ?2 AND (?3 = 0 OR mark = ?3) RETURNING session`, k.Tenant, k.ID, int64(m)).Scan(&id); {
	case errors.Is(err, sql.ErrNoRows):
		if m != 0 {
			return false, nil
		}
	case err != nil:
		return false, err
	}
	if id == 0 {
		return false, nil
	}
	if _, err := s.conn.ExecContext(ctx, `DELETE FROM summaries WHERE session = ?`, id); err != nil {
		return false, err
	}
	var chat any
	if k.Tenant == "" { // sessions of a tenant are not in the tables of the agent guide
		chat = k.ID
		if _, err := s.conn.ExecContext(ctx, `DELETE FROM chat_sessions WHERE id = ?`, k.ID); err != nil {
			return false, err
		}
	}
	_, err := s.conn.ExecContext(ctx, `INSERT INTO erasing (session, chat, erased) VALUES (?, ?, 0)`, id, chat)
	return true, err
}

// erase erases all sessions that were deleted, by whomever, empties the log, waiting for readers, and takes their marks away.
func (s *Store) erase(ctx context.Context, wait time.Duration) error {
	if s.turn == nil {
		return store.ErrReadOnly
	}
	select { // one at a time: a second one would erase the same
	case s.eraser <- struct{}{}:
		defer func() { <-s.eraser }()
	case <-ctx.Done():
		return ctx.Err()
	}
	marks, err := s.marks(ctx)
	if err != nil || len(marks) == 0 {
		return err
	}
	var done []int64
	for _, m := range marks {
		if !m.erased {
			pieces, err := s.pieces(ctx, m)
			if err == nil {
				err = s.inSteps(ctx, pieces)
			}
			if err != nil {
				return err
			}
		}
		done = append(done, m.session)
	}
	if err := s.scrub(ctx); err != nil {
		return err
	}
	if err := s.emptyLog(ctx, wait); err != nil {
		return err
	}
	list, err := json.Marshal(done)
	if err != nil {
		return err
	}
	return s.transact(ctx, func(ctx context.Context) error {
		_, err := s.conn.ExecContext(ctx, `DELETE FROM erasing WHERE session IN (SELECT value FROM json_each(?))`, string(list))
		return err
	})
}

// erasing is the mark of a session that was deleted.
type erasing struct {
	session int64
	chat    sql.Null[string]
	erased  bool
}

func (s *Store) marks(ctx context.Context) (all []erasing, err error) {
	for m, err := range fetch(ctx, s, `SELECT session, chat, erased FROM erasing ORDER BY session`, nil, func(rows *sql.Rows) (m erasing, err error) {
		err = rows.Scan(&m.session, &m.chat, &m.erased)
		return m, err
	}) {
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// eraseStatements erase one thing each. Rowids are used again, so that the session says that it is the one.
type eraseStatements struct {
	part, message, prompt, promptBody, row, live, trace, block, body, pack, turn, call, compaction, permission, done, page, setPage *sql.Stmt
}

func (s *eraseStatements) prepare(ctx context.Context, c *sql.Conn) error {
	return prepareAll(ctx, c, []statementText{
		{&s.part, `DELETE FROM chat_parts WHERE rowid = ? AND session_id = ?`},
		{&s.message, `DELETE FROM chat_messages WHERE rowid = ? AND session_id = ?`},
		{&s.prompt, `DELETE FROM chat_prompts WHERE session = ? AND digest = ?`},
		{&s.promptBody, `DELETE FROM system_prompts WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM chat_prompts WHERE digest = ?1)`},
		{&s.row, `DELETE FROM rows WHERE rowid = ? AND session = ?`},
		{&s.live, `DELETE FROM live_rows WHERE rowid = ? AND session = ?`},
		{&s.trace, `DELETE FROM session_traces WHERE trace = ? AND session = ?`},
		{&s.block, `DELETE FROM blocks WHERE session = ? AND id = ? RETURNING pack`},
		{&s.body, `DELETE FROM shared_bodies WHERE shared = -?1 AND NOT EXISTS (SELECT 1 FROM blocks WHERE pack = ?1 AND pack < 0)`},
		{&s.pack, `DELETE FROM packs WHERE pack = ? AND session = ?`},
		{&s.turn, `DELETE FROM turns WHERE rowid = ? AND session = ?`},
		{&s.call, `DELETE FROM tool_calls WHERE rowid = ? AND session = ?`},
		{&s.compaction, `DELETE FROM compactions WHERE rowid = ? AND session = ?`},
		{&s.permission, `DELETE FROM permission_evaluations WHERE rowid = ? AND session = ?`},
		{&s.done, `UPDATE erasing SET erased = 1, chat = NULL WHERE session = ?`},
		{&s.page, `SELECT data FROM sqlite_dbpage WHERE pgno = ?`},
		{&s.setPage, `UPDATE sqlite_dbpage SET data = ? WHERE pgno = ?`},
	})
}

func (s *eraseStatements) close() {
	closeAll(s.part, s.message, s.prompt, s.promptBody, s.row, s.live, s.trace, s.block, s.body, s.pack,
		s.turn, s.call, s.compaction, s.permission, s.done, s.page, s.setPage)
}

// piece erases one thing, inside a transaction.
type piece func(ctx context.Context) error

// exec runs a statement of the writing connection.
func (s *Store) exec(ctx context.Context, st *sql.Stmt, args ...any) error {
	_, err := st.ExecContext(ctx, args...)
	return err
}

// pieces returns what erases a deleted session, in the order of the file: nothing is added to it any more. The last takes note that all
// of it is gone.
func (s *Store) pieces(ctx context.Context, m erasing) (all []piece, err error) {
	st := &s.stmts.erase
	// rowids of a table, where what is said of it holds.
	rowids := func(table, column string, value any, remove *sql.Stmt) {
		if err != nil {
			return
		}
		for n, failed := range fetch(ctx, s, `SELECT rowid FROM `+table+` WHERE `+column+` = ? ORDER BY rowid`, []any{value}, scanInt) {
			if failed != nil {
				err = failed
				return
			}
			all = append(all, func(ctx context.Context) error { return s.exec(ctx, remove, n, value) })
		}
	}
	keys := func(table, column string, remove func(ctx context.Context, key any) error) {
		if err != nil {
			return
		}
		for key, failed := range fetch(ctx, s, `SELECT `+column+` FROM `+table+` WHERE session = ?`, []any{m.session},
			func(rows *sql.Rows) (key any, err error) {
				err = rows.Scan(&key)
				return key, err
			}) {
			if failed != nil {
				err = failed
				return
			}
			all = append(all, func(ctx context.Context) error { return remove(ctx, key) })
		}
	}
	if m.chat.Valid {
		rowids("chat_parts", "session_id", m.chat.V, st.part)
		rowids("chat_messages", "session_id", m.chat.V, st.message)
		keys("chat_prompts", "digest", func(ctx context.Context, digest any) error {
			return errors.Join(s.exec(ctx, st.prompt, m.session, digest), s.exec(ctx, st.promptBody, digest))
		})
	}
	rowids("rows", "session", m.session, st.row)
	rowids("live_rows", "session", m.session, st.live)
	keys("session_traces", "trace", func(ctx context.Context, trace any) error { return s.exec(ctx, st.trace, trace, m.session) })
	keys("blocks", "id", func(ctx context.Context, id any) error {
		var pack int64
		err := st.block.QueryRowContext(ctx, m.session, id).Scan(&pack)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // another process was faster
		}
		if err == nil && pack < 0 {
			err = s.exec(ctx, st.body, pack)
		}
		return err
	})
	rowids("packs", "session", m.session, st.pack)
	rowids("turns", "session", m.session, st.turn)
	rowids("tool_calls", "session", m.session, st.call)
	rowids("compactions", "session", m.session, st.compaction)
	rowids("permission_evaluations", "session", m.session, st.permission)
	all = append(all, func(ctx context.Context) error {
		if _, err := s.conn.ExecContext(ctx, `DELETE FROM chat_projected WHERE session = ?`, m.session); err != nil {
			return err
		}
		return s.exec(ctx, st.done, m.session)
	})
	return all, err
}

// inSteps runs pieces in transactions that hold the write lock for about eraseHold each, and rests as long between two of them.
func (s *Store) inSteps(ctx context.Context, pieces []piece) error {
	if len(pieces) == 0 {
		return nil
	}
	// The log is copied into the file by a connection of its own, beside writers; the writing one would do it while it holds them up.
	db, err := sql.Open("sqlite", uri(s.path, "rw", config{}))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { _ = db.Close() }()
	for budget := eraseLeast; ; {
		var began time.Time
		done := 0
		err := s.transact(ctx, func(ctx context.Context) error {
			began = time.Now()
			for ; done < len(pieces) && (done == 0 || time.Since(began) < budget); done++ {
				if err := pieces[done](ctx); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		held := max(time.Since(began), 1)
		if pieces = pieces[done:]; len(pieces) == 0 {
			return nil
		}
		budget = min(max(time.Duration(float64(budget)*float64(eraseHold)/float64(held)), eraseLeast), 2*budget, eraseMost)
		free := time.Now()
		if _, err := db.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)"); err != nil && ctx.Err() != nil {
			return ctx.Err() // other errors the next transaction meets as well
		}
		if err := sleep(ctx, held-time.Since(free)); err != nil {
			return err
		}
	}
}

// emptyLog copies the log into the file and cuts it to nothing. Readers that began before keep it from that; it waits for them.
func (s *Store) emptyLog(ctx context.Context, wait time.Duration) error {
	for deadline, pause := time.Now().Add(wait), 5*time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		if err := s.lock(ctx); err != nil {
			return err
		}
		var busy bool
		var frames, copied int
		err := s.conn.QueryRowContext(context.WithoutCancel(ctx), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &copied)
		s.unlock()
		switch {
		case err == nil && !busy:
			return nil
		case err != nil && code(err) != sqlite3.SQLITE_BUSY:
			return err
		case time.Now().After(deadline):
			return ErrReaders
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
