package retention_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/retention"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// each runs f on every kind of store.
func each(t *testing.T, f func(t *testing.T, st store.Store)) {
	t.Run("memory", func(t *testing.T) { f(t, memstore.New()) })
	t.Run("sqlite", func(t *testing.T) {
		st := must.Get(sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "s.db")))(t)
		defer func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(t, st)
	})
}

// hours is a moment of so many hours before now.
func hours(n int) time.Time { return now.Add(-time.Duration(n) * time.Hour) }

// row returns a run of a session that ended at that time, n makes it another one.
func row(k session.Key, n byte, end time.Time, parent string) session.Row {
	r := session.Row{
		Trace: session.TraceID{1}, Span: session.SpanID{1, n}, Session: k, Run: fmt.Sprint("r", n),
		RunStart: end.UnixNano() - 1000, Turn: session.NoTurn,
		Kind: session.KindRun, Known: spans.KnownObserved, Start: end.UnixNano() - 1000, End: end.UnixNano(),
	}
	if parent != "" {
		r.Attrs = []session.Attr{{Key: string(spans.RunParentSessionIDKey), Value: session.StringValue(parent)}}
	}
	return r
}

func put(t *testing.T, st store.Store, rows ...session.Row) {
	t.Helper()
	must.Do(t, st.Put(t.Context(), session.Batch{Rows: rows}))
}

// add puts a session that ended at that time, and projects it.
func add(t *testing.T, st store.Store, k session.Key, end time.Time, parent string) {
	t.Helper()
	put(t, st, row(k, 1, end, parent))
	must.Do(t, project.Session(t.Context(), st, k))
}

func key(id string) session.Key { return session.Key{ID: id} }

