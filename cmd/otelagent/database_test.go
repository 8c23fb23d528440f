package main

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oldDatabase makes the database of an older program, or of a newer one, from the SQL of it.
func oldDatabase(t *testing.T, script string) string {
	t.Helper()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.db")
	execute(t, path, string(text))
	return path
}

func execute(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

var readVerbs = [][]string{{"ls"}, {"show", "last"}, {"request", "last/0"}, {"export", "last", "--format", "json"}, {"rejects"}, {"stats"}, {"rm", "last", "--dry-run"}}

// What looks at a database changes none: it says what does.
func TestOlderAndNewerSchema(t *testing.T) {
	old := oldDatabase(t, "../../backend/store/sqlitestore/testdata/v3.sql")
	newer := oldDatabase(t, "../../backend/store/sqlitestore/testdata/v3.sql")
	execute(t, newer, "PRAGMA user_version=999")
	before, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	copying := []string{"copy", old, filepath.Join(t.TempDir(), "t.db")}
	for _, args := range append(readVerbs[:len(readVerbs):len(readVerbs)], copying) {
		if args[0] != "copy" {
			args = append(args[:len(args):len(args)], "--db", old)
		}
		code, out, errs := runWith(t, args...)
		if code != exitFailed || out != "" || !strings.HasPrefix(errs, "otelagent: "+old+" was written by an older otelagent: it has schema version 3, this one reads ") ||
			!strings.Contains(errs, "\nWhat writes brings it up to date when it opens it: 'otelagent up'") {
			t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
		}
	}
	if after, err := os.ReadFile(old); err != nil || !bytes.Equal(before, after) {
		t.Errorf("it was changed: %v", err)
	}
	for _, args := range [][]string{{"ls"}, {"rm", "x", "--yes"}, {"up", "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0"}} {
		code, _, errs := runWith(t, append(args, "--db", newer)...)
		if code != exitFailed || !strings.Contains(errs, "database has schema version 999, this program knows up to ") || !strings.Contains(errs, "use a newer program") {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
	}

	file := filepath.Join(t.TempDir(), "events.ndjson")
	if err := os.WriteFile(file, demoEvents, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runWith(t, "send", "--db", old, file); code != exitOK {
		t.Fatalf("send: exit %d: %s", code, errs)
	}
	if code, out, errs := runWith(t, "ls", "--db", old); code != exitOK || !strings.Contains(out, "0b5cf0a5") {
		t.Errorf("ls: exit %d: %s%s", code, out, errs)
	}
}

// Looking writes nothing but summaries that are behind.
func TestLookingWritesNothing(t *testing.T) {
	dir := t.TempDir()
	file, db := filepath.Join(dir, "events.ndjson"), filepath.Join(dir, "s.db")
	if err := os.WriteFile(file, demoEvents, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runWith(t, "send", "--db", db, "--capture", "content", file); code != exitOK {
		t.Fatalf("send: exit %d: %s", code, errs)
	}
	before, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	look := func(args ...string) {
		t.Helper()
		if code, _, errs := runWith(t, append(args, "--db", db)...); code != exitOK {
			t.Errorf("%v: exit %d: %s", args, code, errs)
		}
		after, err := os.ReadFile(db)
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("%v changed the database: %v", args, err)
		}
		if info, err := os.Stat(db + "-wal"); err == nil && info.Size() > 0 {
			t.Errorf("%v wrote %d bytes into its log", args, info.Size())
		}
	}
	for _, args := range readVerbs {
		if args[0] != "request" {
			look(args...)
		}
	}
	look("request", "0b5c/@1/0")
	look("export", "--all", "--format", "jsonl", "-d", filepath.Join(dir, "all"))
	if code, _, errs := runWith(t, "copy", db, filepath.Join(dir, "t.db"), "--verify"); code != exitOK {
		t.Errorf("copy: exit %d: %s", code, errs)
	}
	look("ls")

	execute(t, db, "UPDATE marks SET last = last + 1; UPDATE sessions SET mark = (SELECT last FROM marks) WHERE id LIKE 'c41d%'")
	if code, _, errs := runWith(t, "ls", "--db", db); code != exitOK {
		t.Fatalf("ls: exit %d: %s", code, errs)
	}
	if after, err := os.ReadFile(db); err != nil || bytes.Equal(before, after) {
		t.Errorf("a summary that is behind stays so: %v", err)
	}
}

// A password stands in no error and in no DSN.
func TestPasswordIsNotEchoed(t *testing.T) {
	t.Setenv(envPassword, "s3cr3t")
	for _, args := range [][]string{
		{"ls", "--db", "clickhouse://u:s3cr3t@127.0.0.1:1/d"}, {"rm", "x", "-y", "--db", "clickhouse://u:s3cr3t@127.0.0.1:1/d"},
		{"copy", "clickhouse://u:s3cr3t@127.0.0.1:1/d", "postgres://u:s3cr3t@h/d"}, {"send", "--db", "postgres://u:s3cr3t@h/d", "x"},
		{"up", "--db", "clickhouse://u:s3cr3t@127.0.0.1:1/d"}, {"up", "--db", t.TempDir(), "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0"},
	} {
		if code, out, errs := runWith(t, args...); code == exitOK || strings.Contains(out+errs, "s3cr3t") {
			t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
		}
	}
}
