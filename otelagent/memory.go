package otelagent

import (
	"container/list"
	"hash/maphash"
	"sync"

	"github.com/otelagent/otelagent/spans"
)

// defaultBlockIDs bounds what is remembered of content, in entries.
const defaultBlockIDs = 1 << 18

// memories holds what was sent of each session (or run), so that it is not sent again. It is bounded; what was unused for
// longest is forgotten first, whole.
type memories struct {
	max          int64
	seedA, seedB maphash.Seed
	scratches    scratches
	ahead        aheads

	// mu is held for moments only, and never while a memory is waited for: that may be in the hands of a slow redactor.
	mu    sync.Mutex
	byKey map[memoryKey]*list.Element // of *memory
	order *list.List                  // most recently used first
	total int64                       // entries over all memories
}

// memoryKey is a session, and the run with BlockScopeRun. What left with digests has no bodies, so that runs of each level have
// their own.
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

	mu     sync.Mutex
	grown  int64 // entries since it was opened
	sent   map[spans.BlockID]form
	memos  map[memoKey]memo
	values map[memoKey]value

	request requests

	text  []byte // scratch for canonical forms
	found []found
	texts []string
}

// form is how a block was sent.
type form uint8

const (
	asBody     form = iota
	asRecipe        // of other blocks
	asWithheld      // at most its beginning left, and so it stays
	asOld           // withheld for being beyond the window of a request; sent when it comes to stand in one
)

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
	old      bool // the block is withheld as asOld
	// spelled is the number of shapes by which the bytes were made again from the block and compared; 0: never.
	spelled int
}

func newMemories(most int) *memories {
	return &memories{
		max: int64(most), seedA: maphash.MakeSeed(), seedB: maphash.MakeSeed(),
		byKey: make(map[memoryKey]*list.Element), order: list.New(), scratches: make(scratches, 2),
	}
}

// open returns what is remembered for o, locked. The caller ends with close.
func (s *memories) open(o *origin) *memory {
	key := memoryKey{session: o.session, level: o.capture}
	if o.tracer.config.scope == BlockScopeRun {
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
	if cap(m.text) > maxScratch {
		m.text = nil
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

// count adds n entries.
func (m *memory) count(n int64) { m.grown += n }

// claim reports whether the block has yet to be sent, and marks it as sent. Old says that it may be withheld for its age.
func (m *memory) claim(id spans.BlockID, old bool) bool {
	as, sent := m.sent[id]
	if sent && (as != asOld || old) {
		return false
	}
	if m.sent == nil {
		m.sent = make(map[spans.BlockID]form)
	}
	m.sent[id] = asBody
	if !sent {
		m.count(1)
	}
	return true
}

// whole reports whether the block was sent so that others can be made of it.
func (m *memory) whole(id spans.BlockID) bool {
	as, sent := m.sent[id]
	return sent && as <= asRecipe
}

// keyOf hashes a piece of content and what is to be taken off it. kind and by keep pieces apart that are treated differently.
func (s *memories) keyOf(kind byte, raw []byte, strip []string, by string) memoKey {
	var h [2]maphash.Hash
	h[0].SetSeed(s.seedA)
	h[1].SetSeed(s.seedB)
	for i := range h {
		_ = h[i].WriteByte(kind)
		for _, k := range strip {
			_, _ = h[i].WriteString(k)
			_ = h[i].WriteByte(0)
		}
		_, _ = h[i].WriteString(by)
		_ = h[i].WriteByte(0)
		_, _ = h[i].Write(raw)
	}
	return memoKey{h[0].Sum64(), h[1].Sum64(), len(raw)}
}

// remember keeps what became of the bytes of key.
func (m *memory) remember(key memoKey, v memo) {
	if m.memos == nil {
		m.memos = make(map[memoKey]memo)
	}
	if _, known := m.memos[key]; !known {
		m.count(1)
	}
	m.memos[key] = v
}

// lost forgets all that was sent of a session: what comes next is complete.
func (s *memories) lost(session string) {
	s.mu.Lock()
	for e := s.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*memory).key.session == session {
			s.forget(e)
		}
		e = next
	}
	s.mu.Unlock()
	s.ahead.lose(session)
}
