package sqlitestore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/backend/store"
)

// The tables of the agent guide: schema.sql says what they are.

// WithChatTables makes projections fill the tables of the agent guide as well: chat_sessions, chat_messages, chat_parts and
// system_prompts, with plain content. Sessions whose rows there are missing or behind become dirty when the store is opened, so that the
// next projection fills them. Without it nothing is written there, and what is there stays as it is until its session is deleted.
func WithChatTables() Option { return optionFunc(func(c *config) { c.chatTables = true }) }

// ChatTables reports whether the store was opened with WithChatTables.
func (s *Store) ChatTables() bool { return s.chatTables }

// chatRoom is how many bytes of changed rows are kept in memory; from there on they are written as they are made.
const chatRoom = 4 << 20

// chatColumns are the columns of each table, the key first.
var chatColumns = map[export.RowType]struct{ table, columns string }{
	export.RowSession: {"chat_sessions", `id, agent, workspace_root, model_json, parent_id, parent_message_id, permissions_json, metadata_json,
		prompt_tokens, completion_tokens, reasoning_tokens, cache_read, cache_write, total_tokens, cost_usd, created_at, updated_at, archived_at`},
	export.RowMessage: {"chat_messages", `id, session_id, role, metadata_json, created_at, updated_at`},
	export.RowPart:    {"chat_parts", `id, message_id, session_id, "index", type, data_json, tool_call_id, tool_state, created_at, updated_at`},
}

// chatTypes are the row types in the order in which rows refer to each other.
var chatTypes = []export.RowType{export.RowSession, export.RowMessage, export.RowPart}

// chatRow is a row as a table has it: its key and its columns.
type chatRow struct {
	typ  export.RowType
	key  string
	args []any
	size int
}

// ProjectChat replaces what the tables hold of a session by rows, in one transaction: rows that are there already are left alone, and
// what is no more is deleted. rows are read before anything is locked, but for what exceeds 4 MiB of changes, and again where another process
// was faster. A projection older than the present one changes nothing. Sessions of a tenant are left out. Fails with store.ErrNotFound when the session is not there,
// and with what rows fail with.
func (s *Store) ProjectChat(ctx context.Context, k session.Key, mark store.Mark, rows iter.Seq2[export.Row, error]) error {
	if k.Tenant != "" {
		return nil
	}
	for {
		err := s.projectChat(ctx, k, mark, rows)
		switch {
		case errors.Is(err, errOthersProject): // who projected an older state: each time a newer one
		case errors.Is(err, errErasing):
			if err := s.erase(ctx, 0); !errors.Is(err, ErrReaders) && err != nil {
				return fmt.Errorf("sqlitestore: project chat tables: %w", atRest(err))
			}
		default:
			return err
		}
	}
}

func (s *Store) projectChat(ctx context.Context, k session.Key, mark store.Mark, rows iter.Seq2[export.Row, error]) error {
	w := chatWriter{s: s, ctx: ctx, key: k, mark: mark, seed: maphash.MakeSeed(), renamed: map[string]string{}}
	next, stop := iter.Pull2(rows)
	defer stop()
	w.next = next
	if err := w.compare(); err != nil {
		return fmt.Errorf("sqlitestore: project chat tables: %w", atRest(err))
	}
	if err := s.transact(ctx, w.write); err != nil {
		return fmt.Errorf("sqlitestore: project chat tables: %w", atRest(err))
	}
	return nil
}

// chatWriter is one ProjectChat.
type chatWriter struct {
	s    *Store
	ctx  context.Context //nolint:containedctx // of the one call
	key  session.Key
	mark store.Mark
	next func() (export.Row, error, bool)
	seed maphash.Seed

	session int64             // 0: not there
	before  sql.Null[int64]   // mark of the rows that are there
	have    map[string]uint64 // what each of them holds, by type and key
	message string            // at hand
	renamed map[string]string
	changed []chatRow
	size    int
	prompts []string
	ended   bool
	inserts map[export.RowType]*sql.Stmt
}

// compare reads what is there and the rows up to the end, or until what changed is too much to keep.
func (w *chatWriter) compare() error {
	w.have = map[string]uint64{}
	for v, err := range fetch(w.ctx, w.s, `SELECT session, (SELECT mark FROM chat_projected c WHERE c.session = s.session)
		FROM sessions s WHERE tenant = ? AND id = ?`, []any{w.key.Tenant, w.key.ID}, func(rows *sql.Rows) (v struct {
		session int64
		mark    sql.Null[int64]
	}, err error) {
		err = rows.Scan(&v.session, &v.mark)
		return v, err
	}) {
		if err != nil {
			return err
		}
		w.session, w.before = v.session, v.mark
	}
	if w.session == 0 {
		return store.ErrNotFound
	}
	for _, typ := range chatTypes {
		where := "session_id"
		if typ == export.RowSession {
			where = "id"
		}
		t := chatColumns[typ]
		var hash maphash.Hash
		hash.SetSeed(w.seed)
		for row, err := range fetch(w.ctx, w.s, `SELECT `+t.columns+` FROM `+t.table+` WHERE `+where+` = ?`, []any{w.key.ID},
			func(rows *sql.Rows) (chatRow, error) { return scanChatRow(typ, rows) }) {
			if err != nil {
				return err
			}
			w.have[keyOf(&row)] = row.hash(&hash)
		}
	}
	for w.size < chatRoom {
		row, err := w.pull()
		if err != nil || w.ended {
			return err
		}
		if row == nil {
			continue
		}
		w.changed = append(w.changed, *row)
		w.size += row.size
	}
	return nil
}

