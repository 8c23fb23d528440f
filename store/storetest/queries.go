package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/store"
)

// projected puts a session and projects it with that summary.
func projected(t *testing.T, s store.Store, k session.Key, m session.Summary) {
	t.Helper()
	put(t, s, []session.Row{Row(k, 1)})
	project(t, s, k, store.Projection{Mark: mark(t, s, k), Summary: m})
}

func tenants(t *testing.T, s store.Store) {
	list := func() string { return fmt.Sprintf("%q", collect(t, s.Tenants(t.Context()))) }
	equal(t, "of an empty store", list(), `[]`)
	for i, tenant := range []string{"b", "a", "", "b", "a'; --", "\xff", "a\x00", strings.Repeat("t", 256)} {
		put(t, s, []session.Row{Row(session.Key{Tenant: tenant, ID: fmt.Sprint("s", i)}, i)})
	}
	put(t, s, nil, Block(session.Key{Tenant: "blocks only", ID: "s"}, "x"))
	long := strings.Repeat("t", 256)
	equal(t, "in order, each once", list(), fmt.Sprintf("%q", []string{"", "a", "a\x00", "a'; --", "b", "blocks only", long, "\xff"}))
	for _, k := range []session.Key{{Tenant: "b", ID: "s0"}, {Tenant: "\xff", ID: "s5"}, {Tenant: "a", ID: "s1"}, {Tenant: "", ID: "s2"}} {
		if err := s.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "those that have a session left", list(), fmt.Sprintf("%q", []string{"a\x00", "a'; --", "b", "blocks only", long}))
	for _, err := range s.Tenants(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.Tenants(ctx) {
		wantErr(t, "Tenants", err, context.Canceled)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range s.Tenants(t.Context()) {
		n++
		wantErr(t, "Tenants of a closed store", err, store.ErrClosed)
	}
	equal(t, "errors of a closed store", n, 1)
}

func sessionsParent(t *testing.T, s store.Store) {
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	for i, c := range []struct{ id, parent string }{
		{"p", ""}, {"c1", "p"}, {"c2", "p"}, {"g", "c1"}, {"self", "self"}, {"q1", "x' OR '1'='1"}, {"orphan", "not there"},
	} {
		projected(t, s, key(c.id), session.Summary{Parent: c.parent, Last: at(int64(i))})
	}
	projected(t, s, session.Key{Tenant: "t", ID: "c3"}, session.Summary{Parent: "p", Last: at(9)})
	put(t, s, []session.Row{Row(key("never projected"), 1)})
	for _, q := range []struct {
		name string
		q    store.Query
		want string
	}{
		{"of one", store.Query{Parent: "p"}, "c2 c1"},
		{"of one, oldest first", store.Query{Parent: "p", Oldest: true}, "c1 c2"},
		{"limit", store.Query{Parent: "p", Limit: 1}, "c2"},
		{"prefix", store.Query{Parent: "p", Prefix: "c1"}, "c1"},
		{"before", store.Query{Parent: "p", Before: at(2)}, "c1"},
		{"of another tenant", store.Query{Tenant: "t", Parent: "p"}, "c3"},
		{"of a sub-agent", store.Query{Parent: "c1"}, "g"},
		{"of itself", store.Query{Parent: "self"}, "self"},
		{"of one that is not there", store.Query{Parent: "not there"}, "orphan"},
		{"of none", store.Query{Parent: "g"}, ""},
		{"a part of a name", store.Query{Parent: "not"}, ""},
		{"quotes", store.Query{Parent: "x' OR '1'='1"}, "q1"},
		{"trace", store.Query{Parent: "p", Trace: Row(key("c1"), 1).Trace, Limit: 9}, "c2 c1"},
	} {
		equal(t, q.name, ids(t, s, q.q), q.want)
	}
	// The latest projection counts.
	put(t, s, []session.Row{Row(key("c1"), 2)})
	equal(t, "a Put changes no parent", ids(t, s, store.Query{Parent: "p"}), "c2 c1")
	project(t, s, key("c1"), store.Projection{Mark: mark(t, s, key("c1")), Summary: session.Summary{Parent: "other", Last: at(1)}})
	equal(t, "projected anew", ids(t, s, store.Query{Parent: "p"}), "c2")
	equal(t, "projected anew, the other", ids(t, s, store.Query{Parent: "other"}), "c1")
	if err := s.Delete(t.Context(), key("c2")); err != nil {
		t.Fatal(err)
	}
	equal(t, "deleted", ids(t, s, store.Query{Parent: "p"}), "")
	put(t, s, []session.Row{Row(key("c2"), 1)})
	equal(t, "put again, not projected", ids(t, s, store.Query{Parent: "p"}), "")

	for _, parent := range []string{"a\x00b", "\xff", "new\nline", strings.Repeat("p", 256), "%", `"`} {
		k := key("child of " + parent)
		projected(t, s, k, session.Summary{Parent: parent})
		got := collect(t, s.Sessions(t.Context(), store.Query{Parent: parent}))
		equal(t, "parent "+parent, got, []session.Summary{{Key: k, Parent: parent}})
	}
}

// farTime is the last moment that a row can name.
var farTime = time.Unix(0, math.MaxInt64).UTC()

func sessionsBefore(t *testing.T, s store.Store) {
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	for id, last := range map[string]time.Time{
		"e": {}, "d": at(-5), "c": at(0), "b": at(10), "b2": at(10), "a": at(20), "zfar": farTime,
	} {
		projected(t, s, key(id), session.Summary{Last: last})
	}
	projected(t, s, session.Key{Tenant: "t", ID: "other"}, session.Summary{Last: at(1)})
	put(t, s, []session.Row{Row(key("never"), 1)})
	const all, oldest = "never zfar a b b2 c d e", "e d c b2 b a zfar never"
	for _, q := range []struct {
		name string
		q    store.Query
		want string
	}{
		{"all", store.Query{}, all},
		{"oldest first", store.Query{Oldest: true}, oldest},
		{"oldest first, limit", store.Query{Oldest: true, Limit: 3}, "e d c"},
		{"oldest first, limit above", store.Query{Oldest: true, Limit: 30}, oldest},
		{"oldest first, prefix", store.Query{Oldest: true, Prefix: "b"}, "b2 b"},
		{"before", store.Query{Before: at(20)}, "b b2 c d e"},
		{"before is not at", store.Query{Before: at(10)}, "c d e"},
		{"before a nanosecond more", store.Query{Before: at(10).Add(1)}, "b b2 c d e"},
		{"before, oldest first, limit", store.Query{Before: at(20), Oldest: true, Limit: 4}, "e d c b2"},
		{"before, prefix", store.Query{Before: at(20), Prefix: "b2"}, "b2"},
		{"before 1970", store.Query{Before: at(0)}, "d e"},
		{"before all", store.Query{Before: at(-1000)}, "e"},
		{"never those that were not projected", store.Query{Before: farTime}, "a b b2 c d e"},
		{"another zone", store.Query{Before: at(10).In(time.FixedZone("", 3600))}, "c d e"},
		{"another tenant", store.Query{Tenant: "t", Before: at(20)}, "other"},
		{"another tenant, nothing", store.Query{Tenant: "t", Before: at(1)}, ""},
		{"trace", store.Query{Before: at(0), Trace: Row(key("d"), 1).Trace}, "d e"},
	} {
		equal(t, q.name, ids(t, s, q.q), q.want)
	}
	put(t, s, []session.Row{Row(key("d"), 2)})
	equal(t, "a Put changes no time", ids(t, s, store.Query{Before: at(0)}), "d e")
	project(t, s, key("d"), store.Projection{Mark: mark(t, s, key("d")), Summary: session.Summary{Last: at(30)}})
	equal(t, "a projection does", ids(t, s, store.Query{Before: at(0)}), "e")

	// As Apply of package retention goes: a page, delete it, the next page.
	var gone []string
	for range 20 {
		page := collect(t, s.Sessions(t.Context(), store.Query{Before: at(25), Oldest: true, Limit: 2}))
		if len(page) == 0 {
			break
		}
		for _, m := range page {
			gone = append(gone, m.ID)
			if err := s.Delete(t.Context(), m.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	equal(t, "page by page", strings.Join(gone, " "), "e c b2 b a")
	equal(t, "left", ids(t, s, store.Query{}), "never zfar d")
}

// summaryTimes holds the times of summaries to the nanosecond, at the ends of what a row can name too.
func summaryTimes(t *testing.T, s store.Store) {
	for i, at := range []time.Time{
		{}, time.Unix(0, 0), time.Unix(0, 1), time.Unix(0, -1), farTime, time.Unix(0, math.MinInt64+1),
		time.Date(2262, 4, 11, 23, 47, 16, 854775807, time.UTC), time.Date(1970, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)),
	} {
		k := key(fmt.Sprint("s", i))
		projected(t, s, k, session.Summary{Start: at, Last: at})
		for _, m := range collect(t, s.Sessions(t.Context(), store.Query{Prefix: k.ID})) {
			if !m.Start.Equal(at) || !m.Last.Equal(at) || at.IsZero() != m.Last.IsZero() || m.Last.Location() != time.UTC {
				t.Errorf("time %v came back as %v and %v", at, m.Start, m.Last)
			}
		}
	}
}
