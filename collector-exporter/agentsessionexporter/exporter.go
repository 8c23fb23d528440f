package agentsessionexporter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadata"
	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/session/otlprow"
	"github.com/otelagent/otelagent/store"
)

// reasonStore counts spans and log records that decoded well and that the store refused by themselves.
const reasonStore = "store"

// sessionExporter holds what the exporter of one signal needs between start and shutdown. push is
// called from many goroutines at once, but never before start returned. One that is late for shutdown
// fails as a closed store does.
type sessionExporter struct {
	cfg       *Config
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
	id        attribute.KeyValue
	stores    *stores

	shared   *sharedStore // from start on; let go of by shutdown
	released bool
}

func newSessionExporter(cfg *Config, set exporter.Settings, all *stores) (*sessionExporter, error) {
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, fmt.Errorf("agent_session: create metrics: %w", err)
	}
	return &sessionExporter{
		cfg:       cfg,
		logger:    set.Logger,
		telemetry: tb,
		id:        attribute.String("exporter", set.ID.String()),
		stores:    all,
	}, nil
}

// start opens the store, unless the exporter of another signal with the same configuration did. Whatever hinders it stops
// the collector here, not at the first batch.
func (e *sessionExporter) start(ctx context.Context, _ component.Host) error {
	shared, first, err := e.stores.acquire(ctx, e.cfg, e.logger)
	if err != nil {
		return fmt.Errorf("agent_session: storage: %w", err)
	}
	e.shared, e.released = shared, false
	if first && e.cfg.queueLosesData() {
		e.logger.Warn("sending_queue is kept in memory only: what it holds is lost when the process dies, after the sender was told that it arrived; set sending_queue::storage to a storage extension, or leave sending_queue out")
	}
	return nil
}

// shutdown lets go of the store; the last signal lets the projections catch up, as far as ctx allows, and closes it. It is
// safe without start and when called twice.
func (e *sessionExporter) shutdown(ctx context.Context) error {
	var err error
	if e.shared != nil && !e.released {
		e.released = true
		err = e.stores.release(ctx, e.cfg, e.shared)
	}
	e.telemetry.Shutdown()
	return err
}

// pushTraces takes one batch of spans; see push.
func (e *sessionExporter) pushTraces(ctx context.Context, td ptrace.Traces) error {
	batch, report := otlprow.Decode(td)
	return e.push(ctx, e.spanCounters(), batch, report)
}

// pushLogs takes one batch of log records; see push.
func (e *sessionExporter) pushLogs(ctx context.Context, ld plog.Logs) error {
	batch, report := otlprow.DecodeLogs(ld)
	return e.push(ctx, e.recordCounters(), batch, report)
}

// push writes one decoded batch in one transaction. It returns nil once everything that can be stored is committed; a
// permanent error when the store refused all of it because of what is in it; any other error when the whole batch should
// come again, which is safe: writes are idempotent. What is malformed is counted and left out, it fails nothing else.
func (e *sessionExporter) push(ctx context.Context, c counters, batch session.Batch, report otlprow.Report) error {
	refused, err := e.put(ctx, batch)
	if err != nil && !consumererror.IsPermanent(err) {
		return err // comes again whole: nothing is counted now
	}
	e.count(ctx, c, batch, report, refused)
	e.shared.worker.TouchBatch(batch)
	return err
}

// refusal says how much of a batch the store would not take because of its content.
type refusal struct {
	rows, blocks int
	err          error // one of the reasons
}

func (r refusal) add(o refusal) refusal {
	if r.err == nil {
		r.err = o.err
	}
	r.rows, r.blocks = r.rows+o.rows, r.blocks+o.blocks
	return r
}

