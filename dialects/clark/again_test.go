package clark

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// TestLive reads a pipe: events come as soon as their line ends, times are those of arrival, and the ends of calls side
// by side are bounds.
func TestLive(t *testing.T) {
	lines := slices.Collect(bytes.Lines(readFile(t, "testdata/clark-agent-0.4.0/parallel-tools.events.ndjson")))
	before := time.Now()
	in := &feed{lines: lines}
	started := 0
	bounds := 0
	for ev, err := range NewDecoder(input.Settings{Live: true}).Events(in) {
		must.Do(t, err)
		switch ev := ev.(type) {
		case *event.RunStarted:
			if started = in.given; ev.Arrived.Before(before) || !ev.Start.Time.IsZero() {
				t.Errorf("the run arrived at %v, and is stated to start at %v", ev.Arrived, ev.Start.Time)
			}
		case *event.ToolEnded:
			if ev.End.Source == spans.TimeSourceBound && !ev.End.Time.Before(before) {
				bounds++
			}
		}
	}
	if started != 3 || bounds != 3 {
		t.Errorf("the run started after %d lines, want 3; %d ends are bounds, want 3", started, bounds)
	}
}

// feed gives one line a read.
type feed struct {
	lines [][]byte
	given int
}

func (f *feed) Read(p []byte) (int, error) {
	if f.given == len(f.lines) {
		return 0, io.EOF
	}
	f.given++
	return copy(p, f.lines[f.given-1]), nil
}
