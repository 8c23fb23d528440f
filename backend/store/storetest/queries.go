package storetest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// projected puts a session and projects it with that summary.
func projected(t *testing.T, s store.Store, k session.Key, m session.Summary) {
	t.Helper()
	put(t, s, []session.Row{Row(k, 1)})
	project(t, s, k, store.SummaryUpdate{Revision: mark(t, s, k), Summary: m})
}

// sessionsFilters asks for sessions by what their summaries say, and holds each answer to Query.Matches besides.
func sessionsFilters(t *testing.T, s store.Store) {
	at := func(n int64) time.Time { return time.Unix(n, 0).UTC() }
	beat := int64(15 * time.Second)
	for i, m := range []session.Summary{
		{Key: key("a"), Agent: "coder", AgentID: "c1", Model: "opus", Status: "idle", Title: "Fix the Parser", Errors: 2,
			Cost: 0.5, Currency: "USD", Start: at(10), Last: at(100)},
		{Key: key("b"), Agent: "coder", Model: "haiku", Status: "busy", Denied: 1, Cost: 0.25, Start: at(20), Last: at(90),
			HeartbeatNS: beat},
		{Key: key("c"), Agent: "Reviewer", AgentID: "coder", Model: "opus", Status: "error", Start: at(30), Last: at(80),
			Archived: true, Title: "parser, again"},
		{Key: key("d"), Agent: "x' OR '1'='1", Model: "100%_", Status: "waiting_on_approval", Start: at(95), Last: at(96),
			HeartbeatNS: beat, Settled: "error"},
		{Key: key("e"), Status: "aborted", ForkedFrom: "a", Title: "\xff\x00caf\u00e9"},
		{Key: key("f"), Status: "busy", ForkedFrom: "a", Archived: true, Cost: 100, Start: at(-5), Last: at(-1)},
		{Key: session.Key{Tenant: "t", ID: "other"}, Agent: "coder", Model: "opus", Status: "idle", Errors: 1, Denied: 1,
			Cost: 9, ForkedFrom: "a", Start: at(1), Last: at(2), Archived: true},
		{Key: session.Key{Tenant: "u", ID: "part"}, Status: "idle", Parent: "a", Mapped: "1", Part: true},
		{Key: session.Key{Tenant: "u", ID: "mapped"}, Status: "idle", Mapped: "2", Start: at(3), Last: at(-9)},
		{Key: session.Key{Tenant: "far", ID: "1811"}, Status: "busy", HeartbeatNS: beat, Start: at(-5e9), Last: at(-5e9)},
	} {
		projected(t, s, m.Key, m)
		q := store.Query{Tenant: m.Tenant, Prefix: m.ID, Parts: true}
		equal(t, fmt.Sprint("summary ", i), collect(t, s.Sessions(t.Context(), q)),
			[]session.Summary{m})
	}
	put(t, s, []session.Row{Row(key("never coder"), 1)})
	const never = "never coder "
	status := func(now int64, l ...spans.SessionStatus) store.Query { return store.Query{Status: l, Now: at(now)} }
	for _, c := range []struct {
		name string
		q    store.Query
		want string
	}{
		{"all", store.Query{}, never + "a d b c f e"},
		{"without parts", store.Query{Tenant: "u"}, "mapped"},
		{"with parts", store.Query{Tenant: "u", Parts: true}, "mapped part"},
		{"mapped by other rules", store.Query{Tenant: "u", NotMapped: "2", Parts: true}, "part"},
		{"mapped by other rules, without parts", store.Query{Tenant: "u", NotMapped: "1"}, "mapped"},
		{"agent, or its id", store.Query{Agent: "coder"}, "a b c"},
		{"agent, as it is written", store.Query{Agent: "reviewer"}, ""},
		{"agent, quotes", store.Query{Agent: "x' OR '1'='1"}, "d"},
		{"model", store.Query{Model: "opus"}, "a c"},
		{"model is no pattern", store.Query{Model: "%"}, ""},
		{"status, as it was", store.Query{Status: []spans.SessionStatus{"busy"}}, "b f"},
		{"status, at once", status(91, "busy"), "b f"},
		{"status, at three heartbeats", status(90+45, "busy"), "b f"},
		{"status, dead", status(90+46, "busy"), "f"},
		{"status, aborted by now", status(1000, "aborted"), "b e"},
		{"status, what is left", status(1000, "error"), "d c"},
		{"status, of several", status(97, "idle", "waiting_on_approval"), "a d"},
		{"status, dead for centuries", store.Query{Tenant: "far", Status: []spans.SessionStatus{"aborted"},
			Now: time.Unix(0, math.MaxInt64)}, "1811"},
		{"errors", store.Query{Errors: true}, "a"},
		{"denied", store.Query{Denied: true}, "b"},
		{"cost", store.Query{MinCost: 0.25}, "a b f"},
		{"cost above", store.Query{MinCost: 0.2500001}, "a f"},
		{"since", store.Query{Since: at(90)}, "a d b"},
		{"since a nanosecond more", store.Query{Since: at(90).Add(1)}, "a d"},
		{"since before 1970", store.Query{Since: at(-1)}, "a d b c f"},
		{"until", store.Query{Until: at(20)}, "a f e"},
		{"until a nanosecond more", store.Query{Until: at(20).Add(1)}, "a b f e"},
		{"since and until", store.Query{Since: at(85), Until: at(95)}, "a b"},
		{"archived not", store.Query{Archived: store.ArchivedNot}, never + "a d b e"},
		{"archived only", store.Query{Archived: store.ArchivedOnly}, "c f"},
		{"search title", store.Query{Search: "PARSER"}, "a c"},
		{"search agent, id of agent, id", store.Query{Search: "code"}, never + "a b c"},
		{"search model", store.Query{Search: "100%_"}, "d"},
		{"search is no pattern", store.Query{Search: "p%r"}, ""},
		{"search bytes", store.Query{Search: "\xff\x00CAF"}, "e"},
		{"search: other letters as they are", store.Query{Search: "CAF\u00c9"}, ""},
		{"search a part of a character", store.Query{Search: "\xa9"}, "e"},
		{"forks", store.Query{ForkedFrom: "a"}, "f e"},
		{"forks, not archived", store.Query{ForkedFrom: "a", Archived: store.ArchivedNot}, "e"},
		{"forks of another tenant", store.Query{Tenant: "t", ForkedFrom: "a", MinCost: 1}, "other"},
		{"forks of none", store.Query{ForkedFrom: "b"}, ""},
		{"limit counts what matched", store.Query{Model: "opus", Limit: 2}, "a c"},
		{"all at once", store.Query{Agent: "coder", Model: "opus", Status: []spans.SessionStatus{"idle"}, Now: at(5000),
			Errors: true, MinCost: 0.1, Since: at(1), Until: at(2000), Archived: store.ArchivedNot, Search: "fix", Prefix: "a",
			Limit: 5}, "a"},
		{"oldest first", store.Query{Agent: "coder", Oldest: true}, "c b a"},
		{"trace", store.Query{Traces: []session.TraceID{{9}, Row(key("a"), 1).Trace}, Errors: true}, "a"},
	} {
		equal(t, c.name, ids(t, s, c.q), c.want)
		parts := store.Query{Tenant: c.q.Tenant, Prefix: c.q.Prefix, Parts: true}
		for _, m := range collect(t, s.Sessions(t.Context(), parts)) {
			if got, want := c.q.Matches(&m, m.Status != ""), strings.Contains(" "+c.want+" ", " "+m.ID+" "); got != want &&
				c.q.Limit == 0 {
				t.Errorf("%s: Matches says %v of %s", c.name, got, m.ID)
			}
		}
	}
	put(t, s, []session.Row{Row(key("c"), 2)})
	project(t, s, key("c"), store.SummaryUpdate{Revision: mark(t, s, key("c")),
		Summary: session.Summary{Status: "idle", Last: at(80)}})
	equal(t, "no longer archived, nor its title", ids(t, s, store.Query{Archived: store.ArchivedOnly}), "f")
	if err := store.Delete(t.Context(), s, key("f")); err != nil {
		t.Fatal(err)
	}
	equal(t, "deleted", ids(t, s, store.Query{ForkedFrom: "a"}), "e")
}

