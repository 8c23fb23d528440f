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

// ErrReaders is wrapped by the error of a Delete that is done, except that a reader which began before keeps copies in
// the log. The next Delete after the reader has ended, of whatever session, or the next program that opens the file for
// writing removes them.
var ErrReaders = errors.New(
	"deleted, but a reader that began before keeps copies in the log: delete again when it is done")

// eraseHold is how long a transaction that erases adds to what it does. Writing the changes comes on top.
const eraseHold = 2 * time.Millisecond

// Delete implements store.Store. When it returns nil, no query finds anything of the sessions, the log is empty, and
// rows, bodies and free pages are overwritten (secure_delete). SQLite may keep copies of moved rows in the unused space
// inside a page: Vacuum removes them. A reader, also one of another process, that began before and goes on keeps copies
// in the log: Delete waits for it as long as for another writer, and then fails with ErrReaders. An iterator of rows,
// blocks or figures that the caller is inside of is such a reader.
//
// Other sessions are written to meanwhile: a step holds the write lock for some 10 ms, longer only where one row or
// body takes more than a few MiB in the file, and other processes get as much time as the steps take.
func (s *Store) Delete(ctx context.Context, list ...store.Deletion) (gone []session.Key, err error) {
	for _, d := range list {
		hidden, err := s.hide(ctx, d)
		if err != nil {
			return gone, err
		}
		if hidden {
			gone = append(gone, d.Key)
		}
	}
	if err := s.erase(ctx, s.busy); err != nil {
		return gone, fmt.Errorf("sqlitestore: delete: %w", classify(err))
	}
	return gone, nil
}

// hide is the transaction after which no query finds the session. What is left has its number only, which is never used
// again.
func (s *Store) hide(ctx context.Context, d store.Deletion) (hidden bool, err error) {
	err = s.write(ctx, "delete", func(ctx context.Context) error {
		var id int64
		err := s.conn.QueryRowContext(ctx,
			`DELETE FROM sessions WHERE tenant = ?1 AND id = ?2 AND (?3 = 0 OR mark = ?3) RETURNING session`,
			d.Key.Tenant, d.Key.ID, int64(d.Revision)).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		hidden = true
		var chat any
		if d.Key.Tenant == "" { // sessions of a tenant are not in the tables of the agent guide
			chat = d.Key.ID
		}
		if _, err = s.conn.ExecContext(ctx, `INSERT INTO erasing (session, chat, erased) VALUES (?, ?, 0)`, id,
			chat); err != nil {
			return err
		}
		if _, err = s.conn.ExecContext(ctx, `DELETE FROM summaries WHERE session = ?`, id); err != nil {
			return err
		}
		_, err = s.conn.ExecContext(ctx, `DELETE FROM chat_sessions WHERE id = ?`, chat)
		return err
	})
	return hidden && err == nil, err
}

