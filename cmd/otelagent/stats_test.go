package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stats --sql prints the statements and projects nothing, unless it looks for a session.
func TestStatsSQL(t *testing.T) {
	dir := t.TempDir()
	file, db := filepath.Join(dir, "events.ndjson"), filepath.Join(dir, "x.db")
	if err := os.WriteFile(file, demoEvents, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runWith(t, "send", "--db", db, file); code != exitOK {
		t.Fatalf("send: exit %d: %s", code, errs)
	}
	execute(t, db, "UPDATE sessions SET projected = mark - 1")
	before, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := runWith(t, "stats", "--db", db, "--sql", "--agent", "a\x1b[2Jb")
	if code != exitOK || strings.Count(out, ";\n") != 4 || strings.Contains(out, "\x1b") {
		t.Errorf("exit %d: %q %s", code, out, errs)
	}
	if after, err := os.ReadFile(db); err != nil || !bytes.Equal(before, after) {
		t.Errorf("it was changed: %v", err)
	}
	if code, out, errs := runWith(t, "stats", "--db", db, "--sql", "--session", "last"); code != exitOK || !strings.Contains(out, "f.session = (SELECT session") {
		t.Errorf("exit %d: %q %s", code, out, errs)
	}
}
