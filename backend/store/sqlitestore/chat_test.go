package sqlitestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// chatRows are the rows of a session with a message of each text, and a prompt that every session has.
func chatRows(id string, texts ...string) iter.Seq2[export.Row, error] {
	return func(yield func(export.Row, error) bool) {
		s := export.SessionRow{ID: id, Agent: "coder", ModelJSON: `{"provider_id":"p","model_id":"m"}`, PermissionsJSON: "[]",
			MetadataJSON: "{}", CostUSD: 0.5, CreatedAt: 1, UpdatedAt: 2}
		if !yield(export.Row{Type: export.RowSession, Session: &s}, nil) {
			return
		}
		for i, text := range texts {
			m := export.MessageRow{ID: fmt.Sprint("m", i), SessionID: id, Role: "user", MetadataJSON: "{}", CreatedAt: int64(i),
				UpdatedAt: int64(i)}
			p := export.PartRow{ID: fmt.Sprint("p", i), MessageID: m.ID, SessionID: id, Type: "text", DataJSON: text,
				CreatedAt: int64(i), UpdatedAt: int64(i)}
			if !yield(export.Row{Type: export.RowMessage, Message: &m}, nil) ||
				!yield(export.Row{Type: export.RowPart, Part: &p}, nil) {
				return
			}
		}
		sum := sha256.Sum256([]byte("be kind"))
		if !yield(export.Row{Type: export.RowSystemPrompt, Digest: hex.EncodeToString(sum[:]), Body: "be kind"}, nil) {
			return
		}
		yield(export.Row{Type: export.RowDefect}, nil)
	}
}

// column returns the first column of what a query gives.
func column(t *testing.T, s *Store, query string, args ...any) []string {
	t.Helper()
	rows := must.Get(s.conn.QueryContext(t.Context(), query, args...))(t)
	defer rows.Close()
	l := []string{}
	for rows.Next() {
		var v string
		must.Do(t, rows.Scan(&v))
		l = append(l, v)
	}
	must.Do(t, rows.Err())
	return l
}

func putSessions(t *testing.T, s *Store, ids ...string) {
	t.Helper()
	for i, id := range ids {
		must.Do(t, s.Put(t.Context(), session.Batch{Rows: []session.Row{storetest.Row(key(id), i+1)}}))
	}
}

func markOf(t *testing.T, s *Store, k session.Key) store.Revision {
	t.Helper()
	m := must.Get(s.Revision(t.Context(), k))(t)
	return m
}

// Rows are replaced as a whole: changed ones, new ones, and those that are no more. What two sessions share stays until
// the last of them goes, and an id that another session has gets an end.
func TestChatTables(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "s.db"), WithChatTables())
	putSessions(t, s, "a", "b")
	projectChat := func(id string, texts ...string) {
		t.Helper()
		must.Do(t, s.ProjectChat(t.Context(), key(id), markOf(t, s, key(id)), chatRows(id, texts...)))
	}
	parts := func() []string {
		return column(t, s, `SELECT session_id || ' ' || message_id || ' ' || id || ' ' || data_json FROM chat_parts ORDER `+
			`BY session_id, message_id`)
	}
	projectChat("a", "one", "two")
	projectChat("b", "three")
	end := func(id string) string { sum := sha256.Sum256([]byte(id)); return "~" + hex.EncodeToString(sum[:4]) }
	if d := cmp.Diff([]string{"a m0 p0 one", "a m1 p1 two", "b m0" + end("b") + " p0" + end("b") + " three"},
		parts()); d != "" {
		t.Error(d)
	}
	before := parts()
	projectChat("a", "one", "two")
	projectChat("b", "three")
	if d := cmp.Diff(before, parts()); d != "" {
		t.Errorf("projected twice: %s", d)
	}
	projectChat("a", "ONE")
	projectChat("b", "three", "four")
	if d := cmp.Diff([]string{"a m0 p0 ONE", "b m0" + end("b") + " p0" + end("b") + " three", "b m1 p1 four"},
		parts()); d != "" {
		t.Error(d)
	}
	if n := column(t, s, `SELECT count(*) FROM system_prompts WHERE body = 'be kind'`); n[0] != "1" {
		t.Errorf("%s prompts", n[0])
	}
	must.Do(t, store.Delete(t.Context(), s, key("a")))
	for table, want := range map[string]string{"chat_sessions": "1", "chat_messages": "2", "chat_parts": "2",
		"system_prompts": "1", "chat_projected": "1", "chat_prompts": "1"} {
		if n := column(t, s, `SELECT count(*) FROM `+table); n[0] != want {
			t.Errorf("%s rows in %s, want %s", n[0], table, want)
		}
	}
	must.Do(t, s.ProjectChat(t.Context(), key("b"), markOf(t, s, key("b")),
		func(func(export.Row, error) bool) {}))
	for _, table := range []string{"chat_sessions", "chat_messages", "chat_parts", "system_prompts", "chat_prompts"} {
		if n := column(t, s, `SELECT count(*) FROM `+table); n[0] != "0" {
			t.Errorf("%s rows in %s, want none", n[0], table)
		}
	}
}

