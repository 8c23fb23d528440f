package clark

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecognise(t *testing.T) {
	for _, test := range []struct{ head, why string }{
		{`{"type":"agent_start"}`, "lines with type agent_start"},
		{"\xef\xbb\xbf\n" + `{"type":"turn_end","message":{"role":"assist`, "lines with type turn_end"},
		{"event: message\ndata: " + `{"type":"message_update","partial":{}}` + "\n\n", "lines with type message_update"},
		{`{"ts":1,"seq":1,"run_id":"x","event":{"type":"agent_start"}}`, "lines with a clark-agent event inside"},
		{`{"payload":{"type":"turn_end","message":{"con`, "lines with a clark-agent event inside"},
		{`{"schema_version":1,"seq":0,"recorded_at_unix_ms":1,"payload":{"kind":"turn_started"}}`, "lines with payload.kind and recorded_at_unix_ms"},
		{`{"type":"otelagent.fact_stated"}` + "\n" + `{"type":"agent_start"}`, "lines with type agent_start"},
		{`{"type":"otelagent.fact_stated"}`, ""},
		{`{"type":"AgentStart","loop_id":"x"}`, ""},
		{`{"jsonrpc":"2.0","method":"session/update","params":{"type":"turn_end"}}`, ""},
		{`{"payload":{"kind":"turn_started"}}`, ""},
		{`{"type":"session","data":{"id":"x"}}`, ""},
		{`[{"type":"agent_start"}]`, ""},
		{"", ""},
		{"text", ""},
		{`{"type":`, ""},
	} {
		why, ok := Recognise([]byte(test.head))
		if why != test.why || ok != (test.why != "") {
			t.Errorf("%.60s: %q, %v, want %q", test.head, why, ok, test.why)
		}
	}
}

// TestRecogniseRecordings looks at every recording of all dialects, whole and cut.
func TestRecogniseRecordings(t *testing.T) {
	files := append(glob(t, "testdata/clark-agent-*/*.*ndjson"), glob(t, "testdata/clark-agent-*/*.jsonl")...)
	for _, file := range files {
		head := readFile(t, file)
		first, _, _ := bytes.Cut(head, []byte("\n"))
		for _, n := range []int{len(head), len(first), min(len(head), 64<<10), 240} {
			if _, ok := Recognise(head[:min(n, len(head))]); !ok {
				t.Errorf("%s, %d bytes: not recognised", file, n)
			}
		}
	}
	others := 0
	for _, pattern := range []string{"../phi/testdata/*.ndjson", "../phi/testdata/*/*", "../acp/testdata/*", "../guide/testdata/*", "../ndjson/testdata/*.ndjson"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range list {
			info, err := os.Stat(file)
			if err != nil || info.IsDir() || strings.Contains(file, "clark") {
				continue
			}
			others++
			if why, ok := Recognise(readFile(t, file)); ok {
				t.Errorf("%s: %s", file, why)
			}
		}
	}
	if others < 10 {
		t.Errorf("only %d recordings of other dialects", others)
	}
}

func TestIsTrajectory(t *testing.T) {
	for file, want := range map[string]bool{"testdata/sample.trajectory.jsonl": true, "testdata/sample.events.ndjson": false, "testdata/traps.ndjson": false} {
		if got := IsTrajectory(readFile(t, file)); got != want {
			t.Errorf("%s: %v", file, got)
		}
	}
	if !IsTrajectory(append([]byte(`{"type":"otelagent.fact_stated"}`+"\n"), readFile(t, "testdata/sample.trajectory.jsonl")...)) {
		t.Error("behind a line of our own: no")
	}
	if IsTrajectory(nil) {
		t.Error("nothing is a trajectory")
	}
}
