package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

const figureStart = 1_700_000_000_000_000_000

// FiguresFor returns figures of a session with n turns: of each kind one with everything known, and others with what
// may be not.
func FiguresFor(k session.Key, n int) session.Figures {
	num := session.Some[int64]
	full := session.Figures{
		Turns: []session.TurnFigures{{
			Session: k.ID, Run: "r", RunStart: figureStart, Turn: 0, Start: figureStart + 1,
			End: num(figureStart + 5_000_000_000), ModelCall: num(4_000_000_000), FirstChunk: num(700_000_000),
			Agent: "coder", Provider: "anthropic", Model: "claude-opus-4-6", ResponseModel: "claude-opus-4-6-20260101",
			StopReason: "tool_use", Failed: true, ErrorType: "rate_limit", Attempts: num(2),
			Input: num(1000), Output: num(200), Reasoning: num(0), CacheRead: num(900), CacheWrite: num(50),
			Cost: session.Some(0.0125), Currency: "USD",
			RequestMessages: num(3), RequestBytes: num(1 << 40), ToolCalls: 2, Trace: "00000000000000000000000000000009",
		}},
		ToolCalls: []session.ToolCallFigures{
			{Session: k.ID, Run: "r", RunStart: figureStart, Turn: num(0), Call: "c1", Start: figureStart + 2,
				End: num(figureStart + 9), Agent: "coder", Model: "claude-opus-4-6", Tool: "bash", Outcome: "error", Failed: true},
			{Session: k.ID, Run: "r", RunStart: figureStart, Call: "", Start: figureStart + 3},
		},
		Compactions: []session.CompactionFigures{
			{Session: k.ID, Run: "r", RunStart: figureStart, Turn: num(0), Start: figureStart + 4, End: num(figureStart + 6),
				Kind: "summary", Trigger: "limit", InputTokens: num(9000), OutputTokens: num(0), MessagesBefore: num(40),
				MessagesAfter: num(4), UsedInput: num(8000), UsedOutput: num(300), LowerBound: true,
				Cost: session.Some(0.0057), Currency: "USD"},
			{Session: k.ID, Run: "r", RunStart: figureStart, Start: figureStart + 7},
		},
		Permissions: []session.PermissionFigures{
			{Session: k.ID, Run: "r", RunStart: figureStart, Turn: num(0), At: figureStart + 5, Wait: num(12), Tool: "bash",
				Action: "deny", Source: "project"},
			{Session: k.ID, Run: "r", RunStart: figureStart, At: figureStart + 6},
		},
	}
	for i := 1; i < n; i++ {
		full.Turns = append(full.Turns, session.TurnFigures{Session: k.ID, Run: "r", RunStart: figureStart, Turn: int64(i),
			Start: figureStart + int64(i)*1e9, Model: "gpt"})
	}
	return full
}

func of[T any](t *testing.T, s store.Store, table *store.FigureTable, q store.FigureQuery) []T {
	t.Helper()
	q.Table = table
	return collect(t, store.Figures[T](t.Context(), s, q))
}

// allFigures reads what q selects, in an order of its own.
func allFigures(t *testing.T, s store.Store, q store.FigureQuery) session.Figures {
	t.Helper()
	return sortFigures(session.Figures{
		Turns:       of[session.TurnFigures](t, s, store.TurnTable, q),
		ToolCalls:   of[session.ToolCallFigures](t, s, store.ToolCallTable, q),
		Compactions: of[session.CompactionFigures](t, s, store.CompactionTable, q),
		Permissions: of[session.PermissionFigures](t, s, store.PermissionTable, q),
	})
}

func sortFigures(f session.Figures) session.Figures {
	byText(f.Turns)
	byText(f.ToolCalls)
	byText(f.Compactions)
	byText(f.Permissions)
	return f
}

func byText[T any](l []T) {
	slices.SortFunc(l, func(a, b T) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

func join(list ...session.Figures) (all session.Figures) {
	for _, f := range list {
		all.Turns = append(all.Turns, f.Turns...)
		all.ToolCalls = append(all.ToolCalls, f.ToolCalls...)
		all.Compactions = append(all.Compactions, f.Compactions...)
		all.Permissions = append(all.Permissions, f.Permissions...)
	}
	return sortFigures(all)
}

func figures(t *testing.T, s store.Store) {
	a, b := key("a"), key("b")
	for i, k := range []session.Key{a, b} {
		put(t, s, []session.Row{Row(k, i)})
	}
	equal(t, "never projected", allFigures(t, s, store.FigureQuery{}), session.Figures{})
	wrong := FiguresFor(session.Key{ID: "somebody"}, 3)
	project(t, s, a, store.SummaryUpdate{Revision: mark(t, s, a), Figures: wrong})
	project(t, s, b, store.SummaryUpdate{Revision: mark(t, s, b), Figures: FiguresFor(b, 1)})
	equal(t, "what was given stays as it was", wrong.Turns[0].Session, "somebody")
	equal(t, "all", allFigures(t, s, store.FigureQuery{}), join(FiguresFor(a, 3), FiguresFor(b, 1)))
	for _, c := range []struct {
		q    store.FigureQuery
		want string
	}{
		{store.FigureQuery{}, "3 2 2 2"},
		{store.FigureQuery{Tool: "bash"}, "3 1 2 1"},
		{store.FigureQuery{Model: "claude-opus-4-6"}, "1 1 2 2"},
		{store.FigureQuery{Provider: "anthropic", Agent: "coder"}, "1 1 2 2"},
		{store.FigureQuery{Tool: "bash", Model: "gpt"}, "2 0 2 1"},
		{store.FigureQuery{Since: time.Unix(0, figureStart+5)}, "2 0 1 2"},
		{store.FigureQuery{Since: time.Unix(0, figureStart+1e9+1)}, "1 0 0 0"},
		{store.FigureQuery{Since: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, "0 0 0 0"},
		{store.FigureQuery{Since: time.Date(1300, 1, 1, 0, 0, 0, 0, time.UTC)}, "3 2 2 2"},
	} {
		c.q.Session = "a"
		f := allFigures(t, s, c.q)
		counts := fmt.Sprint(len(f.Turns), len(f.ToolCalls), len(f.Compactions), len(f.Permissions))
		equal(t, fmt.Sprintf("%+v", c.q), counts, c.want)
	}
	q := store.FigureQuery{Session: "b", Columns: []string{"input", "cost", "failed", "model", "session",
		"no such column"}}
	equal(t, "some columns", of[session.TurnFigures](t, s, nil, q), []session.TurnFigures{
		{Session: "b", Input: session.Some[int64](1000), Cost: session.Some(0.0125), Failed: true, Model: "claude-opus-4-6"},
	})
	q.Columns = []string{}
	equal(t, "no columns", of[session.TurnFigures](t, s, nil, q), []session.TurnFigures{{}})
}
