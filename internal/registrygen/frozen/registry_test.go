package frozen

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/spans"
)

var update = flag.Bool("update", false, "write testdata/words.golden anew")

// registry is what the tests look at in registry.yaml.
type registry struct {
	Schema   int
	Profiles []struct{ Name string }
	Spans    []struct{ Name, Kind string }
	Enums    []struct {
		Name, List string
		Values     []struct{ Value string }
	}
	Attributes []struct{ Key, Type, Unit, Class, On, Floor string }
	Events     []struct{ Name string }
	Lists      []struct{ Name, On string }
	Metrics    []struct {
		Name, Instrument, Type, Unit string
		Boundaries                   []float64
		Attributes, Profiles         []string
	}
	Defects []struct {
		Code        string
		Observation bool
	}
}

func load(t *testing.T) (r registry) {
	t.Helper()
	raw, err := os.ReadFile("../../../spans/registry.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Names, types, units, classes and words are formats: they may be added to, and what is there never changes. A line
// that goes from the golden file, or becomes another, breaks somebody's data.
func TestWordsAreFrozen(t *testing.T) {
	r := load(t)
	var b strings.Builder
	fmt.Fprintf(&b, "schema %d\n", r.Schema)
	for _, p := range r.Profiles {
		fmt.Fprintf(&b, "profile %s\n", p.Name)
	}
	for _, s := range r.Spans {
		fmt.Fprintf(&b, "span %s %s\n", s.Name, s.Kind)
	}
	for _, a := range r.Attributes {
		fmt.Fprintf(&b, "key %s %s %s %s on %s\n", a.Key, a.Type, a.Unit, a.Class, a.On)
	}
	for _, e := range r.Events {
		fmt.Fprintf(&b, "event %s\n", e.Name)
	}
	for _, l := range r.Lists {
		fmt.Fprintf(&b, "list %s on %s\n", l.Name, l.On)
	}
	for _, m := range r.Metrics {
		fmt.Fprintf(
			&b,
			"metric %s %s %s %s %v %v %v\n",
			m.Name,
			m.Instrument,
			m.Type,
			m.Unit,
			m.Boundaries,
			m.Attributes,
			m.Profiles,
		)
	}
	for _, e := range r.Enums {
		for _, v := range e.Values {
			fmt.Fprintf(&b, "word %s %s\n", e.Name, v.Value)
		}
	}
	for _, d := range r.Defects {
		fmt.Fprintf(&b, "defect %s observation=%t\n", d.Code, d.Observation)
	}
	const golden = "../../../spans/testdata/words.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("words changed; -update writes them anew (-was +is):\n%s", diff)
	}
}

// The generated tables say what registry.yaml says.
func TestGeneratedTables(t *testing.T) {
	r := load(t)
	classes := map[string]spans.Class{
		"id":      spans.ClassID,
		"number":  spans.ClassNumber,
		"enum":    spans.ClassEnum,
		"name":    spans.ClassName,
		"content": spans.ClassContent,
	}
	attrs := spans.Attributes()
	if len(attrs) != len(r.Attributes) {
		t.Fatalf("%d attributes generated of %d", len(attrs), len(r.Attributes))
	}
	for i, a := range r.Attributes {
		got, ok := spans.Lookup(attrs[i].Key)
		if !ok || string(got.Key) != a.Key || got.Type != a.Type || got.Class != classes[a.Class] {
			t.Errorf("%s: generated as %+v", a.Key, got)
		}
	}
	if _, ok := spans.Lookup("no.such.key"); ok {
		t.Error("Lookup knows a key that is not there")
	}
	if got := spans.Defects(); len(got) != len(r.Defects) || string(got[0].Code) != r.Defects[0].Code {
		t.Errorf("defects generated: %+v", got)
	}
	for _, e := range r.Enums {
		if e.List == "" {
			continue
		}
		var want, got []string
		for _, v := range e.Values {
			want = append(want, v.Value)
		}
		for _, s := range map[string][]spans.SessionStatus{"SessionStatuses": spans.SessionStatuses()}[e.List] {
			got = append(got, string(s))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-registry +generated):\n%s", e.List, diff)
		}
	}
}

// guideFloor is the Tracing table of the agent guide (its Debugging page): every span and attribute that it recommends.
// duration_ms is the span's own duration and needs no key.
var guideFloor = []string{
	"session.run session_id", "session.run agent", "session.run model_id", "session.run provider_id",
	"session.turn turn_index", "session.turn tokens", "session.turn stop_reason",
	"tool.call tool_id", "tool.call tool_call_id", "tool.call truncated", "tool.call error",
	"compaction.run session_id", "compaction.run summarized_message_count",
	"compaction.run input_tokens", "compaction.run output_tokens",
	"permission.evaluate tool_id", "permission.evaluate pattern",
	"permission.evaluate action", "permission.evaluate source",
}

// on are the letters of registry.yaml for the spans of the guide.
var on = map[string]string{
	"session.run":         "R",
	"session.turn":        "T",
	"tool.call":           "C",
	"compaction.run":      "M",
	"permission.evaluate": "P",
}

// Every attribute of the guide has a key here that its span carries, and nothing claims to be one that the guide does
// not have.
func TestGuideFloor(t *testing.T) {
	has := make(map[string]bool)
	for _, a := range load(t).Attributes {
		for _, f := range strings.Split(a.Floor, ",") {
			if f = strings.TrimSpace(f); f == "" {
				continue
			}
			has[f] = true
			span, _, _ := strings.Cut(f, " ")
			if a.On != "A" && !strings.Contains(a.On, on[span]) {
				t.Errorf("%s stands for %q and is not on %s", a.Key, f, span)
			}
		}
	}
	for _, f := range guideFloor {
		if !has[f] {
			t.Errorf("nothing stands for the guide's %q", f)
		}
		delete(has, f)
	}
	for f := range has {
		t.Errorf("registry.yaml names %q, which the guide does not have", f)
	}
}
