package adapter_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/otelagent"
)

// Every request of every recording of the real crate comes back byte for byte.
func TestRequestsComeBack(t *testing.T) {
	for _, file := range fixtures(t) {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+strings.TrimSuffix(filepath.Base(file), ".events.ndjson"), func(t *testing.T) {
			p, exp := collect(t)
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			playInto(t, p, raw, otelagent.WithCapture(otelagent.CaptureContent))
			w := readWire(t, exp.GetSpans())
			nth := map[string]int{}
			for _, want := range requestsOf(t, raw) {
				at := fmt.Sprint(want.Run, want.Turn)
				got, err := w.payload(want.Run, want.Turn, 0, nth[at])
				nth[at]++
				if err != nil {
					t.Errorf("turn %d of %s: %v", want.Turn, want.Run, err)
				} else if got != string(want.Payload) {
					t.Errorf("turn %d of %s:\n got %s\nwant %s", want.Turn, want.Run, got, want.Payload)
				}
			}
		})
	}
}

// streamed is a request as the stream has it.
type streamed struct {
	Run     string          `json:"loop_id"`
	Turn    int64           `json:"turn_index"`
	Payload json.RawMessage `json:"payload"`
}

// requestsOf returns the requests of an event stream.
func requestsOf(t testing.TB, events []byte) (list []streamed) {
	t.Helper()
	for line := range bytes.Lines(events) {
		if !bytes.Contains(line, []byte(`"TurnRequest"`)) {
			continue
		}
		var r streamed
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

func playInto(t testing.TB, p *sdktrace.TracerProvider, events []byte, opts ...otelagent.Option) {
	t.Helper()
	rec := event.NewRecorder(otelagent.NewTracer(append(opts, otelagent.WithTracerProvider(p))...))
	for ev, err := range phi.Events(bytes.NewReader(events)) {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(t.Context(), ev)
	}
	rec.Close(t.Context())
}
