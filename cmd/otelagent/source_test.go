package main

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A file is followed as it grows: what comes later is sent, half lines wait for their rest, and the whole file sent
// at once gives the same.
func TestFollow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, followed, whole := filepath.Join(dir, "events.ndjson"), filepath.Join(dir, "followed.db"),
		filepath.Join(dir, "whole.db")
	lines := bytes.SplitAfter(demoEvents, []byte("\n"))
	first := bytes.Join(lines[:40], nil)
	must(t, os.WriteFile(path, append(first, lines[40][:20]...), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var said bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &said, stderr: &said}
	go func() {
		_, err := a.deliver(ctx, sendOptions{From: auto, Files: []string{path}, Follow: true, DB: followed,
			Capture: "content"})
		done <- err
	}()
	time.Sleep(2 * pollTime)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	for _, piece := range [][]byte{lines[40][20:], bytes.Join(lines[41:], nil)} {
		if _, err := f.Write(piece); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * pollTime)
	}
	f.Close()
	stop()
	if err := <-done; err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if _, err := a.deliver(t.Context(), sendOptions{Files: []string{path}, DB: whole,
		Capture: "content"}); err != nil {
		t.Fatal(err)
	}
	got, want := shown(t, followed), shown(t, whole)
	if got != want || !strings.Contains(got, "0b5cf0a5") {
		t.Errorf("followed:\n%s\nwhole:\n%s", got, want)
	}
}

// Following that stops while a line is being written has missed nothing: that line is not there yet. One that was
// written wrong is.
func TestFollowEndsInsideALine(t *testing.T) {
	t.Parallel()
	lines := bytes.SplitAfter(demoEvents, []byte("\n"))
	whole, half := bytes.Join(lines[:40], nil), lines[40][:20]
	for _, test := range []struct {
		name, says string
		content    [][]byte
		want       int
	}{
		{"inside a line", "ends inside a line that is still being written", [][]byte{whole, half}, exitOK},
		{"behind one that was cut", "1 line rejected", [][]byte{whole, half, []byte("\n")}, exitPartial},
		{"both", "1 line rejected", [][]byte{whole, half, []byte("\n"), half}, exitPartial},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "events.ndjson")
			must(t, os.WriteFile(path, bytes.Join(test.content, nil), 0o600))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var errs lockedBuffer
			time.AfterFunc(3*pollTime, stop)
			code := run(ctx, []string{"send", "-F", path, "--db", filepath.Join(dir, "s.db")}, strings.NewReader(""),
				io.Discard, &errs)
			if code != test.want || !strings.Contains(errs.String(), test.says) || !strings.Contains(errs.String(),
				"sent 40 events") {
				t.Errorf("exit %d: %s", code, &errs)
			}
		})
	}
}

// lockedBuffer is what several goroutines write to, as they may to the standard error of a process.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// shown is the last session of a database as JSON.
func shown(t *testing.T, db string) string {
	t.Helper()
	var out bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &out}
	c := a.root()
	c.SetArgs([]string{"show", "--db", db, "--output", "json", "last"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return out.String()
}

// A followed file of clark-agent is read as far as it is there, however little that is.
func TestFollowWaitsForNoMore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.ndjson")
	must(t, os.WriteFile(path, []byte(`{"type":"agent_start"}`+"\n"), 0o600))
	a, quit := &app{stderr: io.Discard}, make(chan struct{})
	giveUp := time.AfterFunc(10*time.Second, func() { close(quit) })
	in, err := (&sendOptions{From: auto, Files: []string{path}, Follow: true}).open(a, quit)
	must(t, err)
	in.close()
	if !giveUp.Stop() {
		t.Error("it waits for more of the file")
	}
}

// A file that is written anew while it is followed is an error: its beginning was sent already.
func TestFollowTruncated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "events.ndjson")
	must(t, os.WriteFile(path, demoEvents, 0o600))
	a := &app{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	done := make(chan error, 1)
	go func() {
		_, err := a.deliver(t.Context(), sendOptions{Files: []string{path}, Follow: true, DB: filepath.Join(dir, "x.db")})
		done <- err
	}()
	time.Sleep(2 * pollTime)
	must(t, os.Truncate(path, 10))
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "became shorter") {
			t.Errorf("%v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
}

// chatTables is the agent guide's schema as far as it is read.
const chatTables = `
CREATE TABLE chat_sessions(id TEXT PRIMARY KEY, agent TEXT, workspace_root TEXT, model_json TEXT, parent_id TEXT,` +
	` parent_message_id TEXT,
	permissions_json TEXT, metadata_json TEXT, prompt_tokens INTEGER, completion_tokens INTEGER,` +
	` reasoning_tokens INTEGER, cache_read INTEGER,
	cache_write INTEGER, total_tokens INTEGER, cost_usd REAL, created_at INTEGER, updated_at INTEGER, archived_at INTEGER);
CREATE TABLE chat_messages(id TEXT PRIMARY KEY, session_id TEXT, role TEXT, metadata_json TEXT, created_at INTEGER,` +
	` updated_at INTEGER);
CREATE TABLE chat_parts(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, "index" INTEGER, type TEXT,` +
	` data_json TEXT, tool_call_id TEXT,
	tool_state TEXT, created_at INTEGER, updated_at INTEGER);
INSERT INTO chat_sessions VALUES('ses_1','code',NULL,'{"provider_id":"p","model_id":"m"}',NULL,NULL,'[]','{}',` +
	`0,0,0,0,0,0,0,1795255200000,1795255200000,NULL);
INSERT INTO chat_messages VALUES('msg_1','ses_1','user','{}',1795255200000,1795255200000);
INSERT INTO chat_parts VALUES('prt_1','msg_1','ses_1',0,'text','{"type":"text","text":"hi"}',NULL,NULL,` +
	`1795255200000,1795255200000);`

// A database of the guide's tables is read, and not followed.
func TestSendDatabase(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "chat.sqlite"), filepath.Join(dir, "to.db")
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	if _, err := db.Exec(chatTables); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &said, stderr: &said}
	send := func(ctx context.Context, o sendOptions) error {
		o.Files, o.Capture = []string{path}, "content"
		_, err := a.deliver(ctx, o)
		return err
	}
	if err := send(t.Context(), sendOptions{From: "acp", DB: to}); err == nil ||
		!strings.Contains(err.Error(), "is an SQLite file of guide, not of acp") {
		t.Errorf("%v", err)
	}
	must(t, send(t.Context(), sendOptions{DB: to}))
	if before := shown(t, to); !strings.Contains(before, "ses_1") || !strings.Contains(said.String(),
		"guide (an SQLite file)") {
		t.Errorf("%s\n%s", before, said.String())
	}
	if err := send(t.Context(), sendOptions{DB: to, Follow: true}); err == nil ||
		!strings.Contains(err.Error(), "--follow is for a file of lines") {
		t.Errorf("%v", err)
	}
}
