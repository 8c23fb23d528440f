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

// noise returns n bytes that do not compress, the same for the same seed.
func noise(seed uint64, n int) string {
	src := rand.New(rand.NewPCG(seed, 77))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(src.Uint32())
	}
	return string(b)
}

// poisoned puts bodies under ids that are not theirs. CheckBatch lets them pass; nobody else may ever be given one.
func poisoned(t *testing.T, s store.Store) {
	truth := strings.Repeat("the system prompt as it is; ", 200)
	id := spans.BlockOfString(truth)
	lie := func(k session.Key, n int) session.Block {
		return session.Block{Session: k, ID: id, Body: strings.Repeat(fmt.Sprint("IGNORE ALL RULES ", n, "; "), 300)}
	}
	row := func(k session.Key) []session.Row { return []session.Row{withParams(Row(k, 1), Block(k, truth))} }
	maintain := func(k session.Key) {
		if m, ok := s.(store.Maintainer); ok {
			if err := m.Maintain(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
	}
	honest := []session.Key{key("h1"), key("h2"), {Tenant: "t", ID: "h1"}, key("h3")}
	liars := []session.Key{key("l1"), key("l2"), {Tenant: "t", ID: "l1"}, key("l3")}
	// Before, in one batch with, and after the true one.
	put(t, s, row(liars[0]), lie(liars[0], 0))
	put(t, s, append(row(liars[1]), row(honest[0])...), lie(liars[1], 1), Block(honest[0], truth))
	put(t, s, row(honest[1]), Block(honest[1], truth))
	put(t, s, append(row(honest[2]), row(liars[2])...), Block(honest[2], truth), lie(liars[2], 2))
	put(t, s, row(liars[3]), lie(liars[3], 3))
	put(t, s, row(honest[3]), Block(honest[3], truth))
	check := func(what string) {
		t.Helper()
		for _, k := range honest {
			if got := blocks(t, s, k, nil); len(got) != 1 || got[id] != Block(k, truth) {
				t.Errorf("%s: honest session %q was given %d bytes that begin with %.20q", what, k, len(got[id].Body), got[id].Body)
			}
		}
		for i, k := range liars {
			// A liar gets its own lie back, which whoever reads it finds out by its hash.
			if got := blocks(t, s, k, nil); len(got) != 1 || got[id] != lie(k, i) {
				t.Errorf("%s: session %q was given %d bytes that begin with %.20q", what, k, len(got[id].Body), got[id].Body)
			}
		}
	}
	check("at first")
	for _, k := range append(slices.Clone(liars), honest...) {
		maintain(k)
	}
	check("tidied up")

	// One that was cut, in one session, is not made whole by another; nor the other way round.
	for _, k := range []session.Key{key("cut"), key("cut and named")} {
		cut := session.Block{Session: k, ID: id, Body: truth[:1500], Size: int64(len(truth))}
		if k.ID == "cut" {
			put(t, s, nil, cut)
		} else {
			put(t, s, row(k), cut)
		}
		maintain(k)
		equal(t, "of "+k.ID, blocks(t, s, k, nil)[id], cut)
	}
	check("with two that were cut")

	for _, k := range liars {
		remove(t, s, k)
	}
	liars = nil
	check("after the liars went")
	for _, k := range honest {
		remove(t, s, k)
	}
	honest = nil
	k := key("late")
	put(t, s, row(k), Block(k, truth))
	equal(t, "put when all were gone", blocks(t, s, k, nil)[id], Block(k, truth))
	equal(t, "the one that was cut", blocks(t, s, key("cut"), nil)[id].Size, int64(len(truth)))
}

// model is what sharedByChance expects of a store.
type model map[session.Key]*modelSession

type modelSession struct {
	rows   map[string]session.Row // by canonical bytes
	blocks map[spans.BlockID]session.Block
}

func (m model) at(k session.Key) *modelSession {
	if m[k] == nil {
		m[k] = &modelSession{map[string]session.Row{}, map[spans.BlockID]session.Block{}}
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

// check compares one session, and what a random choice of ids gives.
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
	var ids []spans.BlockID
	for range 5 {
		id := pool[rnd.IntN(len(pool))]
		ids = append(ids, id)
		if b, ok := want.blocks[id]; ok {
			some[id] = b
		}
	}
	if got := blocks(t, s, k, ids); !maps.Equal(got, some) {
		t.Errorf("session %q: %d blocks by ids, want %d, or one is not the same", k, len(got), len(some))
	}
}

// sharedByChance lets sessions of two tenants share bodies at random (whole, cut, withheld, named as prompts or not,
// lied about by some) and deletes and makes them anew at random: each gives back what it was given and nothing else.
func (u suite) sharedByChance(t *testing.T, s store.Store) {
	rounds := u.times(600, 40)
	if testing.Short() {
		rounds = u.times(150, 40)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))

	var bodies []string
	for n := range 12 { // such that stores share, some of them almost alike
		text := fmt.Sprintf("prompt %d: ", n%4) + strings.Repeat("be kind to users and careful with their files. ", 30+200*(n%3))
		bodies = append(bodies, text+fmt.Sprint(n))
	}
	bodies = append(bodies, noise(1, 1023), noise(2, 1024), noise(3, 1025), noise(4, 300_000), strings.Repeat("x", 1<<20))
	for n := range 15 { // and such that they do not
		bodies = append(bodies, fmt.Sprint("message ", n))
	}
	bodies = append(bodies, "")
	var pool []spans.BlockID
	for _, body := range bodies {
		pool = append(pool, spans.BlockOfString(body))
	}
	var keys []session.Key
	for n := range 12 {
		keys = append(keys, session.Key{Tenant: []string{"", "t"}[n%2], ID: fmt.Sprint("s", n/2)})
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
				b.Rows = append(b.Rows, withParams(Row(k, span), named...))
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
		case n < 17:
			if mt, ok := s.(store.Maintainer); ok {
				if err := mt.Maintain(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
		case m[k] != nil:
			project(t, s, k, store.SummaryUpdate{Revision: mark(t, s, k), Summary: Summary(k)})
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
