package guide

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
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
func (d *Decoder) ReadDB(ctx context.Context, db *sql.DB) iter.Seq2[event.Event, error] {
	return d.Shell.Read(func() error {
		d.Seq = d.Shell.Counts.Lines
		err := d.sessions(ctx, db)
		d.endSession()
		if err != nil {
			return fmt.Errorf("read database: %w", err)
		}
		return nil
	})
}

// sessions reads all sessions.
func (d *Decoder) sessions(ctx context.Context, from *sql.DB) error {
	db, err := input.NewDatabase(ctx, from, "chat_sessions", "chat_messages", "chat_parts", "system_prompts")
	if err != nil {
		return err
	}
	_, err = db.IDs("SELECT digest FROM system_prompts LIMIT 0 * ?")
	prompts := err == nil
	err = nil
	ids := func(from string, args ...any) (ids []any) {
		if err == nil {
			ids, err = db.IDs(input.Sorted("id, created_at", from, "created_at, id"), args...)
		}
		return ids
	}
	each := func(from, order string, id any, read func(row []byte)) {
		if err == nil && !d.Stopped() {
			err = db.Each(input.Sorted("*", from, order), read, id)
		}
	}
	for _, id := range ids("chat_sessions") {
		if d.endSession(); err == nil {
			err = db.Measure()
		}
		each("chat_sessions WHERE id = ?", "id", id, func(row []byte) {
			d.nextRow("session")
			d.sessionRow(row, nil, time.Time{})
		})
		if err != nil || d.session == nil {
			continue
		}
		for i, id := range ids("chat_messages WHERE session_id = ?", id) {
			path, n, before := object.Element("messages", i), 0, d.message
			each("chat_messages WHERE id = ?", "id", id, func(row []byte) {
				d.nextRow(path + ".message")
				d.messageRow(row, nil, time.Time{})
			})
			if d.message == nil || d.message == before {
				continue
			}
			each("chat_parts WHERE message_id = ?", `"index", id`, id, func(row []byte) { // index is a keyword of SQL
				d.nextRow(object.Element(path+".parts", n))
				n++
				d.partRow(row, nil, time.Time{})
			})
		}
		d.endMessage()
		for _, digest := range d.session.digests {
			if prompts {
				each("system_prompts WHERE digest = ?", "digest", digest, func(row []byte) {
					d.nextRow("system_prompts")
					d.furtherLine("system_prompt", row)
				})
			}
		}
	}
	return err
}
