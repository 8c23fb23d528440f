package agentsessionexporter

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/receiver"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// The Collector's own check of what an exporter owes its pipeline: everything is delivered, what may go away is tried
// again, what will not is not. It sends spans and records with a test_id and wants them back from a receiver. Here the
// wire between exporter and receiver is the store: a write first asks the receiver's consumer, whose errors are then
// those of the store, and what the receiver took is what the store must hold in the end.

const testID = "test_id"

// wire is the store and the receiver behind it.
type wire struct {
	mu     sync.Mutex
	traces consumer.Traces
	logs   consumer.Logs
	taken  map[string]bool
	stored map[string]bool // at the end, read back
}

func (w *wire) open(ctx context.Context, cfg *Config) (store.Store, error) {
	s, err := openDSN(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &wiredStore{Store: s, wire: w}, nil
}

type wiredStore struct {
	store.Store
	wire *wire
}

// Put takes one row at a time, as the check sends them.
func (s *wiredStore) Put(ctx context.Context, b session.Batch) error {
	if len(b.Rows) != 1 {
		return fmt.Errorf("%d rows", len(b.Rows))
	}
	id := b.Rows[0].Attr(testID).Str()
	s.wire.mu.Lock()
	defer s.wire.mu.Unlock()
	var err error
	if s.wire.traces != nil {
		td := ptrace.NewTraces()
		td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty().Attributes().PutStr(testID, id)
		err = s.wire.traces.ConsumeTraces(ctx, td)
	} else {
		ld := plog.NewLogs()
		ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Attributes().PutStr(testID, id)
		err = s.wire.logs.ConsumeLogs(ctx, ld)
	}
	switch {
	case consumererror.IsPermanent(err):
		return errors.Join(err, store.ErrData)
	case err != nil:
		return err
	}
	s.wire.taken[id] = true
	return s.Store.Put(ctx, b)
}

// Close reads back what is stored.
func (s *wiredStore) Close() error {
	ctx := context.Background()
	for sum, err := range s.Sessions(ctx, store.Query{}) {
		if err != nil {
			return err
		}
		for row, err := range s.Rows(ctx, sum.Key) {
			if err != nil {
				return err
			}
			s.wire.stored[row.Attr(testID).Str()] = true
		}
	}
	return s.Store.Close()
}

// receiver is where what was stored comes out.
func (w *wire) receiver() receiver.Factory {
	return receiver.NewFactory(component.MustNewType("store_reader"), func() component.Config { return &struct{}{} },
		receiver.WithTraces(func(_ context.Context, _ receiver.Settings, _ component.Config,
			next consumer.Traces) (receiver.Traces, error) {
			w.traces = next
			return nothing{}, nil
		}, component.StabilityLevelAlpha),
		receiver.WithLogs(func(_ context.Context, _ receiver.Settings, _ component.Config, next consumer.Logs) (receiver.Logs,
			error) {
			w.logs = next
			return nothing{}, nil
		}, component.StabilityLevelAlpha))
}

type nothing struct {
	component.StartFunc
	component.ShutdownFunc
}

// exporter makes the exporter under test, and turns what the check sends into spans and records of otelagent.
func (w *wire) exporter() exporter.Factory {
	all := newStores(w.open)
	all.timing = quickTiming
	f := newFactory(all)
	return exporter.NewFactory(f.Type(), f.CreateDefaultConfig,
		exporter.WithTraces(func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
			e, err := f.CreateTraces(ctx, set, cfg)
			return ownTraces{e}, err
		}, f.TracesStability()),
		exporter.WithLogs(func(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
			e, err := f.CreateLogs(ctx, set, cfg)
			return ownLogs{e}, err
		}, f.LogsStability()))
}

type ownTraces struct{ exporter.Traces }

func (o ownTraces) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	id, _ := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().Get(testID)
	ours := traces("s" + id.Str())
	s := ours.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	s.SetTraceID(numbered(id.Str()))
	s.Attributes().PutStr(testID, id.Str())
	return o.Traces.ConsumeTraces(ctx, ours)
}

type ownLogs struct{ exporter.Logs }

func (o ownLogs) ConsumeLogs(ctx context.Context, ld plog.Logs) error {
	id, _ := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0).Attributes().Get(testID)
	ours := records("s" + id.Str())
	r := ours.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
	r.SetTraceID(numbered(id.Str()))
	r.Attributes().PutStr(testID, id.Str())
	r.Attributes().Remove("prompt") // so that there is one piece to be refused
	return o.Logs.ConsumeLogs(ctx, ours)
}

func numbered(id string) pcommon.TraceID {
	n, _ := strconv.Atoi(id)
	return pcommon.TraceID{0: 1, 14: byte(n >> 8), 15: byte(n)}
}

func TestConsumeContract(t *testing.T) {
	for _, signal := range []pipeline.Signal{pipeline.SignalTraces, pipeline.SignalLogs} {
		t.Run(signal.String(), func(t *testing.T) {
			w := &wire{taken: map[string]bool{}, stored: map[string]bool{}}
			cfg := createDefaultConfig().(*Config)
			cfg.Storage = filepath.Join(t.TempDir(), "s.db")
			cfg.Sources = []any{map[string]any{"name": "claude-code", "keep": []any{testID}}}
			cfg.RetryConfig.InitialInterval = time.Millisecond
			cfg.RetryConfig.MaxInterval = 2 * time.Millisecond
			exportertest.CheckConsumeContract(exportertest.CheckConsumeContractParams{
				T: t, NumberOfTestElements: 50, Signal: signal,
				ExporterFactory: w.exporter(), ExporterConfig: cfg, ReceiverFactory: w.receiver(),
			})
			require.NotEmpty(t, w.taken)
			require.Equal(t, w.taken, w.stored, "what was acknowledged is stored, and nothing else")
		})
	}
}