// An older projection, a session that is not there, one of a tenant, rows that fail, and changes that do not fit into
// memory.
func TestChatTablesEdges(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "s.db"), WithChatTables())
	putSessions(t, s, "a")
	old := markOf(t, s, key("a"))
	putSessions(t, s, "a")
	k := key("a")
	must.Do(t, s.ProjectChat(t.Context(), k, markOf(t, s, k), chatRows("a", "new")))
	must.Do(t, s.ProjectChat(t.Context(), k, old, chatRows("a", "old")))
	if got := column(t, s, `SELECT data_json FROM chat_parts`); !slices.Equal(got, []string{"new"}) {
		t.Errorf("%q", got)
	}
	if err := s.ProjectChat(t.Context(), key("nobody"), 1, chatRows("nobody")); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	if err := s.ProjectChat(t.Context(), session.Key{Tenant: "acme", ID: "a"}, 1, chatRows("a", "acme")); err != nil {
		t.Error(err)
	}
	large := strings.Repeat("x", chatRoom/2)
	failed := errors.New("failed")
	for _, at := range []int{1, 8} { // before the first transaction, and after it
		n := 0
		err := s.ProjectChat(t.Context(), k, markOf(t, s, k), func(yield func(export.Row, error) bool) {
			for r, err := range chatRows("a", large+"1", large+"2", large+"3", large+"4", large+"5") {
				if n++; n > at {
					yield(export.Row{}, failed)
					return
				}
				if !yield(r, err) {
					return
				}
			}
		})
		if !errors.Is(err, failed) {
			t.Error(err)
		}
	}
	must.Do(t, s.ProjectChat(t.Context(), k, markOf(t, s, k), chatRows("a", large+"1", large+"2", large+"3")))
	if got := column(t, s, `SELECT substr(data_json, -1) FROM chat_parts ORDER BY id`); !slices.Equal(got,
		[]string{"1", "2", "3"}) {
		t.Errorf("%q", got)
	}
}

// The query of the guide is answered by an index, and the foreign keys hold.
func TestChatIndexes(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "s.db"), WithChatTables())
	putSessions(t, s, "a")
	must.Do(t, s.ProjectChat(t.Context(), key("a"), markOf(t, s, key("a")), chatRows("a", "x", "y")))
	var plan string
	row := s.conn.QueryRowContext(t.Context(),
		`EXPLAIN QUERY PLAN SELECT * FROM chat_parts WHERE session_id = ? ORDER BY "index"`, "a")
	var a, b, c any
	must.Do(t, row.Scan(&a, &b, &c, &plan))
	if want := "SEARCH chat_parts USING INDEX chat_parts_by_session (session_id=?)"; plan != want {
		t.Errorf("%s, want %s", plan, want)
	}
	if bad := column(t, s, `SELECT "table" FROM pragma_foreign_key_check`); len(bad) > 0 {
		t.Errorf("foreign keys of %v", bad)
	}
}

// Sessions of a file that was written without the tables are filled once it is opened with them, and again what was
// projected without.
func TestChatTablesCatchUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	step := func(wantDirty int, touch bool, want string, opts ...Option) {
		t.Helper()
		s := must.Get(Open(t.Context(), path, opts...))(t)
		defer s.Close()
		if n := len(must.Get(store.Stale(t.Context(), s))(t)); n != wantDirty {
			t.Errorf("%d dirty sessions, want %d", n, wantDirty)
		}
		if touch {
			putSessions(t, s, "a")
		}
		must.Do(t, project.Refresh(t.Context(), s))
		if got := column(t, s, `SELECT count(*) FROM chat_sessions`); got[0] != want {
			t.Errorf("%s sessions in the tables, want %s", got[0], want)
		}
	}
	step(0, true, "0")
	step(0, false, "0")
	step(1, false, "1", WithChatTables())
	step(0, false, "1", WithChatTables())
	step(0, true, "1")
	step(1, false, "1", WithChatTables())
	step(0, false, "1", WithChatTables())
}

// recordInto plays a recording of phi-core into a store.
func recordInto(t *testing.T, s *Store, scenario string) session.Batch {
	t.Helper()
	for _, f := range phifixtures.All(t, "../../..") {
		if f.String() != scenario {
			continue
		}
		p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
		play.Events(t, event.NewRecorder(p.Tracer()), phi.NewDecoder().Events(bytes.NewReader(f.Events)))
		b := p.Batch()
		must.Do(t, s.Put(t.Context(), b))
		return b
	}
	t.Fatalf("no recording %s", scenario)
	return session.Batch{}
}

