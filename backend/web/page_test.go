package web

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// The page lists the statuses by hand, as it is built by nothing: they are those of the registry.
func TestPageKnowsEveryStatus(t *testing.T) {
	var want []string
	for _, s := range spans.SessionStatuses() {
		want = append(want, string(s))
	}
	slices.Sort(want)
	for file, line := range map[string]string{
		"page/assets/list.js": `const statuses = \[.*\];`, "page/types.d.ts": `export type Status = .*;`,
		"page/assets/format.js": `  s: \[.*\],`,
	} {
		text := must.Get(os.ReadFile(file))(t)
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

// The page takes a time that grows with the length of one word.
func TestPageLongWords(t *testing.T) {
	const script = `import { clean, pieces } from './page/assets/format.js';
		import { hunks, lineDiff } from './page/assets/linediff.js';
		for (const word of ['QUJD'.repeat(2500000), '漢'.repeat(3400000)]) {
			const from = performance.now();
			clean(word); pieces(word); hunks(lineDiff(word, word + 'x'));
			const took = performance.now() - from;
			if (took > 2000) console.log(word.slice(0, 4), took);
		}`
	if out := runNode(t, script); out != "" {
		t.Errorf("milliseconds: %s", out)
	}
}

// runNode returns the output of a script that imports files of the page.
func runNode(t *testing.T, script string) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("node is not installed; CI installs it")
	}
	out, err := exec.Command(node, "--input-type=module", "-e", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// A value of a sender becomes a class that app.css knows, or "other". Its control and bidirectional characters are
// spelled out where the page names it.
func TestPageClasses(t *testing.T) {
	const script = `import { classOf, words } from './page/assets/format.js';
		const hostile = 'ok panel" x_\u202e\u0007';
		console.log(classOf('o', 'ok'), classOf('o', hostile), classOf('s', 'constructor'), classOf('r', undefined),
words(hostile));`
	want := "o-ok o-other s-other r-other ok panel\" x \\u202e\\x07\n"
	if out := runNode(t, script); out != want {
		t.Errorf("%s\nwant %s", out, want)
	}
	// Nowhere else a value is joined to a class.
	for _, file := range []string{"diff", "session", "stats", "timeline", "turn", "ui"} {
		text := must.Get(os.ReadFile("page/assets/" + file + ".js"))(t)
		joined := regexp.MustCompile(`class=\$\{[^}]*-' \+ [^}]*(status|state|outcome|action)[^}]*\}`)
		if m := joined.Find(text); m != nil {
			t.Errorf("%s.js: %s", file, m)
		}
	}
}
