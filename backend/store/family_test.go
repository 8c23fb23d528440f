package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
)

func TestDescendants(t *testing.T) {
	st := memstore.New()
	for i, c := range []struct{ tenant, id, parent string }{
		{"", "p", ""}, {"", "c1", "p"}, {"", "c2", "p"}, {"", "g1", "c1"}, {"", "gg", "g1"}, {"", "other", ""},
		{"", "r1", "r3"}, {"", "r2", "r1"}, {"", "r3", "r2"}, {"", "self", "self"}, {"", "orphan", "gone"}, {"t", "c9", "p"},
	} {
		k := session.Key{Tenant: c.tenant, ID: c.id}
		must.Do(t, st.Put(t.Context(), session.Batch{Rows: []session.Row{storetest.Row(k, i)}}))
		mark := must.Get(st.Revision(t.Context(), k))(t)
		p := store.SummaryUpdate{Revision: mark, Summary: session.Summary{Parent: c.parent, Last: time.Unix(int64(100-i), 0)}}
		must.Do(t, st.SetSummary(t.Context(), k, p))
	}
	for of, want := range map[session.Key]string{
		{ID: "p"}:              "c1 c2 g1 gg", // nearest first
		{ID: "c1"}:             "g1 gg",
		{ID: "gg"}:             "",
		{ID: "r1"}:             "r2 r3", // a ring, each once and not itself
		{ID: "self"}:           "",
		{ID: "gone"}:           "orphan", // not there any more itself
		{ID: "none"}:           "",
		{Tenant: "t", ID: "p"}: "c9",
	} {
		got := must.Get(store.Descendants(t.Context(), st, of, false))(t)
		var ids []string
		for _, k := range got {
			if k.Tenant != of.Tenant {
				t.Errorf("of %v: %v of another tenant", of, k)
			}
			ids = append(ids, k.ID)
		}
		if fmt.Sprint(ids) != fmt.Sprint(strings.Fields(want)) {
			t.Errorf("of %v: %v, want %v", of, ids, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := store.Descendants(ctx, st, session.Key{ID: "p"}, false); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
