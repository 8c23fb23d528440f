package otelsetup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Protocol is a way to carry OTLP; the words are those of OTEL_EXPORTER_OTLP_PROTOCOL.
type Protocol string

// The protocols.
const (
	// GRPC is OTLP over gRPC, by default to localhost:4317 without TLS.
	GRPC Protocol = "grpc"
	// HTTP is OTLP as protobuf over HTTP, by default to http://localhost:4318/v1/traces.
	HTTP Protocol = "http/protobuf"
)

// batchSize is how many spans are taken from the queue at once. How many bytes a request carries is bounded by requestBytes.
const batchSize = 64

// DefaultMaxQueueBytes is how many bytes of spans wait at most to be sent, unless WithMaxQueueBytes says otherwise.
const DefaultMaxQueueBytes = 256 << 20

// Limits of a span, in number; a span of ours has at most 47 events and an event at most 5 attributes. The length of values is
// not limited: a body cut short is not the body that its id names.
const (
	spanEvents     = 1024
	spanAttributes = 512
	spanLinks      = 1024
)

// Option configures Setup.
type Option interface {
	apply(config) config
}

type optionFunc func(config) config

func (f optionFunc) apply(c config) config { return f(c) }

type config struct {
	protocol Protocol
	endpoint string
	service  string
	tenant   string
	exporter sdktrace.SpanExporter
	blocking bool
	local    bool
	sampler  sdktrace.Sampler

	queueBytes int64
	queueSpans int

	reader          sdkmetric.Reader
	metricsEndpoint string
	noMetrics       bool
	exponential     bool

	live     bool
	liveOpts []LiveOption

	openInference bool
}

// WithProtocol chooses how OTLP is carried. Default: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL, GRPC.
func WithProtocol(p Protocol) Option {
	return optionFunc(func(c config) config { c.protocol = p; return c })
}

// WithEndpoint sets where spans go: a URL, or host:port, which is taken as http://host:port. With https there is TLS. A URL
// without a path means /v1/traces over HTTP. Default: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT, and
// without them a collector on this machine.
func WithEndpoint(url string) Option {
	return optionFunc(func(c config) config { c.endpoint = url; return c })
}

// WithServiceName sets service.name. Default: OTEL_SERVICE_NAME, else what the SDK makes of the program's name.
func WithServiceName(name string) Option {
	return optionFunc(func(c config) config { c.service = name; return c })
}

// WithTenant sets the owner of the sessions, the resource attribute otelagent.tenant. Default: what
// OTEL_RESOURCE_ATTRIBUTES says, else none.
func WithTenant(tenant string) Option {
	return optionFunc(func(c config) config { c.tenant = tenant; return c })
}

// WithExporter sends spans to e instead of over OTLP; Setup takes it over and shuts it down. Nil is ignored.
func WithExporter(e sdktrace.SpanExporter) Option {
	return optionFunc(func(c config) config {
		if e != nil {
			c.exporter = e
		}
		return c
	})
}

// WithSampler sets the sampler. Default, and with nil: what OTEL_TRACES_SAMPLER says, else all traces.
func WithSampler(s sdktrace.Sampler) Option {
	return optionFunc(func(c config) config { c.sampler = s; return c })
}

// WithBlocking makes the end of a span wait while the queue is full, instead of dropping the span. For programs that replay
// input and have no user waiting; never for an agent.
func WithBlocking() Option {
	return optionFunc(func(c config) config { c.blocking = true; return c })
}

// WithMaxQueueBytes bounds how many bytes of spans wait to be sent, those under way included; DefaultMaxQueueBytes unless n is
// positive. A span that would exceed the bound is dropped as it ends, so the newest are lost, and counted in Stats. With
// WithBlocking its end waits instead, and a span larger than n goes through alone. Bytes are those of the span as OTLP,
// estimated, never too low; what is being sent takes its encoding on top, which is one request.
func WithMaxQueueBytes(n int64) Option {
	return optionFunc(func(c config) config { c.queueBytes = n; return c })
}

// WithMaxQueueSpans bounds how many spans wait to be sent, those under way included. Default, and unless n is positive:
// OTEL_BSP_MAX_QUEUE_SIZE, else 2048. What exceeds it is treated as in WithMaxQueueBytes.
func WithMaxQueueSpans(n int) Option {
	return optionFunc(func(c config) config { c.queueSpans = n; return c })
}

