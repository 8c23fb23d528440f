package sqlitestore

import (
	"context"
	"database/sql"
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
			return gone, fmt.Errorf("sqlitestore: delete: %w", classify(err))
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

// hide ends with the transaction after which no query finds the session. What is left has its number only, which is
// never used again. The tables of the agent guide have no number: they lose the session before, in steps. One that is
// spared after all was Put to, and its next summary fills them again.
func (s *Store) hide(ctx context.Context, d store.Deletion) (hidden bool, err error) {
	const which = ` FROM sessions WHERE tenant = ?1 AND id = ?2 AND (?3 = 0 OR mark = ?3)`
	args := []any{d.Key.Tenant, d.Key.ID, int64(d.Revision)}
	inChat := d.Key.Tenant == ""
	if inChat {
		for id, err := range list(ctx, s, "delete", `SELECT session`+which, args, scanOne[int64]) {
			if err == nil {
				err = s.inSteps(ctx, chatSteps, id, d.Key.ID)
			}
			if err != nil {
				return false, err
			}
		}
	}
	err = s.transact(ctx, func(ctx context.Context) error {
		var id int64
		err := s.conn.QueryRowContext(ctx, `DELETE`+which+` RETURNING session`, args...).Scan(&id)
		if err == nil {
			err = run(ctx, s.conn, `INSERT INTO erasing (session) VALUES (?)`, id)
		}
		if err == nil {
			err = run(ctx, s.conn, `DELETE FROM summaries WHERE session = ?`, id)
		}
		for i := 0; inChat && err == nil && i < len(chatTables); i++ { // those that came since
			err = run(ctx, s.conn, `DELETE FROM `+chatTables[i][0]+` WHERE `+chatTables[i][1], id, d.Key.ID)
		}
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// erase erases all sessions that were hidden, by whatever program, and empties the log, waiting for readers.
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
	for id, err := range list(ctx, s, "erase", `SELECT session FROM erasing ORDER BY session`, nil, scanOne[int64]) {
		if err == nil {
			err = s.inSteps(ctx, eraseSteps, id, "")
		}
		if err != nil {
			return err
		}
	}
	return s.emptyLog(ctx, wait)
}

// chatTables are the tables of the agent guide, with the condition that selects a session, by number or id. Triggers
// delete what other tables have of it.
var chatTables = [][2]string{
	{"chat_projected", "session = ?1"}, {"chat_parts", "session_id = ?2"}, {"chat_messages", "session_id = ?2"},
	{"chat_prompts", "session = ?1"}, {"chat_sessions", "id = ?2"},
}

// chatSteps and eraseSteps delete some rows of the session with number ?1 and id ?2 each time, until none is left.
var (
	chatSteps = []string{
		`DELETE FROM chat_projected WHERE session = ?1`, // first, so that the next summary fills the others again
		someOf("chat_parts", "session_id = ?2", "", 8), someOf("chat_messages", "session_id = ?2", "", 8),
		someOf("chat_prompts", "session = ?1", "digest", 4),
	}
	eraseSteps = []string{
		someOf("rows", "session = ?1", "", 16),
		someOf("session_traces", "session = ?1", "trace", 16), someOf("blocks", "session = ?1", "id", 16),
		someOf("withheld", "session = ?1", "id", 16),
		someOf("packs", "session = ?1", "pack", 1), someOf("turns", "session = ?1", "", 16),
		someOf("tool_calls", "session = ?1", "", 16), someOf("compactions", "session = ?1", "", 16),
		someOf("permission_evaluations", "session = ?1", "", 16),
		`DELETE FROM erasing WHERE session = ?1`,
	}
)

// someOf deletes by rowid, and from a table without rowid by key.
func someOf(table, where, key string, n int) string {
	if key == "" {
		return fmt.Sprintf("DELETE FROM %[1]s WHERE rowid IN (SELECT rowid FROM %[1]s WHERE %[2]s LIMIT %[3]d)", table,
			where, n)
	}
	return fmt.Sprintf("DELETE FROM %[1]s WHERE %[2]s AND %[3]s IN (SELECT %[3]s FROM %[1]s WHERE %[2]s LIMIT %[4]d)",
		table, where, key, n)
}

// inSteps runs steps for a session in short transactions, and rests as long between two of them.
func (s *Store) inSteps(ctx context.Context, steps []string, number int64, id string) error {
	// The log is copied into the file by a connection of its own, while others write; the writing one would do it while
	// it holds them up.
	db, err := sql.Open("sqlite", s.uri("rw"))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { _ = db.Close() }()
	for len(steps) > 0 {
		var began time.Time
		err := s.transact(ctx, func(ctx context.Context) error {
			for began = time.Now(); len(steps) > 0 && time.Since(began) < eraseHold; {
				res, err := s.conn.ExecContext(ctx, steps[0], number, id)
				if err != nil {
					return err
				}
				if n, err := res.RowsAffected(); err != nil {
					return err
				} else if n == 0 {
					steps = steps[1:]
				}
			}
			return nil
		})
		if err != nil || len(steps) == 0 {
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
	return nil
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
