package input

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// Database reads an SQLite file that another program made, perhaps to do harm, and perhaps writes now. It only selects,
// and each query is its own: nothing is locked between two of them. It bounds the time of a query and the bytes of all
// rows by the size of the file. The driver interrupts a query only until its first row is there, so queries have to be
// sorted (see Sorted): their work is done then.
type Database struct {
	ctx  context.Context
	db   *sql.DB
	size int64 // of the file, in bytes
	read int64 // how many bytes were read
}

const (
	// queryTime bounds the work of one query.
	queryTime = time.Minute
	// readFactor is how many bytes are read for each of the file. Pages that a tree links many times, and long
	// defaults of short rows, give more.
	readFactor = 8
	// readSlack is for a small file that grows while a session is read.
	readSlack = 1 << 20
	// rowBytes is less than any row takes in the file.
	rowBytes = 16
)

// IsSQLite reports whether an input that begins with head is an SQLite file, as section 1.3.1 of
// https://sqlite.org/fileformat.html has it.
func IsSQLite(head []byte) bool { return bytes.HasPrefix(head, []byte("SQLite format 3\x00")) }

// OpenSQLite opens an SQLite file of another program to read it, its write-ahead log included. Its schema may not call
// functions that act. The program has to have a driver of the name sqlite that is modernc.org/sqlite.
func OpenSQLite(path string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(),
		RawQuery: "mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(1)&_pragma=trusted_schema(0)&" +
			"_pragma=cell_size_check(1)"}
	return sql.Open("sqlite", u.String())
}

// NewDatabase returns a Database of db, of which one connection is enough. It fails where one of the tables that are
// there is no plain table: a view may compute for ever, and so may a column that is computed.
func NewDatabase(ctx context.Context, db *sql.DB, tables ...string) (*Database, error) {
	d := &Database{ctx: ctx, db: db}
	if err := d.Measure(); err != nil {
		return nil, err
	}
	others, err := d.IDs(`SELECT l.name FROM pragma_table_list l WHERE schema = 'main' AND
		lower(l.name) IN ('` + strings.Join(tables, "', '") + `') AND
		(type <> 'table' OR EXISTS (SELECT 1 FROM pragma_table_xinfo(l.name) WHERE hidden <> 0)) LIMIT ?`)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("%v is a view, or has computed columns: want a plain table", others[0])
	}
	return d, err
}

// Measure notes the size of the file, which may grow.
func (db *Database) Measure() error {
	return db.db.QueryRowContext(db.ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").
		Scan(&db.size)
}

// left returns how many bytes may still be read.
func (db *Database) left() int64 { return readFactor*db.size + readSlack - db.read }

// Sorted returns a query whose last parameter is its LIMIT. Because its rows are materialized, SQLite reads no more
// rows than the LIMIT, and reads all of them before it returns the first.
func Sorted(columns, from, order string) string {
	return "WITH r AS MATERIALIZED (SELECT " + columns + " FROM " + from + " LIMIT ?) SELECT * FROM r ORDER BY " + order
}

// IDs returns the values of the first column of a query, whose last parameter is its LIMIT and not among args.
func (db *Database) IDs(query string, args ...any) (ids []any, err error) {
	err = db.Scan(query, func(_ []string, values []any) { ids = append(ids, values[0]) }, args...)
	return ids, err
}

// Each calls fn with each row of a query as a JSON object, its columns in their order. Numbers are spelled as in
// JavaScript, bytes that are no text as base64. The last parameter of query is its LIMIT and not among args.
func (db *Database) Each(query string, fn func(row []byte), args ...any) error {
	return db.Scan(query, func(names []string, values []any) {
		row := make([]any, 0, 2*len(names))
		for i, name := range names {
			row = append(row, name, jsonOf(values[i]))
		}
		fn(Members(row...))
	}, args...)
}

// Scan calls fn with the names and values of the columns of each row. The last parameter of query is its LIMIT and not
// among args.
func (db *Database) Scan(query string, fn func(names []string, values []any), args ...any) (err error) {
	ctx, cancel := context.WithCancelCause(db.ctx)
	defer cancel(nil)
	timer := time.AfterFunc(queryTime, func() { cancel(errSlow) })
	defer timer.Stop()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx) // the driver says "interrupted"
		}
	}()
	rows, err := db.db.QueryContext(ctx, query, append(args, db.left()/rowBytes+1)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = column{&values[i]}
	}
	for rows.Next() {
		timer.Stop() // fn takes the time that it needs
		if err := rows.Scan(into...); err != nil {
			return err
		}
		db.read += rowBytes
		for _, v := range values {
			switch v := v.(type) {
			case string:
				db.read += int64(len(v))
			case []byte:
				db.read += int64(len(v))
			}
		}
		if db.left() < 0 {
			return fmt.Errorf("more rows than a file of %d bytes can hold: it is damaged", db.size)
		}
		fn(names, values)
	}
	return rows.Err()
}

// column takes a value as it is. Package sql would copy bytes, which the driver makes anew for each row.
type column struct{ value *any }

func (c column) Scan(value any) error {
	*c.value = value
	return nil
}

var errSlow = fmt.Errorf("a query took more than %v: the file is damaged, or lacks indexes", queryTime)

// jsonOf returns the value of a column as JSON.
func jsonOf(v any) []byte {
	switch text := v.(type) {
	case string:
		return rawjson.Quote(nil, text)
	case []byte:
		if utf8.Valid(text) {
			return rawjson.Quote(nil, string(text))
		}
	}
	value, err := json.Marshal(v)
	if err != nil { // a number that is not finite
		return []byte("null")
	}
	return value
}
