// Package retention decides which sessions go, and lets a store delete them.
package retention

import (
	"context"
	"time"

	"github.com/otelagent/otelagent/store"
)

// Policy says what is kept. Zero fields do not bound; the zero Policy keeps everything.
type Policy struct {
	// MaxAge deletes sessions whose last row is older.
	MaxAge time.Duration
	// MaxSessions keeps the newest of each tenant.
	MaxSessions int64
	// MaxBytes deletes the oldest sessions of all tenants until the store's Size is below. It needs a store.Sizer.
	MaxBytes int64
	// Families keeps a session as long as any of its family, and deletes the family together: the sessions that
	// Summary.Parent joins, parents and sub-agents.
	Families bool
}

// Result is what one Apply did.
type Result struct {
	// Sessions were deleted, of which ByAge, BySessions and ByBytes say why.
	Sessions, ByAge, BySessions, ByBytes int
}

// Apply deletes what p does not keep, the oldest first, and returns what it did, also with an error. It holds no transaction between two
// sessions. now is what ages count from.
func Apply(ctx context.Context, st store.Store, now time.Time, p Policy) (Result, error) {
	return Result{}, nil
}
