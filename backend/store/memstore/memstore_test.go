package memstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSize counts what is there, and nothing of what was replaced.
func TestSize(t *testing.T) {
	s := memstore.New()
	k := session.Key{ID: "a"}
	row, block := storetest.Row(k, 1), storetest.Block(k, "whole")
	live, cut := row, block
	live.Known, live.Service = spans.KnownLive, "a longer name of the service"
	cut.Body, cut.Size = "who", 5
	for _, b := range []session.Batch{
		{Rows: []session.Row{live}, Blocks: []session.Block{cut}},
		{Rows: []session.Row{row, live}, Blocks: []session.Block{block, cut}},
	} {
		must.Do(t, s.Put(t.Context(), b))
		want := int64(len(b.Rows[0].AppendCanonical(nil)) + len(b.Blocks[0].Body))
		for _, size := range []func() (int64, error){
			func() (int64, error) { return s.Size(t.Context(), session.Key{}) },
			func() (int64, error) { return s.Size(t.Context(), k) },
		} {
			if got, err := size(); got != want || err != nil {
				t.Errorf("%d bytes, %v; want %d", got, err, want)
			}
		}
	}
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memstore.New() })
}
