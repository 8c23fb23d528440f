package otlprow

import (
	"encoding/hex"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// TestLogfire reads what the real SDK of Logfire made of a loop that was killed (interop/logfire).
func TestLogfire(t *testing.T) {
	raw, err := os.ReadFile("testdata/logfire.otlp")
	if err != nil {
		t.Fatal(err)
	}
	batch, report, err := DecodeProto(raw, WithForeign())
	if err != nil {
		t.Fatal(err)
	}
	// Of the foreign span, and its pending one, nothing is kept.
	if report.Spans != 6 || report.Stored != 4 || report.Foreign != 2 || report.Cut != 0 || report.Rejected != nil {
		t.Errorf("%+v", report)
	}
	type row struct {
		Kind         session.Kind
		Span, Parent string
		Known        spans.Known
		Logfire      bool
	}
	var got []row
	for i := range batch.Rows {
		r := &batch.Rows[i]
		got = append(got, row{
			r.Kind, r.Span.String(), r.Parent.String(), r.Known,
			!r.Attr(logfireSpanType).IsZero() || !r.Attr(logfirePendingParent).IsZero(),
		})
		if r.Known == spans.KnownLive && r.End != r.Start {
			t.Errorf("%s: ends at %d, started at %d", r.Kind, r.End, r.Start)
		}
	}
	const none, run, turn, call = "0000000000000000", "0000000000000001", "0000000000000003", "0000000000000005"
	want := []row{
		{session.KindRun, run, none, spans.KnownLive, false},
		{session.KindTurn, turn, run, spans.KnownLive, false},
		{session.KindToolCall, call, turn, spans.KnownLive, false},
		{session.KindToolCall, call, turn, spans.KnownObserved, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	s := session.Assemble(batch.Rows)
	if s.Status != spans.SessionStatusBusy || len(s.Runs) != 1 || len(s.Runs[0].Turns) != 1 ||
		len(s.Runs[0].Turns[0].ToolCalls) != 1 || session.Summarize(s).Defects != 0 {
		t.Fatalf("%s, %d runs", s.Status, len(s.Runs))
	}
	if c := s.Runs[0].Turns[0].ToolCalls[0]; c.Outcome != spans.OutcomeOK || c.Known != spans.KnownObserved {
		t.Errorf("tool call %s, %s", c.Known, c.Outcome)
	}
}

func TestPendingSpan(t *testing.T) {
	real, parent := [8]byte{1, 2}, [8]byte{3, 4}
	for _, c := range []struct {
		name string
		edit func(ptrace.Span)
		want Report
		row  bool
		// parent of the row
		parent session.SpanID
	}{
		{"of a known span", func(ptrace.Span) {}, Report{Spans: 1, Stored: 1}, true, parent},
		{"of a root", func(s ptrace.Span) { s.Attributes().PutStr(logfirePendingParent, "0000000000000000") },
			Report{Spans: 1, Stored: 1}, true, session.SpanID{}},
		{"does not say its parent", func(s ptrace.Span) { s.Attributes().Remove(logfirePendingParent) },
			Report{Spans: 1, Stored: 1}, true, session.SpanID{}},
		{"says it as nobody can read", func(s ptrace.Span) {
			s.Attributes().PutStr(logfirePendingParent,
				"01020304050607080910")
		}, Report{Spans: 1, Stored: 1, Cut: 1}, true, session.SpanID{}},
		{"announces nothing", func(s ptrace.Span) { s.SetParentSpanID([8]byte{}) }, Report{Spans: 1,
			Rejected: map[string]int{ReasonSpanID: 1}}, false, session.SpanID{}},
		{"of a foreign span", func(s ptrace.Span) { s.SetName("GET /") }, Report{Spans: 1, Foreign: 1}, false,
			session.SpanID{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			td, s := one()
			s.SetParentSpanID(real)
			s.Attributes().PutStr(logfireSpanType, logfirePending)
			s.Attributes().PutStr(logfirePendingParent, hex.EncodeToString(parent[:]))
			c.edit(s)
			batch, report := Decode(td)
			report.Rejections = nil
			if diff := cmp.Diff(c.want, report); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(batch.Rows) != map[bool]int{true: 1}[c.row] {
				t.Fatalf("%d rows", len(batch.Rows))
			}
			if !c.row {
				return
			}
			if r := batch.Rows[0]; r.Span != session.SpanID(real) || r.Parent != c.parent ||
				r.Known != spans.KnownLive {
				t.Errorf("span %s, parent %s, %s", r.Span, r.Parent, r.Known)
			}
		})
	}
	td, s := one() // what the SDK says of a span that is over, and of others
	s.Attributes().PutStr(logfireSpanType, "span")
	batch, _ := Decode(td)
	if r := batch.Rows[0]; r.Known != spans.KnownObserved || r.Attr(logfireSpanType).Text() != "span" {
		t.Errorf("%s, %v", r.Known, r.Attrs)
	}
}
