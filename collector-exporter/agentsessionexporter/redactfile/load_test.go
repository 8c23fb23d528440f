package redactfile

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/otelagent"
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
		{"all keys",
			"defaults: false\nrules: [{name: r, regexp: a, role: [user], provenance: [memory-tier], place: [message]}]", body},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Load(strings.NewReader(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := r.Redact(otelagent.Piece{Body: []byte(body), JSON: true, Place: spans.ListArgs})
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		want       []string
	}{
		{"all keys at once", `
defaults: maybe
extra: 1
rules:
  - name: a
    regexp: a
    colour: red
    role: user
  - word
  - name: [a]
    jsonpath: $..password
`, []string{
			"line 2: cannot unmarshal !!str `maybe` into bool", "line 3: field extra not found",
			"line 7: field colour not found",
			"line 8: cannot unmarshal !!str `user` into []string", "line 9: cannot unmarshal !!str `word`",
			"line 10: cannot unmarshal !!seq into string", "line 11: field jsonpath not found",
		}},
		{"a key twice", "defaults: true\ndefaults: true",
			[]string{`line 2: mapping key "defaults" already defined at line 1`}},
		{"all rules at once", `
rules:
  - {name: a, regexp: '('}
  - {name: b, place: [argument, args, results]}
  - {regexp: ''}
`, []string{
			`redact: rules[0].regexp: "(": missing closing )`, `redact: rules[1].place: "argument": want one of`,
			`redact: rules[1].place: "results": want one of`, "redact: rules[2].name: missing",
			"redact: rules[2]: looks for nothing",
		}},
		{"nothing", "", []string{"redact: no rules: want a mapping with defaults and rules"}},
		{"nothing to do", "defaults: false", []string{"defaults is false and there are no rules"}},
		{"a list", "- a", []string{"line 1: cannot unmarshal !!seq"}},
		{"rules are no list", "rules: {}", []string{"line 1: cannot unmarshal !!map"}},
		{"two documents", "defaults: true\n---\ndefaults: true", []string{"a second document: want one"}},
		{"no YAML", "a: [", []string{"redact: yaml: line 1: did not find expected node content"}},
		{"large", strings.Repeat("#", maxFile+1), []string{"redact: rules are larger than 1048576 bytes"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(strings.NewReader(tt.file))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error\n%v\nwant in it %s", err, want)
				}
			}
		})
	}
	broken := errors.New("broken")
	if _, err := Load(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"defaults: true\nrules:\n  - name: a\n    regexp: 'a+'\n    place: [args]\n",
		`{"rules":[{"name":"p","key":"*.a.b*"}]}`,
		"rules: &a [*a]", "? [a]\n: b", "a: !!binary x", "<<: {defaults: true}", "- \x00",
		"rules:\n- name: p\n  key: [a, *b]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := Load(strings.NewReader(string(file)))
		if (r == nil) == (err == nil) {
			t.Fatalf("Load = %v, %v", r, err)
		}
		r.Redact(otelagent.Piece{Body: []byte(`{"content":[{"a":"b","k":1.5}],"a":"x"}`), JSON: true, Place: spans.ListArgs,
			Role: "user"})
	})
}

// TestDocument holds that the examples of the reference are rules.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/redaction.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(examples) == 0 {
		t.Error("no examples")
	}
	for _, e := range examples {
		if _, err := Load(strings.NewReader(string(e[1]))); err != nil {
			t.Errorf("%s\n%v", e[1], err)
		}
	}
}
