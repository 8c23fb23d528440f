package otlprow

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
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

func zip(t testing.TB, stretch []byte) []byte {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(stretch, nil)
}

var sessionKey = session.Key{Tenant: "acme", ID: "s1"}

func bodyBlock(body string) session.Block {
	return session.Block{Session: sessionKey, ID: spans.BlockOfString(body), Body: body}
}

func recipeBlock(t testing.TB, text string) session.Block {
	r, err := spans.ParseRecipe(text)
	if err != nil {
		t.Fatal(err)
	}
	return session.Block{Session: sessionKey, ID: spans.RecipeID(r.ID, text), Body: text, Recipe: true}
}

func TestDecodePacked(t *testing.T) {
	id := spans.BlockOfString("x").Short().String()
	recipe := id + " 9 =1:x " + id + ":0:8"
	echoed := (&spans.Recipe{ID: spans.BlockOfString("w"), Full: true, Size: 7}).Encode()
	const digest = "AAAAAAAAAAAAAAAAAAAAAAAA"
	td, s := one()
	s.Attributes().PutStr("gen_ai.input.messages", "for eyes")
	s.Attributes().PutStr("gen_ai.tool.call.result", "for eyes")
	a := event(s, spans.EventBlocks)
	putSlice(a, "otelagent.block.bodies", "body")
	putSlice(a, "otelagent.block.parts", recipe, "no recipe", 5, strings.Repeat("x", maxValue+1))
	putSlice(a, "otelagent.lists", "request.2 9 "+digest+" 7 BBBBBBBBBBA\n"+id+" @3\n"+strings.Repeat("x", maxValue+1), "no list",
		strings.Repeat("n", maxKey+1)+" 1 "+digest, "bad\xff 0 "+digest)
	a = event(s, spans.EventBlocks)
	a.PutStr("otelagent.lists", "input 0 "+digest)
	a.PutInt("otelagent.block.parts", 5)
	stretch := spans.AppendEcho(spans.AppendEcho(nil, "again", false), echoed, true)
	event(s, spans.EventEcho).PutEmptyBytes("otelagent.echo.blocks").FromRaw(zip(t, append(stretch, 9)))
	event(s, spans.EventEcho).PutEmptyBytes("otelagent.echo.blocks").FromRaw([]byte("no zstd"))
	event(s, spans.EventEcho).PutStr("otelagent.echo.blocks", "text")
	event(s, spans.EventEcho)

	batch, report := Decode(td)
	// A recipe that is none, a number, one too long; an item too long, no list, a long name; a number; and four echoes with what
	// is none.
	if diff := cmp.Diff(Report{Spans: 1, Stored: 1, Cut: 11}, report); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r := batch.Rows[0]
	wantLists := []session.List{
		{Name: "request", Attempt: 2, Count: 9, Digest: digest, Prefix: "7 BBBBBBBBBBA", Items: []string{id + ` {"turnId":{"loopId":"r1","turnIndex":3}}`, ""}},
		{Name: "bad\ufffd", Digest: digest},
		{Name: "input", Digest: digest},
	}
	if diff := cmp.Diff(wantLists, r.Lists); diff != "" {
		t.Errorf("lists, -want +got:\n%s", diff)
	}
	wantBlocks := []session.Block{recipeBlock(t, recipe), bodyBlock("body"), bodyBlock("again"), recipeBlock(t, echoed)}
	if diff := cmp.Diff(wantBlocks, batch.Blocks); diff != "" {
		t.Errorf("blocks, -want +got:\n%s", diff)
	}
	if len(r.Attrs) != 2 { // previews are not kept where the blocks are
		t.Errorf("attributes %+v", r.Attrs)
	}
	td, s = one()
	s.Attributes().PutStr("gen_ai.input.messages", "for eyes")
	if batch, _ := Decode(td); batch.Rows[0].Attr(spans.InputMessagesKey).Str() != "for eyes" {
		t.Error("a preview is all that there is, and was left out")
	}
}

