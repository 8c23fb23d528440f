package clark

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/must"
)

// TestRunsThatNeverEnd begins more runs than are remembered. The decoder ends those that it forgets, and no line costs
// more the more runs there were.
func TestRunsThatNeverEnd(t *testing.T) {
	const runs = 20_000
	began := func(id, parent string) string {
		return `{"type":"agent_start"}` + "\n" + fmt.Sprintf(`{"type":"run_identified","identity":{"run_id":%q,`+
			`"parent_run_id":%q,"depth":1}}`, id, parent) +
			"\n" + `{"type":"turn_start"}` + "\n"
	}
	recordOf := func(id string) string {
		return fmt.Sprintf(`{"schema_version":1,"seq":0,"run_id":%q,"depth":0,"recorded_at_unix_ms":1780000000000,`+
			`"payload":{"kind":"run_started","identity":{"run_id":%[1]q,"depth":0}}}`, id) + "\n"
	}
	var children, records strings.Builder
	children.WriteString(began("parent", ""))
	for i := range runs {
		children.WriteString(began(fmt.Sprint("child-", i), "parent"))
		records.WriteString(recordOf(fmt.Sprint("run-", i)))
	}
	for _, test := range []struct {
		name, events, trajectory string
		open, want               int // at most; -1 is any number
	}{
		{"children of one run", children.String(), "", maxOpen + 1, runs + 1},
		{"records of runs", records.String(), "", -1, runs},
		{"a trajectory of runs", began("r", ""), records.String(), -1, runs + 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := NewDecoder()
			if test.trajectory != "" {
				d.WithTrajectory(strings.NewReader(test.trajectory))
			}
			start := time.Now()
			started, ended := 0, 0
			for ev, err := range d.Events(strings.NewReader(test.events)) {
				switch ev.(type) {
				case *event.RunStarted:
					started++
				case *event.RunEnded:
					ended++
				}
				must.Do(t, err)
				if time.Since(start) > 20*time.Second { // it takes less than one
					t.Fatalf("%d runs took 20 seconds", started)
				}
			}
			if started != test.want || test.open >= 0 && started-ended > test.open {
				t.Errorf("%d runs started, %d ended; want %d, and at most %d open", started, ended, test.want, test.open)
			}
		})
	}
}
