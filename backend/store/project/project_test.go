package project

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(id string) session.Key { return session.Key{ID: id} }

// row returns the span of a run, or of a turn when kind says so.
func row(id string, n byte, kind session.Kind) session.Row {
	r := session.Row{
		Trace: session.TraceID{1}, Span: session.SpanID{n}, Session: key(id), Run: "r", RunStart: 1000, Turn: session.NoTurn,
		Kind: kind, Known: spans.KnownObserved, Start: 1000, End: 2000,
	}
	if kind == session.KindTurn {
		r.Turn = int64(n)
	}
	return r
}

// recorder counts projections and fails them on demand.
type recorder struct {
	store.Store
	projections atomic.Int64
	fail        atomic.Pointer[error]
}

func (r *recorder) SetSummary(ctx context.Context, k session.Key, p store.SummaryUpdate) error {
	if err := r.fail.Load(); err != nil {
		return *err
	}
	r.projections.Add(1)
	return r.Store.SetSummary(ctx, k, p)
}

func put(t *testing.T, st store.Store, rows ...session.Row) session.Batch {
	t.Helper()
	b := session.Batch{Rows: rows}
	must.Do(t, st.Put(t.Context(), b))
	return b
}

func dirty(t *testing.T, st store.Store) int {
	t.Helper()
	return len(must.Get(store.Stale(t.Context(), st))(t))
}

// bubble runs f with a store and a worker in a synctest bubble.
func bubble(t *testing.T, f func(t *testing.T, st *recorder, w *Worker)) {
	synctest.Test(t, func(t *testing.T) {
		st := &recorder{Store: memstore.New()}
		w := NewWorker(st, nil)
		defer func() {
			if err := w.Close(context.Background()); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		synctest.Wait()
		f(t, st, w)
	})
}

func (r *recorder) want(t *testing.T, when string, n int64) {
	t.Helper()
	synctest.Wait()
	if got := r.projections.Load(); got != n {
		t.Errorf("%s: %d projections, want %d", when, got, n)
	}
}

func TestQuiet(t *testing.T) {
	bubble(t, func(t *testing.T, st *recorder, w *Worker) {
		put(t, st, row("a", 1, session.KindTurn))
		for range 5 {
			w.TouchBatch(session.Batch{Rows: []session.Row{row("a", 1, session.KindTurn)}})
			time.Sleep(DefaultQuiet / 2)
		}
		st.want(t, "while touched", 0)
		time.Sleep(DefaultQuiet)
		st.want(t, "after a quiet time", 1)
		time.Sleep(time.Hour)
		st.want(t, "much later", 1)
	})
}

func TestMaxLag(t *testing.T) {
	bubble(t, func(t *testing.T, st *recorder, w *Worker) {
		put(t, st, row("a", 1, session.KindTurn))
		for range 65 {
			w.TouchBatch(session.Batch{Rows: []session.Row{row("a", 1, session.KindTurn)}})
			time.Sleep(time.Second)
		}
		st.want(t, "touched for 65 s", 2)
	})
}

func TestRunEnd(t *testing.T) {
	bubble(t, func(t *testing.T, st *recorder, w *Worker) {
		live := row("a", 1, session.KindRun)
		live.Known = spans.KnownLive
		w.TouchBatch(put(t, st, row("a", 2, session.KindTurn), live))
		st.want(t, "before the end", 0)
		w.TouchBatch(put(t, st, row("a", 1, session.KindRun), row("a", 3, session.KindTurn)))
		time.Sleep(DefaultQuiet / 4)
		st.want(t, "at the end of a run", 1)
	})
}

// rotten fails to give the rows of some sessions, and counts how often it was asked for them.
type rotten struct {
	store.Store
	bad   map[session.Key]error
	asked atomic.Int64
}

func (r *rotten) Rows(ctx context.Context, k session.Key) iter.Seq2[session.Row, error] {
	err := r.bad[k]
	if err == nil {
		return r.Store.Rows(ctx, k)
	}
	r.asked.Add(1)
	return func(yield func(session.Row, error) bool) { yield(session.Row{}, err) }
}

func (r *rotten) want(t *testing.T, when string, n int64) {
	t.Helper()
	synctest.Wait()
	if got := r.asked.Load(); got != n {
		t.Errorf("%s: read %d times, want %d", when, got, n)
	}
}

// TestBadData tries a session whose data is bad once, and again when it is touched.
func TestBadData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &rotten{Store: memstore.New(), bad: map[session.Key]error{key("bad"): fmt.Errorf("pack 7: %w", store.ErrData)}}
		var reported atomic.Int64
		w := NewWorker(st, func(err error) {
			reported.Add(1)
			if !errors.Is(err, store.ErrData) || !strings.Contains(err.Error(), `"bad"`) {
				t.Errorf("reported %v", err)
			}
		})
		synctest.Wait()
		w.TouchBatch(put(t, st, row("bad", 1, session.KindRun), row("good", 1, session.KindRun)))
		time.Sleep(time.Hour)
		st.want(t, "an hour later", 1)
		if n := dirty(t, st); n != 1 {
			t.Errorf("%d dirty, want the bad one", n)
		}
		w.TouchBatch(put(t, st, row("bad", 2, session.KindTurn)))
		time.Sleep(time.Hour)
		st.want(t, "touched", 2)
		if reported.Load() != 2 {
			t.Errorf("reported %d errors, want 2", reported.Load())
		}
		put(t, st, row("last", 1, session.KindRun))
		err := w.Close(t.Context())
		if !errors.Is(err, store.ErrData) || !strings.Contains(err.Error(), `"bad"`) {
			t.Errorf("Close: %v, want one that names the bad session", err)
		}
		if n := dirty(t, st); n != 1 {
			t.Errorf("%d dirty after Close, want the bad one alone", n)
		}
	})
}

