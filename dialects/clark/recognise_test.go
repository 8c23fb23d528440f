package clark

import (
	"testing"
)

func TestIsTrajectory(t *testing.T) {
	for file, want := range map[string]bool{"testdata/sample.trajectory.jsonl": true,
		"testdata/sample.events.ndjson": false, "testdata/traps.ndjson": false} {
		if got := IsTrajectory(readFile(t, file)); got != want {
			t.Errorf("%s: %v", file, got)
		}
	}
	if !IsTrajectory(append([]byte(`{"type":"otelagent.fact_stated"}`+"\n"),
		readFile(t, "testdata/sample.trajectory.jsonl")...)) {
		t.Error("behind a line of our own: no")
	}
	if IsTrajectory(nil) {
		t.Error("nothing is a trajectory")
	}
}
