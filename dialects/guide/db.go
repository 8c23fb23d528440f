package guide

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// ReadDB reads the sessions of a live database with the guide's three tables, by created_at and id, as Events reads
// them from a file. It only selects; columns that the guide does not have are read and kept too. Each query is its
// own: nothing is locked between two of them, and the session's own program may write meanwhile. One connection is
// enough. Rows that it wrote after a message was read come with the next reading, which gives the same events again
// and those that are new. The ids of all sessions, and of the messages of one session, are held in memory.
//
// In errors the place is the row: messages[N] of the session that was read last. Any error of the database is the
// last one, wrapped. The iterator may be used once. Bodies of system prompts come from a table system_prompts
// (digest, body), where there is one.
func ReadDB(ctx context.Context, db *sql.DB, opts ...input.Option) iter.Seq2[event.Event, error] {
	return NewDecoder(opts...).ReadDB(ctx, db)
}

// ReadDB is the function ReadDB for a decoder that has read other inputs.
func (d *Decoder) ReadDB(ctx context.Context, db *sql.DB) iter.Seq2[event.Event, error] {
	return d.r.Read(func() error {
		d.r.Seq = d.r.Stats.Lines
		err := d.r.sessions(&database{ctx: ctx, db: db})
		d.r.endSession()
		if err != nil {
			return fmt.Errorf("read database: %w", err)
		}
		return nil
	})
}

// database bounds what is read of a file that another program made. The driver interrupts a query only until its first
// row is there, so all queries are sorted: their work is done then.
type database struct {
	ctx  context.Context
	db   *sql.DB
	size int64 // of the file, in bytes
	read int64 // how many bytes were read
}

const (
	// queryTime bounds the work of one query.
	queryTime = time.Minute
	// readFactor is how many bytes are read for each of the file. Pages that stand in a tree many times, and long
	// defaults of short rows, give more.
	readFactor = 8
	// readSlack is for a small file that grows while a session is read.
	readSlack = 1 << 20
	// rowBytes is less than any row takes in the file.
	rowBytes = 16
)

// measure notes the size of the file, which may grow.
func (db *database) measure() error {
	return db.db.QueryRowContext(db.ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").
		Scan(&db.size)
}

// left returns how many bytes may still be read.
func (db *database) left() int64 { return readFactor*db.size + readSlack - db.read }

// sessions reads all sessions. It reads tables only: a view may compute for ever, and so may a column that is computed.
func (d *reader) sessions(db *database) error {
	if err := db.measure(); err != nil {
		return err
	}
	others, err := db.ids(`SELECT l.name FROM pragma_table_list l WHERE schema = 'main' AND
		lower(l.name) IN ('chat_sessions', 'chat_messages', 'chat_parts', 'system_prompts') AND
		(type <> 'table' OR EXISTS (SELECT 1 FROM pragma_table_xinfo(l.name) WHERE hidden <> 0)) LIMIT ?`)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("%v is a view, or has computed columns: want a plain table", others[0])
	}
	if err != nil {
		return err
	}
	_, err = db.ids("SELECT digest FROM system_prompts LIMIT 0 * ?")
	prompts := err == nil
	ids, err := db.ids(sorted("id, created_at", "chat_sessions", "created_at, id"))
	for i := 0; i < len(ids) && err == nil && !d.Stopped(); i++ {
		err = d.readSession(db, ids[i], prompts)
	}
	return err
}

func (d *reader) readSession(db *database, id any, prompts bool) error {
	read := false
	err := db.measure()
	if err != nil {
		return err
	}
	err = db.each(sorted("*", "chat_sessions WHERE id = ?", "id"), id, func(row []byte) {
		d.nextRow("session")
		d.sessionRow(row, nil, time.Time{})
		read = d.session != nil
	})
	if err != nil || !read {
		return err
	}
	messages, err := db.ids(sorted("id, created_at", "chat_messages WHERE session_id = ?", "created_at, id"), id)
	for i := 0; i < len(messages) && err == nil && !d.Stopped(); i++ {
		err = d.readMessage(db, messages[i], "messages["+strconv.Itoa(i)+"]")
	}
	d.endMessage()
	if err != nil || !prompts {
		return err
	}
	for _, digest := range d.session.digests {
		err = errors.Join(err, db.each(sorted("*", "system_prompts WHERE digest = ?", "digest"), digest, func(row []byte) {
			d.nextRow("system_prompts")
			d.furtherLine("system_prompt", row)
		}))
	}
	return err
}

func (d *reader) readMessage(db *database, id any, path string) error {
	before := d.message
	err := db.each(sorted("*", "chat_messages WHERE id = ?", "id"), id, func(row []byte) {
		d.nextRow(path + ".message")
		d.messageRow(row, nil, time.Time{})
	})
	if err != nil || d.message == nil || d.message == before {
		return err
	}
	n := 0
	// index is a keyword of SQL
	return db.each(sorted("*", "chat_parts WHERE message_id = ?", `"index", id`), id, func(row []byte) {
		d.nextRow(path + ".parts[" + strconv.Itoa(n) + "]")
		n++
		d.partRow(row, nil, time.Time{})
	})
}

// sorted returns a query whose last parameter is its LIMIT. Because its rows are materialized, SQLite reads no more
// rows than the LIMIT, and reads all of them before it returns the first.
func sorted(columns, from, order string) string {
	return "WITH r AS MATERIALIZED (SELECT " + columns + " FROM " + from + " LIMIT ?) SELECT * FROM r ORDER BY " + order
}

// ids returns the values of the first column of a query.
func (db *database) ids(query string, args ...any) (ids []any, err error) {
	err = db.scan(query, args, func(_ []string, values []any) { ids = append(ids, values[0]) })
	return ids, err
}

// each calls fn with each row as a JSON object, its columns in their order.
func (db *database) each(query string, arg any, fn func(row []byte)) error {
	return db.scan(query, []any{arg}, func(names []string, values []any) {
		row := make([]any, 0, 2*len(names))
		for i, name := range names {
			row = append(row, name, jsonOf(values[i]))
		}
		fn(input.Members(row...))
	})
}

// scan calls fn with the columns of each row. The last parameter of query is its LIMIT.
func (db *database) scan(query string, args []any, fn func(names []string, values []any)) (err error) {
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
		into[i] = &values[i]
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

var errSlow = fmt.Errorf("a query took more than %v: the file is damaged, or lacks the guide's indexes", queryTime)

// jsonOf returns the value of a column as JSON: numbers as JavaScript spells them, bytes that are no text as base64.
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
