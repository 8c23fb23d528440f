package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	update = flag.Bool("update", false, "write the goldens in testdata")
	bodies = flag.String("bodies", "", "write every body that TestConvert makes into this `folder`, NAME.FORM.json, for the official SDKs to judge")
)

// wire are the forms that providers take.
var wire = []Form{Anthropic, OpenAIChat, OpenAIResponses}

// requests returns the captured requests in testdata by their names. Those of phi-core, clark-agent and the AI SDK are what the real ones
// emitted (docs/replay.md says how); the others are written by hand after the providers' references.
func requests(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".json")] = raw
	}
	return out
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s: -want +got:\n%s", name, d)
	}
}

// Every captured request in every form, with what is said of it. The bodies themselves are judged by the types of the official SDKs:
// `make interop-replay`.
func TestConvert(t *testing.T) {
	for name, payload := range requests(t) {
		for _, form := range wire {
			before := bytes.Clone(payload)
			b, err := Convert(payload, Options{Form: form, Fallback: Fallback{Model: "fallback"}})
			if err != nil {
				t.Fatalf("%s as %s: %v", name, form, err)
			}
			if !bytes.Equal(before, payload) {
				t.Fatalf("%s as %s: the payload was changed", name, form)
			}
			var text bytes.Buffer
			fmt.Fprintf(&text, "%s as %s", b.Spelling, b.Form)
			if b.Unchanged {
				text.WriteString(", unchanged")
				if !bytes.Equal(b.Bytes, payload) {
					t.Errorf("%s as %s: unchanged, and other bytes", name, form)
				}
			}
			text.WriteByte('\n')
			for _, n := range b.Notes {
				text.WriteString(n.String() + "\n")
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
				if err := os.WriteFile(filepath.Join(*bodies, name+"."+string(form)+".json"), b.Bytes, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// same fails unless two JSON texts say the same, numbers as they are spelled.
func same(t *testing.T, what string, want, got []byte) {
	t.Helper()
	decode := func(raw []byte) any {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v: %s", what, err, raw)
		}
		return v
	}
	if d := cmp.Diff(decode(want), decode(got)); d != "" {
		t.Errorf("%s: -want +got:\n%s", what, d)
	}
}

// A body of Anthropic's that is read and written again, not passed through, says the same.
func TestRoundTrip(t *testing.T) {
	payload := requests(t)["anthropic"]
	r, err := read(payload)
	if err != nil {
		t.Fatal(err)
	}
	var b Body
	b.write(r, Options{Form: Anthropic})
	want := bytes.Replace(payload, []byte("\n  \"stream\": true,"), nil, 1)
	same(t, "anthropic", want, b.Bytes)
	if len(b.Notes) != 1 || !strings.HasPrefix(b.Notes[0].What, "stream") {
		t.Errorf("notes: %v", b.Notes)
	}
	// Without the JSON that came nothing is lost but what the other forms know nothing of.
	for i := range r.messages {
		for j := range r.messages[i].parts {
			p := &r.messages[i].parts[j]
			if !isString(p.raw) {
				p.raw = nil
			}
		}
	}
	var again Body
	again.write(r, Options{Form: Anthropic})
	without := bytes.Replace(want, []byte(`"text": "And look at this.", "cache_control": {"type": "ephemeral"}`), []byte(`"text": "And look at this."`), 1)
	same(t, "anthropic, written anew", without, again.Bytes)

	// There and back over each other form: what both can say survives.
	for _, form := range []Form{OpenAIChat, OpenAIResponses} {
		there, err := Convert(requests(t)["phi-steering"], Options{Form: form})
		if err != nil {
			t.Fatal(err)
		}
		direct, err := Convert(requests(t)["phi-steering"], Options{Form: Anthropic})
		if err != nil {
			t.Fatal(err)
		}
		back, err := Convert(there.Bytes, Options{Form: Anthropic})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := conversation(t, back.Bytes), conversation(t, direct.Bytes); !slices.Equal(got, want) {
			t.Errorf("over %s: -want +got:\n%s", form, cmp.Diff(want, got))
		}
	}
}

// conversation is what is said and called in a body, without what not every form can say.
func conversation(t *testing.T, body []byte) []string {
	t.Helper()
	r, err := read(body)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{textOf(r.system)}
	for _, m := range r.messages {
		for _, p := range m.parts {
			switch p.kind {
			case text:
				out = append(out, fmt.Sprint(m.role, " ", p.text))
			case call:
				out = append(out, "call "+p.id+" "+p.name+" "+string(p.args))
			case result:
				out = append(out, "result "+p.id+" "+textOf(p.parts))
			}
		}
	}
	return out
}

// What is replaced is replaced, and all else stays as it is spelled.
func TestReplace(t *testing.T) {
	system := "Be <brief>."
	for name, payload := range requests(t) {
		was, err := read(payload)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range Forms() {
			b, err := Convert(payload, Options{Form: form, Model: "other-model", System: &system, Whole: true})
			if err != nil {
				t.Fatalf("%s as %s: %v", name, form, err)
			}
			r, err := read(b.Bytes)
			if err != nil {
				t.Fatalf("%s as %s: %v: %s", name, form, err, b.Bytes)
			}
			if got := textOf(r.system); !strings.HasPrefix(got, system) || r.model != "other-model" || r.params.stream || b.Unchanged {
				t.Errorf("%s as %s: system %q, model %q, stream %v, unchanged %v", name, form, got, r.model, r.params.stream, b.Unchanged)
			}
			if form == AsSent || fits(payload, was, form) { // no message is touched
				for _, m := range elements(asObject(payload).first(messageKeys...)) {
					if role := asObject(m).str("role"); role != "system" && role != "developer" && !bytes.Contains(b.Bytes, m) {
						t.Errorf("%s as %s: a message is gone or changed: %s", name, form, m)
					}
				}
			}
			empty := ""
			if b, err = Convert(payload, Options{Form: form, System: &empty}); err != nil {
				t.Fatal(err)
			}
			if r, err = read(b.Bytes); err != nil || textOf(r.system) != "" && name != "clark-content" { // which has a message of the system besides
				t.Errorf("%s as %s: an empty prompt is %q", name, form, textOf(r.system))
			}
		}
	}
}

func TestAsSent(t *testing.T) {
	for _, payload := range []string{"no JSON", `"text"`, `{"a":1}`, ""} {
		b, err := Convert([]byte(payload), Options{Form: AsSent})
		if err != nil || string(b.Bytes) != payload || !b.Unchanged {
			t.Errorf("%q: %v, %v", payload, b, err)
		}
		if _, err := Convert([]byte(payload), Options{Form: OpenAIChat}); !errors.Is(err, ErrNoRequest) {
			t.Errorf("%q: %v", payload, err)
		}
		if _, err := Convert([]byte(payload), Options{Form: AsSent, Model: "m"}); !errors.Is(err, ErrNoRequest) {
			t.Errorf("%q with another model: %v", payload, err)
		}
	}
}

// What a turn says was asked for stands where the request was kept without it, and nowhere else.
func TestFallback(t *testing.T) {
	n, temperature := int64(77), 0.25
	o := Options{Form: OpenAIChat, Fallback: Fallback{Model: "told", Level: "low", MaxTokens: &n, Temperature: &temperature}}
	b, err := Convert([]byte(`{"system":[{"type":"text","content":"s"}],"messages":[{"role":"user","parts":[{"type":"text","content":"hi"}]}]}`), o)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"told","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],"max_completion_tokens":77,"temperature":0.25,"reasoning_effort":"low"}`
	if string(b.Bytes) != want || len(b.Notes) != 4 {
		t.Errorf("%s\n%v", b.Bytes, b.Notes)
	}
	payload := []byte(`{"model":"m","max_output_tokens":5,"temperature":1,"input":"hi","reasoning":{"effort":"high"}}`)
	if b, err = Convert(payload, o); err != nil || string(b.Bytes) != `{"model":"m","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":5,"temperature":1,"reasoning_effort":"high"}` || b.Notes != nil {
		t.Errorf("%s, %v, %v", b.Bytes, b.Notes, err)
	}
}

// Calls and results without ids find each other by the tool, or by their order; an id that is made up is nobody else's.
func TestMadeUpIDs(t *testing.T) {
	for _, c := range []struct{ name, messages, want string }{
		{
			"results that name no tool that was called",
			`{"role":"model","parts":[{"functionCall":{"name":"a","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"b","response":{}}},{"functionResponse":{"name":"a","response":{}}}]}`,
			"call_1 call_2 call_1",
		},
		{
			"a result before any call",
			`{"role":"user","parts":[{"functionResponse":{"name":"a","response":{}}}]}`,
			"call_1",
		},
		{
			"an id that looks like one made up",
			`{"role":"model","parts":[{"functionCall":{"name":"a","args":{}}},{"functionCall":{"id":"call_1","name":"a","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"a","response":{}}},{"functionResponse":{"name":"a","response":{}}}]}`,
			"call_2 call_1 call_1 call_2",
		},
	} {
		b, err := Convert([]byte(`{"model":"gemini-3","contents":[`+c.messages+`]}`), Options{Form: Anthropic})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var ids []string
		for _, m := range regexp.MustCompile(`"(?:id|tool_use_id)":"([^"]*)"`).FindAllSubmatch(b.Bytes, -1) {
			ids = append(ids, string(m[1]))
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s: %s, want %s\n%s", c.name, got, c.want, b.Bytes)
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
		for _, form := range Forms() {
			for _, o := range []Options{{Form: form}, {Form: form, Model: "m", System: &system, Whole: true}} {
				b, err := Convert(payload, o)
				if err != nil {
					if !errors.Is(err, ErrNoRequest) {
						t.Fatal(err)
					}
					continue
				}
				if form != AsSent && !json.Valid(b.Bytes) {
					t.Fatalf("as %s: no JSON: %s", form, b.Bytes)
				}
				if len(b.Notes) > maxNotes+1 {
					t.Fatalf("as %s: %d notes", form, len(b.Notes))
				}
			}
		}
	})
}