// Echoes make much of little, and all they hold is elsewhere too.
func TestEchoesAreBounded(t *testing.T) {
	td, s := one()
	send := func(frame []byte) { event(s, spans.EventEcho).PutEmptyBytes("otelagent.echo.blocks").FromRaw(frame) }
	half := zip(t, spans.AppendEcho(nil, strings.Repeat("x", echoStart/2), false))
	for range 10 {
		send(half)
	}
	send(zip(t, make([]byte, maxBody+1)))
	// Frames that say they are large and are not, also behind one that is good.
	lies := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x80, 0, 1, 0, 0}
	good := zip(t, spans.AppendEcho(nil, "good", false))
	send(lies)
	send(append(slices.Clone(good), lies...))
	send(good)
	batch, report := Decode(td)
	if report.Cut != 8+3 || len(batch.Blocks) != 2+1 {
		t.Errorf("%d blocks, %+v", len(batch.Blocks), report)
	}

	// What does not compress may be as much as a message holds.
	td, s = one()
	random := make([]byte, echoStart)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	for range 7 {
		send(zip(t, spans.AppendEcho(nil, string(random), false)))
	}
	if batch, report := Decode(td); report.Cut != 0 || len(batch.Blocks) != 7 {
		t.Errorf("%d blocks, %+v", len(batch.Blocks), report)
	}
}

