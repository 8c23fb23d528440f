// Package memstore keeps sessions in memory, for tests and demonstrations. Nothing survives the process, and nothing bounds
// what it keeps.
package memstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
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
	mark     store.Mark
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
	mark, projected store.Mark
	summary         *session.Summary // nil: never projected
	figures         session.Figures
	size            int64 // of rows in canonical bytes, and of bodies
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Counter = (*Store)(nil)
	_ store.Sizer   = (*Store)(nil)
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
		s.mark++
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
func (s *Store) Blocks(ctx context.Context, k session.Key, ids []spans.BlockID) iter.Seq2[session.Block, error] {
	return each(ctx, s, "read blocks", func() []session.Block {
		e := s.sessions[k]
		if e == nil {
			return nil
		}
		if ids == nil {
			return slices.Collect(maps.Values(e.blocks))
		}
		var out []session.Block
		seen := map[spans.BlockID]bool{}
		for _, id := range ids {
			if b, ok := e.blocks[id]; ok && !seen[id] {
				seen[id] = true
				out = append(out, b)
			}
		}
		return out
	})
}

// Sessions implements store.Store.
func (s *Store) Sessions(ctx context.Context, q store.Query) iter.Seq2[session.Summary, error] {
	return each(ctx, s, "list sessions", func() []session.Summary {
		var out []session.Summary
		for k, e := range s.sessions {
			if k.Tenant != q.Tenant || !strings.HasPrefix(k.ID, q.Prefix) || !e.holds(q.Trace, q.Span) {
				continue
			}
			sum := session.Summary{Key: k}
			if e.summary != nil {
				sum = *e.summary
			}
			if !q.Matches(&sum, e.summary != nil) || q.After != nil && !q.After.Behind(store.Cursor{Last: sum.Last, ID: k.ID, New: e.summary == nil}, q.Oldest) {
				continue
			}
			if q.Parent != "" && sum.Parent != q.Parent || !q.Before.IsZero() && (e.summary == nil || !sum.Last.Before(q.Before)) {
				continue
			}
			out = append(out, sum)
		}
		slices.SortFunc(out, func(a, b session.Summary) int {
			return cmp.Or(cmp.Compare(s.last(b.Key), s.last(a.Key)), cmp.Compare(a.ID, b.ID))
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

// last is what sessions are listed by.
func (s *Store) last(k session.Key) int64 {
	switch e := s.sessions[k]; {
	case e.summary == nil:
		return math.MaxInt64
	case e.summary.Last.IsZero():
		return math.MinInt64
	default:
		return e.summary.Last.UnixNano()
	}
}

func (e *entry) holds(trace session.TraceID, span session.SpanID) bool {
	if trace == (session.TraceID{}) && span == (session.SpanID{}) {
		return true
	}
	for k := range e.rows {
		if (trace == session.TraceID{} || k.trace == trace) && (span == session.SpanID{} || k.span == span) {
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

// Dirty implements store.Store.
func (s *Store) Dirty(ctx context.Context) iter.Seq2[session.Key, error] {
	return each(ctx, s, "list dirty sessions", func() []session.Key {
		var out []session.Key
		for k, e := range s.sessions {
			if e.mark > e.projected {
				out = append(out, k)
			}
		}
		slices.SortFunc(out, func(a, b session.Key) int {
			return cmp.Or(cmp.Compare(s.sessions[a].mark, s.sessions[b].mark), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.ID, b.ID))
		})
		return out
	})
}

// Mark implements store.Store.
func (s *Store) Mark(ctx context.Context, k session.Key) (m store.Mark, err error) {
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

// Project implements store.Store.
func (s *Store) Project(ctx context.Context, k session.Key, p store.Projection) error {
	return s.locked(ctx, "project", func() error {
		e := s.sessions[k]
		switch {
		case e == nil:
			return store.ErrNotFound
		case p.Mark > s.mark:
			return fmt.Errorf("mark %d was never given out: %w", p.Mark, store.ErrData)
		case p.Mark < e.projected:
			return nil
		}
		sum := p.Summary
		sum.Key = k
		sum.Start, sum.Last = utc(sum.Start), utc(sum.Last)
		e.summary, e.projected = &sum, p.Mark
		e.figures = session.Figures{
			Turns: of(&store.TurnTable, k, p.Figures.Turns), ToolCalls: of(&store.ToolCallTable, k, p.Figures.ToolCalls),
			Compactions: of(&store.CompactionTable, k, p.Figures.Compactions), Permissions: of(&store.PermissionTable, k, p.Figures.Permissions),
		}
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
func (s *Store) Delete(ctx context.Context, k session.Key) error {
	_, err := s.Hide(ctx, k, 0)
	return err
}

// Hide implements store.Store. Nothing is left to be erased.
func (s *Store) Hide(ctx context.Context, k session.Key, m store.Mark) (hidden bool, err error) {
	err = s.locked(ctx, "delete", func() error {
		e := s.sessions[k]
		if m != 0 && (e == nil || e.mark != m) {
			return nil
		}
		hidden = e != nil
		delete(s.sessions, k)
		return nil
	})
	return hidden, err
}

// Erase implements store.Store.
func (s *Store) Erase(ctx context.Context) error {
	return s.locked(ctx, "erase", func() error { return nil })
}

// Counts implements store.Counter. Nothing is shared between sessions: a body that two have is new in each.
func (s *Store) Counts() store.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Size implements store.Sizer: the sum of SessionSize. What Go needs beside it is not counted.
func (s *Store) Size(ctx context.Context) (n int64, err error) {
	err = s.locked(ctx, "size", func() error {
		for _, e := range s.sessions {
			n += e.size
		}
		return nil
	})
	return n, err
}

// SessionSize implements store.Sizer: the canonical bytes of the rows, and the bodies.
func (s *Store) SessionSize(ctx context.Context, k session.Key) (n int64, err error) {
	err = s.locked(ctx, "size of a session", func() error {
		if e := s.sessions[k]; e != nil {
			n = e.size
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
