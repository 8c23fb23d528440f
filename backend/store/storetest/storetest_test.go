package storetest_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/backend/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRoundRobin opens one file three times, as three collectors would.
func TestRoundRobin(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs the whole suite over three stores of one SQLite file")
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		path := filepath.Join(t.TempDir(), "s.db")
		var stores []store.Store
		for range 3 {
			s, err := sqlitestore.Open(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			stores = append(stores, s)
		}
		return storetest.RoundRobin(stores...)
	})
}

// TestRoundRobinOfOne shows that RoundRobin changes nothing.
func TestRoundRobinOfOne(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store {
		return storetest.RoundRobin(memstore.New())
	})
}
