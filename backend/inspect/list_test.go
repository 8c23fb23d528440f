package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// Lists have the columns that there is room for, and those that a filter asks for. A title takes the place of the agent
// where there is no room for both, what is archived says so, an unknown value is no zero, and one long id does not hide
// the columns of all sessions.
func TestList(t *testing.T) {
	key := func(id string) session.Key { return session.Key{ID: id} }
	list := []session.Summary{
		{Key: key("just-arrived")},
		{
			Key: key("0b5cf0a5-6d0e-4f6f-9a51-2f7d8f0f7e11"), Status: spans.SessionStatusAborted, Agent: "coder",
			Model: "claude-sonnet-4-5", Start: at(0), Last: at(577), Runs: 4, Turns: 8, ToolCalls: 6, Errors: 1, Denied: 1,
			Usage: session.Usage{Input: 12_345, Output: 678},
		},
		{
			Key: key("evil\x1b[2J"), Status: spans.SessionStatusIdle, Agent: "日本語のエージェント\x07",
			Start: at(-90_000_000), Last: at(-80_000_000), Runs: 1, Usage: session.Usage{Input: 1_234_567_890},
		},
	}
	titles := []session.Summary{
		{
			Key: key("ses_1"), Status: spans.SessionStatusBusy, Agent: "coder", Model: "claude-sonnet-4-5",
			Title: "Fix the parser\x1b[31m for ranges that go backwards and a title that goes on",
			Start: at(0), Last: at(577), Runs: 4, Turns: 8, ToolCalls: 6, Cost: 0.125, Currency: "USD",
		},
		{
			Key: key("ses_2"), Status: spans.SessionStatusIdle, Agent: "reviewer", Start: at(0), Last: at(400), Runs: 1,
			Archived: true, ForkedFrom: "ses_1",
		},
	}
	odd := []session.Summary{
		{
			Key: key("ses_1"), Status: spans.SessionStatusBusy, Agent: "an agent with a long name", Start: at(0),
			Last: at(577), Runs: 4, Turns: 8, ToolCalls: 6, Errors: 3, Denied: 2, Cost: 0.125, Currency: "USD",
			Usage: session.Usage{Input: 12_345, Output: 678},
		},
		{Key: key("no time, no tokens, no agent"), Status: spans.SessionStatusIdle, Runs: 1, Turns: 2},
		{
			Key: key("1970"), Status: spans.SessionStatusIdle, Start: time.Unix(0, 1).UTC(), Last: time.Unix(1, 0).UTC(),
			Runs: 1,
		},
		{Key: key(strings.Repeat("x", 256)), Status: spans.SessionStatusIdle, Last: at(400), Turns: 1},
	}
	now := at(90_000)
	for _, c := range []struct {
		golden string
		list   []session.Summary
		o      inspect.Options
	}{
		{"list-40.txt", list, inspect.Options{Width: 40, Now: now}},
		{"list-80.txt", list, inspect.Options{Width: 80, Now: now}},
		{"list-160.txt", list, inspect.Options{Width: 160, Now: now}},
		{"list-titles-80.txt", titles, inspect.Options{Width: 80}},
		{"list-titles-160.txt", titles, inspect.Options{Width: 160}}, {"list-odd-160.txt", odd, inspect.Options{Width: 160}},
		{"list-cost-80.txt", odd, inspect.Options{Width: 80, Columns: []string{inspect.ListCost}}},
		{"list-errors-80.txt", odd, inspect.Options{Width: 80, Columns: []string{inspect.ListErrors, inspect.ListDenied}}},
	} {
		var b strings.Builder
		must.Do(t, inspect.List(&b, c.list, c.o))
		golden(t, c.golden, b.String())
	}
}
