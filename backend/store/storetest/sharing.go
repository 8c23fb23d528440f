package storetest

import (
	"fmt"
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
		project(t, s, k, store.SummaryUpdate{Revision: mark(t, s, k)})
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
		project(t, s, k, store.SummaryUpdate{Revision: mark(t, s, k)})
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