// erase erases all sessions that were hidden, by whatever program, empties the log, waiting for readers, and removes
// their marks.
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
	var done []int64
	marks, err := s.marks(ctx)
	if err != nil || len(marks) == 0 {
		return err
	}
	for _, m := range marks {
		if !m.erased {
			if err := s.eraseSession(ctx, m); err != nil {
				return err
			}
		}
		done = append(done, m.session)
	}
	if err := s.emptyLog(ctx, wait); err != nil {
		return err
	}
	list, err := json.Marshal(done)
	if err != nil {
		return err
	}
	return s.transact(ctx, func(ctx context.Context) error {
		_, err := s.conn.ExecContext(ctx, `DELETE FROM erasing WHERE session IN (SELECT value FROM json_each(?))`,
			string(list))
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
	for m, err := range fetch(ctx, s, `SELECT session, chat, erased FROM erasing ORDER BY session`, nil,
		func(rows *sql.Rows) (m erasing, err error) {
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

// eraseSteps delete some rows of the session ?1, whose id in the tables of the agent guide is ?2, until none is left.
// Triggers delete what other tables have of them.
var eraseSteps = []string{
	`DELETE FROM chat_parts WHERE rowid IN (SELECT rowid FROM chat_parts WHERE session_id = ?2 LIMIT 8)`,
	`DELETE FROM chat_messages WHERE rowid IN (SELECT rowid FROM chat_messages WHERE session_id = ?2 LIMIT 8)`,
	`DELETE FROM chat_prompts WHERE session = ?1 AND digest IN (SELECT digest FROM chat_prompts WHERE session = ?1 ` +
		`LIMIT 4)`,
	`DELETE FROM rows WHERE rowid IN (SELECT rowid FROM rows WHERE session = ?1 LIMIT 16)`,
	`DELETE FROM live_rows WHERE rowid IN (SELECT rowid FROM live_rows WHERE session = ?1 LIMIT 16)`,
	`DELETE FROM session_traces WHERE session = ?1 AND trace IN (SELECT trace FROM session_traces WHERE session = ?1 ` +
		`LIMIT 16)`,
	`DELETE FROM blocks WHERE session = ?1 AND id IN (SELECT id FROM blocks WHERE session = ?1 LIMIT 16)`,
	`DELETE FROM packs WHERE pack IN (SELECT pack FROM packs WHERE session = ?1 LIMIT 1)`,
	`DELETE FROM turns WHERE rowid IN (SELECT rowid FROM turns WHERE session = ?1 LIMIT 16)`,
	`DELETE FROM tool_calls WHERE rowid IN (SELECT rowid FROM tool_calls WHERE session = ?1 LIMIT 16)`,
	`DELETE FROM compactions WHERE rowid IN (SELECT rowid FROM compactions WHERE session = ?1 LIMIT 16)`,
	`DELETE FROM permission_evaluations WHERE rowid IN (SELECT rowid FROM permission_evaluations WHERE session = ?1 ` +
		`LIMIT 16)`,
	`DELETE FROM chat_projected WHERE session = ?1`,
}

// eraseSession erases a session in short transactions, and rests as long between two of them. Its number is never used
// again.
func (s *Store) eraseSession(ctx context.Context, m erasing) error {
	// The log is copied into the file by a connection of its own, while others write; the writing one would do it while
	// it holds them up.
	db, err := sql.Open("sqlite", uri(s.path, "rw", config{}))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { _ = db.Close() }()
	for steps := eraseSteps; len(steps) > 0; {
		var began time.Time
		err := s.transact(ctx, func(ctx context.Context) error {
			for began = time.Now(); len(steps) > 0 && time.Since(began) < eraseHold; {
				res, err := s.conn.ExecContext(ctx, steps[0], m.session, m.chat)
				if err != nil {
					return err
				}
				n, err := res.RowsAffected()
				if err != nil {
					return err
				}
				if n == 0 {
					steps = steps[1:]
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		held, free := time.Since(began), time.Now()
		if _, err := db.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)"); err != nil && ctx.Err() != nil {
			return ctx.Err() // other errors the next transaction meets as well
		}
		if err := sleep(ctx, held-time.Since(free)); err != nil {
			return err
		}
	}
	return s.transact(ctx, func(ctx context.Context) error {
		_, err := s.conn.ExecContext(ctx, `UPDATE erasing SET erased = 1, chat = NULL WHERE session = ?`, m.session)
		return err
	})
}

// Vacuum erases what was hidden and writes the file anew, so that no byte of a deleted session is left in it. Nobody
// else can write meanwhile: about a second for each 100 MB. It takes room for a second copy of the file.
func (s *Store) Vacuum(ctx context.Context) error {
	err := s.erase(ctx, s.busy)
	if err == nil {
		err = s.vacuum(ctx)
	}
	if err == nil {
		err = s.emptyLog(ctx, s.busy)
	}
	if err != nil {
		return fmt.Errorf("sqlitestore: vacuum: %w", classify(err))
	}
	return nil
}

func (s *Store) vacuum(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return whileBusy(ctx, s.busy, func() error {
		// The copy is made in a file: it may be larger than the memory.
		_, err := s.conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA temp_store=FILE; VACUUM; PRAGMA temp_store=MEMORY")
		return err
	})
}

// emptyLog copies the log into the file and cuts it to nothing. Readers that began before keep it from that; it waits
// for them.
func (s *Store) emptyLog(ctx context.Context, wait time.Duration) error {
	for deadline, pause := time.Now().Add(wait), 5*time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		if err := s.lock(ctx); err != nil {
			return err
		}
		var busy bool
		var frames, copied int
		err := s.conn.QueryRowContext(context.WithoutCancel(ctx), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames,
			&copied)
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
