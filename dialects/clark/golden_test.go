package clark

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
)

var update = flag.Bool("update", false, "write the golden files anew")

// collect reads inputs with one Decoder and returns its events and errors, one a line.
func collect(d *Decoder, inputs ...string) []string {
	var out []string
	for _, in := range inputs {
		for ev, err := range d.Events(strings.NewReader(in)) {
			if err != nil {
				out = append(out, "error: "+err.Error())
				continue
			}
			out = append(out, string(ndjson.AppendEvent(nil, ev)))
		}
	}
	return out
}

// TestGolden compares every event of whole recordings with testdata/golden/*.ndjson.
func TestGolden(t *testing.T) {
	const newest, old = "testdata/clark-agent-0.4.0/", "testdata/clark-agent-0.2.0/"
	for _, test := range []struct {
		name, file, trajectory string
		opts                   []input.Option
	}{
		{"sample", "testdata/sample.events.ndjson", "", nil},
		{"sample-with-trajectory", "testdata/sample.events.ndjson", "testdata/sample.trajectory.jsonl", nil},
		{"sample-trajectory", "testdata/sample.trajectory.jsonl", "", nil},
		{"enveloped", newest + "multi-turn-tools.enveloped.ndjson", "",
			[]input.Option{input.WithAgent("pilot"), input.WithProvider("anthropic")}},
		{"tool-errors", newest + "tool-errors.events.ndjson", "", nil},
		{"tool-errors-0.2.0", old + "tool-errors.events.ndjson", "", nil},
		{"parallel-tools", newest + "parallel-tools.enveloped.ndjson", "", nil},
		{"call-outside-list", newest + "call-outside-list.events.ndjson", "", nil},
		{"blocked-by-hooks", newest + "blocked-by-hooks.events.ndjson", "", nil},
		{"conflicting-gates", newest + "conflicting-gates.events.ndjson", "", nil},
		{"silenced-gate", newest + "silenced-gate.events.ndjson", "", nil},
		{"gates-allow-nothing", newest + "gates-allow-nothing.events.ndjson", "", nil},
		{"output-tokens-escalation", newest + "output-tokens-escalation.events.ndjson", "", nil},
		{"passing-failures", newest + "passing-failures.events.ndjson", "", nil},
		{"context-overflow", newest + "context-overflow.events.ndjson", "", nil},
		{"transform-trims", newest + "transform-trims.enveloped.ndjson", "", nil},
		{"fatal-stream-error", newest + "fatal-stream-error.events.ndjson", "", nil},
		{"abort-during-tool", newest + "abort-during-tool.events.ndjson", "", nil},
		{"dying-child", newest + "dying-child.events.ndjson", "", nil},
		{"without-identity", newest + "without-identity.events.ndjson", "", nil},
		{"without-identity-in-a-session", newest + "without-identity.events.ndjson", "",
			[]input.Option{input.WithSession("s-1")}},
		{"parallel-children-shared-sink", newest + "parallel-children-shared-sink.events.ndjson", "", nil},
		{"parallel-children-shared-sink-with-trajectory", newest + "parallel-children-shared-sink.events.ndjson", newest +
			"parallel-children-shared-sink.trajectory.jsonl", nil},
		{"parallel-children-shared-recorder", newest + "parallel-children-shared-recorder.trajectory.jsonl", "", nil},
		{"traps", "testdata/traps.ndjson", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := NewDecoder(test.opts...)
			if test.trajectory != "" {
				d.WithTrajectory(bytes.NewReader(readFile(t, test.trajectory)))
			}
			got := strings.Join(collect(d, string(readFile(t, test.file))), "\n") + "\n"
			golden := "testdata/golden/" + test.name + ".ndjson"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(readFile(t, golden)), got); diff != "" {
				t.Errorf("%s (-update writes it anew) (-want +got):\n%s", golden, diff)
			}
		})
	}
}
