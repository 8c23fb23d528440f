package otlprow

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// one returns traces of one good session.turn span, and that span.
func one() (ptrace.Traces, ptrace.Span) {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr(string(spans.TenantKey), "acme")
	rs.Resource().Attributes().PutStr("service.name", "coder")
	s := rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	s.SetName(spans.SpanTurn)
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{2})
	s.SetParentSpanID(pcommon.SpanID{3})
	s.SetStartTimestamp(1000)
	s.SetEndTimestamp(2000)
	a := s.Attributes()
	a.PutStr("session.id", "s1")
	a.PutStr("gen_ai.conversation.id", "s1")
	a.PutStr("otelagent.run.id", "r1")
	a.PutInt("otelagent.run.start", 900)
	a.PutInt("otelagent.turn.index", 4)
	a.PutInt("otelagent.seq", 7)
	a.PutInt("otelagent.end.seq", 9)
	a.PutInt("otelagent.schema", 1)
	a.PutStr("gen_ai.request.model", "m")
	return td, s
}

func putSlice(m pcommon.Map, key string, values ...any) {
	if err := m.PutEmptySlice(key).FromRaw(values); err != nil {
		panic(err)
	}
}

func TestDecode(t *testing.T) {
	td, s := one()
	s.Status().SetCode(ptrace.StatusCodeError)
	s.Attributes().PutStr("otelagent.known", "closed")
	putSlice(s.Attributes(), "list", "a", "b")
	putSlice(s.Attributes(), "mixed", "a", 1, 2.5, nil, true, []byte("x"))
	must.Do(t, s.Attributes().PutEmptyMap("map").FromRaw(map[string]any{"b": 1,
		"a": map[string]any{"<": "\"\xff"}}))

	e := s.Events().AppendEmpty()
	e.SetName(spans.EventBlocks)
	putSlice(e.Attributes(), "otelagent.block.bodies", "one", "tw\xffo")
	putSlice(e.Attributes(), "otelagent.lists", "request.1 2 1 BBBBBBBBBBA\nAAAAAAAAAAA st")
	e = s.Events().AppendEmpty()
	e.SetName(spans.EventOther)
	e.SetTimestamp(1500)
	e.Attributes().PutStr("otelagent.event.type", "Mystery")
	e.Attributes().PutStr("otelagent.event.body", "BBBBBBBBBBB")
	e.Attributes().PutInt("otelagent.event.seq", 8)
	s.Events().AppendEmpty().SetName("exception")

	foreign := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().AppendEmpty()
	foreign.SetName("GET /")

	batch, report := Decode(td)
	if want := (Report{Spans: 2, Stored: 1, Foreign: 1, Scopes: []ScopeCount{{"", 1}}}); !reflect.DeepEqual(report, want) {
		t.Errorf("report %+v, want %+v", report, want)
	}
	key := session.Key{Tenant: "acme", ID: "s1"}
	want := session.Batch{
		Rows: []session.Row{{
			Trace: session.TraceID{1}, Span: session.SpanID{2}, Parent: session.SpanID{3},
			Session: key, Run: "r1", RunStart: 900, Turn: 4, Kind: session.KindTurn, Known: spans.KnownClosed,
			Start: 1000, End: 2000, Seq: 7, EndSeq: 9, Failed: true, Service: "coder",
			Attrs: []session.Attr{
				{Key: "gen_ai.request.model", Value: session.StringValue("m")},
				{Key: "list", Value: session.StringsValue([]string{"a", "b"})},
				{Key: "map", Value: session.StringValue(`{"a":{"\u003c":"\"\ufffd"},"b":1}`)},
				{Key: "mixed", Value: session.StringValue(`["a",1,2.5,null,true,"eA=="]`)},
				{Key: "otelagent.capture", Value: session.StringValue("content")},
				{Key: "otelagent.request.messages", Value: session.IntValue(2)},
				{Key: "otelagent.schema", Value: session.IntValue(1)},
			},
			Lists: []session.List{{Name: "request", Attempt: 1, Count: 2, Prefix: "1 BBBBBBBBBBA",
				Items: []string{"AAAAAAAAAAA st"}}},
			Events: []session.Event{{Time: 1500, Type: "Mystery", Body: "BBBBBBBBBBB", Seq: 8}},
		}},
		Blocks: []session.Block{
			{Session: key, ID: spans.BlockOfString("one"), Body: "one"},
			{Session: key, ID: spans.BlockOfString("tw\xffo"), Body: "tw\xffo"},
		},
	}
	if !reflect.DeepEqual(batch, want) {
		t.Errorf("got\n%+v, want\n%+v", batch, want)
	}
}

