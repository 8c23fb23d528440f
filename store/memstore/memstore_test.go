package memstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/store"
	"github.com/otelagent/otelagent/store/memstore"
	"github.com/otelagent/otelagent/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memstore.New() })
}
