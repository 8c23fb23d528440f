package otelsetup_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// metricsReceiver is a collector's pipeline for metrics that keeps what it is sent.
type metricsReceiver struct {
	colmetricpb.UnimplementedMetricsServiceServer

	mu       sync.Mutex
	requests []*colmetricpb.ExportMetricsServiceRequest
}

func (r *metricsReceiver) Export(_ context.Context, req *colmetricpb.ExportMetricsServiceRequest) (*colmetricpb.ExportMetricsServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, req)
	return &colmetricpb.ExportMetricsServiceResponse{}, nil
}

// metrics returns the last state of each metric, by name, and the resource's attributes.
func (r *metricsReceiver) metrics() (byName map[string]*metricpb.Metric, resource map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byName, resource = map[string]*metricpb.Metric{}, map[string]string{}
	for _, req := range r.requests {
		for _, rm := range req.ResourceMetrics {
			for _, kv := range rm.Resource.Attributes {
				resource[kv.Key] = kv.Value.GetStringValue()
			}
			for _, s := range rm.ScopeMetrics {
				for _, m := range s.Metrics {
					byName[m.Name] = m
				}
			}
		}
	}
	return byName, resource
}

// oneTurn is a run with one turn.
func oneTurn(p *otelsetup.Providers) {
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()), otelagent.WithMeterProvider(p.MeterProvider()))
	ctx, run := tracer.StartRun(context.Background(), otelagent.RunInfo{SessionID: "s", Agent: "coder"})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	turn.End(otelagent.TurnResult{Usage: &otelagent.Usage{Input: 300, Output: 7}})
	run.End(otelagent.RunResult{})
}

// serve starts a collector over gRPC that takes spans, and metrics where there is a receiver for them.
func serve(t *testing.T, metrics *metricsReceiver) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	coltracepb.RegisterTraceServiceServer(s, &receiver{})
	if metrics != nil {
		colmetricpb.RegisterMetricsServiceServer(s, metrics)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// Metrics go where spans go, with exemplars that lead to them, a resource of their own process, and the histograms
// asked for.
func TestMetricsGoWhereSpansGo(t *testing.T) {
	for _, exponential := range []bool{false, true} {
		var got metricsReceiver
		opts := []otelsetup.Option{otelsetup.WithEndpoint(serve(t, &got)), otelsetup.WithServiceName("coder"), otelsetup.WithTenant("acme"), otelsetup.WithoutGlobal()}
		if exponential {
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "base2_exponential_bucket_histogram")
		}
		p, err := otelsetup.Setup(t.Context(), opts...)
		if err != nil {
			t.Fatal(err)
		}
		oneTurn(p)
		if err := p.Shutdown(t.Context()); err != nil || p.MetricsError() != nil {
			t.Fatal(err, p.MetricsError())
		}
		byName, resource := got.metrics()
		if resource["service.name"] != "coder" || resource["otelagent.tenant"] != "acme" || len(resource["service.instance.id"]) < 20 {
			t.Errorf("resource %v", resource)
		}
		tokens := byName[spans.MetricTokenUsage]
		var exemplars []*metricpb.Exemplar
		switch d := tokens.GetData().(type) {
		case *metricpb.Metric_Histogram:
			point := d.Histogram.DataPoints[0]
			exemplars = point.Exemplars
			if want, _ := spans.LookupMetric(spans.MetricTokenUsage); exponential || len(point.ExplicitBounds) != len(want.Boundaries) || point.ExplicitBounds[1] != 4 {
				t.Errorf("explicit buckets %v, exponential asked: %t", point.ExplicitBounds, exponential)
			}
		case *metricpb.Metric_ExponentialHistogram:
			point := d.ExponentialHistogram.DataPoints[0]
			exemplars = point.Exemplars
			if !exponential || point.GetCount() != 1 || len(point.Positive.BucketCounts) == 0 {
				t.Errorf("exponential histogram %v, asked: %t", point, exponential)
			}
		default:
			t.Fatalf("%s: %T", spans.MetricTokenUsage, d)
		}
		if len(exemplars) != 1 || len(exemplars[0].TraceId) != 16 || len(exemplars[0].SpanId) != 8 {
			t.Errorf("exemplars %v", exemplars)
		}
		if calls := byName[spans.MetricAgentInferenceCalls]; (calls.GetExponentialHistogram() != nil) != exponential {
			t.Errorf("another histogram: %v", calls)
		}
	}
}

