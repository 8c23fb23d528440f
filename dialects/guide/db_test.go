package guide_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // the driver of the tests; the package has none

	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
)

// ddl are the guide's three tables and the optional fourth.
const ddl = `
CREATE TABLE chat_sessions (
  id TEXT PRIMARY KEY, agent TEXT NOT NULL, workspace_root TEXT, model_json TEXT NOT NULL, parent_id TEXT,` +
	` parent_message_id TEXT,
  permissions_json TEXT NOT NULL, metadata_json TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0,` +
	` reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read INTEGER NOT NULL DEFAULT 0, cache_write INTEGER NOT NULL DEFAULT 0,` +
	` total_tokens INTEGER NOT NULL DEFAULT 0,
  cost_usd REAL NOT NULL DEFAULT 0, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, archived_at INTEGER);
CREATE TABLE chat_messages (
  id TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES chat_sessions(id) ON DELETE CASCADE, role TEXT NOT NULL,
  metadata_json TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
CREATE TABLE chat_parts (
  id TEXT PRIMARY KEY, message_id TEXT NOT NULL REFERENCES chat_messages(id) ON DELETE CASCADE,` +
	` session_id TEXT NOT NULL,
  "index" INTEGER NOT NULL, type TEXT NOT NULL, data_json TEXT NOT NULL, tool_call_id TEXT, tool_state TEXT,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
CREATE TABLE system_prompts (digest TEXT PRIMARY KEY, body TEXT NOT NULL);
`

// database makes an SQLite file of the rows that are in lines of JSON.
func database(t testing.TB, text []byte) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open("sqlite", filepath.Join(t.TempDir(), "sessions.db")))(t)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	db.SetMaxOpenConns(1) // one must do
	exec(t, db, ddl)
	insert(t, db, text)
	return db
}

func exec(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	must.Get(db.ExecContext(context.Background(), query, args...))(t)
}

