// Package retention decides which sessions go, and lets a store delete them.
package retention

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/project"
)

// Policy says what is kept. Fields of zero or less do not bound; the zero Policy keeps everything.
//
// A session is as old as its Summary.Last says. One that was never projected is the newest: its time is not known yet. With MaxSessions
// and MaxBytes a session that says to be from the future, by more than a day, is the oldest: nothing else would ever take it away.
type Policy struct {
	// MaxAge deletes sessions whose last row is older.
	MaxAge time.Duration
	// MaxSessions keeps the newest of each tenant.
	MaxSessions int64
	// MaxBytes deletes the oldest sessions of all tenants until the store's Size is not above. It needs a store.Sizer. Of a store
	// that frees later what it deleted, one Apply deletes no more than as much as is too much.
	MaxBytes int64
	// Families makes a session as old as the newest of its family, and deletes the family together: the sessions of a tenant that
	// Summary.Parent joins, parents and sub-agents, also where the parent is not there. MaxSessions may then keep more, by less
	// than a family. A family of more than MaxFamily sessions is none: each of them is judged alone.
	Families bool
}

// MaxFamily is how many ids a family may have.
const MaxFamily = 10_000

// Result is what one Apply did.
type Result struct {
	// Sessions were deleted, of which ByAge, BySessions and ByBytes say why.
	Sessions, ByAge, BySessions, ByBytes int
}

const (
	// pageSize is how many summaries are held at once, of a tenant.
	pageSize = 512
	// batchSize is how many sessions are looked at together before they are deleted.
	batchSize = 64
	// future is how far ahead of now a session may be.
	future = 24 * time.Hour
	// maxErrors bounds how many errors Apply tells of.
	maxErrors = 8
)

// Apply deletes what p does not keep, the oldest first, and returns what it did, also with an error. now is what ages count from. It
// hides one session at a time and erases all of them together, in the store's small steps, so that others Put meanwhile; it may be left at
// any moment, by ctx, and be called from several processes at once. It takes a few MB of memory, however many sessions there are.
//
// Summaries lag, and sessions are Put to meanwhile. So a session that is about to go is first brought up to date where it is dirty
// (project.Session) and judged anew, and one that is Put to after that is spared (store.Hide): the next Apply sees how old it is then.
// One whose rows cannot be read (store.ErrData) is judged by the summary that it has.
//
// A session that cannot be hidden because of its data keeps no other one from it; the error joins the first few. Any other error
// ends Apply, once it has erased what it hid. Sessions that are hidden and could not be erased yet count as deleted.
func Apply(ctx context.Context, st store.Store, now time.Time, p Policy) (Result, error) {
	a := &applier{st: st, policy: p, now: now, kin: kin{}}
	err := errors.Join(a.apply(ctx), a.erase(ctx))
	if over := a.failed - maxErrors; over > 0 {
		a.errs = append(a.errs, fmt.Errorf("and %d more sessions failed", over))
	}
	if err = errors.Join(append(a.errs, err)...); err != nil {
		return a.result, fmt.Errorf("retention: %w", err)
	}
	return a.result, nil
}

// applier is one Apply.
type applier struct {
	st     store.Store
	policy Policy
	now    time.Time
	kin    kin
	result Result
	errs   []error
	failed int  // sessions
	hidden bool // some are, and not erased
}

func (a *applier) apply(ctx context.Context) error {
	var tenants []string
	for t, err := range a.st.Tenants(ctx) {
		if err != nil {
			return err
		}
		tenants = append(tenants, t)
	}
	for _, t := range tenants {
		if a.policy.MaxAge > 0 {
			if err := a.byAge(ctx, t); err != nil {
				return err
			}
		}
		if a.policy.MaxSessions > 0 {
			if err := a.bySessions(ctx, t); err != nil {
				return err
			}
		}
	}
	if a.policy.MaxBytes > 0 {
		return a.byBytes(ctx, tenants)
	}
	return ctx.Err()
}

