package writer

import (
	"container/list"
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// Bounds of what a Tracer remembers.
const (
	maxSessions       = 4096
	maxRunsPerSession = 64
	// defaultBlockIDs bounds what is remembered of content, in entries.
	defaultBlockIDs = 1 << 18
)

// sessions is what a Tracer remembers between the runs of a session: how many there were, their span contexts, and what
// they sent. It is bounded; the session unused for longest is forgotten first.
type sessions struct {
	mu         sync.Mutex
	byID       map[string]*list.Element // of *session
	order      *list.List               // most recently used first
	entries    int64                    // of all memories
	maxEntries int64
}

type session struct {
	id      string
	ordinal int64
	from    int64                        // start of the run that has number 1, unix ns
	numbers map[runStart]int64           // of runs
	runs    map[string]trace.SpanContext // by id, the last of each

	memories map[memoryKey]*memory
}

// runStart distinguishes the runs of a session.
type runStart struct {
	id string
	ns int64
}

func newSessions(maxEntries int) *sessions {
	return &sessions{byID: make(map[string]*list.Element), order: list.New(), maxEntries: int64(maxEntries)}
}

// use returns what is remembered of a session and marks it as used. The caller holds the lock.
func (s *sessions) use(id string) *session {
	if e, ok := s.byID[id]; ok {
		s.order.MoveToFront(e)
		return e.Value.(*session)
	}
	m := &session{id: id}
	s.byID[id] = s.order.PushFront(m)
	if len(s.byID) > maxSessions {
		old := s.order.Remove(s.order.Back()).(*session)
		s.forget(old)
		delete(s.byID, old.id)
	}
	return m
}

// run counts a run of its session. It returns its number, from 1, and the start of the run that has number 1. A run
// that is recorded again, as by a file that is read twice, keeps its number. run remembers the run's span context.
func (s *sessions) run(o *origin, sc trace.SpanContext) (n, from int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.use(o.session)
	start := runStart{o.run, o.startNS}
	n, known := m.numbers[start]
	if !known {
		if m.ordinal == 0 {
			m.from = o.startNS
		}
		if m.runs == nil || len(m.numbers) == maxRunsPerSession {
			m.numbers, m.runs = make(map[runStart]int64), make(map[string]trace.SpanContext)
		}
		m.ordinal++
		n = m.ordinal
		m.numbers[start] = n
	}
	m.runs[o.run] = sc
	return n, m.from
}

// contextOf returns the span context of the last run of that id, invalid when it is not remembered.
func (s *sessions) contextOf(id, run string) trace.SpanContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.byID[id]; ok {
		return e.Value.(*session).runs[run]
	}
	return trace.SpanContext{}
}
