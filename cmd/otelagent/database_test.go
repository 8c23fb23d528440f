package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func execute(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

var readVerbs = [][]string{{"ls"}, {"show", "last"}, {"request", "last/0"}, {"export", "last", "--format", "json"},
	{"stats"}, {"rm", "last", "--dry-run"}}

// A database of another schema version is refused and not changed; the error says which version it has,
// which one is wanted, and what to do.
func TestOlderAndNewerSchema(t *testing.T) {
	dir := t.TempDir()
	file, db := filepath.Join(dir, "events.ndjson"), filepath.Join(dir, "s.db")
	must(t, os.WriteFile(file, demoEvents, 0o600))
	cli(t, "send", "--db", db, file)
	verbs := append(readVerbs[:len(readVerbs):len(readVerbs)], []string{"rm", "x", "--yes"},
		[]string{"up", "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0"}, []string{"send", file})
	for version, do := range map[int]string{3: "cannot be read: record into a new database", 999: "use a newer program"} {
		execute(t, db, fmt.Sprintf("PRAGMA user_version=%d", version))
		before, err := os.ReadFile(db)
		must(t, err)
		refused := func(args ...string) {
			t.Helper()
			code, _, errs := runWith(t, args...)
			want := fmt.Sprintf("database has schema version %d, this program wants version ", version)
			if code != exitFailed || !strings.Contains(errs, want) || !strings.Contains(errs, do) ||
				!strings.Contains(errs, db) {
				t.Errorf("%v: exit %d: %s", args, code, errs)
			}
		}
		for _, args := range verbs {
			refused(append(args[:len(args):len(args)], "--db", db)...)
		}
		refused("copy", db, filepath.Join(dir, "t.db"))
		if after, err := os.ReadFile(db); err != nil || !bytes.Equal(before, after) {
			t.Errorf("it was changed: %v", err)
		}
	}
}

// Looking writes nothing but summaries that are behind.
func TestLookingWritesNothing(t *testing.T) {
	dir := t.TempDir()
	file, db := filepath.Join(dir, "events.ndjson"), filepath.Join(dir, "s.db")
	must(t, os.WriteFile(file, demoEvents, 0o600))
	cli(t, "send", "--db", db, "--capture", "content", file)
	before, err := os.ReadFile(db)
	must(t, err)
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
	look("export", "--all", "--format", "jsonl", "-o", filepath.Join(dir, "all"))
	cli(t, "copy", db, filepath.Join(dir, "t.db"))
	look("ls")

	execute(t, db, "UPDATE marks SET last = last + 1; UPDATE sessions SET mark = (SELECT last FROM marks) WHERE id "+
		"LIKE 'c41d%'")
	cli(t, "ls", "--db", db)
	if after, err := os.ReadFile(db); err != nil || bytes.Equal(before, after) {
		t.Errorf("a summary that is behind stays so: %v", err)
	}
}

// A password is in no error and in no DSN.
func TestPasswordIsNotEchoed(t *testing.T) {
	t.Setenv(envPassword, "s3cr3t")
	for _, args := range [][]string{
		{"ls", "--db", "clickhouse://u:s3cr3t@127.0.0.1:1/d"}, {"rm", "x", "-y", "--db",
			"clickhouse://u:s3cr3t@127.0.0.1:1/d"},
		{"copy", "clickhouse://u:s3cr3t@127.0.0.1:1/d", "postgres://u:s3cr3t@h/d"},
		{"send", "--db", "postgres://u:s3cr3t@h/d", "x"},
		{"up", "--db", "clickhouse://u:s3cr3t@127.0.0.1:1/d"}, {"up", "--db", t.TempDir(), "--otlp-grpc", "127.0.0.1:0",
			"--otlp-http", "127.0.0.1:0"},
	} {
		if code, out, errs := runWith(t, args...); code == exitOK || strings.Contains(out+errs, "s3cr3t") {
			t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
		}
	}
}
