package dialects_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/gemini"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/opencode"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

// openCodeDB makes an SQLite file with OpenCode's tables and returns it open for writing: its rows stay in the
// write-ahead log.
func openCodeDB(t testing.TB, path string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open("sqlite", path+"?_pragma=journal_mode(WAL)&_pragma=wal_autocheckpoint(0)"))(t)
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	must.Get(db.Exec(`CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text, title text, version text,
		permission text, revert text, time_created integer, time_updated integer);
		CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, time_updated integer, data text);
		CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, time_created integer,
			time_updated integer, data text);
		CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
		CREATE INDEX part_message_id_id_idx ON part (message_id, id)`))(t)
	return db
}

// A database that has the tables of OpenCode and those of the agent guide is one of the guide, each time.
func TestRecogniseDBTwoOfThem(t *testing.T) {
	db := openCodeDB(t, filepath.Join(t.TempDir(), "both.db"))
	must.Get(db.Exec("CREATE TABLE chat_sessions (id text)"))(t)
	for range 200 {
		if d := must.Get(dialects.RecogniseDB(t.Context(), db))(t); d.Name != guide.Dialect {
			t.Fatalf("dialect %s", d.Name)
		}
	}
}

type document = map[string]any

// insert writes a session with its first n messages.
func insert(t testing.TB, db *sql.DB, export document, n int) {
	t.Helper()
	text := func(v any) any {
		if v == nil {
			return nil
		}
		return string(must.Get(json.Marshal(v))(t))
	}
	info := export["info"].(document)
	when := info["time"].(document)
	must.Get(db.Exec("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", info["id"], info["parentID"],
		info["directory"], info["title"], info["version"], text(info["permission"]), text(info["revert"]),
		int64(when["created"].(float64)), int64(when["updated"].(float64))))(t)
	for i, m := range export["messages"].([]any)[:n] {
		of := m.(document)["info"].(document)
		data := maps.Clone(of)
		delete(data, "id")
		delete(data, "sessionID")
		must.Get(db.Exec("INSERT OR REPLACE INTO message VALUES (?, ?, ?, 0, ?)", of["id"], info["id"], i, text(data)))(t)
		for j, p := range m.(document)["parts"].([]any) {
			part := maps.Clone(p.(document))
			delete(part, "id")
			delete(part, "sessionID")
			delete(part, "messageID")
			must.Get(db.Exec("INSERT OR REPLACE INTO part VALUES (?, ?, ?, 0, 0, ?)", fmt.Sprintf("prt_%03d_%03d", i, j),
				of["id"], info["id"], text(part)))(t)
		}
	}
}

func readDocument(t testing.TB, path string) (d document) {
	t.Helper()
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(path))(t), &d))
	return d
}

const mainExport = "generated/export-ses_dfcfedb28ffeTZNro25MO4PG8X.json"

// TestOpenCodeLayouts reads one session as a document, from a storage folder, and from a database that its program has
// open, whose rows are in the write-ahead log alone: the tree is the same, also after each message of a session that
// grows.
func TestOpenCodeLayouts(t *testing.T) {
	t.Parallel()
	a := agentOf(t, opencode.Agent.Dialect)
	export := readDocument(t, filepath.Join(a.folder, mainExport))
	of := func(path string) string {
		return tree(t, session.AssembleAll(a.record(t, otelagent.CaptureContent, a.families(t, path)...).Batch().Rows))
	}
	want := of(filepath.Join(a.folder, mainExport))
	if diff := cmp.Diff(want, of(filepath.Join(a.folder, "storage-layout"))); diff != "" {
		t.Errorf("storage (-export +storage)\n%s", diff)
	}
	sorted := filepath.Join(t.TempDir(), "ses_sorted.json") // with the order of keys that the rows below have
	write(t, sorted, must.Get(json.Marshal(export))(t))
	want = of(sorted)
	path := filepath.Join(t.TempDir(), "opencode.db")
	db := openCodeDB(t, path)
	var rows []session.Row
	messages := len(export["messages"].([]any))
	for n := 1; n <= messages; n++ {
		insert(t, db, export, n)
		rows = append(rows, a.record(t, otelagent.CaptureContent, a.families(t, path)...).Batch().Rows...)
	}
	if info := must.Get(os.Stat(path + "-wal"))(t); info.Size() == 0 {
		t.Error("the rows are not in the log")
	}
	if diff := cmp.Diff(want, of(path)); diff != "" {
		t.Errorf("database (-export +database)\n%s", diff)
	}
	if diff := cmp.Diff(want, tree(t, session.AssembleAll(rows))); diff != "" {
		t.Errorf("database that grew (-export +grown)\n%s", diff)
	}
	for _, column := range []string{"directory", "title", "version", "permission", "revert"} { // of another version
		must.Get(db.Exec("ALTER TABLE session DROP COLUMN " + column))(t)
	}
	got := a.record(t, otelagent.CaptureContent, a.families(t, path)...).Sessions()
	if len(got) != 1 || len(got[0].Runs) == 0 {
		t.Errorf("database with fewer columns: %d sessions", len(got))
	}
}