func (a *applier) byAge(ctx context.Context, tenant string) error {
	cut := a.now.Add(-a.policy.MaxAge)
	w := &walker{st: a.st, q: store.Query{Tenant: tenant, Before: cut, Oldest: true}, size: pageSize}
	return a.delete(ctx, &rule{
		next: w.next,
		age:  listed,
		most: func() int64 { return batchSize },
		fits: func(_ context.Context, g *group) (bool, error) { return g.newest().last < cut.UnixNano(), nil },
		gone: func() { a.result.ByAge++ },
	})
}

func (a *applier) bySessions(ctx context.Context, tenant string) error {
	over := -a.policy.MaxSessions
	for _, err := range a.st.Sessions(ctx, store.Query{Tenant: tenant}) {
		if err != nil {
			return err
		}
		over++
	}
	if over <= 0 {
		return nil
	}
	return a.delete(ctx, &rule{
		next: a.oldest(tenant, pageSize).next,
		age:  a.age,
		most: func() int64 { return min(batchSize, over) },
		fits: func(_ context.Context, g *group) (bool, error) { return int64(len(g.members)) <= over, nil },
		gone: func() { over--; a.result.BySessions++ },
	})
}

func (a *applier) byBytes(ctx context.Context, tenants []string) error {
	sizer, ok := a.st.(store.Sizer)
	if !ok {
		return errors.New("MaxBytes: the store does not know its size")
	}
	begin, err := sizer.Size(ctx)
	if err != nil || begin <= a.policy.MaxBytes {
		return err
	}
	deleted := int64(0) // as it came, since the size was begin
	sure := false       // begin has nothing in it that the first Erase frees anyway, as a log
	return a.delete(ctx, &rule{
		next: a.merge(tenants).next,
		age:  a.age,
		most: func() int64 { return 8 }, // of which the size of the store may spare some
		fits: func(ctx context.Context, g *group) (bool, error) {
			size, err := sizer.Size(ctx)
			if err != nil || size <= a.policy.MaxBytes {
				return false, err
			}
			if enough := deleted >= begin-a.policy.MaxBytes; enough || !sure && deleted > 0 {
				sure = true
				if err := a.erase(ctx); err != nil {
					return false, err
				}
				if size, err = sizer.Size(ctx); err != nil || size <= a.policy.MaxBytes {
					return false, err
				}
				switch {
				case size < begin:
					begin, deleted = size, 0
				case enough:
					return false, nil // what was deleted is freed later
				}
			}
			for _, m := range g.members {
				n, err := sizer.SessionSize(ctx, session.Key{Tenant: g.tenant, ID: m.id})
				if err != nil {
					return false, err
				}
				deleted += n
			}
			return true, nil
		},
		gone: func() { a.result.ByBytes++ },
	})
}

// age has those of the future before all others, the furthest first.
func (a *applier) age(s *session.Summary) int64 {
	if a.ahead(s) {
		return math.MinInt64 + (math.MaxInt64-listed(s))>>2
	}
	return listed(s)
}

func (a *applier) ahead(s *session.Summary) bool { return s.Last.After(a.now.Add(future)) }

// rule is one reason why sessions go.
type rule struct {
	// next returns the oldest that it did not return yet; false when there is none.
	next func(context.Context) (session.Summary, bool, error)
	age  age
	// most returns how many sessions to look at together.
	most func() int64
	// fits says whether g may go too; if not the rule is done.
	fits func(ctx context.Context, g *group) (bool, error)
	// gone is told of each session that was deleted.
	gone func()
}

