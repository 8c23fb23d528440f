package storetest_test

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTogether opens one file three times, as three collectors would.
func TestTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	var stores []store.Store
	for range 3 {
		s := must.Get(sqlitestore.Open(t.Context(), path))(t)
		defer s.Close()
		stores = append(stores, s)
	}
	storetest.Together(t, stores...)
}
