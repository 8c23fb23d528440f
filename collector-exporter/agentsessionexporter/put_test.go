package agentsessionexporter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// batchOf makes n rows, each of a session of its own; the named ones have what store.CheckBatch refuses.
func batchOf(n int, bad ...int) session.Batch {
	var b session.Batch
	for i := range n {
		b.Rows = append(b.Rows, session.Row{
			Trace: session.TraceID{1}, Span: session.SpanID{byte(i >> 8), byte(i), 1}, Session: session.Key{ID: fmt.Sprint(i)},
			Kind:  session.KindRun,
			Known: spans.KnownObserved,
		})
	}
	for _, i := range bad {
		b.Rows[i].Span = session.SpanID{}
	}
	return b
}

// What no store can keep is refused by itself; the rest is stored.
func TestCheck(t *testing.T) {
	some := func(every, n int) (l []int) {
		for i := 0; i < n; i += every {
			l = append(l, i)
		}
		return l
	}
	for name, bad := range map[string][]int{"none": nil, "one": {17}, "many": some(2, 100), "all": some(1, 100)} {
		var r refused
		good := check(batchOf(100, bad...), &r)
		require.Len(t, good.Rows, 100-len(bad), name)
		require.NoError(t, store.CheckBatch(good))
		require.Len(t, r.rows, len(bad), name)
		require.Equal(t, len(bad) > 0, r.err != nil, name)
	}
	b := batchOf(3)
	b.Rows[1].Attrs = []session.Attr{{Key: "a", Value: session.StringValue(strings.Repeat("x", store.MaxValue))}}
	b.Blocks = []session.Block{{Session: session.Key{ID: "0"}, ID: spans.BlockOf(nil)}, {Session: session.Key{ID: "0"}}}
	var r refused
	good := check(b, &r)
	require.Len(t, good.Rows, 2, "a row above store.MaxValue")
	require.Len(t, good.Blocks, 1, "a block without an id")
	require.Equal(t, 1, r.blockCount())
}
