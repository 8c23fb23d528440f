package otlprow

import (
	"strconv"
	"strings"
	"testing"
	"time"

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
	if len(r.Attrs) != 4 { // two of them from its lists; previews are not kept where the blocks are
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
	if diff := cmp.Diff(Report{Spans: 5, Stored: 3, Foreign: 2}, report); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := session.Row{
		Trace: session.TraceID{1}, Span: session.SpanID{0xf2, 0xfc, 0x0b, 0x69, 0x36, 0xe6, 0x1d, 0xbc},
		Parent: session.SpanID{2}, Session: sessionKey, Run: "r1", RunStart: 900, Turn: 4, Kind: session.KindPayload,
		Known: spans.KnownObserved,
		Start: 1500, End: 1500, Service: "coder",
		Attrs: []session.Attr{{Key: "custom", Value: session.StringValue("kept")}},
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
	for _, c := range []struct {
		reason string
		spoil  func(plog.LogRecord)
	}{
		{ReasonNoSession, func(r plog.LogRecord) { r.Attributes().Remove("session.id") }},
		{ReasonTraceID, func(r plog.LogRecord) { r.SetTraceID(pcommon.TraceID{}) }},
		{ReasonSpanID, func(r plog.LogRecord) { r.SetSpanID(pcommon.SpanID{}) }},
		{ReasonRunStart, func(r plog.LogRecord) { r.Attributes().Remove("otelagent.run.start") }},
		{ReasonTimes, func(r plog.LogRecord) { r.SetTimestamp(0) }},
	} {
		ld, r := oneRecord()
		c.spoil(r)
		batch, report := DecodeLogs(ld)
		want := Report{Spans: 1, Rejected: map[string]int{c.reason: 1}, Rejections: []Rejection{{
			Reason: c.reason, Name: spans.EventBlocks, Service: "coder", Trace: session.TraceID(r.TraceID()),
			Span:    session.SpanID(r.SpanID()),
			Session: session.Key{Tenant: "acme", ID: str(first(r.Attributes(), "session.id"))},
		}}}
		if diff := cmp.Diff(want, report); diff != "" || len(batch.Blocks) > 0 {
			t.Errorf("%s: %d blocks, -want +got:\n%s", c.reason, len(batch.Blocks), diff)
		}
	}
}

// A record of nothing but attributes costs time in proportion to them: 0.2 s here, and half a minute if each looked
// at all others.
func TestDecodeLogsManyAttributes(t *testing.T) {
	const n = 100_000
	ld, r := oneRecord()
	raw := r.Attributes().AsRaw()
	for i := range n {
		raw[strconv.Itoa(i)] = i
	}
	if err := r.Attributes().FromRaw(raw); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	batch, report := DecodeLogs(ld)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if report.Stored != 1 || report.Cut != n+1-maxAttrs || len(batch.Blocks) != 1 {
		t.Errorf("%+v, %d blocks", report, len(batch.Blocks))
	}
}

// The id of a record's row covers all of it, whatever the order of its keys.
func TestRecordID(t *testing.T) {
	seen := map[session.SpanID]string{}
	for _, text := range []string{"", "a", "b"} {
		for _, raw := range []any{nil, true, false, 1, 2, 1.5, "x", []byte("x"), []any{"x"}, []any{},
			map[string]any{"k": "x"}, map[string]any{"k": "y", "l": 1}} {
			_, r := oneRecord()
			r.Attributes().PutStr("text", text)
			if err := r.Attributes().PutEmpty("raw").FromRaw(raw); err != nil {
				t.Fatal(err)
			}
			id := recordID(r, spans.EventBlocks, 1)
			if seen[id] != "" {
				t.Errorf("%q and %v have the id of %s", text, raw, seen[id])
			}
			seen[id] = text + " and another value"
			_, other := oneRecord()
			other.Attributes().Clear()
			for _, k := range []string{"raw", "text"} {
				v, _ := r.Attributes().Get(k)
				v.CopyTo(other.Attributes().PutEmpty(k))
			}
			for k, v := range r.Attributes().All() {
				if k != "raw" && k != "text" {
					v.CopyTo(other.Attributes().PutEmpty(k))
				}
			}
			if recordID(other, spans.EventBlocks, 1) != id {
				t.Errorf("%q and %v: the order of keys counts", text, raw)
			}
		}
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
		rejected := 0
		for _, n := range report.Rejected {
			rejected += n
		}
		if report.Spans != report.Stored+report.Foreign+rejected || report.Stored != len(batch.Rows) {
			t.Fatalf("counts do not add up: %+v, %d rows", report, len(batch.Rows))
		}
		again, _ := DecodeLogs(ld)
		if diff := cmp.Diff(batch, again, compared); diff != "" {
			t.Fatal(diff)
		}
		session.Assemble(batch.Rows)
	})
}
