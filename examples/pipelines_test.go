package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/spans"
)

// A processor that names a key which no span has does nothing, and says nothing.
func TestPipelinesNameKeysThatAreThere(t *testing.T) {
	files, err := filepath.Glob("pipelines/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	known := map[string]bool{}
	for _, a := range spans.Attributes() {
		known[string(a.Key)] = true
	}
	key := regexp.MustCompile(`(?:key: |attributes\[")((?:otelagent|gen_ai|session)\.[a-z0-9_.]+)`)
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, " # ")
			for _, m := range key.FindAllStringSubmatch(line, -1) {
				n++
				if !known[m[1]] {
					t.Errorf("%s names %s, which is not in spans/registry.yaml", file, m[1])
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d keys found", n)
	}
}

// What redaction.yaml deletes for other backends is all that is content.
func TestRedactionDeletesAllContent(t *testing.T) {
	text, err := os.ReadFile("pipelines/redaction.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, m := range regexp.MustCompile(`\{key: ([a-z0-9_.]+), action: delete\}`).FindAllStringSubmatch(string(text),
		-1) {
		got = append(got, m[1])
	}
	for _, a := range spans.Attributes() {
		if a.Class == spans.ClassContent {
			want = append(want, string(a.Key))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deleted keys (-content in the registry +redaction.yaml):\n%s", diff)
	}
}
