package agentsessionexporter

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadata"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadatatest"
	"github.com/otelagent/otelagent/spans"
)

// hookStore is a real store whose writes a test can make fail. It is safe for concurrent use.
type hookStore struct {
	store.Store
	before func(session.Batch) error // nil: nothing fails

	mu   sync.Mutex
	puts int
	rows map[string]int // committed rows by session

	deleteErr, projectErr error
}

func (s *hookStore) Put(ctx context.Context, b session.Batch) error {
	s.mu.Lock()
	s.puts++
	s.mu.Unlock()
	if s.before != nil {
		if err := s.before(b); err != nil {
			return err
		}
	}
	if err := s.Store.Put(ctx, b); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range rowSessions(b) {
		s.rows[k]++
	}
	return nil
}

// The rest of what a SQLite store is, which embedding hides.

func (s *hookStore) Counts() store.Counts { return s.Store.(store.Counter).Counts() }

func (s *hookStore) committed() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for k, n := range s.rows {
		out[k] = n
	}
	return out
}

// testBundle is one configured exporter, of both signals, and what they share.
type testBundle struct {
	exp     exporter.Traces
	logsExp exporter.Logs
	store   *hookStore
	opened  int
	tel     *componenttest.Telemetry
	logs    *observer.ObservedLogs
	cfg     *Config

	shutdown func() error // the helper's own panics when called twice
}

func setup(t *testing.T, before func(session.Batch) error, change ...func(*Config)) *testBundle {
	t.Helper()
	b := &testBundle{
		store: &hookStore{before: before, rows: map[string]int{}},
		tel:   componenttest.NewTelemetry(),
		cfg:   createDefaultConfig().(*Config),
	}
	t.Cleanup(func() { require.NoError(t, b.tel.Shutdown(context.Background())) })
	b.cfg.Storage = filepath.Join(t.TempDir(), "sessions.db")
	for _, f := range change {
		f(b.cfg)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	b.logs = logs
	set := exportertest.NewNopSettings(metadata.Type)
	set.ID = component.MustNewIDWithName("agent_session", "test")
	set.TelemetrySettings = b.tel.NewTelemetrySettings()
	set.Logger = zap.New(core)
	all := newStores(func(ctx context.Context, cfg *Config) (store.Store, error) {
		b.opened++
		s, err := openDSN(ctx, cfg)
		b.store.Store = s
		return b.store, err
	})
	all.timing = quickTiming
	f := newFactory(all)
	var err error
	b.exp, err = f.CreateTraces(t.Context(), set, b.cfg)
	require.NoError(t, err)
	b.logsExp, err = f.CreateLogs(t.Context(), set, b.cfg)
	require.NoError(t, err)
	require.NoError(t, b.exp.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, b.logsExp.Start(t.Context(), componenttest.NewNopHost()))
	b.shutdown = sync.OnceValue(func() error {
		return errors.Join(b.exp.Shutdown(context.Background()), b.logsExp.Shutdown(context.Background()))
	})
	t.Cleanup(func() { require.NoError(t, b.shutdown()) })
	return b
}

// quickTiming lets nothing wait.
var quickTiming = timing{
	openTimeout: 10 * time.Second, openRetry: time.Millisecond, openRetryMax: 10 * time.Millisecond,
	measure: 10 * time.Millisecond,
}

func noRetry(c *Config) { c.RetryConfig.Enabled = false }

var epoch = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// traces makes one session.run span in each of the sessions, then change may spoil them.
func traces(sessions ...string) ptrace.Traces {
	td := ptrace.NewTraces()
	ss := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	for i, id := range sessions {
		s := ss.Spans().AppendEmpty()
		s.SetName(spans.SpanRun)
		s.SetTraceID(pcommon.TraceID{14: byte((i + 1) >> 8), 15: byte(i + 1)})
		s.SetSpanID(pcommon.SpanID{6: byte((i + 1) >> 8), 7: byte(i + 1)})
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(epoch))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(epoch.Add(time.Second)))
		a := s.Attributes()
		a.PutInt(string(spans.SchemaKey), spans.SchemaVersion)
		a.PutStr(string(spans.SessionIDKey), id)
		a.PutStr(string(spans.ConversationIDKey), id)
		a.PutStr(string(spans.RunIDKey), id+".run")
		a.PutInt(string(spans.RunStartKey), epoch.UnixNano())
	}
	return td
}

func appendForeign(td ptrace.Traces) {
	s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().AppendEmpty()
	s.SetName("GET /")
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{1})
}

