package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Titles stand where agents do where there is no room for both, and what is archived says so.
func TestListTitles(t *testing.T) {
	list := []session.Summary{
		{
			Key: session.Key{ID: "ses_1"}, Status: spans.SessionStatusBusy, Agent: "coder", Title: "Fix the parser\x1b[31m for ranges that go backwards and a title that goes on",
			Model: "claude-sonnet-4-5", Start: at(0), Last: at(577), Runs: 4, Turns: 8, ToolCalls: 6, Cost: 0.125, Currency: "USD",
		},
		{Key: session.Key{ID: "ses_2"}, Status: spans.SessionStatusIdle, Agent: "reviewer", Start: at(0), Last: at(400), Runs: 1, Archived: true, ForkedFrom: "ses_1"},
	}
	for _, width := range []int{80, 160} {
		var b strings.Builder
		if err := inspect.List(&b, list, inspect.Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		golden(t, fmt.Sprintf("list-titles-%d.txt", width), b.String())
	}
}

// Columns that a filter asks for are in narrow lists too, and an unknown value is no zero.
func TestListColumns(t *testing.T) {
	list := []session.Summary{
		{
			Key: session.Key{ID: "ses_1"}, Status: spans.SessionStatusBusy, Agent: "an agent with a long name", Start: at(0), Last: at(577), Runs: 4, Turns: 8, ToolCalls: 6,
			Errors: 3, Denied: 2, Cost: 0.125, Currency: "USD", Usage: session.Usage{Input: 12_345, Output: 678},
		},
		{Key: session.Key{ID: "no time, no tokens, no agent"}, Status: spans.SessionStatusIdle, Runs: 1, Turns: 2},
		{Key: session.Key{ID: "1970"}, Status: spans.SessionStatusIdle, Start: time.Unix(0, 1).UTC(), Last: time.Unix(1, 0).UTC(), Runs: 1},
		{Key: session.Key{ID: "just-arrived"}},
	}
	var b strings.Builder
	for _, columns := range [][]string{{inspect.ListCost}, {inspect.ListErrors, inspect.ListDenied}, {inspect.ListErrors, inspect.ListDenied, inspect.ListCost}} {
		fmt.Fprintln(&b, strings.Join(columns, " "))
		if err := inspect.List(&b, list, inspect.Options{Width: 80, Columns: columns}); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "list-columns-80.txt", b.String())
}

// One long id does not hide the columns of all sessions.
func TestListLongID(t *testing.T) {
	list := []session.Summary{
		{Key: session.Key{ID: strings.Repeat("x", 256)}, Status: spans.SessionStatusIdle, Last: at(400), Turns: 1},
		{Key: session.Key{ID: "ses_2"}, Status: spans.SessionStatusBusy, Last: at(577), Turns: 8},
	}
	for _, width := range []int{80, 160} {
		var b strings.Builder
		if err := inspect.List(&b, list, inspect.Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"LAST", "STATUS", "idle", "busy"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("width %d, no %s:\n%s", width, want, b.String())
			}
		}
	}
}
