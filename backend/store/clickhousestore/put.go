package clickhousestore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

const (
	// maxPuts is how many Puts of one store run at once; others wait.
	maxPuts = 8
	// maxKept bounds the buffers that a putter keeps for the next Put.
	maxKept = 32 << 20
	// shareFrom is the least body that is shared, in bytes.
	shareFrom = 1024
	// sharedFor is how long a shared body that was written is not written again. It is far below collectAfter.
	sharedFor = 10 * time.Minute
	// maxShared and maxKnown bound what is remembered of bodies and blocks: 100 bytes each.
	maxShared, maxKnown = 4096, 1 << 16
)

// A putter does one Put at a time. Writer and n name a Put, for good: a writer is drawn at random for each putter of
// each opened store, and its n grows by one with each Put. So of one writer a greater n is a later Put, whatever any
// clock says, and deleting "up to n" takes nothing along that came later.
type putter struct {
	writer, n uint64
	bytes     []byte
	bodies    buffers
}

// buffers are the rows of one Put, by table.
type buffers struct{ rows, live, blocks, refs, shared, touches []byte }

// putters hands out the one that was used last, so that few writers touch a session where one Put goes after the other.
type putters struct {
	turns chan struct{}
	done  chan struct{}
	mu    sync.Mutex
	free  []*putter
}

func (p *putters) init() {
	p.turns, p.done = make(chan struct{}, maxPuts), make(chan struct{})
}

func (p *putters) get(ctx context.Context) (*putter, error) {
	select {
	case p.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
		return nil, store.ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		w := p.free[n-1]
		p.free = p.free[:n-1]
		return w, nil
	}
	// Large, so that SQL has one type for all of them.
	return &putter{writer: rand.Uint64()>>1 | 1<<62}, nil
}

func (p *putters) put(w *putter) {
	b := &w.bodies
	for _, l := range []*[]byte{&b.rows, &b.live, &b.blocks, &b.refs, &b.shared, &b.touches, &w.bytes} {
		if cap(*l) > maxKept {
			*l = nil
		}
	}
	p.mu.Lock()
	p.free = append(p.free, w)
	p.mu.Unlock()
	<-p.turns
}

// close waits for those that run.
func (p *putters) close() {
	close(p.done)
	for range maxPuts {
		p.turns <- struct{}{}
	}
}

// Put implements store.Store. One that began is not cut when ctx ends: it is done, or fails, soon after (see the
// package).
func (s *Store) Put(ctx context.Context, b session.Batch) error {
	return s.failed(ctx, "put", s.put(ctx, b))
}

func (s *Store) put(ctx context.Context, b session.Batch) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	if err := store.CheckBatch(b); err != nil {
		return err
	}
	if len(b.Rows)+len(b.Blocks) == 0 {
		return nil
	}
	w, err := s.putters.get(ctx)
	if err != nil {
		return err
	}
	defer s.putters.put(w)
	w.n++
	e := encoder{s: s, w: w, at: s.clock(), b: &w.bodies}
	e.encodeBlocks(b)
	if err := e.encodeRows(b.Rows); err != nil { // one of them may be refused, and then nothing of the batch is written
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	wctx, stop := writing(ctx)
	defer stop()
	// What a reader sees of half of it: nothing of a new session, blocks that no row names, rows that no projection
	// shows yet. A mark is counted only when all rows are there that it stands for.
	for _, stage := range [][]tableRows{
		{{&sharedTable, e.b.shared}, {&refTable, e.b.refs}, {&blockTable, e.b.blocks}},
		{{&liveTable, e.b.live}, {&rowTable, e.b.rows}},
		{{&touchTable, e.b.touches}},
	} {
		if err := s.insertAll(wctx, w, stage); err != nil {
			return err
		}
	}
	s.wrote(b, &e)
	return nil
}

type tableRows struct {
	table *table
	rows  []byte
}

