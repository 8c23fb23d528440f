package otelsetup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelagent/otelagent/spans"
)

// metricsTime bounds how long ForceFlush and Shutdown wait for metrics, behind the spans.
const metricsTime = 5 * time.Second

// The size of exponential histograms: the SDK's own default, and what Prometheus takes.
const (
	exponentialBuckets = 160
	exponentialScale   = 20
)

// WithMetricsEndpoint sets where metrics go, in the form of WithEndpoint; without a path it means /v1/metrics over HTTP. Default:
// OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, else where spans go, by WithEndpoint or OTEL_EXPORTER_OTLP_ENDPOINT. Where spans go to
// WithExporter, or to a place that only OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or a path other than /v1/traces names, nobody says where
// metrics go, and there are none.
func WithMetricsEndpoint(url string) Option {
	return optionFunc(func(c config) config { c.metricsEndpoint = url; return c })
}

// WithMetricReader lets r have the metrics, instead of an exporter over OTLP: a manual reader in tests, or that of Prometheus. The
// provider takes it over. Nil is ignored.
func WithMetricReader(r sdkmetric.Reader) Option {
	return optionFunc(func(c config) config {
		if r != nil {
			c.reader = r
		}
		return c
	})
}

// WithoutMetrics makes a MeterProvider that does nothing.
func WithoutMetrics() Option {
	return optionFunc(func(c config) config { c.noMetrics = true; return c })
}

// WithExponentialHistograms makes all histograms exponential, which Prometheus has as native histograms: finer, and without
// boundaries to choose. Default: explicit buckets with the boundaries of docs/metrics.md.
func WithExponentialHistograms() Option {
	return optionFunc(func(c config) config { c.exponential = true; return c })
}

// MeterProvider returns the provider of metrics, for otelagent.WithMeterProvider; one that does nothing when there are none.
func (p *Providers) MeterProvider() metric.MeterProvider {
	if p.meters == nil {
		return noop.NewMeterProvider()
	}
	return p.meters
}

// HasMetrics reports whether there are metrics: false where WithoutMetrics or the environment switches them off, and where nobody says where
// they go (see WithMetricsEndpoint).
func (p *Providers) HasMetrics() bool { return p.meters != nil }

// ErrNoMetrics is in what MetricsError returns when the receiver takes no metrics.
var ErrNoMetrics = errors.New("otelsetup: the receiver takes no metrics; none are sent any more")

// MetricsError returns why metrics were not delivered last; nil when they were, when none were sent yet, and where a reader has them or there
// are none (see MeterProvider). Metrics are the lesser thing: that they are not delivered is no error of ForceFlush or Shutdown. That sending
// them failed is told to OpenTelemetry's error handler once until it works again; that ForceFlush or Shutdown had no time for it is not.
// A receiver that takes no metrics (Unimplemented over gRPC, 404 over HTTP) is asked once: see ErrNoMetrics. The error handler hears of it
// only where metrics were asked for, by WithMetricsEndpoint, OTEL_EXPORTER_OTLP_METRICS_ENDPOINT or OTEL_METRICS_EXPORTER=otlp.
func (p *Providers) MetricsError() error {
	if p.metrics == nil {
		return nil
	}
	return p.metrics.lastError()
}

// setupMetrics makes the provider of metrics, when there are to be any.
func (p *Providers) setupMetrics(ctx context.Context, c *config, res *resource.Resource) error {
	reader, err := c.metricReader(ctx, p)
	if err != nil || reader == nil {
		return err
	}
	if res, err = withInstance(res); err != nil {
		return err
	}
	opts := []sdkmetric.Option{sdkmetric.WithReader(reader), sdkmetric.WithResource(res)}
	if c.exponential {
		opts = append(opts, sdkmetric.WithView(sdkmetric.NewView(
			sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram},
			sdkmetric.Stream{Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: exponentialBuckets, MaxScale: exponentialScale}},
		)))
	}
	p.meters = sdkmetric.NewMeterProvider(opts...)
	return nil
}

