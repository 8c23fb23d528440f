package main

import (
	"fmt"
	"net/http"
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
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/otelagent"
)

// services starts the three on one pipeline and returns the address of support, and what they and a front end have.
func services(t *testing.T, p *agenttest.Pipeline) (url string, of telemetry) {
	t.Helper()
	of = telemetry{tracer: p.Tracer(), http: []otelhttp.Option{
		otelhttp.WithTracerProvider(p.Provider()),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{},
			propagation.Baggage{})),
	}}
	start := func(name, orders, research string) string {
		h, err := of.service(name, orders, research)
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	return start("support", start("orders", "", ""), start("research", "", "")), of
}

// The spans of HTTP and of otelagent are one tree: the request is the parent of the run, and what tools call is under
// their calls.
func TestSpans(t *testing.T) {
	p := agenttest.New(t)
	url, of := services(t, p)
	if answer, err := question(t.Context(), of.client(), url, "ticket-1", "Where is order 17?"); err != nil ||
		!strings.Contains(answer, "on its way") {
		t.Fatalf("%q, %v", answer, err)
	}
	children := map[pcommon.SpanID][]string{}
	var ids []pcommon.SpanID
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
					ids = append(ids, s.SpanID())
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
            Server GET /orders/{number}
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
	if len(traces) != 1 || len(ids) != 13 {
		t.Errorf("%d spans in %d traces", len(ids), len(traces))
	}
}

// The tree is of the agents alone: the spans of HTTP are skipped, and the sub-agent that another service ran stands
// under the call that asked it.
func TestTree(t *testing.T) {
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	url, of := services(t, p)
	if _, err := question(t.Context(), of.client(), url, "ticket-1", "Where is order 17?"); err != nil {
		t.Fatal(err)
	}
	s := p.Session() // one session: the sub-agent's is that of the baggage
	if s.ID != "ticket-1" || s.MadeUp || len(s.Defects) != 0 {
		t.Errorf("session %q, generated id %v, defects %v", s.ID, s.MadeUp, s.Defects)
	}
	type placed struct{ agent, parent, call string }
	var got []placed
	for _, r := range s.Runs {
		if len(r.Defects) != 0 {
			t.Errorf("%s: defects %v", r.Agent, r.Defects)
		}
		got = append(got, placed{r.Agent, r.ParentID, r.ParentToolCallID})
	}
	want := []placed{{"support", "", ""}, {"researcher", s.Runs[0].ID, "c2"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(placed{})); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if s.Usage != (session.Usage{Input: 113, Output: 49, CacheRead: 30}) {
		t.Errorf("usage %+v: that of both agents, once", s.Usage)
	}
	if r := p.Report(); r.Foreign != 6 || r.Stored != 7 || len(r.Rejected) != 0 {
		t.Errorf("report %+v", r)
	}
}

// A tool that fails fails its call, and the caller gets the error.
func TestOrdersAway(t *testing.T) {
	p := agenttest.New(t)
	_, of := services(t, p)
	h, err := of.service("support", "http://127.0.0.1:1", "http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	defer s.Close()
	if _, err := question(t.Context(), of.client(), s.URL, "ticket-1", "Where is order 17?"); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprint(http.StatusBadGateway)) {
		t.Errorf("%v", err)
	}
	r := p.Session().Runs[0]
	if r.Status != "error" || r.Turns[0].ToolCalls[0].Outcome != "error" || len(r.Defects) != 0 {
		t.Errorf("run %s, %+v, defects %v", r.Status, r.Turns[0].ToolCalls[0], r.Defects)
	}
}
