package clark

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
)

// FuzzDecoder reads any two inputs, one of them as the trajectory of the other: no panic, errors that say where, counts
// that agree, events that can be written and recorded, and the same again.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte(goodStart+goodEnd), []byte(nil))
	f.Add(readFile(f, "testdata/traps.ndjson"), []byte(nil))
	f.Add(readFile(f, "testdata/sample.events.ndjson"), readFile(f, "testdata/sample.trajectory.jsonl"))
	files, err := filepath.Glob("testdata/clark-agent-0.4.0/*.events.ndjson")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		base := file[:len(file)-len(".events.ndjson")]
		if _, err := filepath.Glob(base + ".trajectory.jsonl"); err == nil && filepath.Ext(base) == "" {
			f.Add(readFile(f, file), readFile(f, base+".trajectory.jsonl"))
		}
	}
	f.Fuzz(func(t *testing.T, events, records []byte) {
		read := func() (out []byte) {
			d := NewDecoder(input.Settings{MaxLine: 1 << 16}).WithTrajectory(bytes.NewReader(records))
			rec := event.NewRecorder(nil)
			var rejected int64
			line := int64(-1)
			for _, in := range [][]byte{events, records, events} {
				for ev, err := range d.Events(bytes.NewReader(in)) {
					if err == nil {
						out = append(append(out, agenttest.Dump(ev)...), '\n')
						rec.Record(context.Background(), ev)
						continue
					}
					var bad *input.LineError
					if !errors.As(err, &bad) || bad.Reason == "" {
						t.Fatalf("%v", err)
					}
					if bad.Seq != line || bad.Field == "" || len(bad.Field) > 10 && bad.Field[:10] == "trajectory" {
						rejected++
					}
					line = bad.Seq
				}
			}
			if s := d.Stats(); s.Rejected > rejected || s.Events+s.Rejected > 2*s.Lines+rejected {
				t.Fatalf("%+v, %d errors", s, rejected)
			}
			rec.Close(context.Background())
			return out
		}
		if one := read(); !bytes.Equal(one, read()) {
			t.Error("read again, the events are other ones")
		}
		Recognise(input.OutlineOf(events))
	})
}
