package viewer

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/spans"
)

// The page lists the statuses by hand, as it is built by nothing: they are those of the registry.
func TestPageKnowsEveryStatus(t *testing.T) {
	var want []string
	for _, s := range spans.SessionStatuses() {
		want = append(want, string(s))
	}
	slices.Sort(want)
	for file, line := range map[string]string{"page/assets/list.js": `const statuses = \[.*\];`, "page/types.d.ts": `export type Status = .*;`} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, word := range regexp.MustCompile(`'([a-z_]+)'`).FindAllSubmatch(regexp.MustCompile(line).Find(text), -1) {
			got = append(got, string(word[1]))
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-registry +page):\n%s", file, diff)
		}
	}
}
