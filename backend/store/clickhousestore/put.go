package clickhousestore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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
	// maxShared bounds how many of these the store remembers: 100 bytes each.
	maxShared = 4096
)

// A putter does one Put at a time. Writer and n name a Put, for good: a writer is drawn at random for each putter of
// each opened store, and its n grows by one with each Put. So of one writer a greater n is a later Put, whatever any
// clock says, and a deletion "up to n" takes no later Put with it.
type putter struct {
	writer, n uint64
	bytes     []byte
	bodies    buffers
}

// buffers are the rows of one Put, by table.
type buffers struct{ rows, blocks, refs, shared, touches []byte }

// putter returns a free one. release returns it.
func (s *Store) putter(ctx context.Context) (*putter, error) {
	select {
	case w := <-s.putters:
		if s.closed.Load() {
			s.putters <- w
			return nil, store.ErrClosed
		}
		return w, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, store.ErrClosed
	}
}

func (s *Store) release(w *putter) {
	b := &w.bodies
	for _, l := range []*[]byte{&b.rows, &b.blocks, &b.refs, &b.shared, &b.touches, &w.bytes} {
		if cap(*l) > maxKept {
			*l = nil
		}
	}
	s.putters <- w
}

// Put implements store.Store. When ctx ends, a Put that has begun ends, or fails, soon after (see the package).
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
	w, err := s.putter(ctx)
	if err != nil {
		return err
	}
	defer s.release(w)
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
	// A reader in between sees nothing of a new session, blocks that no row names, and rows that no summary shows yet. A
	// revision counts a Put only when all of its rows are there.
	for _, stage := range [][]tableRows{
		{{&sharedTable, e.b.shared}, {&refTable, e.b.refs}, {&blockTable, e.b.blocks}},
		{{&rowTable, e.b.rows}},
		{{&touchTable, e.b.touches}},
	} {
		if err := s.insertAll(wctx, w, stage); err != nil {
			return err
		}
	}
	s.wrote(&e)
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
	*e.b = buffers{e.b.rows[:0], e.b.blocks[:0], e.b.refs[:0], e.b.shared[:0], e.b.touches[:0]}
	e.sessions = map[session.Key]struct{}{}
	for i := range b.Rows {
		e.touch(b.Rows[i].Session)
	}
	if len(b.Blocks) == 0 {
		return
	}
	shared := sharable(b.Rows)
	for i := range b.Blocks {
		k := &b.Blocks[i]
		e.touch(k.Session)
		if k.Size == 0 && len(k.Body) >= shareFrom && shared[named{k.Session, k.ID.Short()}] &&
			spans.BlockOfString(k.Body) == k.ID {
			e.share(k)
			continue
		}
		e.b.blocks = e.block(e.b.blocks, k)
	}
}

// encodeRows encodes rows.
func (e *encoder) encodeRows(list []session.Row) error {
	for i := range list {
		r := &list[i]
		e.w.bytes = r.AppendCanonical(e.w.bytes[:0])
		if len(e.w.bytes) > store.MaxValue {
			return fmt.Errorf("row %d: %d bytes, at most %d: %w", i, len(e.w.bytes), store.MaxValue, store.ErrData)
		}
		e.b.rows = e.row(e.b.rows, r, e.w.bytes)
	}
	return nil
}

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

// keyOf names a session where its id must not remain.
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
	content := [sha256.Size]byte{} // all live rows of a span have one key, and merges keep the one that ends last
	if r.Known != spans.KnownLive {
		content = sha256.Sum256(canonical)
	}
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

// wrote notes the shared bodies that a Put wrote.
func (s *Store) wrote(e *encoder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.shared)+len(e.bodies) > maxShared {
		clear(s.shared)
	}
	for _, id := range e.bodies {
		s.shared[id] = time.Unix(0, int64(e.at))
	}
}
