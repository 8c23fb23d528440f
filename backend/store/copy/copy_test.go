package copy_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	storecopy "github.com/otelagent/otelagent/backend/store/copy"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openSQLite(t *testing.T) store.Store {
	t.Helper()
	st := must.Get(sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "s.db")))(t)
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func openMemory(t *testing.T) store.Store {
	t.Helper()
	st := memstore.New()
	t.Cleanup(func() { _ = st.Close() })
	return st
}

var (
	kinds = map[string]func(*testing.T) store.Store{"sqlite": openSQLite, "memory": openMemory}

	big   = session.Key{ID: "big"}
	small = session.Key{ID: "small"}
	other = session.Key{Tenant: "acme", ID: "small"} // the same id, of another owner
	bare  = session.Key{Tenant: "acme", ID: "no blocks"}
)

// contentOf returns rows rows and as many blocks of a session, one of each kind among them.
func contentOf(k session.Key, rows int) session.Batch {
	var b session.Batch
	for n := range rows {
		row := storetest.Row(k, n)
		if n%5 == 4 {
			row.Known = spans.KnownLive
		}
		b.Rows = append(b.Rows, row)
		b.Blocks = append(b.Blocks, storetest.Block(k, fmt.Sprintf("%s says %d", k.Tenant+k.ID, n)))
	}
	cut := storetest.Block(k, "a text that was too long")
	cut.Body, cut.Size = "a text", int64(len("a text that was too long"))
	b.Blocks = append(b.Blocks, cut, storetest.Block(k, `"one"`),
		storetest.Block(k, "[\x01"+spans.BlockOfString(`"one"`).Short().String()+"]"))
	return b
}

func put(t *testing.T, st store.Store, b session.Batch) {
	t.Helper()
	must.Do(t, st.Put(t.Context(), b))
}

// fill puts four sessions of two owners.
func fill(t *testing.T, st store.Store) {
	t.Helper()
	for k, rows := range map[session.Key]int{big: 700, small: 5, other: 7} {
		put(t, st, contentOf(k, rows))
	}
	put(t, st, session.Batch{Rows: []session.Row{storetest.Row(bare, 1)}})
	must.Do(t, project.Refresh(t.Context(), st))
}

// held is all that a store holds, in a form to compare.
type held struct {
	Rows      map[string]string // canonical bytes
	Blocks    map[string]session.Block
	Summaries []session.Summary
	Dirty     int
}

func contents(t *testing.T, st store.Store) held {
	t.Helper()
	h := held{map[string]string{}, map[string]session.Block{}, nil, 0}
	ok := func(err error) {
		must.Do(t, err)
	}
	for tenant, err := range st.Tenants(t.Context()) {
		ok(err)
		for s, err := range st.Sessions(t.Context(), store.Query{Tenant: tenant}) {
			ok(err)
			h.Summaries = append(h.Summaries, s)
			for row, err := range st.Rows(t.Context(), s.Key) {
				ok(err)
				h.Rows[fmt.Sprintf("%q %x %x", s.Key, row.Trace, row.Span)] = string(row.AppendCanonical(nil))
			}
			for b, err := range st.Blocks(t.Context(), s.Key) {
				ok(err)
				h.Blocks[fmt.Sprintf("%q %s", s.Key, b.ID)] = b
			}
		}
	}
	for _, err := range st.Sessions(t.Context(), store.Query{AllTenants: true, Stale: true}) {
		ok(err)
		h.Dirty++
	}
	return h
}

func equal(t *testing.T, src, dst store.Store) {
	t.Helper()
	if diff := cmp.Diff(contents(t, src), contents(t, dst)); diff != "" {
		t.Errorf("not the same (-source +destination):\n%.2000s", diff)
	}
}

// watched is a store whose Puts and reads are looked at.
type watched struct {
	store.Store
	put        func(session.Batch) error // before it; an error takes its place
	blocks     func(session.Key)         // after all of a session were read
	unreadable func(session.Key) error   // an error takes the place of its blocks
	unmarked   session.Key               // its mark cannot be read
	rows       int                       // that came through
	puts       int
	mostBytes  int
	mostParts  int
}