// linkedTraces asks for sessions by traces that several sessions have rows in, as records of other programs have: one
// session of each trace, which summaries make a part of the session that a record names, and sessions beyond them.
func linkedTraces(t *testing.T, s store.Store) {
	traces := []session.TraceID{{1}, {2}, {3}}
	owner, two, stranger := key("owner"), key("trace 2"), session.Key{Tenant: "t", ID: "owner"}
	add := func(k session.Key, n int, trace session.TraceID) session.SpanID {
		t.Helper()
		r := Row(k, n)
		r.Kind, r.Trace = session.KindForeign, trace
		put(t, s, []session.Row{r})
		return r.Span
	}
	span := add(owner, 1, traces[0])
	add(owner, 2, traces[1])
	add(two, 3, traces[1])
	add(key("trace 3"), 4, traces[2])
	add(stranger, 5, traces[0])
	of := func(list ...session.TraceID) store.Query { return store.Query{Traces: list, Parts: true} }
	equal(t, "each once, whatever traces it shares", ids(t, s, of(traces...)), "owner trace 2 trace 3")
	project(t, s, owner, store.SummaryUpdate{Revision: mark(t, s, owner), Summary: session.Summary{
		Status: "idle", Mapped: "1", Last: time.Unix(9, 0).UTC()}})
	project(t, s, two, store.SummaryUpdate{Revision: mark(t, s, two), Summary: session.Summary{
		Status: "idle", Mapped: "1", Part: true, Parent: owner.ID}})
	without := of(traces...)
	without.Parts = false
	inBoth := store.Query{Traces: traces[:1], Span: span}
	other := store.Query{Traces: traces[1:], Span: span}
	parts := store.Query{Parent: owner.ID, Parts: true}
	for _, c := range []struct {
		name string
		q    store.Query
		want string
	}{
		{"two of them", of(traces[1], traces[0], traces[1]), "owner trace 2"},
		{"without parts", without, "trace 3 owner"},
		{"a span in its trace", inBoth, "owner"},
		{"a span in no row of these traces", other, ""},
		{"a trace of none", of(session.TraceID{9}), ""},
		{"of another owner", store.Query{Tenant: "t", Traces: traces, Parts: true}, "owner"},
		{"parts of the owner", parts, "trace 2"},
		{"in a list, as they were before", store.Query{}, "trace 3 owner"},
	} {
		equal(t, c.name, ids(t, s, c.q), c.want)
	}
	add(two, 6, traces[1])
	equal(t, "a part that grew is stale and stays one", ids(t, s, without)+", "+dirtyKeys(t, s),
		"trace 3 owner, t/owner trace 2 trace 3")
	remove(t, s, two)
	equal(t, "without the part", ids(t, s, of(traces[1])), "owner")
}
