package modules

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ruledOut matches the words that code, comments, messages and documents must not use. A phrase may continue on the
// next comment line. CONTRIBUTING.md says what to write instead.
var ruledOut = regexp.MustCompile(`(?i)\b(?:told|tells?|telling|hears|made[\s/#]+up|for[\s/#]+want[\s/#]+of|` +
	`of[\s/#]+ours|who[\s/#]+looks|what[\s/#]+came[\s/#]+of|beside|leaves)\b`)

// unclean are the path prefixes that still use such words, and how often they may. The longest prefix of a file
// counts. Lower a number when you reword a comment; never raise one.
var unclean = map[string]int{
	"agenttest/twice_test.go":        1,
	"agenttest/usage_test.go":        1,
	"backend/inspect/":               1,
	"backend/session/":               8,
	"backend/session/diff/":          1,
	"backend/session/replay/":        3,
	"backend/store/":                 9,
	"backend/store/clickhousestore/": 13,
	"backend/store/copy/":            2,
	"backend/store/dsn/":             2,
	"backend/store/project/":         14,
	"backend/store/reader/":          10,
	"backend/store/retention/":       16,
	"backend/store/search/":          7,
	"backend/store/sqlitestore/":     24,
	"backend/store/stats/":           3,
	"backend/store/storetest/":       1,
	"compose/":                       3,
	"dashboards/":                    6,
	"docs/":                          2,
	"interop/":                       82,
}

// TestWords fails with file and line of each ruled-out word in a tracked Go, YAML or Markdown file, except in testdata
// and generated files. Below an unclean prefix it fails only when there are more than the prefix may have.
func TestWords(t *testing.T) {
	list := exec.Command("git", "ls-files", "-z", "*.go", "*.yaml", "docs/*.md", "*README.md")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skip("this is not a clone: ", err)
	}
	prefixes := slices.SortedFunc(maps.Keys(unclean), func(a, b string) int { return len(b) - len(a) })
	found := map[string][]string{}
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if strings.Contains(path, "testdata/") || path == "internal/modules/words_test.go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if os.IsNotExist(err) { // deleted, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if head, _, _ := bytes.Cut(text, []byte("\n")); bytes.Contains(head, []byte("Code generated")) {
			continue
		}
		i := slices.IndexFunc(prefixes, func(p string) bool { return strings.HasPrefix(path, p) })
		prefix := ""
		if i >= 0 {
			prefix = prefixes[i]
		}
		for _, at := range ruledOut.FindAllIndex(text, -1) {
			line := bytes.Count(text[:at[0]], []byte("\n")) + 1
			found[prefix] = append(found[prefix], fmt.Sprintf("%s:%d: %q", path, line, text[at[0]:at[1]]))
		}
	}
	for prefix, hits := range found {
		if may := unclean[prefix]; len(hits) > may {
			t.Errorf("%d ruled-out words below %q, which may have %d:\n%s", len(hits), prefix, may, strings.Join(hits, "\n"))
		}
	}
}

// TestRuledOut shows what the words match.
func TestRuledOut(t *testing.T) {
	for text, want := range map[string]bool{
		"// it Tells what it was": true, "an id that is made\n\t// up here": true, "# a file of\n# ours": true,
		"what is retold": false, "Word besides": false, "tellers": false, "of yours": false,
	} {
		if got := ruledOut.MatchString(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