// TestBackOff tries a session that fails for another reason less and less often.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &rotten{Store: memstore.New(), bad: map[session.Key]error{key("a"): errors.New("disk")}}
		w := NewWorker(st, nil)
		synctest.Wait()
		w.TouchBatch(put(t, st, row("a", 1, session.KindRun)))
		// At 0, 10, 30, 70, 150, 310, 630 s, then every 600 s; each a little later.
		time.Sleep(DefaultQuiet)
		st.want(t, "at first", 1)
		time.Sleep(5 * time.Minute)
		st.want(t, "after 5 min", 5)
		time.Sleep(2 * time.Hour)
		if n := st.asked.Load(); n < 16 || n > 19 {
			t.Errorf("read %d times in two hours, want about 18", n)
		}
		before := st.asked.Load()
		w.TouchBatch(put(t, st, row("a", 1, session.KindRun)))
		time.Sleep(DefaultQuiet)
		st.want(t, "touched", before+1)
		if err := w.Close(t.Context()); err == nil {
			t.Error("Close returned no error of a session that fails")
		}
	})
}

// guided keeps the tables of the agent guide as far as projections of one session make another one stale.
type guided struct {
	recorder
	stale map[session.Key]string
}

func (g *guided) ChatTables() bool { return true }

func (g *guided) ProjectChat(ctx context.Context, k session.Key, _ store.Revision,
	_ iter.Seq2[export.Row, error]) error {
	if other := g.stale[k]; other != "" {
		return g.Put(ctx, session.Batch{Rows: []session.Row{row(other, 1, session.KindRun)}})
	}
	return nil
}

func (g *guided) CallMessage(context.Context, string, string) (string, error) { return "", nil }

// A worker projects a sub-agent once more after its parent, whose message its rows name, and ends there.
func TestSpawned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &guided{recorder: recorder{Store: memstore.New()}, stale: map[session.Key]string{}}
		w := NewWorker(st, nil)
		synctest.Wait()
		child, parent := row("child", 1, session.KindRun), row("parent", 1, session.KindRun)
		for r, of := range map[*session.Row]string{&child: "parent", &parent: "child"} { // hostile: of each other
			r.Attrs = []session.Attr{{Key: string(spans.RunParentSessionIDKey), Value: session.StringValue(of)}}
		}
		w.TouchBatch(put(t, st, child))
		time.Sleep(DefaultQuiet)
		st.want(t, "the child", 1)
		st.stale = map[session.Key]string{key("parent"): "child", key("child"): "parent"}
		w.TouchBatch(put(t, st, parent))
		time.Sleep(DefaultMaxLag + DefaultQuiet)
		st.want(t, "the parent, and the child again", 3)
		time.Sleep(time.Hour)
		st.want(t, "an hour later", 3)
		st.stale = nil
		must.Do(t, w.Close(t.Context()))
	})
}

