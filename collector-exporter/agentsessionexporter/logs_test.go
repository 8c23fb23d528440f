package agentsessionexporter

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadata"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadatatest"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// records makes a log record of another program with one block in each of the sessions.
func records(sessions ...string) plog.Logs {
	ld := plog.NewLogs()
	sl := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty()
	sl.Scope().SetName("com.anthropic.claude_code.events")
	for _, id := range sessions {
		r := sl.LogRecords().AppendEmpty()
		r.SetTimestamp(pcommon.NewTimestampFromTime(epoch.Add(time.Second)))
		for key, value := range map[string]string{"event.name": "user_prompt", "session.id": id, "prompt": "body of " + id} {
			r.Attributes().PutStr(key, value)
		}
	}
	return ld
}

func TestPushLogsReturnsAfterCommit(t *testing.T) {
	b := setup(t, nil)
	ld := records("a", "b", "c")
	l := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords()
	l.At(2).Attributes().Remove(string(spans.SessionIDKey))
	l.AppendEmpty().Body().SetStr("a line of somebody else's")
	ld.MarkReadOnly()
	require.NoError(t, b.logsExp.ConsumeLogs(t.Context(), ld))
	require.Equal(t, map[string]int{"a": 1, "b": 1}, b.store.committed())

	metadatatest.AssertEqualExporterAgentSessionLogRecordsStored(t, b.tel, point(2), ignore...)
	metadatatest.AssertEqualExporterAgentSessionLogRecordsForeign(t, b.tel,
		point(1, attribute.String("scope", "")), ignore...)
	metadatatest.AssertEqualExporterAgentSessionLogRecordsRejected(t, b.tel,
		point(1, attribute.String("reason", otlprow.ReasonNoSession)), ignore...)
	metadatatest.AssertEqualExporterAgentSessionBlocksStored(t, b.tel, point(2), ignore...)
	for _, name := range []string{"stored", "foreign", "rejected"} {
		_, err := b.tel.GetMetric("otelcol_exporter_agent_session_spans_" + name)
		require.Error(t, err, "log records are no spans")
	}
}

// Both signals of one configured exporter open its file once, and the last one that stops closes it.
func TestSignalsShareAStore(t *testing.T) {
	b := setup(t, nil)
	require.Equal(t, 1, b.opened)
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), traces("a")))
	require.NoError(t, b.logsExp.ConsumeLogs(t.Context(), records("a")))
	require.Equal(t, map[string]int{"a": 2}, b.store.committed())

	opened, closed := 0, 0
	f := newFactory(newStores(func(ctx context.Context, cfg *Config) (store.Store, error) {
		opened++
		s, err := openDSN(ctx, cfg)
		return closeCounter{s, &closed}, err
	}))
	host, set := componenttest.NewNopHost(), exportertest.NewNopSettings(metadata.Type)
	cfg := createDefaultConfig().(*Config)
	cfg.Storage = filepath.Join(t.TempDir(), "s.db")
	other := createDefaultConfig().(*Config)
	other.Storage = filepath.Join(t.TempDir(), "other.db")
	for round := range 2 { // as a Collector does that reads its configuration again
		tr, err := f.CreateTraces(t.Context(), set, cfg)
		require.NoError(t, err)
		lg, err := f.CreateLogs(t.Context(), set, cfg)
		require.NoError(t, err)
		third, err := f.CreateLogs(t.Context(), set, other)
		require.NoError(t, err)
		require.NoError(t, lg.Start(t.Context(), host))
		require.NoError(t, tr.Start(t.Context(), host))
		require.NoError(t, third.Start(t.Context(), host))
		require.Equal(t, 2*(round+1), opened, "one for each configuration")

		require.NoError(t, tr.Shutdown(t.Context()))
		require.Equal(t, 2*round, closed)
		require.NoError(t, lg.ConsumeLogs(t.Context(), records("a")), "the other one still runs")
		require.NoError(t, lg.Shutdown(t.Context()))
		require.Equal(t, 2*round+1, closed)
		require.NoError(t, third.ConsumeLogs(t.Context(), records("a")))
		require.NoError(t, third.Shutdown(t.Context()))
		require.Equal(t, 2*round+2, closed)
	}
}

type closeCounter struct {
	store.Store
	n *int
}

func (c closeCounter) Close() error { *c.n++; return c.Store.Close() }

