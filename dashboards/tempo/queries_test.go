package tempo

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write README.md again")

const root = "../.."

func vocabulary(t *testing.T) *Vocabulary {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "spans", "registry.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := ReadVocabulary(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestQueries(t *testing.T) {
	strict := yaml.NewDecoder(bytes.NewReader(queriesYAML))
	strict.KnownFields(true)
	if err := strict.Decode(&[]Query{}); err != nil {
		t.Error(err)
	}
	v := vocabulary(t)
	panels, err := Panels(filepath.Join(root, "dashboards"))
	if err != nil {
		t.Fatal(err)
	}
	if len(panels) == 0 {
		t.Error("no dashboard asks Tempo anything")
	}
	seen := map[string]bool{}
	for _, q := range slices.Concat(Queries(), panels) {
		if q.ID == "" || q.Question == "" || q.Kind != KindSearch && q.Kind != KindMetrics {
			t.Errorf("%q wants an id, a question and a kind", q.ID)
		}
		if seen[q.ID] {
			t.Errorf("%s is there twice", q.ID)
		}
		seen[q.ID] = true
		for _, wrong := range v.Check(q.Query) {
			t.Errorf("%s: %s", q.ID, wrong)
		}
		r := q.LastRun
		if r.Query != q.Query {
			t.Errorf("%s was not asked of a real Tempo as it stands: see README.md", q.ID)
			continue
		}
		if _, err := time.Parse(time.DateOnly, r.Date); err != nil || r.Version == "" || r.Commit == "" || r.Result == "" {
			t.Errorf("%s: runs.yaml wants version, commit, date and result", q.ID)
		}
	}
	for id := range runs() {
		if !seen[id] {
			t.Errorf("runs.yaml names %s, which is no query", id)
		}
	}
}

func TestCheck(t *testing.T) {
	v := vocabulary(t)
	for _, pair := range [][2]string{
		{`{ span.otelagent.kind = "session.turn" && span.gen_ai.usage.input_tokens > 1 && resource.service.name = "x" }`,
			""},
		{`{ span.otelagent.kind = "session.run" } >> { span.otelagent.kind = "tool.call" }`, ""},
		{`{ span.otelagent.kind =~ "tool.call|tool.cal" }`, "the registry has no span tool.cal"},
		{`{ name = "tool.call" }`, "the name of a span may hold more than its kind: want span.otelagent.kind"},
		{`{ event:name = "otelagent.evnt" }`, "the registry has no span event otelagent.evnt"},
		{`{ span.otelagent.kind = "session.turn" } | rate() by (span.gen_ai.model)`,
			"the registry has no key gen_ai.model"},
		{`{ span.otelagent.kind = "session.turn" } | rate() by (span.gen_ai.tool.name)`,
			"gen_ai.tool.name never stands on session.turn"},
		{`{ span.otelagent.tool.outcome =~ "denied|refused" }`, `otelagent.tool.outcome is never "refused"`},
		{`{ span.gen_ai.usage.input_tokens = "12" }`, `gen_ai.usage.input_tokens is a number and never "12"`},
		{`{ span.gen_ai.request.model = 5 }`, "gen_ai.request.model is text and never 5"},
		{`{ span.otelagent.tool.truncated = yes }`, "otelagent.tool.truncated is true or false and never yes"},
		{`{ resource.session.id = "x" }`, "session.id is no key of the scope resource"},
	} {
		if got := strings.Join(v.Check(pair[0]), "; "); got != pair[1] {
			t.Errorf("%s: %q, want %q", pair[0], got, pair[1])
		}
	}
}

const begin, end = "<!-- TraceQL: written by go -C dashboards test ./tempo -update -->\n", "<!-- end of TraceQL -->\n"

// document is the part of README.md on the queries.
func document() string {
	var b strings.Builder
	for _, k := range []Kind{KindSearch, KindMetrics} {
		fmt.Fprintf(&b, "\n## %s\n", map[Kind]string{KindSearch: "Traces and spans",
			KindMetrics: "Series (TraceQL metrics)"}[k])
		for _, q := range Queries() {
			if q.Kind != k {
				continue
			}
			fmt.Fprintf(&b, "\n**%s**", q.Question)
			if q.Note != "" {
				fmt.Fprintf(&b, " %s", q.Note)
			}
			fmt.Fprintf(&b, "\n\n```traceql\n%s\n```\n", q.Query)
		}
	}
	return b.String() + "\n"
}

func TestDocument(t *testing.T) {
	const file = "README.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	got, tail, foundEnd := strings.Cut(rest, end)
	if !found || !foundEnd {
		t.Fatalf("README.md has no place for TraceQL: %q to %q", begin, end)
	}
	want := document()
	if *update {
		if err := os.WriteFile(file, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("README.md and queries.yaml disagree; with -update it is written again (-want +got):\n%s", diff)
	}
}
