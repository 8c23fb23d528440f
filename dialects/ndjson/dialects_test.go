package ndjson_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/dialects/phi"
)

// TestEventsOfADialectComeBack writes every event of phi-core's recordings as a line and reads it: the same event comes
// back.
func TestEventsOfADialectComeBack(t *testing.T) {
	files, err := filepath.Glob("../phi/testdata/phi-core-*/*.events.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for ev, err := range phi.Events(bytes.NewReader(text)) {
			if err != nil {
				continue // recordings that are cut on purpose
			}
			n++
			line := ndjson.AppendEvent(nil, ev)
			again, bad := ndjson.Read(input.SettingsOf(), input.Line{Text: line, Number: 1}, 1)
			if diff := cmp.Diff([]event.Event{ev}, again, cmpopts.EquateEmpty()); diff != "" || bad != nil {
				t.Fatalf("%s: %v\n%s\n%s", file, bad, line, diff)
			}
		}
	}
	if n < 1000 {
		t.Errorf("%d events", n)
	}
	t.Logf("%d events", n)
}
