package ndjson

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
)

// generated compares what is in a document between two comments with text, or writes it with -update.
func generated(t *testing.T, path, text string) {
	t.Helper()
	const begin, end = "<!-- made by dialects/ndjson: go test -update -->\n",
		"<!-- end of what is made by dialects/ndjson -->\n"
	raw := must.Get(os.ReadFile(path))(t)
	before, rest, ok := strings.Cut(string(raw), begin)
	got, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s: the comments between which the tables stand are missing", path)
	}
	if *update {
		must.Do(t, os.WriteFile(path, []byte(before+begin+text+end+after), 0o644))
		return
	}
	if got != text {
		t.Errorf("%s is stale: go -C dialects test ./ndjson -update", path)
	}
}

// examples returns the example line of each kind.
func examples(t *testing.T) map[string]string {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/examples.ndjson"))(t)
	byName := map[string]string{}
	for line := range strings.Lines(string(text)) {
		var head struct{ Type string }
		must.Do(t, json.Unmarshal([]byte(line), &head))
		name := strings.TrimPrefix(head.Type, input.OwnPrefix)
		if byName[name] != "" {
			t.Errorf("two examples of %s", name)
		}
		byName[name] = line
	}
	return byName
}

// TestLinesHasEveryLine compares README.md with the shapes.
func TestLinesHasEveryLine(t *testing.T) {
	var b strings.Builder
	table := func(rows []row) {
		b.WriteString("| key | holds | |\n|---|---|---|\n")
		for _, r := range rows {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.key, r.holds, r.brief)
			if r.brief == "" {
				t.Errorf("README.md says nothing of %s", r.key)
			}
		}
	}
	rows := rowsOf(&kinds[0])
	b.WriteString("### Every line\n\n| key | holds | |\n|---|---|---|\n| `type` | string | `otelagent.` and the name " +
		"of the type |\n")
	for _, r := range rows[:common] {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.key, r.holds, r.brief)
	}
	byName := examples(t)
	for i := range kinds {
		k := &kinds[i]
		rows := rowsOf(k)
		fmt.Fprintf(&b, "\n### %s%s\n\n%s\n\n", input.OwnPrefix, k.name, briefs[k.name])
		table(rows[common:])
		if byName[k.name] == "" {
			t.Errorf("no example of %s", k.name)
		}
		fmt.Fprintf(&b, "\n```json\n%s```\n", byName[k.name])
	}
	for i := range objects {
		o := &objects[i]
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", strings.ToUpper(o.name[:1])+o.name[1:], briefs[o.name])
		table(rowsOf(o))
	}
	generated(t, "README.md", b.String())
}
