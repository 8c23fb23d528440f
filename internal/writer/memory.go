package writer

import (
	"container/list"
	"crypto/sha256"
	"hash"
	"sync"

	"github.com/otelagent/otelagent/spans"
)

// defaultBlockIDs bounds what is remembered of content, in entries.
const defaultBlockIDs = 1 << 18

// memories holds what was sent of each session (or run), so that it is not sent again. It is bounded; what was unused
// for longest is forgotten first, whole.
type memories struct {
	max int64

	// mu is held for moments only, and never while a memory is waited for: that may be in the hands of a slow redactor.
	mu    sync.Mutex
	byKey map[memoryKey]*list.Element // of *memory
	order *list.List                  // most recently used first
	total int64                       // entries over all memories
}

// memoryKey is a session, and the run with Config.PerRun. What left with digests has no bodies, so that runs of each
// level have their own.
type memoryKey struct {
	session, run string
	start        int64
	level        Capture
}

// memory is what was sent of one session.
type memory struct {
	of  *memories
	key memoryKey

	// guarded by memories.mu
	gone    bool // forgotten: what is still done with it counts no more
	entries int64

	mu    sync.Mutex
	grown int64 // entries since it was opened
	sent  map[spans.BlockID]struct{}

	request requests

	scratch []byte // for templates
	extents []extent
	pieces  []piece
}

func newMemories(most int) *memories {
	return &memories{max: int64(most), byKey: make(map[memoryKey]*list.Element), order: list.New()}
}

// open returns what is remembered for o, locked. The caller ends with close.
func (s *memories) open(o *origin) *memory {
	key := memoryKey{session: o.session, level: o.capture}
	if o.tracer.config.PerRun {
		key.run, key.start = o.run, o.startNS
	}
	s.mu.Lock()
	var m *memory
	if e, ok := s.byKey[key]; ok {
		s.order.MoveToFront(e)
		m = e.Value.(*memory)
	} else {
		m = &memory{of: s, key: key}
		s.byKey[key] = s.order.PushFront(m)
		if len(s.byKey) > maxSessions {
			s.forget(s.order.Back())
		}
	}
	s.mu.Unlock()
	m.mu.Lock()
	return m
}

// maxScratch bounds what is kept between calls.
const maxScratch = 64 << 10

// close unlocks m and keeps the number of entries in its bound.
func (m *memory) close() {
	clear(m.pieces[:cap(m.pieces)])
	if cap(m.scratch) > maxScratch {
		m.scratch = nil
	}
	if cap(m.extents) > maxScratch/8 {
		m.extents = nil
	}
	n := m.grown
	m.grown = 0
	m.mu.Unlock()
	if n == 0 {
		return
	}
	s := m.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.gone {
		return
	}
	m.entries += n
	s.total += n
	for s.total > s.max && s.order.Len() > 0 {
		s.forget(s.order.Back())
	}
}

// forget drops a memory. The caller holds the lock of s.
func (s *memories) forget(e *list.Element) {
	m := s.order.Remove(e).(*memory)
	delete(s.byKey, m.key)
	m.gone = true
	s.total -= m.entries
}

// lost forgets a session of which something did not arrive: what it says next is sent whole.
func (s *memories) lost(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*memory).key.session == session {
			s.forget(e)
		}
		e = next
	}
}

// count adds n entries.
func (m *memory) count(n int64) { m.grown += n }

// claim reports whether the block has yet to be sent, and marks it as sent.
func (m *memory) claim(id spans.BlockID) bool {
	if _, sent := m.sent[id]; sent {
		return false
	}
	if m.sent == nil {
		m.sent = make(map[spans.BlockID]struct{})
	}
	m.sent[id] = struct{}{}
	m.count(1)
	return true
}

// whole adds up what blocks are put together to. The zero value is that of nothing.
type whole struct {
	size int64
	sum  hash.Hash
}

func (w *whole) write(text []byte) {
	if w.sum == nil {
		w.sum = sha256.New()
	}
	w.size += int64(len(text))
	_, _ = w.sum.Write(text) // it never fails
}

// clone returns a copy that goes on by itself.
func (w *whole) clone() whole {
	if w.sum == nil {
		return whole{}
	}
	sum, err := w.sum.(hash.Cloner).Clone()
	if err != nil { // that of the standard library can be cloned
		return whole{}
	}
	return whole{w.size, sum}
}

// id returns the SHA-256.
func (w *whole) id() (id spans.BlockID) {
	if w.sum == nil {
		return spans.BlockOf(nil)
	}
	w.sum.Sum(id[:0])
	return id
}

// String returns the wire form.
func (w *whole) String() string { return spans.WholeOf(w.size, w.id()).String() }
