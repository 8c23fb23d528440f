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
		err := d.r.sessions(database{ctx, db})
		d.r.endSession()
		if err != nil {
			return fmt.Errorf("read database: %w", err)
		}
		return nil
	})
}

type database struct {
	ctx context.Context
	db  *sql.DB
}

// sessions reads all sessions. It reads tables only, whose rows the size of the file bounds: a view may compute for ever.
func (d *reader) sessions(db database) error {
	others, err := db.ids(`SELECT name FROM pragma_table_list WHERE schema = 'main' AND type <> 'table' AND
		lower(name) IN ('chat_sessions', 'chat_messages', 'chat_parts', 'system_prompts')`)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("%v is a view, want a table", others[0])
	}
	if err != nil {
		return err
	}
	_, err = db.ids("SELECT digest FROM system_prompts LIMIT 0")
	prompts := err == nil
	ids, err := db.ids("SELECT id FROM chat_sessions ORDER BY created_at, id")
	for i := 0; i < len(ids) && err == nil && !d.Stopped(); i++ {
		err = d.readSession(db, ids[i], prompts)
	}
	return err
}

func (d *reader) readSession(db database, id any, prompts bool) error {
	read := false
	err := db.each("SELECT * FROM chat_sessions WHERE id = ?", id, func(row []byte) {
		d.nextRow("session")
		d.sessionRow(row, nil, time.Time{})
		read = d.session != nil
	})
	if err != nil || !read {
		return err
	}
	messages, err := db.ids("SELECT id FROM chat_messages WHERE session_id = ? ORDER BY created_at, id", id)
	for i := 0; i < len(messages) && err == nil && !d.Stopped(); i++ {
		err = d.readMessage(db, messages[i], "messages["+strconv.Itoa(i)+"]")
	}
	d.endMessage()
	if err != nil || !prompts {
		return err
	}
	for _, digest := range d.session.digests {
		err = errors.Join(err, db.each("SELECT * FROM system_prompts WHERE digest = ?", digest, func(row []byte) {
			d.nextRow("system_prompts")
			d.furtherLine("system_prompt", row)
		}))
	}
	return err
}

func (d *reader) readMessage(db database, id any, path string) error {
	before := d.message
	err := db.each("SELECT * FROM chat_messages WHERE id = ?", id, func(row []byte) {
		d.nextRow(path + ".message")
		d.messageRow(row, nil, time.Time{})
	})
	if err != nil || d.message == nil || d.message == before {
		return err
	}
	n := 0
	// index is a keyword of SQL
	return db.each(`SELECT * FROM chat_parts WHERE message_id = ? ORDER BY "index", id`, id, func(row []byte) {
		d.nextRow(path + ".parts[" + strconv.Itoa(n) + "]")
		n++
		d.partRow(row, nil, time.Time{})
	})
}

// ids returns the values of the only column of a query.
func (db database) ids(query string, args ...any) (ids []any, err error) {
	err = db.scan(query, args, func(_ []string, values []any) { ids = append(ids, values[0]) })
	return ids, err
}

// each calls fn with each row as a JSON object, its columns in their order.
func (db database) each(query string, arg any, fn func(row []byte)) error {
	return db.scan(query, []any{arg}, func(names []string, values []any) {
		row := []byte("{}")
		for i, name := range names {
			row = appendMembers(row, member{name, jsonOf(values[i])})
		}
		fn(row)
	})
}

// scan calls fn with the columns of each row.
func (db database) scan(query string, args []any, fn func(names []string, values []any)) (err error) {
	rows, err := db.db.QueryContext(db.ctx, query, args...)
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
		if err := rows.Scan(into...); err != nil {
			return err
		}
		fn(names, values)
	}
	return rows.Err()
}

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
