// Package retention decides which sessions go, and deletes them.
package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/project"
)

// Policy says what is kept. Fields of zero or less do not bound; the zero Policy keeps everything.
//
// A session is as old as its Summary.Last. One without a summary, since its rows cannot be read, is the newest. With
// MaxSessions and MaxBytes a session that claims to be from the future, by more than a day, is the oldest: nothing else
// would ever delete it.
type Policy struct {
	// Tenants are those whose sessions are judged by MaxAge and MaxSessions; nil: all.
	Tenants []string
	// MaxAge deletes sessions whose last row is older.
	MaxAge time.Duration
	// MaxSessions keeps the newest of each tenant.
	MaxSessions int64
	// MaxBytes deletes the oldest sessions of all tenants until the store's Size is not above. Of a store that frees
	// later what it deleted, one Apply deletes no more than as much as is too much.
	MaxBytes int64
	// Families makes a session as old as the newest of its family, and deletes the family together: the sessions of a
	// tenant that Summary.Parent joins, parents and sub-agents, also where the parent is not there. MaxSessions may
	// then keep more, by less than a family.
	Families bool
}

// Result is what one Apply did.
type Result struct {
	// Sessions were deleted, of which ByAge, BySessions and ByBytes say why.
	Sessions, ByAge, BySessions, ByBytes int
}

const (
	// batchSize is how many sessions one Delete names.
	batchSize = 256
	// future is how far ahead of now a session may be.
	future = 24 * time.Hour
	// maxErrors bounds how many errors Apply returns.
	maxErrors = 8
)

// Apply deletes what p does not keep, the oldest first, and returns what it did, also with an error. now is what ages
// count from. It may be left at any moment, by ctx, and be called from several processes at once. It holds some 200
// bytes for each session of the store.
//
// Apply first brings summaries up to date (project.Session). It spares a session that is Put to meanwhile, and one
// whose summary it could not bring up to date. It judges one whose rows cannot be read (store.ErrData) by the summary
// that it has.
//
// A session that cannot be deleted because of its data keeps no other one from it, nor do the first few whose summaries
// could not be brought up to date; the error joins the first few. Any other error ends Apply. Sessions that no query
// finds any more and that could not be erased yet count as deleted.
func Apply(ctx context.Context, st store.Store, now time.Time, p Policy) (Result, error) {
	a := newApplier(st, now, p)
	err := a.apply(ctx)
	if over := a.failed - maxErrors; over > 0 {
		a.errs = append(a.errs, fmt.Errorf("and %d more sessions failed", over))
	}
	if err = errors.Join(append(a.errs, err)...); err != nil {
		return a.result, fmt.Errorf("retention: %w", err)
	}
	return a.result, nil
}

// Choose returns what Apply would delete by MaxAge and MaxSessions, oldest first. With readOnly it brings no summary up
// to date.
func Choose(ctx context.Context, st store.Store, now time.Time, p Policy, readOnly bool) ([]store.Deletion, error) {
	a := newApplier(st, now, p)
	a.readOnly = readOnly
	var out []store.Deletion
	for _, judge := range []func([]*item) []*group{a.byAge, a.bySessions} {
		groups, err := a.choose(ctx, judge)
		if err != nil {
			return nil, fmt.Errorf("retention: %w", err)
		}
		for _, g := range groups {
			for _, d := range g {
				out = append(out, d)
				a.gone[d.Key] = true
			}
		}
	}
	if err := errors.Join(a.errs...); err != nil {
		return nil, fmt.Errorf("retention: %w", err)
	}
	return out, nil
}

// applier is one Apply.
type applier struct {
	st       store.Store
	policy   Policy
	now      time.Time
	readOnly bool
	gone     map[session.Key]bool // that are judged no more
	unread   map[session.Key]bool // whose summaries could not be brought up to date, but not because of their data
	result   Result
	errs     []error
	failed   int // sessions
}

func newApplier(st store.Store, now time.Time, p Policy) *applier {
	return &applier{st: st, policy: p, now: now, gone: map[session.Key]bool{}, unread: map[session.Key]bool{}}
}

// item is what is known of a session.
type item struct {
	key    session.Key
	parent string
	part   bool  // of parent, with which it always goes
	last   int64 // store.Cursor.Rank
	ahead  bool  // from the future
}

// age is what the item is sorted by: with back those of the future come before all others, the furthest first.
func (x *item) age(back bool) int64 {
	if back && x.ahead {
		return math.MinInt64 + (math.MaxInt64-x.last)>>2
	}
	return x.last
}

// group is a session or a whole family, which go together.
type group struct {
	items []*item // oldest first
	age   int64   // of the newest
}

