package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/object"
)

var (
	update = flag.Bool("update", false, "write the goldens in testdata")
	bodies = flag.String("bodies", "", "write every body that TestConvert makes into this `folder`, NAME.FORM.json, "+
		"for the official SDKs to judge")
)

// wire are the APIs of providers.
var wire = []message.API{message.Anthropic, message.OpenAIChat, message.OpenAIResponses}

// requests returns the captured requests in testdata by their names. Those of phi-core, clark-agent and the AI SDK
// are real (docs/replay.md says how they were captured); the others are written by hand after the providers'
// references.
func requests(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		if out[strings.TrimSuffix(filepath.Base(f), ".json")], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		must.Do(t, os.WriteFile(file, got, 0o644))
	}
	want := must.Get(os.ReadFile(file))(t)
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s: -want +got:\n%s", name, d)
	}
}

// Every captured request in every form, with what is said of it. The bodies themselves are judged by the types of the
// official SDKs: `make interop-replay`.
func TestConvert(t *testing.T) {
	for name, payload := range requests(t) {
		for _, form := range wire {
			before := bytes.Clone(payload)
			b, err := Convert(payload, Options{API: form, Turn: &session.Turn{Model: "fallback"}})
			if err != nil {
				t.Fatalf("%s as %s: %v", name, form, err)
			}
			if !bytes.Equal(before, payload) {
				t.Fatalf("%s as %s: the payload was changed", name, form)
			}
			var text bytes.Buffer
			fmt.Fprintf(&text, "as %s", b.API)
			if b.Unchanged {
				text.WriteString(", unchanged")
				if !bytes.Equal(b.Bytes, payload) {
					t.Errorf("%s as %s: unchanged, and other bytes", name, form)
				}
			}
			text.WriteByte('\n')
			for _, n := range b.Notes {
				text.WriteString(n + "\n")
			}
			text.WriteByte('\n')
			if !b.Unchanged {
				if err := json.Indent(&text, b.Bytes, "", "  "); err != nil {
					t.Errorf("%s as %s: %v", name, form, err)
				}
				text.WriteByte('\n')
			}
			golden(t, name+"."+string(form)+".txt", text.Bytes())
			if *bodies != "" {
				must.Do(t, os.WriteFile(filepath.Join(*bodies, name+"."+string(form)+".json"), b.Bytes,
					0o644))
			}
		}
	}
}

// Another model and prompt replace those of the request. Everything else stays as it is spelled.
func TestReplace(t *testing.T) {
	system, empty := "Be <brief>.", ""
	for name, payload := range requests(t) {
		was := must.Get(message.ReadRequest(payload))(t)
		for _, api := range wire {
			b, err := Convert(payload, Options{API: api, Model: "other-model", System: &system, Whole: true})
			if err != nil {
				t.Fatalf("%s as %s: %v", name, api, err)
			}
			r, err := message.ReadRequest(b.Bytes)
			if err != nil {
				t.Fatalf("%s as %s: %v: %s", name, api, err, b.Bytes)
			}
			if got := message.JoinText(r.System, true); !strings.HasPrefix(got, system) || r.Model != "other-model" ||
				r.Stream || b.Unchanged {
				t.Errorf("%s as %s: system %q, model %q, stream %v, unchanged %v", name, api, got, r.Model, r.Stream,
					b.Unchanged)
			}
			if was.Native(api) { // no message is touched
				for _, m := range elements(payload) {
					if role := object.Of("", m).String("role"); role != "system" && role != "developer" &&
						!bytes.Contains(b.Bytes,
							m) {
						t.Errorf("%s as %s: a message is gone or changed: %s", name, api, m)
					}
				}
			}
			if b, err = Convert(payload, Options{API: api, System: &empty}); err != nil {
				t.Fatal(err)
			}
			r, err = message.ReadRequest(b.Bytes)
			// it has a system message too
			if err != nil || message.JoinText(r.System, true) != "" && name != "clark-content" {
				t.Errorf("%s as %s: an empty prompt is %q", name, api, message.JoinText(r.System, true))
			}
		}
		if _, err := Convert(payload, Options{API: AsSent, System: &system}); !errors.Is(err, ErrAsSent) {
			t.Errorf("%s: as sent with another prompt: %v", name, err)
		}
	}
}

