package agentsessionexporter

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// maxDirty bounds how many unprojected sessions are counted.
const maxDirty = 10_000

// observe registers the metrics that are read on demand. None of them asks the store: its size and
// its unprojected sessions are those that measure saw last.
func (s *sharedStore) observe() error {
	attrs := metric.WithAttributes(s.id)
	counter := func(of func(store.Counts) int64) metric.Int64Callback {
		return func(_ context.Context, o metric.Int64Observer) error {
			if open := s.opened.Load(); open != nil {
				if c, ok := open.Store.(store.Counter); ok {
					o.Observe(of(c.Counts()), attrs)
				}
			}
			return nil
		}
	}
	for _, r := range []struct {
		register func(metric.Int64Callback) error
		observe  metric.Int64Callback
	}{
		{s.telemetry.RegisterExporterAgentSessionBlocksDeduplicatedCallback,
			counter(func(c store.Counts) int64 { return c.BlocksKnown })},
		{s.telemetry.RegisterExporterAgentSessionBlockBytesDeduplicatedCallback,
			counter(func(c store.Counts) int64 { return c.BytesKnown })},
		{s.telemetry.RegisterExporterAgentSessionBlockBytesStoredCallback,
			counter(func(c store.Counts) int64 { return c.BytesNew })},
		{s.telemetry.RegisterExporterAgentSessionStoreOpenCallback, func(_ context.Context, o metric.Int64Observer) error {
			n := int64(0)
			if s.well() {
				n = 1
			}
			o.Observe(n, attrs)
			return nil
		}},
		{s.telemetry.RegisterExporterAgentSessionStoreSizeCallback, func(_ context.Context, o metric.Int64Observer) error {
			if n := s.seenSize.Load(); n > 0 {
				o.Observe(n, attrs)
			}
			return nil
		}},
		{s.telemetry.RegisterExporterAgentSessionSessionsUnprojectedCallback,
			func(_ context.Context, o metric.Int64Observer) error {
				if n := s.seenDirty.Load(); n >= 0 {
					o.Observe(n, attrs)
				}
				return nil
			}},
	} {
		if err := r.register(r.observe); err != nil {
			return err
		}
	}
	return nil
}

// measure keeps the figures of observe current until ctx ends.
func (s *sharedStore) measure(ctx context.Context, o *openStore) {
	size, dirty := time.NewTicker(s.timing.measure), time.NewTicker(s.timing.measureDirty)
	defer size.Stop()
	defer dirty.Stop()
	s.measureSize(ctx, o)
	s.measureDirty(ctx, o)
	for {
		select {
		case <-ctx.Done():
			return
		case <-size.C:
			s.measureSize(ctx, o)
		case <-dirty.C:
			s.measureDirty(ctx, o)
		}
	}
}

func (s *sharedStore) measureSize(ctx context.Context, o *openStore) {
	n, err := o.sizes.look(ctx, session.Key{})
	switch {
	case err == nil:
		s.seenSize.Store(n)
	case ctx.Err() == nil:
		s.logger.Debug("the size of the store could not be measured", zap.Error(err))
	}
}

func (s *sharedStore) measureDirty(ctx context.Context, o *openStore) {
	n := int64(0)
	for _, err := range o.Sessions(ctx, store.Query{AllTenants: true, Stale: true, Limit: maxDirty}) {
		if err != nil {
			if ctx.Err() == nil {
				s.logger.Debug("the unprojected sessions could not be counted", zap.Error(err))
			}
			return
		}
		n++
	}
	s.seenDirty.Store(n)
}
