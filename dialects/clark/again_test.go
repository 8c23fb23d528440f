package clark

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// sentTogether sends each text by itself into one store, as `otelagent send` does, and returns the trees.
func sentTogether(t *testing.T, texts ...[]byte) string {
	t.Helper()
	var rows []session.Row
	for _, text := range texts {
		p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
		rec := event.NewRecorder(p.Tracer())
		for ev, err := range Events(bytes.NewReader(text), input.WithSession("given")) {
			if err != nil {
				t.Error(err)
				continue
			}
			rec.Record(context.Background(), ev)
		}
		rec.Close(context.Background())
		rows = append(rows, p.Batch().Rows...)
	}
	out, err := json.MarshalIndent(session.AssembleAll(rows), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestSentAgain sends recordings twice, and after they grew by some lines: nothing that is there changes. Of lines
// without times the same is asked only of the whole: docs/fidelity.md says so.
func TestSentAgain(t *testing.T) {
	for _, file := range glob(t, "testdata/clark-agent-0.4.0/*.enveloped.ndjson") {
		name := strings.TrimSuffix(filepath.Base(file), ".enveloped.ndjson")
		if testing.Short() && name != "child-shared-sink" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text := readFile(t, file)
			lines := slices.Collect(bytes.Lines(text))
			want := sentTogether(t, text)
			if diff := cmp.Diff(want, sentTogether(t, text, text)); diff != "" {
				t.Errorf("sent twice (-once +twice):\n%s", diff)
			}
			cuts := []int{len(lines) / 3, len(lines) / 2, len(lines) - 2}
			if strings.Contains(name, "-shared-") { // where lines of runs are mixed every cut is another case
				cuts = cuts[:0]
				for n := range lines {
					cuts = append(cuts, n)
				}
			}
			for _, n := range cuts {
				if diff := cmp.Diff(want, sentTogether(t, bytes.Join(lines[:n], nil), text)); diff != "" {
					t.Errorf("grown from %d lines (-once +grown):\n%s", n, diff)
				}
			}
			bare := readFile(t, strings.Replace(file, ".enveloped.", ".events.", 1))
			if diff := cmp.Diff(sentTogether(t, bare), sentTogether(t, bare, bare)); diff != "" {
				t.Errorf("bare, sent twice (-once +twice):\n%s", diff)
			}
		})
	}
}

// TestLive reads a pipe: events come as soon as their line ends, times are those of arrival, and the ends of calls side
// by side are bounds.
func TestLive(t *testing.T) {
	lines := slices.Collect(bytes.Lines(readFile(t, "testdata/clark-agent-0.4.0/parallel-tools.events.ndjson")))
	before := time.Now()
	in := &feed{lines: lines}
	started := 0
	bounds := 0
	for ev, err := range Events(in, input.WithLive()) {
		if err != nil {
			t.Fatal(err)
		}
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