// A receiver that takes no metrics is asked once, and told of only where metrics were asked for; spans are not harmed.
func TestReceiverWithoutMetrics(t *testing.T) {
	var asked atomic.Int64
	overHTTP := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/v1/metrics" {
			asked.Add(1)
			http.NotFound(w, r)
		}
	}))
	defer overHTTP.Close()
	test := func(protocol otelsetup.Protocol, told int, opts ...otelsetup.Option) {
		t.Helper()
		heard := hear(t)
		p, err := otelsetup.Setup(t.Context(), append(opts, otelsetup.WithProtocol(protocol), otelsetup.WithoutGlobal())...)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			oneTurn(p)
			if err := p.ForceFlush(t.Context()); err != nil {
				t.Errorf("%s: flush: %v", protocol, err)
			}
		}
		if err := p.Shutdown(t.Context()); err != nil {
			t.Errorf("%s: shut down: %v", protocol, err)
		}
		if s := p.Stats(); s.Exported != 6 || s.Lost() != 0 {
			t.Errorf("%s: spans %+v", protocol, s)
		}
		if err := p.MetricsError(); !errors.Is(err, otelsetup.ErrNoMetrics) {
			t.Errorf("%s: %v, want ErrNoMetrics", protocol, err)
		}
		if all := heard(); len(all) != told || told > 0 && !strings.Contains(all[0], "takes no metrics") {
			t.Errorf("%s: heard %q, want it %d times", protocol, all, told)
		}
	}
	for protocol, endpoint := range map[otelsetup.Protocol]string{otelsetup.GRPC: serve(t, nil), otelsetup.HTTP: overHTTP.URL} {
		test(protocol, 0, otelsetup.WithEndpoint(endpoint))
		test(protocol, 1, otelsetup.WithEndpoint(endpoint), otelsetup.WithMetricsEndpoint(endpoint))
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times over HTTP, want once by each program", n)
	}
}

// A receiver that is away or fails is told of once until it is back, and then gets everything.
func TestMetricsFailAndComeBack(t *testing.T) {
	var mu sync.Mutex
	var last colmetricpb.ExportMetricsServiceRequest
	fails := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != "/v1/metrics" {
			return
		}
		if fails {
			http.Error(w, "no", http.StatusInternalServerError)
		} else if err := proto.Unmarshal(body, &last); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	heard := hear(t)
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithProtocol(otelsetup.HTTP), otelsetup.WithEndpoint(server.URL+"/v1/traces"), otelsetup.WithoutGlobal())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		oneTurn(p)
		_ = p.ForceFlush(t.Context())
	}
	if all := heard(); len(all) != 1 || !strings.Contains(all[0], "metrics were not delivered") || p.MetricsError() == nil {
		t.Errorf("heard %q, error %v", all, p.MetricsError())
	}
	mu.Lock()
	fails = false
	mu.Unlock()
	if err := p.Shutdown(t.Context()); err != nil || p.MetricsError() != nil {
		t.Error(err, p.MetricsError())
	}
	if n := len(last.ResourceMetrics); n != 1 {
		t.Fatalf("%d resources", n)
	}
	for _, m := range last.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		if m.Name == spans.MetricAgentInferenceCalls && m.GetHistogram().DataPoints[0].Count != 3 {
			t.Errorf("%v", m)
		}
	}
}

