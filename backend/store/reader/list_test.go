package reader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// TestList holds that pages hold every session once, with its status as of now, and that relatives are named as
// sessions are everywhere.
func TestList(t *testing.T) {
	ctx := t.Context()
	st := memstore.New()
	begin := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for i, m := range []session.Summary{
		{Key: session.Key{ID: "main-1"}, Status: spans.SessionStatusBusy, HeartbeatNS: int64(time.Second)},
		{Key: session.Key{ID: "child-1"}, Parent: "main-1"},
		{Key: session.Key{ID: "child-2"}, Parent: "main-1"},
		{Key: session.Key{ID: "orphan"}, Parent: "main"}, // which never came, and begins the id of another
		{Key: session.Key{ID: "fork"}, ForkedFrom: "main-1"},
	} {
		m.Start, m.Last = begin, begin.Add(-time.Duration(i)*time.Minute)
		if m.Status == "" {
			m.Status = spans.SessionStatusIdle
		}
		must.Do(t, st.Put(ctx, session.Batch{Rows: []session.Row{storetest.Row(m.Key, i)}}))
		mark := must.Get(st.Revision(ctx, m.Key))(t)
		must.Do(t, st.SetSummary(ctx, m.Key, store.SummaryUpdate{Revision: mark, Summary: m}))
	}
	r := &reader.Reader{Store: st}
	now := begin.Add(time.Hour)
	list := func(q store.Query) string {
		var pages []string
		for {
			l := must.Get(r.List(ctx, &q, now))(t)
			var page []string
			for _, s := range l.Sessions {
				page = append(page, s.ID+" "+string(s.Status))
			}
			pages = append(pages, strings.Join(page, ", "))
			if l.Next == "" {
				return strings.Join(pages, " | ")
			}
			after := must.Get(store.ParseCursor(l.Next))(t)
			q.After = &after
		}
	}
	for _, test := range []struct {
		q    store.Query
		want string
	}{
		{store.Query{}, "main-1 aborted, child-1 idle, child-2 idle, orphan idle, fork idle"},
		{store.Query{Limit: 2}, "main-1 aborted, child-1 idle | child-2 idle, orphan idle | fork idle"},
		{store.Query{Limit: 5}, "main-1 aborted, child-1 idle, child-2 idle, orphan idle, fork idle"},
		{store.Query{Parent: "main-1"}, "child-1 idle, child-2 idle"},
		{store.Query{Parent: "last", Limit: 1}, "child-1 idle | child-2 idle"},
		{store.Query{Parent: "main"}, "orphan idle"},
		{store.Query{ForkedFrom: "mai"}, "fork idle"},
		{store.Query{Parent: "fork"}, ""},
	} {
		if diff := cmp.Diff(test.want, list(test.q)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.q, diff)
		}
	}
	for _, q := range []store.Query{{Parent: "nobody"}, {ForkedFrom: "nobody"}} {
		if _, err := r.List(ctx, &q, now); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := r.List(ctx, &store.Query{Parent: "child"}, now); !errors.Is(err, store.ErrAmbiguous) {
		t.Error(err)
	}
}

// A related session that is deleted before it is read is left out.
func TestRelatedIsDeleted(t *testing.T) {
	st := memstore.New()
	var main *session.Session
	for i, id := range []string{"main", "gone", "other"} { // of one trace
		row := storetest.Row(session.Key{ID: id}, i)
		row.Kind, row.Turn = session.KindRun, session.NoTurn
		must.Do(t, st.Put(t.Context(), session.Batch{Rows: []session.Row{row}}))
		if i == 0 {
			main = session.Assemble([]session.Row{row})
		}
	}
	r := &reader.Reader{Store: st}
	related, err := r.Related(t.Context(), main, func(ctx context.Context, k session.Key) (session.Tree, error) {
		if k.ID == "gone" {
			return session.Tree{}, fmt.Errorf("read: %w", store.ErrNotFound)
		}
		return r.Load(ctx, k)
	})
	if err != nil || len(related) != 1 || related[0].ID != "other" {
		t.Errorf("%d sessions, %v", len(related), err)
	}
}
