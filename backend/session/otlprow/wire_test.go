package otlprow

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

var compared = cmp.AllowUnexported(session.Value{})

func event(s ptrace.Span, name string) pcommon.Map {
	e := s.Events().AppendEmpty()
	e.SetName(name)
	return e.Attributes()
}

var sessionKey = session.Key{Tenant: "acme", ID: "s1"}

func bodyBlock(body string) session.Block {
	return session.Block{Session: sessionKey, ID: spans.BlockOfString(body), Body: body}
}

func TestDecodeBlocks(t *testing.T) {
	id := spans.BlockOfString("x").Short().String()
	long := spans.BlockOfString("withheld")
	withheld := spans.Withheld{Block: long, Size: 8, Beginning: "with"}
	td, s := one()
	s.Attributes().PutStr("gen_ai.input.messages", "for eyes")
	s.Attributes().PutStr("gen_ai.tool.call.result", "for eyes")
	a := event(s, spans.EventBlocks)
	bodies := a.PutEmptySlice("otelagent.block.bodies")
	bodies.AppendEmpty().SetStr("body")
	bodies.AppendEmpty().SetEmptyBytes().FromRaw([]byte("\x01" + id))
	bodies.AppendEmpty().SetInt(5)
	putSlice(a, "otelagent.block.withheld", withheld.Encode(), "nothing of the kind", 5)
	putSlice(a, "otelagent.lists", "request.2 9 7 BBBBBBBBBBA\n"+id+" st\n"+strings.Repeat("x", maxValue+1), "no list",
		strings.Repeat("n", maxKey+1)+" 1", "bad\xff 0")
	a = event(s, spans.EventBlocks)
	a.PutStr("otelagent.lists", "input 0")
	a.PutInt("otelagent.block.withheld", 5)
	a.PutStr("otelagent.block.bodies", "one alone")

	batch, report := Decode(td)
	// A body that is a number; what is no withheld block, and a number; an item too long, no list, a long name; a
	// number.
	if diff := cmp.Diff(Report{Spans: 1, Stored: 1, Cut: 7}, report); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r := batch.Rows[0]
	wantLists := []session.List{
		{Name: "request", Attempt: 2, Count: 9, Prefix: "7 BBBBBBBBBBA", Items: []string{id + " st", ""}},
		{Name: "bad\ufffd"},
		{Name: "input"},
	}
	if diff := cmp.Diff(wantLists, r.Lists); diff != "" {
		t.Errorf("lists, -want +got:\n%s", diff)
	}
	wantBlocks := []session.Block{
		{Session: sessionKey, ID: long, Body: "with", Size: 8}, bodyBlock("body"), bodyBlock("\x01" + id),
		bodyBlock("one alone"),
	}
	if diff := cmp.Diff(wantBlocks, batch.Blocks); diff != "" {
		t.Errorf("blocks, -want +got:\n%s", diff)
	}
	if len(r.Attrs) != 4 { // previews are not kept where the blocks are
		t.Errorf("attributes %+v", r.Attrs)
	}
	td, s = one()
	s.Attributes().PutStr("gen_ai.input.messages", "for eyes")
	if batch, _ := Decode(td); batch.Rows[0].Attr(spans.InputMessagesKey).Str() != "for eyes" {
		t.Error("a preview is all that there is, and was left out")
	}
}

// oneRecord returns logs of one good record, and that record.
func oneRecord() (plog.Logs, plog.LogRecord) {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr(string(spans.TenantKey), "acme")
	rl.Resource().Attributes().PutStr("service.name", "coder")
	r := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	r.SetEventName(spans.EventBlocks)
	r.SetTraceID(pcommon.TraceID{1})
	r.SetSpanID(pcommon.SpanID{2})
	r.SetTimestamp(1500)
	a := r.Attributes()
	a.PutStr("session.id", "s1")
	a.PutStr("otelagent.run.id", "r1")
	a.PutInt("otelagent.run.start", 900)
	a.PutInt("otelagent.turn.index", 4)
	a.PutStr("custom", "kept")
	putSlice(a, "otelagent.block.bodies", "body")
	putSlice(a, "otelagent.lists", "input 0")
	return ld, r
}

