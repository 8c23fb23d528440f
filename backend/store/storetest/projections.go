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

func sessionsPrefix(t *testing.T, s store.Store) {
	for i, id := range []string{"ab", "abc", "abd", "ac", "AB", "b"} {
		put(t, s, []session.Row{Row(key(id), i)})
	}
	for prefix, want := range map[string]string{"ab": "ab abc abd", "abc": "abc", "a": "ab abc abd ac", "x": "",
		"": "AB ab abc abd ac b"} {
		equal(t, "prefix "+prefix, ids(t, s, store.Query{Prefix: prefix}), want)
	}
	equal(t, "prefix and limit", ids(t, s, store.Query{Prefix: "ab", Limit: 2}), "ab abc")
}

func sessionsTraceSpan(t *testing.T, s store.Store) {
	a1, a2, b := Row(key("a"), 1), Row(key("a"), 2), Row(key("b"), 1)
	b.Span = session.SpanID{9} // the trace of a
	c := Row(key("c"), 3)
	c.Trace = session.TraceID{7}
	put(t, s, []session.Row{a1, a2, b, c})
	for _, q := range []struct {
		name string
		q    store.Query
		want string
	}{
		{"trace", store.Query{Trace: a1.Trace}, "a b"},
		{"trace of one", store.Query{Trace: c.Trace}, "c"},
		{"span", store.Query{Span: a2.Span}, "a"},
		{"trace and span", store.Query{Trace: a1.Trace, Span: b.Span}, "b"},
		{"trace and the span of another", store.Query{Trace: c.Trace, Span: b.Span}, ""},
		{"trace and prefix", store.Query{Trace: a1.Trace, Prefix: "b"}, "b"},
		{"trace and limit", store.Query{Trace: a1.Trace, Limit: 1}, "a"},
		{"unknown trace", store.Query{Trace: session.TraceID{1}}, ""},
		{"unknown span", store.Query{Span: session.SpanID{1}}, ""},
		{"other tenant", store.Query{Tenant: "t", Span: a2.Span}, ""},
	} {
		equal(t, q.name, ids(t, s, q.q), q.want)
	}
}
