package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/spans"
)

// hostile are texts that break programs, for every name that a row or a summary has.
var hostile = []string{
	"", "'; DROP TABLE sessions; --", `") OR 1=1 --`, "a' UNION SELECT id FROM sessions --", "{p:String}", "$1", "?1",
	":name", "@x", `\'`, `\x00`, `\N`, "NULL", "\x00", "\x00\x00a", "\xff", "\xc3\x28", "\xed\xa0\x80",
	"\xf4\x90\x80\x80", "new\nline", "tab\there", "\r", "\x1b[2J", "\u202eback", "e\u0301", "é", "%", "_", "*", "[a]",
	strings.Repeat("x", 256), strings.Repeat("\xff", 256), strings.Repeat("漢", 85), "../../etc/passwd", "0", "1e9",
	"true", "-0", " a ", "A", "a", "ab",
}

// moments are the times that a row can name, those at the ends among them.
var moments = []int64{0, 1, -1, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, figureStart,
	figureStart + 1, math.MaxInt32, math.MaxUint32}

// world holds a store to a memstore.Store that is given the same.
type world struct {
	*rand.Rand
	t         *testing.T
	stores    []store.Store // opened on the same data; the calls go to one after the other
	calls     int
	m         store.Store
	keys      []session.Key
	bodies    []string
	revisions map[session.Key][][2]store.Revision // of s and m at one moment; each is used once
}

func (w *world) next() store.Store {
	w.calls++
	return w.stores[w.calls%len(w.stores)]
}

func pick[T any](w *world, list ...T) T { return list[w.IntN(len(list))] }

func (w *world) rarely() bool { return w.IntN(6) == 0 }

func (w *world) time() (t time.Time) {
	if n := pick[int64](w, 0, 1, -5e18, -1, figureStart, figureStart+w.Int64N(100)*1e9, math.MaxInt64); n != 0 {
		t = time.Unix(0, n).UTC()
	}
	return t
}

// same reports what the two stores do not have alike.
func same[T any](w *world, what string, of func(store.Store) T) T {
	w.t.Helper()
	got, want := of(w.next()), of(w.m)
	if d := cmp.Diff(fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got)); d != "" {
		w.t.Errorf("%s (-want +got)\n%s", what, d)
	}
	return got
}

// batch is of rows that supersede each other, and of bodies: whole, cut, and lied about by one session.
func (w *world) batch() (b session.Batch) {
	for range 1 + w.IntN(3) {
		k := pick(w, w.keys...)
		for range w.IntN(4) {
			block := Block(k, pick(w, w.bodies...))
			if size := len(block.Body); size > 1 && w.rarely() {
				keep := w.IntN(size) // the more of it the larger Size, so that two of one size are alike
				block.Body, block.Size = block.Body[:keep], int64(1+keep)
			}
			b.Blocks = append(b.Blocks, block)
		}
		for range w.IntN(4) {
			r := Row(k, w.IntN(6))
			r.Lists[0].Count = w.Int64N(3)
			r.Known = pick(w, spans.KnownLive, spans.KnownClosed, spans.KnownObserved)
			r.End += w.Int64N(2)
			if r.Known == spans.KnownLive {
				r.End += 2 * r.Lists[0].Count // of live rows that end together a store may keep any
			} else if w.rarely() {
				text := pick(w, hostile...)
				r.Run, r.Service, r.Kind = text, text, pick(w, session.KindRun, session.KindPayload, session.KindUnknown)
				r.Attrs = []session.Attr{{Key: text, Value: session.StringValue(text)},
					{Key: text + "\xff", Value: session.StringsValue([]string{text, ""})}}
				r.Events = []session.Event{{Time: pick(w, moments...), Type: text, Body: text}}
				r.Start, r.End, r.RunStart = pick(w, moments...), pick(w, moments...), pick(w, moments...)
				r.Seq, r.EndSeq, r.Turn = pick(w, moments...), pick(w, moments...), pick(w, moments...)
			}
			b.Rows = append(b.Rows, r)
		}
	}
	return b
}

