package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configtelemetry"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/service/telemetry"
	otelconf "go.opentelemetry.io/contrib/otelconf/v0.3.0"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric/noop"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// telemetryConfig is service.telemetry of a configuration: the keys of the Collector's own schema that set its log and
// its metrics. The Collector's default factory (otelconftelemetry) has more keys, and among them detectors, which bring
// in the clients of Kubernetes and Google Cloud.
type telemetryConfig struct {
	Logs struct {
		Level       zapcore.Level `mapstructure:"level"`
		Encoding    string        `mapstructure:"encoding"` // console or json
		OutputPaths []string      `mapstructure:"output_paths"`
	} `mapstructure:"logs"`
	Metrics struct {
		Level                  configtelemetry.Level `mapstructure:"level"`
		otelconf.MeterProvider `mapstructure:",squash"`
	} `mapstructure:"metrics"`
}

func newTelemetryFactory() telemetry.Factory {
	return telemetry.NewFactory(defaultTelemetry, telemetry.WithCreateResource(telemetryResource),
		telemetry.WithCreateLogger(telemetryLogger), telemetry.WithCreateMeterProvider(telemetryMeters))
}

// defaultTelemetry logs to standard error and serves metrics to Prometheus on localhost:8888, as every Collector does.
func defaultTelemetry() component.Config {
	c := &telemetryConfig{}
	c.Logs.Encoding, c.Logs.OutputPaths = "console", []string{"stderr"}
	c.Metrics.Level = configtelemetry.LevelNormal
	c.Metrics.Readers = []otelconf.MetricReader{{Pull: &otelconf.PullMetricReader{
		Exporter: otelconf.PullMetricExporter{Prometheus: &otelconf.Prometheus{Host: new("localhost"), Port: new(8888)}},
	}}}
	return c
}

// telemetryResource identifies the process.
func telemetryResource(
	_ context.Context, set telemetry.Settings, _ component.Config,
) (pcommon.Resource, string, error) {
	r := pcommon.NewResource()
	r.Attributes().PutStr("service.name", set.BuildInfo.Command)
	r.Attributes().PutStr("service.version", set.BuildInfo.Version)
	r.Attributes().PutStr("service.instance.id", rand.Text())
	return r, "", nil
}

// telemetryLogger writes a flood of equal lines ten times in ten seconds, and then one in a hundred.
func telemetryLogger(
	_ context.Context, set telemetry.LoggerSettings, config component.Config,
) (*zap.Logger, component.ShutdownFunc, error) {
	c := config.(*telemetryConfig).Logs
	log := zap.NewProductionConfig()
	log.Level, log.Encoding, log.OutputPaths = zap.NewAtomicLevelAt(c.Level), c.Encoding, c.OutputPaths
	log.EncoderConfig.EncodeTime, log.Sampling = zapcore.ISO8601TimeEncoder, nil
	logger, err := set.BuildZapLogger(log, zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, 10*time.Second, 10, 100)
	}))
	if err != nil {
		return nil, nil, fmt.Errorf("log of the collector: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.Error("OpenTelemetry internal telemetry error", zap.Error(err))
	}))
	return logger, nil, nil
}

// noMeters records nothing.
type noMeters struct {
	noop.MeterProvider
	component.ShutdownFunc
}

// telemetryMeters makes what the configured readers read.
func telemetryMeters(
	ctx context.Context, set telemetry.MeterSettings, config component.Config,
) (telemetry.MeterProvider, error) {
	c := config.(*telemetryConfig).Metrics
	if c.Level == configtelemetry.LevelNone {
		return noMeters{}, nil
	}
	for _, r := range c.Readers {
		if r.Pull != nil && r.Pull.Exporter.Prometheus != nil {
			plainNames(r.Pull.Exporter.Prometheus)
		}
	}
	if c.Views == nil && set.DefaultViews != nil {
		c.Views = set.DefaultViews(c.Level)
	}
	resource := &otelconf.Resource{}
	for key, value := range set.Resource.Attributes().All() {
		resource.Attributes = append(resource.Attributes, otelconf.AttributeNameValue{Name: key, Value: value.AsRaw()})
	}
	sdk, err := otelconf.NewSDK(otelconf.WithContext(ctx), otelconf.WithOpenTelemetryConfiguration(
		otelconf.OpenTelemetryConfiguration{Resource: resource, MeterProvider: &c.MeterProvider}))
	if err != nil {
		return nil, fmt.Errorf("metrics of the collector: %w", err)
	}
	return sdk.MeterProvider().(telemetry.MeterProvider), nil
}

// plainNames lets metrics keep the names that the Collector documents, without suffixes for unit and type, where p does
// not choose.
func plainNames(p *otelconf.Prometheus) {
	for _, without := range []**bool{&p.WithoutScopeInfo, &p.WithoutUnits, &p.WithoutTypeSuffix} {
		if *without == nil {
			*without = new(true)
		}
	}
}
