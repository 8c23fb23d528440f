// Package exportsize is what the adapter knows of the exporters of its process: whether one of them keeps requests below what
// receivers take. Where none does, it says so once, before the first batch is likely to be refused.
package exportsize

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
)

// What the SDK's batcher sends in one request unless told otherwise, and what a receiver of OTLP over gRPC takes. A receiver
// refuses what is larger as a whole, with the spans of everybody else in it.
const (
	batchTime  = 5 * time.Second
	batchSpans = 512
	limit      = 4 << 20
)

// process is the state of this process.
var process meter

// MarkGuarded says that an exporter of this process splits its batches by size.
func MarkGuarded() { process.quiet.Store(true) }

// Guarded reports whether MarkGuarded was called.
func Guarded() bool { return process.quiet.Load() }

// Ended counts a span of that run with that many bytes of content, which is about to end. In a process without a guarded
// exporter, when a batch of the SDK may have come to more than receivers take, the error handler of OpenTelemetry hears so,
// once a process. It costs next to nothing, never waits and starts no goroutine. Safe for concurrent use.
func Ended(bytes int, session, run string) {
	if process.quiet.Load() || !process.add(time.Now(), bytes) || process.warned.Swap(true) {
		return
	}
	// Outside of the lock: a handler may end spans of its own.
	otel.Handle(fmt.Errorf("otelagent: spans with more than %d MiB of content ended within %v, the last of them in session %q, run %q. "+
		"OTLP over gRPC refuses requests over %d MiB, so the whole batch is likely lost, spans of others in it included. "+
		"This line mends it: exporter = otelsetup.WrapExporter(exporter)", limit>>20, batchTime, session, run, limit>>20))
}

// meter sums the content that the next batch may hold.
type meter struct {
	// quiet ends all counting: a guarded exporter is there. warned does when it is known that there is none.
	quiet, warned atomic.Bool

	mu          sync.Mutex
	spans       [batchSpans]entry // a ring
	first, used int
	bytes       int
}

type entry struct {
	at    time.Time
	bytes int
}

// add counts a span and reports whether the last spans, as many and as young as a batch can hold, come to more than the limit.
func (m *meter) add(now time.Time, bytes int) bool {
	if m.warned.Load() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.used > 0 && (m.used == batchSpans || now.Sub(m.spans[m.first].at) > batchTime) {
		m.bytes -= m.spans[m.first].bytes
		m.first, m.used = (m.first+1)%batchSpans, m.used-1
	}
	m.spans[(m.first+m.used)%batchSpans] = entry{now, bytes}
	m.used++
	m.bytes += bytes
	return m.bytes > limit
}