func (w *world) update(k session.Key) (u store.SummaryUpdate) {
	text := func() string { return pick(w, hostile...) }
	status := func() spans.SessionStatus { return pick(w, append(spans.SessionStatuses(), "", "\xff")...) }
	u.Summary = Summary(session.Key{ID: "another"}) // the store sets it
	m := &u.Summary
	m.Parent, m.ForkedFrom, m.Agent, m.AgentID, m.Model, m.Title = text(), text(), text(), text(), text(), text()
	m.Status, m.Settled, m.Start, m.Last = status(), pick[spans.SessionStatus](w, "", "error", "idle"), w.time(), w.time()
	m.Errors, m.Denied, m.Cost = w.Int64N(3)-1, w.Int64N(3)-1, float64(w.IntN(3))
	m.Archived, m.HeartbeatNS, m.Turns = w.IntN(2) == 0, pick[int64](w, 0, 1, 15e9), pick(w, moments...)
	m.Mapped, m.Part = pick(w, "", "1", "2", text()), w.rarely()
	if w.IntN(4) > 0 {
		u.Figures = FiguresFor(k, 1+w.IntN(40))
		last := &u.Figures.Turns[len(u.Figures.Turns)-1]
		last.Model, last.Run, last.Start, last.Input = text(), text(), pick(w, moments...), session.Some(pick(w, moments...))
		last.Cost = session.Some(-1e300)
		u.Figures.ToolCalls[0].Tool, u.Figures.ToolCalls[1].Call = text(), text()
	}
	return u
}

func (w *world) query(k session.Key) store.Query {
	q := store.Query{Tenant: k.Tenant, Oldest: w.IntN(2) == 0, Stale: w.rarely(), Errors: w.rarely(), Denied: w.rarely()}
	row := Row(k, w.IntN(6))
	for _, set := range []func(){
		func() { q.Prefix = k.ID[:w.IntN(len(k.ID)+1)] },
		func() { q.Traces = []session.TraceID{row.Trace, Row(k, w.IntN(6)).Trace} },
		func() { q.NotMapped = pick(w, "1", "2") },
		func() { q.Parts = true },
		func() { q.Span = row.Span },
		func() { q.Parent = pick(w, hostile...) },
		func() { q.ForkedFrom = pick(w, hostile...) },
		func() { q.Agent = pick(w, hostile...) },
		func() { q.Model = pick(w, hostile...) },
		func() { q.Status, q.Now = append(q.Status, pick(w, spans.SessionStatuses()...), "busy"), w.time() },
		func() { q.Status = append(q.Status, pick(w, spans.SessionStatuses()...)) },
		func() { q.MinCost = float64(w.IntN(3)) },
		func() { q.Since = w.time() },
		func() { q.Until = w.time() },
		func() { q.Archived = pick(w, store.ArchivedNot, store.ArchivedOnly) },
		func() { q.Search = strings.ToUpper(pick(w, hostile...)) },
		func() { q.After = &store.Cursor{Last: w.time(), ID: k.ID, New: w.rarely()} },
		func() { q.Limit = 1 + w.IntN(4) },
	} {
		if w.rarely() {
			set()
		}
	}
	return q
}

// check compares one session, a list, and what is kept for all.
func (w *world) check(k session.Key) {
	w.t.Helper()
	same(w, "rows of "+k.ID, func(s store.Store) []string { return rows(w.t, s, k) })
	if got, want := blocks(w.t, w.next(), k), blocks(w.t, w.m, k); !maps.Equal(got, want) {
		w.t.Errorf("session %q: %d blocks, want %d, or one is not the same", k, len(got), len(want))
	}
	there := same(w, "whether there is "+k.ID, func(s store.Store) bool {
		_, err := s.Revision(w.t.Context(), k)
		return !errors.Is(err, store.ErrNotFound)
	})
	if !there {
		gone(w.t, w.next(), k)
	}
	q := w.query(k)
	same(w, fmt.Sprintf("sessions of %+v", q), func(s store.Store) []session.Summary {
		return collect(w.t, s.Sessions(w.t.Context(), q))
	})
	same(w, "stale ones", func(s store.Store) string { return dirtyKeys(w.t, s) })
	same(w, "tenants", func(s store.Store) []string { return collect(w.t, s.Tenants(w.t.Context())) })
	f := store.FigureQuery{Tenant: k.Tenant, Session: pick(w, "", k.ID), Model: pick(w, "", "gpt", pick(w, hostile...)),
		Tool: pick(w, "", "bash", pick(w, hostile...)), Agent: pick(w, "", "", "coder"),
		Since: pick(w, time.Time{}, time.Unix(0, figureStart+5e9))}
	same(w, fmt.Sprintf("figures of %+v", f), func(s store.Store) session.Figures { return allFigures(w.t, s, f) })
}

