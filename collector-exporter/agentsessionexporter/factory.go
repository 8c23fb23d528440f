package agentsessionexporter

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadata"
	"github.com/otelagent/otelagent/store"
	"github.com/otelagent/otelagent/store/sqlitestore"
)

// FactoryOption is an option of NewFactory, for programs that make the factory themselves.
type FactoryOption interface{ apply(*[]sqlitestore.Option) }

type factoryOption func(*[]sqlitestore.Option)

func (f factoryOption) apply(o *[]sqlitestore.Option) { f(o) }

// WithChatTables makes SQLite stores keep the tables of the agent guide too; see sqlitestore.WithChatTables. They are off unless set.
func WithChatTables() FactoryOption {
	return factoryOption(func(o *[]sqlitestore.Option) { *o = append(*o, sqlitestore.WithChatTables()) })
}

// NewFactory returns the factory of the agent_session exporter. It makes exporters of traces and of logs; those of one
// configuration write to one store.
func NewFactory(opts ...FactoryOption) exporter.Factory {
	var storeOpts []sqlitestore.Option
	for _, o := range opts {
		if o != nil {
			o.apply(&storeOpts)
		}
	}
	return newFactory(func(ctx context.Context, dsn string) (store.Store, error) { return openSQLite(ctx, dsn, storeOpts...) })
}

func newFactory(open openFunc) exporter.Factory {
	f := factory{newStores(open)}
	return exporter.NewFactory(
		metadata.Type,
		createDefaultConfig,
		exporter.WithTraces(f.createTraces, metadata.TracesStability),
		exporter.WithLogs(f.createLogs, metadata.LogsStability),
	)
}

// factory is what the exporters that it makes share.
type factory struct{ stores *stores }

func createDefaultConfig() component.Config {
	return &Config{
		TimeoutConfig: exporterhelper.NewDefaultTimeoutConfig(),
		RetryConfig:   configretry.NewDefaultBackOffConfig(),
		QueueConfig:   configoptional.Default(exporterhelper.NewDefaultQueueConfig()),
	}
}

func (f factory) createTraces(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
	c := cfg.(*Config)
	e, err := newSessionExporter(c, set, f.stores)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewTraces(ctx, set, c, e.pushTraces, e.options()...)
}

func (f factory) createLogs(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
	c := cfg.(*Config)
	e, err := newSessionExporter(c, set, f.stores)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewLogs(ctx, set, c, e.pushLogs, e.options()...)
}

// options put the Collector's timeout, retry and queue around push.
func (e *sessionExporter) options() []exporterhelper.Option {
	return []exporterhelper.Option{
		exporterhelper.WithStart(e.start),
		exporterhelper.WithShutdown(e.shutdown),
		exporterhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
		exporterhelper.WithTimeout(e.cfg.TimeoutConfig),
		exporterhelper.WithRetry(e.cfg.RetryConfig),
		exporterhelper.WithQueue(e.cfg.QueueConfig),
	}
}