// Attempts cost something: a message of nothing but bad frames takes no time and no memory to speak of.
func TestBadEchoesAreCheap(t *testing.T) {
	td, s := one()
	for range maxEvents {
		event(s, spans.EventEcho).PutEmptyBytes("otelagent.echo.blocks").FromRaw([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x70, 0, 1, 0, 0})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, report := Decode(td)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; report.Cut != maxEvents || grown > 4*echoStart {
		t.Errorf("cut %d, %d bytes", report.Cut, grown)
	}
}

func made1(name string, items ...[2]string) session.List { // body, provenance
	l := session.List{Name: name}
	var c spans.Chain
	for _, i := range items {
		id := spans.BlockOfString(i[0])
		it := spans.Item{Block: id.Short(), Provenance: i[1]}
		c = c.Add(id, it)
		l.Items = append(l.Items, it.Encode())
		l.Count++
	}
	l.Digest = c.Short()
	return l
}

func TestDecodeDetails(t *testing.T) {
	const user, reply = `{"parts":[{"content":"hi","type":"text"}],"role":"user"}`, `{"finish_reason":"stop","role":"assistant"}`
	td, s := one()
	a := event(s, spans.EventDetails)
	a.PutStr("gen_ai.input.messages", `[ {"role": "user", "parts":[{"type":"text","content":"hi"}]} ]`)
	if err := a.PutEmptySlice("gen_ai.output.messages").FromRaw([]any{map[string]any{"role": "assistant", "finish_reason": "stop"}}); err != nil {
		t.Fatal(err)
	}
	a.PutStr("gen_ai.system_instructions", `[{"type":"text","content":"be brief"}]`)
	if err := a.PutEmptySlice("gen_ai.tool.definitions").FromRaw([]any{map[string]any{"name": "bash"}}); err != nil {
		t.Fatal(err)
	}
	batch, report := Decode(td)
	if diff := cmp.Diff(Report{Spans: 1, Stored: 1}, report); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	system, tools := `[{"type":"text","content":"be brief"}]`, `[{"name":"bash"}]`
	want := []session.List{made1("request", [2]string{user}), made1("output", [2]string{reply}), made1("params", [2]string{system, "system"}, [2]string{tools, "tools"})}
	if diff := cmp.Diff(want, batch.Rows[0].Lists); diff != "" {
		t.Errorf("lists, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]session.Block{bodyBlock(user), bodyBlock(reply), bodyBlock(system), bodyBlock(tools)}, batch.Blocks); diff != "" {
		t.Errorf("blocks, -want +got:\n%s", diff)
	}
	var blocks session.BlockSet
	for _, b := range batch.Blocks {
		blocks.Add(b)
	}
	tree := session.Assemble(batch.Rows)
	tree.CheckContent(&blocks)
	turn := tree.Runs[0].Turns[0]
	if p := turn.Requests[0].Payload(&blocks); p.Exact || len(turn.Defects) > 0 || string(p.Bytes) != `{"system":`+system+`,"messages":[`+user+`],"tools":`+tools+`}` {
		t.Errorf("%s, %+v, %+v", p.Bytes, p, turn.Defects)
	}

	// Where there is a list it counts, wherever it stands; what is no array of messages is counted.
	td, s = one()
	a = event(s, spans.EventDetails)
	a.PutStr("gen_ai.output.messages", `[{}]`)
	a.PutStr("gen_ai.input.messages", `{"a":1}`)
	a.PutStr("gen_ai.system_instructions", `no json`)
	putSlice(event(s, spans.EventBlocks), "otelagent.lists", "output 0 "+spans.Chain{}.Short())
	batch, report = Decode(td)
	if diff := cmp.Diff([]session.List{{Name: "output", Digest: spans.Chain{}.Short()}}, batch.Rows[0].Lists); diff != "" || report.Cut != 2 {
		t.Errorf("%+v, -want +got:\n%s", report, diff)
	}

	// Messages that are none, or too many, leave a list that says so.
	td, s = one()
	deep := event(s, spans.EventDetails).PutEmptySlice("gen_ai.input.messages")
	for range 100 {
		deep = deep.AppendEmpty().SetEmptySlice()
	}
	batch, report = Decode(td)
	if l := batch.Rows[0].Lists[0]; l.Count != 1 || len(l.Items) != 0 || report.Cut != 1 {
		t.Errorf("%+v, %+v", l, report)
	}
	td, s = one()
	event(s, spans.EventDetails).PutStr("gen_ai.input.messages", "[1"+strings.Repeat(",1", maxMessages)+"]")
	batch, report = Decode(td)
	if l := batch.Rows[0].Lists[0]; l.Count != maxMessages+1 || len(l.Items) != maxMessages || report.Cut != 1 {
		t.Errorf("%d of %d items, %+v", len(l.Items), l.Count, report)
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
	putSlice(a, "otelagent.lists", "input 0 "+spans.Chain{}.Short())
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
		Trace: session.TraceID{1}, Span: session.SpanID{0x79, 0x49, 0xc5, 0x1b, 0x57, 0xcb, 0x74, 0x02}, Parent: session.SpanID{2},
		Session: sessionKey, Run: "r1", RunStart: 900, Turn: 4, Kind: session.KindPayload, Known: spans.KnownObserved,
		Start: 1500, End: 1500, Service: "coder",
		Attrs: []session.Attr{{Key: "custom", Value: session.StringValue("kept")}},
		Lists: []session.List{{Name: "input", Digest: spans.Chain{}.Short()}},
	}
	if diff := cmp.Diff(want, batch.Rows[0], compared); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if batch.Rows[1].Span != want.Span || batch.Rows[2].Span == want.Span || batch.Rows[2].Start != 1501 {
		t.Errorf("ids %v, %v, %v", batch.Rows[0].Span, batch.Rows[1].Span, batch.Rows[2].Span)
	}
	if diff := cmp.Diff([]session.Block{bodyBlock("body"), bodyBlock("body"), bodyBlock("body")}, batch.Blocks); diff != "" {
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
			Reason: c.reason, Name: spans.EventBlocks, Service: "coder", Trace: session.TraceID(r.TraceID()), Span: session.SpanID(r.SpanID()),
			Session: session.Key{Tenant: "acme", ID: str(first(r.Attributes(), "session.id"))},
		}}}
		if diff := cmp.Diff(want, report); diff != "" || len(batch.Blocks) > 0 {
			t.Errorf("%s: %d blocks, -want +got:\n%s", c.reason, len(batch.Blocks), diff)
		}
	}
}

// A record of nothing but attributes costs time in proportion to them: 0.2 s here, and half a minute if each looked at all others.
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
		for _, raw := range []any{nil, true, false, 1, 2, 1.5, "x", []byte("x"), []any{"x"}, []any{}, map[string]any{"k": "x"}, map[string]any{"k": "y", "l": 1}} {
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
