package otelsetup

import (
	"sync"
	"sync/atomic"
)

// Stats says what became of spans.
type Stats struct {
	// Ended is the number of sampled spans that ended; of an Exporter, those that it was given.
	Ended int64
	// Exported is the number of spans in requests that the receiver took, Failed of those in requests that it did not take.
	Exported, Failed int64
	// Dropped is the number of spans that were not even queued, because too much waited already (WithMaxQueueBytes,
	// WithMaxQueueSpans).
	Dropped int64
	// LastError is why the last batch failed of which something did: its first error. Nil when none did.
	LastError error
	// Live counts copies of open spans, which are no part of the others; zero without WithLive.
	Live LiveStats
}

// Lost returns how many spans ended and were not delivered: those that failed, and those dropped.
// After Shutdown it is final; before, spans still under way count as well.
func (s Stats) Lost() int64 { return s.Ended - s.Exported }

// counts counts the spans that an exporter is given, and those that leave it.
type counts struct {
	given, exported, failed atomic.Int64

	mu  sync.Mutex
	err error
}

func (c *counts) setError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *counts) stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Ended: c.given.Load(), Exported: c.exported.Load(), Failed: c.failed.Load(), LastError: c.err}
}
