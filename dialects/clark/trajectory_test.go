package clark

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/must"
)

// TestTrajectoryGoesOn cuts the events of a recording after each line: the trajectory yields the rest of each run,
// once.
func TestTrajectoryGoesOn(t *testing.T) {
	lines := strings.SplitAfter(string(readFile(t, "testdata/sample.events.ndjson")), "\n")
	records := readFile(t, "testdata/sample.trajectory.jsonl")
	count := func(events []string) map[string]int {
		n := map[string]int{}
		for _, ev := range events {
			for _, kind := range []string{"run_started", "run_ended", "turn_started", "turn_ended", "tool_started",
				"tool_ended", "attempt_discarded", "compaction_ended", "error"} {
				if strings.HasPrefix(ev, `{"event":"`+kind+`"`) || strings.HasPrefix(ev, kind+":") {
					n[kind]++
				}
			}
		}
		return n
	}
	want := map[string]int{"run_started": 2, "run_ended": 2, "turn_started": 4, "turn_ended": 4, "tool_started": 4,
		"tool_ended": 4, "attempt_discarded": 1, "compaction_ended": 1}
	for i := 2; i <= len(lines); i++ {
		d := NewDecoder().WithTrajectory(bytes.NewReader(records))
		if diff := cmp.Diff(want, count(collect(d, strings.Join(lines[:i], "")))); diff != "" {
			t.Errorf("cut behind line %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestTrajectoryTellsWhatIsLost takes off a line that has a record: a defect says so at the end of its run.
func TestTrajectoryTellsWhatIsLost(t *testing.T) {
	lines := strings.SplitAfter(string(readFile(t, "testdata/sample.events.ndjson")), "\n")
	records := readFile(t, "testdata/sample.trajectory.jsonl")
	tested := 0
	for i := range lines[:len(lines)-1] {
		l := lineOf(t, []byte(lines[i]))
		switch l.variant {
		case "message_end", "tool_execution_end", "tool_execution_start", "context_transform_applied", "tool_gate_applied":
		default:
			continue
		}
		tested++
		d := NewDecoder().WithTrajectory(bytes.NewReader(records))
		events := strings.Join(collect(d, strings.Join(lines[:i], "")+strings.Join(lines[i+1:], "")), "\n")
		if !strings.Contains(events, `"code":"event_lost","detail":"1 records of the trajectory have no event"`) {
			t.Errorf("without line %d, %s: no defect", i+1, l.name)
		}
		if strings.Contains(events, "error:") {
			t.Errorf("without line %d, %s: an error", i+1, l.name)
		}
	}
	if tested < 20 {
		t.Errorf("only %d lines", tested)
	}
}

// TestSharedRecorderWithEvents gives the events of a parent, and records of it and of its child in one recorder: those
// of the parent after the end of its child have the id of the child, and are no events of it.
func TestSharedRecorderWithEvents(t *testing.T) {
	const base = "testdata/clark-agent-0.4.0/child-shared-recorder"
	text := string(readFile(t, base+".events.ndjson"))
	start := strings.LastIndex(text, `{"type":"agent_start"}`)
	_, behind, _ := strings.Cut(text[start:], `{"type":"agent_end"`) // the end of the child
	_, behind, _ = strings.Cut(behind, "\n")
	events := text[:start] + behind
	d := NewDecoder().WithTrajectory(bytes.NewReader(readFile(t, base+".trajectory.jsonl")))
	got, parent := map[string]int{}, ""
	for ev, err := range d.Events(strings.NewReader(events)) {
		must.Do(t, err)
		switch e := ev.(type) {
		case *event.RunStarted:
			if e.ParentID == "" {
				parent = e.Run
			}
		case *event.TurnEnded:
			got[fmt.Sprint("turns, parent ", e.Run == parent)]++
		case *event.RunEnded:
			got[fmt.Sprint("ends, parent ", e.Run == parent)]++
		}
	}
	want := map[string]int{"turns, parent true": 2, "turns, parent false": 2, "ends, parent true": 1,
		"ends, parent false": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
