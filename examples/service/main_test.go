package main

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/otelagent/otelagent/agenttest"
)

// services starts the three on one pipeline and returns the address of support, and the telemetry of a front end.
func services(t *testing.T, p *agenttest.Pipeline) (url string, of telemetry) {
	t.Helper()
	of = telemetry{tracer: p.Tracer(), http: []otelhttp.Option{
		otelhttp.WithTracerProvider(p.Provider()),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{},
			propagation.Baggage{})),
	}}
	start := func(name, orders, research string) string {
		s := httptest.NewServer(of.service(name, orders, research))
		t.Cleanup(s.Close)
		return s.URL
	}
	return start("support", start("orders", "", ""), start("research", "", "")), of
}

// TestSpans compares the tree that the spans of HTTP and of otelagent are: the request is the parent of the run, and a
// request of a tool is under its call. The session, without the spans of HTTP, is a golden file of TestRun.
func TestSpans(t *testing.T) {
	p := agenttest.New(t)
	url, of := services(t, p)
	if answer, err := question(t.Context(), of.client(), url, "ticket-1", "Where is order 17?"); err != nil ||
		!strings.Contains(answer, "on its way") {
		t.Fatalf("%q, %v", answer, err)
	}
	children := map[pcommon.SpanID][]string{}
	byLine := map[string]pcommon.SpanID{}
	traces := map[pcommon.TraceID]bool{}
	for _, raw := range p.OTLP() {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					line := s.Kind().String() + " " + s.Name()
					for _, key := range []string{"gen_ai.agent.name", "gen_ai.tool.name", "otelagent.turn.index"} {
						if v, ok := s.Attributes().Get(key); ok {
							line += " " + v.AsString()
						}
					}
					line = fmt.Sprintf("%020d %s %s", s.StartTimestamp(), s.SpanID(), line) // in the order of time
					children[s.ParentSpanID()] = append(children[s.ParentSpanID()], line)
					byLine[line] = s.SpanID()
					traces[s.TraceID()] = true
				}
			}
		}
	}
	var tree strings.Builder
	var walk func(pcommon.SpanID, string)
	walk = func(parent pcommon.SpanID, indent string) {
		lines := children[parent]
		slices.Sort(lines)
		for _, line := range lines {
			fmt.Fprintf(&tree, "%s%s\n", indent, line[38:])
			walk(byLine[line], indent+"  ")
		}
	}
	walk(pcommon.SpanID{}, "")
	const want = `Client HTTP POST
  Server POST /ask
    Internal session.run support
      Client session.turn support 0
        Internal tool.call support order_status 0
          Client HTTP GET
            Server GET /orders/17
        Internal tool.call support ask_researcher 0
          Client HTTP POST
            Server POST /ask
              Internal session.run researcher
                Client session.turn researcher 0
      Client session.turn support 1
`
	if diff := cmp.Diff(want, tree.String()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if len(traces) != 1 || len(byLine) != 13 {
		t.Errorf("%d spans in %d traces", len(byLine), len(traces))
	}
	if s := p.Session(); s.ID != "ticket-1" || len(s.Runs) != 2 || len(s.Defects) != 0 {
		t.Errorf("session %q, %d runs, defects %v", s.ID, len(s.Runs), s.Defects)
	}
	if r := p.Report(); r.Foreign != 6 || r.Stored != 7 || len(r.Rejected) != 0 {
		t.Errorf("report %+v", r)
	}
}
