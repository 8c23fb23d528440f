// Package storetest is what every store.Store must pass.
package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// An Option is an option of Run.
type Option func(*suite)

// Fewer repeats less often what is repeated to meet chances and races: for stores behind a network, where each call
// takes some 10 ms. No case is left out.
func Fewer() Option { return func(u *suite) { u.fewer = true } }

// suite has the cases that repeat something as methods.
type suite struct{ fewer bool }

// times returns how often to repeat.
func (u suite) times(often, fewer int) int {
	if u.fewer {
		return fewer
	}
	return often
}

// Run runs the suite. open returns a new, empty store each time it is called; the suite closes it. It may call
// t.Parallel when the stores it returns have nothing in common.
func Run(t *testing.T, open func(t *testing.T) store.Store, opts ...Option) {
	var u suite
	for _, o := range opts {
		o(&u)
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s store.Store)
	}{
		{"empty", empty},
		{"all or nothing", allOrNothing},
		{"refuses what cannot be kept", refuses},
		{"big batch", bigBatch},
		{"revisions", revisions},
		{"figures", figures},
		{"sessions by filters", sessionsFilters},
		{"linked traces", linkedTraces},
		{"delete cancelled, then finished", u.deleteCancelled},
		{"delete while it is put to", u.deleteWhilePut},
		{"all by chance", u.byChance},
		{"huge rows", hugeRows},
		{"counts", counts},
		{"sizes", sizes},
		{"iterators left early", u.leftEarly},
		{"calls inside iterators", callsInside},
		{"cancelled", cancelled},
		{"cancelled at any moment, then used", u.cancelledThenUsed},
		{"concurrent", u.concurrent},
		{"closed", closed},
		{"closed while iterating", closedIterating},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			defer func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}()
			c.run(t, s)
		})
	}
}

// Row returns a full row of a session; n makes it unique.
func Row(s session.Key, n int) session.Row {
	r := session.Row{
		Session: s, Run: "run-" + strconv.Itoa(n/10), RunStart: 1_700_000_000_000_000_000, Turn: int64(n % 10),
		Kind:  session.KindTurn,
		Known: spans.KnownObserved, Start: 1_700_000_000_000_000_000 + int64(n)*1000, End: 1_700_000_000_000_000_500 +
			int64(n)*1000,
		Seq: int64(n), EndSeq: int64(n) + 1, Failed: n%7 == 0, Service: "coder",
		Attrs: []session.Attr{
			{Key: string(spans.RequestModelKey), Value: session.StringValue("claude-opus-4-6")},
			{Key: string(spans.UsageInputKey), Value: session.IntValue(1234)},
			{Key: string(spans.UsageOutputKey), Value: session.IntValue(56)},
			{Key: "z.strings", Value: session.StringsValue([]string{"a", ""})},
		},
		Lists:  []session.List{{Name: "request", Count: 1, Whole: "digest", Items: []string{"AAAAAAAAAAA st"}}},
		Events: []session.Event{{Time: 1, Type: "Mystery", Body: "BBBBBBBBBBB", Seq: 2}},
	}
	sortAttrs(r.Attrs)
	id := spans.BlockOfString(fmt.Sprint("span ", n))
	r.Span = session.SpanID(id[:8])
	id = spans.BlockOfString(fmt.Sprint("trace ", n/100))
	r.Trace = session.TraceID(id[:16])
	return r
}

func sortAttrs(l []session.Attr) {
	slices.SortFunc(l, func(a, b session.Attr) int { return strings.Compare(a.Key, b.Key) })
}

// Block returns a whole block of a session.
func Block(s session.Key, body string) session.Block {
	return session.Block{Session: s, ID: spans.BlockOfString(body), Body: body}
}

func key(id string) session.Key { return session.Key{ID: id} }

func put(t *testing.T, s store.Store, rows []session.Row, blocks ...session.Block) {
	t.Helper()
	if err := s.Put(t.Context(), session.Batch{Rows: rows, Blocks: blocks}); err != nil {
		t.Fatalf("Put: %v", err)
	}
}

