package retention

import (
	"context"
	"errors"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// group is a session or a whole family, deleted together.
type group struct {
	tenant  string
	members []place // oldest first
}

func (g *group) newest() place { return g.members[len(g.members)-1] }

func (g *group) key(p place) session.Key { return session.Key{Tenant: g.tenant, ID: p.id} }

// unchanged tells whether all members have the mark that they had.
func (g *group) unchanged(ctx context.Context, st store.Store, marks map[session.Key]store.Mark) bool {
	for _, m := range g.members {
		had, ok := marks[g.key(m)]
		if now, err := st.Mark(ctx, g.key(m)); !ok || err != nil || now != had {
			return false
		}
	}
	return true
}

// group returns what goes together with a session, as it is now; nil when it is not there any more.
func (a *applier) group(ctx context.Context, by age, tenant string, p place) (*group, error) {
	g := &group{tenant: tenant}
	k := g.key(p)
	if a.policy.Families && !a.kin[k].tooLarge {
		var err error
		switch g.members, err = a.family(ctx, by, k); {
		case err == nil && len(g.members) == 0:
			return nil, nil
		case err == nil:
			return g, nil
		case !errors.Is(err, errTooLarge):
			return nil, err
		}
	}
	s, ok, err := find(ctx, a.st, k)
	if !ok || err != nil {
		return nil, err
	}
	g.members = []place{by.place(&s)}
	return g, nil
}

// find returns the summary of one session.
func find(ctx context.Context, st store.Store, k session.Key) (session.Summary, bool, error) {
	for s, err := range st.Sessions(ctx, store.Query{Tenant: k.Tenant, Prefix: k.ID}) {
		if err != nil {
			return session.Summary{}, false, err
		}
		if s.Key == k {
			return s, true, nil
		}
	}
	return session.Summary{}, false, nil
}

// kin remembers what was found out of families, so that a large one is not walked for each of its members. It may be out of date:
// a family is walked again before it is deleted.
type kin map[session.Key]kinship

type kinship struct {
	newest   place
	tooLarge bool
}

// maxKin bounds what is remembered: about 20 MB.
const maxKin = 100_000

var errTooLarge = errors.New("family is too large")

var maxFamily = MaxFamily // less in tests

// family returns the members of the family of k, oldest first, or errTooLarge.
func (a *applier) family(ctx context.Context, by age, k session.Key) ([]place, error) {
	seen := map[string]struct{}{k.ID: {}} // also parents that are not there
	var members []place
	// Of those in up the own parent is not known yet.
	up, down := []string{k.ID}, []string{}
	add := func(to *[]string, id string) bool {
		if _, ok := seen[id]; id == "" || ok {
			return false
		}
		seen[id] = struct{}{}
		*to = append(*to, id)
		return true
	}
	tooLarge := false
	for !tooLarge && len(up)+len(down) > 0 {
		var id string
		if len(up) > 0 {
			id, up = up[0], up[1:]
			s, ok, err := find(ctx, a.st, session.Key{Tenant: k.Tenant, ID: id})
			if err != nil {
				return nil, err
			}
			if ok {
				members = append(members, by.place(&s))
				add(&up, s.Parent)
			}
			down = append(down, id)
		} else {
			id, down = down[0], down[1:]
			for s, err := range a.st.Sessions(ctx, store.Query{Tenant: k.Tenant, Parent: id}) {
				if err != nil {
					return nil, err
				}
				if add(&down, s.ID) {
					members = append(members, by.place(&s))
				}
				if tooLarge = len(seen) > maxFamily; tooLarge {
					break
				}
			}
		}
		tooLarge = tooLarge || len(seen) > maxFamily || a.kin[session.Key{Tenant: k.Tenant, ID: id}].tooLarge
	}
	found := kinship{tooLarge: tooLarge}
	if len(members) > 0 {
		slices.SortFunc(members, place.compare)
		found.newest = members[len(members)-1]
	}
	if len(a.kin)+len(seen) > maxKin {
		clear(a.kin)
	}
	for id := range seen {
		a.kin[session.Key{Tenant: k.Tenant, ID: id}] = found
	}
	if tooLarge {
		return nil, errTooLarge
	}
	return members, nil
}
