package sqlitestore

import (
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// BenchmarkFilters lists the newest 50 of 100,000 sessions that a filter selects: those that run now, by an index, and
// those with a text that none has, for which all are examined.
func BenchmarkFilters(b *testing.B) {
	path := must.Get(largeStore())(b)
	s := must.Get(OpenReadOnly(b.Context(), path))(b)
	defer s.Close()
	for _, c := range []struct {
		name string
		q    store.Query
		want int
	}{
		{"statusNow", store.Query{Status: []spans.SessionStatus{spans.SessionStatusBusy}, Now: time.Now(), Limit: 50}, 0},
		{"searchNothing", store.Query{Search: "no such text", Limit: 50}, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				n := 0
				for _, err := range s.Sessions(b.Context(), c.q) {
					must.Do(b, err)
					n++
				}
				if n != c.want {
					b.Fatalf("%d sessions, want %d", n, c.want)
				}
			}
		})
	}
}
