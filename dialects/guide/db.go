package guide

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
)

// batch is how many sessions or messages are read at once. Parts are read message by message.
const batch = 32

// ReadDB reads the sessions of a live database with the guide's three tables, by created_at and id, as Events reads them from a file. It
// only selects; columns that the guide does not have are read and kept too. Each query is its own: nothing is locked
// between two of them, and the session's own program may write meanwhile. One connection is enough. What it
// wrote after a message was read comes with the next reading, which gives the same events again and those that are new.
//
// In errors the place is the row: messages[N] of the session that was read last. Any error of the database is the last one,
// wrapped. The iterator may be used once. Bodies of system prompts come from a table system_prompts (digest, body), where there is one.
func ReadDB(ctx context.Context, db *sql.DB, opts ...input.Option) iter.Seq2[otelagent.Event, error] {
	return NewDecoder(opts...).ReadDB(ctx, db)
}

// ReadDB is the function ReadDB for a decoder that has read other inputs.
func (d *Decoder) ReadDB(ctx context.Context, db *sql.DB) iter.Seq2[otelagent.Event, error] {
	return func(yield func(otelagent.Event, error) bool) {
		d.begin(yield)
		err := d.readSessions(ctx, db)
		d.endSession()
		if err != nil && !d.stopped {
			yield(nil, fmt.Errorf("guide: read database: %w", err))
		}
	}
}

// cursor is the place in a table that is read by created_at and id.
type cursor struct {
	begun   bool
	created any
	id      string
}

// page adds to a query what is behind the cursor.
func (c *cursor) page(query string, args ...any) (string, []any) {
	if c.begun {
		query += " AND (created_at > ? OR created_at = ? AND id > ?)"
		args = append(args, c.created, c.created, c.id)
	}
	return query + " ORDER BY created_at, id LIMIT " + strconv.Itoa(batch), args
}

func (d *Decoder) readSessions(ctx context.Context, db *sql.DB) error {
	prompts := false
	if _, err := selectRows(ctx, db, "SELECT digest FROM system_prompts LIMIT 0"); err == nil {
		prompts = true
	} else if ctx.Err() != nil {
		return err
	}
	var at cursor
	for !d.stopped {
		query, args := at.page("SELECT * FROM chat_sessions WHERE 1 = 1")
		rows, err := selectRows(ctx, db, query, args...)
		if err != nil {
			return err
		}
		for i := range rows {
			at.move(&rows[i])
			d.at = place{seq: d.stats.Lines}
			d.nextRow("session")
			d.sessionRow(rows[i].json, nil, time.Time{})
			if d.session == nil {
				continue
			}
			if err := d.readMessages(ctx, db, rows[i].id); err != nil {
				return err
			}
			d.endMessage()
			if prompts {
				if err := d.readPrompts(ctx, db); err != nil {
					return err
				}
			}
			if d.stopped {
				return nil
			}
		}
		if len(rows) < batch {
			return nil
		}
	}
	return nil
}

func (d *Decoder) readMessages(ctx context.Context, db *sql.DB, session string) error {
	var at cursor
	for n := 0; !d.stopped; {
		query, args := at.page("SELECT * FROM chat_messages WHERE session_id = ?", session)
		rows, err := selectRows(ctx, db, query, args...)
		if err != nil {
			return err
		}
		for i := range rows {
			at.move(&rows[i])
			path := "messages[" + strconv.Itoa(n) + "]"
			n++
			d.nextRow(path + ".message")
			before := d.message
			d.messageRow(rows[i].json, nil, time.Time{})
			if d.message == nil || d.message == before {
				continue
			}
			if err := d.readParts(ctx, db, rows[i].id, path); err != nil {
				return err
			}
			if d.stopped {
				return nil
			}
		}
		if len(rows) < batch {
			return nil
		}
	}
	return nil
}

// readParts reads the parts of a message, row by row.
func (d *Decoder) readParts(ctx context.Context, db *sql.DB, message, path string) error {
	n := 0
	// index is a word of SQL.
	return eachRow(ctx, db, func(r *dbRow) bool {
		d.nextRow(path + ".parts[" + strconv.Itoa(n) + "]")
		n++
		d.partRow(r.json, nil, time.Time{})
		return !d.stopped
	}, `SELECT * FROM chat_parts WHERE message_id = ? ORDER BY "index", id`, message)
}

// readPrompts reads the bodies of the system prompts that the session names.
func (d *Decoder) readPrompts(ctx context.Context, db *sql.DB) error {
	for _, digest := range d.session.digests {
		rows, err := selectRows(ctx, db, "SELECT * FROM system_prompts WHERE digest = ?", digest)
		if err != nil {
			return err
		}
		for i := range rows {
			d.nextRow("system_prompts")
			d.furtherLine("system_prompt", rows[i].json)
		}
	}
	return nil
}

// dbRow is a row as a JSON object, its columns in their order, and what a cursor needs of it.
type dbRow struct {
	json    []byte
	id      string
	created any
}

func (c *cursor) move(r *dbRow) { c.begun, c.created, c.id = true, r.created, r.id }

func selectRows(ctx context.Context, db *sql.DB, query string, args ...any) (list []dbRow, err error) {
	err = eachRow(ctx, db, func(r *dbRow) bool { list = append(list, *r); return true }, query, args...)
	return list, err
}

// eachRow calls fn with each row until it returns false.
func eachRow(ctx context.Context, db *sql.DB, fn func(*dbRow) bool, query string, args ...any) (err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]any, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		var r dbRow
		r.json = append(r.json, '{')
		for i, name := range names {
			if i > 0 {
				r.json = append(r.json, ',')
			}
			r.json = append(rawjson.Quote(r.json, name), ':')
			r.json = appendValue(r.json, values[i])
			switch name {
			case "id":
				r.id, _ = values[i].(string)
			case "created_at":
				r.created = values[i]
			}
		}
		r.json = append(r.json, '}')
		if !fn(&r) {
			return nil
		}
	}
	return rows.Err()
}

// appendValue appends a value of a column as JSON. What is no text becomes base64.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64: // as JavaScript spells it
		text, err := json.Marshal(v)
		if err != nil { // not finite
			return append(b, "null"...)
		}
		return append(b, text...)
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		return rawjson.Quote(b, v)
	case []byte:
		if utf8.Valid(v) {
			return rawjson.Quote(b, string(v))
		}
		return rawjson.Quote(b, base64.StdEncoding.EncodeToString(v))
	case time.Time:
		return rawjson.Quote(b, v.UTC().Format(time.RFC3339Nano))
	default:
		return rawjson.Quote(b, fmt.Sprint(v))
	}
}
