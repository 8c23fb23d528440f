package foreign

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// linkRow returns a row of a span of LangSmith, between two seconds of a trace. Its id and that of its parent are one
// byte each.
func linkRow(kind string, id, parent byte, start, end int64) session.Row {
	r := session.Row{Kind: session.KindForeign, Known: spans.KnownObserved, Turn: session.NoTurn,
		Trace: session.TraceID{0xff}, Span: session.SpanID{id}, Parent: session.SpanID{parent},
		Start: (1_800_000_000 + start) * 1e9, End: (1_800_000_000 + end) * 1e9}
	r.Session = session.Key{ID: TraceSession(r.Trace)}
	for kv := range slices.Chunk([]string{NameKey, kind, ScopeKey, "langsmith", SignalKey, "span", SourceKey, "langsmith",
		"langsmith.span.kind", kind}, 2) {
		r.Attrs = append(r.Attrs, session.Attr{Key: kv[0], Value: session.StringValue(kv[1])})
	}
	if kind == "run" {
		r.Attrs[3].Value = session.StringValue("genai")
		r.Attrs[4] = session.Attr{Key: "gen_ai.operation.name", Value: session.StringValue("invoke_agent")}
	}
	slices.SortFunc(r.Attrs, func(a, b session.Attr) int { return strings.Compare(a.Key, b.Key) })
	return r
}

// TestLink holds where records go whose parent is not there, or whose parents are a ring.
func TestLink(t *testing.T) {
	for _, tt := range []struct {
		name string
		rows []session.Row
		want string
	}{
		{"the run within all others", []session.Row{linkRow("run", 1, 0, 1, 10), linkRow("run", 2, 0, 5, 20),
			linkRow("run", 3, 0, 6, 9), linkRow("llm", 4, 9, 7, 8)}, "01:0 02:0 03:1"},
		{"no run within all others", []session.Row{linkRow("run", 1, 0, 1, 10), linkRow("run", 2, 0, 5, 20),
			linkRow("llm", 4, 9, 7, 8)}, "01:0 02:0 ff:1"},
		{"wrappers of one parent at one time", []session.Row{linkRow("chain", 1, 9, 1, 10), linkRow("chain", 2, 9, 1, 10),
			linkRow("llm", 3, 1, 2, 3), linkRow("llm", 4, 2, 4, 5)}, "09:2"},
		{"below a ring", []session.Row{linkRow("llm", 1, 2, 1, 2), linkRow("run", 2, 3, 2, 10), linkRow("run", 3, 2, 3, 9)},
			"02:1"},
	} {
		var got []string
		for _, s := range assemble(Default(), tt.rows) {
			for _, r := range s.Runs {
				got = append(got, fmt.Sprintf("%s:%d", strings.TrimRight(r.ID, "0"), len(r.Turns)))
			}
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: runs with turns %q, want %q", tt.name, got, tt.want)
		}
	}
}
