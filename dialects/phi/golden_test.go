package phi

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden reads whole streams and compares every event, field by field, with testdata/*.golden.
func TestGolden(t *testing.T) {
	for _, name := range []string{"sample-variants", "sample-session", "traps"} {
		t.Run(name, func(t *testing.T) {
			in, err := os.ReadFile(filepath.Join("testdata", name+".ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", name+".golden"), lined(in))
		})
	}
}

// TestEventLog reads phi-core's own durable event log, as 0.15.2 wrote it, and the same events as they came from the
// channel.
func TestEventLog(t *testing.T) {
	read := func(suffix string) []string {
		in, err := os.ReadFile(filepath.Join("testdata", "phi-core-0.15.2", "durable-event-log."+suffix))
		if err != nil {
			t.Fatal(err)
		}
		return collect(string(in))
	}
	channel, log := read("events.ndjson"), read("saved.events.jsonl")
	if len(channel) == 0 || strings.Join(log, "\n") != strings.Join(channel, "\n") {
		t.Errorf("%d events from the log, %d from the channel, or others", len(log), len(channel))
	}
}