// TestOpenCodeFork forks a session: the messages before the fork are copies, which count in their own session alone.
func TestOpenCodeFork(t *testing.T) {
	a := agentOf(t, opencode.Agent.Dialect)
	parent := readDocument(t, filepath.Join(a.folder, mainExport))
	fork := readDocument(t, filepath.Join(a.folder, mainExport))
	info := fork["info"].(document)
	info["id"], info["time"] = "ses_fork", document{"created": 1795346760000.0, "updated": 1795346770000.0}
	messages := fork["messages"].([]any)[:6]
	for _, m := range messages { // with ids of their own
		of := m.(document)["info"].(document)
		of["sessionID"] = "ses_fork"
		for _, key := range []string{"id", "parentID"} {
			if id, ok := of[key].(string); ok {
				of[key] = id + "_copy"
			}
		}
	}
	var own document
	first := must.Get(json.Marshal(messages[0]))(t)
	must.Do(t, json.Unmarshal(bytes.ReplaceAll(first, []byte("_copy"), []byte("_new")), &own))
	own["info"].(document)["time"] = document{"created": 1795346765000.0}
	fork["messages"] = append(messages, own)
	path := filepath.Join(t.TempDir(), "opencode.db")
	db := openCodeDB(t, path)
	insert(t, db, parent, len(parent["messages"].([]any)))
	insert(t, db, fork, 7)
	for _, s := range a.record(t, otelagent.CaptureContent, a.families(t, path)...).Sessions() {
		copied := 0
		for _, r := range s.Runs {
			if r.Copied {
				copied++
			}
		}
		if want := map[bool]int{true: 1}[s.ID == "ses_fork"]; copied != want || s.ID == "ses_fork" &&
			(s.Usage.Input != 0 || s.Runs[0].ForkParentID != parent["info"].(document)["id"]) {
			t.Errorf("%s: %d copied runs, usage %+v, from %q", s.ID, copied, s.Usage, s.Runs[0].ForkParentID)
		}
	}
}

