package sqlitestore

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

// applicationID is in the header of every otelagent database ("otag"), so that no other one is written to by mistake.
const applicationID = 0x6f746167

// Version is the schema version that this code reads and writes: PRAGMA user_version of the file.
const Version = 8

//go:embed schema.sql
var schema string

// VersionError says that a database has a schema that this code cannot use.
type VersionError struct {
	// Have is the version of the file, 0 of an empty one. Want is Version.
	Have, Want int
}

// Error says what to do.
func (e *VersionError) Error() string {
	do := "it was written before the first release and cannot be read: record into a new file"
	switch {
	case e.Have == 0:
		do = "it is empty: nothing was recorded into it yet"
	case e.Have > e.Want:
		do = "use a newer program"
	}
	return fmt.Sprintf("database has schema version %d, this program wants version %d: %s", e.Have, e.Want, do)
}

// querier is a *sql.Conn or a *sql.DB.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// empty reports whether the database has no tables. It refuses databases of other programs
// and those of another version.
func empty(ctx context.Context, q querier) (bool, error) {
	var app, user, tables int
	err := q.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`).Scan(&app, &user, &tables)
	switch {
	case err != nil:
		return false, err
	case app == 0 && user == 0 && tables == 0:
		return true, nil
	case app != applicationID:
		return false, errNotOurs
	case user != Version:
		return false, &VersionError{Have: user, Want: Version}
	}
	return false, nil
}

// makeTables makes the tables of an empty database in one transaction, also where other
// processes do the same at the same time.
func makeTables(ctx context.Context, c *sql.Conn) (err error) {
	if none, err := empty(ctx, c); err != nil || !none {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx = context.WithoutCancel(ctx) // a cancelled BEGIN may have begun
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = c.ExecContext(ctx, "ROLLBACK")
		}
	}()
	none, err := empty(ctx, c)
	if err != nil {
		return err
	}
	if none { // else another process was faster
		text := fmt.Sprintf("%s; PRAGMA application_id=%d; PRAGMA user_version=%d", schema, applicationID, Version)
		if _, err := c.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	_, err = c.ExecContext(ctx, "COMMIT")
	return err
}
