package clickhousestore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// maxPuts is how many Puts of one store run at once; others wait.
const maxPuts = 8

// A putter does one Put at a time. Writer and n name a Put, for good: a writer is drawn at random for each putter of
// each opened store, and its n grows by one with each Put. So of one writer a greater n is a later Put, whatever any
// clock says, and a deletion "up to n" takes no later Put with it.
type putter struct {
	writer, n, at uint64
	canonical     []byte
	// The rows of the Put, by table.
	rows, blocks, touches []byte
	sessions              map[session.Key]struct{}
}

// putter returns a free one.
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
	defer func() { s.putters <- &putter{writer: w.writer, n: w.n} }()
	w.n++
	if err := w.encode(b, s.clock()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	wctx, stop := writing(ctx)
	defer stop()
	// A reader in between sees nothing of a new session, blocks that no row names, and rows that no summary shows yet. A
	// revision counts a Put only when all of its rows are there.
	for _, x := range []struct {
		table *table
		rows  []byte
	}{{&blockTable, w.blocks}, {&rowTable, w.rows}, {&touchTable, w.touches}} {
		if len(x.rows) == 0 {
			continue
		}
		// Each Put has its own token: one made of the content alone would drop what is sent again after its session was
		// deleted.
		token := fmt.Sprintf("%x-%x-%s", w.writer, w.n, x.table.name)
		if err := s.client.insert(wctx, s.layout.into(x.table), x.rows, token); err != nil {
			return fmt.Errorf("insert into %s: %w", x.table.name, err)
		}
	}
	return nil
}

// encode makes the rows of all tables.
func (w *putter) encode(b session.Batch, at uint64) error {
	w.rows, w.blocks, w.touches = nil, nil, nil
	w.at, w.sessions = at, map[session.Key]struct{}{}
	for i := range b.Blocks {
		w.block(&b.Blocks[i])
	}
	for i := range b.Rows {
		if err := w.row(&b.Rows[i]); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

// touch appends a row of touches for each session once.
func (w *putter) touch(k session.Key) {
	if _, ok := w.sessions[k]; ok {
		return
	}
	w.sessions[k] = struct{}{}
	key := keyOf(k)
	w.touches = w.put(append(appendString(appendString(w.touches, k.Tenant), k.ID), key[:]...))
}

// put appends putColumns.
func (w *putter) put(b []byte) []byte { return appendU64(appendU64(appendU64(b, w.writer), w.n), w.at) }

// keyOf names a session where its id must not remain.
func keyOf(k session.Key) [16]byte {
	h := sha256.New()
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(k.Tenant))))
	_, _ = h.Write([]byte(k.Tenant))
	_, _ = h.Write([]byte(k.ID))
	return [16]byte(h.Sum(nil))
}

// row appends rowColumns.
func (w *putter) row(r *session.Row) error {
	w.touch(r.Session)
	w.canonical = r.AppendCanonical(w.canonical[:0])
	if len(w.canonical) > store.MaxValue {
		return fmt.Errorf("%d bytes, at most %d: %w", len(w.canonical), store.MaxValue, store.ErrData)
	}
	content := [sha256.Size]byte{} // all live rows of a span have one key, and merges keep the one that ends last
	if r.Known != spans.KnownLive {
		content = sha256.Sum256(w.canonical)
	}
	b := appendI64(appendString(appendString(w.rows, r.Session.Tenant), r.Session.ID), r.Start)
	b = append(append(append(b, r.Span[:]...), r.Trace[:]...), content[:8]...)
	b = appendI64(append(b, session.KnownRank(r.Known)), r.End)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(w.canonical)))
	w.rows = w.put(appendString(b, w.canonical))
	return nil
}

func (w *putter) block(k *session.Block) {
	w.touch(k.Session)
	b := appendString(appendString(w.blocks, k.Session.Tenant), k.Session.ID)
	b = appendI64(append(b, k.ID[:]...), k.Size)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(k.Body)))
	w.blocks = w.put(appendString(b, k.Body))
}
