package sqlitestore

import (
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// BenchmarkFilters lists the newest 50 of 100,000 sessions that a filter selects: many, one of a thousand, or none, for
// which all are looked at.
func BenchmarkFilters(b *testing.B) {
	path, err := largeStore()
	if err != nil {
		b.Fatal(err)
	}
	s, err := OpenReadOnly(b.Context(), path)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, c := range []struct {
		name string
		q    store.Query
		want int
	}{
		{"notArchived", store.Query{Archived: store.ArchivedNot, Limit: 50}, 50},
		{"agentOfMany", store.Query{Agent: "coder", Limit: 50}, 50},
		{"agentOfFew", store.Query{Agent: "reviewer", Limit: 50}, 50},
		{"errors", store.Query{Errors: true, Limit: 50}, 50},
		{"statusNow", store.Query{Status: []spans.SessionStatus{spans.SessionStatusBusy}, Now: time.Now(), Limit: 50}, 0},
		{"minCost", store.Query{MinCost: 1, Limit: 50}, 0},
		{"search", store.Query{Search: "number 77777 of", Limit: 50}, 1},
		{"searchNothing", store.Query{Search: "no such text", Limit: 50}, 0},
		{"secondPage", store.Query{Limit: 50, After: &store.Cursor{Last: time.Unix(0, 50_000_000_000)}}, 50},
		{"countArchived", store.Query{Archived: store.ArchivedOnly}, 10_000 + 3},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range s.Sessions(b.Context(), c.q) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != c.want {
					b.Fatalf("%d sessions, want %d", n, c.want)
				}
			}
		})
	}
}
