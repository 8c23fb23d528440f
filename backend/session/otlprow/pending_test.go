package otlprow

import (
	"fmt"
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
	batch, report, err := DecodeProto(raw)
	if err != nil {
		t.Fatal(err)
	}
	// Of the foreign span, and its pending one, nothing is kept.
	if report.Spans != 6 || report.Stored != 4 || report.Foreign != 2 || report.Cut != 0 || report.Rejected != nil {
		t.Errorf("%+v", report)
	}
	var got []string
	for i := range batch.Rows {
		r := &batch.Rows[i]
		got = append(got, fmt.Sprintf("%s %d below %d %s", r.Kind, r.Span[7], r.Parent[7], r.Known))
		if r.Known == spans.KnownLive && r.End != r.Start || !r.Attr(logfireSpanType).IsZero() ||
			!r.Attr(logfirePendingParent).IsZero() {
			t.Errorf("%+v", r)
		}
	}
	want := []string{"session.run 1 below 0 live", "session.turn 3 below 1 live", "tool.call 5 below 3 live",
		"tool.call 5 below 3 observed"}
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
	real, parent := session.SpanID{1, 2}, session.SpanID{3, 4}
	for name, c := range map[string]struct {
		edit   func(ptrace.Span)
		cut    int
		parent session.SpanID
	}{
		"of a known span": {func(ptrace.Span) {}, 0, parent},
		"of a root": {func(s ptrace.Span) { s.Attributes().PutStr(logfirePendingParent, "0000000000000000") }, 0,
			session.SpanID{}},
		"has no parent that can be read": {func(s ptrace.Span) { s.Attributes().PutStr(logfirePendingParent, "0102") }, 1,
			session.SpanID{}},
	} {
		td, s := one()
		s.SetParentSpanID([8]byte(real))
		s.Attributes().PutStr(logfireSpanType, logfirePending)
		s.Attributes().PutStr(logfirePendingParent, parent.String())
		c.edit(s)
		batch, report := Decode(td)
		if report.Stored != 1 || report.Cut != c.cut {
			t.Fatalf("%s: %+v", name, report)
		}
		if r := batch.Rows[0]; r.Span != real || r.Parent != c.parent || r.Known != spans.KnownLive {
			t.Errorf("%s: span %s, parent %s, %s", name, r.Span, r.Parent, r.Known)
		}
		s.SetParentSpanID([8]byte{}) // it announces nothing
		if _, report := Decode(td); report.Rejected[ReasonSpanID] != 1 {
			t.Errorf("%s, without a parent: %+v", name, report)
		}
	}
}
