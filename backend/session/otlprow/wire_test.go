package otlprow

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
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

// oneRecord returns logs of one record of another program.
func oneRecord() plog.Logs {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr(string(spans.TenantKey), "acme")
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName("com.anthropic.claude_code.events")
	r := sl.LogRecords().AppendEmpty()
	r.SetTimestamp(1500)
	for key, value := range map[string]string{"event.name": "user_prompt", "session.id": "s1", "prompt": "hi"} {
		r.Attributes().PutStr(key, value)
	}
	return ld
}

// A log record in the words of this format is a stranger: only spans carry its events.
func TestRecordsOfThisFormat(t *testing.T) {
	ld := oneRecord()
	r := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
	r.SetEventName(spans.EventBlocks)
	r.Attributes().PutInt("otelagent.run.start", 900)
	if batch, report := DecodeLogs(ld); report.Foreign != 1 || len(batch.Rows)+len(batch.Blocks) > 0 {
		t.Errorf("%+v, %d rows", report, len(batch.Rows))
	}
}

func FuzzDecodeLogs(f *testing.F) {
	b := must.Get((&plog.ProtoMarshaler{}).MarshalLogs(oneRecord()))(f)
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
