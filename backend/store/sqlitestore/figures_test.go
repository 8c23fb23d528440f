package sqlitestore

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

func turnsOf(t *testing.T, s *Store, id string) []session.TurnFigures {
	t.Helper()
	var out []session.TurnFigures
	for f, err := range store.Figures[session.TurnFigures](t.Context(), s, store.FigureQuery{Session: id}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b session.TurnFigures) int { return int(a.Turn - b.Turn) })
	return out
}

// Two processes that project two states at once end with the figures of the later one.
func TestProjectTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	stores := []*Store{newStore(t, path), newStore(t, path)}
	k := key("a")
	for round, n := range []int{3, 400, 1, 700, 2, 5, 4, 600} {
		figures := [2]session.Figures{longFigures(n + 7), longFigures(n)}
		var marks [2]store.Revision
		for i := range figures {
			for j := range figures[i].Turns {
				figures[i].Turns[j].Session = k.ID
				figures[i].Turns[j].Attempts = session.Some(int64(round + i))
			}
			put(t, stores[i], k, 2*round+i)
			m, err := stores[i].Revision(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			marks[i] = m
		}
		var wg sync.WaitGroup
		for i, s := range stores {
			wg.Go(func() {
				if err := s.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: marks[i], Figures: figures[i]}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if diff := cmp.Diff(figures[1].Turns, turnsOf(t, stores[0], k.ID)); diff != "" {
			t.Errorf("round %d (-want +got):\n%.2000s", round, diff)
		}
		for table, count := range map[string]int{"tool_calls": len(figures[1].ToolCalls),
			"permission_evaluations": len(figures[1].Permissions)} {
			if got := tableCount(t, stores[1], table); got != count {
				t.Errorf("round %d: %d %s, want %d", round, got, table, count)
			}
		}
	}
}

// The tables have the columns of store.FigureTables, after the session.
func TestFigureColumns(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "x.db"))
	for _, table := range store.FigureTables {
		want := "session"
		for _, c := range table.Columns {
			want += " " + c.Name
		}
		var have string
		if err := s.readers.QueryRowContext(t.Context(), `SELECT group_concat(name, ' ') FROM pragma_table_info(?)`,
			table.Name).Scan(&have); err != nil {
			t.Fatal(err)
		}
		if have != want {
			t.Errorf("%s has %s, want %s", table.Name, have, want)
		}
	}
}
