package agentsessionexporter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadatatest"
	"github.com/otelagent/otelagent/spans"
)

func rejectsIn(t *testing.T, st store.Rejecter) (l []store.Reject) {
	t.Helper()
	for r, err := range st.Rejects(t.Context(), 0) {
		require.NoError(t, err)
		require.False(t, r.Time.IsZero())
		l = append(l, r)
	}
	return l
}

var byReason = []cmp.Option{
	cmpopts.IgnoreFields(store.Reject{}, "Time"),
	cmpopts.SortSlices(func(a, b store.Reject) bool { return a.Reason+a.Signal < b.Reason+b.Signal }),
}

// What was not stored, and why, is listed a moment later, by what it says it is and without content.
func TestRejectsAreKept(t *testing.T) {
	b := setup(t, refuse("refused"), func(c *Config) { c.ForeignSpans = "record" })
	td := traces("good", "nobody", "refused")
	td.ResourceSpans().At(0).Resource().Attributes().PutStr("service.name", "coder")
	l := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	l.At(1).Attributes().Remove(string(spans.SessionIDKey))
	for i := range l.Len() {
		l.At(i).Attributes().PutStr(string(spans.ErrorMessageKey), "content")
	}
	appendForeign(td)
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
	ld := records("good", "late")
	ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(1).SetTimestamp(0)
	require.NoError(t, b.logsExp.ConsumeLogs(t.Context(), ld))

	want := []store.Reject{
		{Reason: otlprow.ReasonNoSession, Signal: "span", Name: spans.SpanRun, Service: "coder", Trace: session.TraceID{15: 2}, Span: session.SpanID{7: 2}},
		{Reason: "store", Signal: "span", Name: spans.SpanRun, Service: "coder", Trace: session.TraceID{15: 3}, Span: session.SpanID{7: 3}, Session: session.Key{ID: "refused"}},
		{Reason: otlprow.ReasonForeign, Signal: "span", Name: "GET /", Service: "coder", Trace: session.TraceID{1}, Span: session.SpanID{1}},
		{Reason: otlprow.ReasonTimes, Signal: "log", Name: spans.EventBlocks, Trace: session.TraceID{15: 2}, Span: session.SpanID{7: 2}, Session: session.Key{ID: "late"}},
	}
	require.Eventually(t, func() bool { return len(rejectsIn(t, b.store)) == len(want) }, 10*time.Second, 5*time.Millisecond)
	if diff := cmp.Diff(want, rejectsIn(t, b.store), byReason...); diff != "" {
		t.Error(diff)
	}
	_, err := b.tel.GetMetric("otelcol_exporter_agent_session_rejects_dropped")
	require.Error(t, err)
}

// The name of a foreign span is whatever somebody made it.
func TestRejectsAreRedacted(t *testing.T) {
	b := setup(t, nil, redacting(""), func(c *Config) { c.ForeignSpans = "record" })
	td := traces()
	appendForeign(td)
	td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetName("GET /?key=" + secret)
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
	require.Eventually(t, func() bool { return len(rejectsIn(t, b.store)) == 1 }, 10*time.Second, 5*time.Millisecond)
	require.Equal(t, "GET /?key=[redacted:api-key]", rejectsIn(t, b.store)[0].Name)
}

func TestRejectsOff(t *testing.T) {
	b := setup(t, refuse("b"), func(c *Config) { c.Rejects = false })
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), traces("a", "b")))
	require.NoError(t, b.shutdown())
	require.Empty(t, b.shared(t).rejects.wait)
	st, err := openDSN(t.Context(), b.cfg)
	require.NoError(t, err)
	require.Empty(t, rejectsIn(t, st.(store.Rejecter)))
	require.NoError(t, st.Close())
}

// A flood of what is rejected costs a bounded number of rejects, and the batch nothing.
func TestRejectsAreBounded(t *testing.T) {
	b := setup(t, nil, func(c *Config) { c.ForeignSpans = "record" })
	ld := plog.NewLogs()
	l := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	const n = 1000
	for i := range n {
		r := l.AppendEmpty()
		r.SetEventName(fmt.Sprint("foreign", i))
		r.SetTraceID(pcommon.TraceID{1})
	}
	for range 5 {
		require.NoError(t, b.logsExp.ConsumeLogs(t.Context(), ld))
	}
	require.NoError(t, b.shutdown())
	st, err := openDSN(t.Context(), b.cfg)
	require.NoError(t, err)
	kept := len(rejectsIn(t, st.(store.Rejecter)))
	require.NoError(t, st.Close())
	require.NotZero(t, kept)
	require.LessOrEqual(t, kept, 5*otlprow.MaxRejections)
	m, err := b.tel.GetMetric("otelcol_exporter_agent_session_rejects_dropped")
	require.NoError(t, err)
	require.EqualValues(t, 5*n-kept, m.Data.(metricdata.Sum[int64]).DataPoints[0].Value, "each is kept or counted")
}

// failingRejecter does not take rejects, after a while.
type failingRejecter struct{}

func (failingRejecter) PutRejects(context.Context, []store.Reject) error {
	return errors.New("disk full")
}
func (failingRejecter) Rejects(context.Context, int) iter.Seq2[store.Reject, error] {
	return func(func(store.Reject, error) bool) {}
}

func TestRejectsThatAreLostAreCounted(t *testing.T) {
	lost := 0
	r := newRejects(func(n int) { lost += n })
	r.add(make([]store.Reject, maxRejects-1), 0)
	r.add(make([]store.Reject, 3), 4)
	require.Equal(t, 2+4, lost, "no room, and nobody described them")
	r.flush(t.Context(), failingRejecter{})
	require.Equal(t, 2+4+maxRejects, lost)
	r.add(make([]store.Reject, 5), 0)
	r.drop()
	require.Equal(t, 2+4+maxRejects+5, lost)
	r.drop()
	r.flush(t.Context(), failingRejecter{})
	require.Equal(t, 2+4+maxRejects+5, lost, "there is nothing left")
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
	for k, err := range b.store.Blocks(t.Context(), key, nil) {
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

// What the store knows of itself is told as metrics.
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
	require.Eventually(t, func() bool { return gauge("store_size") > 1000 && gauge("sessions_unprojected") == 0 }, 20*time.Second, 20*time.Millisecond)
}