// The row of a sub-agent names the message of its parent that holds the call, whichever of the two arrives first.
func TestChatTablesNameTheParentsMessage(t *testing.T) {
	for _, childFirst := range []bool{false, true} {
		s := newStore(t, filepath.Join(t.TempDir(), "s.db"), WithChatTables())
		b := recordInto(t, newStore(t, filepath.Join(t.TempDir(), "r.db")), "0.15.2/sub-agent-host-wired")
		var parent, child session.Batch
		for _, r := range b.Rows {
			if r.Session.ID == "inspector-session-3" {
				child.Rows = append(child.Rows, r)
			} else {
				parent.Rows = append(parent.Rows, r)
			}
		}
		parent.Blocks, child.Blocks = b.Blocks, b.Blocks
		if childFirst {
			parent, child = child, parent
		}
		for _, b := range []session.Batch{parent, child} {
			must.Do(t, s.Put(t.Context(), b))
			must.Do(t, project.Refresh(t.Context(), s))
		}
		got := column(t, s, `SELECT p.type FROM chat_sessions c JOIN chat_parts p
			ON p.session_id = c.parent_id AND p.message_id = c.parent_message_id AND p.tool_call_id IS NOT NULL`)
		if len(got) != 1 || !strings.HasPrefix(got[0], "tool-") {
			t.Errorf("child first %t: %v", childFirst, got)
		}
	}
}

// A fork has no message of the session that it is of, and stays projected whatever comes to that.
func TestChatTablesForks(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "s.db"), WithChatTables())
	first, more, fork := storetest.Row(key("first"), 1), storetest.Row(key("first"), 2), storetest.Row(key("fork"), 3)
	fork.Attrs = []session.Attr{{Key: string(spans.RunForkParentIDKey), Value: session.StringValue("first")}}
	for _, rows := range [][]session.Row{{first, fork}, {more}} {
		for i := range rows {
			rows[i].Kind, rows[i].Turn = session.KindRun, session.NoTurn
		}
		must.Do(t, s.Put(t.Context(), session.Batch{Rows: rows}))
		must.Do(t, project.Refresh(t.Context(), s))
	}
	if got := column(t, s, `SELECT id FROM chat_sessions WHERE parent_id = 'first'`); len(got) != 1 || got[0] != "fork" {
		t.Errorf("forks of the first one: %v", got)
	}
	must.Do(t, s.Put(t.Context(), session.Batch{Rows: []session.Row{first}}))
	must.Do(t, project.Session(t.Context(), s, key("first")))
	if stale := must.Get(store.Stale(t.Context(), s))(t); len(stale) > 0 {
		t.Errorf("%v are to be projected once more", stale)
	}
}

// sqliteProgram returns sqlite3. A test without it skips, but not in CI, which installs it.
func sqliteProgram(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("sqlite3")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("the program sqlite3 is not installed (Debian: apt-get install sqlite3); CI installs it")
	}
	return program
}

// A bare sqlite3 reads what a running worker keeps, at most ten seconds after the last span, and reads what `export
// --format json` writes.
func TestSQLite3ReadsSessions(t *testing.T) {
	program := sqliteProgram(t)
	path := filepath.Join(t.TempDir(), "s.db")
	s := newStore(t, path, WithChatTables())
	w := project.NewWorker(s, nil)
	closed := false
	stop := func() {
		if !closed {
			closed = true
			if err := w.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	defer stop()
	batch := recordInto(t, s, "0.15.2/parallel-tools-one-error")
	w.TouchBatch(batch)
	query := func(q string) string {
		out, err := exec.CommandContext(t.Context(), program, "-json", "-readonly", path, q).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", q, err, out)
		}
		return string(out)
	}
	deadline := time.Now().Add(10 * time.Second)
	for query(`SELECT id FROM chat_sessions`) == "" {
		if time.Now().After(deadline) {
			t.Fatal("not there ten seconds after the last span")
		}
		time.Sleep(50 * time.Millisecond)
	}
	id := batch.Rows[0].Session.ID
	var rows []map[string]any
	must.Do(t, json.Unmarshal([]byte(query(`SELECT * FROM chat_parts WHERE session_id = '`+id+`' ORDER BY "index"`)),
		&rows))
	var got, want []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(r["message_id"], r["index"], r["type"], r["data_json"], r["tool_state"]))
	}
	var doc bytes.Buffer
	tree := must.Get(session.NewTree(session.AssembleAll(batch.Rows)[0], s.Blocks(t.Context(), key(id))))(t)
	must.Get(export.JSON(&doc, tree, export.Options{}))(t)
	var parsed struct {
		Messages []struct{ Parts []map[string]any }
	}
	must.Do(t, json.Unmarshal(doc.Bytes(), &parsed))
	for _, m := range parsed.Messages {
		for _, r := range m.Parts {
			want = append(want, fmt.Sprint(r["message_id"], r["index"], r["type"], r["data_json"], r["tool_state"]))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" || len(want) < 5 {
		t.Errorf("-export +tables:\n%s", d)
	}
	if out := query(`SELECT length(body) AS n FROM system_prompts JOIN chat_messages ON metadata_json ->> ` +
		`'system_prompt_digest' = digest LIMIT 1`); !strings.Contains(out, `"n":`) {
		t.Errorf("the prompt of a message: %s", out)
	}
	stop()
}
