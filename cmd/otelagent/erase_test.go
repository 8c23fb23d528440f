package main

import (
	"bytes"
	"context"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// values are all texts and blobs of all tables of a database, by what they are.
func values(t *testing.T, path string) map[string]bool {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ok := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	names, err := db.QueryContext(t.Context(), `SELECT name FROM sqlite_schema WHERE type = 'table'`)
	ok(err)
	defer names.Close()
	out := map[string]bool{}
	for names.Next() {
		var table string
		ok(names.Scan(&table))
		rows, err := db.QueryContext(t.Context(), `SELECT * FROM "`+table+`"`)
		ok(err)
		columns, err := rows.Columns()
		ok(err)
		for rows.Next() {
			row := make([]any, len(columns))
			to := make([]any, len(columns))
			for i := range row {
				to[i] = &row[i]
			}
			ok(rows.Scan(to...))
			for _, v := range row {
				switch v := v.(type) {
				case string:
					out[v] = true
				case []byte:
					out[string(v)] = true
				}
			}
		}
		ok(rows.Err())
		rows.Close()
	}
	ok(names.Err())
	return out
}

// onDisk is every byte of a database and of the files next to it.
func onDisk(t *testing.T, path string) []byte {
	t.Helper()
	var all []byte
	err := filepath.WalkDir(filepath.Dir(path), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(p)
		all = append(all, raw...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What rm erased is nowhere in the file, nor in its log, also while a collector is writing to it; what else is there
// stays as it is.
func TestErasedIsGoneFromTheDisk(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	db := filepath.Join(t.TempDir(), "s.db")
	ctx, cancel := context.WithCancel(t.Context())
	lines, wait := start(ctx, nil, "up", "--db", db, "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0")
	endpoint := "http://" + await(t, lines, "otelagent: OTLP over gRPC on ")
	await(t, lines, "otelagent: ready")
	send := func(text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "events.ndjson")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := runWith(t, "send", "--endpoint", endpoint, "--protocol", "grpc", "--capture", "content",
			file); code != exitOK {
			t.Fatalf("send: exit %d: %s", code, errs)
		}
	}
	// The same session under another id, with its prompts and tools, and other replies: what both have alike stays.
	stays := strings.NewReplacer("0b5cf0a5", "11111111", "c41d7b1e", "22222222", "careful", "careless", "subtracts",
		"divides").Replace(string(demoEvents))
	send(stays)
	if code, _, errs := runWith(t, "ls", "--db", db); code != exitOK { // brings the guide's tables up to date too
		t.Fatalf("ls: exit %d: %s", code, errs)
	}
	shown := func() (out string) {
		t.Helper()
		for _, args := range [][]string{{"show", "1111", "--output", "json"}, {"show", "1111"},
			{"export", "1111", "--format", "jsonl", "--partial"}, {"show", "2222", "--output", "json"}} {
			code, text, errs := runWith(t, append(args, "--db", db)...)
			if code != exitOK {
				t.Fatalf("%v: exit %d: %s", args, code, errs)
			}
			out += text
		}
		return out
	}
	want := shown()
	send(string(demoEvents))
	if code, _, errs := runWith(t, "show", "0b5c", "--db", db); code != exitOK {
		t.Fatalf("show: exit %d: %s", code, errs)
	}
	before := values(t, db)

	code, out, errs := runWith(t, "rm", "0b5c", "--yes", "--vacuum", "--db", db)
	if code != exitOK || strings.Count(out, "erased ") != 2 {
		t.Fatalf("rm: exit %d: %s%s", code, out, errs)
	}
	check := func(when string) {
		t.Helper()
		after, disk := values(t, db), onDisk(t, db)
		var left bytes.Buffer
		for v := range after {
			left.WriteString(v + "\x00")
		}
		needles := 0
		for v := range before {
			v = v[:min(len(v), 40)] // longer ones go over several pages
			if len(v) < 8 || bytes.Contains(left.Bytes(), []byte(v)) {
				continue
			}
			needles++
			if bytes.Contains(disk, []byte(v)) {
				t.Errorf("%s: %q is still there", when, v)
			}
		}
		for _, v := range []string{"0b5cf0a5-6d0e", "c41d7b1e-93a2", "You are a careful coding agent",
			"add() subtracts instead"} {
			if bytes.Contains(disk, []byte(v)) {
				t.Errorf("%s: %q is still there", when, v)
			}
		}
		if needles < 50 || !bytes.Contains(disk, []byte("You are a careless coding agent")) {
			t.Errorf("%s: only %d needles", when, needles)
		}
		if got := shown(); got != want {
			t.Errorf("%s: what stays is not what it was:\n%s\nbut\n%s", when, want, got)
		}
	}
	check("while the collector runs")
	cancel()
	if code := wait(); code != exitOK {
		t.Fatalf("up: exit %d", code)
	}
	check("after it stopped")
	if code, out, _ := runWith(t, "ls", "--db", db); code != exitOK || strings.Contains(out, "0b5c") {
		t.Errorf("ls: exit %d\n%s", code, out)
	}
}
