package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "bin" || e.Name() == "testdata" || e.Name() == "target" ||
			e.Name() == "node_modules" || e.Name() == "venv"):
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
	must(t, err)
}

// knownTests are the names of all tests and fuzz targets of the repository.
func knownTests(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	files(t, "_test.go", func(_, text string) {
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(text, -1) {
			known[m[1]] = true
		}
	})
	return known
}

// TestDocumentsNameRealTests holds every document to naming tests and targets of the Makefile that are there.
func TestDocumentsNameRealTests(t *testing.T) {
	known := knownTests(t)
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	must(t, err)
	n := 0
	files(t, ".md", func(path, text string) {
		text = regexp.MustCompile("(?s)\n```.*?\n```").ReplaceAllString(text, "")
		for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(text, -1) {
			if n++; !known[name] {
				t.Errorf("%s names %s, which is no test", path, name)
			}
		}
		for _, m := range regexp.MustCompile("`make ([a-z][a-z-]+)").FindAllStringSubmatch(text, -1) {
			if n++; !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
				t.Errorf("%s names make %s, which the Makefile does not have", path, m[1])
			}
		}
	})
	if n < 300 {
		t.Errorf("only %d names found", n)
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

// TestGuideConformance reads docs/guide-conformance.md: every requirement of the guide is there once, with one of
// three statuses, and what is named as its proof is there.
func TestGuideConformance(t *testing.T) {
	const requirements = 82
	tests := knownTests(t)
	others := []string{ // commands, flags and keys
		"otelagent export", "otelagent show", "otelagent ls", "otelagent request", "otelagent request --diff",
		"otelagent acp", "max_block_bytes",
		"--redact default", "archived_at", "updated_at", "type", "data", "task", "truncated", "<client>_<tool>",
		"otelagent status", "otelagent diff", "otelagent grep", "otelagent stats", "otelagent stats --by provider",
		"otelagent ls --forked-from", "ls", "show", "stats", "show --follow",
		"--archived", "--archived only", "--capture none", "--send", "--system", "--model", "--tool CALL --run",
		"--prices", "--hidden", "--live",
	}
	doc, err := os.ReadFile(filepath.Join(repository, "docs", "guide-conformance.md"))
	must(t, err)
	next := 1
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|(.*)\|$`).FindAllStringSubmatch(string(doc), -1) {
		if want := strconv.Itoa(next); row[1] != want {
			t.Fatalf("row %s where %s should be", row[1], want)
		}
		next++
		cells := strings.Split(row[2], " | ")
		if len(cells) != 5 {
			t.Fatalf("row %s has %d columns behind its number, want 5", row[1], len(cells))
		}
		status, proof := cells[3], cells[4]
		if !slices.Contains([]string{"**met**", "**host's duty**", "**not met**"}, status) {
			t.Errorf("row %s has status %s", row[1], status)
		}
		proofs := 0
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			name := m[1]
			path := filepath.Join(repository, filepath.FromSlash(name))
			if strings.HasSuffix(name, ".txtar") {
				path = filepath.Join("testdata", "script", name)
			}
			_, statErr := os.Stat(path)
			switch {
			case tests[name], (strings.HasSuffix(name, ".txtar") || strings.HasPrefix(name, "interop/")) && statErr == nil:
				proofs++
			case !slices.Contains(others, name):
				t.Errorf("row %s names %s, which is no test, no script and no known word", row[1], name)
			}
		}
		if status == "**met**" && proofs == 0 {
			t.Errorf("row %s is met by no test", row[1])
		}
		if status != "**met**" && len(proof) < 40 {
			t.Errorf("row %s does not say why", row[1])
		}
	}
	if next != requirements+1 {
		t.Errorf("%d requirements, want %d", next-1, requirements)
	}
}

// TestReadmeLines sends the lines of our own that README.md shows.
func TestReadmeLines(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(repository, "README.md"))
	must(t, err)
	_, rest, _ := strings.Cut(string(doc), "<<'EOF'\n")
	lines, _, found := strings.Cut(rest, "\nEOF\n")
	if !found || strings.Count(lines, "\n") != 4 {
		t.Fatalf("no five lines of our own:\n%s", lines)
	}
	file := filepath.Join(t.TempDir(), "own.ndjson")
	must(t, os.WriteFile(file, []byte(lines), 0o600))
	db := filepath.Join(t.TempDir(), "sessions.db")
	if code, _, errs := runWith(t, "send", "--capture", "content", "--db", db, file); code != exitOK ||
		!strings.Contains(errs, "otelagent (lines with a type") {
		t.Fatalf("send: exit %d: %s", code, errs)
	}
	code, out, errs := runWith(t, "show", "s1", "--db", db)
	if code != exitOK || !strings.Contains(out, "Hello.") || !strings.Contains(out, "1 run · 1 turn") {
		t.Errorf("show: exit %d: %s\n%s", code, errs, out)
	}
}
