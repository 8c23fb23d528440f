package agentsessionexporter

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelagent/otelagent/store/retention"
)

// retain sweeps at once and then every retention::interval until ctx ends.
func (s *sharedStore) retain(ctx context.Context, o *openStore, p retention.Policy) {
	tick := time.NewTicker(s.cfg.Retention.Interval)
	defer tick.Stop()
	for {
		s.sweep(ctx, o, p)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sweep deletes what p does not keep, counts it and tells of it.
func (s *sharedStore) sweep(ctx context.Context, o *openStore, p retention.Policy) {
	start := time.Now()
	done, err := retention.Apply(ctx, o.Store, start, p)
	for _, c := range []struct {
		cause string
		n     int
	}{{"age", done.ByAge}, {"sessions", done.BySessions}, {"size", done.ByBytes}} {
		if c.n > 0 {
			s.telemetry.ExporterAgentSessionRetentionSessionsDeleted.Add(ctx, int64(c.n), metric.WithAttributes(s.id, attribute.String("cause", c.cause)))
		}
	}
	if done.Sessions > 0 {
		s.logger.Info("retention deleted sessions", zap.Int("sessions", done.Sessions), zap.Int("by_age", done.ByAge),
			zap.Int("by_sessions", done.BySessions), zap.Int("by_size", done.ByBytes), zap.Duration("took", time.Since(start)))
		s.measureSize(ctx, o)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.telemetry.ExporterAgentSessionRetentionFailures.Add(ctx, 1, metric.WithAttributes(s.id))
		s.logger.Warn("retention could not delete all that it should; the next sweep goes on", zap.Error(err))
	}
}