// withInstance adds a service.instance.id where there is none. Sums of two processes under one name would pass for one that jumps. Spans
// do without, so that the same input sent again is the same.
func withInstance(res *resource.Resource) (*resource.Resource, error) {
	const key = attribute.Key("service.instance.id")
	if _, ok := res.Set().Value(key); ok {
		return res, nil
	}
	res, err := resource.Merge(res, resource.NewSchemaless(key.String(rand.Text())))
	if err != nil {
		return nil, fmt.Errorf("otelsetup: resource: %w", err)
	}
	return res, nil
}

// measureLost makes a metric of the spans that were not delivered.
func (p *Providers) measureLost() {
	if p.meters == nil || p.exporter == nil {
		return
	}
	dropped, _ := spans.LookupMetric(spans.MetricDropped)
	set := metric.WithAttributeSet(attribute.NewSet(spans.DroppedKindKeyKey.String(string(spans.DroppedKindSpan))))
	_, err := p.meters.Meter(ScopeName).Int64ObservableCounter(dropped.Name,
		metric.WithUnit(dropped.Unit), metric.WithDescription(dropped.Brief),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			if s := p.Stats(); s.Failed+s.Dropped > 0 {
				o.Observe(s.Failed+s.Dropped, set)
			}
			return nil
		}))
	if err != nil {
		otel.Handle(err)
	}
}

