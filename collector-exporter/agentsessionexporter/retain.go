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
func (s *sharedStore) retain(run context.Context, o *openStore) *retention.Sweeper {
	p, some := s.cfg.policy()
	if !some {
		return nil
	}
	return retention.NewSweeper(o.Store, p, s.cfg.Retention.Interval,
		func(done retention.Result, took time.Duration, err error) { s.swept(run, o, done, took, err) })
}

// swept counts what one sweep did and logs it.
func (s *sharedStore) swept(ctx context.Context, o *openStore, done retention.Result, took time.Duration, err error) {
	for _, c := range []struct {
		cause string
		n     int
	}{{"age", done.ByAge}, {"sessions", done.BySessions}, {"size", done.ByBytes}} {
		if c.n > 0 {
			s.telemetry.ExporterAgentSessionRetentionSessionsDeleted.Add(ctx, int64(c.n),
				metric.WithAttributes(s.id, attribute.String("cause", c.cause)))
		}
	}
	if done.Sessions > 0 {
		s.logger.Info("retention deleted sessions", zap.Int("sessions", done.Sessions), zap.Int("by_age", done.ByAge),
			zap.Int("by_sessions", done.BySessions), zap.Int("by_size", done.ByBytes), zap.Duration("took", took))
		s.measureSize(ctx, o)
	}
	if err != nil && ctx.Err() == nil {
		s.telemetry.ExporterAgentSessionRetentionFailures.Add(ctx, 1, metric.WithAttributes(s.id))
		s.logger.Warn("retention could not delete all that it should; the next sweep goes on", zap.Error(err))
	}
}
