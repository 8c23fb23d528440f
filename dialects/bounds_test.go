package dialects_test

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/otelagent"
)

var (
	dates  = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	millis = regexp.MustCompile(`"[a-z_A-Z]+" ?: ?"?(1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?)\b`)
	// Of another time than what happened on the wire: when a session that is listed was last changed.
	elsewhen = regexp.MustCompile(`"updatedAt" ?: ?"[^"]*"`)
)

// earliest returns the earliest time that the text of an input states; zero without any.
func earliest(t *testing.T, text []byte) (first time.Time) {
	t.Helper()
	text = elsewhen.ReplaceAll(text, nil)
	take := func(at time.Time) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	for _, m := range dates.FindAll(text, -1) {
		if at, err := time.Parse(time.RFC3339Nano, string(m)); err == nil {
			take(at)
		}
	}
	for _, m := range millis.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseInt(string(m[1]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		for n < 1e18 { // seconds, milliseconds or microseconds
			n *= 10
		}
		take(time.Unix(0, n))
	}
	return first
}

// No span of a recording begins or ends before the earliest time that the recording states.
func TestNothingBeforeTheFirstTime(t *testing.T) {
	// A line of otelagent without a time is among the first of a run that state none either. It is handed out at once. The
	// run cannot wait for its first time then, and begins at the beginning of 1970, as docs/fidelity.md says.
	const untimed = "clark/testdata/traps.ndjson"
	stating := map[string]int{}
	for name, paths := range fixtures(t) {
		d, _ := dialects.Named(name)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			first := earliest(t, text)
			if first.IsZero() || path == untimed {
				continue
			}
			out := tracetest.NewInMemoryExporter()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(out))
			rec := event.NewRecorder(otelagent.NewTracer(otelagent.WithTracerProvider(provider)))
			for ev, err := range d.New().Events(bytes.NewReader(text)) {
				if err == nil {
					rec.Record(t.Context(), ev)
				}
			}
			rec.Close(t.Context())
			n := 0
			for _, s := range out.GetSpans() {
				if s.StartTime.Before(first) || s.EndTime.Before(first) {
					n++
					t.Errorf("%s: %s is from %v to %v, before %v", path, s.Name, s.StartTime.UTC(), s.EndTime.UTC(), first.UTC())
				}
			}
			stating[name]++
		}
	}
	for _, name := range dialects.Names() {
		if stating[name] == 0 {
			t.Errorf("no recording of %s states a time", name)
		}
	}
}