// metricReader returns what takes the metrics; nil when there are to be none.
func (c *config) metricReader(ctx context.Context, p *Providers) (sdkmetric.Reader, error) {
	if c.noMetrics || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	if c.reader != nil {
		return c.reader, nil
	}
	switch kinds := exportersEnv(); {
	case len(kinds) == 0, slices.Contains(kinds, "otlp"):
	case slices.Equal(kinds, []string{"none"}):
		return nil, nil
	default:
		return nil, c.notMeasured(fmt.Errorf("otelsetup: OTEL_METRICS_EXPORTER=%q: want otlp or none", strings.Join(kinds, ",")))
	}
	protocol := c.protocol
	if protocol == "" {
		protocol = Protocol(firstEnv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"))
	}
	to, ok := c.metricsTarget(protocol)
	if !ok {
		return nil, nil
	}
	var exporter sdkmetric.Exporter
	var err error
	switch protocol {
	case GRPC, "":
		var opts []otlpmetricgrpc.Option
		if to != "" {
			opts = append(opts, otlpmetricgrpc.WithEndpointURL(to))
		}
		exporter, err = otlpmetricgrpc.New(ctx, opts...)
	case HTTP:
		var opts []otlpmetrichttp.Option
		if to != "" {
			opts = append(opts, otlpmetrichttp.WithEndpointURL(to))
		}
		exporter, err = otlpmetrichttp.New(ctx, opts...)
	default:
		err = fmt.Errorf("otelsetup: protocol %q of metrics: want %s or %s", protocol, GRPC, HTTP)
		if c.protocol == "" { // the environment's
			err = c.notMeasured(err)
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("otelsetup: open OTLP for metrics: %w", err)
	}
	asked := c.metricsEndpoint != "" || firstEnv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_METRICS_EXPORTER") != ""
	p.metrics = &metricExporter{Exporter: exporter, asked: asked}
	return sdkmetric.NewPeriodicReader(p.metrics), nil
}

// exportersEnv returns the exporters of metrics that the environment names.
func exportersEnv() (kinds []string) {
	for kind := range strings.SplitSeq(os.Getenv("OTEL_METRICS_EXPORTER"), ",") {
		if kind = strings.TrimSpace(kind); kind != "" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// notMeasured tells of what the environment says of metrics and we cannot do, which may be meant for others. It is an error only where
// metrics were asked of us.
func (c *config) notMeasured(err error) error {
	if c.metricsEndpoint != "" {
		return err
	}
	otel.Handle(fmt.Errorf("%w; there are no metrics", err))
	return nil
}

// metricsTarget returns the URL that metrics go to, empty where the exporter itself hears of it from the environment; false when nobody
// says where.
func (c *config) metricsTarget(protocol Protocol) (url string, ok bool) {
	const path = "/v1/metrics"
	switch {
	case c.metricsEndpoint != "":
		url = withScheme(c.metricsEndpoint)
	case os.Getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") != "":
		return "", true
	case c.exporter != nil:
		return "", false
	case c.endpoint != "":
		url = withScheme(c.endpoint)
		if protocol == HTTP && withPath(url, path) == url { // it has a path, which is that of spans
			base, known := strings.CutSuffix(url, "/v1/traces")
			return base + path, known
		}
	case os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "":
		return "", true
	case os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "":
		return "", false
	case protocol == HTTP:
		url = "http://localhost:4318"
	default:
		url = "http://localhost:4317"
	}
	if protocol == HTTP {
		url = withPath(url, path)
	}
	return url, true
}

// metricExporter sends metrics without getting in anybody's way.
type metricExporter struct {
	sdkmetric.Exporter
	asked   bool        // somebody wants metrics, and does not merely send spans to where they would go too
	refused atomic.Bool // the receiver takes none

	mu   sync.Mutex
	err  error // of the last export
	told bool  // that it fails
}

// Export sends metrics. That they are not delivered is told once until they are; after a receiver said that it takes none, it does
// nothing.
func (e *metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if e.refused.Load() || len(m.ScopeMetrics) == 0 {
		return nil
	}
	err := e.Exporter.Export(ctx, m)
	switch {
	case err == nil:
	case refusesMetrics(err):
		e.refused.Store(true)
		err = fmt.Errorf("%w: %w", ErrNoMetrics, err)
	default:
		err = fmt.Errorf("otelsetup: metrics were not delivered: %w", err)
	}
	e.mu.Lock()
	tell := err != nil && !e.told && (e.asked || !errors.Is(err, ErrNoMetrics))
	e.told = err != nil
	e.err = err
	e.mu.Unlock()
	if tell {
		otel.Handle(err)
	}
	return nil
}

func (e *metricExporter) lastError() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// refusesMetrics reports whether a receiver said that it does not know metrics. The exporter over HTTP tells the status in its text only.
func refusesMetrics(err error) bool {
	if err == nil {
		return false
	}
	var withStatus interface{ GRPCStatus() *status.Status }
	if errors.As(err, &withStatus) {
		return withStatus.GRPCStatus().Code() == codes.Unimplemented
	}
	text, _, _ := strings.Cut(err.Error(), " (body:") // which a stranger wrote
	for _, sign := range []string{": 404 ", ": 405 ", ": 501 "} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// lastMetrics calls flush, which sends what was measured so far. It waits for that until ctx ends, at most for metricsTime, and for a fiftieth
// of it where some spans failed and none arrived: metrics mostly go to the same place. Its error is kept for MetricsError.
func (p *Providers) lastMetrics(ctx context.Context, flush func(*sdkmetric.MeterProvider, context.Context) error) {
	if p.meters == nil {
		return
	}
	wait := metricsTime
	if s := p.Stats(); s.Failed > 0 && s.Exported == 0 {
		wait = metricsTime / 50
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	p.metricsFailed(flush(p.meters, ctx))
}

// metricsFailed keeps an error that did not come from an export, such as that there was no time for one.
func (p *Providers) metricsFailed(err error) {
	if err == nil || p.metrics == nil || errors.Is(err, sdkmetric.ErrReaderShutdown) {
		return
	}
	p.metrics.mu.Lock()
	defer p.metrics.mu.Unlock()
	if p.metrics.err == nil {
		p.metrics.err = err
	}
}
