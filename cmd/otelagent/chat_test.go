package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
)

// The guide's tables are current after every clean stop of up, and after send --db.
func TestChatTables(t *testing.T) {
	count := func(db string) (sessions, parts int) {
		t.Helper()
		c, err := sql.Open("sqlite", db)
		must(t, err)
		defer c.Close()
		must(t, c.QueryRowContext(t.Context(),
			`SELECT (SELECT count(*) FROM chat_sessions), (SELECT count(*) FROM chat_parts)`).Scan(&sessions,
			&parts))
		return sessions, parts
	}
	file := demoFile(t)

	sent := filepath.Join(t.TempDir(), "sent.db")
	cli(t, "send", "--db", sent, "--capture", "content", file)
	wantSessions, wantParts := count(sent)
	if wantSessions < 1 || wantParts < 5 {
		t.Errorf("after send: %d sessions, %d parts", wantSessions, wantParts)
	}

	db := filepath.Join(t.TempDir(), "up.db")
	ctx, cancel := context.WithCancel(t.Context())
	lines, wait := start(ctx, nil, "up", "--db", db, "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0")
	endpoint := "http://" + await(t, lines, "otelagent: OTLP over gRPC on ")
	await(t, lines, "otelagent: ready")
	cli(t, "send", "--endpoint", endpoint, "--protocol", "grpc", "--capture", "content",
		file)
	cancel()
	if code := wait(); code != 0 {
		t.Fatalf("up: exit %d", code)
	}
	if sessions, parts := count(db); sessions != wantSessions || parts != wantParts {
		t.Errorf("after up: %d sessions, %d parts, want %d and %d", sessions, parts, wantSessions, wantParts)
	}
}
