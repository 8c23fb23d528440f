package sqlitestore

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
)

func turnsOf(t *testing.T, s *Store, id string) []session.TurnFigures {
	t.Helper()
	var out []session.TurnFigures
	for f, err := range s.Turns(t.Context(), store.FigureQuery{Session: id}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b session.TurnFigures) int { return int(a.Turn - b.Turn) })
	return out
}

// A long session is projected in steps, between which others write; two processes that do it at once end with each thing once.
func TestProjectInSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes seconds")
	}
	path := filepath.Join(t.TempDir(), "x.db")
	stores := []*Store{newStore(t, path), newStore(t, path)}
	k := key("long")
	put(t, stores[0], k, 1)
	m, err := stores[0].Mark(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	for step, n := range []int{5000, 5001, 1200, 4000} {
		want := longFigures(n)
		for i := range want.Turns {
			want.Turns[i].Session = k.ID
			if step == 3 {
				want.Turns[i].Input.V++ // all of them are others
			}
		}
		stop, done, puts := make(chan struct{}), make(chan error), 0
		slowest := time.Duration(0)
		go func() {
			var err error
			for err == nil {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				began := time.Now()
				err = stores[0].Put(context.Background(), session.Batch{Rows: []session.Row{storetest.Row(key("busy"), puts)}})
				slowest = max(slowest, time.Since(began))
				puts++
			}
			done <- err
		}()
		var wg sync.WaitGroup
		for _, s := range stores {
			wg.Go(func() {
				if err := s.Project(t.Context(), k, store.Projection{Mark: m, Figures: want}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		close(stop)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if puts == 0 {
			t.Error("nobody else could write meanwhile")
		}
		t.Logf("%d turns: %d Puts meanwhile, the slowest took %v", n, puts, slowest)
		if diff := cmp.Diff(want.Turns, turnsOf(t, stores[1], k.ID)); diff != "" {
			t.Errorf("%d turns (-want +got):\n%.2000s", n, diff)
		}
		for table, count := range map[string]int{"tool_calls": 2 * n, "permission_evaluations": n} {
			if got := tableCount(t, stores[0], table); got != count {
				t.Errorf("%d %s, want %d", got, table, count)
			}
		}
	}
}

// Two processes that project two states at once end with the figures of the later one, also where a projection takes several transactions.
func TestProjectTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	stores := []*Store{newStore(t, path), newStore(t, path)}
	k := key("a")
	for round, n := range []int{3, 400, 1, 700, 2, 5, 4, 600} {
		figures := [2]session.Figures{longFigures(n + 7), longFigures(n)}
		var marks [2]store.Mark
		for i := range figures {
			for j := range figures[i].Turns {
				figures[i].Turns[j].Session = k.ID
				figures[i].Turns[j].Attempts = session.Some(int64(round + i))
			}
			put(t, stores[i], k, 2*round+i)
			m, err := stores[i].Mark(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			marks[i] = m
		}
		var wg sync.WaitGroup
		for i, s := range stores {
			wg.Go(func() {
				if err := s.Project(t.Context(), k, store.Projection{Mark: marks[i], Figures: figures[i]}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if diff := cmp.Diff(figures[1].Turns, turnsOf(t, stores[0], k.ID)); diff != "" {
			t.Errorf("round %d (-want +got):\n%.2000s", round, diff)
		}
		for table, count := range map[string]int{"tool_calls": len(figures[1].ToolCalls), "permission_evaluations": len(figures[1].Permissions)} {
			if got := tableCount(t, stores[1], table); got != count {
				t.Errorf("round %d: %d %s, want %d", round, got, table, count)
			}
		}
	}
}

// One turn more is one row more: what is there keeps its place.
func TestProjectTouchesWhatChanged(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "x.db"))
	k := key("a")
	put(t, s, k, 1)
	rowids := func() string {
		var out string
		if err := s.readers.QueryRowContext(t.Context(), `SELECT group_concat(rowid || ':' || turn, ' ') FROM (SELECT rowid, turn FROM turns ORDER BY rowid)`).Scan(&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	f := longFigures(3)
	projectFigures(t, s, k, f)
	before := rowids()
	f.Turns = append(f.Turns, session.TurnFigures{Run: "r", Turn: 3})
	projectFigures(t, s, k, f)
	if got, want := rowids(), before+" 4:3"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	f.Turns[1].Failed = true
	projectFigures(t, s, k, f)
	if got, want := rowids(), "1:0 3:2 4:3 5:1"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
}

// The tables have the columns that store.FigureTable tells of, after the session.
func TestFigureColumns(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "x.db"))
	for table, columns := range map[string]string{
		store.TurnTable.Name: quoted("", store.TurnTable.Columns), store.ToolCallTable.Name: quoted("", store.ToolCallTable.Columns),
		store.CompactionTable.Name: quoted("", store.CompactionTable.Columns), store.PermissionTable.Name: quoted("", store.PermissionTable.Columns),
	} {
		var have string
		if err := s.readers.QueryRowContext(t.Context(), `SELECT group_concat('"' || name || '"', ', ') FROM pragma_table_info(?)`, table).Scan(&have); err != nil {
			t.Fatal(err)
		}
		if want := `"session", ` + columns; have != want {
			t.Errorf("%s has %s, want %s", table, have, want)
		}
		text := s.FigureSQL(table, store.FigureQuery{Tenant: "it's", Session: "a?b\x1b[2J", Agent: "a", Model: "m", Since: time.Unix(1, 0)})
		if _, err := s.readers.ExecContext(t.Context(), text); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		if strings.Contains(text, "\x1b") || !strings.Contains(text, "CAST(x'613f621b5b324a' AS TEXT)") {
			t.Errorf("a terminal would act on %q", text)
		}
	}
	if got := s.FigureSQL("rows", store.FigureQuery{}); got != "" {
		t.Errorf("of a table that there is not: %s", fmt.Sprint(got))
	}
}
