package phi

import (
	"bytes"
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
			got := []byte(strings.Join(collect(string(in)), "\n"))
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
				for i := range min(len(g), len(w)) {
					if g[i] != w[i] {
						t.Fatalf("%s:%d: got\n%s\nwant\n%s\n(-update writes it anew)", golden, i+1, g[i], w[i])
					}
				}
				t.Fatalf("%s: got %d lines, want %d", golden, len(g), len(w))
			}
		})
	}
}

// TestEventLog reads phi-core's own durable event log, as 0.15.2 wrote it, and the same events as they came from the channel.
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