func collect[T any](t *testing.T, seq func(func(T, error) bool)) []T {
	t.Helper()
	var out []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// rows returns the canonical bytes of the rows of a session, sorted.
func rows(t *testing.T, s store.Store, k session.Key) []string {
	t.Helper()
	return canonical(collect(t, s.Rows(t.Context(), k)))
}

func canonical(rows []session.Row) []string {
	var out []string
	for i := range rows {
		out = append(out, string(rows[i].AppendCanonical(nil)))
	}
	slices.Sort(out)
	return out
}

func blocks(t *testing.T, s store.Store, k session.Key) map[spans.BlockID]session.Block {
	t.Helper()
	out := map[spans.BlockID]session.Block{}
	for _, b := range collect(t, s.Blocks(t.Context(), k)) {
		if _, ok := out[b.ID]; ok {
			t.Errorf("block %s came twice", b.ID)
		}
		out[b.ID] = b
	}
	return out
}

func ids(t *testing.T, s store.Store, q store.Query) string {
	t.Helper()
	var out []string
	for _, m := range collect(t, s.Sessions(t.Context(), q)) {
		if m.Tenant != q.Tenant {
			t.Errorf("session of tenant %q, want %q", m.Tenant, q.Tenant)
		}
		out = append(out, m.ID)
	}
	return strings.Join(out, " ")
}

func dirtyKeys(t *testing.T, s store.Store) string {
	t.Helper()
	var out []string
	for _, m := range collect(t, s.Sessions(t.Context(), store.Query{AllTenants: true, Stale: true})) {
		k := m.Key
		out = append(out, strings.TrimPrefix(k.Tenant+"/"+k.ID, "/"))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func mark(t *testing.T, s store.Store, k session.Key) store.Revision {
	t.Helper()
	m, err := s.Revision(t.Context(), k)
	if err != nil {
		t.Fatalf("Revision: %v", err)
	}
	return m
}

func project(t *testing.T, s store.Store, k session.Key, p store.SummaryUpdate) {
	t.Helper()
	if err := s.SetSummary(t.Context(), k, p); err != nil {
		t.Fatalf("SetSummary: %v", err)
	}
}

// summary returns what Sessions yields of a session; false when it does not.
func summary(t *testing.T, s store.Store, k session.Key) (session.Summary, bool) {
	t.Helper()
	for _, m := range collect(t, s.Sessions(t.Context(), store.Query{Tenant: k.Tenant, Prefix: k.ID})) {
		if m.Key == k {
			return m, true
		}
	}
	return session.Summary{}, false
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want); g != w {
		t.Errorf("%s\n got %s\nwant %s", what, g, w)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want one that is %v", what, err, want)
	}
}

func empty(t *testing.T, s store.Store) {
	k := key("none")
	if n := len(rows(t, s, k)) + len(blocks(t, s, k)) + len(ids(t, s, store.Query{})) + len(dirtyKeys(t, s)); n != 0 {
		t.Errorf("an empty store gave %d entries", n)
	}
	_, err := s.Revision(t.Context(), k)
	wantErr(t, "Revision", err, store.ErrNotFound)
	wantErr(t, "SetSummary", s.SetSummary(t.Context(), k, store.SummaryUpdate{}), store.ErrNotFound)
	if err := store.Delete(t.Context(), s, k); err != nil {
		t.Errorf("Delete: %v", err)
	}
	put(t, s, nil)
	if got := ids(t, s, store.Query{}) + dirtyKeys(t, s); got != "" {
		t.Errorf("asking made sessions: %q", got)
	}
}

func allOrNothing(t *testing.T, s store.Store) {
	put(t, s, []session.Row{Row(key("a"), 1)})
	project(t, s, key("a"), store.SummaryUpdate{Revision: mark(t, s, key("a"))})
	bad := Row(key("a"), 3)
	bad.Session.ID = ""
	err := s.Put(t.Context(), session.Batch{
		Rows:   []session.Row{Row(key("a"), 2), Row(key("b"), 1), bad},
		Blocks: []session.Block{Block(key("a"), "x")},
	})
	wantErr(t, "Put", err, store.ErrData)
	equal(t, "rows", rows(t, s, key("a")), canonical([]session.Row{Row(key("a"), 1)}))
	equal(t, "sessions", ids(t, s, store.Query{}), "a")
	equal(t, "dirty", dirtyKeys(t, s), "")
	if n := len(blocks(t, s, key("a"))); n != 0 {
		t.Errorf("%d blocks of a batch that failed", n)
	}
}

func refuses(t *testing.T, s store.Store) {
	k := key("a")
	row := func(f func(*session.Row)) session.Batch {
		r := Row(k, 1)
		f(&r)
		return session.Batch{Rows: []session.Row{r}}
	}
	block := func(f func(*session.Block)) session.Batch {
		b := Block(k, "x")
		f(&b)
		return session.Batch{Blocks: []session.Block{b}}
	}
	for name, b := range map[string]session.Batch{
		"row without session":  row(func(r *session.Row) { r.Session.ID = "" }),
		"row without trace":    row(func(r *session.Row) { r.Trace = session.TraceID{} }),
		"row without span":     row(func(r *session.Row) { r.Span = session.SpanID{} }),
		"unknown kind":         row(func(r *session.Row) { r.Kind = session.KindForeign + 1 }),
		"attributes unordered": row(func(r *session.Row) { r.Attrs = []session.Attr{{Key: "b"}, {Key: "a"}} }),
		"attribute twice":      row(func(r *session.Row) { r.Attrs = []session.Attr{{Key: "a"}, {Key: "a"}} }),
		"block without id":     block(func(b *session.Block) { b.ID = spans.BlockID{} }),
		"block of no session":  block(func(b *session.Block) { b.Session.ID = "" }),
		"negative size":        block(func(b *session.Block) { b.Size = -1 }),
		"body too large":       block(func(b *session.Block) { b.Body = strings.Repeat("x", store.MaxValue+1) }),
	} {
		wantErr(t, name, s.Put(t.Context(), b), store.ErrData)
	}
	equal(t, "sessions", ids(t, s, store.Query{}), "")
}

func bigBatch(t *testing.T, s store.Store) {
	k := key("a")
	var list []session.Row
	var bl []session.Block
	for n := range 5000 {
		list = append(list, Row(k, n))
		bl = append(bl, Block(k, fmt.Sprint("block ", n)))
	}
	zero := session.Row{Session: k, Trace: session.TraceID{1}, Span: session.SpanID{2}} // all else zero
	run := Row(k, 5001)
	run.Kind, run.Turn, run.Parent = session.KindRun, session.NoTurn, session.SpanID{1}
	big := Row(k, 5000)
	big.Attrs = append(slices.Clone(big.Attrs), session.Attr{Key: "zz",
		Value: session.StringValue(strings.Repeat("v", 2<<20))})
	list = append(list, big, zero, run)
	bl = append(bl, Block(k, strings.Repeat("w", 5<<20)), Block(k, ""), Block(k, "\xff\x00 not text"))
	put(t, s, list, bl...)
	if got, want := rows(t, s, k), canonical(list); !slices.Equal(got, want) {
		t.Errorf("%d rows came back as %d", len(want), len(got))
	}
	got := blocks(t, s, k)
	for _, b := range bl {
		if got[b.ID] != b {
			t.Fatalf("block of %d bytes is not the same", len(b.Body))
		}
	}
}