func keyOf(r *chatRow) string { return string(r.typ) + "/" + r.key }

// scanChatRow reads a row of a table.
func scanChatRow(typ export.RowType, rows *sql.Rows) (chatRow, error) {
	names, err := rows.Columns()
	if err != nil {
		return chatRow{}, err
	}
	args := make([]any, len(names))
	to := make([]any, len(names))
	for i := range args {
		to[i] = &args[i]
	}
	if err := rows.Scan(to...); err != nil {
		return chatRow{}, err
	}
	key, _ := args[0].(string)
	return chatRow{typ: typ, key: key, args: args}, nil
}

// hash sums up the columns.
func (r *chatRow) hash(h *maphash.Hash) uint64 {
	h.Reset()
	for _, a := range r.args {
		switch v := a.(type) {
		case nil:
			_ = h.WriteByte(0)
		case *string:
			if v == nil {
				_ = h.WriteByte(0)
			} else {
				maphash.WriteComparable(h, *v)
			}
		case *int64:
			if v == nil {
				_ = h.WriteByte(0)
			} else {
				maphash.WriteComparable(h, *v)
			}
		case string:
			maphash.WriteComparable(h, v)
		case int64:
			maphash.WriteComparable(h, v)
		case float64:
			maphash.WriteComparable(h, v)
		}
	}
	return h.Sum64()
}

// pull returns the next row that is to be written, nil for one that is there already.
func (w *chatWriter) pull() (*chatRow, error) {
	r, err, ok := w.next()
	if !ok {
		w.ended = true
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	row := chatRow{typ: r.Type}
	switch r.Type {
	case export.RowSession:
		x := r.Session
		row.key = w.key.ID
		row.args = []any{
			row.key, x.Agent, x.WorkspaceRoot, x.ModelJSON, x.ParentID, x.ParentMessageID, x.PermissionsJSON, x.MetadataJSON,
			x.PromptTokens, x.CompletionTokens, x.ReasoningTokens, x.CacheRead, x.CacheWrite, x.TotalTokens, x.CostUSD, x.CreatedAt, x.UpdatedAt, x.ArchivedAt,
		}
		row.size = len(x.MetadataJSON) + len(x.PermissionsJSON)
	case export.RowMessage:
		x := r.Message
		row.key, w.message = x.ID, x.ID
		row.args = []any{x.ID, w.key.ID, x.Role, x.MetadataJSON, x.CreatedAt, x.UpdatedAt}
		row.size = len(x.MetadataJSON)
	case export.RowPart:
		x := r.Part
		row.key = x.ID
		row.args = []any{x.ID, w.message, w.key.ID, x.Index, x.Type, x.DataJSON, x.ToolCallID, x.ToolState, x.CreatedAt, x.UpdatedAt}
		row.size = len(x.DataJSON)
	case export.RowSystemPrompt:
		row.key = r.Digest
		row.args = []any{r.Digest, r.Body}
		row.size = len(r.Body)
		return &row, nil
	default:
		return nil, nil // the tables have no place for it
	}
	var hash maphash.Hash
	hash.SetSeed(w.seed)
	key := keyOf(&row)
	if sum, ok := w.have[key]; ok {
		delete(w.have, key)
		if sum == row.hash(&hash) {
			return nil, nil
		}
	}
	row.size += 200
	return &row, nil
}

// write is the transaction.
func (w *chatWriter) write(ctx context.Context) (err error) {
	// Rows of a deleted session with this id would be taken for this one's, and this one's for that.
	var erasing bool
	if err := w.s.conn.QueryRowContext(ctx, `SELECT count(*) FROM erasing WHERE chat = ?`, w.key.ID).Scan(&erasing); err != nil {
		return err
	}
	if erasing {
		return errErasing
	}
	var id, mark sql.Null[int64]
	err = w.s.conn.QueryRowContext(ctx, `SELECT session, (SELECT mark FROM chat_projected c WHERE c.session = s.session) FROM sessions s WHERE tenant = ? AND id = ?`,
		w.key.Tenant, w.key.ID).Scan(&id, &mark)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && id.V != w.session:
		return store.ErrNotFound // or deleted and begun again
	case err != nil:
		return err
	case mark.Valid && mark.V > int64(w.mark), mark != w.before && mark.V >= int64(w.mark):
		return nil // what another process wrote meanwhile is as new
	case mark != w.before:
		return errOthersProject
	}
	if err := w.prepare(ctx); err != nil {
		return err
	}
	defer w.close()
	for i := range w.changed {
		if err := w.put(ctx, &w.changed[i]); err != nil {
			return err
		}
	}
	w.changed = nil
	for !w.ended {
		row, err := w.pull()
		if err != nil {
			return err
		}
		if row != nil {
			if err := w.put(ctx, row); err != nil {
				return err
			}
		}
	}
	if err := w.sweep(ctx); err != nil {
		return err
	}
	_, err = w.s.conn.ExecContext(ctx, `INSERT OR REPLACE INTO chat_projected (session, mark) VALUES (?, ?)`, w.session, int64(w.mark))
	return err
}