// delete deletes what a rule names, a batch at a time.
func (a *applier) delete(ctx context.Context, r *rule) error {
	clear(a.kin) // its places are those of another rule
	q := &queue{next: r.next, age: r.age}
	for {
		batch, err := a.batch(ctx, r, q)
		if len(batch) == 0 || err != nil {
			return err
		}
		marks, err := a.refresh(ctx, batch)
		if err != nil {
			return err
		}
		for _, g := range batch {
			if q.before(g) {
				q.later(g)
				continue
			}
			// Again, since it was brought up to date.
			now, err := a.group(ctx, r.age, g.tenant, g.newest())
			switch {
			case err != nil:
				return err
			case now == nil:
				continue
			case now.newest().compare(g.newest()) > 0:
				q.later(now) // its turn comes
				continue
			case !now.unchanged(ctx, a.st, marks):
				continue
			}
			switch ok, err := r.fits(ctx, now); {
			case err != nil:
				return err
			case !ok:
				return nil
			}
			if err := a.hideGroup(ctx, r, now, marks); err != nil {
				return err
			}
		}
	}
}

// batch returns the next groups that are about to go.
func (a *applier) batch(ctx context.Context, r *rule, q *queue) ([]*group, error) {
	var batch []*group
	for n, most := int64(0), r.most(); n < most; {
		tenant, p, ok, err := q.pop(ctx)
		if !ok || err != nil {
			return batch, err
		}
		known, ok := a.kin[session.Key{Tenant: tenant, ID: p.id}]
		if ok && !known.tooLarge && known.newest.compare(p) > 0 {
			continue // judged with that one, which comes
		}
		g, err := a.group(ctx, r.age, tenant, p)
		if err != nil {
			return nil, err
		}
		switch {
		case g == nil:
		case g.newest().compare(p) <= 0:
			batch = append(batch, g)
			n += int64(len(g.members))
		case ok, g.newest().id == p.id:
			q.later(g) // it was brought up to date since, so that the newest may have come at an earlier place
		}
	}
	return batch, nil
}

// refresh brings up to date what is dirty of the groups. A session whose mark is still the one returned was not Put to since, and its
// summary is as new as its data.
func (a *applier) refresh(ctx context.Context, groups []*group) (map[session.Key]store.Mark, error) {
	marks := map[session.Key]store.Mark{}
	for _, g := range groups {
		for _, m := range g.members {
			k := g.key(m)
			mark, err := a.st.Mark(ctx, k)
			switch {
			case err == nil:
				marks[k] = mark
			case !errors.Is(err, store.ErrNotFound):
				return nil, err
			}
		}
	}
	if len(marks) == 0 {
		return marks, nil
	}
	var dirty []session.Key
	for k, err := range a.st.Dirty(ctx) {
		if err != nil {
			return nil, err
		}
		if _, ok := marks[k]; ok {
			dirty = append(dirty, k)
		}
	}
	for _, k := range dirty {
		// One whose data is bad is judged by the summary that it has: else nothing would ever take it away.
		if err := project.Session(ctx, a.st, k); err != nil && !errors.Is(err, store.ErrData) {
			return nil, err
		}
	}
	return marks, nil
}

// hideGroup hides a group, the oldest first, to be erased with others. A session that was Put to since marks stays.
func (a *applier) hideGroup(ctx context.Context, r *rule, g *group, marks map[session.Key]store.Mark) error {
	for _, m := range g.members {
		k := g.key(m)
		mark, ok := marks[k]
		if !ok { // it went before
			continue
		}
		hidden, err := a.st.Hide(ctx, k, mark)
		if hidden {
			a.hidden = true
			a.result.Sessions++
			r.gone()
		}
		if err == nil {
			continue
		}
		if err = fmt.Errorf("session %q: %w", k.ID, err); !errors.Is(err, store.ErrData) {
			return err
		}
		if a.failed++; a.failed <= maxErrors {
			a.errs = append(a.errs, err)
		}
	}
	return nil
}

// erase erases what was hidden.
func (a *applier) erase(ctx context.Context) error {
	if !a.hidden {
		return nil
	}
	a.hidden = false
	return a.st.Erase(ctx)
}
