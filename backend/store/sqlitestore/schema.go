package sqlitestore

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

// applicationID stands in the header of every database of ours ("otag"), so that no other one is written to by mistake.
const applicationID = 0x6f746167

// A migration takes a database from one version to the next, in as many transactions as it likes: it is called in one of its
// own until it says that it is done, which also sets the version. Between two calls the program may die or another process
// may go on, so that what is left to do must stand in the database.
type migration func(ctx context.Context, c *sql.Conn) (done bool, err error)

// migrations[i] takes a database from version i to i+1. Never edit one that was released: add another, and a golden
// database of the version before it to testdata.
var migrations = []migration{statement(schema1), toPacks, statement(schema3), toSizes, projectedAgain(schema5, "turns"), projectedAgain(schema6, "summaries_by_fork")}

// Version is the schema version that this code writes: PRAGMA user_version of the file.
const Version = 6

var (
	//go:embed schema1.sql
	schema1 string
	//go:embed schema2.sql
	schema2 string
	//go:embed schema3.sql
	schema3 string
	//go:embed schema4.sql
	schema4 string
	//go:embed schema5.sql
	schema5 string
	//go:embed schema6.sql
	schema6 string
)

// statement is a migration by SQL alone, in one transaction.
func statement(text string) migration {
	return func(ctx context.Context, c *sql.Conn) (bool, error) {
		_, err := c.ExecContext(ctx, text)
		return true, err
	}
}

// countRows is about how many rows are looked at in one transaction.
const countRows = 20_000

// toSizes is the migration to version 4: after the statements it counts the bytes of the sessions that are there, and has them projected
// again.
func toSizes(ctx context.Context, c *sql.Conn) (bool, error) {
	var begun bool
	if err := c.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = 'sessions_uncounted'`).Scan(&begun); err != nil {
		return false, err
	}
	if !begun {
		_, err := c.ExecContext(ctx, schema4+`CREATE INDEX sessions_uncounted ON sessions (session) WHERE bytes IS NULL;`)
		return false, err
	}
	for n := 0; n < countRows; {
		var id sql.Null[int64]
		if err := c.QueryRowContext(ctx, `SELECT min(session) FROM sessions WHERE bytes IS NULL`).Scan(&id); err != nil {
			return false, err
		}
		if !id.Valid {
			_, err := c.ExecContext(ctx, `DROP INDEX sessions_uncounted`)
			return true, err
		}
		var rows, bytes int
		if err := c.QueryRowContext(ctx, `SELECT sum(n), sum(b) FROM (
			SELECT count(*) AS n, ifnull(sum(length(`+canonicalFunc+`(canonical))), 0) AS b FROM rows WHERE session = ?1
			UNION ALL SELECT count(*), ifnull(sum(length(`+canonicalFunc+`(canonical))), 0) FROM live_rows WHERE session = ?1
			UNION ALL SELECT count(*), ifnull(sum(length), 0) FROM blocks WHERE session = ?1)`, id.V).Scan(&rows, &bytes); err != nil {
			return false, err
		}
		// Dirty, since only a projection tells whose sub-agent it is.
		if _, err := c.ExecContext(ctx, `UPDATE sessions SET bytes = ?, projected = min(projected, mark - 1) WHERE session = ?`, bytes, id.V); err != nil {
			return false, err
		}
		n += rows + 1
	}
	return false, nil
}

// dirtyRows is how many sessions are marked as dirty in one transaction.
const dirtyRows = 20_000

// projectedAgain is a migration by SQL, which makes a table or index of that name, and then by steps that have all sessions projected again.
func projectedAgain(text, made string) migration {
	return func(ctx context.Context, c *sql.Conn) (bool, error) {
		var begun bool
		if err := c.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = ?`, made).Scan(&begun); err != nil {
			return false, err
		}
		if !begun {
			_, err := c.ExecContext(ctx, text)
			return false, err
		}
		res, err := c.ExecContext(ctx, `UPDATE sessions SET projected = mark - 1 WHERE session IN (SELECT session FROM sessions WHERE mark <= projected LIMIT ?)`, dirtyRows)
		if err != nil {
			return false, err
		}
		n, err := res.RowsAffected()
		return n < dirtyRows, err
	}
}

// VersionError says that a database has a schema that this code cannot use.
type VersionError struct {
	// Have is the version of the file, Want the newest known.
	Have, Want int
}

// Error says what to do.
func (e *VersionError) Error() string {
	if e.Have > e.Want {
		return fmt.Sprintf("database has schema version %d, this program knows up to %d: use a newer program", e.Have, e.Want)
	}
	return fmt.Sprintf("database has schema version %d, want %d: open it once for writing", e.Have, e.Want)
}

// querier is a *sql.Conn or a *sql.DB.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// version returns the schema version; 0 for an empty database. It refuses databases of other programs and those of a
// version above newest.
func version(ctx context.Context, q querier, newest int) (int, error) {
	var app, user, tables int
	err := q.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`).
		Scan(&app, &user, &tables)
	switch {
	case err != nil:
		return 0, err
	case app == 0 && user == 0 && tables == 0:
		return 0, nil
	case app != applicationID:
		return 0, errNotOurs
	case user > newest:
		return 0, &VersionError{Have: user, Want: newest}
	}
	return user, nil
}

// migrate takes the database through all steps that it has not had, in transactions, beside other processes that may do the
// same. A transaction that fails leaves the database as the one before left it.
func migrate(ctx context.Context, c *sql.Conn, steps []migration) error {
	for {
		v, err := version(ctx, c, len(steps))
		if err != nil || v == len(steps) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := migrateOne(ctx, c, steps); err != nil {
			return err
		}
	}
}

func migrateOne(ctx context.Context, c *sql.Conn, steps []migration) (err error) {
	ctx = context.WithoutCancel(ctx) // a cancelled BEGIN may have begun
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = c.ExecContext(ctx, "ROLLBACK")
		}
	}()
	v, err := version(ctx, c, len(steps))
	if err != nil {
		return err
	}
	if v < len(steps) { // else another process was faster
		done, err := steps[v](ctx, c)
		if err != nil {
			return fmt.Errorf("migrate from schema version %d: %w", v, err)
		}
		if done {
			if _, err := c.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", applicationID, v+1)); err != nil {
				return err
			}
		}
	}
	_, err = c.ExecContext(ctx, "COMMIT")
	return err
}