var errErasing = errors.New("a deleted session of the same name is being erased")

var errOthersProject = errors.New("another process projects the session")

func (w *chatWriter) prepare(ctx context.Context) error {
	w.inserts = map[export.RowType]*sql.Stmt{}
	for _, typ := range chatTypes {
		t := chatColumns[typ]
		var err error
		if w.inserts[typ], err = w.s.conn.PrepareContext(ctx, chatInsert(t.table, t.columns, typ != export.RowSession)); err != nil {
			w.close()
			return err
		}
	}
	return nil
}

func (w *chatWriter) close() {
	for _, st := range w.inserts {
		_ = st.Close()
	}
}

// put writes a row. The id of a message or part that another session has already gets an end that tells whose it is.
func (w *chatWriter) put(ctx context.Context, r *chatRow) error {
	if r.typ == export.RowSystemPrompt {
		if _, err := w.s.conn.ExecContext(ctx, `INSERT INTO system_prompts (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING`, r.args...); err != nil {
			return err
		}
		w.prompts = append(w.prompts, r.key)
		_, err := w.s.conn.ExecContext(ctx, `INSERT INTO chat_prompts (session, digest) VALUES (?, ?) ON CONFLICT DO NOTHING`, w.session, r.key)
		return err
	}
	if r.typ == export.RowPart {
		if name, ok := w.renamed[r.args[1].(string)]; ok {
			r.args[1] = name
		}
	}
	for range 2 {
		res, err := w.inserts[r.typ].ExecContext(ctx, r.args...)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return err
		}
		sum := sha256.Sum256([]byte(w.key.ID))
		name := r.key + "~" + hex.EncodeToString(sum[:4])
		if r.typ == export.RowMessage {
			w.renamed[r.key] = name
		}
		r.key, r.args[0] = name, name
		delete(w.have, keyOf(r))
	}
	return fmt.Errorf("%s %q: another session has it: %w", r.typ, r.key, store.ErrData)
}

// sweep deletes what is no more: parts before the messages that they are of.
func (w *chatWriter) sweep(ctx context.Context) error {
	for _, typ := range []export.RowType{export.RowPart, export.RowMessage, export.RowSession} {
		for key := range w.have {
			id, ok := cutType(key, typ)
			if !ok {
				continue
			}
			if _, err := w.s.conn.ExecContext(ctx, `DELETE FROM `+chatColumns[typ].table+` WHERE id = ?`, id); err != nil {
				return err
			}
		}
	}
	used := map[string]bool{}
	for _, digest := range w.prompts {
		used[digest] = true
	}
	rows, err := w.s.conn.QueryContext(ctx, `SELECT digest FROM chat_prompts WHERE session = ?`, w.session)
	if err != nil {
		return err
	}
	var gone []string
	for rows.Next() {
		var digest string
		if err := rows.Scan(&digest); err != nil {
			return errors.Join(err, rows.Close())
		}
		if !used[digest] {
			gone = append(gone, digest)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, digest := range gone {
		if _, err := w.s.conn.ExecContext(ctx, `DELETE FROM chat_prompts WHERE session = ? AND digest = ?`, w.session, digest); err != nil {
			return err
		}
		if _, err := w.s.conn.ExecContext(ctx, `DELETE FROM system_prompts WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM chat_prompts WHERE digest = ?1)`, digest); err != nil {
			return err
		}
	}
	return nil
}

func cutType(key string, typ export.RowType) (string, bool) {
	return strings.CutPrefix(key, string(typ)+"/")
}

// chatInsert inserts a row or replaces it, unless it is another session's: then it affects no row.
func chatInsert(table, columns string, owned bool) string {
	var names, set []string
	for name := range strings.SplitSeq(columns, ",") {
		names = append(names, strings.TrimSpace(name))
	}
	for _, name := range names[1:] {
		set = append(set, name+"=excluded."+name)
	}
	q := "INSERT INTO " + table + " (" + columns + ") VALUES (?" + strings.Repeat(",?", len(names)-1) + ") ON CONFLICT (id) DO UPDATE SET " + strings.Join(set, ",")
	if owned {
		q += " WHERE " + table + ".session_id = excluded.session_id"
	}
	return q
}

// chatBehind marks sessions as dirty whose rows in the tables are missing or behind.
const chatBehind = `UPDATE sessions SET projected = mark - 1 WHERE tenant = '' AND mark <= projected
	AND projected > ifnull((SELECT c.mark FROM chat_projected c WHERE c.session = sessions.session), -1)`