func elements(payload []byte) [][]byte {
	o := object.Of("", payload)
	return append(o.List("messages"), o.List("input")...)
}

func TestAsSent(t *testing.T) {
	for _, payload := range []string{"no JSON", `"text"`, `{"a":1}`, ""} {
		b, err := Convert([]byte(payload), Options{API: AsSent})
		if err != nil || string(b.Bytes) != payload || !b.Unchanged {
			t.Errorf("%q: %v, %v", payload, b, err)
		}
		if _, err := Convert([]byte(payload), Options{API: message.OpenAIChat}); !errors.Is(err, message.ErrNoRequest) {
			t.Errorf("%q: %v", payload, err)
		}
		if _, err := Convert([]byte(payload), Options{API: AsSent, Model: "m"}); !errors.Is(err, ErrAsSent) {
			t.Errorf("%q with another model: %v", payload, err)
		}
	}
}

// The turn states what the request does not, and nothing else.
func TestFallback(t *testing.T) {
	n, temperature := int64(77), 0.25
	o := Options{API: message.OpenAIChat, Turn: &session.Turn{Model: "m", Level: "low", MaxTokens: &n,
		Temperature: &temperature}}
	b, err := Convert([]byte(`{"system":[{"type":"text","content":"s"}],"messages":[{"role":"user",`+
		`"parts":[{"type":"text","content":"hi"}]}]}`), o)
	must.Do(t, err)
	want := `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],` +
		`"max_completion_tokens":77,"temperature":0.25,"reasoning_effort":"low"}`
	if string(b.Bytes) != want || len(b.Notes) != 4 {
		t.Errorf("%s\n%v", b.Bytes, b.Notes)
	}
	payload := []byte(`{"model":"m","max_output_tokens":5,"temperature":1,"input":"hi","reasoning":{"effort":"none"}}`)
	if b, err = Convert(payload, o); err != nil ||
		string(b.Bytes) != `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":5,`+
			`"temperature":1,"reasoning_effort":"none"}` || b.Notes != nil {
		t.Errorf("%s, %v, %v", b.Bytes, b.Notes, err)
	}
}

// Anthropic gets back the reasoning that it signed, wherever the AI SDK holds the signature.
func TestSigned(t *testing.T) {
	for _, key := range []string{"providerOptions", "providerMetadata"} {
		payload := `{"model":"m","max_tokens":9,"messages":[{"role":"assistant","content":[` +
			`{"type":"reasoning","text":"hm","` + key + `":{"anthropic":{"signature":"s1"}}},` +
			`{"type":"reasoning","text":"","` + key + `":{"anthropic":{"redactedData":"s2"}}},{"type":"text","text":"hi"}]}]}`
		b, err := Convert([]byte(payload), Options{API: message.Anthropic, Whole: true})
		must.Do(t, err)
		want := `{"model":"m","max_tokens":9,"messages":[{"role":"assistant","content":[` +
			`{"type":"thinking","thinking":"hm","signature":"s1"},{"type":"redacted_thinking","data":"s2"},` +
			`{"type":"text","text":"hi"}]}]}`
		if string(b.Bytes) != want || b.Notes != nil {
			t.Errorf("%s\n%v", b.Bytes, b.Notes)
		}
	}
}

// Whatever comes, every form is valid JSON with the messages that can be read, and nothing panics.
func FuzzConvert(f *testing.F) {
	for _, payload := range requests(f) {
		f.Add(payload)
	}
	system := "s"
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, form := range APIs() {
			for _, o := range []Options{{API: form}, {API: form, Model: "m", System: &system, Whole: true}} {
				b, err := Convert(payload, o)
				if err != nil {
					if !errors.Is(err, message.ErrNoRequest) && !errors.Is(err, ErrAsSent) {
						t.Fatal(err)
					}
					continue
				}
				if form != AsSent && !json.Valid(b.Bytes) {
					t.Fatalf("as %s: no JSON: %s", form, b.Bytes)
				}
				if len(b.Notes) > message.MaxNotes+1 {
					t.Fatalf("as %s: %d notes", form, len(b.Notes))
				}
			}
		}
	})
}