// put writes the batch. When the store refuses data it is halved until the bad row or block
// stands alone, so that the good ones are stored (DESIGN: a batch with good rows is never dropped).
func (e *sessionExporter) put(ctx context.Context, b session.Batch) (refusal, error) {
	if len(b.Rows)+len(b.Blocks) == 0 {
		return refusal{}, nil
	}
	r, err := e.putHalving(ctx, b)
	if err != nil {
		return refusal{}, fmt.Errorf("agent_session: write %d rows: %w", len(b.Rows), err)
	}
	if r.err == nil {
		return r, nil
	}
	if r.rows == len(b.Rows) && r.blocks == len(b.Blocks) {
		return r, consumererror.NewPermanent(fmt.Errorf("agent_session: write %d rows: %w", len(b.Rows), r.err))
	}
	e.logger.Warn("the store refused data; the rest of its batch is stored",
		zap.Int("rows", r.rows), zap.Int("blocks", r.blocks), zap.Error(r.err))
	return r, nil
}

func (e *sessionExporter) putHalving(ctx context.Context, b session.Batch) (refusal, error) {
	err := e.putOnce(ctx, b)
	if err == nil {
		return refusal{}, nil
	}
	if !errors.Is(err, store.ErrData) {
		return refusal{}, err
	}
	if len(b.Rows)+len(b.Blocks) == 1 {
		return refusal{rows: len(b.Rows), blocks: len(b.Blocks), err: err}, nil
	}
	left, right := halve(b)
	l, err := e.putHalving(ctx, left)
	if err != nil {
		return refusal{}, err
	}
	r, err := e.putHalving(ctx, right)
	if err != nil {
		return refusal{}, err
	}
	return l.add(r), nil
}

// halve splits a batch of at least two pieces into two that are not empty. Blocks part from rows
// first: they refer to each other by id only.
func halve(b session.Batch) (left, right session.Batch) {
	switch r, k := len(b.Rows), len(b.Blocks); {
	case r > 0 && k > 0:
		return session.Batch{Rows: b.Rows}, session.Batch{Blocks: b.Blocks}
	case r > 0:
		return session.Batch{Rows: b.Rows[:r/2]}, session.Batch{Rows: b.Rows[r/2:]}
	default:
		return session.Batch{Blocks: b.Blocks[:k/2]}, session.Batch{Blocks: b.Blocks[k/2:]}
	}
}

func (e *sessionExporter) putOnce(ctx context.Context, b session.Batch) error {
	start := time.Now()
	err := e.shared.store.Put(ctx, b)
	outcome := "ok"
	switch {
	case errors.Is(err, store.ErrData):
		outcome = "permanent"
	case err != nil:
		outcome = "retryable"
	}
	e.telemetry.ExporterAgentSessionPutDuration.Record(ctx, time.Since(start).Seconds(),
		metric.WithAttributes(e.id, attribute.String("outcome", outcome)))
	return err
}

// counters are the metrics that each signal has of its own.
type counters struct{ stored, foreign, rejected metric.Int64Counter }

func (e *sessionExporter) spanCounters() counters {
	t := e.telemetry
	return counters{t.ExporterAgentSessionSpansStored, t.ExporterAgentSessionSpansForeign, t.ExporterAgentSessionSpansRejected}
}

func (e *sessionExporter) recordCounters() counters {
	t := e.telemetry
	return counters{t.ExporterAgentSessionLogRecordsStored, t.ExporterAgentSessionLogRecordsForeign, t.ExporterAgentSessionLogRecordsRejected}
}

// count counts one batch that will not come again.
func (e *sessionExporter) count(ctx context.Context, c counters, b session.Batch, report otlprow.Report, refused refusal) {
	id := metric.WithAttributes(e.id)
	if n := len(b.Rows) - refused.rows; n > 0 {
		c.stored.Add(ctx, int64(n), id)
	}
	if n := len(b.Blocks) - refused.blocks; n > 0 {
		e.telemetry.ExporterAgentSessionBlocksStored.Add(ctx, int64(n), id)
	}
	if report.Foreign > 0 {
		c.foreign.Add(ctx, int64(report.Foreign), id)
	}
	if report.Cut > 0 {
		e.telemetry.ExporterAgentSessionPiecesCut.Add(ctx, int64(report.Cut), id)
	}
	reject := func(n int, reason string) {
		if n > 0 {
			c.rejected.Add(ctx, int64(n), metric.WithAttributes(e.id, attribute.String("reason", reason)))
		}
	}
	for reason, n := range report.Rejected {
		reject(n, reason)
	}
	reject(refused.rows, reasonStore)
}
