package agentsessionexporter

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/otelagent/otelagent/backend/store/retention"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadata"
)

// NewFactory returns the factory of the agent_session exporter. It makes exporters of traces and of logs; those of one
// configuration write to one store.
func NewFactory() exporter.Factory { return newFactory(newStores(openDSN)) }

func newFactory(s *stores) exporter.Factory {
	return exporter.NewFactory(
		metadata.Type,
		createDefaultConfig,
		exporter.WithTraces(s.createTraces, metadata.TracesStability),
		exporter.WithLogs(s.createLogs, metadata.LogsStability),
	)
}

func createDefaultConfig() component.Config {
	return &Config{
		Retention:     RetentionConfig{Families: true, Interval: retention.DefaultInterval},
		Limits:        LimitsConfig{AttributeBytes: maxAttributeBytes, BlockBytes: maxBlockBytes, TurnBytes: maxTurnBytes},
		Content:       contentKeep,
		TimeoutConfig: exporterhelper.NewDefaultTimeoutConfig(),
		RetryConfig:   configretry.NewDefaultBackOffConfig(),
		QueueConfig:   configoptional.Default(exporterhelper.NewDefaultQueueConfig()),
	}
}

func (s *stores) createTraces(ctx context.Context, set exporter.Settings,
	cfg component.Config) (exporter.Traces, error) {
	e, err := s.get(cfg.(*Config), set)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewTraces(ctx, set, cfg, e.pushTraces, e.options()...)
}

func (s *stores) createLogs(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
	e, err := s.get(cfg.(*Config), set)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewLogs(ctx, set, cfg, e.pushLogs, e.options()...)
}

// options put the Collector's timeout, retry and queue around push. A signal that did not start does not shut down.
func (e *sessionExporter) options() []exporterhelper.Option {
	started := false
	return []exporterhelper.Option{
		exporterhelper.WithStart(func(ctx context.Context, host component.Host) error {
			err := e.start(ctx, host)
			started = err == nil
			return err
		}),
		exporterhelper.WithShutdown(func(ctx context.Context) error {
			if !started {
				return nil
			}
			return e.shutdown(ctx)
		}),
		exporterhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
		exporterhelper.WithTimeout(e.cfg.TimeoutConfig),
		exporterhelper.WithRetry(e.cfg.RetryConfig),
		exporterhelper.WithQueue(e.cfg.QueueConfig),
	}
}