// TestOpenCodeSince reads of a database that was read before what changed: a session and those above it, but all of
// them where one is a fork, whose copies are found next to its parent.
func TestOpenCodeSince(t *testing.T) {
	a := agentOf(t, opencode.Agent.Dialect)
	path := filepath.Join(t.TempDir(), "opencode.db")
	db := openCodeDB(t, path)
	export := readDocument(t, filepath.Join(a.folder, mainExport))
	info := export["info"].(document)
	for _, id := range []string{"ses_old", "ses_parent", "ses_child"} {
		info["id"] = id
		if id == "ses_child" {
			info["parentID"] = "ses_parent"
		}
		for i, m := range export["messages"].([]any) {
			m.(document)["info"].(document)["id"] = fmt.Sprintf("%s_%d", id, i)
		}
		insert(t, db, export, 3)
	}
	must.Get(db.Exec("UPDATE session SET time_updated = 1000, time_created = 1000"))(t)
	f := a.families(t, path)[0]
	if got := f.Files[0].Sessions; !slices.Equal(got, []string{"ses_child", "ses_old", "ses_parent"}) {
		t.Errorf("the database has %v", got)
	}
	f.Files[0].Since = time.UnixMilli(5_000_000)
	read := func() (ids []string) {
		for _, s := range a.record(t, otelagent.CaptureNone, f).Sessions() {
			ids = append(ids, s.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if got := read(); got != nil {
		t.Errorf("nothing changed, and %v are read", got)
	}
	must.Get(db.Exec("UPDATE part SET time_updated = 5000000 WHERE session_id = 'ses_child' AND rowid % 2 = 0"))(t)
	if got := read(); !slices.Equal(got, []string{"ses_child", "ses_parent"}) {
		t.Errorf("a part of the child changed, and %v are read", got)
	}
	must.Get(db.Exec("UPDATE session SET time_created = 1e13 WHERE id = 'ses_child'"))(t)
	if got := read(); len(got) != 3 {
		t.Errorf("a fork changed, and %v are read", got)
	}
}

// TestOpenCodeUnread names a database that is not readable, once, and has no family of it.
func TestOpenCodeUnread(t *testing.T) {
	path := filepath.Join(t.TempDir(), "opencode.db")
	write(t, path, append([]byte("SQLite format 3\x00"), make([]byte, 4096)...))
	families, problems := transcript.Find(opencode.Agent, path)
	if len(families) != 0 || len(problems) != 1 || strings.Count(problems[0].Error(), filepath.Base(path)) != 1 {
		t.Errorf("%d families, %v", len(families), problems)
	}
	gone := transcript.Family{Files: []transcript.File{{Path: filepath.Join(t.TempDir(), "gone.json")}}}
	for _, err := range gone.Events(opencode.Agent.NewDecoder()) {
		if err == nil || strings.Count(err.Error(), "gone.json") != 1 {
			t.Errorf("error %v", err)
		}
	}
}

// place is the line at which something was seen.
var place = regexp.MustCompile(`"(end_)?seq": ?\d+,`)

// TestAgentsCut cuts files anywhere: nothing panics, turns that were over are there, but for the last one, and of lines
// only the last may be an error. The pages of a database are in no order.
func TestAgentsCut(t *testing.T) {
	t.Parallel()
	for _, a := range agents(t) {
		for _, f := range a.families(t, a.folder) {
			file := f.Files[0].Path
			text := must.Get(os.ReadFile(file))(t)
			turns := func(path string) (list []string, failed int) {
				found, _ := transcript.Find(*a.Agent, path)
				for _, f := range found {
					f.Files = f.Files[:1]
					for ev, err := range f.Events(a.new()) {
						if bad := (*input.LineError)(nil); errors.As(err, &bad) && !bad.Cut {
							failed++
						}
						if _, is := ev.(*event.TurnEnded); is {
							list = append(list, place.ReplaceAllString(agenttest.Dump(ev), ""))
						}
					}
				}
				return list, failed
			}
			whole, most := turns(file)
			cuts := 150
			if testing.Short() {
				cuts = 20
			}
			for n := 1; n < len(text); n += max(97, len(text)/cuts, len(text)*len(text)>>25) {
				path := filepath.Join(t.TempDir(), "chats", filepath.Base(file))
				write(t, path, text[:n])
				cut, failed := turns(path)
				if failed > most && filepath.Ext(path) == ".jsonl" {
					t.Errorf("%s cut at %d: %d lines are rejected", file, n, failed)
				}
				for _, turn := range cut[:max(0, len(cut)-1)] {
					if !strings.HasSuffix(file, ".db") && !slices.Contains(whole, turn) {
						t.Fatalf("%s cut at %d: %s", file, n, turn)
					}
				}
			}
		}
	}
}

// TestAgentsLinks puts a symbolic link in the place of each kind of file and folder: none is followed.
func TestAgentsLinks(t *testing.T) {
	a := agentOf(t, opencode.Agent.Dialect)
	root := filepath.Join(t.TempDir(), "opencode")
	must.Do(t, os.MkdirAll(root+"/storage", 0o755))
	for _, link := range []string{"opencode.db", "storage/session", "export-ses_x.json"} {
		target := map[string]string{"opencode.db": "generated/opencode.db",
			"storage/session": "storage-layout/storage/session", "export-ses_x.json": mainExport}[link]
		must.Do(t, os.Symlink(filepath.Join(a.folder, target), filepath.Join(root, link)))
	}
	if found, problems := transcript.Find(opencode.Agent, root); len(found) != 0 {
		t.Errorf("%d families, %v", len(found), problems)
	}
	storage := filepath.Join(t.TempDir(), "storage")
	must.Do(t, os.CopyFS(storage, os.DirFS(filepath.Join(a.folder, "storage-layout/storage"))))
	messages := must.Get(filepath.Glob(storage + "/message/*/*.json"))(t)
	secret := filepath.Join(t.TempDir(), "secret.json")
	must.Do(t, os.Rename(messages[0], secret))
	must.Do(t, os.Symlink(secret, messages[0]))
	for _, text := range a.record(t, otelagent.CaptureContent, a.families(t, storage)...).OTLP() {
		if bytes.Contains(text, []byte("Change the greeting, run it")) {
			t.Error("a message is read through a link")
		}
	}
	chats := filepath.Join(t.TempDir(), "chats")
	must.Do(t, os.MkdirAll(chats, 0o755))
	must.Do(t, os.Symlink(must.Get(filepath.Abs("gemini/testdata/entire/session-2026-01-10T02-08-faff42ab.json"))(t),
		chats+"/session-a.json"))
	if found, _ := transcript.Find(gemini.Agent, chats); len(found) != 0 {
		t.Errorf("%d families behind a link", len(found))
	}
}

// usages returns the usage of each session.
func usages(rows []session.Row) map[string]session.Usage {
	found := map[string]session.Usage{}
	for _, s := range session.AssembleAll(rows) {
		found[s.ID] = s.Usage
	}
	return found
}

// TestAgentsSums reads a folder as a whole, and each folder in it by itself: the sums of a session are the same.
func TestAgentsSums(t *testing.T) {
	t.Parallel()
	for _, a := range agents(t) {
		whole := usages(a.record(t, otelagent.CaptureNone, a.families(t, a.folder)...).Batch().Rows)
		apart := map[string]session.Usage{}
		for _, entry := range must.Get(os.ReadDir(a.folder))(t) {
			found, problems := transcript.Find(*a.Agent, filepath.Join(a.folder, entry.Name()))
			must.Do(t, errors.Join(problems...))
			for id, u := range usages(a.record(t, otelagent.CaptureNone, found...).Batch().Rows) {
				if u != whole[id] {
					t.Errorf("%s: %s has %+v in %s, %+v in the whole folder", a.Name, id, u, entry.Name(), whole[id])
				}
				apart[id] = u
			}
		}
		if len(apart) != len(whole) {
			t.Errorf("%s: %d sessions in the folder, %d in the folders in it", a.Name, len(whole), len(apart))
		}
	}
}

// TestAgentsForkAlone reads each file of a family with several sessions alone, before the whole or after it: the sums
// are in the end those of the whole. Alone, a session with runs that are copies has a defect.
func TestAgentsForkAlone(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]int{"claude-code": 2, "codex": 4, "gemini-cli": 2, "pi": 2} {
		a := agentOf(t, name)
		for _, f := range a.families(t, a.folder) {
			both := a.record(t, otelagent.CaptureNone, f).Batch().Rows
			want, copies := usages(both), map[string]bool{}
			for _, s := range session.AssembleAll(both) {
				copies[s.ID] = slices.ContainsFunc(s.Runs, func(r *session.Run) bool { return r.Copied })
			}
			for _, file := range f.Files {
				if len(want) < 2 || file.Part {
					continue
				}
				files--
				alone := a.record(t, otelagent.CaptureNone, transcript.Family{Files: []transcript.File{file}}).Batch().Rows
				for _, s := range session.AssembleAll(alone) {
					lost := func(d session.Defect) bool { return d.Detail == "parent missing" }
					if d := s.Runs[0].Defects; copies[s.ID] && !slices.ContainsFunc(d, lost) {
						t.Errorf("%s: %+v", file.Path, d)
					}
				}
				for _, all := range [][]session.Row{slices.Concat(alone, both), slices.Concat(both, alone)} {
					if diff := cmp.Diff(want, usages(all)); diff != "" {
						t.Errorf("%s (-at once +one by one)\n%s", file.Path, diff)
					}
				}
			}
		}
		if files > 0 {
			t.Errorf("%s: %d files less than expected", name, files)
		}
	}
}
