package retention

import (
	"container/heap"
	"context"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// place is where a session stands among those of its tenant, oldest first. last is what its age goes by.
type place struct {
	last int64
	id   string
}

// compare follows the order of store.Query.Oldest.
func (p place) compare(q place) int {
	switch {
	case p == q:
		return 0
	case p.last < q.last, p.last == q.last && p.id > q.id:
		return -1
	}
	return 1
}

// age returns what a session's age goes by, for one rule.
type age func(*session.Summary) int64

func (f age) place(s *session.Summary) place { return place{f(s), s.ID} }

// listed is the age that stores list by.
func listed(s *session.Summary) int64 { return store.CursorOf(s).Rank() }

// walker yields the sessions that a query selects, in its order, each once, also while they are deleted. It holds a page of them
// and leaves nothing open.
type walker struct {
	st   store.Store
	q    store.Query
	size int // of a page
	// until says where to stop, nil: nowhere.
	until func(*session.Summary) bool

	page  []session.Summary
	ended bool
}

func (w *walker) next(ctx context.Context) (session.Summary, bool, error) {
	if len(w.page) == 0 && !w.ended {
		if err := w.fill(ctx); err != nil {
			return session.Summary{}, false, err
		}
	}
	if len(w.page) == 0 {
		return session.Summary{}, false, nil
	}
	s := w.page[0]
	w.page = w.page[1:]
	return s, true, nil
}

// fill reads the next page, which comes after the last session of the page before.
func (w *walker) fill(ctx context.Context) error {
	w.page = make([]session.Summary, 0, w.size)
	w.q.Limit = w.size
	for s, err := range w.st.Sessions(ctx, w.q) {
		if err != nil {
			return err
		}
		if w.until != nil && w.until(&s) {
			w.ended = true
			return nil
		}
		w.page = append(w.page, s)
	}
	if w.ended = len(w.page) < w.size; !w.ended {
		at := store.CursorOf(&w.page[len(w.page)-1])
		w.q.After = &at
	}
	return nil
}

// oldest yields the sessions of a tenant, those of the future before all others.
type oldest struct{ ahead, rest *walker }

func (a *applier) oldest(tenant string, size int) *oldest {
	return &oldest{
		ahead: &walker{st: a.st, q: store.Query{Tenant: tenant}, size: size, until: func(s *session.Summary) bool {
			return !store.CursorOf(s).New && !a.ahead(s)
		}},
		rest: &walker{st: a.st, q: store.Query{Tenant: tenant, Oldest: true}, size: size, until: a.ahead},
	}
}

func (o *oldest) next(ctx context.Context) (session.Summary, bool, error) {
	for {
		s, ok, err := o.ahead.next(ctx)
		if !ok || err != nil {
			break
		}
		if !store.CursorOf(&s).New { // its turn comes last
			return s, true, nil
		}
	}
	return o.rest.next(ctx)
}

// merge yields the sessions of several tenants, oldest first.
type merge struct {
	begun bool
	age   age
	from  []*oldest
	heads heads
}

func (a *applier) merge(tenants []string) *merge {
	m := &merge{age: a.age}
	for _, t := range tenants {
		m.from = append(m.from, a.oldest(t, max(1, pageSize/len(tenants))))
	}
	return m
}

func (m *merge) next(ctx context.Context) (session.Summary, bool, error) {
	if !m.begun {
		m.begun = true
		for _, from := range m.from {
			h := &head{from: from}
			if ok, err := m.advance(ctx, h); err != nil {
				return session.Summary{}, false, err
			} else if ok {
				m.heads = append(m.heads, h)
			}
		}
		heap.Init(&m.heads)
	}
	if len(m.heads) == 0 {
		return session.Summary{}, false, nil
	}
	h := m.heads[0]
	s := h.Summary
	switch ok, err := m.advance(ctx, h); {
	case err != nil:
		return session.Summary{}, false, err
	case ok:
		heap.Fix(&m.heads, 0)
	default:
		heap.Pop(&m.heads)
	}
	return s, true, nil
}

func (m *merge) advance(ctx context.Context, h *head) (ok bool, err error) {
	h.Summary, ok, err = h.from.next(ctx)
	h.place = m.age.place(&h.Summary)
	return ok, err
}

// queue yields what next yields, and between them, at its place, what was put back.
type queue struct {
	next func(context.Context) (session.Summary, bool, error)
	age  age
	// held was read from next and comes after something that was put back.
	held *head
	back heads
}

// before tells whether something was put back that comes before g.
func (q *queue) before(g *group) bool {
	return len(q.back) > 0 && q.back[0].place.last < g.newest().last
}

// later puts back a group, for instance one that is newer than it seemed.
func (q *queue) later(g *group) {
	heap.Push(&q.back, &head{Summary: session.Summary{Key: g.key(g.newest())}, place: g.newest()})
}

func (q *queue) pop(ctx context.Context) (tenant string, p place, ok bool, err error) {
	h := q.held
	if q.held = nil; h == nil {
		s, ok, err := q.next(ctx)
		if err != nil {
			return "", place{}, false, err
		}
		if ok {
			h = &head{Summary: s, place: q.age.place(&s)}
		}
	}
	if len(q.back) > 0 && (h == nil || q.back[0].place.last < h.place.last) {
		q.held = h
		h, _ = heap.Pop(&q.back).(*head)
	}
	if h == nil {
		return "", place{}, false, nil
	}
	return h.Tenant, h.place, true, nil
}

// head is a session at its place, of those that come from one tenant where from is set.
type head struct {
	from *oldest
	session.Summary
	place place
}

// heads is a heap.Interface, the oldest first.
type heads []*head

func (h heads) Len() int { return len(h) }

func (h heads) Less(i, j int) bool {
	if a, b := h[i].place.last, h[j].place.last; a != b {
		return a < b
	}
	return h[i].Tenant < h[j].Tenant
}

func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *heads) Push(x any) { *h = append(*h, x.(*head)) }

func (h *heads) Pop() any {
	l := *h
	x := l[len(l)-1]
	l[len(l)-1] = nil
	*h = l[:len(l)-1]
	return x
}
