package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
)

// TestFollowKin: the session of a sub-agent is found through its parent's, read once, and gone when it was erased.
func TestFollowKin(t *testing.T) {
	dir := t.TempDir()
	events, name := filepath.Join(dir, "events.ndjson"), filepath.Join(dir, "s.db")
	must(t, os.WriteFile(events, demoEvents, 0o600))
	cli(t, "send", "--db", name, "--capture", "content", events)
	const main, child = "0b5cf0a5-6d0e-4f6f-9a51-2f7d8f0f7e11", "c41d7b1e-93a2-4a0e-8f55-6b7a1f0d2c90"
	show := cli(t, "show", main, "--follow", "--db", name)
	for _, want := range []string{" 1│ sub-agent 1 · by researcher(", " 1│ turn 0 · ",
		" 1│ sub-agent 1 · completed · "} {
		if strings.Count(show, want) != 1 {
			t.Errorf("not once %q in\n%s", want, show)
		}
	}

	a := &app{}
	db, err := a.open(t.Context(), name)
	must(t, err)
	defer db.close()
	s, err := db.Tree(t.Context(), session.Key{ID: main})
	must(t, err)
	c := &changes{db: db, last: map[session.Key]readAt{}}
	first, err := db.Related(t.Context(), s, c.read)
	if err != nil || !c.changed || len(first) != 1 || first[0].ID != child {
		t.Fatalf("%v %v %v", first, c.changed, err)
	}
	c.changed = false
	again, err := db.Related(t.Context(), s, c.read)
	if err != nil || c.changed || len(again) != 1 || again[0].Session != first[0].Session {
		t.Errorf("nothing came, and it was read again: %v %v", c.changed, err)
	}
	cli(t, "rm", child, "--only", "--yes", "--db", name)
	if left, err := db.Related(t.Context(), s, c.read); err != nil || len(left) != 0 {
		t.Errorf("erased: %v %v", left, err)
	}
}
