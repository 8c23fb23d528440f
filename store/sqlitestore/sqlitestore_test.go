package sqlitestore

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/store"
	"github.com/otelagent/otelagent/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore(t *testing.T, path string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return newStore(t, filepath.Join(t.TempDir(), "x.db")) })
}