// WithoutGlobal leaves the process-wide providers and propagator alone. Default: Setup installs its providers, that of metrics only when
// there are any, and W3C trace context and baggage as propagator.
func WithoutGlobal() Option {
	return optionFunc(func(c config) config { c.local = true; return c })
}

// WithLive makes Live of the Providers send copies of open spans to where spans go, over a connection of its own; with WithExporter over
// that exporter, which is never called twice at a time. Spans that end then wait 500 ms for others, unless OTEL_BSP_SCHEDULE_DELAY says
// otherwise, and none waits that carries a request. Default: no copies.
func WithLive(opts ...LiveOption) Option {
	return optionFunc(func(c config) config { c.live, c.liveOpts = true, opts; return c })
}

// Providers is an installed SDK. Safe for concurrent use.
type Providers struct {
	tracer   *sdktrace.TracerProvider
	queue    *queue             // nil when nothing is sent, and so is exporter
	exporter *Exporter          // behind the queue
	stop     context.CancelFunc // ends exports under way

	meters  *sdkmetric.MeterProvider // nil when there are no metrics
	metrics *metricExporter          // nil when nobody but a reader gets them

	live *Live // nil without WithLive
}

// ScopeName is the name of the instrumentation scope of the metric that Setup itself makes.
const ScopeName = "github.com/otelagent/otelagent/otelsetup"

// Setup installs an SDK. It does not connect: a collector that is away is an error of Shutdown and Stats, not of Setup. Its
// errors are a wrong option or OTEL_* variable. The caller ends it with Shutdown.
//
// OTEL_SDK_DISABLED=true makes a provider that sends nothing, as does OTEL_TRACES_EXPORTER=none without WithExporter. Metrics go where
// spans go (WithMetricsEndpoint), every OTEL_METRIC_EXPORT_INTERVAL (60 s), with exemplars of sampled spans; OTEL_METRICS_EXPORTER=none
// and WithoutMetrics switch them off. Spans do not wait for what the environment says of metrics: exporters of them without otlp among
// them, and a protocol that is not known, are told to OpenTelemetry's error handler, and there are no metrics; they are an error with
// WithMetricsEndpoint.
func Setup(ctx context.Context, opts ...Option) (*Providers, error) {
	var c config
	for _, o := range opts {
		if o != nil {
			c = o.apply(c)
		}
	}
	res, err := c.resource(ctx)
	if err != nil {
		return nil, err
	}
	stopped, stop := context.WithCancel(context.Background())
	p := &Providers{stop: stop}
	provider := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(res),
		sdktrace.WithRawSpanLimits(spanLimits()),
		sdktrace.WithIDGenerator(newIDGenerator(tenantOf(res))),
	}
	if c.sampler != nil {
		provider = append(provider, sdktrace.WithSampler(c.sampler))
	}
	exporter, err := c.open(ctx)
	var toLive sdktrace.SpanExporter
	if err == nil && exporter != nil && c.live {
		if exporter, toLive, err = c.openLive(ctx, exporter); err != nil {
			_ = exporter.Shutdown(ctx)
		}
	}
	if err == nil {
		err = p.setupMetrics(ctx, &c, res)
		if err != nil && exporter != nil {
			_ = exporter.Shutdown(ctx)
		}
		if err != nil && toLive != nil && c.exporter == nil {
			_ = toLive.Shutdown(ctx)
		}
	}
	switch {
	case err != nil:
		stop()
		return nil, err
	case exporter == nil:
		provider = append(provider, sdktrace.WithSampler(sdktrace.NeverSample()))
	default:
		if c.openInference {
			exporter = OpenInference(exporter)
		}
		p.exporter = WrapExporter(exporter)
		p.queue = c.queue(&p.exporter.lost)
		p.queue.SpanProcessor = sdktrace.NewBatchSpanProcessor(&sender{p.exporter, p.queue, stopped}, c.batch(p.queue)...)
		provider = append(provider, sdktrace.WithSpanProcessor(p.queue))
		if toLive != nil {
			p.live = newLive(toLive, p.queue.ForceFlush, c.liveOpts)
			p.live.shared, p.live.lost = c.exporter != nil, &p.exporter.lost
		}
	}
	p.measureLost()
	p.tracer = sdktrace.NewTracerProvider(provider...)
	if !c.local {
		if p.meters != nil { // the host may have metrics of its own
			otel.SetMeterProvider(p.meters)
		}
		otel.SetTracerProvider(p.tracer)
		otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	}
	return p, nil
}

