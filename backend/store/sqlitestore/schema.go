package sqlitestore

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/otelagent/otelagent/backend/store"
)

// applicationID is in the header of every otelagent database ("otag"), so that no other one is written to by mistake.
const applicationID = 0x6f746167

// Version is the schema version that this code reads and writes: PRAGMA user_version of the file.
const Version = 16

//go:embed schema.sql
var schema string

// querier is a *sql.Conn or a *sql.DB.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// empty reports whether the database has no tables. It refuses databases of other programs and those of another
// version.
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
		return false, &store.VersionError{Have: user, Want: Version}
	}
	return false, checkSchema(ctx, q)
}

// checkSchema refuses a database in which something that our statements reach differs from schema.sql: SQLite would run
// the views, triggers and expressions that another program put there. Tables and views of other names may be there.
func checkSchema(ctx context.Context, q querier) error {
	want, err := ownSchema()
	if err != nil {
		return err
	}
	have, err := objects(ctx, q)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if have[name] != want[name] {
			return fmt.Errorf("%s %q is missing or changed: %w", want[name].kind, name, errSchema)
		}
	}
	for name, o := range have {
		_, known := want[name]
		if _, ours := want[o.table]; ours && !known && !strings.HasPrefix(name, "sqlite_stat") {
			return fmt.Errorf("%s %q of table %q: %w", o.kind, name, o.table, errSchema)
		}
	}
	return nil
}

// object is a row of sqlite_schema. sql has no comments.
type object struct{ kind, table, sql string }

// objects returns what a database has, by name in lower case, as SQLite compares names.
func objects(ctx context.Context, q querier) (map[string]object, error) {
	const query = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema LIMIT ?"
	rows, err := q.QueryContext(ctx, query, maxObjects+1)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]object{}
	for n := 0; rows.Next(); n++ {
		var o object
		var name string
		if err := rows.Scan(&o.kind, &name, &o.table, &o.sql); err != nil {
			return nil, err
		}
		name = strings.ToLower(name)
		if _, twice := all[name]; twice || n == maxObjects {
			return nil, fmt.Errorf("%d objects, %q among them: %w", n+1, name, errSchema)
		}
		o.table, o.sql = strings.ToLower(o.table), withoutComments(o.sql)
		all[name] = o
	}
	return all, rows.Err()
}

// maxObjects is how many tables, indexes, triggers and views a database may have, those of its user included.
const maxObjects = 1000

// ownSchema returns what schema.sql makes.
var ownSchema = sync.OnceValues(func() (map[string]object, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(schema); err != nil {
		return nil, err
	}
	return objects(context.Background(), db)
})

// withoutComments makes one space of each run of spaces and comments, so that a comment in schema.sql may change
// without a new Version. It knows only the quotes and comments that schema.sql has: text with others stays different.
func withoutComments(sql string) string {
	return tokens.ReplaceAllStringFunc(sql, func(s string) string {
		if s[0] == '\'' || s[0] == '"' {
			return s
		}
		return " "
	})
}

var tokens = regexp.MustCompile(`'[^']*'|"[^"]*"|(?:--[^\n]*|\s)+`)

// makeTables makes the tables of an empty database in one transaction, also where other processes do the same at the
// same time.
func (s *Store) makeTables(ctx context.Context) error {
	if none, err := empty(ctx, s.conn); err != nil || !none {
		return err
	}
	return s.transact(ctx, func(ctx context.Context) error {
		if none, err := empty(ctx, s.conn); err != nil || !none {
			return err // another process was faster
		}
		return run(ctx, s.conn, fmt.Sprintf("%s; PRAGMA application_id=%d; PRAGMA user_version=%d", schema, applicationID,
			Version))
	})
}