// away fails to list sessions for a time.
type away struct {
	store.Store
	until time.Time
}

func (a *away) Sessions(ctx context.Context, q store.Query) iter.Seq2[session.Summary, error] {
	if time.Now().After(a.until) {
		return a.Store.Sessions(ctx, q)
	}
	return func(yield func(session.Summary, error) bool) { yield(session.Summary{}, errors.New("away")) }
}

// Sessions that other rules mapped are projected too where the store is away at first.
func TestMappedBeforeAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &recorder{Store: &away{memstore.New(), time.Now().Add(time.Minute)}}
		put(t, st, row("old", 1, session.KindRun))
		mark := must.Get(st.Revision(t.Context(), key("old")))(t)
		u := store.SummaryUpdate{Revision: mark, Summary: session.Summary{Status: "idle", Mapped: "rules of before"}}
		must.Do(t, st.SetSummary(t.Context(), key("old"), u))
		w := NewWorker(st, nil)
		time.Sleep(time.Hour)
		st.want(t, "an hour later", 2)
		must.Do(t, w.Close(t.Context()))
	})
}

// A session of which only content for facts came is as old as its last row.
func TestLastWithoutRuns(t *testing.T) {
	st := memstore.New()
	r := row("a", 1, session.KindPayload)
	r.Run, r.RunStart = "", 0
	put(t, st, r)
	must.Do(t, Session(t.Context(), st, key("a")))
	for s, err := range st.Sessions(t.Context(), store.Query{}) {
		if err != nil || !s.Last.Equal(time.Unix(0, r.End)) {
			t.Errorf("last seen at %v, %v", s.Last, err)
		}
	}
}

func TestBounded(t *testing.T) {
	bubble(t, func(t *testing.T, st *recorder, w *Worker) {
		var rows []session.Row
		for n := range maxPending + 500 {
			rows = append(rows, row(fmt.Sprint(n), 1, session.KindTurn))
		}
		w.TouchBatch(put(t, st, rows...))
		w.mu.Lock()
		if n := len(w.pending); n > maxPending {
			t.Errorf("%d pending, at most %d", n, maxPending)
		}
		w.mu.Unlock()
		time.Sleep(DefaultQuiet * 3)
		st.want(t, "more sessions than are remembered", maxPending+500)
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &recorder{Store: memstore.New()}
		w := NewWorker(st, nil)
		synctest.Wait()
		w.TouchBatch(put(t, st, row("touched", 1, session.KindTurn)))
		put(t, st, row("not touched", 1, session.KindTurn))
		for range 2 {
			must.Do(t, w.Close(t.Context()))
		}
		if n := dirty(t, st); n != 0 {
			t.Errorf("%d dirty after Close", n)
		}
		w.TouchBatch(session.Batch{Rows: []session.Row{row("x", 1, session.KindRun)}})
	})
}

// The title follows the first message, whatever order the runs come in.
func TestTitleOfAnEarlierRun(t *testing.T) {
	st := memstore.New()
	for _, said := range []struct {
		text  string
		start int64
	}{{"second", 2000}, {"first", 1000}} {
		block := session.Block{Session: key("s"), Body: fmt.Sprintf(`{"role":"user","content":%q}`, said.text)}
		block.ID = spans.BlockOfString(block.Body)
		r := row("s", byte(said.start/1000), session.KindTurn)
		r.Run, r.RunStart, r.Start, r.End, r.Turn = said.text, said.start, said.start, said.start+1, 0
		r.Lists = []session.List{{Name: spans.ListInput, Count: 1, Items: []string{block.ID.Short().String()}}}
		must.Do(t, st.Put(t.Context(), session.Batch{Rows: []session.Row{r}, Blocks: []session.Block{block}}))
		must.Do(t, Session(t.Context(), st, key("s")))
		for s, err := range st.Sessions(t.Context(), store.Query{}) {
			if err != nil || s.Title != said.text {
				t.Errorf("the title is %q (%v), want %q", s.Title, err, said.text)
			}
		}
	}
}