// TracerProvider returns the provider, for otelagent.WithTracerProvider.
func (p *Providers) TracerProvider() *sdktrace.TracerProvider { return p.tracer }

// Live returns what sends copies of open spans, for otelagent.WithLive: nil without WithLive, and where nothing is sent.
func (p *Providers) Live() otelagent.Live {
	if p.live == nil {
		return nil
	}
	return p.live
}

// ForceFlush sends what has ended, and was measured, so far. It waits for the network, and for those who hear of what is lost, at most until ctx ends.
func (p *Providers) ForceFlush(ctx context.Context) error {
	err := p.tracer.ForceFlush(ctx)
	if p.exporter != nil {
		p.exporter.lost.wait(ctx)
	}
	p.lastMetrics(ctx, (*sdkmetric.MeterProvider).ForceFlush)
	return err
}

// Shutdown sends what has ended, then what was measured, and lets go of everything. It waits for the network, and for those who hear of
// what is lost, at most until ctx ends, and for metrics no longer than 5 s. Spans ended later are lost. A second call does nothing.
func (p *Providers) Shutdown(ctx context.Context) error {
	defer p.stop()
	if p.live != nil {
		part, cancel := context.WithTimeout(ctx, liveShutdown)
		_ = p.live.Shutdown(part)
		cancel()
	}
	err := p.tracer.Shutdown(ctx)
	p.lastMetrics(ctx, (*sdkmetric.MeterProvider).Shutdown)
	return err
}

// Stats returns what became of the spans so far; final after Shutdown.
func (p *Providers) Stats() Stats {
	if p.exporter == nil {
		return Stats{}
	}
	s := p.exporter.Stats()
	s.Ended, s.Dropped = p.queue.ended.Load(), p.queue.dropped.Load()
	if p.live != nil {
		s.Live = p.live.Stats()
	}
	return s
}

// OnLost is [Exporter.OnLost] of what Setup sends with. It also hears of spans that were dropped because the queue was full. The
// ids of their blocks are computed as they end, on the goroutine that ends them; f is called on another one.
func (p *Providers) OnLost(f func(session string, blocks []spans.BlockID)) {
	if p.exporter != nil {
		p.exporter.OnLost(f)
	}
}

// queue returns the bounds of what waits.
func (c *config) queue(l *lost) *queue {
	q := &queue{lost: l, maxBytes: c.queueBytes, maxSpans: int64(c.queueSpans), blocking: c.blocking}
	if q.maxBytes <= 0 {
		q.maxBytes = DefaultMaxQueueBytes
	}
	if q.maxSpans <= 0 {
		q.maxSpans = sdktrace.DefaultMaxQueueSize
		if c.live { // a request and the arguments of a call are spans of their own
			q.maxSpans *= 2
		}
		if n, err := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")); err == nil && n > 0 {
			q.maxSpans = int64(n)
		}
	}
	return q
}

func (c *config) batch(q *queue) []sdktrace.BatchSpanProcessorOption {
	opts := []sdktrace.BatchSpanProcessorOption{sdktrace.WithMaxQueueSize(int(q.maxSpans) + queueSlack)}
	if os.Getenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") == "" {
		opts = append(opts, sdktrace.WithMaxExportBatchSize(batchSize))
	}
	if c.blocking {
		opts = append(opts, sdktrace.WithBlocking())
	}
	if c.live && os.Getenv("OTEL_BSP_SCHEDULE_DELAY") == "" {
		opts = append(opts, sdktrace.WithBatchTimeout(liveDelay))
	}
	return opts
}

// spanLimits raises the limits that the environment sets, where they are lower than what spans of ours need.
func spanLimits() sdktrace.SpanLimits {
	l := sdktrace.NewSpanLimits()
	raise := func(limit *int, least int) {
		if *limit >= 0 {
			*limit = max(*limit, least)
		}
	}
	l.AttributeValueLengthLimit = -1
	raise(&l.EventCountLimit, spanEvents)
	raise(&l.AttributeCountLimit, spanAttributes)
	raise(&l.AttributePerEventCountLimit, sdktrace.DefaultAttributePerEventCountLimit)
	raise(&l.LinkCountLimit, spanLinks)
	raise(&l.AttributePerLinkCountLimit, sdktrace.DefaultAttributePerLinkCountLimit)
	return l
}

