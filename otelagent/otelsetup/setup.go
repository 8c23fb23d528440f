package otelsetup

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/spans"
)

// Option configures Setup. Nil is ignored.
type Option func(*config)

type config struct {
	protocol  Protocol
	endpoint  string
	exporter  sdktrace.SpanExporter
	reader    sdkmetric.Reader
	noMetrics bool

	service, tenant string
	sampler         sdktrace.Sampler
	blocking, local bool
	queueSpans      int
	queueBytes      int64

	live      bool
	heartbeat time.Duration

	without  []string
	ownUsage bool
}

// WithProtocol chooses the transport of OTLP. Default: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL (of metrics likewise),
// OTEL_EXPORTER_OTLP_PROTOCOL, GRPC.
func WithProtocol(p Protocol) Option { return func(c *config) { c.protocol = p } }

// WithEndpoint sets where spans go: a URL, or host:port, which stands for http://host:port. With https there is TLS. A
// URL without a path means /v1/traces over HTTP. Default: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
// OTEL_EXPORTER_OTLP_ENDPOINT, and without them a collector on this machine.
//
// Metrics go to the same place, over HTTP to /v1/metrics there, unless OTEL_EXPORTER_OTLP_METRICS_ENDPOINT names
// another. Without that variable there are no metrics where spans go to WithExporter, to a path other than /v1/traces,
// or to an endpoint that only OTEL_EXPORTER_OTLP_TRACES_ENDPOINT names.
func WithEndpoint(url string) Option { return func(c *config) { c.endpoint = url } }

// WithMetricReader gives the metrics to r, instead of an exporter over OTLP: a manual reader in tests, or that of
// Prometheus. The provider shuts it down. Default, and with nil: OTLP.
func WithMetricReader(r sdkmetric.Reader) Option { return func(c *config) { c.reader = r } }

// WithoutMetrics switches metrics off.
func WithoutMetrics() Option { return func(c *config) { c.noMetrics = true } }

// WithServiceName sets service.name. Default: OTEL_SERVICE_NAME, else what the SDK derives from the program's name.
func WithServiceName(name string) Option { return func(c *config) { c.service = name } }

// WithTenant sets the owner of the sessions, the resource attribute otelagent.tenant. Default: that of
// OTEL_RESOURCE_ATTRIBUTES, else none.
func WithTenant(tenant string) Option { return func(c *config) { c.tenant = tenant } }

// WithExporter sends spans to e; the Providers shut it down. With WithLive it is called by two goroutines at a time.
// Default, and with nil: OTLP.
func WithExporter(e sdktrace.SpanExporter) Option { return func(c *config) { c.exporter = e } }

// WithSampler sets the sampler. Default, and with nil: that of OTEL_TRACES_SAMPLER, else all traces.
func WithSampler(s sdktrace.Sampler) Option { return func(c *config) { c.sampler = s } }

// WithBlocking makes the end of a span wait while the queue is full, instead of dropping the span. For programs that
// replay input and have no user waiting; never for an agent.
func WithBlocking() Option { return func(c *config) { c.blocking = true } }

// WithMaxQueue bounds how many spans and how many bytes of them wait to be sent, those under way included. Zero and
// less mean the defaults: OTEL_BSP_MAX_QUEUE_SIZE or DefaultMaxQueueSpans, and DefaultMaxQueueBytes. The most spans are
// 1,048,576. A span that would exceed a bound is dropped as it ends, so the newest are lost, and counted in Stats. With
// WithBlocking its end waits instead, and a span larger than all bytes is sent alone. The bytes of a span are those of
// a request that holds it alone; encoding adds one request to them.
func WithMaxQueue(spans int, bytes int64) Option {
	return func(c *config) { c.queueSpans, c.queueBytes = spans, bytes }
}

// WithoutGlobal keeps the process-wide providers and propagator. Default: Setup installs its providers, that of metrics
// only when there are metrics, and W3C trace context and baggage as propagator.
func WithoutGlobal() Option { return func(c *config) { c.local = true } }

// WithLive makes Live of the Providers send copies of open spans with the exporter of spans, and again every heartbeat
// (see [NewLive]). Spans that end, and those that carry a request ahead of its turn, then wait 200 ms for others,
// unless OTEL_BSP_SCHEDULE_DELAY is set. Default: no copies.
func WithLive(heartbeat time.Duration) Option {
	return func(c *config) { c.live, c.heartbeat = true, heartbeat }
}

func configOf(opts []Option) (c config) {
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	return c
}

// Providers is an installed SDK. Safe for concurrent use.
type Providers struct {
	tracer     *TracerProvider
	queue      *queue
	live       *Live                    // nil without WithLive, and when no spans are sent
	meters     *sdkmetric.MeterProvider // nil without metrics
	metricsErr atomic.Pointer[error]    // of the last export
}

