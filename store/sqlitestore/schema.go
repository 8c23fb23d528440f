package sqlitestore

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

// applicationID stands in the header of every database of ours ("otag"), so that no other one is written to by mistake.
const applicationID = 0x6f746167

// migrations[i] takes a database from version i to i+1. Never edit one that was released: add another, and a golden
// database of the version before it to testdata.
var migrations = []string{schema1}

// Version is the schema version that this code writes: PRAGMA user_version of the file.
const Version = 1

//go:embed schema1.sql
var schema1 string

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

// version returns the schema version; 0 for an empty database. It refuses databases of other programs and newer ones.
func version(ctx context.Context, q querier) (int, error) {
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
	case user > Version:
		return 0, &VersionError{Have: user, Want: Version}
	}
	return user, nil
}

// migrate brings the database to Version, each step in a transaction of its own, beside other processes that may do the same.
func migrate(ctx context.Context, c *sql.Conn) error {
	for {
		v, err := version(ctx, c)
		if err != nil || v == Version {
			return err
		}
		if err := migrateOne(ctx, c); err != nil {
			return err
		}
	}
}

func migrateOne(ctx context.Context, c *sql.Conn) (err error) {
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	v, err := version(ctx, c)
	if err != nil {
		return err
	}
	if v < Version { // else another process was faster
		if _, err := c.ExecContext(ctx, migrations[v]); err != nil {
			return fmt.Errorf("migrate from schema version %d: %w", v, err)
		}
		if _, err := c.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", applicationID, v+1)); err != nil {
			return err
		}
	}
	_, err = c.ExecContext(ctx, "COMMIT")
	return err
}