func TestDecodeLogs(t *testing.T) {
	ld, r := oneRecord()
	records := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
	records.AppendEmpty().SetEventName("foreign")
	records.AppendEmpty().Body().SetStr("a line")
	named := records.AppendEmpty()
	r.CopyTo(named)
	named.SetEventName("")
	named.Attributes().PutStr("event.name", spans.EventBlocks)
	later := records.AppendEmpty()
	r.CopyTo(later)
	later.SetTimestamp(0)
	later.SetObservedTimestamp(1501)

	batch, report := DecodeLogs(ld)
	if diff := cmp.Diff(Report{Spans: 5, Stored: 3, Foreign: 2, Scopes: []ScopeCount{{"", 2}}}, report); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := session.Row{
		Trace: session.TraceID{1}, Span: batch.Rows[0].Span, Parent: session.SpanID{2}, Session: sessionKey, Run: "r1",
		RunStart: 900, Turn: 4, Kind: session.KindPayload, Known: spans.KnownObserved, Start: 1500, End: 1500,
		Service: "coder", Attrs: []session.Attr{{Key: "custom", Value: session.StringValue("kept")}},
		Lists: []session.List{{Name: "input"}},
	}
	if diff := cmp.Diff(want, batch.Rows[0], compared); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if batch.Rows[1].Span != want.Span || batch.Rows[2].Span == want.Span || batch.Rows[2].Start != 1501 {
		t.Errorf("ids %v, %v, %v", batch.Rows[0].Span, batch.Rows[1].Span, batch.Rows[2].Span)
	}
	if diff := cmp.Diff([]session.Block{bodyBlock("body"), bodyBlock("body"), bodyBlock("body")},
		batch.Blocks); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if tree := session.Assemble(batch.Rows); tree.Runs[0].Turns[0].Input == nil {
		t.Error("a record's list is not on its turn")
	}
}

func TestDecodeLogsRejects(t *testing.T) {
	for reason, spoil := range map[string]func(plog.LogRecord){
		ReasonSpanID: func(r plog.LogRecord) { r.SetSpanID(pcommon.SpanID{}) },
		ReasonTimes:  func(r plog.LogRecord) { r.SetTimestamp(0) },
	} {
		ld, r := oneRecord()
		spoil(r)
		batch, report := DecodeLogs(ld)
		want := Report{Spans: 1, Rejected: map[string]int{reason: 1}, Rejections: []Rejection{{
			Reason: reason, Name: spans.EventBlocks, Service: "coder", Trace: session.TraceID(r.TraceID()),
			Span: session.SpanID(r.SpanID()), Session: sessionKey,
		}}}
		if diff := cmp.Diff(want, report); diff != "" || len(batch.Blocks) > 0 {
			t.Errorf("%s: %d blocks, -want +got:\n%s", reason, len(batch.Blocks), diff)
		}
	}
}

// The id of a record's row covers all of it, whatever the order of its keys.
func TestRecordID(t *testing.T) {
	seen := map[pcommon.SpanID]any{}
	for _, raw := range []any{nil, true, 1, 1.5, "x", []byte("x"), []any{"x"}, []any{}, map[string]any{"k": "x", "l": 1}} {
		_, r := oneRecord()
		_, other := oneRecord()
		other.Attributes().Clear()
		for _, to := range []plog.LogRecord{other, r} {
			if err := to.Attributes().PutEmpty("raw").FromRaw(raw); err != nil {
				t.Fatal(err)
			}
		}
		_, again := oneRecord()
		for k, v := range again.Attributes().All() {
			v.CopyTo(other.Attributes().PutEmpty(k))
		}
		id := recordID(r, spans.EventBlocks, 1)
		if was, ok := seen[id]; ok || recordID(other, spans.EventBlocks, 1) != id {
			t.Errorf("%v: id of %v, in another order %v", raw, was, recordID(other, spans.EventBlocks, 1))
		}
		seen[id] = raw
	}
}

func FuzzDecodeLogs(f *testing.F) {
	ld, _ := oneRecord()
	b, err := (&plog.ProtoMarshaler{}).MarshalLogs(ld)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		ld, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(b)
		if err != nil {
			return
		}
		batch, report := DecodeLogs(ld)
		checkBatch(t, batch, report)
		again, _ := DecodeLogs(ld)
		if diff := cmp.Diff(batch, again, compared); diff != "" {
			t.Fatal(diff)
		}
	})
}
