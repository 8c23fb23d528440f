package mapped_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/mapped"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// span returns the row of a span of the GenAI conventions in trace 1. An empty conversation is that of the trace.
func span(n, parent byte, operation, conversation string) session.Row {
	r := session.Row{Trace: session.TraceID{1}, Span: session.SpanID{n}, Turn: session.NoTurn, Kind: session.KindForeign,
		Known: spans.KnownObserved, Start: 1e18 + int64(n), End: 1e18 + 100 - int64(n)}
	if parent > 0 {
		r.Parent = session.SpanID{parent}
	}
	r.Session.ID = conversation
	attrs := []string{"gen_ai.operation.name", operation, foreign.NameKey, operation, foreign.SignalKey, "span",
		foreign.SourceKey, "genai"}
	if conversation == "" {
		r.Session.ID = foreign.TraceSession(r.Trace)
	} else {
		attrs = append(attrs, "gen_ai.conversation.id", conversation)
	}
	for kv := range slices.Chunk(attrs, 2) {
		r.Attrs = append(r.Attrs, session.Attr{Key: kv[0], Value: session.StringValue(kv[1])})
	}
	slices.SortFunc(r.Attrs, func(a, b session.Attr) int { return strings.Compare(a.Key, b.Key) })
	return r
}

func put(t *testing.T, st store.Store, rows ...session.Row) {
	t.Helper()
	must.Do(t, st.Put(t.Context(), session.Batch{Rows: rows}))
}

// A record that names no session changes the revision of the one that it belongs to: pages and watchers notice it.
func TestRevision(t *testing.T) {
	st := memstore.New()
	k := session.Key{ID: "c"}
	put(t, st, span(1, 0, "invoke_agent", "c"), span(2, 1, "chat", "c"))
	tree := func() *session.Session {
		s := must.Get(mapped.Tree(t.Context(), st, k))(t)
		return s
	}
	before := tree()
	at := func() int64 {
		r := must.Get(mapped.Revision(t.Context(), st, k, before.Links))(t)
		return int64(r)
	}
	if at() != before.Links.Revision {
		t.Errorf("revision %d, and %d as it was read", at(), before.Links.Revision)
	}
	for n := range byte(2) { // the first makes the session of the trace, the second is one more record of it
		put(t, st, span(10+n, 1, "execute_tool", ""))
		if at() == before.Links.Revision {
			t.Errorf("record %d changes no revision", n)
		}
		before = tree()
	}
	if calls := before.Runs[0].Turns[0].ToolCalls; len(calls) != 2 {
		t.Errorf("%d tool calls", len(calls))
	}
}

// A name that is on one call alone is no session: what it holds is a part of the session of its trace, and lists
// leave it out.
func TestNameOfOneCall(t *testing.T) {
	st := memstore.New()
	put(t, st, span(1, 0, "invoke_agent", ""), span(2, 1, "chat", "once"), span(3, 1, "chat", ""))
	must.Do(t, project.Refresh(t.Context(), st))
	trace := foreign.TraceSession(session.TraceID{1})
	for range 2 {
		var ids []string
		for s, err := range st.Sessions(t.Context(), store.Query{}) {
			must.Do(t, err)
			ids = append(ids, s.ID)
		}
		if !slices.Equal(ids, []string{trace}) {
			t.Errorf("sessions %q", ids)
		}
		for _, id := range []string{"once", trace} { // in any order, and again
			must.Do(t, project.Session(t.Context(), st, session.Key{ID: id}))
		}
	}
	s, err := mapped.Tree(t.Context(), st, session.Key{ID: trace})
	if err != nil || len(s.Runs) != 1 || len(s.Runs[0].Turns) != 2 || len(s.Links.Parts) != 1 {
		t.Errorf("%+v %v", s, err)
	}
	_, err = (&reader.Reader{Store: st}).Tree(t.Context(), session.Key{ID: "once"})
	if !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), `"once" is part of session "`+trace+`"`) {
		t.Errorf("the name of one call: %v", err)
	}
}

// Two names, each of one call, do not make both disappear.
func TestNamesOfOneCallEach(t *testing.T) {
	st := memstore.New()
	put(t, st, span(1, 0, "chat", "a"), span(2, 0, "chat", "b"))
	turns := 0
	for _, id := range []string{"a", "b"} {
		s := must.Get(mapped.Tree(t.Context(), st, session.Key{ID: id}))(t)
		for _, r := range s.Runs {
			turns += len(r.Turns)
		}
	}
	if turns != 2 {
		t.Errorf("%d turns", turns)
	}
}

// A program with other rules projects again what was mapped by older ones, when it starts and without being asked.
func TestNewRules(t *testing.T) {
	st := memstore.New()
	k := session.Key{ID: "c"}
	put(t, st, span(1, 0, "invoke_agent", "c"), span(2, 1, "chat", "c"))
	must.Do(t, project.Refresh(t.Context(), st))
	mark := must.Get(st.Revision(t.Context(), k))(t)
	old := session.Summary{Key: k, Mapped: "old", Turns: 7}
	must.Do(t, st.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: mark, Summary: old}))
	w := project.NewWorker(st, func(err error) { t.Error(err) })
	defer func() { _ = w.Close(context.Background()) }()
	for deadline := time.Now().Add(30 * time.Second); old.Mapped == "old"; time.Sleep(10 * time.Millisecond) {
		for s, err := range st.Sessions(t.Context(), store.Query{}) {
			must.Do(t, err)
			old = s
		}
		if time.Now().After(deadline) {
			t.Fatal("the session is not projected again")
		}
	}
	if old.Turns != 1 || old.Mapped != foreign.Default().Version() {
		t.Errorf("%+v", old)
	}
}

// A record of a part names the session that shows it. One that no session shows names none.
func TestSpanOfPart(t *testing.T) {
	st := memstore.New()
	put(t, st, span(1, 0, "invoke_agent", "c"), span(2, 1, "chat", "c"), span(3, 1, "execute_tool", ""))
	plumbing := span(4, 0, "unknown", "")
	plumbing.Trace = session.TraceID{2}
	plumbing.Session.ID = foreign.TraceSession(plumbing.Trace)
	put(t, st, plumbing)
	must.Do(t, project.Refresh(t.Context(), st))
	rd := &reader.Reader{Store: st}
	for _, ref := range []string{session.SpanID{2}.String(), session.SpanID{3}.String(), session.TraceID{1}.String()} {
		if got, err := rd.Resolve(t.Context(), ref); got != (session.Key{ID: "c"}) {
			t.Errorf("%s: session %q, %v", ref, got.ID, err)
		}
	}
	if got, err := rd.Resolve(t.Context(), plumbing.Span.String()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a record that no session shows: session %q, %v", got.ID, err)
	}
}
