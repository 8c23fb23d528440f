package search

import (
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// What came in of a reply is found when its process is gone, with or without heartbeats, and also when the session went
// on.
func TestWhatWasOpen(t *testing.T) {
	const start = 1_760_000_000_000_000_000
	run := func(id string, at int64, known spans.Known, kv ...session.Attr) session.Row {
		return session.Row{
			Trace: session.TraceID{1}, Span: session.SpanID{id[0]}, Session: session.Key{ID: "s"}, Run: id, RunStart: at,
			Turn: session.NoTurn, Kind: session.KindRun,
			Known: known, Start: at, End: at + 1e9, Attrs: kv,
		}
	}
	turn := run("a", start, spans.KnownLive, session.Attr{Key: session.PartialOutputKey,
		Value: session.StringsValue([]string{"half a sentence"})})
	turn.Span, turn.Parent, turn.Turn, turn.Kind = session.SpanID{1}, turn.Span, 0, session.KindTurn
	silent := run("a", start, spans.KnownLive)
	beating := run("a", start, spans.KnownLive, session.Attr{Key: string(spans.LiveHeartbeatKey),
		Value: session.IntValue(15e9)})
	ended := func(status string) session.Row {
		return run("b", start+1000e9, spans.KnownObserved,
			session.Attr{Key: "otelagent.run.status", Value: session.StringValue(status)})
	}
	for name, rows := range map[string][]session.Row{
		"killed":                          {beating, turn},
		"without heartbeats":              {silent, turn},
		"killed, and one that ended":      {beating, turn, ended("completed")},
		"killed, and one that failed":     {beating, turn, ended("error")},
		"killed, and one that was broken": {beating, turn, ended("aborted")},
		"without heartbeats, and one":     {silent, turn, ended("completed")},
	} {
		st := memstore.New()
		must.Do(t, st.Put(t.Context(), session.Batch{Rows: rows}))
		must.Do(t, project.Refresh(t.Context(), st))
		res, err := Run(t.Context(), st, Options{Text: "half a"})
		if err != nil || len(res.Hits) != 1 || res.Hits[0].Address != "s/@1/0" {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}