func (w *watched) Put(ctx context.Context, b session.Batch) error {
	if w.put != nil {
		if err := w.put(b); err != nil {
			return err
		}
	}
	bytes := 0
	for _, k := range b.Blocks {
		bytes += len(k.Body)
	}
	w.puts++
	w.rows += len(b.Rows)
	w.mostBytes, w.mostParts = max(w.mostBytes, bytes), max(w.mostParts, len(b.Rows)+len(b.Blocks))
	return w.Store.Put(ctx, b)
}

func (w *watched) Revision(ctx context.Context, k session.Key) (store.Revision, error) {
	if k == w.unmarked && k.ID != "" {
		return 0, fmt.Errorf("mark: %w", store.ErrData)
	}
	return w.Store.Revision(ctx, k)
}

func (w *watched) Blocks(ctx context.Context, k session.Key) iter.Seq2[session.Block, error] {
	return func(yield func(session.Block, error) bool) {
		if w.unreadable != nil {
			if err := w.unreadable(k); err != nil {
				yield(session.Block{}, err)
				return
			}
		}
		for b, err := range w.Store.Blocks(ctx, k) {
			if !yield(b, err) {
				return
			}
		}
		if w.blocks != nil {
			w.blocks(k)
		}
	}
}

func TestCopy(t *testing.T) {
	for from, openSrc := range kinds {
		for to, openDst := range kinds {
			t.Run(from+" to "+to, func(t *testing.T) {
				src, dst := openSrc(t), &watched{Store: openDst(t)}
				fill(t, src)
				res, err := storecopy.Run(t.Context(), src, dst, storecopy.Options{})
				must.Do(t, err)
				if res.Bytes < 700*10 {
					t.Errorf("%d bytes", res.Bytes)
				}
				bytes := res.Bytes
				want := storecopy.Result{Sessions: 4, Copied: 4, Rows: 713, Blocks: 721, Bytes: bytes}
				if diff := cmp.Diff(want, res); diff != "" {
					t.Error(diff)
				}
				equal(t, src, dst)

				puts := dst.puts
				res, err = storecopy.Run(t.Context(), src, dst, storecopy.Options{})
				if diff := cmp.Diff(storecopy.Result{Sessions: 4, Same: 4}, res); err != nil || diff != "" ||
					dst.puts != puts {
					t.Errorf("again: %v, %d puts\n%s", err, dst.puts-puts, diff)
				}
				equal(t, src, dst)
			})
		}
	}
}

