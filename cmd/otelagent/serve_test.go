package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/spans"
)

// fetch asks a viewer and returns its answer.
func fetch(t testing.TB, base, path string, edit ...func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(base, "/")+path, nil)
	must(t, err)
	for _, f := range edit {
		f(r)
	}
	resp, err := (&http.Client{CheckRedirect: func(*http.Request,
		[]*http.Request) error {
		return http.ErrUseLastResponse
	}}).Do(r)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(b)
}

// sampleDatabase holds the demo and a session of the agent guide, with all content.
func sampleDatabase(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.db")
	file := demoFile(t)
	for _, f := range []string{file, "../../dialects/guide/testdata/session.jsonl"} {
		cli(t, "send", "--db", path, "--capture", "content", f)
	}
	return path
}

// addDead adds a session whose process was killed a long time ago in its first turn.
func addDead(t testing.TB, path, id string) {
	t.Helper()
	st, err := sqlitestore.Open(t.Context(), path)
	must(t, err)
	defer st.Close()
	const start = 1_760_000_000_000_000_000
	row := session.Row{
		Trace: session.TraceID{1}, Span: session.SpanID{1}, Session: session.Key{ID: id}, Run: "r1", RunStart: start,
		Turn: session.NoTurn, Kind: session.KindRun,
		Known: spans.KnownLive, Start: start, End: start + 1e9,
		Attrs: []session.Attr{{Key: string(spans.LiveHeartbeatKey), Value: session.IntValue(15e9)}},
	}
	turn := row
	turn.Span, turn.Parent, turn.Turn, turn.Kind = session.SpanID{2}, row.Span, 0, session.KindTurn
	must(t, st.Put(t.Context(), session.Batch{Rows: []session.Row{row, turn}}))
	must(t, project.Refresh(t.Context(), st))
}

// The API returns the documents that the command line prints, byte for byte.
func TestServeSaysWhatTheCommandsSay(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	defer http.DefaultClient.CloseIdleConnections()
	db := sampleDatabase(t)
	const dead = "dead1"
	addDead(t, db, dead)
	ctx, cancel := context.WithCancel(t.Context())
	lines, wait := start(ctx, nil, "up", "--read-only", "--db", db, "--viewer", "127.0.0.1:0", "--link-jaeger",
		"http://127.0.0.1:16686/trace/{trace}")
	base := await(t, lines, "otelagent: the viewer of "+db+" is on ")
	await(t, lines, "otelagent: ready")

	const guide = "ses_1fbd4f500000Ky9Pf34qY6Nb3w"
	for path, args := range map[string][]string{
		"ls?archived=1":                            {"ls", "--archived", "include"},
		"ls?limit=1":                               {"ls", "--limit", "1"},
		"ls?q=inspector&errors=0":                  {"ls", "inspector"},
		"ls?agent=code&status=idle,error":          {"ls", "--agent", "code", "--status", "idle,error"},
		"show/" + demoSession:                      {"show", demoSession},
		"show/" + demoSession + "/@1":              {"show", demoSession + "/@1"},
		"show/" + demoSession + "/@1/1":            {"show", demoSession + "/@1/1"},
		"show/last":                                {"show", "last"},
		"show/" + guide:                            {"show", guide},
		"show/" + dead:                             {"show", dead},
		"show/" + dead + "/@1/0":                   {"show", dead + "/@1/0"},
		"ls?status=aborted":                        {"ls", "--status", "aborted"},
		"status/" + dead:                           {"status", dead},
		"status/" + demoSession:                    {"status", demoSession},
		"request/" + demoSession + "/@1/2":         {"request", demoSession + "/@1/2"},
		"request/0b5c/@1/2?diff=@1/1":              {"request", "0b5c/@1/2", "--diff", "0b5c/@1/1"},
		"stats":                                    {"stats"},
		"stats?by=tool&session=" + demoSession[:8]: {"stats", "--by", "tool", "--session", demoSession[:8]},
		"diff?a=0b5c/@1/1&b=0b5c/@1/2":             {"diff", "0b5c/@1/1", "0b5c/@1/2"},
		"diff?a=0b5c&b=" + guide + "&ignore=usage": {"diff", "0b5c", guide, "--ignore", "usage"},
		"replay/" + demoSession + "/@1/2":          {"request", demoSession + "/@1/2", "--check"},
		"replay/0b5c/@1/2?form=openai-chat":        {"request", "0b5c/@1/2", "--as", "openai-chat"},
		"grep?q=refactor":                          {"grep", "refactor"},
		"grep?q=REFACTOR&ignore_case=1&session=" + demoSession + "&limit=3": {"grep", "REFACTOR", demoSession, "-i",
			"--limit", "3"},
	} {
		status, got := fetch(t, base, "/api/v1/"+path)
		code, want, errs := runWith(t, append(args, "--db", db, "--output", "json")...)
		if status != http.StatusOK || code == exitUsage || got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s: %d, %.400s\n%v: exit %d %s, %.400s", path, status, got, args, code, errs, want)
		}
	}
	if _, got := fetch(t, base, "/api/v1/show/"+dead); !strings.Contains(got, `"status": "aborted"`) {
		t.Errorf("a dead session: %s", got)
	}
	_, raw := fetch(t, base, "/api/v1/request/"+demoSession+"/@1/2?raw=1")
	if _, want, _ := runWith(t, "request", demoSession+"/@1/2", "--db", db); raw != want {
		t.Errorf("raw: %.300s, want %.300s", raw, want)
	}
	if status, page := fetch(t, base, "/s/"+url.PathEscape(demoSession)+"/@1/1"); status != 200 ||
		!strings.Contains(page, "<script") {
		t.Errorf("page: %d %.200s", status, page)
	}
	if status, about := fetch(t, base, "/api/v1/about"); status != 200 || !strings.Contains(about,
		`"jaeger": "http://127.0.0.1:16686/trace/{trace}"`) {
		t.Errorf("about: %d %s", status, about)
	}
	cancel()
	if code := wait(); code != exitOK {
		t.Errorf("exit %d", code)
	}
}

