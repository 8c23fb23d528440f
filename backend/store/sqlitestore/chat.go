package sqlitestore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/backend/store"
)

// The tables of the agent guide: schema.sql says what they are.

// WithChatTables makes projections fill the tables of the agent guide as well: chat_sessions, chat_messages, chat_parts
// and system_prompts, with plain content. Sessions whose rows there are missing or behind become dirty when the store
// is opened, so that the next projection fills them. Without it nothing is written there, and what is there stays as it
// is until its session is deleted.
func WithChatTables() Option { return func(s *Store) { s.chatTables = true } }

// ChatTables reports whether the store was opened with WithChatTables.
func (s *Store) ChatTables() bool { return s.chatTables }

// chatRoom is how many bytes of rows one transaction writes. Other writers wait for it.
const chatRoom = 512 << 10

// ProjectChat replaces what the tables hold of a session by rows. It writes in transactions of 512 KiB: rows are read
// between them, and rows that are there already cost no write. The last one deletes what rows did not name. Two
// programs may do so at once: the one with the later mark goes on, the other stops. Sessions of a tenant are left out:
// the tables have no column for it. Fails with store.ErrNotFound when the session is not there, and with what rows fail
// with; the next ProjectChat then finishes.
func (s *Store) ProjectChat(ctx context.Context, k session.Key, mark store.Revision,
	rows iter.Seq2[export.Row, error]) error {
	if k.Tenant != "" {
		return nil
	}
	w := chatWriter{s: s, id: k.ID, mark: int64(mark), seen: map[string][]string{}, renamed: map[string]string{}}
	err := w.all(ctx, rows)
	if err != nil && !errors.Is(err, errLater) {
		return fmt.Errorf("sqlitestore: project chat tables: %w", atRest(err))
	}
	return nil
}

var errLater = errors.New("a later state is in the tables")

// chatWriter is one ProjectChat.
type chatWriter struct {
	s       *Store
	id      string
	mark    int64
	session int64
	batch   []chatRow
	size    int
	message string              // at hand
	renamed map[string]string   // messages whose id another session has
	seen    map[string][]string // keys of rows, by table
}

// chatRow is a row of a table, the key first.
type chatRow struct {
	table   string
	columns []string
	values  []any
}

func (w *chatWriter) all(ctx context.Context, rows iter.Seq2[export.Row, error]) error {
	for r, err := range rows {
		if err != nil {
			return err
		}
		if w.add(&r); w.size < chatRoom {
			continue
		}
		if err := w.flush(ctx, false); err != nil {
			return err
		}
	}
	return w.flush(ctx, true)
}

// add adds a row to the batch. The tables have no place for some types.
func (w *chatWriter) add(r *export.Row) {
	switch r.Type {
	case export.RowSession:
		r.Session.ID = w.id
		w.row("chat_sessions", len(r.Session.MetadataJSON)+len(r.Session.PermissionsJSON), r.Session)
	case export.RowMessage:
		w.message, r.Message.SessionID = r.Message.ID, w.id
		w.row("chat_messages", len(r.Message.MetadataJSON), r.Message)
	case export.RowPart:
		r.Part.MessageID, r.Part.SessionID = w.message, w.id
		w.row("chat_parts", len(r.Part.DataJSON), r.Part)
	case export.RowSystemPrompt:
		w.row("system_prompts", len(r.Body), &struct {
			Digest string `json:"digest"`
			Body   string `json:"body"`
		}{r.Digest, r.Body})
	}
}

// row adds a row whose columns are the fields of a struct, by their names in JSON.
func (w *chatWriter) row(table string, size int, record any) {
	r, v := chatRow{table: table}, reflect.ValueOf(record).Elem()
	for i := range v.NumField() {
		r.columns = append(r.columns, `"`+v.Type().Field(i).Tag.Get("json")+`"`)
		r.values = append(r.values, v.Field(i).Interface())
	}
	w.batch, w.size = append(w.batch, r), w.size+200+size
}

// flush writes the batch in one transaction.
func (w *chatWriter) flush(ctx context.Context, last bool) error {
	err := w.s.transact(ctx, func(ctx context.Context) error { return w.write(ctx, last) })
	w.batch, w.size = nil, 0
	return err
}

