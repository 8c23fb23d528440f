package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// repository is where this module lies in.
const repository = "../.."

// files calls see with every file of the repository whose name ends so.
func files(t *testing.T, suffix string, see func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(repository, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "bin" || e.Name() == "testdata" || e.Name() == "target"):
			return filepath.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, suffix):
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			see(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDocumentsNameRealTests holds docs/architecture.md to naming checks that are there.
func TestDocumentsNameRealTests(t *testing.T) {
	known := map[string]bool{}
	files(t, "_test.go", func(_, text string) {
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(text, -1) {
			known[m[1]] = true
		}
	})
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(repository, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(make )?((?:Test|Fuzz)\\w+|[a-z][a-z-]+)`").FindAllStringSubmatch(string(doc), -1)
	for _, m := range named {
		switch {
		case m[1] != "" && !regexp.MustCompile(`(?m)^`+m[2]+`:`).Match(makefile):
			t.Errorf("docs/architecture.md names %s, which the Makefile does not have", m[0])
		case m[1] == "" && (strings.HasPrefix(m[2], "Test") || strings.HasPrefix(m[2], "Fuzz")) && !known[m[2]]:
			t.Errorf("docs/architecture.md names %s, which is no test", m[0])
		}
	}
	if len(named) < 20 {
		t.Errorf("only %d names found in docs/architecture.md", len(named))
	}
}

// TestLinks follows every link from one document of the repository to another, or to a heading of one.
func TestLinks(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings := regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchors := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	n := 0
	files(t, ".md", func(path, text string) {
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			n++
			name, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if name != "" {
				target = filepath.Join(filepath.Dir(path), name)
			}
			body, err := os.ReadFile(target)
			if info, e := os.Stat(target); e != nil || err != nil && !info.IsDir() {
				t.Errorf("%s: dead link %s", path, m[1])
				continue
			}
			found := anchor == ""
			for _, h := range headings.FindAllStringSubmatch(string(body), -1) {
				found = found || anchor == strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")
			}
			if !found {
				t.Errorf("%s: no heading for %s", path, m[1])
			}
		}
	})
	if n < 20 {
		t.Errorf("only %d links found", n)
	}
}
