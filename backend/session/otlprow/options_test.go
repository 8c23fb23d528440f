package otlprow

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

func TestWithTenant(t *testing.T) {
	td, _ := one()
	other := td.ResourceSpans().AppendEmpty() // says no tenant
	td.ResourceSpans().At(0).ScopeSpans().CopyTo(other.ScopeSpans())
	ld := oneRecord()
	for _, c := range []struct {
		opts []Option
		want [2]string
	}{
		{nil, [2]string{"acme", ""}}, {[]Option{WithTenant("")}, [2]string{}},
		{[]Option{WithTenant("b\xffd")}, [2]string{"b\ufffdd", "b\ufffdd"}},
	} {
		batch, _ := Decode(td, c.opts...)
		logs, _ := DecodeLogs(ld, c.opts...)
		got := [2]string{batch.Rows[0].Session.Tenant, batch.Rows[1].Session.Tenant}
		if got != c.want || logs.Rows[0].Session.Tenant != c.want[0] || logs.Blocks[0].Session.Tenant != c.want[0] {
			t.Errorf("tenants %q, want %q; of the log record %q", got, c.want, logs.Rows[0].Session.Tenant)
		}
	}
}

// The report describes the first spans that are not stored, in the order of the input; foreign ones only where that is
// wanted.
func TestRejections(t *testing.T) {
	td, bad := one()
	bad.Attributes().PutStr("session.id", strings.Repeat("x", maxID+1))
	bad.SetTraceID(pcommon.TraceID{})
	list := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	foreign := list.AppendEmpty()
	foreign.SetName(strings.Repeat("é", 200))
	foreign.SetSpanID(pcommon.SpanID{7})
	foreign.Attributes().PutStr("session.id", "web")
	want := []Rejection{{
		Reason: ReasonTraceID, Name: spans.SpanTurn, Service: "coder", Span: session.SpanID{2},
		Session: session.Key{Tenant: "acme", ID: boundID(strings.Repeat("x", maxID+1))},
	}}
	_, report := Decode(td)
	if diff := cmp.Diff(Report{Spans: 2, Foreign: 1, Rejected: map[string]int{ReasonTraceID: 1}, Rejections: want,
		Scopes: []ScopeCount{{"", 1}}},
		report); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for range MaxRejections {
		bad.CopyTo(list.AppendEmpty())
	}
	if _, report := Decode(td); len(report.Rejections) != MaxRejections ||
		report.Rejected[ReasonTraceID] != 1+MaxRejections {
		t.Errorf("%d rejections, %v", len(report.Rejections), report.Rejected)
	}

	ld := oneRecord()
	other := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().AppendEmpty()
	other.SetEventName("login")
	_, report = DecodeLogs(ld)
	if diff := cmp.Diff(Report{Spans: 2, Stored: 1, Foreign: 1}, report); diff != "" {
		t.Errorf("log records, -want +got:\n%s", diff)
	}
}

func TestLimitAttribute(t *testing.T) {
	td, s := one()
	long := strings.Repeat("é", 300)
	s.Attributes().PutStr("long", "x"+long)
	putSlice(s.Attributes(), "list", long[:200], long[:200])
	must.Do(t, s.Attributes().PutEmptyMap("map").FromRaw(map[string]any{"k": long}))
	s.Attributes().PutStr("session.id", strings.Repeat("i", maxID))
	for _, n := range []int{300, 1} { // up to 256 bytes always stay
		batch, report := Decode(td, WithLimits(Limits{Attribute: n}))
		row := batch.Rows[0]
		if got := row.Attr("long").Str(); report.Cut != 3 || got != "x"+long[:(max(n, maxID)-1)/2*2] {
			t.Errorf("%d: a string of %d bytes, %+v", n, len(got), report)
		}
		if got := row.Attr("list").Strings(); len(got) != 1 || !row.Attr("map").IsZero() ||
			len(row.Session.ID) != maxID {
			t.Errorf("%d: %d of the list, map %q, session %q", n, len(got), row.Attr("map").Text(), row.Session.ID)
		}
	}
	if _, report := Decode(td); report.Cut != 0 {
		t.Errorf("by default: %+v", report)
	}
}

// A list that is too long keeps its head, so that it is known to be broken; one of up to 1 MiB is never too long.
func TestLimitBlock(t *testing.T) {
	const item, n = "AAAAAAAAAAA", maxValue/12 + 1
	td, s := one()
	a := event(s, spans.EventBlocks)
	putSlice(a, "otelagent.block.bodies", "short", "too long")
	putSlice(a, "otelagent.lists", "history 999999"+strings.Repeat("\n"+item, n),
		"request "+strconv.Itoa(n)+strings.Repeat("\n"+item, n-200))
	event(s, spans.EventBlocks).PutStr("otelagent.block.bodies", "one alone")
	withheld := func(body string) session.Block {
		b := bodyBlock(body)
		b.Body, b.Size = "", int64(len(body))
		return b
	}
	batch, report := Decode(td, WithLimits(Limits{Block: 6}))
	want := []session.Block{bodyBlock("short"), withheld("too long"), withheld("one alone")}
	if diff := cmp.Diff(want, batch.Blocks); diff != "" || report.Cut != 3 {
		t.Errorf("%+v, -want +got:\n%s", report, diff)
	}
	if l := batch.Rows[0].Lists; l[0].Count != 999999 || l[0].Items != nil || len(l[1].Items) != n-200 {
		t.Errorf("lists of %d and %d items", len(l[0].Items), len(l[1].Items))
	}
	if _, report := Decode(td); report.Cut != 0 {
		t.Errorf("by default: %+v", report)
	}
}

// Turns are bounded each for itself, however many spans bring them and in whatever order; so is what belongs to no
// turn. A span that is rejected uses nothing up.
func TestLimitTurn(t *testing.T) {
	td, s := one()
	add := func(turn int64, bodies ...any) ptrace.Span {
		to := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().AppendEmpty()
		s.CopyTo(to)
		if to.Attributes().PutInt("otelagent.turn.index", turn); turn < 0 {
			to.SetName(spans.SpanCompaction)
			to.Attributes().Remove("otelagent.turn.index")
		}
		putSlice(event(to, spans.EventBlocks), "otelagent.block.bodies", bodies...)
		return to
	}
	add(0, "12345", "12345").SetTraceID(pcommon.TraceID{}) // rejected
	add(0, "12345", "1234")
	add(1, "12345", "1234")
	add(-1, "12345", "1234")
	add(0, "x", "y", "")
	add(-1, "12345678901", "p", "q")
	batch, report := Decode(td, WithLimits(Limits{Turn: 10}))
	var got []string
	for _, b := range batch.Blocks {
		if b.Size > 0 {
			b.Body += "withheld"
		}
		got = append(got, b.Body)
	}
	want := []string{"12345", "1234", "12345", "1234", "12345", "1234", "x", "withheld", "", "withheld", "p", "withheld"}
	if diff := cmp.Diff(want, got); diff != "" || report.Cut != 3 {
		t.Errorf("cut %d, -want +got:\n%s", report.Cut, diff)
	}
}