// The kind is what otelagent.kind says, whatever the name; without it the exact name counts.
func TestDecodeKind(t *testing.T) {
	for _, tt := range []struct {
		name, attr string
		want       session.Kind
	}{
		{"session.turn", "", session.KindTurn},
		{"session.turn coder", "", session.KindUnknown},
		{"turn of coder", "session.turn", session.KindTurn},
		{"session.turn", "tool.call", session.KindToolCall},
		{"session.turn", "session.dream", session.KindUnknown},
	} {
		td, s := one()
		if s.SetName(tt.name); tt.attr != "" {
			s.Attributes().PutStr("otelagent.kind", tt.attr)
		}
		batch, report := Decode(td)
		if tt.want == session.KindUnknown && report.Foreign != 1 || tt.want != session.KindUnknown &&
			(len(batch.Rows) != 1 || batch.Rows[0].Kind != tt.want || len(batch.Rows[0].Attrs) != 2) {
			t.Errorf("%q, %q: %+v, %+v", tt.name, tt.attr, report, batch.Rows)
		}
	}
}

// The length that a moment has on the wire is taken back, and no other.
func TestDecodeInstant(t *testing.T) {
	for _, tt := range []struct {
		end, want int64
		instant   bool
	}{{2000, 1000, true}, {2000, 2000, false}, {2001, 2001, true}} {
		td, s := one()
		s.SetEndTimestamp(pcommon.Timestamp(tt.end))
		s.Attributes().PutBool("otelagent.instant", tt.instant)
		if r := decodeOne(t, td); r.End != tt.want || len(r.Attrs) != 2 {
			t.Errorf("%+v: %+v", tt, r)
		}
	}
}

// decodeOne returns the row of the only span.
func decodeOne(t *testing.T, td ptrace.Traces) session.Row {
	t.Helper()
	batch, report := Decode(td)
	if len(batch.Rows) != 1 {
		t.Fatalf("%+v", report)
	}
	return batch.Rows[0]
}

func TestDecodeRejects(t *testing.T) {
	f := func(reason string, spoil func(ptrace.Span)) {
		t.Helper()
		td, s := one()
		good := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().AppendEmpty()
		s.CopyTo(good)
		spoil(s)
		batch, report := Decode(td)
		id := text(s.Attributes(), "session.id")
		want := Report{Spans: 2, Stored: 1, Rejected: map[string]int{reason: 1}, Rejections: []Rejection{{
			Reason: reason, Name: s.Name(), Service: "coder", Trace: session.TraceID(s.TraceID()),
			Span:    session.SpanID(s.SpanID()),
			Session: session.Key{Tenant: "acme", ID: id},
		}}}
		if !reflect.DeepEqual(report, want) || len(batch.Rows) != 1 || len(batch.Blocks) != 0 {
			t.Errorf("%s: report %+v, %d rows, %d blocks", reason, report, len(batch.Rows), len(batch.Blocks))
		}
	}
	f(ReasonNoSession, func(s ptrace.Span) { s.Attributes().Remove("session.id") })
	f(ReasonTraceID, func(s ptrace.Span) { s.SetTraceID(pcommon.TraceID{}) })
	f(ReasonSpanID, func(s ptrace.Span) { s.SetSpanID(pcommon.SpanID{}) })
	f(ReasonTimes, func(s ptrace.Span) { s.SetStartTimestamp(0) })
	f(ReasonTimes, func(s ptrace.Span) { s.SetEndTimestamp(math.MaxUint64) })
	f(ReasonRunStart, func(s ptrace.Span) { s.Attributes().Remove("otelagent.run.start") })
	f(ReasonRunStart, func(s ptrace.Span) { s.Attributes().PutInt("otelagent.run.start", -1) })
	f(ReasonRunStart, func(s ptrace.Span) {
		s.SetName(spans.SpanRun)
		s.Attributes().PutStr("otelagent.run.start", "soon")
	})
	f(ReasonRunStart, func(s ptrace.Span) { // content of no run
		s.SetName(spans.SpanPayload)
		s.Attributes().Remove("otelagent.run.start")
		s.Attributes().Remove("otelagent.run.id")
		putSlice(event(s, spans.EventBlocks), "otelagent.block.bodies", "body")
		event(s, spans.EventBlocks).PutStr("otelagent.lists", "input 0 -")
	})
	f(ReasonTurnIndex, func(s ptrace.Span) {
		s.Attributes().PutInt("otelagent.turn.index", -1)
		putSlice(event(s, spans.EventBlocks), "otelagent.block.bodies", "body")
	})
}

