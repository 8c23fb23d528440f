package otelagent

import (
	"container/list"
	"hash/maphash"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// Bounds of what a Tracer remembers.
const (
	defaultBlockIDs   = 1 << 16
	maxSessions       = 4096
	maxRunsPerSession = 64
	maxMemoEnvelope   = 1 << 10
)

// sessions is what a Tracer remembers between the runs of a session: how many there were, their span contexts, and
// which blocks were sent. It is bounded; the session unused for longest is forgotten first.
type sessions struct {
	maxIDs       int
	seedA, seedB maphash.Seed

	mu    sync.Mutex
	byID  map[string]*list.Element // of *sessionMemory
	order *list.List               // most recently used first
	ids   int                      // entries of sent and memo, over all sessions
}

type sessionMemory struct {
	id      string
	ordinal int64
	from    int64                        // start of the run that has number 1, unix ns
	numbers map[runStart]int64           // of runs
	runs    map[string]trace.SpanContext // by id, the last of each
	sent    map[spans.BlockID]struct{}
	memo    map[memoKey]memo
}

// runStart tells the runs of a session apart.
type runStart struct {
	id string
	ns int64
}

// memoKey names bytes seen before. The hash is seeded, since what tools return may be hostile, and long enough that two
// pieces with the same key will not be met.
type memoKey struct {
	a, b uint64
	n    int
}

// memo is what became of those bytes: their block and what was taken off them.
type memo struct {
	id       spans.BlockID
	envelope string
}

func newSessions(maxIDs int) *sessions {
	return &sessions{
		maxIDs: maxIDs, seedA: maphash.MakeSeed(), seedB: maphash.MakeSeed(),
		byID: make(map[string]*list.Element), order: list.New(),
	}
}

// use returns what is remembered of session and marks it as used. The caller holds the lock.
func (s *sessions) use(session string) *sessionMemory {
	if e, ok := s.byID[session]; ok {
		s.order.MoveToFront(e)
		return e.Value.(*sessionMemory)
	}
	m := &sessionMemory{id: session}
	s.byID[session] = s.order.PushFront(m)
	if len(s.byID) > maxSessions {
		s.forget(s.order.Back())
	}
	return m
}

func (s *sessions) forget(e *list.Element) {
	m := s.order.Remove(e).(*sessionMemory)
	delete(s.byID, m.id)
	s.ids -= len(m.sent) + len(m.memo)
}

// makeRoom keeps the number of remembered ids in its bound. The caller holds the lock and is about to add one to m.
func (s *sessions) makeRoom(m *sessionMemory) {
	for s.ids >= s.maxIDs {
		if last := s.order.Back(); last.Value.(*sessionMemory) != m {
			s.forget(last)
			continue
		}
		s.ids -= len(m.sent) + len(m.memo)
		m.sent, m.memo = nil, nil
	}
	s.ids++
}

// run counts a run of its session and returns its number, from 1: for one told again, as by a file that is read twice, the
// number that it had; and the start of the run that has number 1. It remembers the run's span context.
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
func (s *sessions) contextOf(session, run string) trace.SpanContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.byID[session]; ok {
		return e.Value.(*sessionMemory).runs[run]
	}
	return trace.SpanContext{}
}

// claim reports whether the block has yet to be sent for session, and marks it as sent.
func (s *sessions) claim(session string, id spans.BlockID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.use(session)
	if _, sent := m.sent[id]; sent {
		return false
	}
	s.makeRoom(m)
	if m.sent == nil {
		m.sent = make(map[spans.BlockID]struct{})
	}
	m.sent[id] = struct{}{}
	return true
}

// key hashes the bytes of a message and what is to be taken off it.
func (s *sessions) key(raw []byte, strip []string) memoKey {
	var h [2]maphash.Hash
	h[0].SetSeed(s.seedA)
	h[1].SetSeed(s.seedB)
	for i := range h {
		for _, k := range strip {
			_, _ = h[i].WriteString(k)
			_ = h[i].WriteByte(0)
		}
		_, _ = h[i].Write(raw)
	}
	return memoKey{h[0].Sum64(), h[1].Sum64(), len(raw)}
}

// recall returns what became of the bytes of key when they were last met in session and are known to be sent.
func (s *sessions) recall(session string, key memoKey) (memo, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.byID[session]
	if !ok {
		return memo{}, false
	}
	m, ok := e.Value.(*sessionMemory).memo[key]
	return m, ok
}

// remember keeps what became of the bytes of key.
func (s *sessions) remember(session string, key memoKey, v memo) {
	if len(v.envelope) > maxMemoEnvelope {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.use(session)
	if _, known := m.memo[key]; known {
		return
	}
	s.makeRoom(m)
	if m.memo == nil {
		m.memo = make(map[memoKey]memo)
	}
	m.memo[key] = v
}
