package agentsessionexporter

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			Trace: session.TraceID{1}, Span: session.SpanID{byte(i >> 8), byte(i), 1}, Session: session.Key{ID: fmt.Sprint(i)}, Kind: session.KindRun,
			Known: spans.KnownObserved,
		})
	}
	for _, i := range bad {
		b.Rows[i].Span = session.SpanID{}
	}
	return b
}

// picky is a store that also refuses the sessions named.
type picky struct {
	refuses map[string]bool
	puts    int
	stored  map[string]bool
}

func (s *picky) put(_ context.Context, b session.Batch) error {
	s.puts++
	if err := store.CheckBatch(b); err != nil {
		return err
	}
	for _, id := range rowSessions(b) {
		if s.refuses[id] {
			return fmt.Errorf("session %s: %w", id, store.ErrData)
		}
	}
	for _, id := range rowSessions(b) {
		s.stored[id] = true
	}
	return nil
}

func TestPutterFindsTheBadRows(t *testing.T) {
	const n = 8192
	some := func(every int) (l []int) {
		for i := 0; i < n; i += every {
			l = append(l, i)
		}
		return l
	}
	for name, tt := range map[string]struct {
		bad     []int // as CheckBatch says
		refused []int // as only the store knows
		most    int   // writes
	}{
		"none":                    {most: 1},
		"one that is checked":     {bad: []int{17}, most: 2},
		"many that are checked":   {bad: some(2), most: 2},
		"all":                     {bad: some(1), most: 1},
		"one of the store's own":  {refused: []int{4000}, most: 1 + 2*13},
		"two of its own":          {refused: []int{3, 8000}, most: 1 + 4*13},
		"both":                    {bad: some(3), refused: []int{100}, most: 2 + 2*13},
		"five of the store's own": {refused: []int{0, 1000, 2000, 5000, 8191}, most: 1 + 10*13},
	} {
		t.Run(name, func(t *testing.T) {
			s := &picky{refuses: map[string]bool{}, stored: map[string]bool{}}
			want := map[string]bool{}
			for i := range n {
				want[fmt.Sprint(i)] = true
			}
			for _, i := range tt.bad {
				delete(want, fmt.Sprint(i))
			}
			for _, i := range tt.refused {
				s.refuses[fmt.Sprint(i)] = true
				delete(want, fmt.Sprint(i))
			}
			p := putter{put: s.put}
			var r refused
			require.NoError(t, p.all(t.Context(), batchOf(n, tt.bad...), &r))
			if diff := cmp.Diff(want, s.stored); diff != "" {
				t.Error(diff)
			}
			require.Len(t, p.stored.Rows, len(want), "what is said to be stored")
			require.Len(t, r.rows, n-len(want), "what is said to be refused")
			require.Equal(t, len(want) < n, r.err != nil)
			require.LessOrEqual(t, s.puts, tt.most)
		})
	}
}

// A batch of nothing but rows that only the store knows to be bad ends: the writes are bounded, and every row is accounted for.
func TestPutterIsBounded(t *testing.T) {
	const n = 20_000
	s := &picky{refuses: map[string]bool{}, stored: map[string]bool{}}
	for i := range n {
		s.refuses[fmt.Sprint(i)] = true
	}
	p := putter{put: s.put}
	var r refused
	require.NoError(t, p.all(t.Context(), batchOf(n), &r))
	require.Len(t, r.rows, n)
	require.Empty(t, p.stored.Rows)
	require.LessOrEqual(t, s.puts, maxPuts+15, "and once for each part that waited to be tried")
}

func TestPutterStopsAtAnErrorOfTheStore(t *testing.T) {
	away := errors.New("away")
	calls := 0
	p := putter{put: func(context.Context, session.Batch) error {
		if calls++; calls == 1 {
			return store.ErrData
		}
		return away
	}}
	var r refused
	require.ErrorIs(t, p.all(t.Context(), batchOf(100), &r), away)
	require.Equal(t, 2, calls)
}

func TestHalve(t *testing.T) {
	for rows := range 4 {
		for blocks := range 4 {
			if rows+blocks < 2 {
				continue
			}
			l, r := halve(session.Batch{Rows: make([]session.Row, rows), Blocks: make([]session.Block, blocks)})
			require.Equal(t, rows, len(l.Rows)+len(r.Rows))
			require.Equal(t, blocks, len(l.Blocks)+len(r.Blocks))
			require.NotZero(t, len(l.Rows)+len(l.Blocks))
			require.NotZero(t, len(r.Rows)+len(r.Blocks))
		}
	}
}
