package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/message"
)

// secret is a key that must be nowhere but in the header of the request that it authorizes.
const secret = "sk-test-0123456789/abc+def"

// provider is a fake provider on loopback: it answers in the form that its path names, and keeps what it was sent.
type provider struct {
	*httptest.Server
	mu      sync.Mutex
	asked   []*http.Request
	bodies  []string
	respond func(w http.ResponseWriter, r *http.Request) // instead of an answer
}

func newProvider(t *testing.T, respond func(w http.ResponseWriter, r *http.Request)) *provider {
	t.Helper()
	p := &provider{respond: respond}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	p.asked, p.bodies = append(p.asked, r), append(p.bodies, string(body))
	p.mu.Unlock()
	if p.respond != nil {
		p.respond(w, r)
		return
	}
	name := map[string]string{"/v1/messages": "anthropic", "/v1/chat/completions": "openai-chat",
		"/v1/responses": "openai-responses"}[r.URL.Path]
	raw, err := os.ReadFile(filepath.Join(repository, "backend/session/replay/testdata/answers", name+".json"))
	if err != nil {
		http.Error(w, `{"error":{"type":"not_found_error","message":"no such path"}}`, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(raw)
}

// demoDatabase is a database with the sessions of the demo in it, with all their content.
func demoDatabase(t *testing.T) string {
	t.Helper()
	db := filepath.Join(t.TempDir(), "s.db")
	sendAll(t, bytes.NewReader(demoEvents), "--capture", "content", "--db", db)
	return db
}

// In each form the body that --form prints is what is sent, with the key and where it belongs, and the answer is
// read and compared.
func TestReplaySend(t *testing.T) {
	db := demoDatabase(t)
	for _, tt := range []struct {
		form, path, header, value string
	}{
		{"anthropic", "/v1/messages", "X-Api-Key", secret},
		{"openai-chat", "/v1/chat/completions", "Authorization", "Bearer " + secret},
		{"openai-responses", "/v1/responses", "Authorization", "Bearer " + secret},
	} {
		t.Run(tt.form, func(t *testing.T) {
			p := newProvider(t, nil)
			t.Setenv("ANTHROPIC_API_KEY", secret)
			t.Setenv("OPENAI_API_KEY", secret)
			_, body, _ := runWith(t, "request", "0b5c/@1/0", "--db", db, "--as", tt.form)
			code, out, errs := runWith(t, "request", "0b5c/@1/0", "--db", db, "--as", tt.form, "--send", p.URL, "--output",
				"json")
			if code != exitOK {
				t.Fatalf("exit %d: %s", code, errs)
			}
			if len(p.asked) != 1 || p.asked[0].Method != http.MethodPost || p.asked[0].URL.Path != tt.path ||
				p.bodies[0] != body || body == "" {
				t.Errorf("asked %v with\n%s\nwant %s with\n%s", p.asked, p.bodies, tt.path, body)
			}
			if got := p.asked[0].Header.Get(tt.header); got != tt.value {
				t.Errorf("%s: %q", tt.header, got)
			}
			if got := p.asked[0].Header.Get("Anthropic-Version"); (got != "") != (tt.form == "anthropic") {
				t.Errorf("Anthropic-Version: %q", got)
			}
			var got struct {
				Status             int
				Same, Whole        bool
				Answered, Recorded struct{ Text string }
				Diff               string
			}
			must(t, json.Unmarshal([]byte(out), &got))
			if got.Answered.Text != "I read it." || got.Same || got.Recorded.Text != "Let me look at the code." ||
				!got.Whole || got.Status != 200 {
				t.Errorf("answer: %s", out)
			}
			if want := "\n-Let me look at the code.\n-call bash {\n-  \"command\": \"cargo test -p missing\"\n-}\n+I read " +
				"it.\n call read_file {\n"; !strings.Contains(got.Diff, want) {
				t.Errorf("diff: %s\nwant %s", got.Diff, want)
			}
			if want := fmt.Sprintf("sending %d bytes as %s to %s%s, with the key in", len(body), tt.form, p.URL,
				tt.path); !strings.Contains(errs, want) {
				t.Errorf("standard error %q, want %q", errs, want)
			}
			nowhere(t, out, errs)
		})
	}
}

// nowhere fails where the key, or a piece of it, is.
func nowhere(t *testing.T, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if strings.Contains(s, secret) || strings.Contains(s, secret[:12]) {
			t.Errorf("the key stands in: %s", s)
		}
	}
}

// An answer that is the recorded one is the same, however it is spelled.
func TestReplaySame(t *testing.T) {
	db := demoDatabase(t)
	p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"m","type":"message","role":"assistant","model":"m","content":[`+
			`{"type":"text","text":"Let me look at the code."},
			{"type":"tool_use","id":"x","name":"bash","input":{"command":"cargo test -p missing"}},`+
			`{"type":"tool_use","id":"y","name":"read_file","input":{ "path":"src/lib.rs"}}],
			"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`)
	})
	code, out, errs := runWith(t, "request", "0b5c/@1/0", "--db", db, "--send", p.URL+"/v1/messages")
	if code != exitOK || !strings.Contains(out, "the same text, the same calls") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// TestReplayNotAnswered reports each failure with exit code 1, in time, within bounds, and without the key: also
