package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// model is what byChance expects of a store.
type model map[session.Key]*modelSession

type modelSession struct {
	rows    map[string]session.Row // by canonical bytes
	blocks  map[spans.BlockID]session.Block
	summary session.Summary
	figures session.Figures
}

func (m model) at(k session.Key) *modelSession {
	if m[k] == nil {
		m[k] = &modelSession{
			rows: map[string]session.Row{}, blocks: map[spans.BlockID]session.Block{}, summary: session.Summary{Key: k},
		}
	}
	return m[k]
}

func (m model) put(b session.Batch) {
	for _, r := range b.Rows {
		m.at(r.Session).rows[string(r.AppendCanonical(nil))] = r
	}
	for _, b := range b.Blocks {
		have := m.at(b.Session).blocks
		if old, ok := have[b.ID]; !ok || old.Size != 0 && (b.Size == 0 || b.Size > old.Size) {
			have[b.ID] = b
		}
	}
}

// check compares one session, and what a random choice of ids gives, one of them twice.
func (m model) check(t *testing.T, s store.Store, k session.Key, rnd *rand.Rand, pool []spans.BlockID) {
	t.Helper()
	want := m[k]
	if want == nil {
		gone(t, s, k)
		return
	}
	equal(t, "rows of "+k.ID, rows(t, s, k), slices.Sorted(maps.Keys(want.rows)))
	if got := blocks(t, s, k, nil); !maps.Equal(got, want.blocks) {
		t.Errorf("session %q: %d blocks, want %d, or one is not the same", k, len(got), len(want.blocks))
	}
	some := map[spans.BlockID]session.Block{}
	ids := []spans.BlockID{} // an empty list selects none
	for range rnd.IntN(6) {
		id := pool[rnd.IntN(len(pool))]
		ids = append(ids, id, id)
		if b, ok := want.blocks[id]; ok {
			some[id] = b
		}
	}
	if got := blocks(t, s, k, ids); !maps.Equal(got, some) {
		t.Errorf("session %q: %d blocks by ids, want %d, or one is not the same", k, len(got), len(some))
	}
	got, _ := summary(t, s, k)
	equal(t, "summary of "+k.ID, got, want.summary)
	figures := allFigures(t, s, store.FigureQuery{Tenant: k.Tenant, Session: k.ID})
	equal(t, "figures of "+k.ID, figures, join(want.figures))
}

// byChance puts, summarizes, deletes and makes anew at random, in sessions of two tenants whose keys are
// almost alike. Bodies are shared, whole, cut, named as prompts or not, and lied about by one session. Each session
// gives back what it was given and nothing else.
func (u suite) byChance(t *testing.T, s store.Store) {
	rounds := u.times(600, 60)
	if testing.Short() {
		rounds = u.times(150, 60)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))

	var bodies []string
	for n := range 12 { // such that stores share, some of them almost alike
		text := fmt.Sprintf("prompt %d: ", n%4) + strings.Repeat("be kind to users and careful. ", 50+350*(n%3))
		bodies = append(bodies, text+fmt.Sprint(n))
	}
	bodies = append(bodies, noise(1, 1023), noise(2, 1024), noise(3, 1025), noise(4, 300_000), strings.Repeat("x", 1<<20))
	for n := range 15 { // and such that they do not
		bodies = append(bodies, fmt.Sprint("message ", n))
	}
	bodies = append(bodies, "", "\xff\x00 not text")
	var pool []spans.BlockID
	for _, body := range bodies {
		pool = append(pool, spans.BlockOfString(body))
	}
	var keys []session.Key
	for _, id := range []string{"s0", "s", "S0", "s0\x00", "s0%", "t/s0"} {
		keys = append(keys, session.Key{ID: id}, session.Key{Tenant: "t", ID: id})
	}
	m, span := model{}, 0
	batch := func() (b session.Batch) {
		for range 1 + rnd.IntN(3) {
			k := keys[rnd.IntN(len(keys))]
			var named []session.Block
			for range rnd.IntN(4) {
				n := rnd.IntN(len(bodies))
				block := Block(k, bodies[n])
				switch size := len(block.Body); {
				case n == 0 && k.ID == "s0": // the liar, always with the same lie
					block.Body = strings.Repeat("a lie. ", 1000)
				case size > 1 && rnd.IntN(5) == 0: // the more of it the larger Size, so that two of one size are alike
					keep := rnd.IntN(size)
					block.Body, block.Size = block.Body[:keep], int64(1+keep)
				}
				b.Blocks = append(b.Blocks, block)
				if rnd.IntN(2) == 0 {
					named = append(named, block)
				}
			}
			if rnd.IntN(4) == 0 { // named, and not there or there from before
				named = append(named, Block(k, bodies[rnd.IntN(len(bodies))]))
			}
			if len(named) > 0 || rnd.IntN(2) == 0 {
				span++
				r := Row(k, span)
				if rnd.IntN(4) == 0 {
					r.Known = spans.KnownLive
				}
				b.Rows = append(b.Rows, withParams(r, named...))
			}
		}
		return b
	}
	for round := range rounds {
		k := keys[rnd.IntN(len(keys))]
		switch n := rnd.IntN(20); {
		case n < 12:
			b := batch()
			put(t, s, b.Rows, b.Blocks...)
			m.put(b)
			if n == 0 { // sent again
				put(t, s, b.Rows, b.Blocks...)
			}
		case n < 15:
			remove(t, s, k)
			delete(m, k)
		case m[k] != nil:
			want := m[k]
			want.figures, want.summary = session.Figures{}, session.Summary{Key: k, Agent: fmt.Sprint("agent ", round)}
			if n < 19 {
				want.figures, want.summary = FiguresFor(k, 1+rnd.IntN(40)), Summary(k)
				changed := rnd.IntN(len(want.figures.Turns))
				want.figures.Turns[changed].Output = session.Some(int64(rnd.IntN(3)))
			}
			update := store.SummaryUpdate{Revision: mark(t, s, k), Summary: want.summary, Figures: want.figures}
			update.Summary.Key = session.Key{ID: "another"} // the store sets it
			project(t, s, k, update)
		}
		m.check(t, s, k, rnd, pool)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	for _, k := range keys {
		m.check(t, s, k, rnd, pool)
	}
	for i, k := range keys { // down to nothing
		remove(t, s, k)
		delete(m, k)
		m.check(t, s, k, rnd, pool)
		m.check(t, s, keys[(i+1)%len(keys)], rnd, pool)
	}
}