// One signal that never started, or could not, keeps nothing of the other.
func TestSignalsStartApart(t *testing.T) {
	host, set := componenttest.NewNopHost(), exportertest.NewNopSettings(metadata.Type)
	unusable := fmt.Errorf("no file of otelagent: %w", store.ErrUnusable)
	fail := true
	f := newFactory(newStores(func(ctx context.Context, cfg *Config) (store.Store, error) {
		if fail {
			return nil, unusable
		}
		return openDSN(ctx, cfg)
	}))
	cfg := createDefaultConfig().(*Config)
	cfg.Storage = filepath.Join(t.TempDir(), "s.db")
	tr, err := f.CreateTraces(t.Context(), set, cfg)
	require.NoError(t, err)
	lg, err := f.CreateLogs(t.Context(), set, cfg)
	require.NoError(t, err)
	never, err := f.CreateLogs(t.Context(), set, cfg)
	require.NoError(t, err)
	require.ErrorIs(t, tr.Start(t.Context(), host), unusable)
	require.ErrorIs(t, lg.Start(t.Context(), host), unusable)
	require.NoError(t, tr.Shutdown(t.Context()))
	fail = false
	require.NoError(t, never.Shutdown(t.Context()))

	lg, err = f.CreateLogs(t.Context(), set, cfg)
	require.NoError(t, err)
	require.NoError(t, lg.Start(t.Context(), host))
	require.NoError(t, lg.ConsumeLogs(t.Context(), records("a")))
	require.NoError(t, lg.Shutdown(t.Context()))
	require.NoFileExists(t, cfg.Storage+"-wal", "the file is closed")
}

// Each signal has a queue of its own. The store stays open until the last of them is empty.
func TestShutdownDrainsTheQueue(t *testing.T) {
	b := setup(t, nil, func(c *Config) {
		c.QueueConfig = configoptional.Some(exporterhelper.NewDefaultQueueConfig())
	})
	require.Equal(t, 1, b.logs.FilterMessageSnippet("sending_queue is kept in memory only").Len(), "once for both signals")
	for i := range 20 {
		require.NoError(t, b.logsExp.ConsumeLogs(t.Context(), records(fmt.Sprint("s", i))))
		require.NoError(t, b.exp.ConsumeTraces(t.Context(), traces(fmt.Sprint("s", i))))
	}
	require.NoError(t, b.shutdown()) // traces first
	got := b.store.committed()
	require.Len(t, got, 20)
	for id, n := range got {
		require.Equal(t, 2, n, id)
	}
}

// recorded returns the spans of an event stream.
func recorded(t testing.TB, events []byte) ptrace.Traces {
	t.Helper()
	ended := tracetest.NewSpanRecorder()
	p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(ended))
	rec := event.NewRecorder(otelagent.NewTracer(otelagent.WithTracerProvider(p), writer.WithDerivedIDs,
		otelagent.WithCapture(otelagent.CaptureContent)))
	for ev, err := range phi.NewDecoder().Events(bytes.NewReader(events)) {
		require.NoError(t, err)
		rec.Record(t.Context(), ev)
	}
	rec.Close(t.Context())
	require.NoError(t, p.Shutdown(t.Context()))

	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "test")
	ss := rs.ScopeSpans().AppendEmpty()
	for _, from := range ended.Ended() {
		s := ss.Spans().AppendEmpty()
		s.SetName(from.Name())
		s.SetTraceID(pcommon.TraceID(from.SpanContext().TraceID()))
		s.SetSpanID(pcommon.SpanID(from.SpanContext().SpanID()))
		s.SetParentSpanID(pcommon.SpanID(from.Parent().SpanID()))
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(from.StartTime()))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(from.EndTime()))
		if from.Status().Code.String() == "Error" {
			s.Status().SetCode(ptrace.StatusCodeError)
		}
		put(t, s.Attributes(), from.Attributes())
		for _, e := range from.Events() {
			to := s.Events().AppendEmpty()
			to.SetName(e.Name)
			to.SetTimestamp(pcommon.NewTimestampFromTime(e.Time))
			put(t, to.Attributes(), e.Attributes)
		}
	}
	return td
}

func put(t testing.TB, m pcommon.Map, attrs []attribute.KeyValue) {
	t.Helper()
	for _, a := range attrs {
		v := m.PutEmpty(string(a.Key))
		if a.Value.Type() == attribute.STRINGSLICE {
			l := v.SetEmptySlice()
			for _, s := range a.Value.AsStringSlice() {
				l.AppendEmpty().SetStr(s)
			}
			continue
		}
		require.NoError(t, v.FromRaw(a.Value.AsInterface()), a.Key)
	}
}

// read returns the requests of all sessions by run, turn and attempt.
func read(t *testing.T, st store.Store) map[string]string {
	t.Helper()
	requests := map[string]string{}
	for sum, err := range st.Sessions(t.Context(), store.Query{}) {
		require.NoError(t, err)
		blocks := must.Get(session.NewBlockSet(st.Blocks(t.Context(), sum.Key)))(t)
		tree := session.Assemble(must.All(st.Rows(t.Context(), sum.Key))(t))
		for _, run := range tree.Runs {
			for _, turn := range run.Turns {
				for _, q := range turn.Requests {
					p := q.Payload(blocks)
					requests[fmt.Sprintf("%s/%s/%d/%d", tree.ID, run.ID, turn.Index, q.Attempt)] = fmt.Sprintf("%v %v %v %s", p.Exact,
						p.Missing, p.Defects, p.Bytes)
				}
			}
		}
	}
	return requests
}