// Where metrics go is said by options and the environment, and where nobody says it there are none.
func TestMetricsEndpoint(t *testing.T) {
	var mu sync.Mutex
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, r.URL.Path)
	}))
	defer server.Close()
	own := otelsetup.WithExporter(otelsetup.NewFuncExporter(func(context.Context, []byte) error { return nil }))
	for _, tt := range []struct {
		name string
		env  map[string]string
		opts []otelsetup.Option
		want string // path, empty where there are no metrics
	}{
		{name: "where spans go", opts: []otelsetup.Option{otelsetup.WithEndpoint(server.URL)}, want: "/v1/metrics"},
		{name: "beside the path of spans", opts: []otelsetup.Option{otelsetup.WithEndpoint(server.URL + "/in/v1/traces")}, want: "/in/v1/metrics"},
		{name: "a path that says nothing", opts: []otelsetup.Option{otelsetup.WithEndpoint(server.URL + "/spans")}},
		{name: "said apart", opts: []otelsetup.Option{otelsetup.WithEndpoint(server.URL + "/spans"), otelsetup.WithMetricsEndpoint(server.URL + "/m")}, want: "/m"},
		{name: "an exporter", opts: []otelsetup.Option{own}},
		{name: "an exporter, said apart", opts: []otelsetup.Option{own, otelsetup.WithMetricsEndpoint(server.URL)}, want: "/v1/metrics"},
		{name: "environment", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL}, want: "/v1/metrics"},
		{name: "environment, apart", env: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": server.URL + "/e"},
			opts: []otelsetup.Option{otelsetup.WithEndpoint(server.URL)}, want: "/e"},
		{name: "environment, spans only", env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": server.URL + "/v1/traces"}},
		{name: "off", opts: []otelsetup.Option{otelsetup.WithEndpoint(server.URL), otelsetup.WithoutMetrics()}},
		{name: "off by environment", env: map[string]string{"OTEL_METRICS_EXPORTER": "none"}, opts: []otelsetup.Option{otelsetup.WithEndpoint(server.URL)}},
		{name: "all off", env: map[string]string{"OTEL_SDK_DISABLED": "true"}, opts: []otelsetup.Option{otelsetup.WithEndpoint(server.URL)}},
		{name: "metrics alone", env: map[string]string{"OTEL_TRACES_EXPORTER": "none"}, opts: []otelsetup.Option{otelsetup.WithEndpoint(server.URL)}, want: "/v1/metrics"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			p, err := otelsetup.Setup(t.Context(), append(tt.opts, otelsetup.WithProtocol(otelsetup.HTTP), otelsetup.WithoutGlobal())...)
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			paths = nil
			mu.Unlock()
			oneTurn(p)
			if err := p.Shutdown(t.Context()); err != nil || p.MetricsError() != nil {
				t.Error(err, p.MetricsError())
			}
			mu.Lock()
			defer mu.Unlock()
			got := ""
			for _, path := range paths {
				if !strings.HasSuffix(path, "/traces") && path != "/spans" {
					got = path
				}
			}
			if got != tt.want {
				t.Errorf("metrics went to %q, want %q; all: %v", got, tt.want, paths)
			}
		})
	}
}