func (w *chatWriter) write(ctx context.Context, last bool) error {
	var id, mark int64
	err := w.s.scan(ctx, `SELECT s.session, ifnull(c.mark, 0) FROM sessions s
		LEFT JOIN chat_projected c ON c.session = s.session WHERE tenant = '' AND id = ?`, []any{w.id}, &id, &mark)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && w.session != 0 && id != w.session:
		return store.ErrNotFound // or deleted and begun again
	case err != nil:
		return err
	case mark > w.mark:
		return errLater
	}
	w.session = id
	_, err = w.s.exec(ctx, `INSERT OR REPLACE INTO chat_projected (session, mark) VALUES (?, ?)`, id, w.mark)
	for i := 0; err == nil && i < len(w.batch); i++ {
		err = w.put(ctx, &w.batch[i])
	}
	if err == nil && last {
		err = w.sweep(ctx)
	}
	return err
}

// put writes a row. The id of a message or part that another session has already gets an end that names the session.
func (w *chatWriter) put(ctx context.Context, r *chatRow) error {
	key := r.values[0].(string)
	switch r.table {
	case "system_prompts":
		w.seen["chat_prompts"] = append(w.seen["chat_prompts"], key)
		if _, err := w.s.exec(ctx, `INSERT INTO chat_prompts (session, digest) VALUES (?, ?) ON CONFLICT DO NOTHING`,
			w.session, key); err != nil {
			return err
		}
	case "chat_messages", "chat_parts":
		if name, ok := w.renamed[fmt.Sprint(r.values[1])]; ok && r.table == "chat_parts" {
			r.values[1] = name
		}
		var owner string
		err := w.s.scan(ctx, `SELECT session_id FROM `+r.table+` WHERE id = ?`, []any{key}, &owner)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err == nil && owner != w.id {
			sum := sha256.Sum256([]byte(w.id))
			name := key + "~" + hex.EncodeToString(sum[:4])
			if r.table == "chat_messages" {
				w.renamed[key] = name
			}
			r.values[0], key = name, name
		}
	}
	w.seen[r.table] = append(w.seen[r.table], key)
	var set, other []string
	for _, name := range r.columns[1:] {
		set, other = append(set, name+" = excluded."+name), append(other, "excluded."+name)
	}
	// A row that is there already and the same costs no write.
	_, err := w.s.exec(ctx, "INSERT INTO "+r.table+" ("+strings.Join(r.columns, ", ")+") VALUES (?"+
		strings.Repeat(",?", len(set))+") ON CONFLICT DO UPDATE SET "+strings.Join(set, ", ")+
		" WHERE ("+strings.Join(r.columns[1:], ",")+") IS NOT ("+strings.Join(other, ", ")+")", r.values...)
	return err
}

// CallMessage returns the id of the message row that holds a tool call of a session, "" where there is none.
func (s *Store) CallMessage(ctx context.Context, sessionID, callID string) (id string, err error) {
	const find = `SELECT ifnull(min(message_id), '') FROM chat_parts WHERE tool_call_id = ? AND session_id = ?`
	for id, err = range each(ctx, s, "find the message of a call", find, []any{callID, sessionID}, scanOne[string]) {
	}
	return id, err
}

// chatOrphans marks sessions as dirty that a session spawned and whose rows do not name its message yet. Those of a
// fork never do.
const chatOrphans = `UPDATE sessions SET projected = mark - 1 WHERE tenant = '' AND mark <= projected
	AND id IN (SELECT id FROM chat_sessions WHERE parent_id = ?1 AND parent_message_id IS NULL)
	AND session IN (SELECT session FROM summaries WHERE parent = ?1 AND parent <> '')`

// sweep deletes the rows of the session that were not named: parts before the messages that they are of. A trigger
// deletes prompts.
func (w *chatWriter) sweep(ctx context.Context) error {
	for _, t := range chatTables[1:] {
		key := "id"
		if t[0] == "chat_prompts" {
			key = "digest"
		}
		named, err := json.Marshal(append([]string{}, w.seen[t[0]]...))
		if err != nil {
			return err
		}
		if err := run(ctx, w.s.conn, `DELETE FROM `+t[0]+` WHERE `+t[1]+` AND `+key+
			` NOT IN (SELECT value FROM json_each(?3))`, w.session, w.id, string(named)); err != nil {
			return err
		}
	}
	return run(ctx, w.s.conn, chatOrphans, w.id)
}

// chatBehind marks sessions as dirty whose rows in the tables are missing or behind.
const chatBehind = `UPDATE sessions SET projected = mark - 1 WHERE tenant = '' AND mark <= projected
	AND projected > ifnull((SELECT c.mark FROM chat_projected c WHERE c.session = sessions.session), -1)`
