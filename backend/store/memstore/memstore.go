// Package memstore keeps sessions in memory, for tests and demonstrations. Nothing survives the process, and nothing
// bounds what it keeps.
package memstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// Store is a store.Store in memory. Use New.
type Store struct {
	mu       sync.Mutex
	closed   bool
	mark     store.Revision
	sessions map[session.Key]*entry
	counts   store.Counts
}

type rowKey struct {
	trace session.TraceID
	span  session.SpanID
}

type entry struct {
	rows            map[rowKey]session.Row
	blocks          map[spans.BlockID]session.Block
	mark, projected store.Revision
	summary         *session.Summary // nil: never projected
	figures         session.Figures
	size            int64 // of rows in canonical bytes, and of bodies
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Counter = (*Store)(nil)
)

// New returns an empty store.
func New() *Store { return &Store{sessions: map[session.Key]*entry{}} }

// locked runs f under the lock unless the store is closed or ctx is done.
func (s *Store) locked(ctx context.Context, what string, f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := ctx.Err()
	switch {
	case s.closed:
		err = store.ErrClosed
	case err == nil:
		err = f()
	}
	if err != nil {
		return fmt.Errorf("memstore: %s: %w", what, err)
	}
	return nil
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, b session.Batch) error {
	return s.locked(ctx, "put", func() error {
		if err := store.CheckBatch(b); err != nil {
			return err
		}
		if len(b.Rows)+len(b.Blocks) == 0 {
			return nil
		}
		sizes := make([]int64, len(b.Rows))
		var buf []byte
		for i := range b.Rows {
			buf = b.Rows[i].AppendCanonical(buf[:0])
			if len(buf) > store.MaxValue {
				return fmt.Errorf("row %d: %d bytes, at most %d: %w", i, len(buf), store.MaxValue, store.ErrData)
			}
			sizes[i] = int64(len(buf))
		}
		s.mark += 2 // touch takes the number between
		for i := range b.Rows {
			r := b.Rows[i]
			if r.Known == "" {
				r.Known = spans.KnownObserved
			}
			e, k := s.touch(r.Session), rowKey{r.Trace, r.Span}
			old, ok := e.rows[k]
			if ok && !session.Supersedes(&r, &old) {
				continue
			}
			if ok {
				e.size -= int64(len(old.AppendCanonical(nil)))
			}
			e.rows[k] = r
			e.size += sizes[i]
		}
		for _, k := range b.Blocks {
			e, size := s.touch(k.Session), int64(len(k.Body))
			old, ok := e.blocks[k.ID]
			if ok && (old.Size == 0 || k.Size != 0 && k.Size <= old.Size) {
				s.counts.BlocksKnown++
				s.counts.BytesKnown += size
				continue
			}
			e.blocks[k.ID] = k
			e.size += size - int64(len(old.Body))
			s.counts.BlocksNew++
			s.counts.BytesNew += size
		}
		return nil
	})
}

func (s *Store) touch(k session.Key) *entry {
	e := s.sessions[k]
	if e == nil {
		e = &entry{rows: map[rowKey]session.Row{}, blocks: map[spans.BlockID]session.Block{}, projected: s.mark - 1}
		s.sessions[k] = e
	}
	e.mark = s.mark
	return e
}