// Where others than this machine reach it nothing is served without a token. viewer.txtar has what hinders its start.
func TestServeToken(t *testing.T) {
	db := sampleDatabase(t)
	t.Setenv(envToken, "")
	readable := filepath.Join(t.TempDir(), "readable")
	must(t, os.WriteFile(readable, []byte("0123456789abcdef\n"), 0o644))
	// no address of this machine
	args := []string{"up", "--read-only", "--db", db, "--viewer", "192.0.2.1:0", "--token-file", readable}
	if _, _, errs := runWith(t, args...); !strings.Contains(errs, "other users can read the token") {
		t.Errorf("no warning: %s", errs)
	}
	const token = "0123456789abcdef"
	t.Setenv(envToken, token)
	ctx, cancel := context.WithCancel(t.Context())
	lines, wait := start(ctx, nil, "up", "--read-only", "--db", db, "--viewer", "0.0.0.0:0")
	base := await(t, lines, "otelagent: the viewer of "+db+" is on ")
	if status, text := fetch(t, base, "/api/v1/ls"); status != http.StatusUnauthorized ||
		strings.Contains(text, demoSession) {
		t.Errorf("without: %d %s", status, text)
	}
	if status, _ := fetch(t, base, "/?token="+token); status != http.StatusSeeOther {
		t.Errorf("login: %d", status)
	}
	if status, _ := fetch(t, base, "/api/v1/ls", func(r *http.Request) {
		r.Header.Set("Authorization",
			"Bearer "+token)
	}); status != 200 {
		t.Errorf("with: %d", status)
	}
	if status, _ := fetch(t, base, "/api/v1/ls",
		func(r *http.Request) { r.Host = "devbox"; r.Header.Set("Authorization", "Bearer "+token) }); status != 200 {
		t.Errorf("by name: %d", status)
	}
	if status, _ := fetch(t, base, "/api/v1/ls",
		func(r *http.Request) { r.Host = "evil.example" }); status != http.StatusUnauthorized {
		t.Errorf("another name, without: %d", status)
	}
	cancel()
	if code := wait(); code != exitOK {
		t.Errorf("exit %d", code)
	}
}

