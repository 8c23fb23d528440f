package retention_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/retention"
	"github.com/otelagent/otelagent/internal/must"
)

// modelled is a session of the model.
type modelled struct {
	key    session.Key
	parent string
	last   time.Time
	age    int64 // that of its family; greater is newer
}

// model returns what p keeps of l. It follows the documentation of Policy and nothing else.
func model(l []modelled, p retention.Policy) []modelled {
	effective := func(ahead func(last int64) int64) {
		for i := range l {
			l[i].age = l[i].last.UnixNano()
			if l[i].last.After(now.Add(24 * time.Hour)) {
				l[i].age = ahead(l[i].age)
			}
		}
		for again := p.Families; again; {
			again = false
			for i := range l {
				for j := range l {
					a, b := &l[i], &l[j]
					kin := a.parent == b.key.ID || a.parent != "" && a.parent == b.parent || b.parent == a.key.ID
					if a.key.Tenant == b.key.Tenant && kin && a.age > b.age {
						b.age, again = a.age, true
					}
				}
			}
		}
	}
	if p.MaxAge > 0 {
		effective(func(last int64) int64 { return last })
		l = slices.DeleteFunc(l, func(x modelled) bool { return x.age < now.Add(-p.MaxAge).UnixNano() })
	}
	if p.MaxSessions > 0 {
		effective(func(last int64) int64 { return math.MinInt64 + math.MaxInt64 - last })
		slices.SortStableFunc(l, func(a, b modelled) int { return cmp.Compare(b.age, a.age) })
		kept, last := map[string]int64{}, map[string]int64{}
		l = slices.DeleteFunc(l, func(x modelled) bool {
			t := x.key.Tenant
			if kept[t]++; kept[t] > p.MaxSessions && x.age != last[t] {
				return true
			}
			last[t] = x.age
			return false
		})
	}
	return l
}

// TestModel compares what is left of random sessions and families, some dirty, with what a simple model keeps.
func TestModel(t *testing.T) {
	each(t, func(t *testing.T, st store.Store) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 1))
		rounds := 20
		if _, ok := st.(*memstore.Store); ok {
			rounds *= 10
		}
		if testing.Short() {
			rounds /= 8
		}
		for round := range rounds {
			var l []modelled
			taken := map[int]bool{}
			n := rnd.IntN(40)
			for i := range n {
				x := modelled{key: session.Key{Tenant: []string{"", "t"}[rnd.IntN(2)], ID: fmt.Sprint("s", i)}}
				hour := rnd.IntN(1000)
				for taken[hour] { // two of one age, and which of them stays, is a matter of ids
					hour = rnd.IntN(1000)
				}
				taken[hour] = true
				if x.last = hours(hour); rnd.IntN(10) == 0 {
					x.last = now.Add(25*time.Hour + time.Duration(hour)*time.Minute)
				}
				if rnd.IntN(3) == 0 {
					x.parent = fmt.Sprint("s", rnd.IntN(n+3))
				}
				if x.last.Before(now) && rnd.IntN(6) == 0 { // its summary is of an earlier time
					add(t, st, x.key, x.last.Add(-500*time.Hour), x.parent)
					put(t, st, row(x.key, 2, x.last, x.parent))
				} else {
					add(t, st, x.key, x.last, x.parent)
				}
				l = append(l, x)
			}
			p := retention.Policy{MaxAge: time.Duration(rnd.IntN(1200)) * time.Hour, MaxSessions: int64(rnd.IntN(15)),
				Families: rnd.IntN(2) == 0}
			r := apply(t, st, p)
			var out []string
			for _, x := range model(slices.Clone(l), p) {
				out = append(out, strings.TrimPrefix(x.key.Tenant+"/"+x.key.ID, "/"))
			}
			slices.Sort(out)
			if got := left(t, st); got != strings.Join(out, " ") {
				for _, x := range l {
					t.Logf("%q child of %q, %v before now", x.key, x.parent, now.Sub(x.last))
				}
				t.Fatalf("round %d, %+v:\n got %s\nwant %s", round, p, got, strings.Join(out, " "))
			}
			want(t, "deleted", r.Sessions, n-len(out))
			for _, x := range l {
				must.Do(t, store.Delete(t.Context(), st, x.key))
			}
		}
	})
}
