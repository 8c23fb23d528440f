package sqlitestore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
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
func WithChatTables() Option { return func(c *config) { c.chatTables = true } }

// ChatTables reports whether the store was opened with WithChatTables.
func (s *Store) ChatTables() bool { return s.chatTables }

// chatRoom is how many bytes of rows one transaction writes.
const chatRoom = 4 << 20

// chatColumns are the columns of each table, the key first.
var chatColumns = map[export.RowType]struct{ table, columns string }{
	export.RowSession: {"chat_sessions", `id, agent, workspace_root, model_json, parent_id, parent_message_id,
		permissions_json, metadata_json,
		prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write, total_tokens, cost_usd,
		created_at, updated_at, archived_at`},
	export.RowMessage: {"chat_messages", `id, session_id, role, metadata_json, created_at, updated_at`},
	export.RowPart: {"chat_parts",
		`id, message_id, session_id, "index", type, data_json, tool_call_id, tool_state, created_at, updated_at`},
}

// ProjectChat replaces what the tables hold of a session by rows. It writes in transactions of 4 MiB: rows are read
// between them, and rows that are there already cost no write. The last one deletes what rows did not name. Two
// programs may do so at once: the one with the later mark goes on, the other stops. Sessions of a tenant are left out:
// the tables have no column for it. Fails with store.ErrNotFound when the session is not there, and with what rows fail
// with; the next ProjectChat then finishes.
func (s *Store) ProjectChat(ctx context.Context, k session.Key, mark store.Revision,
	rows iter.Seq2[export.Row, error]) error {
	if k.Tenant != "" {
		return nil
	}
	w := chatWriter{s: s, id: k.ID, mark: int64(mark), seen: map[string]bool{}, renamed: map[string]string{}}
	err := w.all(ctx, rows)
	if err != nil && !errors.Is(err, errLater) {
		return fmt.Errorf("sqlitestore: project chat tables: %w", atRest(err))
	}
	return nil
}

var (
	errLater   = errors.New("a later state is in the tables")
	errErasing = errors.New("a deleted session of the same name is being erased")
)

// chatWriter is one ProjectChat.
type chatWriter struct {
	s       *Store
	id      string
	mark    int64
	session int64
	batch   []chatRow
	size    int
	message string            // at hand
	renamed map[string]string // messages whose id another session has
	seen    map[string]bool   // table and key of what rows named
}

type chatRow struct {
	typ  export.RowType
	args []any // the key first
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
		x := r.Session
		w.row(r.Type, len(x.MetadataJSON)+len(x.PermissionsJSON),
			w.id, x.Agent, x.WorkspaceRoot, x.ModelJSON, x.ParentID, x.ParentMessageID, x.PermissionsJSON, x.MetadataJSON,
			x.PromptTokens, x.CompletionTokens, x.ReasoningTokens, x.CacheRead, x.CacheWrite, x.TotalTokens, x.CostUSD,
			x.CreatedAt, x.UpdatedAt, x.ArchivedAt)
	case export.RowMessage:
		x := r.Message
		w.message = x.ID
		w.row(r.Type, len(x.MetadataJSON), x.ID, w.id, x.Role, x.MetadataJSON, x.CreatedAt, x.UpdatedAt)
	case export.RowPart:
		x := r.Part
		w.row(r.Type, len(x.DataJSON),
			x.ID, w.message, w.id, x.Index, x.Type, x.DataJSON, x.ToolCallID, x.ToolState, x.CreatedAt, x.UpdatedAt)
	case export.RowSystemPrompt:
		w.row(r.Type, len(r.Body), r.Digest, r.Body)
	}
}

func (w *chatWriter) row(typ export.RowType, size int, args ...any) {
	w.batch, w.size = append(w.batch, chatRow{typ, args}), w.size+200+size
}

// flush writes the batch in one transaction, which waits for the erasing of a deleted session with the same id.
func (w *chatWriter) flush(ctx context.Context, last bool) error {
	err := w.s.transact(ctx, func(ctx context.Context) error { return w.write(ctx, last) })
	if errors.Is(err, errErasing) {
		if err := w.s.erase(ctx, 0); !errors.Is(err, ErrReaders) && err != nil {
			return err
		}
		err = w.s.transact(ctx, func(ctx context.Context) error { return w.write(ctx, last) })
	}
	w.batch, w.size = nil, 0
	return err
}

func (w *chatWriter) write(ctx context.Context, last bool) error {
	c := w.s.conn
	var id, mark int64
	var erasing bool
	err := c.QueryRowContext(ctx, `SELECT session, ifnull((SELECT mark FROM chat_projected c WHERE c.session = s.session),
		0),
		EXISTS (SELECT 1 FROM erasing WHERE chat = s.id) FROM sessions s WHERE tenant = '' AND id = ?`, w.id).Scan(&id, &mark,
		&erasing)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && w.session != 0 && id != w.session:
		return store.ErrNotFound // or deleted and begun again
	case err != nil:
		return err
	case mark > w.mark:
		return errLater
	case erasing:
		return errErasing
	}
	w.session = id
	if _, err := c.ExecContext(ctx, `INSERT OR REPLACE INTO chat_projected (session, mark) VALUES (?, ?)`, id,
		w.mark); err != nil {
		return err
	}
	for i := range w.batch {
		if err := w.put(ctx, &w.batch[i]); err != nil {
			return err
		}
	}
	if last {
		return w.sweep(ctx)
	}
	return nil
}

