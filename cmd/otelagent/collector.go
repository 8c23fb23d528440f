package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/healthcheckextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configtelemetry"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
	otelconf "go.opentelemetry.io/contrib/otelconf/v0.3.0"
	"go.opentelemetry.io/otel"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store/dsn"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/otlplimitsextension"
)

// collectorOptions say which collector to run: that of a configuration, or the built-in one.
type collectorOptions struct {
	// Config are files or any URIs that the Collector knows (file:, env:, yaml:), each laid over the ones before. Empty:
	// the built-in configuration.
	Config []string
	// GRPC and HTTP are addresses to listen on, and Database is where sessions go, of the built-in configuration. A
	// port 0 takes a free one.
	GRPC, HTTP, Database string
	// Tenant owns whatever comes; empty: whom its sender says.
	Tenant string
	// The bounds of retention; 0: everything is kept.
	MaxAge                  time.Duration
	MaxSessions, MaxSizeMiB int64
	// Redact is a file of rules, or redactfile.Default; empty: nothing is taken out.
	Redact string
	// Log takes the warnings of the built-in configuration; a configuration of the user's has its own logging.
	Log io.Writer
}

// listener is one address that the collector listens on, and the protocol that it takes there.
type listener struct{ Protocol, Addr string }

// collector is a running collector.
type collector struct {
	listeners []listener
	cancel    context.CancelFunc
	done      chan struct{}
	err       error // once done
}

// builtin is the configuration of `otelagent up`. What is acknowledged is committed: nothing is between the
// receiver and the exporter but a look at how much memory is taken, and the exporter has no queue. Values are JSON
// strings, which are YAML too.
const builtin = `
receivers:
  otlp:
    protocols:
      grpc: {endpoint: %s, max_recv_msg_size_mib: 64, middlewares: [id: otlp_limits]}
      http: {endpoint: %s, max_request_body_size: 67108864, middlewares: [id: otlp_limits]}
extensions:
  otlp_limits:
processors:
  memory_limiter: {check_interval: 200ms, limit_mib: 1024, spike_limit_mib: 256}
exporters:
  agent_session: %s
  debug: {verbosity: basic}
service:
  extensions: [otlp_limits]
  telemetry:
    logs: {level: warn}
    metrics: {level: none}
  pipelines:
    traces: {receivers: [otlp], processors: [memory_limiter], exporters: [agent_session]}
    logs: {receivers: [otlp], processors: [memory_limiter], exporters: [agent_session]}
    metrics: {receivers: [otlp], processors: [memory_limiter], exporters: [debug]}
`

func builtinConfig(o collectorOptions) string {
	quote := func(v any) string {
		b, _ := json.Marshal(v)                         // never fails for these
		return strings.ReplaceAll(string(b), "$", "$$") // the Collector expands ${...}
	}
	_, file := dsn.File(o.Database)
	return fmt.Sprintf(builtin, quote(o.GRPC), quote(o.HTTP), quote(map[string]any{
		"storage": o.Database, "password": os.Getenv(envPassword), "tenant": o.Tenant, "chat_tables": file,
		"retention": map[string]any{"max_age": o.MaxAge.String(), "max_sessions": o.MaxSessions,
			"max_size_mib": o.MaxSizeMiB},
		"redaction": map[string]any{"enabled": o.Redact != "", "rules": o.Redact},
	}))
}

