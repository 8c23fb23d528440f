package agentsessionexporter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap/zapcore"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadatatest"
)

func cause(c string) attribute.KeyValue { return attribute.String("cause", c) }

// Sessions that are too old go, with one line in the log and a count; the others stay.
func TestRetention(t *testing.T) {
	b := setup(t, nil, func(c *Config) { c.Retention.MaxAge, c.Retention.Interval = time.Hour, 50*time.Millisecond })
	td := traces("old", "older", "young")
	l := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	now := time.Now()
	l.At(2).SetStartTimestamp(pcommon.NewTimestampFromTime(now.Add(-time.Minute)))
	l.At(2).SetEndTimestamp(pcommon.NewTimestampFromTime(now))
	for i := range 2 {
		l.At(i).SetStartTimestamp(pcommon.NewTimestampFromTime(now.Add(-48 * time.Hour)))
		l.At(i).SetEndTimestamp(pcommon.NewTimestampFromTime(now.Add(-47 * time.Hour)))
	}
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
	require.Eventually(t, func() bool {
		var left []string
		for s, err := range b.store.Sessions(t.Context(), store.Query{}) {
			require.NoError(t, err)
			left = append(left, s.ID)
		}
		return len(left) == 1 && left[0] == "young" && deleted(b) == 2 // one is invisible before it is erased
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, b.shutdown())
	metadatatest.AssertEqualExporterAgentSessionRetentionSessionsDeleted(t, b.tel, point(2, cause("age")), ignore...)
	lines := b.logs.FilterMessage("retention deleted sessions").All()
	require.NotEmpty(t, lines)
	require.LessOrEqual(t, len(lines), 2)
	require.Zero(t, b.logs.FilterLevelExact(zapcore.WarnLevel).Len())
}

// deleted is how many sessions retention says that it deleted.
func deleted(b *testBundle) (n int64) {
	m, err := b.tel.GetMetric("otelcol_exporter_agent_session_retention_sessions_deleted")
	if err != nil {
		return 0
	}
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		n += p.Value
	}
	return n
}

// A sweep that fails is counted and logged, and the next one is tried.
func TestRetentionFails(t *testing.T) {
	fails := errors.New("disk full")
	b := setup(t, nil, func(c *Config) { c.Retention.MaxSessions, c.Retention.Interval = 1, 20*time.Millisecond })
	b.store.deletes(fails)
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), traces("a", "b")))
	require.Eventually(t, func() bool { return b.logs.FilterMessageSnippet("retention could not").Len() > 0 },
		20*time.Second, 10*time.Millisecond)
	_, err := b.tel.GetMetric("otelcol_exporter_agent_session_retention_failures")
	require.NoError(t, err)
	b.store.deletes(nil)
	require.Eventually(t, func() bool { return deleted(b) == 1 }, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, b.shutdown())
	metadatatest.AssertEqualExporterAgentSessionRetentionSessionsDeleted(t, b.tel, point(1, cause("sessions")), ignore...)
}

// Summaries that cannot be written are counted.
func TestProjectionFailures(t *testing.T) {
	b := setup(t, nil)
	b.store.projects(errors.New("disk full"))
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), traces("a")))
	require.Eventually(t, func() bool {
		_, err := b.tel.GetMetric("otelcol_exporter_agent_session_projection_failures")
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	require.NotZero(t, b.logs.FilterMessageSnippet("summary could not be brought up to date").Len())
	b.store.projects(nil)
}

func (s *hookStore) deletes(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleteErr = err
}

func (s *hookStore) projects(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.projectErr = err
}

func (s *hookStore) Delete(ctx context.Context, list ...store.Deletion) ([]session.Key, error) {
	s.mu.Lock()
	err := s.deleteErr
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Store.Delete(ctx, list...)
}

func (s *hookStore) SetSummary(ctx context.Context, k session.Key, p store.SummaryUpdate) error {
	s.mu.Lock()
	err := s.projectErr
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Store.SetSummary(ctx, k, p)
}
