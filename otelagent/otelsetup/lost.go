package otelsetup

import (
	"context"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/spans"
)

// lost reports the sessions whose spans were not delivered, on a goroutine that ends when all are reported.
type lost struct {
	mu      sync.Mutex
	funcs   []func(session string)
	waiting map[string]bool // sessions that are still to be reported
	done    chan struct{}   // closed when none is; nil when the goroutine does not run
}

func (l *lost) register(f func(session string)) {
	if f == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.funcs = append(l.funcs, f)
}

// add has the sessions of these spans reported, each once.
func (l *lost) add(list []sdktrace.ReadOnlySpan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.funcs) == 0 {
		return
	}
	for _, s := range list {
		for _, kv := range s.Attributes() {
			if kv.Key != spans.SessionIDKey {
				continue
			}
			if l.done == nil {
				l.done, l.waiting = make(chan struct{}), make(map[string]bool)
				go l.run()
			}
			l.waiting[kv.Value.AsString()] = true
		}
	}
}

func (l *lost) run() {
	for {
		l.mu.Lock()
		sessions, funcs := l.waiting, l.funcs
		l.waiting = make(map[string]bool)
		if len(sessions) == 0 {
			close(l.done)
			l.done = nil
		}
		l.mu.Unlock()
		if len(sessions) == 0 {
			return
		}
		for session := range sessions {
			for _, f := range funcs {
				f(session)
			}
		}
	}
}

// wait waits until all sessions are reported, at most until ctx ends.
func (l *lost) wait(ctx context.Context) {
	l.mu.Lock()
	done := l.done
	l.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}
