package clickhousestore

import (
	"errors"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// openAt opens a store whose clock is off by some time.
func openAt(t *testing.T, dsn string, off *time.Duration) *Store {
	t.Helper()
	s := must.Get(Open(t.Context(), dsn, func(c *config) { c.now = func() time.Time { return time.Now().Add(*off) } }))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t *testing.T, s store.Store, b session.Batch) {
	t.Helper()
	must.Do(t, s.Put(t.Context(), b))
}

// left returns how many rows of each table there are, of those that it holds any of. Of a deletion that is done a note
// stays.
func left(t *testing.T, s *Store) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for _, table := range tables {
		for _, n := range all(t, each(t.Context(), s, "count", "count()", "FROM "+s.layout.of(table),
			func(r *reader) uint64 { return r.u64() })) {
			if n > 0 {
				out[table.name] = n
			}
		}
	}
	return out
}

// TestSkewedClocks puts from collectors whose clocks are hours apart: each Put moves the mark, and none is behind a
// projection that did not see it.
func TestSkewedClocks(t *testing.T) {
	dsn := fresh(t)
	k := session.Key{ID: "s"}
	var stores []*Store
	for _, off := range []time.Duration{0, 3 * time.Hour, -5 * time.Hour} {
		stores = append(stores, openAt(t, dsn, &off))
	}
	last := store.Revision(0)
	for n := range 12 {
		s := stores[n%3]
		put(t, s, session.Batch{Rows: []session.Row{storetest.Row(k, n)}})
		m := must.Get(stores[(n+1)%3].Revision(t.Context(), k))(t)
		if m <= last {
			t.Fatalf("mark %d after %d", m, last)
		}
		if n > 0 {
			must.Do(t, s.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: last}))
			if d := all(t, s.Sessions(t.Context(), store.Query{AllTenants: true, Stale: true})); len(d) != 1 {
				t.Fatalf("after Put %d and a projection that did not see it: dirty %v", n, d)
			}
		}
		last = m
	}
	must.Do(t, store.Delete(t.Context(), stores[2], k))
	put(t, stores[2], session.Batch{Rows: []session.Row{storetest.Row(k, 1)}}) // five hours before the deletion, it says
	if m, err := stores[0].Revision(t.Context(), k); err != nil || m <= last {
		t.Errorf("mark %d of a session made anew, was %d before: %v", m, last, err)
	}
	if n := len(all(t, stores[1].Rows(t.Context(), k))); n != 1 {
		t.Errorf("%d rows of a session made anew, want 1", n)
	}
}

// TestErased looks into every table after a deletion, and for the id of the session in the notes.
func TestErased(t *testing.T) {
	s := openAt(t, fresh(t), new(time.Duration))
	k := session.Key{Tenant: "t", ID: "the name of the session"}
	live := storetest.Row(k, 2)
	live.Known = spans.KnownLive
	put(t, s, session.Batch{Rows: []session.Row{storetest.Row(k, 1), live},
		Blocks: []session.Block{storetest.Block(k, "own")}})
	m := must.Get(s.Revision(t.Context(), k))(t)
	must.Do(t, s.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: m, Summary: storetest.Summary(k),
		Figures: storetest.FiguresFor(k, 3)}))
	for _, want := range []string{"rows", "blocks", "touches", "summaries", "turns_raw",
		"tool_calls_raw", "compactions_raw", "permission_evaluations_raw"} {
		if left(t, s)[want] == 0 {
			t.Fatalf("nothing in %s: %v", want, left(t, s))
		}
	}
	must.Do(t, store.Delete(t.Context(), s, k))
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got := left(t, s)
		ids := all(t, each(t.Context(), s, "names", "session", "FROM "+s.layout.of(&deletionTable)+" WHERE session != ''",
			func(r *reader) string { return r.str() }))
		if len(got) == 1 && got["deletions"] == 1 && len(ids) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left %v, and names %q", got, ids)
		}
	}
}

// TestLiveRowsCollapse: of all live rows of a span merges keep the one that ends last, in whatever order they came.
func TestLiveRowsCollapse(t *testing.T) {
	s := openAt(t, fresh(t), new(time.Duration))
	k := session.Key{Tenant: "t", ID: "killed"}
	for _, at := range []int64{5, 50, 20} {
		r := storetest.Row(k, 1)
		r.Known, r.End = spans.KnownLive, r.Start+at
		put(t, s, session.Batch{Rows: []session.Row{r}})
	}
	must.Do(t, s.client.exec(t.Context(), "OPTIMIZE TABLE "+s.layout.local(&rowTable)+" FINAL"))
	if n := left(t, s)["rows"]; n != 1 {
		t.Errorf("%d rows in the table, want 1", n)
	}
	if got := all(t, s.Rows(t.Context(), k)); len(got) != 1 || got[0].End != got[0].Start+50 {
		t.Errorf("%d rows, want the one that ends last", len(got))
	}
}