func (c *config) resource(ctx context.Context) (*resource.Resource, error) {
	var own []attribute.KeyValue
	if c.service != "" {
		own = append(own, attribute.String("service.name", c.service))
	}
	if c.tenant != "" {
		own = append(own, spans.TenantKey.String(c.tenant))
	}
	given, err := resource.New(ctx, resource.WithFromEnv(), resource.WithAttributes(own...))
	if err != nil {
		return nil, fmt.Errorf("otelsetup: resource: %w", err)
	}
	// The default resource adds what the SDK says of itself and the program's name.
	res, err := resource.Merge(resource.Default(), given)
	if err != nil && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("otelsetup: resource: %w", err)
	}
	for _, kv := range res.Attributes() {
		if kv.Value.Type() == attribute.STRING && !utf8.ValidString(kv.Value.AsString()) { // no batch could be sent
			return nil, fmt.Errorf("otelsetup: resource: %s is not UTF-8", kv.Key)
		}
	}
	return res, nil
}

func tenantOf(r *resource.Resource) string {
	v, _ := r.Set().Value(spans.TenantKey)
	return v.AsString()
}

// open makes the exporter; nil when nothing is to be sent.
func (c *config) open(ctx context.Context) (sdktrace.SpanExporter, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		if c.exporter == nil {
			return nil, nil
		}
		if err := c.exporter.Shutdown(ctx); err != nil {
			return nil, fmt.Errorf("otelsetup: shut down the exporter that is not used: %w", err)
		}
		return nil, nil
	}
	if c.exporter != nil {
		return c.exporter, nil
	}
	switch kind := os.Getenv("OTEL_TRACES_EXPORTER"); kind {
	case "", "otlp":
	case "none":
		return nil, nil
	default:
		return nil, fmt.Errorf("otelsetup: OTEL_TRACES_EXPORTER=%q: want otlp or none", kind)
	}
	protocol := c.protocol
	if protocol == "" {
		protocol = Protocol(firstEnv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"))
	}
	switch protocol {
	case GRPC, "":
		return c.openGRPC(ctx)
	case HTTP:
		return c.openHTTP(ctx)
	}
	return nil, fmt.Errorf("otelsetup: protocol %q: want %s or %s", protocol, GRPC, HTTP)
}

// openLive returns the exporter for copies of open spans: another connection, or the same exporter by turns.
func (c *config) openLive(ctx context.Context, e sdktrace.SpanExporter) (all, live sdktrace.SpanExporter, err error) {
	if c.exporter != nil {
		both := &oneByOne{SpanExporter: e, turn: make(chan struct{}, 1)}
		return both, whenFree{both}, nil
	}
	live, err = c.open(ctx)
	return e, live, err
}

func (c *config) openGRPC(ctx context.Context) (sdktrace.SpanExporter, error) {
	var opts []otlptracegrpc.Option
	switch {
	case c.endpoint != "":
		opts = append(opts, otlptracegrpc.WithEndpointURL(withScheme(c.endpoint)))
	case endpointEnv() == "":
		opts = append(opts, otlptracegrpc.WithEndpointURL("http://localhost:4317"))
	}
	e, err := otlptracegrpc.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("otelsetup: open OTLP over gRPC: %w", err)
	}
	return e, nil
}

func (c *config) openHTTP(ctx context.Context) (sdktrace.SpanExporter, error) {
	var opts []otlptracehttp.Option
	switch {
	case c.endpoint != "":
		opts = append(opts, otlptracehttp.WithEndpointURL(withPath(withScheme(c.endpoint), "/v1/traces")))
	case endpointEnv() == "":
		opts = append(opts, otlptracehttp.WithEndpointURL("http://localhost:4318/v1/traces"))
	}
	e, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("otelsetup: open OTLP over HTTP: %w", err)
	}
	return e, nil
}

func endpointEnv() string {
	return firstEnv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
}

func firstEnv(names ...string) string {
	for _, n := range names {
		if v := os.Getenv(n); v != "" {
			return v
		}
	}
	return ""
}

func withScheme(endpoint string) string {
	if strings.Contains(endpoint, "://") {
		return endpoint
	}
	return "http://" + endpoint
}

// withPath adds the usual path to a URL without one.
func withPath(url, usual string) string {
	_, rest, _ := strings.Cut(url, "://")
	if _, path, found := strings.Cut(rest, "/"); found && path != "" {
		return url
	}
	return strings.TrimSuffix(url, "/") + usual
}
