package redact

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
)

func TestNewErrors(t *testing.T) {
	_, err := New(Config{Rules: []Rule{{Name: "a", Regexp: `\b`}, {Name: "a", Key: "x"}, {Key: "$..a"}}})
	want := `redact: rules[0].regexp: "\\b": can match the empty string; want one that matches a character at least
redact: rules[1].name: "a" is the name of rules[0] too: each name once
redact: rules[2].name: missing: the mark shows it
redact: rules[2].key: "$..a": want names between dots, such as password, headers.x-key or *_token, ` +
		`without brackets, of at most 512 bytes`
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEmptyMatches(t *testing.T) {
	for expr, empty := range map[string]bool{
		`a`: false, `a+`: false, `(a|b)`: false, `a{2,}`: false, `[ab]`: false, `.`: false, `^a$`: false, `a?b`: false,
		`(?s).`: false,
		``:      true, `a*`: true, `a?`: true, `a{0,3}`: true, `^`: true, `$`: true, `\b`: true, `a|`: true, `(a|b*)`: true,
		`(a*)+`: true, `^\s*$`: true,
	} {
		_, err := New(Config{Rules: []Rule{{Name: "x", Regexp: expr}}})
		if (err != nil) != empty {
			t.Errorf("%q: %v", expr, err)
		}
	}
}

func TestKeys(t *testing.T) {
	for key, wrong := range map[string]bool{
		"a": false, "*": false, "*.a": false, "a.*.b": false, "x-é": false, "$ref": false, "a b": false,
		".": true, "a.": true, ".a": true, "a..b": true, "*.": true, "$": true, "$.a": true, "$..a": true,
		"a[0]": true, "a[*].b": true,
		"\xff": true, strings.Repeat("a", maxKey): false, strings.Repeat("a", maxKey+1): true,
	} {
		_, err := New(Config{Rules: []Rule{{Name: "x", Key: key}}})
		if p := (*Problem)(nil); errors.As(err, &p) != wrong || wrong && p.Key != "key" {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// TestDocument holds that the reference names everything.
func TestDocument(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/redaction.md"))(t)
	words := slices.Clone(places)
	for _, p := range provenances {
		words = append(words, string(p))
	}
	for _, f := range forms {
		words = append(words, f.name)
		if f.name == "api-key" || f.name == "secret" {
			words = append(words, strings.Split(strings.TrimPrefix(f.prefixes, "(?i)"), "|")...)
		}
	}
	for _, w := range words {
		if !strings.Contains(string(text), "`"+w+"`") {
			t.Errorf("docs/redaction.md does not name `%s`", w)
		}
	}
}
