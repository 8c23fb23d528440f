package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/inspect"
	"github.com/otelagent/otelagent/session"
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
