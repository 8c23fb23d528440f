package clark

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/otelagent"
)

const (
	goodStart = `{"type":"agent_start"}` + "\n" + `{"type":"run_identified","identity":{"run_id":"r-1","depth":0}}` + "\n"
	goodEnd   = `{"type":"agent_end","messages":[]}` + "\n"
)

// TestLongRecords counts of a record the whole line that it keeps.
func TestLongRecords(t *testing.T) {
	record := `{"more":"` + strings.Repeat("x", 1<<20) +
		`","recorded_at_unix_ms":1,"payload":{"kind":"turn_started"}}` + "\n"
	d := NewDecoder().WithTrajectory(strings.NewReader(strings.Repeat(record, 65)))
	want := "error: clark-agent: line 2: trajectory: too long: some of its times and runs are left out"
	if got := collect(d, goodStart+goodEnd); !slices.Contains(got, want) || len(d.trajectory.records) != 63 {
		t.Errorf("%d records, %q", len(d.trajectory.records), got)
	}
}

// A record of a transform whose count is absent is kept as it came: whether something changed is not known.
func TestTransformWithoutACount(t *testing.T) {
	got := collect(NewDecoder(), `{"run_id":"r","recorded_at_unix_ms":1795224901000,`+
		`"payload":{"kind":"context_transform_applied","plugin":"p","before_count":5}}`+"\n")
	is := func(typ string) bool {
		return slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, `{"event":"`+typ) })
	}
	if !is("other") || is("compaction") || is("error") {
		t.Errorf("%q", got)
	}
}

func TestTrajectoryThatFails(t *testing.T) {
	d := NewDecoder()
	d.WithTrajectory(io.MultiReader(strings.NewReader("{\"SECRET\n"+`{"type":"turn_start"}`+"\n"),
		iotest.ErrReader(errors.New("broken"))))
	want := []string{
		`error: clark-agent: line 2: trajectory line 1: JSON ends too early at byte 9`,
		`error: clark-agent: line 2: trajectory line 2: no record that is known`,
		`error: clark-agent: line 2: trajectory: read: broken`,
	}
	var got []string
	for _, line := range collect(d, goodStart+goodEnd) {
		if strings.HasPrefix(line, "error") {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// sent sends text through the whole pipeline.
func sent(t *testing.T, text []byte) (got *tree, bad int) {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	bad = play.Lines(t, event.NewRecorder(p.Tracer()),
		NewDecoder(input.Settings{Session: "given"}).Events(bytes.NewReader(text)))
	return treeOf(t, p), bad
}

// TestLostLines takes each line off a recording in turn: the runs and their order stay, and so does each turn that the
// line is not of.
func TestLostLines(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: sends 200 recordings")
	}
	for _, name := range []string{"multi-turn-tools", "child-shared-sink", "output-tokens-escalation"} {
		text := readFile(t, "testdata/clark-agent-0.4.0/"+name+".enveloped.ndjson")
		lines := bytes.SplitAfter(text, []byte("\n"))
		whole, _ := sent(t, text)
		for i := range lines[:len(lines)-1] {
			l := lineOf(t, lines[i])
			broken := append([]byte("{\"type\":\"cut"), '\n')
			in := bytes.Join(append(append(append([][]byte{}, lines[:i]...), broken), lines[i+1:]...), nil)
			got, bad := sent(t, in)
			if bad != 1 {
				t.Errorf("%s without line %d: %d errors", name, i+1, bad)
			}
			if l.variant == "run_identified" || l.variant == "agent_start" {
				continue // the run has another id, or its start is another line
			}
			if len(got.Runs) != len(whole.Runs) {
				t.Errorf("%s without line %d, %s: %d runs, want %d", name, i+1, l.name, len(got.Runs), len(whole.Runs))
				continue
			}
			other := 0
			for j, r := range whole.Runs {
				if len(got.Runs[j].Turns) != len(r.Turns) {
					t.Errorf("%s without line %d, %s: run %d has %d turns, want %d", name, i+1, l.name, j, len(got.Runs[j].Turns),
						len(r.Turns))
					continue
				}
				for k, turn := range r.Turns {
					if !cmp.Equal(turn, got.Runs[j].Turns[k], cmpopts.EquateEmpty()) {
						other++
					}
				}
			}
			if other > 1 {
				t.Errorf("%s without line %d, %s: %d turns are other ones", name, i+1, l.name, other)
			}
		}
	}
}
