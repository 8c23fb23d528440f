package storetest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// hostileIDs uses what breaks programs as every name that a row has: each comes back as it was and reaches nothing
// else.
func (u suite) hostileIDs(t *testing.T, s store.Store) {
	hostile := []string{
		"'; DROP TABLE sessions; --", `") OR 1=1 --`, "a' UNION SELECT id FROM sessions --", "{p:String}", "$1", "?1",
		":name", "@x", `\'`, `\x00`, `\N`, "NULL",
		"\x00", "\x00\x00a", "\xff", "\xc3\x28", "\xed\xa0\x80", "\xf4\x90\x80\x80", "new\nline", "tab\there", "\r",
		"\x1b[2J", "\u202eback", "e\u0301", "é",
		"%", "_", "*", "[a]", strings.Repeat("x", 256), strings.Repeat("\xff", 256), strings.Repeat("漢", 85),
		"../../etc/passwd", "0", "1e9", "true", "-0", " a ",
	}
	full := func(tenant, id string) session.Row {
		k := session.Key{Tenant: tenant, ID: id}
		r := Row(k, 1)
		r.Run, r.Service = id, id
		r.Attrs = []session.Attr{{Key: id, Value: session.StringValue(id)},
			{Key: id + "\xff", Value: session.StringsValue([]string{id, ""})}}
		r.Lists = []session.List{{Name: id, Whole: id, Prefix: id, Items: []string{id}}}
		r.Events = []session.Event{{Type: id, Body: id}}
		return r
	}
	summary := func(k session.Key) session.Summary {
		m := Summary(k)
		m.Parent, m.Agent, m.AgentID, m.Model, m.Dialect, m.Status = k.ID, k.ID, k.ID, k.ID, k.ID, spans.SessionStatus(k.ID)
		m.ForkedFrom, m.Title, m.Currency, m.Settled = k.ID, k.ID, k.ID, spans.SessionStatus(k.ID)
		return m
	}
	var keys []session.Key
	untenanted := 0
	for i, id := range hostile {
		tenant := hostile[(i*7+3)%len(hostile)]
		keys = append(keys, session.Key{Tenant: tenant, ID: id})
		if !u.fewer || i%8 == 0 {
			keys = append(keys, session.Key{ID: id})
			untenanted++
		}
	}
	for _, k := range keys {
		put(t, s, []session.Row{full(k.Tenant, k.ID)}, Block(k, k.ID))
		project(t, s, k, store.SummaryUpdate{Revision: mark(t, s, k), Summary: summary(k)})
	}
	for _, k := range keys {
		equal(t, "rows of "+k.ID, rows(t, s, k), canonical([]session.Row{full(k.Tenant, k.ID)}))
		equal(t, "block of "+k.ID, blocks(t, s, k, nil)[spans.BlockOfString(k.ID)], Block(k, k.ID))
		for _, q := range []store.Query{{Tenant: k.Tenant, Prefix: k.ID}, {Tenant: k.Tenant, Parent: k.ID},
			{Tenant: k.Tenant, ForkedFrom: k.ID},
			{Tenant: k.Tenant, Agent: k.ID}, {Tenant: k.Tenant, Model: k.ID}, {Tenant: k.Tenant, Search: k.ID}} {
			found := 0
			for _, m := range collect(t, s.Sessions(t.Context(), q)) {
				if m.Key == k {
					equal(t, "summary of "+k.ID, m, summary(k))
					found++
				} else if q.Parent+q.ForkedFrom+q.Agent+q.Model != "" || q.Search == "" && !strings.HasPrefix(m.ID, k.ID) ||
					!q.Matches(&m, true) || m.Tenant != k.Tenant {
					t.Errorf("a query for %q gave %q", k, m.Key)
				}
			}
			equal(t, fmt.Sprintf("sessions %q by %+v", k, q), found, 1)
		}
	}
	equal(t, "sessions of no tenant", len(collect(t, s.Sessions(t.Context(), store.Query{}))), untenanted)
	for i, k := range keys {
		if !u.fewer || i%4 == 0 {
			remove(t, s, k)
		} else if _, err := s.Delete(t.Context(), store.Deletion{Key: k, Revision: mark(t, s, k)}); err != nil {
			t.Fatal(err)
		}
		gone(t, s, k)
		if i+1 < len(keys) {
			equal(t, "the next one", len(rows(t, s, keys[i+1])), 1)
		}
	}
	equal(t, "left", fmt.Sprint(collect(t, s.Tenants(t.Context()))), "[]")
}

