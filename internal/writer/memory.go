package writer

import (
	"crypto/sha256"
	"hash"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// memoryKey distinguishes the memories of a session: by run with Config.PerRun, and by level, since with digests no
// bodies are sent.
type memoryKey struct {
	run   string
	start int64
	level spans.Capture
}

// memory is what was sent of one session or run, so that it is not sent again.
type memory struct {
	of *sessions

	// guarded by sessions.mu
	gone    bool // forgotten: what is still done with it counts no more
	entries int64

	// mu is held while a redactor works, which may be slow. sessions.mu is held for moments only.
	mu   sync.Mutex
	sent map[spans.BlockID]struct{}

	histories []*history                // of requests, to see which messages are new; the one used last first
	runs      map[trace.SpanID]struct{} // that had requests; only with derived ids
	credit    int64                     // bytes that complete lists may take

	scratch []byte   // for templates
	extents []extent // for layouts
	pieces  []piece
}

// open returns what is remembered for o, locked. The caller ends with close.
func (s *sessions) open(o *origin) *memory {
	key := memoryKey{level: o.capture}
	if o.tracer.config.PerRun {
		key.run, key.start = o.run, o.startNS
	}
	s.mu.Lock()
	session := s.use(o.session)
	m := session.memories[key]
	if m == nil {
		m = &memory{of: s, sent: make(map[spans.BlockID]struct{}), runs: make(map[trace.SpanID]struct{})}
		if session.memories == nil {
			session.memories = make(map[memoryKey]*memory)
		}
		session.memories[key] = m
	}
	s.mu.Unlock()
	m.mu.Lock()
	return m
}

// maxScratch bounds what is kept between calls.
const maxScratch = 64 << 10

// close unlocks m. Beyond the bound of entries it forgets what the sessions sent that were unused for longest.
func (m *memory) close() {
	clear(m.pieces[:cap(m.pieces)])
	if cap(m.scratch) > maxScratch {
		m.scratch = nil
	}
	if cap(m.extents) > maxScratch/8 {
		m.extents = nil
	}
	n := int64(len(m.sent) + len(m.runs))
	for _, h := range m.histories {
		n += h.entries
	}
	m.mu.Unlock()
	s := m.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.gone {
		return
	}
	s.entries += n - m.entries
	m.entries = n
	for e := s.order.Back(); s.entries > s.maxEntries && e != nil; e = e.Prev() {
		s.forget(e.Value.(*session))
	}
}

// forget drops what a session sent. The caller holds the lock.
func (s *sessions) forget(of *session) {
	for _, m := range of.memories {
		m.gone = true
		s.entries -= m.entries
	}
	of.memories = nil
}

// lost forgets what a session sent, of which something did not arrive: it is sent again.
func (s *sessions) lost(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.byID[id]; ok {
		s.forget(e.Value.(*session))
	}
}

// claim reports whether the block has yet to be sent, and marks it as sent.
func (m *memory) claim(id spans.BlockID) bool {
	if _, sent := m.sent[id]; sent {
		return false
	}
	m.sent[id] = struct{}{}
	return true
}

// whole adds up what blocks are put together to.
type whole struct {
	size int64
	sum  hash.Hash
}

func newWhole() whole { return whole{sum: sha256.New()} }

func (w *whole) write(text []byte) {
	w.size += int64(len(text))
	_, _ = w.sum.Write(text) // it never fails
}

// clone returns a copy that goes on by itself.
func (w *whole) clone() whole {
	sum, err := w.sum.(hash.Cloner).Clone()
	if err != nil { // that of the standard library can be cloned
		return newWhole()
	}
	return whole{w.size, sum}
}

// id returns the SHA-256.
func (w *whole) id() (id spans.BlockID) {
	w.sum.Sum(id[:0])
	return id
}
