package agentsessionexporter

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelagent/otelagent/backend/store/retention"
)

// retain starts the deletion of old sessions, or returns nil when everything is kept. It runs until close; run bounds
// what it reports.
func (e *sessionExporter) retain(run context.Context, o *openStore) *retention.Sweeper {
	p, some := e.cfg.policy()
	if !some {
		return nil
	}
	return retention.NewSweeper(o.Store, p, e.cfg.Retention.Interval,
		func(done retention.Result, took time.Duration, err error) { e.swept(run, o, done, took, err) })
}

// swept counts what one sweep did and logs it.
func (e *sessionExporter) swept(
	ctx context.Context,
	o *openStore,
	done retention.Result,
	took time.Duration,
	err error,
) {
	for _, c := range []struct {
		cause string
		n     int
	}{{"age", done.ByAge}, {"sessions", done.BySessions}, {"size", done.ByBytes}} {
		if c.n > 0 {
			e.telemetry.ExporterAgentSessionRetentionSessionsDeleted.Add(ctx, int64(c.n),
				metric.WithAttributes(e.id, attribute.String("cause", c.cause)))
		}
	}
	if done.Sessions > 0 {
		e.logger.Info("retention deleted sessions", zap.Int("sessions", done.Sessions), zap.Int("by_age", done.ByAge),
			zap.Int("by_sessions", done.BySessions), zap.Int("by_size", done.ByBytes), zap.Duration("took", took))
		e.measureSize(ctx, o)
	}
	if err != nil && ctx.Err() == nil {
		e.telemetry.ExporterAgentSessionRetentionFailures.Add(ctx, 1, metric.WithAttributes(e.id))
		e.logger.Warn("retention could not delete all that it should; the next sweep goes on", zap.Error(err))
	}
}