// Setup installs an SDK. It does not connect: a collector that is away is an error of Shutdown and Stats, not of Setup.
// Its errors are a wrong option or OTEL_* variable. The caller ends it with Shutdown.
//
// OTEL_SDK_DISABLED=true makes a provider that sends nothing, as does OTEL_TRACES_EXPORTER=none without WithExporter.
// Metrics are sent every OTEL_METRIC_EXPORT_INTERVAL (15 s), with exemplars of sampled spans;
// OTEL_METRICS_EXPORTER=none switches them off. With an exporter or a protocol of metrics in the environment that is
// not known, the error handler of OpenTelemetry is called, and there are no metrics.
func Setup(ctx context.Context, opts ...Option) (*Providers, error) {
	c := configOf(opts)
	if err := c.completeEndpoint(); err != nil {
		return nil, fmt.Errorf("otelsetup: %w", err)
	}
	res, err := c.resource(ctx)
	if err != nil {
		return nil, fmt.Errorf("otelsetup: resource: %w", err)
	}
	p := &Providers{}
	if err := p.setupTraces(ctx, &c, res); err != nil {
		return nil, fmt.Errorf("otelsetup: spans: %w", err)
	}
	if err := p.setupMetrics(ctx, &c, res); err != nil {
		_ = p.Shutdown(ctx)
		return nil, fmt.Errorf("otelsetup: metrics: %w", err)
	}
	if c.local {
		return p, nil
	}
	if p.meters != nil { // the host may have metrics of its own
		otel.SetMeterProvider(p.meters)
	}
	otel.SetTracerProvider(p.tracer)
	otel.SetTextMapPropagator(
		propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	return p, nil
}

// setupTraces makes the provider of spans, and the sender of copies.
func (p *Providers) setupTraces(ctx context.Context, c *config, res *resource.Resource) error {
	tenant, _ := res.Set().Value(spans.TenantKey)
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res), sdktrace.WithRawSpanLimits(spanLimits()),
		sdktrace.WithIDGenerator(idGenerator{tenant.AsString()}), sdktrace.WithSampler(c.sampler)}
	exporter, err := c.openTraces(ctx)
	if err != nil {
		return err
	}
	if exporter == nil || disabled() {
		opts = append(opts, sdktrace.WithSampler(sdktrace.NeverSample()))
	}
	switch {
	case exporter == nil:
		exporter = NewFuncExporter(func(context.Context, []byte) error { return nil })
	case c.live:
		p.live = NewLive(c.wrap(borrowed{exporter}), c.heartbeat)
	}
	p.queue = newQueue(c.wrap(exporter), c)
	p.tracer = &TracerProvider{sdktrace.NewTracerProvider(append(opts, sdktrace.WithSpanProcessor(p.queue))...),
		p.queue.exporter}
	return nil
}

// borrowed is an exporter that its other user shuts down.
type borrowed struct{ sdktrace.SpanExporter }

func (borrowed) Shutdown(context.Context) error { return nil }

// TracerProvider is the SDK's provider. A tracer that is made with it sends the next request of a session whole when
// content was lost.
type TracerProvider struct {
	*sdktrace.TracerProvider
	exporter *Exporter
}

// OnLost is [Exporter.OnLost] of the exporter of spans. It also reports the sessions of spans that were dropped because
// the queue was full.
func (p *TracerProvider) OnLost(f func(session string)) { p.exporter.OnLost(f) }

// TracerProvider returns the provider, for otelagent.WithTracerProvider.
func (p *Providers) TracerProvider() *TracerProvider { return p.tracer }

// ForceFlush sends the spans that have ended and the metrics so far. It waits for the network, at most until ctx ends.
func (p *Providers) ForceFlush(ctx context.Context) error {
	err := p.tracer.ForceFlush(ctx)
	p.lastMetrics(ctx, (*sdkmetric.MeterProvider).ForceFlush)
	return err
}

// Shutdown sends the spans that have ended, then the metrics, and releases everything. It waits for the network, at
// most until ctx ends, and for metrics 5 s at most. Spans that end later are lost. A second call does nothing.
func (p *Providers) Shutdown(ctx context.Context) error {
	defer p.queue.cancel()
	if p.live != nil {
		part, cancel := context.WithTimeout(ctx, time.Second) // nobody needs copies any more
		_ = p.live.Shutdown(part)
		cancel()
	}
	err := cmp.Or(p.tracer.Shutdown(ctx), p.queue.Shutdown(ctx)) // both: the SDK skips the queue once ctx has ended
	p.lastMetrics(ctx, (*sdkmetric.MeterProvider).Shutdown)
	return err
}

// Stats returns the counts of spans so far; final after Shutdown.
func (p *Providers) Stats() Stats {
	s := p.queue.exporter.Stats()
	s.Ended, s.Dropped = p.queue.ended.Load(), p.queue.dropped.Load()
	return s
}

// spanLimits raises the limits of the environment where they are lower than the spans of a tracer need: at most 65
// events of 5 attributes. Values are not limited: a block cut short is not the block that its id names.
func spanLimits() sdktrace.SpanLimits {
	l := sdktrace.NewSpanLimits()
	l.AttributeValueLengthLimit = -1
	for limit, least := range map[*int]int{&l.EventCountLimit: 1024, &l.AttributeCountLimit: 512, &l.LinkCountLimit: 1024,
		&l.AttributePerEventCountLimit: 128, &l.AttributePerLinkCountLimit: 128} {
		if *limit >= 0 {
			*limit = max(*limit, least)
		}
	}
	return l
}

// resource returns the attributes of the SDK, the program, the environment and the options.
func (c *config) resource(ctx context.Context) (*resource.Resource, error) {
	var own []attribute.KeyValue
	if c.service != "" {
		own = append(own, attribute.String("service.name", c.service))
	}
	if c.tenant != "" {
		own = append(own, spans.TenantKey.String(c.tenant))
	}
	res, err := resource.New(ctx, resource.WithFromEnv(), resource.WithAttributes(own...))
	if err != nil {
		return nil, err
	}
	for _, kv := range res.Attributes() {
		if !utf8.ValidString(kv.Value.AsString()) { // no batch could be sent
			return nil, fmt.Errorf("%s is not UTF-8", kv.Key)
		}
	}
	return resource.Merge(resource.Default(), res)
}
