package dialects_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
)

var update = flag.Bool("update", false, "write the golden files anew")

// clarkGoldens are the goldens of clark-agent, whose recordings are several files, or are read with settings.
var clarkGoldens = []struct {
	name, file, trajectory string
	opts                   []input.Settings
}{
	{"sample", "sample.events", "", nil},
	{"sample-with-trajectory", "sample.events", "sample.trajectory", nil},
	{"sample-trajectory", "sample.trajectory", "", nil},
	{"enveloped", "clark-agent-0.4.0/multi-turn-tools.enveloped", "",
		[]input.Settings{{Agent: "pilot"}, {Provider: "anthropic"}}},
	{"tool-errors", "clark-agent-0.4.0/tool-errors.events", "", nil},
	{"tool-errors-0.2.0", "clark-agent-0.2.0/tool-errors.events", "", nil},
	{"parallel-tools", "clark-agent-0.4.0/parallel-tools.enveloped", "", nil},
	{"call-outside-list", "clark-agent-0.4.0/call-outside-list.events", "", nil},
	{"blocked-by-hooks", "clark-agent-0.4.0/blocked-by-hooks.events", "", nil},
	{"conflicting-gates", "clark-agent-0.4.0/conflicting-gates.events", "", nil},
	{"silenced-gate", "clark-agent-0.4.0/silenced-gate.events", "", nil},
	{"gates-allow-nothing", "clark-agent-0.4.0/gates-allow-nothing.events", "", nil},
	{"output-tokens-escalation", "clark-agent-0.4.0/output-tokens-escalation.events", "", nil},
	{"passing-failures", "clark-agent-0.4.0/passing-failures.events", "", nil},
	{"context-overflow", "clark-agent-0.4.0/context-overflow.events", "", nil},
	{"transform-trims", "clark-agent-0.4.0/transform-trims.enveloped", "", nil},
	{"fatal-stream-error", "clark-agent-0.4.0/fatal-stream-error.events", "", nil},
	{"abort-during-tool", "clark-agent-0.4.0/abort-during-tool.events", "", nil},
	{"dying-child", "clark-agent-0.4.0/dying-child.events", "", nil},
	{"without-identity", "clark-agent-0.4.0/without-identity.events", "", nil},
	{"without-identity-in-a-session", "clark-agent-0.4.0/without-identity.events", "",
		[]input.Settings{{Session: "s-1"}}},
	{"parallel-children-shared-sink", "clark-agent-0.4.0/parallel-children-shared-sink.events", "", nil},
	{"parallel-children-shared-sink-with-trajectory", "clark-agent-0.4.0/parallel-children-shared-sink.events",
		"clark-agent-0.4.0/parallel-children-shared-sink.trajectory", nil},
	{"parallel-children-shared-recorder", "clark-agent-0.4.0/parallel-children-shared-recorder.trajectory", "", nil},
	{"traps", "traps", "", nil},
}

// TestGolden reads every recording that has a golden file (NAME.golden next to it, clark/testdata/golden) and compares
// every event and error with that.
func TestGolden(t *testing.T) {
	read := func(t *testing.T, path string) []byte {
		t.Helper()
		text := must.Get(os.ReadFile(path))(t)
		return text
	}
	compare := func(golden, path string, d input.Decoder) {
		t.Run(golden, func(t *testing.T) {
			var got []byte
			for ev, err := range d.Events(bytes.NewReader(read(t, path))) {
				if err != nil {
					got = append(append(append(got, "error: "...), err.Error()...), '\n')
					continue
				}
				got = append(append(got, agenttest.Dump(ev)...), '\n')
			}
			if *update {
				must.Do(t, os.WriteFile(golden, got, 0o644))
			}
			want := strings.Split(string(read(t, golden)), "\n")
			if diff := cmp.Diff(want, strings.Split(string(got), "\n")); diff != "" {
				t.Errorf("(-want +got, -update writes it anew):\n%s", diff)
			}
		})
	}
	n := 0
	for name, paths := range fixtures(t) {
		dialect, _ := dialects.Named(name)
		for _, path := range paths {
			for _, golden := range []string{path + ".golden", strings.TrimSuffix(path, filepath.Ext(path)) + ".golden"} {
				if _, err := os.Stat(golden); err == nil {
					compare(golden, path, dialect.New())
					n++
				}
			}
		}
	}
	if n < 28 {
		t.Errorf("only %d goldens", n)
	}
	file := func(name string) string {
		ext := ".ndjson"
		if strings.HasSuffix(name, ".trajectory") {
			ext = ".jsonl"
		}
		return "clark/testdata/" + name + ext
	}
	for _, test := range clarkGoldens {
		d := clark.NewDecoder(test.opts...)
		if test.trajectory != "" {
			d.WithTrajectory(bytes.NewReader(read(t, file(test.trajectory))))
		}
		compare("clark/testdata/golden/"+test.name+".ndjson", file(test.file), d)
	}
}
