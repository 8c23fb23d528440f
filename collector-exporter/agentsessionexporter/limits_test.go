package agentsessionexporter

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadatatest"
	"github.com/otelagent/otelagent/spans"
)

// heavy makes traces each of whose spans brings a body of n bytes that no other has.
func heavy(n int, sessions ...string) ptrace.Traces {
	td := traces(sessions...)
	l := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for i := range l.Len() {
		e := l.At(i).Events().AppendEmpty()
		e.SetName(spans.EventBlocks)
		body := sessions[i] + time.Now().String()
		e.Attributes().PutEmptySlice(string(spans.BlockBodiesKey)).AppendEmpty().SetStr(body +
			strings.Repeat("x", n-len(body)))
	}
	return td
}

// The exporter rejects data of a session above its limit, and stores the other sessions of the batch.
func TestSessionLimit(t *testing.T) {
	b := setup(t, nil, func(c *Config) { c.Limits.SessionMiB = 1 })
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), heavy(mebi*3/4, "large", "small")))
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), heavy(mebi/2, "large")), "it was below")
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), heavy(100, "large", "small", "large")))
	require.Equal(t, map[string]int{"large": 2, "small": 2}, b.store.committed())
	metadatatest.AssertEqualExporterAgentSessionSpansRejected(t, b.tel, point(2, reason("session_limit")), ignore...)
	metadatatest.AssertEqualExporterAgentSessionBlocksRejected(t, b.tel, point(2, reason("session_limit")), ignore...)
	metadatatest.AssertEqualExporterAgentSessionSpansStored(t, b.tel, point(4), ignore...)

	err := b.exp.ConsumeTraces(t.Context(), heavy(100, "large"))
	require.True(t, consumererror.IsPermanent(err), "nothing of it was taken, and would not be another time")
	require.ErrorContains(t, err, "limits::session_mib")
	require.NotContains(t, err.Error(), "large")

	line := logged(b)["session_limit"]
	require.Equal(t, "large", line["first_session"])
	require.Equal(t, int64(1), line["count"])
}

// A store at its limit makes senders come again, and takes what they bring once there is room.
func TestStoreLimit(t *testing.T) {
	b := setup(t, nil, noRetry, func(c *Config) { c.Limits.StoreMiB = 4 })
	var err error
	n := 0
	for err == nil && n < 100 {
		err = b.exp.ConsumeTraces(t.Context(), randomTraces(n))
		n++
	}
	require.ErrorIs(t, err, store.ErrFull)
	require.False(t, consumererror.IsPermanent(err))
	require.ErrorContains(t, err, "limits::store_mib is 4")
	metadatatest.AssertEqualExporterAgentSessionWriteFailures(t, b.tel, point(1, reason("full")), ignore...)
	metadatatest.AssertEqualExporterAgentSessionStoreOpen(t, b.tel, point(0), ignore...)
	size, err := b.store.Size(t.Context(), session.Key{})
	require.NoError(t, err)
	require.Less(t, size, int64(6*mebi))
	_, err = b.tel.GetMetric("otelcol_exporter_agent_session_spans_rejected")
	require.Error(t, err, "what comes again is not counted")

	for s, err := range b.store.Sessions(t.Context(), store.Query{}) {
		require.NoError(t, err)
		require.NoError(t, store.Delete(t.Context(), b.store, s.Key))
	}
	require.Eventually(t, func() bool { return b.exp.ConsumeTraces(t.Context(), randomTraces(n)) == nil }, 20*time.Second,
		50*time.Millisecond)
}

// A full store makes retention come soon, however long its interval.
func TestFullStoreIsSwept(t *testing.T) {
	b := setup(t, nil, noRetry, func(c *Config) {
		c.Limits.StoreMiB, c.Retention.MaxSizeMiB, c.Retention.Interval = 4, 2, time.Hour
	})
	full := func(n int) error { return b.exp.ConsumeTraces(t.Context(), randomTraces(n)) }
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = full(n)
	}
	require.ErrorIs(t, err, store.ErrFull)
	require.Eventually(t, func() bool { return full(n) == nil }, 20*time.Second, 50*time.Millisecond)
	// The sweep counts what it deleted when it ends. Space is free before that.
	require.Eventually(t, func() bool { return deleted(b) > 0 }, 20*time.Second, 50*time.Millisecond)
}

// randomTraces brings half a MiB that does not compress.
func randomTraces(n int) ptrace.Traces {
	td := traces("s")
	s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	s.SetSpanID([8]byte{byte(n), 1})
	var id [32]byte
	var b strings.Builder
	id[0] = byte(n)
	for b.Len() < mebi/2 {
		id = spans.BlockOf(id[:])
		b.WriteString(spans.BlockID(id).String())
	}
	e := s.Events().AppendEmpty()
	e.SetName(spans.EventBlocks)
	e.Attributes().PutEmptySlice(string(spans.BlockBodiesKey)).AppendEmpty().SetStr(b.String())
	return td
}
