package storetest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// hugeRows keeps rows of very many and very large attributes, lists and events, small ones, and the largest block.
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

	largest := Block(k, strings.Repeat("b", store.MaxValue))
	put(t, s, nil, largest)
	if got := blocks(t, s, k); len(got) != 1 || got[largest.ID] != largest {
		t.Errorf("a block of %d bytes came back as %d blocks, or as another one", store.MaxValue, len(got))
	}
}