// left returns what sessions there are, of all tenants.
func left(t *testing.T, st store.Store) string {
	t.Helper()
	var out []string
	for tenant, err := range st.Tenants(t.Context()) {
		must.Do(t, err)
		for s, err := range st.Sessions(t.Context(), store.Query{Tenant: tenant}) {
			must.Do(t, err)
			out = append(out, strings.TrimPrefix(s.Tenant+"/"+s.ID, "/"))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func apply(t *testing.T, st store.Store, p retention.Policy) retention.Result {
	t.Helper()
	r := must.Get(retention.Apply(t.Context(), st, now, p))(t)
	if r.Sessions != r.ByAge+r.BySessions+r.ByBytes {
		t.Errorf("%+v does not add up", r)
	}
	return r
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestSessions(t *testing.T) {
	each(t, func(t *testing.T, st store.Store) {
		for n := range 6 {
			add(t, st, key(fmt.Sprint("s", n)), hours(n), "")
		}
		add(t, st, session.Key{Tenant: "t", ID: "old"}, hours(1000), "")
		put(t, st, row(key("never"), 1, hours(1000), ""))
		want(t, "result", apply(t, st, retention.Policy{MaxSessions: 4}), retention.Result{Sessions: 3, BySessions: 3})
		want(t, "the newest of each tenant, one never projected is as old as its rows", left(t, st), "s0 s1 s2 s3 t/old")

		// What says to be from the future, and is not just a clock that is a bit fast, does not push out the others.
		apply(t, st, retention.Policy{MaxSessions: 100})
		for n := range 3 {
			add(t, st, key(fmt.Sprint("future", n)), now.Add(25*time.Hour*time.Duration(1+n)), "")
		}
		add(t, st, key("soon"), now.Add(23*time.Hour), "")
		want(t, "result", apply(t, st, retention.Policy{MaxSessions: 6}), retention.Result{Sessions: 2, BySessions: 2})
		want(t, "the future went first", strings.Count(left(t, st), "future"), 1)
		apply(t, st, retention.Policy{MaxSessions: 2})
		want(t, "left", left(t, st), "s0 soon t/old")
	})
}

func TestBytes(t *testing.T) {
	each(t, func(t *testing.T, st store.Store) {
		src := rand.NewChaCha8([32]byte{1})
		for n := range 12 {
			k := session.Key{Tenant: []string{"", "a", "b"}[n%3], ID: fmt.Sprintf("s%02d", n)}
			body := make([]byte, 200_000)
			_, _ = src.Read(body)
			must.Do(t, st.Put(t.Context(), session.Batch{Blocks: []session.Block{{Session: k, ID: spans.BlockOf(body),
				Body: string(body)}}}))
			add(t, st, k, hours(n), "")
		}
		for limit := int64(2_100_000); limit > 500_000; limit -= 400_000 {
			apply(t, st, retention.Policy{MaxBytes: limit})
			size, err := st.Size(t.Context(), session.Key{})
			if err != nil || size > limit {
				t.Errorf("size %d after a limit of %d, %v", size, limit, err)
			}
			if size < limit-400_000 {
				t.Errorf("size %d after a limit of %d: too much was deleted", size, limit)
			}
		}
		newest := strings.Fields("s00 a/s01 b/s02 s03 a/s04 b/s05")
		got := strings.Fields(left(t, st))
		if len(got) == 0 || len(got) > len(newest) {
			t.Fatalf("left: %s", got)
		}
		newest = newest[:len(got)]
		slices.Sort(newest)
		want(t, "the newest are left, of whatever tenant", strings.Join(got, " "), strings.Join(newest, " "))
		r := apply(t, st, retention.Policy{MaxBytes: 1})
		want(t, "left of one byte", left(t, st), "")
		want(t, "by bytes", r.ByBytes, r.Sessions)
	})
}

// lateStore is as large after a Delete as before, like a store that merges its files when it likes.
type lateStore struct{ *memstore.Store }

func (lateStore) Size(_ context.Context, k session.Key) (int64, error) {
	if k == (session.Key{}) {
		return 1_000_000, nil
	}
	return 100_000, nil
}

func TestBytesFreedLater(t *testing.T) {
	st := lateStore{memstore.New()}
	for n := range 10 {
		add(t, st, key(fmt.Sprint("s", n)), hours(n), "")
	}
	want(t, "no more than is too much", apply(t, st, retention.Policy{MaxBytes: 700_000}),
		retention.Result{Sessions: 3, ByBytes: 3})
	want(t, "left", left(t, st), "s0 s1 s2 s3 s4 s5 s6")
}

// sizeless fails to give the sizes of sessions.
type sizeless struct{ *memstore.Store }

var errSize = errors.New("too many queries")

func (s sizeless) Size(ctx context.Context, k session.Key) (int64, error) {
	if k != (session.Key{}) {
		return 0, errSize
	}
	return s.Store.Size(ctx, k)
}

// Where sizes are not known nothing is deleted by them.
func TestBytesUnknown(t *testing.T) {
	st := sizeless{memstore.New()}
	for n := range 10 {
		add(t, st, key(fmt.Sprint("s", n)), hours(n), "")
	}
	size := must.Get(st.Size(t.Context(), session.Key{}))(t)
	r, err := retention.Apply(t.Context(), st, now, retention.Policy{MaxBytes: size * 7 / 10})
	if !errors.Is(err, errSize) || r.Sessions != 0 {
		t.Errorf("%+v, %v, left: %s", r, err, left(t, st))
	}
}

// hooked calls functions where they are set.
type hooked struct {
	store.Store
	beforeMark   func(session.Key)
	beforeDelete func(session.Key) error
	erase        func() error
}

func (h *hooked) Revision(ctx context.Context, k session.Key) (store.Revision, error) {
	if h.beforeMark != nil {
		h.beforeMark(k)
	}
	return h.Store.Revision(ctx, k)
}

func (h *hooked) Delete(ctx context.Context, list ...store.Deletion) (gone []session.Key, err error) {
	for _, d := range list {
		if h.beforeDelete != nil {
			if err := h.beforeDelete(d.Key); err != nil {
				return gone, err
			}
		}
		l, err := h.Store.Delete(ctx, d)
		if gone = append(gone, l...); err != nil {
			return gone, err
		}
	}
	if h.erase != nil {
		return gone, h.erase()
	}
	return gone, nil
}

// TestPutMeanwhile puts new rows to an old session at each moment at which Apply looks at it, by its nth Revision: it
// stays, with its family.
func TestPutMeanwhile(t *testing.T) {
	for _, families := range []bool{false, true} {
		for nth := 1; ; nth++ {
			st := &hooked{Store: memstore.New()}
			add(t, st, key("a"), hours(100), "")
			add(t, st, key("b"), hours(101), "a")
			add(t, st, key("c"), hours(99), "")
			seen := 0
			st.beforeMark = func(k session.Key) {
				if k != key("a") {
					return
				}
				if seen++; seen == nth {
					put(t, st.Store, row(k, 2, hours(0), ""))
				}
			}
			r := apply(t, st, retention.Policy{MaxAge: 10 * time.Hour, Families: families})
			if seen < nth {
				if nth < 3 {
					t.Errorf("Apply looked %d times", seen)
				}
				break
			}
			got := left(t, st)
			switch {
			case !strings.HasPrefix(got, "a"):
				t.Errorf("families %v, a Put before look %d: %q is left, want a", families, nth, got)
			case families && got != "a b":
				t.Errorf("a Put before look %d: %q is left, want the family", nth, got)
			case r.Sessions != 3-len(strings.Fields(got)):
				t.Errorf("%+v, but %q is left", r, got)
			}
		}
	}
}

// TestBytesPutMeanwhile: one that says to be from the future is the oldest, and is Put to whenever Apply looks at it.
func TestBytesPutMeanwhile(t *testing.T) {
	st := &hooked{Store: memstore.New()}
	future, n := key("future"), byte(1)
	add(t, st, future, now.Add(48*time.Hour), "")
	for i := range 3 {
		add(t, st, key(fmt.Sprint("s", i)), hours(i), "")
	}
	st.beforeMark = func(k session.Key) {
		if k == future {
			n++
			put(t, st.Store, row(k, n, now.Add(48*time.Hour), ""))
		}
	}
	want(t, "result", apply(t, st, retention.Policy{MaxBytes: 1}), retention.Result{Sessions: 3, ByBytes: 3})
	want(t, "left", left(t, st), "future")
}

// corrupt fails to give the rows of a session.
type corrupt struct {
	*memstore.Store
	bad session.Key
	err error
}

func (c *corrupt) Rows(ctx context.Context, k session.Key) iter.Seq2[session.Row, error] {
	if k == c.bad {
		return func(yield func(session.Row, error) bool) {
			yield(session.Row{}, c.err)
		}
	}
	return c.Store.Rows(ctx, k)
}

func TestCorrupt(t *testing.T) {
	p := retention.Policy{MaxAge: time.Hour, MaxBytes: 1}
	fill := func(err error) *corrupt {
		st := &corrupt{Store: memstore.New(), err: err}
		add(t, st, key("a"), hours(100), "")
		add(t, st, key("b"), hours(100), "")
		put(t, st, row(key("a"), 1, hours(100), ""))
		st.bad = key("a")
		return st
	}
	want(t, "one that cannot be read goes too", apply(t, fill(fmt.Errorf("broken: %w", store.ErrData)), p),
		retention.Result{Sessions: 2, ByAge: 2})
	// One whose rows may be read later stays, and keeps no other.
	memory := errors.New("too little memory")
	st := fill(memory)
	r, err := retention.Apply(t.Context(), st, now, p)
	if r.ByAge != 1 || left(t, st) != "a" || !errors.Is(err, memory) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%+v, %v, left: %s", r, err, left(t, st))
	}
	if _, err := retention.Choose(t.Context(), fill(memory), now, p, false); !errors.Is(err, memory) {
		t.Errorf("Choose: %v", err)
	}
}

func TestErrors(t *testing.T) {
	fill := func() *hooked {
		st := &hooked{Store: memstore.New()}
		for n := range 30 {
			add(t, st, key(fmt.Sprintf("s%02d", n)), hours(100+n), "")
		}
		return st
	}
	p := retention.Policy{MaxAge: time.Hour}
	bad := fmt.Errorf("bad: %w", store.ErrData)
	st := fill()
	st.beforeDelete = func(k session.Key) error {
		if k.ID < "s20" {
			return bad
		}
		return nil
	}
	r, err := retention.Apply(t.Context(), st, now, p)
	if r.ByAge != 10 || !errors.Is(err, store.ErrData) || !strings.Contains(err.Error(), "and 12 more") {
		t.Errorf("%+v, %v: want those that could be deleted", r, err)
	}
	disk := errors.New("disk")
	st = fill()
	st.beforeDelete = func(k session.Key) error {
		if k.ID == "s20" {
			return disk
		}
		return nil
	}
	r, err = retention.Apply(t.Context(), st, now, p)
	if r.ByAge != 9 || !errors.Is(err, disk) {
		t.Errorf("%+v, %v: want those before the error", r, err)
	}
	// Sessions that are hidden and not erased yet, for instance because somebody reads, are counted. Apply returns the
	// error. The next Erase finishes them.
	readers := errors.New("readers")
	st = fill()
	st.erase = func() error { return readers }
	r, err = retention.Apply(t.Context(), st, now, p)
	if r.ByAge != 30 || left(t, st) != "" || !errors.Is(err, readers) {
		t.Errorf("%+v, %v: want all, and the error", r, err)
	}

	st = fill()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	st.beforeDelete = func(k session.Key) error {
		if k.ID == "s15" {
			cancel()
		}
		return nil
	}
	r, err = retention.Apply(ctx, st, now, p)
	if r.ByAge != 14 || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v: want those before it was cancelled", r, err)
	}
	st.beforeDelete = nil
	want(t, "the next one goes on", apply(t, st, p).ByAge, 16)
	must.Do(t, st.Close())
	if _, err := retention.Apply(t.Context(), st, now, p); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Apply to a closed store: %v", err)
	}
}