// startCollector returns once the collector listens, or says why it does not. It runs until ctx ends or stop is called.
func startCollector(ctx context.Context, o collectorOptions) (*collector, error) {
	watch := &watcher{}
	if len(o.Config) == 0 {
		o.Config = []string{"yaml:" + builtinConfig(o)}
		watch.log = cmp.Or(o.Log, io.Discard)
	}
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories:               components,
		BuildInfo:               buildInfo(),
		DisableGracefulShutdown: true, // ctx says when to stop
		SkipSettingGRPCLogger:   true, // it is one for the process, and senders live here too
		LoggingOptions:          []zap.Option{zap.WrapCore(watch.wrap), zap.AddStacktrace(zapcore.DPanicLevel)},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: o.Config,
			ProviderFactories: []confmap.ProviderFactory{
				envprovider.NewFactory(), fileprovider.NewFactory(), yamlprovider.NewFactory(),
			},
			DefaultScheme: "env",
		}},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &collector{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = col.Run(ctx)
		if c.err == nil && ctx.Err() == nil { // it stopped by itself
			c.err = cmp.Or(watch.cause, errors.New("the collector stopped by itself"))
		}
	}()
	for col.GetState() != otelcol.StateRunning {
		select {
		case <-c.done:
			cancel()
			return nil, startError(cmp.Or(c.err, ctx.Err()))
		case <-time.After(5 * time.Millisecond):
		}
	}
	watch.mu.Lock()
	defer watch.mu.Unlock()
	c.listeners, watch.up = watch.listeners, true
	return c, nil
}

// wait returns when the collector has ended, and everything it took is stored.
func (c *collector) wait() error {
	<-c.done
	return c.err
}

// stop ends the collector.
func (c *collector) stop() error {
	c.cancel()
	return c.wait()
}

// addr returns where the collector listens for a protocol.
func (c *collector) addr(protocol string) string {
	i := slices.IndexFunc(c.listeners, func(l listener) bool { return l.Protocol == protocol })
	if i < 0 {
		return ""
	}
	return c.listeners[i].Addr
}

// startError says in plain words what usually hinders a start.
func startError(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		where := "an address"
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
			where = op.Addr.String()
		}
		return fmt.Errorf("%s is already in use, perhaps by another collector; choose other ones with --otlp-grpc and "+
			"--otlp-http", where)
	}
	text := err.Error()
	for _, noise := range []string{"failed to get config: ", "cannot resolve the configuration: ",
		"cannot retrieve the configuration: ", "cannot unmarshal the configuration: ",
		"decoding failed due to the following error(s):\n\n", "cannot start pipelines: ",
		`failed to start "agent_session" exporter: `, "agent_session: storage: "} {
		text = strings.ReplaceAll(text, noise, "")
	}
	return fmt.Errorf("the collector does not start: %s", text)
}

// watcher reads from the collector's log the addresses that it listens on, and why it stopped: the collector reports
// these nowhere else.
type watcher struct {
	log io.Writer // for warnings in lines of otelagent; nil: the collector's own core writes

	mu        sync.Mutex
	listeners []listener // all of them once it runs
	cause     error      // once it has ended
	up        bool       // before, the error of the start has the reason of errors
}

func (w *watcher) wrap(core zapcore.Core) zapcore.Core { return &watchCore{core, w} }

// watchCore shows every entry to the watcher, and passes it on to the core of the collector.
type watchCore struct {
	zapcore.Core
	w *watcher
}

func (c *watchCore) Enabled(l zapcore.Level) bool { return l >= zapcore.InfoLevel || c.Core.Enabled(l) }

func (c *watchCore) With(f []zapcore.Field) zapcore.Core { return &watchCore{c.Core.With(f), c.w} }

func (c *watchCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *watchCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	line, cause := fmt.Sprintf("otelagent: %s: %s", e.Level, e.Message), error(nil)
	for _, f := range fields {
		err, isError := f.Interface.(error)
		switch {
		case isError:
			cause = err
		case f.Type == zapcore.StringType && f.String != "":
			line += fmt.Sprintf(" %s=%s", f.Key, inspect.ShellWords(f.String))
		case f.Type == zapcore.Int64Type:
			line += fmt.Sprintf(" %s=%d", f.Key, f.Integer)
		}
		if protocol := serverStarts[e.Message]; protocol != "" && f.Key == "endpoint" {
			w.listeners = append(w.listeners, listener{protocol, f.String})
		}
	}
	if e.Message == "Asynchronous error received, terminating process" {
		w.cause = cause
	}
	if w.log == nil && c.Core.Enabled(e.Level) {
		return c.Core.Write(e, fields)
	}
	if w.log == nil || e.Level < zapcore.WarnLevel || e.Level > zapcore.WarnLevel && !w.up {
		return nil
	}
	if cause != nil {
		line += ": " + cause.Error()
	}
	_, err := fmt.Fprintln(w.log, inspect.Clean(line))
	return err
}

