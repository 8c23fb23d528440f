package sqlitestore

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

const figureTurns = 10_000

// longFigures are those of a session of 10,000 turns with two tool calls and a permission evaluation each.
func longFigures(turns int) (f session.Figures) {
	num := session.Some[int64]
	for i := range int64(turns) {
		start := 1_700_000_000_000_000_000 + i*10_000_000_000
		f.Turns = append(f.Turns, session.TurnFigures{
			Run: "0194f3c2-6a1b-7c3d-9e4f-0123456789ab.cfg.1", RunStart: 1_700_000_000_000_000_000, Turn: i, Start: start,
			End: num(start + 9_000_000_000), ModelCall: num(7_000_000_000),
			Agent: "coder", Provider: "anthropic", Model: "claude-opus-4-6", ResponseModel: "claude-opus-4-6-20260101",
			StopReason: "tool_use", Attempts: num(1),
			Input: num(12_345 + i), Output: num(678), Reasoning: num(0), CacheRead: num(12_000), CacheWrite: num(300),
			RequestMessages: num(i), RequestBytes: num(40_000 + 100*i), ToolCalls: 2,
		})
		for j := range int64(2) {
			f.ToolCalls = append(f.ToolCalls, session.ToolCallFigures{
				Run: "0194f3c2-6a1b-7c3d-9e4f-0123456789ab.cfg.1", RunStart: 1_700_000_000_000_000_000, Turn: num(i),
				Call: fmt.Sprintf("toolu_%024d", 2*i+j), Start: start + j, End: num(start + 1_000_000 + j),
				Agent: "coder", Model: "claude-opus-4-6", Tool: "bash", Outcome: "ok",
			})
		}
		f.Permissions = append(f.Permissions, session.PermissionFigures{
			Run: "0194f3c2-6a1b-7c3d-9e4f-0123456789ab.cfg.1", RunStart: 1_700_000_000_000_000_000, Turn: num(i), At: start,
			Tool: "bash", Action: "allow", Source: "project",
		})
	}
	return f
}

// BenchmarkProject projects a session of 10,000 turns: the first time, and with one turn more. The floors are inserting
// the same 40,000 records with nothing to compare, and reading them.
func BenchmarkProject(b *testing.B) {
	f := longFigures(figureTurns)
	k := session.Key{ID: "long"}
	open := func(b *testing.B) *Store {
		s, err := Open(context.Background(), filepath.Join(b.TempDir(), "x.db"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		if err := s.Put(context.Background(), session.Batch{Rows: []session.Row{benchRow(k, 1)}}); err != nil {
			b.Fatal(err)
		}
		return s
	}
	project := func(b *testing.B, s *Store, f session.Figures) {
		m, err := s.Revision(context.Background(), k)
		if err == nil {
			err = s.SetSummary(context.Background(), k, store.SummaryUpdate{Revision: m, Figures: f})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s := open(b)
			b.StartTimer()
			project(b, s, f)
		}
	})
	grown := open(b)
	project(b, grown, f)
	b.Run("one-more", func(b *testing.B) {
		n := figureTurns
		for b.Loop() {
			n++
			f.Turns = append(f.Turns, session.TurnFigures{Run: "r", Turn: int64(n), Start: int64(n)})
			project(b, grown, f)
		}
	})
}