// each yields what read returns; read runs under the lock, yielding does not.
func each[T any](ctx context.Context, s *Store, what string, read func() []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var list []T
		var zero T
		if err := s.locked(ctx, what, func() error { list = read(); return nil }); err != nil {
			yield(zero, err)
			return
		}
		for _, v := range list {
			if err := s.locked(ctx, what, func() error { return nil }); err != nil {
				yield(zero, err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// Rows implements store.Store.
func (s *Store) Rows(ctx context.Context, k session.Key) iter.Seq2[session.Row, error] {
	return each(ctx, s, "read rows", func() []session.Row {
		if e := s.sessions[k]; e != nil {
			return slices.Collect(maps.Values(e.rows))
		}
		return nil
	})
}

// Blocks implements store.Store.
func (s *Store) Blocks(ctx context.Context, k session.Key) iter.Seq2[session.Block, error] {
	return each(ctx, s, "read blocks", func() []session.Block {
		if e := s.sessions[k]; e != nil {
			return slices.Collect(maps.Values(e.blocks))
		}
		return nil
	})
}

// Sessions implements store.Store.
func (s *Store) Sessions(ctx context.Context, q store.Query) iter.Seq2[session.Summary, error] {
	return each(ctx, s, "list sessions", func() []session.Summary {
		var out []session.Summary
		for k, e := range s.sessions {
			m := session.Summary{Key: k}
			if e.summary != nil {
				m = *e.summary
			}
			switch {
			case !q.AllTenants && (k.Tenant != q.Tenant || q.After != nil && !q.After.Behind(e.cursor(k), q.Oldest)),
				q.Stale && e.mark <= e.projected,
				!strings.HasPrefix(k.ID, q.Prefix) || !e.holds(q.Traces, q.Span),
				!q.Matches(&m, e.summary != nil),
				q.Parent != "" && m.Parent != q.Parent:
				continue
			}
			out = append(out, m)
		}
		slices.SortFunc(out, func(a, b session.Summary) int {
			x, y := s.sessions[a.Key].cursor(a.Key), s.sessions[b.Key].cursor(b.Key)
			return cmp.Or(cmp.Compare(y.Rank(), x.Rank()), cmp.Compare(a.ID, b.ID))
		})
		if q.Oldest {
			slices.Reverse(out)
		}
		if q.Limit > 0 && len(out) > q.Limit {
			out = out[:q.Limit]
		}
		return out
	})
}

// cursor is the place of a session in lists.
func (e *entry) cursor(k session.Key) store.Cursor {
	if e.summary == nil {
		return store.Cursor{ID: k.ID, New: true}
	}
	return store.Cursor{Last: e.summary.Last, ID: k.ID}
}

func (e *entry) holds(traces []session.TraceID, span session.SpanID) bool {
	if len(traces) == 0 && span == (session.SpanID{}) {
		return true
	}
	for k := range e.rows {
		if (len(traces) == 0 || slices.Contains(traces, k.trace)) && (span == session.SpanID{} || k.span == span) {
			return true
		}
	}
	return false
}

// Tenants implements store.Store.
func (s *Store) Tenants(ctx context.Context) iter.Seq2[string, error] {
	return each(ctx, s, "list tenants", func() []string {
		seen := map[string]struct{}{}
		for k := range s.sessions {
			seen[k.Tenant] = struct{}{}
		}
		return slices.Sorted(maps.Keys(seen))
	})
}

// Revision implements store.Store.
func (s *Store) Revision(ctx context.Context, k session.Key) (m store.Revision, err error) {
	err = s.locked(ctx, "mark", func() error {
		e := s.sessions[k]
		if e == nil {
			return store.ErrNotFound
		}
		m = e.mark
		return nil
	})
	return m, err
}

// SetSummary implements store.Store.
func (s *Store) SetSummary(ctx context.Context, k session.Key, p store.SummaryUpdate) error {
	return s.locked(ctx, "project", func() error {
		e := s.sessions[k]
		switch {
		case e == nil:
			return store.ErrNotFound
		case p.Revision > s.mark:
			return fmt.Errorf("mark %d was never given out: %w", p.Revision, store.ErrData)
		case p.Revision < e.projected:
			return nil
		}
		sum := p.Summary
		sum.Key = k
		sum.Start, sum.Last = utc(sum.Start), utc(sum.Last)
		e.summary, e.projected = &sum, p.Revision
		e.figures = clone(p.Figures, k.ID)
		return nil
	})
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.Unix(0, t.UnixNano()).UTC()
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, list ...store.Deletion) (gone []session.Key, err error) {
	err = s.locked(ctx, "delete", func() error {
		for _, d := range list {
			if e := s.sessions[d.Key]; e != nil && (d.Revision == 0 || d.Revision == e.mark) {
				delete(s.sessions, d.Key)
				gone = append(gone, d.Key)
			}
		}
		return nil
	})
	return gone, err
}

// Counts implements store.Counter. Nothing is shared between sessions: a body that two have is new in each.
func (s *Store) Counts() store.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Size implements store.Store: the canonical bytes of the rows, and the bodies.
func (s *Store) Size(ctx context.Context, k session.Key) (n int64, err error) {
	err = s.locked(ctx, "size", func() error {
		for of, e := range s.sessions {
			if k == of || k == (session.Key{}) {
				n += e.size
			}
		}
		return nil
	})
	return n, err
}

// Close implements store.Store. It frees everything.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.sessions = true, nil
	return nil
}
