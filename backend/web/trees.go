package web

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/mapped"
)

// cache keeps one value of a kind a session, the last used ones, so that paging through a session of ten thousand turns
// reads it once. Concurrent requests of one value make it once.
type cache struct {
	mu     sync.Mutex
	most   int64 // bytes
	held   int64
	values *simplelru.LRU[cacheKey, *cached]
	making singleflight.Group
}

type cacheKey struct {
	session session.Key
	kind    string
}

// cached is a value with the state that it is made of.
type cached struct {
	state string
	value any
	size  int64
}

func newCache(most int64) *cache {
	c := &cache{most: most}
	c.values, _ = simplelru.NewLRU(1<<20, func(k cacheKey, v *cached) { // fails for no size only
		if c.held -= v.size; k.kind == wholeTree {
			c.values.Remove(cacheKey{k.session, treeView}) // which holds the tree
		}
	})
	return c
}

// makeTime bounds how long one value is made.
const makeTime = time.Minute

// has returns the value of a state where it is kept.
func (c *cache) has(key cacheKey, state string) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.values.Get(key); ok && v.state == state {
		return v.value, true
	}
	return nil, false
}

// links returns the links of the tree of a session that is kept, of whichever state.
func (c *cache) links(key session.Key) *session.Links {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range []string{wholeTree, bareTree} {
		if v, ok := c.values.Peek(cacheKey{key, kind}); ok {
			return v.value.(session.Tree).Links
		}
	}
	return nil
}

// The kinds of values: a tree with content and one without, and the view of a whole one.
const wholeTree, bareTree, treeView = "tree", "bare tree", "view"

// get returns what build makes of a state of a session. It replaces a value of another state.
func (c *cache) get(ctx context.Context, key cacheKey, state string,
	build func(context.Context) (value any, size int64, err error),
) (any, error) {
	if v, ok := c.has(key, state); ok {
		return v, nil
	}
	made := c.making.DoChan(fmt.Sprintf("%q %q", key, state), func() (_ any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("web: panic: %v", p)
			}
		}()
		if v, ok := c.has(key, state); ok {
			return v, nil
		}
		// Other clients may wait for it when the first one is gone.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTime)
		defer cancel()
		v := &cached{state: state}
		if v.value, v.size, err = build(ctx); err != nil {
			return nil, err
		}
		if t, ok := v.value.(session.Tree); ok && t.Links != nil {
			v.state = fmt.Sprint(t.Links.Revision)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.values.Remove(key)
		if key.kind == treeView && !c.values.Contains(cacheKey{key.session, wholeTree}) {
			return v.value, nil // the trees of sub-agents took the place of the one that it holds
		}
		c.values.Add(key, v)
		for c.held += v.size; c.held > c.most; c.values.RemoveOldest() {
			if oldest, _, _ := c.values.GetOldest(); oldest.session == key.session {
				break // of a session that is larger than the cache everything stays
			}
		}
		return v.value, nil
	})
	select {
	case r := <-made:
		return r.Val, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tree returns the tree of a session with its blocks, of at least the revision that it returns.
func (q *query) tree(key session.Key) (session.Tree, store.Revision, error) {
	return q.read(q.Context(), key, true)
}

// read returns the tree of a session. Without blocks it may have them, where the whole tree is kept.
func (q *query) read(ctx context.Context, key session.Key, blocks bool) (session.Tree, store.Revision, error) {
	// Before the rows: they may be newer, never older.
	revision, err := mapped.Revision(ctx, q.h.o.Store, key, q.h.cache.links(key))
	if err != nil {
		return session.Tree{}, 0, err
	}
	whole := cacheKey{key, wholeTree}
	if t, ok := q.h.cache.has(whole, fmt.Sprint(revision)); ok {
		return t.(session.Tree), revision, nil
	}
	kept := whole
	if !blocks {
		kept.kind = bareTree
	}
	t, err := q.h.cache.get(ctx, kept, fmt.Sprint(revision), func(ctx context.Context) (any, int64, error) {
		done, err := place(ctx, q.h.heavy)
		if err != nil {
			return nil, 0, err
		}
		defer done()
		var t session.Tree
		if blocks {
			t, err = q.rd.Load(ctx, key)
		} else {
			t.Session, err = q.rd.Tree(ctx, key)
		}
		if err != nil {
			return nil, 0, err
		}
		return t, sizeOf(t), nil
	})
	if err != nil {
		return session.Tree{}, 0, err
	}
	if links := t.(session.Tree).Links; links != nil {
		revision = store.Revision(links.Revision)
	}
	return t.(session.Tree), revision, nil
}

// sizeOf estimates the memory of a tree.
func sizeOf(t session.Tree) int64 {
	const span, block = 2 << 10, 96 // bytes of a span with its attributes, and of a block besides its body
	size := span + t.Blocks.Bytes() + int64(t.Blocks.Len())*block
	for range t.Walk() {
		size += span
	}
	return size
}

// view is a session with the sessions of its sub-agents.
type view struct {
	*inspect.View
	key      session.Key
	revision store.Revision
	state    string // changes with any of them
}

// stateAt is the state at a time.
func (v *view) stateAt(now time.Time) string { return v.state + " " + statuses(v.Tree().Session, now) }

// statuses are those that a session and its runs have at a time: they change when a run counts as aborted.
func statuses(s *session.Session, now time.Time) string {
	state := string(s.StatusAt(now))
	for i, run := range s.Runs {
		if at := run.StatusAt(now); at != run.Status {
			state += fmt.Sprint(" ", i, at)
		}
	}
	return state
}

// view returns the session that the path names. It reads the sessions of sub-agents without their blocks.
func (q *query) view() (*view, error) {
	t, err := q.target("")
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprint(&b, t.revision)
	load := func(ctx context.Context, other session.Key) (session.Tree, error) {
		t, revision, err := q.read(ctx, other, false)
		if err == nil {
			fmt.Fprintf(&b, " %q %d", other.ID, revision)
		}
		return t, err
	}
	related, err := q.rd.Related(q.Context(), t.Session, load)
	if err != nil {
		return nil, err
	}
	state := b.String()
	v, err := q.h.cache.get(q.Context(), cacheKey{t.key, treeView}, state, func(context.Context) (any, int64, error) {
		v := &view{View: inspect.NewView(t.Tree, related), key: t.key, revision: t.revision, state: state}
		size := int64(v.Len()) * 128
		for _, other := range related {
			size += sizeOf(other)
		}
		return v, size, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*view), nil
}
