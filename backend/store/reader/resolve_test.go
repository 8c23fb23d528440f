package reader_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// TestResolve: what names a session wins in the order that Resolve has.
func TestResolve(t *testing.T) {
	s := memstore.New()
	key := func(id string) session.Key { return session.Key{ID: id} }
	put := func(row session.Row, last time.Time) {
		t.Helper()
		must.Do(t, s.Put(t.Context(), session.Batch{Rows: []session.Row{row}}))
		m, err := s.Revision(t.Context(), row.Session)
		if err == nil && !last.IsZero() {
			err = s.SetSummary(t.Context(), row.Session, store.SummaryUpdate{Revision: m, Summary: session.Summary{Last: last}})
		}
		must.Do(t, err)
	}
	wantErr := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := (&reader.Reader{Store: s}).Resolve(t.Context(), "last")
	wantErr("last of none", err, store.ErrNotFound)
	hexID := storetest.Row(key(""), 200).Trace.String()
	for i, id := range []string{"abc-1", "abc-2", "abd", "abc", hexID[:16]} {
		put(storetest.Row(key(id), 100*i+100), time.Unix(int64(100-i), 0))
	}
	put(storetest.Row(session.Key{Tenant: "t", ID: "abc"}, 7), time.Time{})
	for ref, want := range map[string]string{
		"abc": "abc", "abc-1": "abc-1", "abd": "abd", "last": "abc-1", hexID[:3]: hexID[:16], hexID[:16]: hexID[:16],
		hexID: "abc-2", strings.ToUpper(hexID): "abc-2", storetest.Row(key(""), 300).Span.String(): "abd",
	} {
		if got, err := (&reader.Reader{Store: s}).Resolve(t.Context(), ref); err != nil || got != key(want) {
			t.Errorf("Resolve %q: %v, %v; want %q", ref, got, err, want)
		}
	}
	tenant := &reader.Reader{Store: s, Tenant: "t"}
	if got, err := tenant.Resolve(t.Context(), "a"); err != nil || got != (session.Key{Tenant: "t", ID: "abc"}) {
		t.Errorf("Resolve in a tenant: %v, %v", got, err)
	}
	_, err = (&reader.Reader{Store: s}).Resolve(t.Context(), "abc-")
	wantErr("abc-", err, store.ErrAmbiguous)
	if err == nil || !strings.Contains(err.Error(), `"abc-1", "abc-2"`) || !strings.Contains(err.Error(), `"abc-"`) {
		t.Errorf("error %v must name the reference and the candidates", err)
	}
	for _, ref := range []string{"", "nope", strings.Repeat("0", 32), strings.Repeat("0", 16)} {
		_, err := (&reader.Reader{Store: s}).Resolve(t.Context(), ref)
		wantErr(ref, err, store.ErrNotFound)
		if err != nil && !strings.Contains(err.Error(), strconv.Quote(ref)) {
			t.Errorf("error %v must name the reference %q", err, ref)
		}
	}
}

// What is wrong with several names is one error, which is each of them.
func TestWithSubAgentsErrors(t *testing.T) {
	rd := &reader.Reader{Store: memstore.New()}
	_, err := rd.WithSubAgents(t.Context(), []string{"one", "two"}, false)
	if !errors.Is(err, store.ErrNotFound) || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("%v, want a line a name, and %v", err, store.ErrNotFound)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rd.WithSubAgents(ctx, []string{"one"}, false); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

// A run whose process is gone is aborted, as its session is, in the whole session and alone; the tree stays as it is.
func TestNarrowStatuses(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	s := &session.Session{ID: "s", Status: spans.SessionStatusBusy, Last: at, Runs: []*session.Run{{
		Status: spans.RunStatusOpen,
		Span:   session.Span{Start: at, Known: spans.KnownLive, HeartbeatNS: int64(time.Second)},
	}}}
	for after, want := range map[time.Duration]string{time.Second: "busy open", time.Minute: "aborted aborted"} {
		for _, run := range []*session.Run{nil, s.Runs[0]} {
			n := reader.Narrow(s, run, nil, at.Add(after))
			if got := string(n.Status) + " " + string(n.Runs[0].Status); got != want {
				t.Errorf("after %s: %s, want %s", after, got, want)
			}
		}
	}
	if s.Runs[0].Status != spans.RunStatusOpen {
		t.Errorf("the run of the tree is %s", s.Runs[0].Status)
	}
}