// farTimes keeps rows with every time that a row can name, and which of two wins.
func (u suite) farTimes(t *testing.T, s store.Store) {
	k := key("a")
	times := []int64{0, 1, -1, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1,
		1_700_000_000_000_000_000, math.MaxInt32, math.MaxUint32}
	var list []session.Row
	for i, start := range times {
		for j, end := range times { // also such that end before they start
			r := Row(k, i*len(times)+j)
			r.Start, r.End, r.RunStart, r.Seq, r.EndSeq, r.Turn = start, end, start, end, start, end
			r.Events = []session.Event{{Time: start, Type: "x", Seq: end}}
			list = append(list, r)
		}
	}
	put(t, s, list)
	equal(t, "rows", rows(t, s, k), canonical(list))

	for i, end := range times { // the later end wins, whatever the start
		for j, later := range times {
			if later <= end || u.fewer && (i+j)%4 != 0 {
				continue
			}
			k := key(fmt.Sprintf("%d-%d", i, j))
			a, b := Row(k, 1), Row(k, 1)
			a.Start, a.End, b.Start, b.End = later, end, end, later
			put(t, s, []session.Row{b, a})
			put(t, s, []session.Row{a})
			equal(t, "the later of two", rows(t, s, k), canonical([]session.Row{b}))
		}
	}
}

// hugeRows keeps rows of very many and very large attributes, lists and events, and small ones.
func hugeRows(t *testing.T, s store.Store) {
	k := key("a")
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	many := Row(k, 1)
	many.Attrs = nil
	for i := range n {
		v := session.IntValue(int64(i))
		switch i % 5 {
		case 1:
			v = session.StringValue(fmt.Sprint("value ", i))
		case 2:
			v = session.DoubleValue(math.Float64frombits(uint64(i) << 40))
		case 3:
			v = session.BoolValue(i%2 == 0)
		case 4:
			v = session.StringsValue([]string{"", "\xff\x00", fmt.Sprint(i)})
		}
		many.Attrs = append(many.Attrs, session.Attr{Key: fmt.Sprintf("k%07d", i), Value: v})
	}
	odd := Row(k, 2)
	odd.Attrs = []session.Attr{
		{Key: "", Value: session.StringValue("no key")},
		{Key: "inf", Value: session.DoubleValue(math.Inf(1))}, {Key: "max", Value: session.IntValue(math.MaxInt64)},
		{Key: "min", Value: session.IntValue(math.MinInt64)}, {Key: "nan", Value: session.DoubleValue(math.NaN())},
		{Key: strings.Repeat("x", 70_000), Value: session.StringValue(strings.Repeat("\x00", 70_000))},
	}
	long := Row(k, 3)
	long.Lists, long.Events = nil, nil
	for i := range n / 10 {
		long.Lists = append(long.Lists, session.List{Name: "request", Attempt: int64(i),
			Items: []string{"AAAAAAAAAAA st", "", "\xff"}})
		long.Events = append(long.Events, session.Event{Time: int64(i), Type: "t", Seq: int64(i)})
	}
	list := []session.Row{many, odd, long, Row(k, 5)}
	put(t, s, list)
	if got := rows(t, s, k); fmt.Sprint(got) != fmt.Sprint(canonical(list)) {
		t.Errorf("%d rows came back as %d, or one is not the same", len(list), len(got))
	}
	project(t, s, k, store.SummaryUpdate{Revision: mark(t, s, k), Summary: session.Summary{
		Runs: math.MaxInt64, Turns: math.MinInt64, Usage: session.Usage{Input: math.MaxInt64, Output: -1},
	}})
	equal(t, "a summary of large numbers", collect(t, s.Sessions(t.Context(), store.Query{})), []session.Summary{{
		Key: k, Runs: math.MaxInt64, Turns: math.MinInt64, Usage: session.Usage{Input: math.MaxInt64, Output: -1},
	}})

	big := Row(k, 6)
	big.Attrs = []session.Attr{{Key: "a", Value: session.StringValue(strings.Repeat("v", store.MaxValue+1))}}
	wantErr(t, "a row above MaxValue", s.Put(t.Context(), session.Batch{Rows: []session.Row{Row(k, 7), big}}),
		store.ErrData)
	equal(t, "rows after it", len(rows(t, s, k)), len(list))
}