// Up shows what comes; where the address is taken that nobody asked for it goes on without, and says so. At its end the
// database is one file, though a page listens.
func TestUpViewer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	defer http.DefaultClient.CloseIdleConnections()
	db := filepath.Join(t.TempDir(), "s.db")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up := []string{"up", "--db", db, "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0"}
	lines, wait := start(ctx, nil, append(up, "--viewer", "127.0.0.1:0")...)
	grpc := await(t, lines, "otelagent: OTLP over gRPC on ")
	base := await(t, lines, "otelagent: the viewer is on ")
	await(t, lines, "otelagent: ready")
	if status, text := fetch(t, base, "/api/v1/ls"); status != 200 || !strings.Contains(text, `"sessions": []`) {
		t.Errorf("%d %s", status, text)
	}
	if code, _, errs := command(t, bytes.NewReader(demoEvents), "send", "--capture", "content", "--endpoint",
		"http://"+grpc); code != exitOK {
		t.Fatalf("send: exit %d: %s", code, errs)
	}
	if status, text := fetch(t, base, "/api/v1/ls"); status != 200 || !strings.Contains(text, demoSession) {
		t.Errorf("%d %s", status, text)
	}

	taken := strings.Trim(strings.TrimPrefix(base, "http://"), "/")
	code, _, said := runWith(t, append(up, "--viewer", taken)...)
	if code != exitFailed || !strings.Contains(said, taken+" is already in use, perhaps by another viewer") {
		t.Errorf("asked for: exit %d: %s", code, said)
	}
	var errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &errs, dbs: []string{db}}
	opened, err := a.open(t.Context())
	must(t, err)
	var none errgroup.Group
	err = a.startViewer(t.Context(), &none, &upFlags{addr: taken}, opened)
	if opened.close(); err != nil || none.Wait() != nil ||
		!strings.Contains(errs.String(), "no viewer: "+taken+" is already in use") {
		t.Errorf("not asked for: %v: %s", err, errs.String())
	}
	page, err := http.Get(base + "api/v1/events")
	must(t, err)
	defer page.Body.Close()
	cancel()
	if code := wait(); code != exitOK {
		t.Errorf("exit %d", code)
	}
	if left, _ := filepath.Glob(db + "-*"); len(left) > 0 {
		t.Errorf("left next to the database: %v", left)
	}
}

// A configuration of the user's goes with the viewer of the database that it names.
func TestUpConfigWithViewer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	defer http.DefaultClient.CloseIdleConnections()
	dir := t.TempDir()
	db, config := filepath.Join(dir, "s.db"), filepath.Join(dir, "collector.yaml")
	text := builtinConfig(collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: db})
	must(t, os.WriteFile(config, []byte(text), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines, wait := start(ctx, nil, "up", "--config", config, "--db", db, "--viewer", "127.0.0.1:0")
	base := await(t, lines, "otelagent: the viewer is on ")
	await(t, lines, "otelagent: ready")
	if status, text := fetch(t, base, "/api/v1/ls"); status != http.StatusOK || !strings.Contains(text, `"sessions": []`) {
		t.Errorf("%d %s", status, text)
	}
	cancel()
	if code := wait(); code != exitOK {
		t.Errorf("exit %d", code)
	}
}

// A shell completes the ids of sessions.
func TestCompletion(t *testing.T) {
	db := sampleDatabase(t)
	for _, verb := range []string{"show", "request", "export", "rm"} {
		if _, out, errs := runWith(t, "__complete", verb, "--db", db, "0b5"); !strings.HasPrefix(out, demoSession+"\n") {
			t.Errorf("%s: %s%s", verb, out, errs)
		}
	}
}
