package viewer

import (
	"container/list"
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/reader"
)

// cache keeps what was assembled of sessions as long as their marks stand, the newest used, so that paging through a session of ten
// thousand turns reads it once. Whatever many ask for at once is made once.
type cache struct {
	mu      sync.Mutex
	most    int64 // bytes
	held    int64
	entries map[cacheKey]*list.Element
	order   list.List // of *cacheEntry, the last used first
}

// cacheKey names what is kept: one of a kind a session.
type cacheKey struct {
	session session.Key
	kind    string
}

type cacheEntry struct {
	key   cacheKey
	state string        // what it was made of
	ready chan struct{} // closed when the rest is there
	value any
	size  int64
	took  time.Duration
	err   error
}

func newCache(most int64) *cache {
	return &cache{most: most, entries: map[cacheKey]*list.Element{}}
}

// makeTime bounds how long one thing is made.
const makeTime = time.Minute

// get returns what build makes of a state of a session. What was made of another state is dropped.
func (c *cache) get(ctx context.Context, key cacheKey, state string, build func(context.Context) (value any, size int64, err error)) (*cacheEntry, error) {
	c.mu.Lock()
	e := (*cacheEntry)(nil)
	if at, ok := c.entries[key]; ok {
		if e = at.Value.(*cacheEntry); e.state == state {
			c.order.MoveToFront(at)
		} else {
			c.drop(at)
			e = nil
		}
	}
	if e == nil {
		e = &cacheEntry{key: key, state: state, ready: make(chan struct{})}
		c.entries[key] = c.order.PushFront(e)
		go c.build(context.WithoutCancel(ctx), e, build) // others may wait for it when who asked first went away
	}
	c.mu.Unlock()
	select {
	case <-e.ready:
		return e, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// has returns what was made of a state, where it is there already.
func (c *cache) has(key cacheKey, state string) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.entries[key]
	if !ok {
		return nil, false
	}
	e := at.Value.(*cacheEntry)
	if e.state != state {
		return nil, false
	}
	select {
	case <-e.ready:
		c.order.MoveToFront(at)
		return e.value, e.err == nil
	default:
		return nil, false
	}
}

func (c *cache) build(ctx context.Context, e *cacheEntry, build func(context.Context) (any, int64, error)) {
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	from := time.Now()
	func() {
		defer func() {
			if p := recover(); p != nil {
				e.err = fmt.Errorf("viewer: panic: %v", p)
			}
		}()
		e.value, e.size, e.err = build(ctx)
	}()
	e.took = time.Since(from)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(e.ready)
	at, ok := c.entries[e.key]
	if !ok || at.Value != e {
		return // something newer is there
	}
	if e.err != nil {
		c.drop(at)
		return
	}
	c.held += e.size
	for at := c.order.Back(); c.held > c.most && at != nil; {
		before := at.Prev()
		if old := at.Value.(*cacheEntry); old != e && old.size > 0 {
			c.drop(at)
		}
		at = before
	}
}

// drop forgets an entry. Whoever has it keeps it.
func (c *cache) drop(at *list.Element) {
	e := at.Value.(*cacheEntry)
	c.order.Remove(at)
	delete(c.entries, e.key)
	select {
	case <-e.ready:
		if e.err == nil {
			c.held -= e.size
		}
	default: // it is not counted yet
	}
}

// tree returns the tree of a session with its blocks, and the mark that it is of at least.
func (h *Handler) tree(ctx context.Context, rd *reader.Reader, key session.Key) (session.Tree, store.Revision, *cacheEntry, error) {
	mark, err := h.o.Store.Revision(ctx, key) // before the rows: they may be newer, never older
	if err != nil {
		return session.Tree{}, 0, nil, err
	}
	e, err := h.cache.get(ctx, cacheKey{key, "tree"}, fmt.Sprint(mark), func(ctx context.Context) (any, int64, error) {
		done, err := h.admit(ctx)
		if err != nil {
			return nil, 0, err
		}
		defer done()
		s, err := rd.Tree(ctx, key)
		if err != nil {
			return nil, 0, err
		}
		size := sizeOf(s)
		blocks, err := session.NewBlockSet(counted(h.o.Store.Blocks(ctx, key, nil), &size))
		if err != nil {
			return nil, 0, err
		}
		for _, b := range s.LiveBlocks() {
			blocks.Add(b)
			size += int64(len(b.Body)) + blockBytes
		}
		s.CheckContent(blocks)
		return session.Tree{Session: s, Blocks: blocks}, size, nil
	})
	if err != nil {
		return session.Tree{}, 0, nil, err
	}
	return e.value.(session.Tree), mark, e, nil
}

// bare returns the tree of a session, and the mark that it is of at least, for what needs no blocks: the whole one where that is kept.
func (h *Handler) bare(ctx context.Context, rd *reader.Reader, key session.Key) (session.Tree, store.Revision, error) {
	mark, err := h.o.Store.Revision(ctx, key)
	if err != nil {
		return session.Tree{}, 0, err
	}
	state := fmt.Sprint(mark)
	if whole, ok := h.cache.has(cacheKey{key, "tree"}, state); ok {
		return whole.(session.Tree), mark, nil
	}
	e, err := h.cache.get(ctx, cacheKey{key, "bare"}, state, func(ctx context.Context) (any, int64, error) {
		done, err := h.admit(ctx)
		if err != nil {
			return nil, 0, err
		}
		defer done()
		s, err := rd.Tree(ctx, key)
		if err != nil {
			return nil, 0, err
		}
		return session.Tree{Session: s}, sizeOf(s), nil
	})
	if err != nil {
		return session.Tree{}, 0, err
	}
	return e.value.(session.Tree), mark, nil
}

// sizeOf estimates the memory of a tree.
func sizeOf(s *session.Session) int64 {
	const each = 2 << 10 // bytes of a thing with what hangs on it
	n := int64(1)
	for _, r := range s.Runs {
		n += 1 + int64(len(r.ToolCalls)+len(r.Compactions)+len(r.Permissions)+len(r.Events))
		for _, t := range r.Turns {
			n += 1 + int64(len(t.ToolCalls)+len(t.Compactions)+len(t.Permissions)+len(t.Events))
		}
	}
	return n * each
}

// blockBytes is what a block takes besides its body.
const blockBytes = 96

// counted passes blocks on and adds their bytes to size.
func counted(blocks iter.Seq2[session.Block, error], size *int64) iter.Seq2[session.Block, error] {
	return func(yield func(session.Block, error) bool) {
		for b, err := range blocks {
			*size += int64(len(b.Body)) + blockBytes
			if !yield(b, err) {
				return
			}
		}
	}
}

// view is a session with those that belong to it.
type view struct {
	*inspect.View
	key   session.Key
	mark  store.Revision
	state string // of all of them: what changes when any of them does
}

// stateAt is state, and what only time changes: which runs are open and which are gone.
func (v *view) stateAt(now time.Time) string {
	state := v.state + " " + string(v.Tree().StatusAt(now))
	for i, run := range v.Tree().Runs {
		if at := run.StatusAt(now); at != run.Status {
			state += fmt.Sprint(" ", i, at)
		}
	}
	return state
}

// view returns the session and what its pages are made of. Sub-agents are read without their blocks.
func (h *Handler) view(ctx context.Context, rd *reader.Reader, key session.Key) (*view, error) {
	t, mark, _, err := h.tree(ctx, rd, key)
	if err != nil {
		return nil, err
	}
	var state strings.Builder
	fmt.Fprint(&state, mark)
	related, err := rd.Related(ctx, t.Session, func(ctx context.Context, other session.Key) (session.Tree, error) {
		t, mark, err := h.bare(ctx, rd, other)
		if err == nil {
			fmt.Fprintf(&state, " %q %d", other.ID, mark)
		}
		return t, err
	})
	if err != nil {
		return nil, err
	}
	e, err := h.cache.get(ctx, cacheKey{key, "view"}, state.String(), func(context.Context) (any, int64, error) {
		v := &view{View: inspect.NewView(t, related), key: key, mark: mark, state: state.String()}
		return v, int64(v.Len()) * 128, nil
	})
	if err != nil {
		return nil, err
	}
	return e.value.(*view), nil
}

// kept returns an answer whose body is made once a state.
func (h *Handler) kept(ctx context.Context, key cacheKey, state string, a *answer) (*answer, error) {
	e, err := h.cache.get(ctx, key, state, func(ctx context.Context) (any, int64, error) {
		done, err := place(ctx, h.making)
		if err != nil {
			return nil, 0, err
		}
		defer done()
		b := &bounded{}
		if err := a.write(b); err != nil {
			return nil, 0, err
		}
		return b, b.held(), nil
	})
	if err != nil {
		return nil, err
	}
	kept := *a
	kept.write = func(b *bounded) error { _, err := e.value.(*bounded).WriteTo(b); return err }
	return &kept, nil
}
