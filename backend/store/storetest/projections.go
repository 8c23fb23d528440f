package storetest

import (
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

func dirty(t *testing.T, s store.Store) {
	a, b := key("a"), key("b")
	put(t, s, []session.Row{Row(a, 1)})
	put(t, s, []session.Row{Row(b, 1)})
	equal(t, "after two", dirtyKeys(t, s), "a b")
	first := mark(t, s, a)
	put(t, s, []session.Row{Row(a, 1)})
	second := mark(t, s, a)
	if second <= first || first <= 0 {
		t.Errorf("marks %d, then %d: must grow", first, second)
	}
	equal(t, "after three", dirtyKeys(t, s), "a b")
	project(t, s, a, store.SummaryUpdate{Revision: first})
	equal(t, "projected what was before the second Put", dirtyKeys(t, s), "a b")
	project(t, s, a, store.SummaryUpdate{Revision: second})
	equal(t, "projected", dirtyKeys(t, s), "b")
	project(t, s, a, store.SummaryUpdate{Revision: second})
	equal(t, "projected again", dirtyKeys(t, s), "b")
	put(t, s, nil, Block(a, "x"))
	equal(t, "blocks make dirty", dirtyKeys(t, s), "a b")
}

// Summary returns one with every field set.
func Summary(k session.Key) session.Summary {
	return session.Summary{
		Key: k, Parent: "p1", Status: "idle", Agent: "coder", AgentID: "c1", Model: "m", Dialect: "phi-core",
		Start: time.Unix(1_700_000_000, 1).UTC(), Last: time.Unix(1_700_000_100, 999_999_999).UTC(),
		Runs: 1, Turns: 2, ToolCalls: 3, Errors: 4, Denied: 5, Defects: 6,
		Usage:      session.Usage{Input: 7, Output: 8, Reasoning: 9, CacheRead: 10, CacheWrite: 11},
		ForkedFrom: "f1", Title: "Ranges", Archived: true, Cost: 0.125, Currency: "USD", HeartbeatNS: 15e9, Settled: "error",
		Mapped: "1",
	}
}

func projectStale(t *testing.T, s store.Store) {
	k := key("a")
	put(t, s, []session.Row{Row(k, 1)})
	old := mark(t, s, k)
	put(t, s, []session.Row{Row(k, 2)})
	figures := FiguresFor(k, 2)
	figures.ToolCalls = append(figures.ToolCalls, figures.ToolCalls[1], figures.ToolCalls[1]) // equal ones count each
	project(t, s, k, store.SummaryUpdate{Revision: mark(t, s, k), Summary: session.Summary{Runs: 2}, Figures: figures})
	project(t, s, k, store.SummaryUpdate{Revision: old, Summary: session.Summary{Runs: 1}, Figures: FiguresFor(k, 7)})
	equal(t, "the newer figures stay", allFigures(t, s, store.FigureQuery{}), join(figures))
	equal(t, "the newer stays", collect(t, s.Sessions(t.Context(), store.Query{})), []session.Summary{{Key: k, Runs: 2}})
	equal(t, "dirty", dirtyKeys(t, s), "")
	wantErr(t, "SetSummary", s.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: mark(t, s, k) + 1000}),
		store.ErrData)
}

func projectAnew(t *testing.T, s store.Store) {
	k := key("a")
	put(t, s, []session.Row{Row(key("other"), 1)})
	put(t, s, []session.Row{Row(k, 1)})
	old := mark(t, s, k)
	put(t, s, []session.Row{Row(key("other"), 1)})
	if err := store.Delete(t.Context(), s, k); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "SetSummary of a deleted session", s.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: old}),
		store.ErrNotFound)
	put(t, s, []session.Row{Row(k, 2)})
	if m := mark(t, s, k); m <= old {
		t.Errorf("mark %d of a session made anew, was %d before: must not be used again", m, old)
	}
	project(t, s, k, store.SummaryUpdate{Revision: old, Summary: session.Summary{Runs: 9}})
	equal(t, "summary", collect(t, s.Sessions(t.Context(), store.Query{Prefix: "a"})), []session.Summary{{Key: k}})
	equal(t, "dirty", dirtyKeys(t, s), "a other")
}