// byChance puts, summarizes, deletes and makes anew at random, in sessions of two tenants whose keys are almost alike,
// and asks for lists at random: the store answers as memstore does.
func (u suite) byChance(t *testing.T, s store.Store) { u.together(t, s) }

// Together does the same with the data that several stores have opened, as several collectors do without session
// affinity: no store may rely on what it remembers of its own calls.
func Together(t *testing.T, stores ...store.Store) { suite{}.together(t, stores...) }

func (u suite) together(t *testing.T, stores ...store.Store) {
	rounds := u.times(800, 80)
	if testing.Short() {
		rounds = u.times(300, 80)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), t: t, stores: stores, m: memstore.New(),
		revisions: map[session.Key][][2]store.Revision{}}
	for n := range 12 { // some of them almost alike
		text := fmt.Sprintf("prompt %d: ", n%4) + strings.Repeat("be kind to users and careful. ", 50+350*(n%3))
		w.bodies = append(w.bodies, text+fmt.Sprint(n))
	}
	w.bodies = append(w.bodies, noise(1, 1023), noise(2, 1024), noise(3, 1025), noise(4, 300_000),
		strings.Repeat("x", 1<<20), "", "\xff\x00 not text")
	for n := range 15 {
		w.bodies = append(w.bodies, fmt.Sprint("message ", n))
	}
	ids := []string{"s0", "s", "S0", "s0\x00", "s0%", pick(w, hostile[1:]...), pick(w, hostile[1:]...)}
	for _, id := range ids {
		w.keys = append(w.keys, session.Key{ID: id}, session.Key{Tenant: "t", ID: id},
			session.Key{Tenant: pick(w, hostile...), ID: id})
	}
	both := func(what string, do func(store.Store) error) {
		t.Helper()
		got, want := do(w.next()), do(w.m)
		for _, kind := range []error{nil, store.ErrNotFound, store.ErrData} {
			if errors.Is(got, kind) != errors.Is(want, kind) {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
	}
	for round := range rounds {
		k := pick(w, w.keys...)
		switch n := w.IntN(20); {
		case n < 10:
			b := w.batch()
			for range 1 + n/9 { // one is sent again
				both("Put", func(s store.Store) error { return s.Put(t.Context(), b) })
			}
			if len(b.Rows) > 0 {
				k = b.Rows[0].Session
				w.revisions[k] = append(w.revisions[k], [2]store.Revision{mark(t, w.next(), k), mark(t, w.m, k)})
			}
		case n < 13:
			both("Delete", func(s store.Store) error { return store.Delete(t.Context(), s, k) })
		case len(w.revisions[k]) > 0:
			list := w.revisions[k]
			i := max(w.IntN(2*len(list))-len(list), 0) // an old one or the last
			if w.IntN(2) == 0 {
				i = len(list) - 1
			}
			at := list[i]
			w.revisions[k] = slices.Delete(list, i, i+1)
			of := func(s store.Store) store.Revision {
				if s == w.m {
					return at[1]
				}
				return at[0]
			}
			if n < 15 {
				same(w, "what was deleted", func(s store.Store) []session.Key {
					list, err := s.Delete(t.Context(), store.Deletion{Key: k, Revision: of(s)})
					if err != nil {
						t.Fatalf("Delete of a revision: %v", err)
					}
					return list
				})
				break
			}
			update := w.update(k)
			both("SetSummary", func(s store.Store) error {
				update.Revision = of(s)
				return s.SetSummary(t.Context(), k, update)
			})
		}
		w.check(k)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	for _, k := range w.keys { // down to nothing
		both("Delete", func(s store.Store) error { return store.Delete(t.Context(), s, k) })
		w.check(k)
	}
}
