package otelsetup

import (
	"context"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/spans"
)

// lost tells those who asked which content did not arrive.
type lost struct {
	later

	mu    sync.Mutex
	asked []func(session string, blocks []spans.BlockID)
}

func (l *lost) tell(f func(session string, blocks []spans.BlockID)) {
	if f == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, f)
}

// add tells of spans. The ids are computed here, so that no content waits in memory: as much work as it was to make them.
func (l *lost) add(list []sdktrace.ReadOnlySpan) {
	l.mu.Lock()
	asked := l.asked
	l.mu.Unlock()
	if len(asked) == 0 {
		return
	}
	for _, s := range list {
		if session, blocks, ok := contentOf(s); ok {
			l.do(func() {
				for _, f := range asked {
					f(session, blocks)
				}
			})
		}
	}
}

// contentOf returns the session of a span and the ids of the blocks on it, and whether it has blocks or lists at all.
func contentOf(s sdktrace.ReadOnlySpan) (session string, blocks []spans.BlockID, ok bool) {
	for _, e := range s.Events() {
		if e.Name != spans.EventBlocks {
			continue
		}
		for _, kv := range e.Attributes {
			list := kv.Value.AsStringSlice()
			ok = ok || kv.Key == spans.ListsKey && len(list) > 0
			for _, text := range list {
				switch kv.Key {
				case spans.BlockBodiesKey:
					blocks = append(blocks, spans.BlockOfString(text))
				case spans.BlockPartsKey:
					if r, err := spans.ParseRecipe(text); err == nil {
						blocks = append(blocks, spans.RecipeID(r.ID, text))
					}
				}
			}
		}
	}
	if ok = ok || len(blocks) > 0; !ok {
		return "", nil, false
	}
	for _, kv := range s.Attributes() {
		if kv.Key == spans.SessionIDKey {
			return kv.Value.AsString(), blocks, true
		}
	}
	return "", nil, false
}

// later runs functions one after another, on a goroutine that is there only while there are some.
type later struct {
	mu      sync.Mutex
	waiting []func()
	running bool
}

func (l *later) do(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, f)
	if !l.running {
		l.running = true
		go l.run()
	}
}

func (l *later) run() {
	for {
		l.mu.Lock()
		list := l.waiting
		l.waiting = nil
		l.running = len(list) > 0
		l.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for _, f := range list {
			f()
		}
	}
}

// wait waits until what was asked for so far is done, at most until ctx ends.
func (l *later) wait(ctx context.Context) {
	done := make(chan struct{})
	l.do(func() { close(done) })
	select {
	case <-done:
	case <-ctx.Done():
	}
}