// A span of no run holds the facts of its session and blocks for them. What else is on it is counted.
func TestDecodeFacts(t *testing.T) {
	td, s := one()
	s.SetName(spans.SpanPayload)
	for _, key := range []string{"otelagent.run.start", "otelagent.run.id", "otelagent.turn.index"} {
		s.Attributes().Remove(key)
	}
	a := event(s, spans.EventFact)
	a.PutStr("otelagent.fact.subject", "session")
	a.PutStr("otelagent.fact.key", "title")
	s.Events().At(0).SetTimestamp(1500)
	a = event(s, spans.EventBlocks)
	putSlice(a, "otelagent.block.bodies", "body")
	a.PutStr("otelagent.lists", "input 0 -")
	event(s, spans.EventOther)
	batch, report := Decode(td)
	if want := (Report{Spans: 1, Stored: 1, Cut: 2}); !reflect.DeepEqual(report, want) || len(batch.Blocks) != 1 {
		t.Fatalf("%+v, %d blocks", report, len(batch.Blocks))
	}
	r := batch.Rows[0]
	if want := []session.RowFact{{Time: 1500, Subject: "session", Key: "title"}}; !reflect.DeepEqual(r.Facts, want) ||
		r.Lists != nil || r.Events != nil {
		t.Errorf("%+v", r)
	}
}

func TestDecodeIsLenient(t *testing.T) {
	td, s := one()
	a := s.Attributes()
	a.PutStr("otelagent.run.start", "900")
	a.PutDouble("otelagent.turn.index", 4)
	a.PutStr("otelagent.seq", "7")
	a.PutInt("session.id", 77)
	a.PutStr("gen_ai.conversation.id", "other")
	a.PutStr("otelagent.known", "guessed")
	a.PutStr("otelagent.run.id", strings.Repeat("x", 300))
	a.PutStr("otelagent.run.parent.id", strings.Repeat("x", 300))
	a.PutStr("bad", "\xff")
	batch, report := Decode(td)
	if report.Stored != 1 {
		t.Fatalf("%+v", report)
	}
	r := batch.Rows[0]
	if r.RunStart != 900 || r.Turn != 4 || r.Seq != 7 || r.Session.ID != "77" || r.Known != spans.KnownClosed {
		t.Errorf("%+v", r)
	}
	if !strings.HasPrefix(r.Run, "sha256:") || len(r.Run) != 71 || r.Attr(spans.RunParentIDKey).Str() != r.Run {
		t.Errorf("long ids: %q, %q", r.Run, r.Attr(spans.RunParentIDKey).Str())
	}
	if r.Attr(spans.KnownAsKey).Str() != "guessed" || r.Attr(spans.ConversationIDKey).Str() != "other" ||
		r.Attr("bad").Str() != "\ufffd" {
		t.Errorf("attributes: %+v", r.Attrs)
	}

	// pdata's own setters keep keys apart, the wire does not: the last one counts.
	td, s = one()
	s.SetName(spans.SpanRun)
	s.Attributes().Remove("otelagent.run.start")
	s.Attributes().PutStr("dup1", "first")
	s.Attributes().PutStr("dup2", "last")
	b, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	must.Do(t, err)
	batch, _, err = DecodeProto(bytes.Replace(b, []byte("dup2"), []byte("dup1"), 1))
	if err != nil || len(batch.Rows) != 1 || batch.Rows[0].RunStart != 1000 || batch.Rows[0].Turn != session.NoTurn ||
		batch.Rows[0].Attr("dup1").Str() != "last" {
		t.Errorf("run without its start: %v, %+v", err, batch.Rows)
	}
}

