package guide

import (
	"context"
	"database/sql"
	"errors"
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
func ReadDB(ctx context.Context, db *sql.DB, opts ...input.Option) iter.Seq2[event.Event, error] {
	return NewDecoder(opts...).ReadDB(ctx, db)
}

// ReadDB is the function ReadDB for a decoder that has read other inputs.
func (d *Decoder) ReadDB(ctx context.Context, db *sql.DB) iter.Seq2[event.Event, error] {
	return d.Shell.Read(func() error {
		d.Seq = d.Shell.Stats.Lines
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
	ids, err := db.IDs(input.Sorted("id, created_at", "chat_sessions", "created_at, id"))
	for i := 0; i < len(ids) && err == nil && !d.Stopped(); i++ {
		err = d.readSession(db, ids[i], prompts)
	}
	return err
}

func (d *Decoder) readSession(db *input.Database, id any, prompts bool) error {
	read := false
	err := db.Measure()
	if err != nil {
		return err
	}
	err = db.Each(input.Sorted("*", "chat_sessions WHERE id = ?", "id"), func(row []byte) {
		d.nextRow("session")
		d.sessionRow(row, nil, time.Time{})
		read = d.session != nil
	}, id)
	if err != nil || !read {
		return err
	}
	messages, err := db.IDs(input.Sorted("id, created_at", "chat_messages WHERE session_id = ?", "created_at, id"), id)
	for i := 0; i < len(messages) && err == nil && !d.Stopped(); i++ {
		err = d.readMessage(db, messages[i], object.Element("messages", i))
	}
	d.endMessage()
	if err != nil || !prompts {
		return err
	}
	for _, digest := range d.session.digests {
		err = errors.Join(err, db.Each(input.Sorted("*", "system_prompts WHERE digest = ?", "digest"), func(row []byte) {
			d.nextRow("system_prompts")
			d.furtherLine("system_prompt", row)
		}, digest))
	}
	return err
}

func (d *Decoder) readMessage(db *input.Database, id any, path string) error {
	before := d.message
	err := db.Each(input.Sorted("*", "chat_messages WHERE id = ?", "id"), func(row []byte) {
		d.nextRow(path + ".message")
		d.messageRow(row, nil, time.Time{})
	}, id)
	if err != nil || d.message == nil || d.message == before {
		return err
	}
	n := 0
	// index is a keyword of SQL
	return db.Each(input.Sorted("*", "chat_parts WHERE message_id = ?", `"index", id`), func(row []byte) {
		d.nextRow(object.Element(path+".parts", n))
		n++
		d.partRow(row, nil, time.Time{})
	}, id)
}
