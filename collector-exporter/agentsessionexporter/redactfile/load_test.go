package redactfile

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

func TestLoad(t *testing.T) {
	const body = `{"a":"CUST-123456 a@b.example","password":5}`
	for _, tt := range []struct{ name, file, want string }{
		{"YAML", `
# comment
rules:
  - name: customer numbers
    regexp: 'CUST-\d{6}'
    place: [args, result]
  - name: passwords
    key: password
`, `{"a":"[redacted:customer numbers] [redacted:email]","password":"[redacted:passwords]"}`},
		{"JSON", `{"defaults": false, "rules": [{"name": "c", "regexp": "CUST-\\d{6}"}]}`,
			`{"a":"[redacted:c] a@b.example","password":5}`},
		{"defaults alone", "defaults: true", `{"a":"CUST-123456 [redacted:email]","password":5}`},
		{"for a role", "defaults: false\nrules: [{name: r, role: [user]}]", body},
		{"all keys", "defaults: false\n" +
			"rules: [{name: r, regexp: a, role: [user], provenance: [memory-tier], place: [message]}]", body},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := must.Get(read("rules.yaml", strings.NewReader(tt.file)))(t)
			got, _ := r.Redact(spans.Redactable{Body: []byte(body), JSON: true, Place: spans.ListArgs})
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	long := strings.Repeat("a", 65)
	const (
		places      = "message, system, tools, rest, args, result, metadata, rules, config, summary, event, text"
		provenances = "system-prompt, identity-block, memory-tier, loop-turn, steering, follow-up, unknown"
	)
	for _, tt := range []struct{ name, file, want string }{
		{"all at once", `
defaults: maybe
defaults: true
extra: 1
rules:
  - name: 42
    regexp: '('
  - regexp: 'x*'
    path: $.a.b
    colour: red
    place: [argument, args, results]
    provenance: [system]
    role: ['']
  - name: twice
    key: $.a
  - name: twice
    place: [args]
  - word
  - name: "a]b"
    role: user
    provenance: []
    regexp: ''
  - name: [a]
    key: null
  - name: old
    jsonpath: $..password
`, `
rules.yaml:2: defaults is "maybe": want true or false
rules.yaml:3: key "defaults" stands twice in the file: each key once
rules.yaml:4: unknown key "extra" in the file: want defaults, rules
rules.yaml:6: rules[0].name is "42": want text, in quotes where it looks like something else
rules.yaml:7: rules[0].regexp: "(": missing closing ); want an expression of Go's regexp (RE2)
rules.yaml:8: rules[1].name: missing: the mark shows it
rules.yaml:8: rules[1].regexp: "x*": can match the empty string; want one that matches a character at least
rules.yaml:9: unknown key "path" in rules[1]: want name, regexp, key, provenance, role, place
rules.yaml:10: unknown key "colour" in rules[1]: want name, regexp, key, provenance, role, place
rules.yaml:11: rules[1].place: "argument": want one of ` + places + `
rules.yaml:11: rules[1].place: "results": want one of ` + places + `
rules.yaml:12: rules[1].provenance: "system": want one of ` + provenances + `
rules.yaml:13: rules[1].role is empty: want text, or leave the key out
rules.yaml:15: rules[2].key: "$.a": want names between dots, such as password, headers.x-key or *_token, ` +
			`without brackets, of at most 512 bytes
rules.yaml:16: rules[3].name: "twice" is the name of rules[2] too: each name once
rules.yaml:16: rules[3]: looks for nothing: want regexp, key, provenance or role
rules.yaml:18: rules[4] is "word": want a mapping with the keys name, regexp, key, provenance, role, place
rules.yaml:19: rules[5].name: "a]b": want at most 64 characters, none of them a bracket or control character
rules.yaml:20: rules[5].role is "user": want a list of at least one
rules.yaml:21: rules[5].provenance is an empty list: want a list of at least one
rules.yaml:22: rules[5].regexp is empty: want text, or leave the key out
rules.yaml:23: rules[6].name is a list: want text, in quotes where it looks like something else
rules.yaml:24: rules[6].key is empty: want text, in quotes where it looks like something else
rules.yaml:26: unknown key "jsonpath" in rules[7]: want name, regexp, key, provenance, role, place
`},
		{"both", "rules: [{name: a, regexp: a, key: a}]",
			`rules.yaml:1: rules[0]: has regexp and key: want one of them, the other in a rule of its own`},
		{"long", "rules: [{name: " + long + ", role: [" + long + "]}]", `
rules.yaml:1: rules[0].name: "` + long[1:] +
			`": want at most 64 characters, none of them a bracket or control character
rules.yaml:1: rules[0].role: "` + long[1:] + `": want 1 to 64 bytes`},
		{"nothing", "", `rules.yaml: no rules: want a mapping with defaults and rules`},
		{"nothing to do", "defaults: false",
			`rules.yaml:1: defaults is false and there are no rules: nothing would be redacted; want one of them`},
		{"a list", "- a", `rules.yaml:1: the file is a list: want a mapping with the keys defaults, rules`},
		{"an alias", "rules: &a [{name: x, role: *a}]",
			`rules.yaml:1: rules[0].role is an alias: want a list of at least one`},
		{"rules are no list", "rules: {}", `rules.yaml:1: rules is a mapping: want a list of rules`},
		{"two documents", "defaults: true\n---\ndefaults: true", `rules.yaml:2: a second document: want one`},
		{"no YAML", "a: [", `rules.yaml: rules are no YAML: yaml: line 1: did not find expected node content`},
		{"large", strings.Repeat("#", maxFile+1), `rules.yaml: rules are larger than 1048576 bytes`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read("rules.yaml", strings.NewReader(tt.file))
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(strings.TrimSpace(tt.want), err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := read("rules.yaml", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"defaults: true\nrules:\n  - name: a\n    regexp: 'a+'\n    place: [args]\n",
		`{"rules":[{"name":"p","key":"*.a.b*"}]}`, "rules: &a [*a]", "? [a]\n: b", "a: !!binary x",
		"<<: {defaults: true}", "- \x00", "rules:\n- name: p\n  key: [a, *b]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := read("rules.yaml", strings.NewReader(string(file)))
		if (r == nil) == (err == nil) {
			t.Fatalf("Load = %v, %v", r, err)
		}
		r.Redact(
			spans.Redactable{
				Body:  []byte(`{"content":[{"a":"b","k":1.5}],"a":"x"}`),
				JSON:  true,
				Place: spans.ListArgs,
				Role:  "user",
			},
		)
	})
}

// TestDocument holds that the examples of the reference are rules.
func TestDocument(t *testing.T) {
	text := must.Get(os.ReadFile("../../../docs/redaction.md"))(t)
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(examples) == 0 {
		t.Error("no examples")
	}
	for _, e := range examples {
		if _, err := read("rules.yaml", strings.NewReader(string(e[1]))); err != nil {
			t.Errorf("%s\n%v", e[1], err)
		}
	}
}