func TestDecodeBounds(t *testing.T) {
	td, s := one()
	raw := s.Attributes().AsRaw()
	for i := range 5000 {
		raw[fmt.Sprint("key ", i)] = i
	}
	raw[strings.Repeat("k", 300)] = "long key"
	raw["gen_ai.response.model"] = strings.Repeat("é", maxValue)
	raw["gen_ai.response.id"] = map[string]any{"x": strings.Repeat("x", maxValue)}
	must.Do(t, s.Attributes().FromRaw(raw))
	deep := s.Attributes().PutEmptySlice("otelagent.group.members")
	for range 1000 {
		deep = deep.AppendEmpty().SetEmptySlice()
	}
	putSlice(event(s, spans.EventBlocks), "otelagent.block.bodies", "fine", 5, strings.Repeat("b", maxBody+1))
	for range maxEvents {
		e := event(s, spans.EventOther)
		e.PutStr("otelagent.event.type", strings.Repeat("t", 1000))
		e.PutStr("otelagent.event.body", strings.Repeat("t", 1000))
	}
	batch, report := Decode(td)
	r := batch.Rows[0]
	if report.Cut == 0 || len(r.Attrs) > maxAttrs+3 || len(batch.Blocks) != 2 || len(r.Events) != maxEvents-1 {
		t.Errorf("%+v, %d attributes, %d blocks, %d events", report, len(r.Attrs), len(batch.Blocks), len(r.Events))
	}
	if b := batch.Blocks[1]; b.Body != "" || b.Size != maxBody+1 {
		t.Errorf("the body that is too long: %d bytes, size %d", len(b.Body), b.Size)
	}
	if m := r.Attr(spans.ResponseModelKey).Str(); len(m) != maxValue || !r.Attr(spans.GroupMembersKey).IsZero() ||
		!r.Attr(spans.ResponseIDKey).IsZero() || r.Attr(spans.RequestModelKey).Str() != "m" {
		t.Errorf("long value of %d bytes; deep or long structures kept, or an attribute of the registry displaced", len(m))
	}
	if r.Events[0].Type != strings.Repeat("t", maxKey) || r.Events[0].Body != "" {
		t.Errorf("event %+v", r.Events[0])
	}
}

func FuzzDecode(f *testing.F) {
	seed := func(td ptrace.Traces) {
		b := must.Get((&ptrace.ProtoMarshaler{}).MarshalTraces(td))(f)
		f.Add(b)
	}
	td, s := one()
	seed(td)
	s.SetName(spans.SpanRun)
	s.Attributes().PutEmptyMap("m").PutEmptySlice("s").AppendEmpty().SetDouble(math.NaN())
	e := s.Events().AppendEmpty()
	e.SetName(spans.EventBlocks)
	putSlice(e.Attributes(), "otelagent.block.bodies", "one")
	putSlice(e.Attributes(), "otelagent.lists", "request 1\nAAAAAAAAAAA st")
	seed(td)
	a := event(s, spans.EventBlocks)
	putSlice(a, "otelagent.block.withheld", spans.Withheld{Block: spans.BlockOf(nil), Size: 9, Beginning: "x"}.Encode())
	putSlice(a, "otelagent.lists", "request.1 2 1 BBBBBBBBBBA\nAAAAAAAAAAA st")
	seed(td)
	td, s = one() // a span of another program, with an event
	s.Attributes().Clear()
	for _, key := range []string{"gen_ai.operation.name", "gen_ai.prompt.0.role", "gen_ai.prompt.0.content.1.text"} {
		s.Attributes().PutStr(key, "chat")
	}
	event(s, "gen_ai.user.message").PutStr("content", "null")
	seed(td)
	f.Fuzz(func(t *testing.T, b []byte) {
		if batch, report, err := DecodeProto(b); err == nil {
			checkBatch(t, batch, report)
		}
	})
}

// checkBatch holds what was decoded to the promises of Decode.
func checkBatch(t *testing.T, batch session.Batch, report Report) {
	t.Helper()
	rejected := 0
	for _, n := range report.Rejected {
		rejected += n
	}
	if report.Spans != report.Stored+report.Foreign+rejected || report.Stored+report.Events != len(batch.Rows) {
		t.Fatalf("counts do not add up: %+v, %d rows", report, len(batch.Rows))
	}
	for i := range batch.Rows {
		raw := batch.Rows[i].AppendCanonical(nil)
		if back, err := session.ParseRow(raw); err != nil || !bytes.Equal(back.AppendCanonical(nil), raw) {
			t.Fatalf("row does not come back: %v\n%+v", err, batch.Rows[i])
		}
	}
	for i := range batch.Blocks {
		if b := &batch.Blocks[i]; b.Size == 0 && b.ID != spans.BlockOfString(b.Body) {
			t.Fatal("block id is not that of its body")
		}
	}
	session.Assemble(batch.Rows)
}
