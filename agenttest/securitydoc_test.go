package agenttest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that docs/security.md names is there.
func TestSecurityDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	defined := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	var storetest string
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range defined.FindAllSubmatch(text, -1) {
				there[string(m[1])] = true
			}
		} else if filepath.Base(path) == "storetest.go" {
			storetest = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(string(doc), -1)
	for _, name := range named {
		if !there[name] {
			t.Errorf("there is no %s", name)
		}
	}
	cases := regexp.MustCompile("`([a-z ]+)`(?:, `[a-z ]+`)* in storetest").FindAllStringSubmatch(string(doc), -1)
	for _, c := range cases {
		if !strings.Contains(storetest, `{"`+c[1]+`"`) {
			t.Errorf("storetest has no case %q", c[1])
		}
	}
	for _, c := range regexp.MustCompile(`TestHostile \(((?:\*[^*]+\*(?:, )?)+)\)`).FindAllStringSubmatch(string(doc), -1) {
		for _, name := range strings.Split(strings.Trim(c[1], "*"), "*, *") {
			found := false
			for _, h := range hostile {
				found = found || h.name == name
			}
			if !found {
				t.Errorf("TestHostile has no case %q", name)
			}
		}
	}
	if len(named) < 30 || len(cases) < 5 {
		t.Errorf("%d tests and %d cases are named: the search is blind", len(named), len(cases))
	}
}
