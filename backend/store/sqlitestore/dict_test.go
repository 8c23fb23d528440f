package sqlitestore_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// makeDict names the file that TestMakeDict writes a dictionary to. That of a released schema never changes.
var makeDict = flag.String("make-dict", "", "write a dictionary for rows to this file")

// recorded returns what a store gets of a recording of phi-core, content captured.
func recorded(tb testing.TB, f phifixtures.Fixture) session.Batch {
	tb.Helper()
	p := agenttest.New(tb, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range phi.Events(bytes.NewReader(f.Events)) {
		if err != nil {
			tb.Fatal(err)
		}
		rec.Record(context.Background(), ev)
	}
	rec.Close(context.Background())
	return p.Batch()
}

// TestMakeDict makes a dictionary of rows of the recordings: those that differ most from what stands in it already,
// without ids, times and content. What is most usual stands at the end, where it is named with the fewest bytes. blank
// takes what no two sessions share from a row: ids, times, and everything that was written by anybody. Names and words
// of a few letters stay, and the configuration of a model: models and tools are called alike everywhere.
func blank(r session.Row) *session.Row {
	r.Trace, r.Span, r.Parent, r.Session, r.Run, r.RunStart = session.TraceID{}, session.SpanID{}, session.SpanID{},
		session.Key{}, "", 0
	r.Start, r.End, r.Seq, r.EndSeq, r.Service = 0, 0, 0, 0, "unknown_service:"
	attrs := make([]session.Attr, 0, len(r.Attrs))
	for _, a := range r.Attrs {
		known, ok := spans.Lookup(attribute.Key(a.Key))
		own := strings.HasPrefix(a.Key, "otelagent.")
		keep := known.Class == spans.ClassEnum || known.Class == spans.ClassName && !own && len(a.Value.Str()) < 24 ||
			known.Key == spans.RunConfigKey || known.Key == spans.RunConfigAPIKey
		if ok && !keep && a.Value.Type() == session.TypeString {
			a.Value = session.StringValue("")
		}
		attrs = append(attrs, a)
	}
	r.Attrs = attrs
	lists := make([]session.List, 0, len(r.Lists))
	for _, l := range r.Lists {
		lists = append(lists, session.List{Name: l.Name, Count: l.Count})
	}
	r.Lists, r.Events = lists, nil
	return &r
}

func TestMakeDict(t *testing.T) {
	if *makeDict == "" {
		t.Skip("writes the dictionary, with -make-dict only")
	}
	var rows []session.Row
	for _, f := range phifixtures.All(t, "../../..") {
		rows = append(rows, recorded(t, f).Rows...)
	}
	var dict []byte
	for _, r := range rows {
		text := blank(r).AppendCanonical(nil)
		if len(dict) > 0 && len(s2.MakeDict(dict, nil).Encode(nil, text)) < len(text)/5 {
			continue
		}
		dict = append(text, dict...)
	}
	// What no recording has stands in front, where it costs nothing: keys that other loops set.
	all := session.Row{}
	for _, a := range spans.Attributes() {
		if !bytes.Contains(dict, []byte(a.Key)) {
			all.Attrs = append(all.Attrs, session.Attr{Key: string(a.Key), Value: session.StringValue("")})
		}
	}
	// Names of lists and ways of their items, in the order of a turn.
	for _, name := range strings.Fields("messages outside metadata rules sections summary before after " +
		"args request params input output results") {
		items := []string{"AAAAAAAAAAA t:12:u:0 @12", "AAAAAAAAAAA t:12:a:0 @12", "AAAAAAAAAAA t:12:r:0 @12"}
		if name == "params" {
			items = []string{"AAAAAAAAAAA system", "AAAAAAAAAAA tools", "AAAAAAAAAAA rest", "AAAAAAAAAAA frame"}
		}
		all.Lists = append(all.Lists, session.List{Name: name, Count: int64(len(items)), Items: items})
	}
	dict = append(all.AppendCanonical(nil), dict...)
	d := s2.MakeDict(dict, nil)
	t.Logf("%d rows, %d bytes", len(rows), len(dict))
	if err := os.WriteFile(*makeDict, d.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