// insert writes rows, also over those of the same id.
func insert(t testing.TB, db *sql.DB, text []byte) {
	t.Helper()
	exec(t, db, "BEGIN")
	defer exec(t, db, "COMMIT")
	tables := map[string]string{"session": "chat_sessions", "message": "chat_messages", "part": "chat_parts",
		"system_prompt": "system_prompts"}
	for line := range bytes.Lines(text) {
		var row struct {
			Type string
			Data map[string]any
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		must.Do(t, d.Decode(&row))
		if tables[row.Type] == "" {
			continue
		}
		var names, marks []string
		var values []any
		for name, v := range row.Data {
			names, marks = append(names, `"`+name+`"`), append(marks, "?")
			if n, ok := v.(json.Number); ok {
				v = n.String()
			}
			values = append(values, v)
		}
		exec(t, db, fmt.Sprintf("INSERT OR REPLACE INTO %s (%s) VALUES (%s)", tables[row.Type], strings.Join(names, ","),
			strings.Join(marks, ",")), values...)
	}
}

func TestDatabaseAndLinesAgree(t *testing.T) {
	for _, file := range fixtures(t) {
		// of other columns
		if filepath.Ext(file) != ".jsonl" || strings.Contains(file, "own-") || strings.Contains(file, "hosts") {
			continue
		}
		t.Run(file, func(t *testing.T) {
			// a REAL is spelled as JavaScript does
			text := bytes.ReplaceAll(read(t, file), []byte(`"cost_usd":0.0,`), []byte(`"cost_usd":0,`))
			want := eventsOf(text)
			got := printed(guide.NewDecoder().ReadDB(context.Background(), database(t, text)))
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDatabaseGrows reads a file that its host goes on writing, opened for reading alone: each reading gives what the
// one before gave, and what is new.
func TestDatabaseGrows(t *testing.T) {
	text := read(t, "testdata/ai-sdk/v7.jsonl")
	dir := filepath.Join(t.TempDir(), "grows.db")
	host := must.Get(sql.Open("sqlite", dir+"?_pragma=journal_mode(WAL)"))(t)
	defer host.Close()
	host.SetMaxOpenConns(1)
	exec(t, host, ddl)
	reader := must.Get(sql.Open("sqlite", "file:"+dir+"?mode=ro"))(t)
	defer reader.Close()
	last := ""
	readings, pending := 0, []byte(nil)
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(`{"type":"message"`)) && bytes.Contains(line, []byte(`"role":"user"`)) &&
			len(pending) > 0 {
			insert(t, host, pending)
			pending = nil
			got := string(printed(guide.NewDecoder().ReadDB(context.Background(), reader)))
			if !strings.HasPrefix(got, last) {
				t.Fatalf("reading %d does not begin as the one before: %s", readings,
					cmp.Diff(last, got[:min(len(got), len(last))]))
			}
			if readings > 0 && len(got) == len(last) {
				t.Errorf("reading %d has nothing new", readings)
			}
			last = got
			readings++
		}
		pending = append(pending, line...)
	}
	if readings < 10 {
		t.Errorf("only %d readings", readings)
	}
}

func TestDatabaseWithFurtherColumns(t *testing.T) {
	db := database(t, read(t, "testdata/session.jsonl"))
	exec(t, db, `ALTER TABLE chat_messages ADD COLUMN hidden_at INTEGER`)
	exec(t, db, `ALTER TABLE chat_sessions ADD COLUMN title TEXT`)
	exec(t, db, `ALTER TABLE chat_sessions ADD COLUMN mode TEXT`)
	exec(t, db, `ALTER TABLE chat_sessions ADD COLUMN thumbnail BLOB`)
	exec(t, db, `UPDATE chat_sessions SET title = 'Ranges', mode = 'auto', thumbnail = x'fffe'`)
	exec(t, db, `UPDATE chat_messages SET hidden_at = 1795226498000 WHERE id = 'msg_1fbd66fe8000ykPTPly5kAA819'`)
	got := string(printed(guide.NewDecoder().ReadDB(context.Background(), db)))
	for _, want := range []string{
		`{"subject":"session","key":"title","value":"Ranges"`,
		`"title":"Ranges","mode":"auto","thumbnail":"//4="}`,
		`{"subject":"message/msg_1fbd66fe8000ykPTPly5kAA819","key":"hidden_at","value":1795226498000,` +
			`"at":{"time":"2026-11-21T02:01:38Z"`,
		// in metadata_json
		`{"subject":"message/msg_1fbd5df60000DdO9eGzMcNU77s","key":"hidden_at","value":1795226495000,` +
			`"at":{"time":"2026-11-21T02:01:35Z"`,
		`{"subject":"message/msg_1fbd4f50a000WD25RQ4F5ZR3qa","key":"hidden_at","value":null`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestDatabaseGivesBodiesOfPrompts(t *testing.T) {
	db := database(t, read(t, "testdata/session.jsonl"))
	exec(t, db, `INSERT INTO system_prompts VALUES ('00756bfe50268a422cc702e2fd44674bf99053248622cdf805f21ecd2ed1ebd1',`+
		` 'Be brief.'), ('other', 'Of another session.')`)
	got := string(printed(guide.NewDecoder().ReadDB(context.Background(), db)))
	want := `{"subject":"system_prompt/00756bfe50268a422cc702e2fd44674bf99053248622cdf805f21ecd2ed1ebd1",` +
		`"key":"guide.line","value":{"digest":"00756bfe50268a422cc702e2fd44674bf99053248622cdf805f21ecd2ed1ebd1",` +
		`"body":"Be brief."}`
	if strings.Count(got, want) != 1 || strings.Contains(got, "Of another session.") {
		t.Errorf("want once %s", want)
	}
}

func TestDatabaseErrors(t *testing.T) {
	db := must.Get(sql.Open("sqlite", filepath.Join(t.TempDir(), "empty.db")))(t)
	defer db.Close()
	if got := string(printed(guide.NewDecoder().ReadDB(context.Background(), db))); !strings.HasPrefix(got,
		"error: guide: read database: ") || !strings.Contains(got, "no such table: chat_sessions") {
		t.Errorf("no tables: %s", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	n := 0
	for _, err := range guide.NewDecoder().ReadDB(ctx, database(t, read(t, "testdata/session.jsonl"))) {
		cancel()
		last = err
		n++
	}
	if n != 2 || !errors.Is(last, context.Canceled) {
		t.Errorf("cancelled: %d, %v", n, last)
	}
	var bad *input.LineError
	broken := database(t, read(t, "testdata/session.jsonl"))
	exec(t, broken, `UPDATE chat_parts SET data_json = 'SECRET' WHERE "index" = 3`)
	n = 0
	for _, err := range guide.NewDecoder().ReadDB(context.Background(), broken) {
		if err != nil && (!errors.As(err, &bad) || err.Error() != "guide: part: messages[1].parts[3].data_json: a string "+
			"that is no JSON, or nested too deeply") {
			t.Error(err)
		}
		n++
	}
	if bad == nil || n < 30 {
		t.Errorf("%v, %d events", bad, n)
	}
}

// What may compute for ever is not read.
func TestReadDBReadsTablesOnly(t *testing.T) {
	const view = `CREATE VIEW %s AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)
		SELECT id, id AS created_at, id AS session_id, id AS message_id, id AS "index", id AS digest FROM n`
	const computed = `CREATE TABLE %s (id, created_at, session_id, message_id, digest, "index",
		x AS (zeroblob(1000000000)))`
	for _, name := range []string{"chat_sessions", "chat_messages", "chat_parts", "system_prompts"} {
		for _, crafted := range []string{view, computed} {
			db := must.Get(sql.Open("sqlite", filepath.Join(t.TempDir(), "evil.db")))(t)
			defer db.Close()
			must.Get(db.Exec(ddl + "DROP TABLE " + name + ";" + fmt.Sprintf(crafted, name)))(t)
			for ev, err := range guide.NewDecoder().ReadDB(t.Context(), db) {
				want := name + " is a view, or has computed columns: want a plain table"
				if ev != nil || err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, %v", name, ev, err)
				}
			}
		}
	}
}

// A file of some pages that a tree links again and again has more rows than anybody can read.
func TestReadDBIsBounded(t *testing.T) {
	db := endless(t, "chat_parts")
	var last error
	events := 0
	for ev, err := range guide.NewDecoder().ReadDB(t.Context(), db) {
		if last = err; ev != nil {
			events++
		}
	}
	if last == nil || !strings.Contains(last.Error(), "more rows than a file of ") {
		t.Errorf("%d events, %v", events, last)
	}

	// No row of chat_messages is one of this session: one query that looks at them all.
	db = endless(t, "chat_messages")
	exec(t, db, "UPDATE chat_sessions SET id = 'another'")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	for _, err := range guide.NewDecoder().ReadDB(ctx, db) {
		last = err
	}
	if !errors.Is(last, context.DeadlineExceeded) || time.Since(start) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(start), last)
	}
}

// endless returns a database with one session in whose table, which has no index, 600^6 entries name the one page.
func endless(t *testing.T, table string) *sql.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "endless.db")
	db, err := sql.Open("sqlite", path)
	must.Do(t, err)
	exec(t, db, `CREATE TABLE chat_sessions (id, created_at); INSERT INTO chat_sessions VALUES ('s', 1);
		CREATE TABLE chat_messages (id, session_id, role, created_at);
		INSERT INTO chat_messages VALUES ('m', 's', 'assistant', 1);
		CREATE TABLE chat_parts (id, message_id, "index", type, data_json);
		INSERT INTO chat_parts VALUES ('p', 'm', 0, 'text', '{"text":"hello"}')`)
	var root, size int
	err = db.QueryRow(`SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = ?`, table).
		Scan(&root, &size)
	must.Do(t, errors.Join(err, db.Close()))
	file := read(t, path)
	leaf := (root - 1) * size
	file = append(file, file[leaf:leaf+size]...)
	const levels, children = 6, 600
	for level := range levels {
		below := uint32(len(file) / size)
		page := make([]byte, size)
		page[0] = 5 // inside of a table
		binary.BigEndian.PutUint16(page[3:], children)
		binary.BigEndian.PutUint16(page[5:], uint16(size-5))
		binary.BigEndian.PutUint32(page[8:], below)
		for i := range children { // all are one cell
			binary.BigEndian.PutUint16(page[12+2*i:], uint16(size-5))
		}
		binary.BigEndian.PutUint32(page[size-5:], below)
		page[size-1] = 1
		if level < levels-1 {
			file = append(file, page...)
		} else {
			copy(file[leaf:], page)
		}
	}
	binary.BigEndian.PutUint32(file[28:], uint32(len(file)/size))
	must.Do(t, os.WriteFile(path, file, 0o600))
	db = must.Get(sql.Open("sqlite", path))(t)
	t.Cleanup(func() { db.Close() })
	return db
}