func TestSelected(t *testing.T) {
	for _, test := range []struct {
		name string
		o    storecopy.Options
		want []string
	}{
		{"named", storecopy.Options{Sessions: []session.Key{other, {ID: "never was"}}}, []string{"acme/small"}},
		{"none named", storecopy.Options{Sessions: []session.Key{}}, nil},
		{"of an owner", storecopy.Options{Tenants: []string{"acme"}}, []string{"acme/small", "acme/no blocks"}},
		{"since", storecopy.Options{Since: time.Unix(0, storetest.Row(big, 500).Start)}, []string{"/big"}},
		{"since later", storecopy.Options{Since: time.Unix(1<<40, 0)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			src, dst := openMemory(t), openMemory(t)
			fill(t, src)
			must.Get(storecopy.Run(t.Context(), src, dst, test.o))(t)
			var got []string
			for _, s := range contents(t, dst).Summaries {
				got = append(got, s.Tenant+"/"+s.ID)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// giant has a session of several batches.
func giant(t *testing.T) store.Store {
	src := openMemory(t)
	fill(t, src)
	put(t, src, contentOf(session.Key{ID: "giant"}, 300))
	body := strings.Repeat("x", 3<<20)
	for n := range 16 {
		put(t, src, session.Batch{Blocks: []session.Block{storetest.Block(session.Key{ID: "giant"}, fmt.Sprint(n, body))}})
	}
	must.Do(t, project.Refresh(t.Context(), src))
	return src
}

// However often it is interrupted, running it again goes on: nothing is written twice, and nothing is missing. No batch
// is larger than its bound.
func TestInterruptedAndResumed(t *testing.T) {
	src := giant(t)
	away := errors.New("away")
	for _, how := range []string{"destination away", "cancelled"} {
		t.Run(how, func(t *testing.T) {
			dst := &watched{Store: openSQLite(t)}
			runs := 0
			for ; ; runs++ {
				ctx, cancel := context.WithCancel(t.Context())
				puts := 0
				dst.put = func(session.Batch) error {
					if puts++; puts <= 1 {
						return nil
					}
					if how == "cancelled" {
						cancel()
						return ctx.Err()
					}
					return away
				}
				res, err := storecopy.Run(ctx, src, dst, storecopy.Options{})
				cancel()
				if err == nil {
					if res.Sessions != 5 || res.Copied+res.Same != 5 {
						t.Errorf("%+v", res)
					}
					break
				}
				if !errors.Is(err, away) && !errors.Is(err, context.Canceled) || runs > 100 {
					t.Fatal(err)
				}
			}
			if runs < 3 {
				t.Errorf("only %d interruptions", runs)
			}
			if want := 713 + 300; dst.rows != want {
				t.Errorf("%d rows written in %d runs, want %d", dst.rows, runs+1, want)
			}
			if dst.mostBytes > 12<<20 {
				t.Errorf("a batch of %d bytes", dst.mostBytes)
			}
			equal(t, src, dst)
		})
	}
}

// A second copy brings each change in the source, also a change that no summary records.
func TestChangedSource(t *testing.T) {
	src, dst := openSQLite(t), openSQLite(t)
	fill(t, src)
	must.Get(storecopy.Run(t.Context(), src, dst, storecopy.Options{}))(t)
	closed := storetest.Row(big, 4) // was live
	put(t, src, session.Batch{Rows: []session.Row{closed}, Blocks: []session.Block{
		storetest.Block(small, "a text that was too long"), // whole now
		storetest.Block(other, "later"),
	}})
	fresh := session.Key{Tenant: "new", ID: "s"}
	put(t, src, session.Batch{Rows: []session.Row{storetest.Row(fresh, 1)}})
	must.Do(t, project.Refresh(t.Context(), src))
	res, err := storecopy.Run(t.Context(), src, dst, storecopy.Options{})
	res.Bytes = 0
	if diff := cmp.Diff(storecopy.Result{Sessions: 5, Copied: 4, Same: 1, Rows: 2, Blocks: 2},
		res); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	equal(t, src, dst)

	// What the destination had stays, also what was deleted from the source since.
	must.Do(t, store.Delete(t.Context(), src, fresh))
	must.Get(storecopy.Run(t.Context(), src, dst, storecopy.Options{}))(t)
	if _, err := dst.Revision(t.Context(), fresh); err != nil {
		t.Error(err)
	}
}

// What comes while it copies is copied too; where it never ends, the session is named.
func TestWrittenMeanwhile(t *testing.T) {
	for _, times := range []int{1, 1000} {
		src, dst := &watched{Store: openMemory(t)}, openMemory(t)
		fill(t, src)
		n := 1000
		src.blocks = func(k session.Key) {
			if k == small && n < 1000+times {
				n++
				put(t, src.Store, session.Batch{Rows: []session.Row{storetest.Row(small, n)}})
			}
		}
		res := must.Get(storecopy.Run(t.Context(), src, dst, storecopy.Options{}))(t)
		src.blocks = nil
		if times == 1 {
			if len(res.Moving) > 0 {
				t.Errorf("%+v", res)
			}
		} else if diff := cmp.Diff([]session.Key{small}, res.Moving); diff != "" {
			t.Errorf("%+v\n%s", res, diff)
		}
		must.Get(storecopy.Run(t.Context(), src, dst, storecopy.Options{}))(t)
		must.Do(t, project.Refresh(t.Context(), src))
		equal(t, src, dst)
	}
}

// What a session is counted as goes by all passes: one that had everything at first and then grew is copied, and one
// that was copied at first and then cannot be read is refused.
func TestCountedOnce(t *testing.T) {
	for _, c := range []struct {
		k                     session.Key
		copied, same, refused int
	}{{small, 4, 0, 0}, {other, 2, 1, 1}} {
		src, dst := &watched{Store: openMemory(t)}, openMemory(t)
		fill(t, src)
		must.Get(storecopy.Run(t.Context(), src, dst, storecopy.Options{Sessions: []session.Key{small}}))(t)
		read := 0
		src.blocks = func(k session.Key) {
			if k != c.k {
				return
			}
			if read++; read == 1 {
				put(t, src.Store, session.Batch{Rows: []session.Row{storetest.Row(k, 1000)}})
			}
		}
		src.unreadable = func(k session.Key) error {
			if c.k == other && k == other && read == 1 {
				return fmt.Errorf("damaged: %w", store.ErrData)
			}
			return nil
		}
		res, err := storecopy.Run(t.Context(), src, dst, storecopy.Options{})
		if err != nil || res.Sessions != 4 || res.Copied != c.copied || res.Same != c.same || len(res.Refused) != c.refused {
			t.Errorf("%s/%s: %+v, %v", c.k.Tenant, c.k.ID, res, err)
		}
	}
}

// A session that is erased from the source while it is copied does not live on in the destination, whichever time it is
// gone through.
func TestErasedMeanwhile(t *testing.T) {
	for _, last := range []int{1, 2} {
		src, dst := &watched{Store: openMemory(t)}, openMemory(t)
		fill(t, src)
		times := 0
		src.blocks = func(k session.Key) {
			if k != other {
				return
			}
			if times++; times < last {
				put(t, src.Store, session.Batch{Rows: []session.Row{storetest.Row(other, 1000)}})
			} else if err := store.Delete(t.Context(), src, other); err != nil {
				t.Error(err)
			}
		}
		res, err := storecopy.Run(t.Context(), src, dst, storecopy.Options{})
		if err != nil || res.Gone != 1 || res.Sessions != 3 || res.Copied != 3 {
			t.Errorf("%d: %+v, %v", last, res, err)
		}
		if _, err := dst.Revision(t.Context(), other); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%d: it is there: %v", last, err)
		}
	}
}

// One session that cannot be read, because the source is damaged there, does not keep the others from the destination,
// and what was read of it comes along.
func TestUnreadable(t *testing.T) {
	src, dst := &watched{Store: openMemory(t)}, openMemory(t)
	fill(t, src)
	src.unreadable = func(k session.Key) error {
		if k == small {
			return fmt.Errorf("damaged: %w", store.ErrData)
		}
		return nil
	}
	res, err := storecopy.Run(t.Context(), src, dst, storecopy.Options{})
	res.Bytes = 0
	want := storecopy.Result{Sessions: 4, Copied: 3, Rows: 713, Blocks: 713,
		Refused: []storecopy.Refusal{{Session: small, Reason: "damaged: bad data"}}}
	if diff := cmp.Diff(want, res); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if res, err = storecopy.Run(t.Context(), src, dst, storecopy.Options{}); err != nil || len(res.Refused) != 1 ||
		res.Rows != 0 || res.Same != 3 {
		t.Errorf("again: %+v, %v", res, err)
	}

	src.unreadable, src.unmarked = nil, small
	dst = openMemory(t)
	res, err = storecopy.Run(t.Context(), src, dst, storecopy.Options{})
	res.Bytes = 0
	want = storecopy.Result{Sessions: 4, Copied: 3, Rows: 708, Blocks: 713,
		Refused: []storecopy.Refusal{{Session: small, Reason: "mark: bad data"}}}
	if diff := cmp.Diff(want, res); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