// What the environment says of metrics and we cannot do stops no spans: it is told, and an error only where metrics
// were asked of us.
func TestMetricsOfTheEnvironment(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	to := []otelsetup.Option{otelsetup.WithEndpoint(server.URL), otelsetup.WithoutGlobal()}
	for _, tt := range []struct {
		key, value string
		measured   bool
		says       string // to the error handler, or as error of Setup where metrics are asked for
	}{
		{key: "OTEL_METRICS_EXPORTER", value: "prometheus", says: `OTEL_METRICS_EXPORTER="prometheus": want otlp or none`},
		{key: "OTEL_METRICS_EXPORTER", value: "console,none", says: `OTEL_METRICS_EXPORTER="console,none": want otlp or none`},
		{key: "OTEL_METRICS_EXPORTER", value: "prometheus, otlp", measured: true},
		{key: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", value: "http/json", says: `protocol "http/json" of metrics: want grpc or http/protobuf`},
	} {
		t.Run(tt.value, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf")
			t.Setenv(tt.key, tt.value)
			heard := hear(t)
			p, err := otelsetup.Setup(t.Context(), to...)
			if err != nil {
				t.Fatal(err)
			}
			oneTurn(p)
			if err := p.Shutdown(t.Context()); err != nil || p.Stats().Exported != 2 {
				t.Errorf("%v, spans %+v", err, p.Stats())
			}
			if _, none := p.MeterProvider().(noop.MeterProvider); none == tt.measured || p.HasMetrics() != tt.measured {
				t.Errorf("provider does nothing: %t, has metrics: %t", none, p.HasMetrics())
			}
			if all := heard(); (len(all) == 1) != (tt.says != "") || len(all) > 0 && !strings.Contains(all[0], tt.says) {
				t.Errorf("heard %q, want %q", all, tt.says)
			}
			asked, err := otelsetup.Setup(t.Context(), append(to, otelsetup.WithMetricsEndpoint(server.URL))...)
			if (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("asked for metrics: %v, want %q", err, tt.says)
			}
			if asked != nil {
				_ = asked.Shutdown(t.Context())
			}
		})
	}
}

// Without metrics of its own Setup leaves those of the host alone.
func TestMetricsOfTheHostStay(t *testing.T) {
	meters, tracers, propagator := otel.GetMeterProvider(), otel.GetTracerProvider(), otel.GetTextMapPropagator()
	defer func() {
		otel.SetMeterProvider(meters)
		otel.SetTracerProvider(tracers)
		otel.SetTextMapPropagator(propagator)
	}()
	reader := sdkmetric.NewManualReader()
	host := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	otel.SetMeterProvider(host)
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(otelsetup.NewFuncExporter(func(context.Context, []byte) error { return nil })))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Shutdown(context.Background()) }()
	c, err := otel.Meter("host").Int64Counter("theirs")
	if err != nil {
		t.Fatal(err)
	}
	c.Add(t.Context(), 1)
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil || len(all.ScopeMetrics) != 1 || all.ScopeMetrics[0].Scope.Name != "host" {
		t.Errorf("%v: %+v", err, all.ScopeMetrics)
	}
}

// What a failing receiver writes does not pass for a refusal.
func TestRefusalIsNoText(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/metrics" {
			http.Error(w, "the store said: 404 not found", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithProtocol(otelsetup.HTTP), otelsetup.WithEndpoint(server.URL), otelsetup.WithoutGlobal())
	if err != nil {
		t.Fatal(err)
	}
	oneTurn(p)
	_ = p.Shutdown(t.Context())
	if err := p.MetricsError(); err == nil || errors.Is(err, otelsetup.ErrNoMetrics) {
		t.Errorf("%v, want a failure that is no refusal", err)
	}
}

// Spans that are not delivered are a metric.
func TestLostSpansAreMeasured(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithMetricReader(reader), otelsetup.WithoutGlobal(),
		otelsetup.WithExporter(otelsetup.NewFuncExporter(func(context.Context, []byte) error { return errors.New("no") })))
	if err != nil {
		t.Fatal(err)
	}
	oneTurn(p)
	_ = p.ForceFlush(t.Context())
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	lost := int64(0)
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if d, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == spans.MetricDropped {
				for _, point := range d.DataPoints {
					if kind, _ := point.Attributes.Value(spans.DroppedKindKeyKey); kind.AsString() == string(spans.DroppedKindSpan) {
						lost += point.Value
					}
				}
			}
		}
	}
	if lost != 2 {
		t.Errorf("%d lost spans measured, want 2", lost)
	}
	_ = p.Shutdown(t.Context())
}
