package exportsize

import (
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
)

const mib = 1 << 20

func TestMeterKnowsWhatABatchCanHold(t *testing.T) {
	type step struct {
		after time.Duration
		bytes int
		over  bool
	}
	many := func(n int, s step) []step {
		list := make([]step, n)
		for i := range list {
			list[i] = s
		}
		return list
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"4 MiB are taken, one byte more is not", []step{{0, 4 * mib, false}, {0, 1, true}}},
		{"within 5 s", []step{{0, 3 * mib, false}, {5 * time.Second, 2 * mib, true}}},
		{"not within 5 s", []step{{0, 3 * mib, false}, {5*time.Second + 1, 2 * mib, false}, {time.Second, 2 * mib, false}, {time.Second, mib, true}}},
		{"slowly for ever", many(5000, step{time.Second, 600_000, false})},
		{"what is more than 512 spans ago was in another batch", append(append(
			[]step{{0, 3 * mib, false}}, many(511, step{0, 1, false})...), step{0, 2 * mib, false}, step{0, 3 * mib, true})},
		{"many small ones", append(many(512, step{0, 8192, false}), step{0, 8193, true})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m meter
			now := time.Unix(1, 0)
			for i, s := range tt.steps {
				now = now.Add(s.after)
				if got := m.add(now, s.bytes); got != s.over {
					t.Fatalf("step %d: over the limit: %t, with %d bytes", i, got, m.bytes)
				}
			}
		})
	}
}

// The whole process has one warning. What it looks like where spans are lost is a test of otelsetup.
func TestEndedWarnsOnce(t *testing.T) {
	var heard []string
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		heard = append(heard, err.Error())
		Ended(5*mib, "s", "of the handler") // must not wait for itself
	}))
	for range 20 {
		Ended(mib, "s1", "r1")
	}
	if len(heard) != 1 || !strings.Contains(heard[0], `session "s1", run "r1"`) ||
		!strings.Contains(heard[0], "exporter = otelsetup.WrapExporter(exporter)") {
		t.Errorf("heard %q", heard)
	}

	process.warned.Store(false)
	MarkGuarded()
	Ended(5*mib, "s", "r")
	if len(heard) != 1 || !Guarded() {
		t.Errorf("heard %q, guarded: %t", heard, Guarded())
	}
}

func BenchmarkEnded(b *testing.B) {
	for name, guarded := range map[string]bool{"guarded": true, "unguarded": false} {
		b.Run(name, func(b *testing.B) {
			process.quiet.Store(guarded)
			b.ReportAllocs()
			for b.Loop() {
				Ended(1, "s", "r")
			}
		})
	}
}
