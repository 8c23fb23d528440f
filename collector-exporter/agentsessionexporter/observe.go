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
func (e *sessionExporter) observe() error {
	attrs := metric.WithAttributes(e.id)
	gauge := func(read func() (n int64, known bool)) metric.Int64Callback {
		return func(_ context.Context, o metric.Int64Observer) error {
			if n, known := read(); known {
				o.Observe(n, attrs)
			}
			return nil
		}
	}
	counter := func(of func(store.Counts) int64) metric.Int64Callback {
		return gauge(func() (int64, bool) {
			open := e.opened.Load()
			if open == nil {
				return 0, false
			}
			c, ok := open.Store.(store.Counter)
			if !ok {
				return 0, false
			}
			return of(c.Counts()), true
		})
	}
	well := func() (int64, bool) {
		if e.well() {
			return 1, true
		}
		return 0, true
	}
	t := e.telemetry
	for _, r := range []struct {
		register func(metric.Int64Callback) error
		observe  metric.Int64Callback
	}{
		{t.RegisterExporterAgentSessionBlocksDeduplicatedCallback,
			counter(func(c store.Counts) int64 { return c.BlocksKnown })},
		{t.RegisterExporterAgentSessionBlockBytesDeduplicatedCallback,
			counter(func(c store.Counts) int64 { return c.BytesKnown })},
		{t.RegisterExporterAgentSessionBlockBytesStoredCallback,
			counter(func(c store.Counts) int64 { return c.BytesNew })},
		{t.RegisterExporterAgentSessionStoreOpenCallback, gauge(well)},
		{t.RegisterExporterAgentSessionStoreSizeCallback,
			gauge(func() (int64, bool) { n := e.seenSize.Load(); return n, n > 0 })},
		{t.RegisterExporterAgentSessionSessionsUnprojectedCallback,
			gauge(func() (int64, bool) { n := e.seenDirty.Load(); return n, n >= 0 })},
	} {
		if err := r.register(r.observe); err != nil {
			return err
		}
	}
	return nil
}

// measure keeps the figures of observe current until ctx ends.
func (e *sessionExporter) measure(ctx context.Context, o *openStore) {
	tick := time.NewTicker(e.stores.timing.measure)
	defer tick.Stop()
	for {
		e.measureSize(ctx, o)
		e.measureDirty(ctx, o)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (e *sessionExporter) measureSize(ctx context.Context, o *openStore) {
	n, err := o.sizes.look(ctx, session.Key{})
	switch {
	case err == nil:
		e.seenSize.Store(n)
	case ctx.Err() == nil:
		e.logger.Debug("the size of the store could not be measured", zap.Error(err))
	}
}

func (e *sessionExporter) measureDirty(ctx context.Context, o *openStore) {
	n := int64(0)
	for _, err := range o.Sessions(ctx, store.Query{AllTenants: true, Stale: true, Limit: maxDirty}) {
		if err != nil {
			if ctx.Err() == nil {
				e.logger.Debug("the unprojected sessions could not be counted", zap.Error(err))
			}
			return
		}
		n++
	}
	e.seenDirty.Store(n)
}