func TestPushReturnsAfterCommit(t *testing.T) {
	b := setup(t, nil)
	td := traces("a", "b")
	appendForeign(td)
	td.MarkReadOnly()
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
	require.Equal(t, map[string]int{"a": 1, "b": 1}, b.store.committed())

	metadatatest.AssertEqualExporterAgentSessionSpansStored(t, b.tel,
		point(2), ignore...)
	metadatatest.AssertEqualExporterAgentSessionSpansForeign(t, b.tel,
		point(1, attribute.String("scope", "")), ignore...)
	metadatatest.AssertEqualExporterAgentSessionPutDuration(
		t,
		b.tel,
		[]metricdata.HistogramDataPoint[float64]{
			{Attributes: attribute.NewSet(attribute.String("exporter", "agent_session/test"), attribute.String("outcome", "ok")),
				Count: 1},
		},
		metricdatatest.IgnoreTimestamp(),
		metricdatatest.IgnoreExemplars(),
		metricdatatest.IgnoreValue(),
	)
	_, err := b.tel.GetMetric("otelcol_exporter_agent_session_spans_rejected")
	require.Error(t, err, "nothing was rejected")
}

func refuse(ids ...string) func(session.Batch) error {
	return func(b session.Batch) error {
		for _, got := range rowSessions(b) {
			for _, id := range ids {
				if got == id {
					return fmt.Errorf("row of %s: %w", got, store.ErrData)
				}
			}
		}
		return nil
	}
}

// Of a batch of many sessions those that the store refuses keep no other from it, as far as the number of writes
// allows.
func TestRefusedSessionsAmongMany(t *testing.T) {
	var ids []string
	for i := range 1000 {
		ids = append(ids, fmt.Sprint("s", i))
	}
	patient := func(c *Config) { c.TimeoutConfig.Timeout = 0 } // else a slow machine begins again
	b := setup(t, refuse("s0", "s300", "s999"), patient)
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), traces(ids...)))
	require.Len(t, b.store.committed(), len(ids)-3)
	require.Less(t, b.store.puts, 100)

	all := setup(t, refuse(ids...), patient)
	err := all.exp.ConsumeTraces(t.Context(), traces(ids...))
	require.ErrorIs(t, err, store.ErrData)
	require.True(t, consumererror.IsPermanent(err))
	require.Empty(t, all.store.committed())
	require.Less(t, all.store.puts, 2*maxWrites+2)
}

// One bad row among good ones: the good ones are stored, the bad one is counted, and the sender gets a success, since
// sending again would change nothing.
func TestRefusedRowLeavesTheGoodOnes(t *testing.T) {
	for _, bad := range []string{"a", "c", "e"} {
		t.Run(bad, func(t *testing.T) {
			b := setup(t, refuse(bad))
			require.NoError(t, b.exp.ConsumeTraces(t.Context(), traces("a", "b", "c", "d", "e")))
			want := map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}
			delete(want, bad)
			require.Equal(t, want, b.store.committed())

			metadatatest.AssertEqualExporterAgentSessionSpansStored(t, b.tel,
				point(4), ignore...)
			metadatatest.AssertEqualExporterAgentSessionSpansRejected(t, b.tel,
				point(1, reason("store")), ignore...)
			require.Equal(t, 1, b.logs.FilterLevelExact(zapcore.WarnLevel).Len())
		})
	}
}

// What is stored of a batch whose rest fails has a summary soon, although its sender gives up.
func TestStoredPartsOfAFailedBatchAreProjected(t *testing.T) {
	b := setup(t, func(part session.Batch) error {
		if err := refuse("bad")(part); err != nil || rowSessions(part)[0] != "a" {
			return err
		}
		return errors.New("away")
	}, noRetry)
	err := b.exp.ConsumeTraces(t.Context(), traces("a", "bad", "b"))
	require.ErrorContains(t, err, "away")
	require.Equal(t, map[string]int{"b": 1}, b.store.committed())
	require.Eventually(t, func() bool {
		stale, err := store.Stale(t.Context(), b.store)
		return err == nil && len(stale) == 0
	}, 20*time.Second, 20*time.Millisecond)
}

func TestTimeoutReachesTheStore(t *testing.T) {
	b := setup(t, nil, noRetry, func(c *Config) { c.TimeoutConfig.Timeout = time.Nanosecond })
	err := b.exp.ConsumeTraces(t.Context(), traces("a"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.False(t, consumererror.IsPermanent(err))
}

func TestShutdownTwiceAndWithoutStart(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Storage = filepath.Join(t.TempDir(), "s.db")
	e, err := newStores(openDSN).get(cfg, exportertest.NewNopSettings(metadata.Type))
	require.NoError(t, err)
	require.NoError(t, e.shutdown(t.Context()))
	require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, e.shutdown(t.Context()))
	require.NoError(t, e.shutdown(t.Context()))

	err = e.pushTraces(t.Context(), traces("late"))
	require.ErrorIs(t, err, store.ErrClosed)
	require.False(t, consumererror.IsPermanent(err), "nothing is wrong with the spans")
}

func rowSessions(b session.Batch) []string {
	var ids []string
	for i := range b.Rows {
		ids = append(ids, b.Rows[i].Session.ID)
	}
	return ids
}
