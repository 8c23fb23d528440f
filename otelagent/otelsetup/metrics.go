package otelsetup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelagent/otelagent/spans"
)

// ScopeName is the instrumentation scope of the metric that Setup itself records.
const ScopeName = "github.com/otelagent/otelagent/otelsetup"

// ErrNoMetrics is in the error of MetricsError when the receiver accepts no metrics (Unimplemented over gRPC, 404 over
// HTTP).
var ErrNoMetrics = errors.New("otelsetup: the receiver takes no metrics; none are sent any more")

// metricsInterval is how often metrics are sent, unless the environment says otherwise: an agent that runs for a minute
// shows in rate().
const metricsInterval = 15 * time.Second

// MeterProvider returns the provider of metrics, for otelagent.WithMeterProvider; one that does nothing without
// metrics.
func (p *Providers) MeterProvider() metric.MeterProvider {
	if p.meters == nil {
		return noop.NewMeterProvider()
	}
	return p.meters
}

// HasMetrics reports whether there are metrics: false where an option or the environment switches them off, or nothing
// says where they go.
func (p *Providers) HasMetrics() bool { return p.meters != nil }

// MetricsError returns why the last metrics were not delivered; nil when they were, when none were sent yet, and
// without metrics. It is no error of ForceFlush or Shutdown, and the error handler is called once until metrics are
// delivered again. After ErrNoMetrics nothing is sent; the error handler is called only where
// OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is set.
func (p *Providers) MetricsError() error {
	if err := p.metricsErr.Load(); err != nil {
		return *err
	}
	return nil
}

// setupMetrics makes the provider of metrics, if there are to be any.
func (p *Providers) setupMetrics(ctx context.Context, c *config, res *resource.Resource) error {
	reader := c.reader
	if c.noMetrics || disabled() {
		return nil
	}
	if reader == nil {
		exporter, err := c.openMetrics(ctx)
		if err != nil { // the environment may be meant for other programs
			otel.Handle(fmt.Errorf("otelsetup: metrics: %w; there are no metrics", err))
		}
		if err != nil || exporter == nil {
			return nil
		}
		var interval []sdkmetric.PeriodicReaderOption
		if os.Getenv("OTEL_METRIC_EXPORT_INTERVAL") == "" {
			interval = append(interval, sdkmetric.WithInterval(metricsInterval))
		}
		reader = sdkmetric.NewPeriodicReader(metricExporter{exporter, &p.metricsErr}, interval...)
	}
	// Sums of two processes under one name would look like one that jumps. Spans carry no such id: sent again they are
	// equal.
	instance := resource.NewSchemaless(attribute.String("service.instance.id", rand.Text()))
	res, err := resource.Merge(instance, res)
	if err != nil {
		return err
	}
	p.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(res))
	dropped, _ := spans.LookupMetric(spans.MetricDropped)
	kind := metric.WithAttributes(spans.DroppedKindKeyKey.String(string(spans.DroppedKindSpan)))
	_, err = p.meters.Meter(ScopeName).Int64ObservableCounter(dropped.Name,
		metric.WithUnit(dropped.Unit), metric.WithDescription(dropped.Brief),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			if s := p.Stats(); s.Failed+s.Dropped > 0 {
				o.Observe(s.Failed+s.Dropped, kind)
			}
			return nil
		}))
	return err
}

// metricExporter sends metrics and keeps its errors for MetricsError.
type metricExporter struct {
	sdkmetric.Exporter
	last *atomic.Pointer[error]
}

// Export sends metrics. It calls the error handler with the first of several failures, and does nothing after
// ErrNoMetrics.
func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	last := e.last.Load()
	if last != nil && errors.Is(*last, ErrNoMetrics) || len(m.ScopeMetrics) == 0 {
		return nil
	}
	err := e.Exporter.Export(ctx, m)
	if err == nil {
		e.last.Store(nil)
		return nil
	}
	refused := refusesMetrics(err)
	if refused {
		err = fmt.Errorf("%w: %w", ErrNoMetrics, err)
	} else {
		err = fmt.Errorf("otelsetup: metrics were not delivered: %w", err)
	}
	e.last.Store(&err)
	if last == nil && (os.Getenv(metricsEnv) != "" || !refused) {
		otel.Handle(err)
	}
	return nil
}

// refusesMetrics reports whether a receiver does not know metrics. The exporter over HTTP has the status in its text
// only.
func refusesMetrics(err error) bool {
	if s, ok := status.FromError(err); ok {
		return s.Code() == codes.Unimplemented
	}
	text, _, _ := strings.Cut(err.Error(), " (body:") // the receiver wrote the rest
	return strings.Contains(text, ": 404 ") || strings.Contains(text, ": 405 ") || strings.Contains(text, ": 501 ")
}

// lastMetrics calls flush, which sends the metrics so far. It waits for that until ctx ends, for 5 s at most, and
// hardly at all where some spans failed and none arrived: metrics mostly go to the same place.
func (p *Providers) lastMetrics(ctx context.Context, flush func(*sdkmetric.MeterProvider, context.Context) error) {
	if p.meters == nil {
		return
	}
	wait := 5 * time.Second
	if s := p.Stats(); s.Failed > 0 && s.Exported == 0 {
		wait = 100 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_ = flush(p.meters, ctx) // MetricsError has it
}