func (a *applier) apply(ctx context.Context) error {
	for _, rule := range []struct {
		judge func([]*item) []*group
		count *int
	}{{a.byAge, &a.result.ByAge}, {a.bySessions, &a.result.BySessions}} {
		groups, err := a.choose(ctx, rule.judge)
		if err == nil {
			err = a.delete(ctx, groups, rule.count)
		}
		if err != nil {
			return err
		}
	}
	if a.policy.MaxBytes > 0 {
		return a.byBytes(ctx)
	}
	return ctx.Err()
}

// judged reads the sessions that there are, and returns the groups that a rule names.
func (a *applier) judged(ctx context.Context, judge func([]*item) []*group) ([]*group, error) {
	var items []*item
	for s, err := range a.st.Sessions(ctx, store.Query{AllTenants: true}) {
		if err != nil {
			return nil, err
		}
		if !a.gone[s.Key] {
			items = append(items, &item{s.Key, s.Parent, s.Part, store.CursorOf(&s).Rank(), s.Last.After(a.now.Add(future))})
		}
	}
	return judge(items), nil
}

// choose returns what deletes the groups that a rule names. A group is spared of which a session was Put to meanwhile:
// one that was neither stale when its revision was known, nor Put to since, has the summary by which it is judged last.
func (a *applier) choose(ctx context.Context, judge func([]*item) []*group) (out [][]store.Deletion, err error) {
	behind, damaged := map[session.Key]bool{}, map[session.Key]bool{}
	if !a.readOnly {
		stale, err := store.Stale(ctx, a.st)
		if err != nil {
			return nil, err
		}
		err = project.Sessions(ctx, a.st, stale, func(k session.Key, err error) error {
			switch {
			case errors.Is(err, store.ErrData):
				damaged[k] = true // else nothing would ever delete it
			case err == nil || a.unread[k]: // one that stays stale is spared
			case ctx.Err() != nil || errors.Is(err, store.ErrClosed) || a.failed >= maxErrors:
				return err
			default:
				a.unread[k] = true
				a.fail(err)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	groups, err := a.judged(ctx, judge)
	if err != nil || len(groups) == 0 {
		return nil, err
	}
	revisions := map[session.Key]store.Revision{}
	for _, g := range groups {
		for _, x := range g.items {
			revision, err := a.st.Revision(ctx, x.key)
			if err == nil {
				revisions[x.key] = revision
			} else if !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
		}
	}
	if !a.readOnly {
		stale, err := store.Stale(ctx, a.st)
		if err != nil {
			return nil, err
		}
		for _, k := range stale {
			behind[k] = !damaged[k]
		}
	}
	if groups, err = a.judged(ctx, judge); err != nil {
		return nil, err
	}
	for _, g := range groups {
		var some []store.Deletion
		for _, x := range g.items {
			if revision, ok := revisions[x.key]; ok && !behind[x.key] {
				some = append(some, store.Deletion{Key: x.key, Revision: revision})
			}
		}
		if len(some) == len(g.items) {
			out = append(out, some)
		}
	}
	return out, nil
}

// groups returns the groups of items, oldest first.
func (a *applier) groups(items []*item, back bool) []*group {
	above := map[session.Key]session.Key{} // leads to the key that names the family
	find := func(k session.Key) session.Key {
		for p, ok := above[k]; ok; p, ok = above[k] {
			if up, ok := above[p]; ok {
				above[k] = up // shortens the way of the next one
			}
			k = p
		}
		return k
	}
	for _, x := range items {
		if x.parent == "" || !a.policy.Families && !x.part {
			continue
		}
		if name, parent := find(x.key), find(session.Key{Tenant: x.key.Tenant, ID: x.parent}); name != parent {
			above[name] = parent
		}
	}
	byName := map[session.Key]*group{}
	var out []*group
	slices.SortFunc(items, func(x, y *item) int {
		return cmp.Or(cmp.Compare(x.age(back), y.age(back)), cmp.Compare(x.key.Tenant, y.key.Tenant),
			cmp.Compare(y.key.ID, x.key.ID))
	})
	for _, x := range items {
		name := find(x.key)
		g := byName[name]
		if g == nil {
			g = &group{}
			byName[name] = g
			out = append(out, g)
		}
		g.items, g.age = append(g.items, x), x.age(back)
	}
	slices.SortStableFunc(out, func(g, h *group) int { return cmp.Compare(g.age, h.age) })
	return out
}

func (a *applier) byAge(items []*item) []*group {
	if a.policy.MaxAge <= 0 {
		return nil
	}
	cut := a.now.Add(-a.policy.MaxAge).UnixNano()
	groups := a.groups(items, false)
	old := slices.IndexFunc(groups, func(g *group) bool { return g.age >= cut })
	if old < 0 {
		old = len(groups)
	}
	return slices.DeleteFunc(groups[:old], func(g *group) bool { return !a.judges(g) })
}

// judges reports whether the policy is about the sessions of a group.
func (a *applier) judges(g *group) bool {
	return a.policy.Tenants == nil || slices.Contains(a.policy.Tenants, g.items[0].key.Tenant)
}

func (a *applier) bySessions(items []*item) (out []*group) {
	if a.policy.MaxSessions <= 0 {
		return nil
	}
	over := map[string]int64{}
	for _, x := range items {
		if !x.part {
			over[x.key.Tenant]++
		}
	}
	for _, g := range a.groups(items, true) {
		tenant, n := g.items[0].key.Tenant, int64(0)
		for _, x := range g.items {
			if !x.part {
				n++
			}
		}
		if over[tenant]-n < a.policy.MaxSessions {
			over[tenant] = 0 // what comes is newer
			continue
		}
		over[tenant] -= n
		if a.judges(g) {
			out = append(out, g)
		}
	}
	return out
}

// byBytes deletes the oldest until the store is small enough, or as much as is too much was deleted and the store frees
// it later.
func (a *applier) byBytes(ctx context.Context) error {
	last, deleted := int64(math.MaxInt64), int64(0) // deleted of one size of the store
	for first := true; ; {
		size, err := a.st.Size(ctx, session.Key{})
		if err != nil {
			return fmt.Errorf("MaxBytes: %w", err)
		}
		if size < last {
			last, deleted = size, 0
		}
		want := size - a.policy.MaxBytes - deleted
		if want <= 0 {
			return ctx.Err()
		}
		if first { // one group: deleting also frees what is not of sessions, such as a log
			want = 0
		}
		var oldest []*group
		var unknown error // of a size: without it one would delete too much
		sizes := map[session.Key]int64{}
		groups, err := a.choose(ctx, func(items []*item) []*group {
			oldest, unknown = a.groups(items, true), nil
			sum := int64(0)
			for i, g := range oldest {
				if i > 0 && sum >= want {
					oldest = oldest[:i]
					break
				}
				for _, x := range g.items {
					n, err := a.st.Size(ctx, x.key)
					if err != nil {
						unknown = fmt.Errorf("MaxBytes: session %q: %w", x.key.ID, err)
						return nil
					}
					sizes[x.key], sum = n, sum+n
				}
			}
			return oldest
		})
		if err = cmp.Or(err, unknown); err != nil {
			return err
		}
		before := a.result.ByBytes
		if err := a.delete(ctx, groups, &a.result.ByBytes); err != nil || len(oldest) == 0 {
			return err
		}
		if a.result.ByBytes == before { // all of them are Put to meanwhile: the next ones go
			for _, g := range oldest {
				for _, x := range g.items {
					a.gone[x.key] = true
				}
			}
			continue
		}
		first = false
		for _, g := range groups {
			for _, d := range g {
				deleted += sizes[d.Key]
			}
		}
	}
}

// delete deletes groups, and counts sessions. A group of which one was Put to since it was judged stays.
func (a *applier) delete(ctx context.Context, groups [][]store.Deletion, count *int) error {
	var list []store.Deletion
	for i, some := range groups {
		for _, d := range some {
			if now, err := a.st.Revision(ctx, d.Key); err != nil || now != d.Revision {
				some = nil
				break
			}
		}
		if list = append(list, some...); len(list) < batchSize && i < len(groups)-1 || len(list) == 0 {
			continue
		}
		if err := a.deleteList(ctx, list, count); err != nil {
			return err
		}
		list = nil
	}
	return nil
}

func (a *applier) deleteList(ctx context.Context, list []store.Deletion, count *int) error {
	gone, err := a.st.Delete(ctx, list...)
	*count += len(gone)
	a.result.Sessions += len(gone)
	switch {
	case !errors.Is(err, store.ErrData):
		return err
	case len(list) == 1:
		a.fail(fmt.Errorf("session %q: %w", list[0].Key.ID, err))
		return nil
	}
	for _, d := range list { // one of them is bad
		if slices.Contains(gone, d.Key) {
			continue
		}
		if err := a.deleteList(ctx, []store.Deletion{d}, count); err != nil {
			return err
		}
	}
	return nil
}

// fail notes the error of a session.
func (a *applier) fail(err error) {
	if a.failed++; a.failed <= maxErrors {
		a.errs = append(a.errs, err)
	}
}