// TestLeftHalfWay notes a deletion and does not do it: nobody sees the session, and the next program finishes it.
func TestLeftHalfWay(t *testing.T) {
	var off time.Duration
	dsn := fresh(t)
	s := openAt(t, dsn, &off)
	k, other := session.Key{ID: "s"}, session.Key{ID: "other"}
	put(t, s, session.Batch{Rows: []session.Row{storetest.Row(k, 1), storetest.Row(other, 2)}})
	must.Get(s.note(t.Context(), k))(t)
	if n := len(all(t, s.Rows(t.Context(), k))); n != 0 || left(t, s)["rows"] != 2 {
		t.Errorf("%d rows seen, tables %v", n, left(t, s))
	}
	put(t, s, session.Batch{Rows: []session.Row{storetest.Row(k, 3)}}) // a new session
	must.Do(t, s.Close())
	off = 2 * leftFor // so that it counts as left
	s = openAt(t, dsn, &off)
	for deadline := time.Now().Add(30 * time.Second); left(t, s)["rows"] != 2 ||
		left(t, s)["touches"] != 2; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not finished: %v", left(t, s))
		}
	}
	got := all(t, s.Rows(t.Context(), k))
	if len(got) != 1 || got[0].Span != storetest.Row(k, 3).Span {
		t.Errorf("%d rows of the new session", len(got))
	}
}

// TestTwice opens one database from several programs at once, and again.
func TestTwice(t *testing.T) {
	dsn := missing(t)
	errs := make(chan error)
	for range 4 {
		go func() {
			s, err := Open(t.Context(), dsn)
			if err == nil {
				err = errors.Join(s.Put(t.Context(), session.Batch{Rows: []session.Row{storetest.Row(session.Key{ID: "s"}, 1)}}),
					s.Close())
			}
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	s := must.Get(OpenReadOnly(t.Context(), dsn))(t)
	defer func() { _ = s.Close() }()
	if n := len(all(t, s.Rows(t.Context(), session.Key{ID: "s"}))); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// TestWildTimes puts rows of all times in one batch: an insert into too many partitions would fail for ever.
func TestWildTimes(t *testing.T) {
	s := openAt(t, fresh(t), new(time.Duration))
	k := session.Key{ID: "s"}
	var b session.Batch
	for n := range 3500 { // a month each, from 1970 to 2262
		r := storetest.Row(k, n)
		r.Start = int64(n) * 2_630_000_000_000_000
		b.Rows = append(b.Rows, r)
	}
	put(t, s, b)
	if n := len(all(t, s.Rows(t.Context(), k))); n != len(b.Rows) {
		t.Errorf("%d rows, want %d", n, len(b.Rows))
	}
}

// TestProjectDeleted deletes a session between the moment at which a projection looks whether it is there and its
// inserts.
func TestProjectDeleted(t *testing.T) {
	s := openAt(t, fresh(t), new(time.Duration))
	k := session.Key{ID: "s"}
	put(t, s, session.Batch{Rows: []session.Row{storetest.Row(k, 1)}})
	m := must.Get(s.Revision(t.Context(), k))(t)
	p := store.SummaryUpdate{Revision: m, Summary: storetest.Summary(k), Figures: storetest.FiguresFor(k, 3)}
	must.Do(t, store.Delete(t.Context(), s, k))
	must.Do(t, s.derive(t.Context(), k, &p))
	if n := len(all(t, s.Figures(t.Context(), store.FigureQuery{}))); n != 0 {
		t.Errorf("figures of %d turns are left of a session that was deleted", n)
	}
	if n := left(t, s)[summaryTable.name]; n != 0 {
		t.Errorf("%d summaries are left", n)
	}
}

var clickhouseBlock = regexp.MustCompile("(?s)```sql clickhouse\n(.*?)```")

// TestDocs runs every statement of stats/README.md for ClickHouse.
func TestDocs(t *testing.T) {
	dsn := fresh(t)
	s := openAt(t, dsn, new(time.Duration))
	k := session.Key{ID: "s"}
	put(t, s, session.Batch{Rows: []session.Row{storetest.Row(k, 1)}})
	m, err := s.Revision(t.Context(), k)
	if err == nil {
		err = s.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: m, Figures: storetest.FiguresFor(k, 3)})
	}
	must.Do(t, err)
	page := must.Get(os.ReadFile("../stats/README.md"))(t)
	s.client.settings.Set("database", s.dsn.Database)
	blocks := clickhouseBlock.FindAllSubmatch(page, -1)
	if len(blocks) < 7 {
		t.Errorf("%d statements in stats/README.md, want 7 or more", len(blocks))
	}
	for _, b := range blocks {
		if text, err := s.client.text(t.Context(), string(b[1])+" FORMAT TabSeparated", nil, nil); err != nil || text == "" {
			t.Errorf("%v: %s\n%s", err, text, b[1])
		}
	}
}
