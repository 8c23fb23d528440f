package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
)

// said is content of every kind in the recording of the demo; nothing of it is a name, an id or a number.
var said = []string{
	"careful coding agent", "user prefers short answers", "Why does the add test fail", "I should look at the file",
	"Let me look at the code",
	"cargo test -p missing", "no such target", "pub fn add", "Run a shell command", "Find out when add() broke",
	"evidence line", "one-character bug",
	"payment card", "running: cargo",
}

// tuned returns --config with a file of these settings.
func tuned(t testing.TB, settings string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "send.yaml")
	must(t, os.WriteFile(path, []byte(settings), 0o600))
	return []string{"--config", path}
}

// sendAll sends a recording with args.
func sendAll(tb testing.TB, events io.Reader, args ...string) {
	tb.Helper()
	if code, _, errs := command(tb, events, append([]string{"send", "-", "--replay"}, args...)...); code != exitOK {
		tb.Fatalf("send %v: exit %d: %s", args, code, errs)
	}
}

// wire is what a send brings over the network.
func wire(t *testing.T, events io.Reader, args ...string) string {
	t.Helper()
	return received(t, func(url string) {
		sendAll(t, events, append(args, "--protocol", "http/protobuf", "--endpoint", url)...)
	})
}

// received is what send sends to the URL of a receiver over HTTP.
func received(t *testing.T, send func(url string)) string {
	t.Helper()
	var b bytes.Buffer
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(body)
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.Copy(&b, body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer server.Close()
	send(server.URL)
	mu.Lock()
	defer mu.Unlock()
	return b.String()
}

// kept is everything that a send brought somewhere: into the file of a database as it lies there, out of it by its own
// reading, and over the wire.
func kept(t *testing.T, events []byte, args ...string) string {
	t.Helper()
	var b bytes.Buffer
	db := filepath.Join(t.TempDir(), "s.db")
	sendAll(t, bytes.NewReader(events), append(args, "--db", db)...)
	for _, name := range []string{db, db + "-wal"} {
		raw, _ := os.ReadFile(name) // the log may be gone
		b.Write(raw)
	}
	st, err := sqlitestore.Open(t.Context(), db)
	must(t, err)
	defer st.Close()
	for s, err := range st.Sessions(t.Context(), store.Query{}) {
		must(t, err)
		fmt.Fprintf(&b, "%+v\n", s)
		for row, err := range st.Rows(t.Context(), s.Key) {
			must(t, err)
			b.Write(row.AppendCanonical(nil))
		}
		for block, err := range st.Blocks(t.Context(), s.Key) {
			must(t, err)
			b.WriteString(block.Body + "\n")
		}
	}
	b.WriteString(wire(t, bytes.NewReader(events), args...))
	return b.String()
}

// Without --capture content nothing that anybody wrote goes anywhere; with it everything does, so the search finds
// what is there.
func TestCaptureLevels(t *testing.T) {
	for level, want := range map[string]bool{"none": false, "digests": false, "content": true} {
		all := kept(t, demoEvents, "--capture", level)
		for _, text := range said {
			if strings.Contains(all, text) != want {
				t.Errorf("--capture %s: %q is there: %v", level, text, !want)
			}
		}
	}
}

// Another level for one session, or for one agent.
func TestCaptureFor(t *testing.T) {
	const inMain, inOther = "Why does the add test fail", "You are a research assistant."
	for _, rule := range []string{"session: " + demoSession, "agent: 3f0c9a52-1c1b-4a39-b5f2-77c0a7c3d001"} {
		all := kept(t, demoEvents, tuned(t, "capture_for: [{"+rule+", capture: content}]")...)
		if !strings.Contains(all, inMain) || strings.Contains(all, inOther) {
			t.Errorf("%s: main %v, other %v", rule, strings.Contains(all, inMain), strings.Contains(all, inOther))
		}
	}
	all := kept(t, demoEvents, append(tuned(t, "capture_for: [{session: "+demoSession+", capture: none}]"),
		"--capture", "content")...)
	if strings.Contains(all, inMain) {
		t.Error("a session that is to be left out is there")
	}
}

// secrets go nowhere: neither what the default set knows, nor what a file of rules says.
func TestRedact(t *testing.T) {
	const key, customer = "sk-ant-api03-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA", "CUST-123456"
	events := bytes.ReplaceAll(demoEvents, []byte("Why does the add test fail?"),
		[]byte("Why does "+key+" of "+customer+" fail?"))
	if !bytes.Contains(events, []byte(key)) {
		t.Fatal("the recording has changed")
	}
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	must(t, os.WriteFile(rules, []byte("rules:\n  - name: customer\n    regexp: 'CUST-\\d{6}'\n"), 0o600))
	for _, test := range []struct {
		args                        []string
		key, customer, mark, tagged bool
	}{
		{nil, true, true, false, false},
		{[]string{"--redact", "default"}, false, true, true, false},
		{[]string{"--redact", rules}, false, false, true, true},
	} {
		all := kept(t, events, append(test.args, "--capture", "content")...)
		if strings.Contains(all, key) != test.key || strings.Contains(all, customer) != test.customer ||
			strings.Contains(all, "[redacted:api-key]") != test.mark || strings.Contains(all,
			"[redacted:customer]") != test.tagged {
			t.Errorf("%v: key %v, customer %v, marks %v and %v", test.args, strings.Contains(all, key),
				strings.Contains(all, customer),
				strings.Contains(all, "[redacted:api-key]"), strings.Contains(all, "[redacted:customer]"))
		}
	}
}