// serverStarts are the messages of the receiver when it listens, and their protocols.
var serverStarts = map[string]string{"Starting GRPC server": "grpc", "Starting HTTP server": "http"}

// collectorVersion is the release that the components below are of. A test compares it with go.mod.
const collectorVersion = "v0.161.0"

// components is what a configuration given with --config can name. Whoever needs more builds a collector of their own
// with the same exporter (collector-exporter/distribution).
func components() (otelcol.Factories, error) {
	f := otelcol.Factories{Telemetry: telemetry.NewFactory(defaultTelemetry,
		telemetry.WithCreateLogger(telemetryLogger), telemetry.WithCreateMeterProvider(telemetryMeters))}
	var errs [4]error
	f.Receivers, errs[0] = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	f.Processors, errs[1] = otelcol.MakeFactoryMap[processor.Factory](
		batchprocessor.NewFactory(), memorylimiterprocessor.NewFactory())
	f.Extensions, errs[2] = otelcol.MakeFactoryMap[extension.Factory](
		filestorage.NewFactory(), healthcheckextension.NewFactory(), otlplimitsextension.NewFactory())
	f.Exporters, errs[3] = otelcol.MakeFactoryMap[exporter.Factory](
		agentsessionexporter.NewFactory(), debugexporter.NewFactory(), otlpexporter.NewFactory(),
		otlphttpexporter.NewFactory())
	return f, errors.Join(errs[:]...)
}

func buildInfo() component.BuildInfo {
	return component.BuildInfo{Command: "otelagent", Description: "Collector that keeps agent sessions",
		Version: versionText()}
}

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

// telemetryMeters makes what the configured readers read; there are none at level none. Metrics keep the names that the
// Collector documents, without suffixes for unit and type, where a reader does not choose.
func telemetryMeters(
	ctx context.Context, set telemetry.MeterSettings, config component.Config,
) (telemetry.MeterProvider, error) {
	c := config.(*telemetryConfig).Metrics
	if c.Level == configtelemetry.LevelNone {
		c.Readers = nil
	}
	for _, r := range c.Readers {
		if r.Pull != nil && r.Pull.Exporter.Prometheus != nil {
			p := r.Pull.Exporter.Prometheus
			p.WithoutScopeInfo, p.WithoutUnits = cmp.Or(p.WithoutScopeInfo, new(true)), cmp.Or(p.WithoutUnits, new(true))
			p.WithoutTypeSuffix = cmp.Or(p.WithoutTypeSuffix, new(true))
		}
	}
	if c.Views == nil && set.DefaultViews != nil {
		c.Views = set.DefaultViews(c.Level)
	}
	resource := &otelconf.Resource{Attributes: []otelconf.AttributeNameValue{
		{Name: "service.name", Value: set.BuildInfo.Command}, {Name: "service.version", Value: set.BuildInfo.Version},
		{Name: "service.instance.id", Value: rand.Text()}}}
	sdk, err := otelconf.NewSDK(otelconf.WithContext(ctx), otelconf.WithOpenTelemetryConfiguration(
		otelconf.OpenTelemetryConfiguration{Resource: resource, MeterProvider: &c.MeterProvider}))
	if err != nil {
		return nil, fmt.Errorf("metrics of the collector: %w", err)
	}
	return sdk.MeterProvider().(telemetry.MeterProvider), nil
}