// put writes a row. The id of a message or part that another session has already gets an end that names the session.
func (w *chatWriter) put(ctx context.Context, r *chatRow) error {
	key := r.args[0].(string)
	if r.typ == export.RowSystemPrompt {
		w.seen["chat_prompts/"+key] = true
		const names = `INSERT INTO chat_prompts (session, digest) VALUES (?, ?) ON CONFLICT DO NOTHING`
		if _, err := w.s.conn.ExecContext(ctx, names, w.session, key); err != nil {
			return err
		}
		const body = `INSERT INTO system_prompts (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING`
		_, err := w.s.conn.ExecContext(ctx, body, r.args...)
		return err
	}
	if name, ok := w.renamed[fmt.Sprint(r.args[1])]; ok && r.typ == export.RowPart {
		r.args[1] = name
	}
	t := chatColumns[r.typ]
	if r.typ != export.RowSession {
		var owner string
		err := w.s.conn.QueryRowContext(ctx, `SELECT session_id FROM `+t.table+` WHERE id = ?`, key).Scan(&owner)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err == nil && owner != w.id {
			sum := sha256.Sum256([]byte(w.id))
			name := key + "~" + hex.EncodeToString(sum[:4])
			if r.typ == export.RowMessage {
				w.renamed[key] = name
			}
			r.args[0], key = name, name
		}
	}
	w.seen[t.table+"/"+key] = true
	_, err := w.s.conn.ExecContext(ctx, chatInsert(t.table, t.columns), r.args...)
	return err
}

// CallMessage returns the id of the message row that holds a tool call of a session, "" where there is none.
func (s *Store) CallMessage(ctx context.Context, sessionID, callID string) (id string, err error) {
	err = s.transact(ctx, func(ctx context.Context) error {
		const find = `SELECT ifnull(min(message_id), '') FROM chat_parts WHERE tool_call_id = ? AND session_id = ?`
		return s.conn.QueryRowContext(ctx, find, callID, sessionID).Scan(&id)
	})
	return id, err
}

// chatOrphans marks sessions as dirty that a session spawned and whose rows do not name its message yet.
const chatOrphans = `UPDATE sessions SET projected = mark - 1 WHERE tenant = '' AND mark <= projected
	AND id IN (SELECT id FROM chat_sessions WHERE parent_id = ? AND parent_message_id IS NULL)`

// sweep deletes the rows of the session that were not named: parts before the messages that they are of. A trigger
// deletes prompts.
func (w *chatWriter) sweep(ctx context.Context) error {
	for _, t := range [][3]string{
		{"chat_parts", "id", "session_id"}, {"chat_messages", "id", "session_id"}, {"chat_sessions", "id", "id"},
		{"chat_prompts", "digest", "session"},
	} {
		var owner any = w.id
		if t[2] == "session" {
			owner = w.session
		}
		rows, err := w.s.conn.QueryContext(ctx, `SELECT `+t[1]+` FROM `+t[0]+` WHERE `+t[2]+` = ?`, owner)
		if err != nil {
			return err
		}
		var gone []string
		for rows.Next() {
			var key string
			if err := rows.Scan(&key); err != nil {
				return errors.Join(err, rows.Close())
			}
			if !w.seen[t[0]+"/"+key] {
				gone = append(gone, key)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		for _, key := range gone {
			if _, err := w.s.conn.ExecContext(ctx, `DELETE FROM `+t[0]+` WHERE `+t[1]+` = ? AND `+t[2]+` = ?`, key,
				owner); err != nil {
				return err
			}
		}
	}
	_, err := w.s.conn.ExecContext(ctx, chatOrphans, w.id)
	return err
}

// chatInsert inserts a row, or replaces the one with its id where it differs.
func chatInsert(table, columns string) string {
	names := strings.Split(columns, ",")
	var set, other []string
	for _, name := range names[1:] {
		name = strings.TrimSpace(name)
		set, other = append(set, name+" = excluded."+name), append(other, "excluded."+name)
	}
	return "INSERT INTO " + table + " (" + columns + ") VALUES (?" + strings.Repeat(",?", len(names)-1) + ")" +
		" ON CONFLICT (id) DO UPDATE SET " + strings.Join(set, ", ") +
		" WHERE (" + strings.Join(names[1:], ",") + ") IS NOT (" + strings.Join(other, ", ") + ")"
}

// chatBehind marks sessions as dirty whose rows in the tables are missing or behind.
const chatBehind = `UPDATE sessions SET projected = mark - 1 WHERE tenant = '' AND mark <= projected
	AND projected > ifnull((SELECT c.mark FROM chat_projected c WHERE c.session = sessions.session), -1)`
