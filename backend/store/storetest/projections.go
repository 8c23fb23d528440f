package storetest

import (
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// revisions checks what byChance does not: they grow, no summary is taken for one that was never returned, and a
// session that was deleted and made anew goes on with greater ones. Blocks alone move them too.
func revisions(t *testing.T, s store.Store) {
	k := key("a")
	put(t, s, []session.Row{Row(k, 1)})
	first := mark(t, s, k)
	put(t, s, nil, Block(k, "x"))
	second := mark(t, s, k)
	if second <= first || first <= 0 {
		t.Errorf("revisions %d, then %d: must grow", first, second)
	}
	wantErr(t, "SetSummary", s.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: second + 1000}), store.ErrData)
	figures := FiguresFor(k, 2)
	figures.ToolCalls = append(figures.ToolCalls, figures.ToolCalls[1], figures.ToolCalls[1]) // equal ones count each
	project(t, s, k, store.SummaryUpdate{Revision: second, Figures: figures})
	equal(t, "figures", allFigures(t, s, store.FigureQuery{}), join(figures))
	equal(t, "stale ones", dirtyKeys(t, s), "")
	remove(t, s, k)
	put(t, s, []session.Row{Row(k, 2)})
	if m := mark(t, s, k); m <= second {
		t.Errorf("revision %d of a session made anew, was %d before", m, second)
	}
	// What was derived of the deleted session is none of the new one.
	project(t, s, k, store.SummaryUpdate{Revision: second, Summary: Summary(k), Figures: figures})
	equal(t, "of the deleted one", collect(t, s.Sessions(t.Context(), store.Query{})), []session.Summary{{Key: k}})
	equal(t, "figures of the deleted one", allFigures(t, s, store.FigureQuery{}), session.Figures{})
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
