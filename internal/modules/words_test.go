package modules

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
)

// ruledOut matches the words that code, comments, messages and documents must not use. A phrase may continue on the
// next comment line. CONTRIBUTING.md says what to write instead.
var ruledOut = regexp.MustCompile(`(?i)\b(?:told|tells?|telling|hears|made[\s/#]+up|for[\s/#]+want[\s/#]+of|` +
	`of[\s/#]+ours|who[\s/#]+looks|what[\s/#]+came[\s/#]+of|beside|leaves)\b` +
	`|(?-i:[a-z](?:Told|Tells|Tell|Hears|Leaves)\b)`) // the end of an identifier

// unclean are the path prefixes that still use such words, and how often they may. The longest prefix of a file
// counts. Lower a number when you reword a comment; never raise one.
var unclean = map[string]int{
	"backend/session/": 2,
}

// TestWords fails with file and line of each ruled-out word in a tracked Go, YAML or Markdown file, except in testdata
// and generated files. Below an unclean prefix it fails only when there are more than the prefix may have.
func TestWords(t *testing.T) {
	prefixes := slices.SortedFunc(maps.Keys(unclean), func(a, b string) int { return len(b) - len(a) })
	found := map[string][]string{}
	for _, path := range tracked(t, "*.go", "*.yaml", "docs/*.md", "*README.md") {
		if strings.Contains(path, "testdata/") || path == "internal/modules/words_test.go" {
			continue
		}
		text := must.Get(os.ReadFile(filepath.Join(root, filepath.FromSlash(path))))(t)
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
