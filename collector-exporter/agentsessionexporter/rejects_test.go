package agentsessionexporter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadatatest"
	"github.com/otelagent/otelagent/spans"
)

// logged returns the log lines about what was not stored, as fields by their reason.
func logged(b *testBundle) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, l := range b.logs.FilterMessage("not stored").All() {
		m := l.ContextMap()
		delete(m, "refused")
		out[m["reason"].(string)] = m
	}
	return out
}

// A span that cannot be placed, and one that the store refuses, are counted and left out; the rest of their batch is
// stored. A log line names each, with the reason and without content.
func TestRejectedSpansAreLogged(t *testing.T) {
	b := setup(t, refuse("refused"))
	td := traces("good", "nobody", "refused")
	td.ResourceSpans().At(0).Resource().Attributes().PutStr("service.name", "coder")
	l := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	l.At(1).SetStartTimestamp(0)
	for i := range l.Len() {
		l.At(i).Attributes().PutStr(string(spans.ErrorMessageKey), "content")
	}
	appendForeign(td)
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
	require.Equal(t, map[string]int{"good": 1}, b.store.committed())
	metadatatest.AssertEqualExporterAgentSessionSpansRejected(t, b.tel,
		append(point(1, reason(otlprow.ReasonTimes)), point(1, reason(reasonStore))...), ignore...)
	ld := records("good", "late")
	ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(1).Attributes().Remove("session.id")
	require.NoError(t, b.logsExp.ConsumeLogs(t.Context(), ld))

	line := func(reason, signal, name, service, id string, trace session.TraceID, span session.SpanID) map[string]any {
		return map[string]any{
			"reason": reason, "count": int64(1), "signal": signal, "first_name": name, "first_service": service,
			"first_session": id,
			"first_trace":   trace.String(), "first_span": span.String(),
		}
	}
	want := map[string]map[string]any{
		otlprow.ReasonTimes: line(otlprow.ReasonTimes, "span", spans.SpanRun, "coder", "nobody", session.TraceID{15: 2},
			session.SpanID{7: 2}),
		reasonStore: line(reasonStore, "span", spans.SpanRun, "coder", "refused", session.TraceID{15: 3},
			session.SpanID{7: 3}),
		otlprow.ReasonNoSession: line(otlprow.ReasonNoSession, "log", "user_prompt", "", "", session.TraceID{},
			session.SpanID{}),
	}
	if diff := cmp.Diff(want, logged(b)); diff != "" {
		t.Error(diff)
	}
}

// A flood of what is rejected costs one line a batch.
func TestRejectedSpansAreLoggedOnceABatch(t *testing.T) {
	b := setup(t, nil)
	td := traces()
	l := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for range 1000 {
		l.AppendEmpty().SetName(spans.SpanRun)
	}
	for range 5 {
		require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
	}
	require.Equal(t, 5, b.logs.FilterMessage("not stored").Len())
	require.Equal(t, int64(1000), logged(b)[otlprow.ReasonTraceID]["count"])
}

// Records of a scope that no source describes are counted by scope, and logged once a scope. Neither has more than 100
// names of scopes.
func TestUnknownScopes(t *testing.T) {
	b := setup(t, nil, redacting(""))
	send := func(scope string, n int) {
		t.Helper()
		td := ptrace.NewTraces()
		ss := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
		ss.Scope().SetName(scope)
		for range n {
			s := ss.Spans().AppendEmpty()
			s.SetName("GET /?key=" + secret)
			s.SetTraceID(pcommon.TraceID{1})
			s.SetSpanID(pcommon.SpanID{1})
		}
		require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
	}
	for range 3 {
		send("acme.web", 7)
	}
	for i := range 2 * maxScopes {
		send(fmt.Sprint("flood ", i), 1)
	}
	count := func(scope string) (n int64) {
		m, err := b.tel.GetMetric("otelcol_exporter_agent_session_spans_foreign")
		require.NoError(t, err)
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			if v, ok := p.Attributes.Value("scope"); ok && v.AsString() == scope {
				n += p.Value
			}
		}
		return n
	}
	require.Equal(t, []int64{21, 1, 0, maxScopes + 1},
		[]int64{count("acme.web"), count("flood 98"), count("flood 99"), count(otherScopes)})
	lines := b.logs.FilterMessageSnippet("instrumentation scope").All()
	require.Len(t, lines, maxScopes)
	require.Equal(t, map[string]any{"scope": "acme.web", "signal": "span"}, lines[0].ContextMap())
	require.Empty(t, logged(b))
}

// Limits of attributes and bodies reach the decoder, and so does the tenant.
func TestDecodingIsConfigured(t *testing.T) {
	b := setup(t, nil, func(c *Config) {
		c.Tenant = "acme"
		c.Limits.AttributeBytes, c.Limits.BlockBytes, c.Limits.TurnBytes = 256, 1024, 1500
	})
	td := traces("a")
	td.ResourceSpans().At(0).Resource().Attributes().PutStr(string(spans.TenantKey), "somebody else")
	s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	s.Attributes().PutStr("acme.note", strings.Repeat("n", 1000))
	e := s.Events().AppendEmpty()
	e.SetName(spans.EventBlocks)
	bodies := e.Attributes().PutEmptySlice(string(spans.BlockBodiesKey))
	for i, n := range []int{1000, 1025, 400, 900} {
		bodies.AppendEmpty().SetStr(strings.Repeat(fmt.Sprint(i), n))
	}
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
	key := session.Key{Tenant: "acme", ID: "a"}
	for row, err := range b.store.Rows(t.Context(), key) {
		require.NoError(t, err)
		require.Len(t, row.Attr("acme.note").Str(), 256)
	}
	whole := map[int]bool{}
	for k, err := range b.store.Blocks(t.Context(), key) {
		require.NoError(t, err)
		if k.Size == 0 {
			whole[len(k.Body)] = true
		}
	}
	require.Equal(t, map[int]bool{1000: true, 400: true}, whole, "one is too long, and of the turn there is too much")
	m, err := b.tel.GetMetric("otelcol_exporter_agent_session_pieces_cut")
	require.NoError(t, err)
	require.GreaterOrEqual(t, m.Data.(metricdata.Sum[int64]).DataPoints[0].Value, int64(3))
}

// The store's own state is reported as metrics.
func TestStoreMetrics(t *testing.T) {
	b := setup(t, nil)
	td := heavy(1000, "a", "b")
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
	metadatatest.AssertEqualExporterAgentSessionBlocksStored(t, b.tel, point(4), ignore...)
	metadatatest.AssertEqualExporterAgentSessionBlocksDeduplicated(t, b.tel, point(2), ignore...)
	metadatatest.AssertEqualExporterAgentSessionBlockBytesStored(t, b.tel, point(2000), ignore...)
	metadatatest.AssertEqualExporterAgentSessionBlockBytesDeduplicated(t, b.tel, point(2000), ignore...)
	metadatatest.AssertEqualExporterAgentSessionSessionsTouched(t, b.tel, point(4), ignore...)
	gauge := func(name string) int64 {
		m, err := b.tel.GetMetric("otelcol_exporter_agent_session_" + name)
		if err != nil {
			return -1
		}
		return m.Data.(metricdata.Gauge[int64]).DataPoints[0].Value
	}
	require.Eventually(t, func() bool { return gauge("store_size") > 1000 && gauge("sessions_unprojected") == 0 },
		20*time.Second, 20*time.Millisecond)
}