// where a provider repeats it.
func TestReplayNotAnswered(t *testing.T) {
	db := demoDatabase(t)
	elsewhere := newProvider(t, nil)
	for name, tt := range map[string]struct {
		respond func(w http.ResponseWriter, r *http.Request)
		want    string
	}{
		"refused": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			quoted, _ := json.Marshal("bad key: " + r.Header.Get("X-Api-Key") + " <x>")
			fmt.Fprintf(w, `{"type":"error","error":{"type":"authentication_error","message":%s}}`, quoted)
		}, "responds 401: authentication_error: bad key: [key] <x>"},
		"key spelled with an escape": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"error":{"message":"no: %s"}}`, strings.ReplaceAll(secret, "/", `\/`))
		}, "responds 403: no: [key]"},
		"no JSON": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>"+r.Header.Get("X-Api-Key"))
		}, "responds 502: otelagent: reply: "},
		"no answer": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "event: message_start\n\n") },
			"responds 200: otelagent: reply: "},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/v1/messages?k="+r.Header.Get("X-Api-Key"), http.StatusTemporaryRedirect)
		}, "responds 307: otelagent: reply: "},
		"slow": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "took longer than 300ms (--timeout)"},
		"slow body": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "took longer than 300ms (--timeout)"},
		"huge": {func(w http.ResponseWriter, _ *http.Request) {
			chunk := bytes.Repeat([]byte(" "), 1<<20)
			for range maxAnswer>>20 + 2 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "the answer has more than 32 MiB"},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, tt.respond)
			t.Setenv("MY_KEY", secret)
			timeout := "300ms"
			if name == "huge" {
				timeout = "30s"
			}
			started := time.Now()
			code, out, errs := runWith(t, "request", "0b5c/@1/0", "--db", db, "--as", "anthropic", "--send",
				p.URL+"?token="+secret, "--key-env", "MY_KEY", "--timeout", timeout)
			if code != exitFailed || out != "" || !strings.Contains(errs, "not answered: ") || !strings.Contains(errs, tt.want) {
				t.Errorf("exit %d: %s%s\nwant %s", code, out, errs, tt.want)
			}
			if took := time.Since(started); took > 25*time.Second {
				t.Errorf("took %s", took)
			}
			nowhere(t, out, errs)
		})
	}
	if len(elsewhere.asked) > 0 {
		t.Errorf("a redirect was followed: %v", elsewhere.asked)
	}
	p := newProvider(t, nil)
	p.Close()
	t.Setenv("MY_KEY", secret)
	code, out, errs := runWith(t, "request", "0b5c/@1/0", "--db", db, "--as", "anthropic", "--send",
		p.URL+"?token="+secret, "--key-env", "MY_KEY")
	if code != exitFailed || !strings.Contains(errs, "connection refused") {
		t.Errorf("nobody there: exit %d: %s%s", code, out, errs)
	}
	nowhere(t, out, errs)
}

// TestReplayKeys finds the key for each API and address. The command sends nothing when the named key is missing or
// does not fit into a header.
func TestReplayKeys(t *testing.T) {
	db := demoDatabase(t)
	p := newProvider(t, nil)
	send := func(args ...string) (int, string) {
		t.Helper()
		code, out, errs := runWith(t, append([]string{"request", "0b5c/@1/0", "--db", db, "--as", "openai-chat", "--send",
			p.URL}, args...)...)
		nowhere(t, out, errs)
		return code, errs
	}
	t.Setenv("ANTHROPIC_API_KEY", secret) // the other form's
	t.Setenv("OPENAI_API_KEY", "")
	if code, errs := send(); code != exitOK || !strings.Contains(errs, "without a key (OPENAI_API_KEY is not set)") ||
		p.asked[0].Header.Get("Authorization") != "" {
		t.Errorf("no key: exit %d: %s", code, errs)
	}
	if code, errs := send("--key-env", "NO_SUCH_KEY"); code != exitFailed || !strings.Contains(errs,
		"--key-env NO_SUCH_KEY: the variable is not set") || len(p.asked) != 1 {
		t.Errorf("no such variable: exit %d: %s", code, errs)
	}
	t.Setenv("ODD_KEY", secret+"\nX-Other: 1")
	if code, errs := send("--key-env", "ODD_KEY"); code != exitFailed || !strings.Contains(errs,
		"the key in ODD_KEY has characters that no header takes") || len(p.asked) != 1 {
		t.Errorf("an odd key: exit %d: %s", code, errs)
	}
	for address, want := range map[string]string{
		"ftp://x": "want an address as https://HOST", "nowhere": "want an address",
		"https://u:" + secret[:16] + "@x": "an address holds no key", "https://x/#a": "without #",
		"http://[::1": "want an address",
	} {
		code, _, errs := runWith(t, "request", "0b5c/@1/0", "--db", db, "--send", address)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d: %s", address, code, errs)
		}
		nowhere(t, errs)
	}

	f := &requestFlags{}
	t.Setenv("OPENAI_API_KEY", secret)
	for address, want := range map[string]bool{
		"http://127.0.0.1:1": true, "http://localhost:1": true, "http://[::1]:1": true, "https://api.example.com": true,
		"http://api.example.com": false, "http://127.0.0.1.example.com": false,
	} {
		u, err := url.Parse(address)
		must(t, err)
		if k, how, err := f.keyFor(message.OpenAIChat, u); err != nil || (string(k) != "") != want {
			t.Errorf("%s: %q, %v", address, how, err)
		}
	}
	f.keyEnv = "OPENAI_API_KEY"
	if u, err := url.Parse("http://api.example.com"); err == nil {
		if k, _, err := f.keyFor(message.OpenAIChat, u); err != nil || string(k) != secret {
			t.Errorf("a key that was named: %v", err)
		}
	}
}

// A swapped prompt and model are what is sent, and a stream is not asked for.
func TestReplaySwap(t *testing.T) {
	db := demoDatabase(t)
	p := newProvider(t, nil)
	file := filepath.Join(t.TempDir(), "system.txt")
	must(t, os.WriteFile(file, []byte("Be <brief>.\nNow.\n"), 0o600))
	code, out, errs := runWith(t, "request", "0b5c/@1/0", "--db", db, "--send", p.URL, "--system", file, "--model",
		"other")
	if code != exitOK || !strings.Contains(out, "I read it.") || !strings.Contains(errs, "bytes as anthropic to") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	var body struct{ Model, System string }
	if err := json.Unmarshal([]byte(p.bodies[0]), &body); err != nil || body.Model != "other" ||
		body.System != "Be <brief>.\nNow." {
		t.Errorf("%v: %s", err, p.bodies[0])
	}
	code, out, errs = command(t, strings.NewReader("From a pipe."), "request", "0b5c/@1/0", "--db", db, "--system", "-")
	if code != exitOK || !strings.Contains(out, `"system":"From a pipe.","messages":[`) {
		t.Errorf("exit %d: %.200s%s", code, out, errs)
	}
	code, out, errs = runWith(t, "request", "0b5c/@1/0", "--db", db, "--as", "as-sent", "--model", "other")
	if code != exitFailed || out != "" || !strings.Contains(errs,
		"a request as it was sent has its own model and system prompt") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