// insertAll inserts into several tables at once.
func (s *Store) insertAll(ctx context.Context, w *putter, stage []tableRows) error {
	stage = slices.DeleteFunc(stage, func(t tableRows) bool { return len(t.rows) == 0 })
	one := func(t tableRows) error {
		// Each Put has its own token: one made of the content alone would drop what is sent again after its session was
		// deleted.
		token := fmt.Sprintf("%x-%x-%s", w.writer, w.n, t.table.name)
		if err := s.client.insert(ctx, s.layout.into(t.table), t.rows, token); err != nil {
			return fmt.Errorf("insert into %s: %w", t.table.name, err)
		}
		return nil
	}
	if len(stage) == 1 {
		return one(stage[0])
	}
	errs := make([]error, len(stage))
	var wg sync.WaitGroup
	for i, t := range stage {
		wg.Go(func() { errs[i] = one(t) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// encoder turns a batch into rows of the tables.
type encoder struct {
	s        *Store
	w        *putter
	b        *buffers
	at       uint64
	sessions map[session.Key]struct{}
	last     session.Key
	bodies   []sharedBody // that go into shared
}

// encodeBlocks encodes all but rows, of which it touches the sessions.
func (e *encoder) encodeBlocks(b session.Batch) {
	*e.b = buffers{e.b.rows[:0], e.b.live[:0], e.b.blocks[:0], e.b.refs[:0], e.b.shared[:0], e.b.touches[:0]}
	e.sessions = map[session.Key]struct{}{}
	for i := range b.Rows {
		e.touch(b.Rows[i].Session)
	}
	if len(b.Blocks) == 0 {
		return
	}
	shared := sharable(b.Rows)
	sent := make(map[knownBlock]int64, len(b.Blocks))
	for i := range b.Blocks {
		k := &b.Blocks[i]
		e.touch(k.Session)
		id := knownBlock{k.Session, k.ID}
		if size, ok := sent[id]; ok && !better(k.Size, size) {
			continue
		}
		sent[id] = k.Size
		if k.Size == 0 && len(k.Body) >= shareFrom && shared[named{k.Session, k.ID.Short()}] && spans.BlockOfString(k.Body) == k.ID {
			e.share(k)
			continue
		}
		e.b.blocks = e.block(e.b.blocks, k)
	}
}

// encodeRows encodes rows and live rows.
func (e *encoder) encodeRows(list []session.Row) error {
	for i := range list {
		r := &list[i]
		e.w.bytes = r.AppendCanonical(e.w.bytes[:0])
		if len(e.w.bytes) > store.MaxValue {
			return fmt.Errorf("row %d: %d bytes, at most %d: %w", i, len(e.w.bytes), store.MaxValue, store.ErrData)
		}
		if r.Known == spans.KnownLive {
			e.b.live = e.row(e.b.live, r, e.w.bytes)
		} else {
			e.b.rows = e.row(e.b.rows, r, e.w.bytes)
		}
	}
	return nil
}

// better reports whether a block of one Size is to be kept rather than one of another.
func better(size, than int64) bool { return than != 0 && (size == 0 || size > than) }

func (e *encoder) touch(k session.Key) {
	if k == e.last && len(e.sessions) > 0 {
		return
	}
	e.last = k
	if _, ok := e.sessions[k]; ok {
		return
	}
	e.sessions[k] = struct{}{}
	key := keyOf(k)
	b := appendString(appendString(e.b.touches, k.Tenant), k.ID)
	e.b.touches = e.put(append(b, key[:]...))
}

// put appends putColumns.
func (e *encoder) put(b []byte) []byte {
	return appendU64(appendU64(appendU64(b, e.w.writer), e.w.n), e.at)
}

// keyOf names a session where its id must not stay.
func keyOf(k session.Key) [16]byte {
	h := sha256.New()
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(k.Tenant))))
	_, _ = h.Write([]byte(k.Tenant))
	_, _ = h.Write([]byte(k.ID))
	return [16]byte(h.Sum(nil))
}

// named is a block by the name that lists use.
type named struct {
	session session.Key
	id      spans.ShortID
}

// sharable returns the blocks that lists of parameters name: system prompts and tool catalogues.
func sharable(rows []session.Row) map[named]bool {
	var out map[named]bool
	for i := range rows {
		for j := range rows[i].Lists {
			if rows[i].Lists[j].Name != spans.ListParams {
				continue
			}
			for _, item := range rows[i].Lists[j].Items {
				if it, err := spans.ParseItem(item); err == nil {
					if out == nil {
						out = map[named]bool{}
					}
					out[named{rows[i].Session, it.Block}] = true
				}
			}
		}
	}
	return out
}

// row appends rowColumns.
func (e *encoder) row(b []byte, r *session.Row, canonical []byte) []byte {
	content := sha256.Sum256(canonical)
	b = appendI64(appendString(appendString(b, r.Session.Tenant), r.Session.ID), r.Start)
	b = append(append(append(b, r.Span[:]...), r.Trace[:]...), content[:8]...)
	b = appendI64(append(b, byte(r.Kind), known(r.Known)), r.End)
	b = appendI64(appendString(b, r.Run), r.RunStart)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(canonical)))
	return e.put(appendString(b, canonical))
}

func known(k spans.Known) byte {
	switch k {
	case spans.KnownLive:
		return 0
	case spans.KnownClosed:
		return 1
	default:
		return 2
	}
}

func (e *encoder) block(b []byte, k *session.Block) []byte {
	b = appendString(appendString(b, k.Session.Tenant), k.Session.ID)
	b = appendI64(append(b, k.ID[:]...), k.Size)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(k.Body)))
	return e.put(appendString(b, k.Body))
}

// share appends a reference, and the body unless it was written a short while ago.
func (e *encoder) share(k *session.Block) {
	b := appendString(appendString(e.b.refs, k.Session.Tenant), k.Session.ID)
	b = binary.LittleEndian.AppendUint32(append(b, k.ID[:]...), uint32(len(k.Body)))
	e.b.refs = e.put(b)
	id := sharedBody{k.Session.Tenant, k.ID}
	if slices.Contains(e.bodies, id) || e.s.sharedLately(id) {
		return
	}
	e.bodies = append(e.bodies, id)
	b = append(appendString(e.b.shared, id.tenant), id.id[:]...)
	e.b.shared = appendString(appendU64(b, e.at), k.Body)
}

func (s *Store) sharedLately(id sharedBody) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.shared[id]
	return ok && s.now().Sub(at) < sharedFor
}

// wrote notes what a Put wrote.
func (s *Store) wrote(b session.Batch, e *encoder) {
	if len(b.Blocks) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.shared)+len(e.bodies) > maxShared {
		clear(s.shared)
	}
	for _, id := range e.bodies {
		s.shared[id] = time.Unix(0, int64(e.at))
	}
	for i := range b.Blocks {
		k := &b.Blocks[i]
		id := knownBlock{k.Session, k.ID}
		if size, ok := s.known[id]; ok && !better(k.Size, size) {
			s.counts.BlocksKnown++
			s.counts.BytesKnown += int64(len(k.Body))
			continue
		}
		if len(s.known) >= maxKnown {
			clear(s.known)
		}
		s.known[id] = k.Size
		s.counts.BlocksNew++
		s.counts.BytesNew += int64(len(k.Body))
	}
}

// Counts implements store.Counter. A Put reads nothing, so that known blocks are those that this program has Put before
// and remembers, up to 65,536 of them; they are sent again, and the engine keeps one.
func (s *Store) Counts() store.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}
