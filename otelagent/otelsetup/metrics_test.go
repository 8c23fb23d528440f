package otelsetup_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	colmetricpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	metricpb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// metricsReceiver is a collector over HTTP that keeps the paths of requests, and the last metrics.
type metricsReceiver struct {
	mu     sync.Mutex
	status int    // with which it answers requests of metrics; 0 accepts them
	says   string // with the status
	paths  []string
	last   colmetricpb.ExportMetricsServiceRequest
}

func (r *metricsReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.HasSuffix(req.URL.Path, "/traces") || req.URL.Path == "/spans" {
		return
	}
	r.paths = append(r.paths, req.URL.Path)
	if r.status != 0 {
		http.Error(w, r.says, r.status)
		return
	}
	_ = proto.Unmarshal(body, &r.last)
}

// start starts the collector. Until the test ends, metrics and spans go to it over HTTP unless options say otherwise.
func (r *metricsReceiver) start(t *testing.T) (url string) {
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	return s.URL
}

// setup calls Setup with these options and WithoutGlobal.
func setup(t *testing.T, opts ...otelsetup.Option) *otelsetup.Providers {
	t.Helper()
	p := must.Get(otelsetup.Setup(t.Context(), append(opts, otelsetup.WithoutGlobal())...))(t)
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p
}

// oneTurn is a run with one turn.
func oneTurn(p *otelsetup.Providers) {
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()),
		otelagent.WithMeterProvider(p.MeterProvider()))
	ctx, run := tracer.StartRun(context.Background(), otelagent.RunInfo{SessionID: "s", Agent: "coder"})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	turn.End(otelagent.TurnResult{Usage: &otelagent.Usage{Input: 300, Output: 7}})
	run.End(otelagent.RunResult{})
}

// Metrics go where spans go, with exemplars that lead to them, a resource of their own process, and the histograms
// asked for.
func TestMetricsGoWhereSpansGo(t *testing.T) {
	for _, exponential := range []bool{false, true} {
		var got metricsReceiver
		if exponential {
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "base2_exponential_bucket_histogram")
		}
		p := setup(t, otelsetup.WithEndpoint(got.start(t)), otelsetup.WithServiceName("coder"), otelsetup.WithTenant("acme"))
		oneTurn(p)
		if err := p.Shutdown(t.Context()); err != nil || p.MetricsError() != nil {
			t.Fatal(err, p.MetricsError())
		}
		resource := map[string]string{}
		for _, kv := range got.last.ResourceMetrics[0].Resource.Attributes {
			resource[kv.Key] = kv.Value.GetStringValue()
		}
		if resource["service.name"] != "coder" || resource["otelagent.tenant"] != "acme" ||
			len(resource["service.instance.id"]) < 20 {
			t.Errorf("resource %v", resource)
		}
		var tokens *metricpb.Metric
		for _, m := range got.last.ResourceMetrics[0].ScopeMetrics[0].Metrics {
			if m.Name == spans.MetricTokenUsage {
				tokens = m
			}
		}
		var exemplars []*metricpb.Exemplar
		if exponential {
			exemplars = tokens.GetExponentialHistogram().GetDataPoints()[0].Exemplars
		} else {
			point := tokens.GetHistogram().GetDataPoints()[0]
			exemplars = point.Exemplars
			want, _ := spans.LookupMetric(spans.MetricTokenUsage)
			if len(point.ExplicitBounds) != len(want.Boundaries) || point.ExplicitBounds[1] != 4 {
				t.Errorf("explicit buckets %v", point.ExplicitBounds)
			}
		}
		if len(exemplars) != 1 || len(exemplars[0].TraceId) != 16 || len(exemplars[0].SpanId) != 8 {
			t.Errorf("exemplars %v", exemplars)
		}
	}
}

// A receiver that takes no metrics is sent them once. The error handler is called only where a variable names their
// endpoint. Spans are not harmed.
func TestReceiverWithoutMetrics(t *testing.T) {
	r := metricsReceiver{status: http.StatusNotFound}
	url := r.start(t)
	_, addr := startGRPC(t)
	for _, tt := range []struct {
		protocol otelsetup.Protocol
		endpoint string
	}{{otelsetup.HTTP, url}, {otelsetup.GRPC, "http://" + addr}} {
		for _, named := range []string{"", tt.endpoint} {
			t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", named)
			handled := handledErrors(t)
			p := setup(t, otelsetup.WithProtocol(tt.protocol), otelsetup.WithEndpoint(tt.endpoint))
			for range 3 {
				oneTurn(p)
				if err := p.ForceFlush(t.Context()); err != nil {
					t.Errorf("%s: flush: %v", tt.protocol, err)
				}
			}
			if err := p.Shutdown(t.Context()); err != nil || !errors.Is(p.MetricsError(), otelsetup.ErrNoMetrics) {
				t.Errorf("%s: shut down: %v, metrics: %v", tt.protocol, err, p.MetricsError())
			}
			if s := p.Stats(); s.Exported != 6 || s.Lost() != 0 {
				t.Errorf("%s: spans %+v", tt.protocol, s)
			}
			all := handled()
			if (len(all) == 1) != (named != "") || len(all) > 0 && !strings.Contains(all[0], "takes no metrics") {
				t.Errorf("%s: the error handler was called with %q", tt.protocol, all)
			}
		}
	}
	if len(r.paths) != 2 {
		t.Errorf("sent %d times over HTTP, want once by each program", len(r.paths))
	}
}

// The error handler is called once while a receiver fails, which gets everything when it is back. A body that looks
// like a refusal is none.
func TestMetricsFailAndComeBack(t *testing.T) {
	r := metricsReceiver{status: http.StatusInternalServerError, says: "the store said: 404 not found"}
	handled := handledErrors(t)
	p := setup(t, otelsetup.WithEndpoint(r.start(t)+"/v1/traces"))
	for range 3 {
		oneTurn(p)
		_ = p.ForceFlush(t.Context())
	}
	if all := handled(); len(all) != 1 || !strings.Contains(all[0], "metrics were not delivered") ||
		p.MetricsError() == nil || errors.Is(p.MetricsError(), otelsetup.ErrNoMetrics) {
		t.Errorf("the error handler was called with %q, error %v", all, p.MetricsError())
	}
	r.mu.Lock()
	r.status = 0
	r.mu.Unlock()
	if err := p.Shutdown(t.Context()); err != nil || p.MetricsError() != nil {
		t.Error(err, p.MetricsError())
	}
	for _, m := range r.last.ResourceMetrics[0].ScopeMetrics[0].Metrics {
		if m.Name == spans.MetricAgentInferenceCalls && m.GetHistogram().DataPoints[0].Count != 3 {
			t.Errorf("%v", m)
		}
	}
}

// Options and the environment say where metrics go; otherwise there are none.
func TestMetricsEndpoint(t *testing.T) {
	var r metricsReceiver
	url := r.start(t)
	to := otelsetup.WithEndpoint
	own := otelsetup.WithExporter(otelsetup.NewFuncExporter(func(context.Context, []byte) error { return nil }))
	type options = []otelsetup.Option
	for _, tt := range []struct {
		name, key, value string
		opts             options
		want             string // path, empty where there are no metrics
	}{
		{name: "where spans go", opts: options{to(url)}, want: "/v1/metrics"},
		{name: "next to the path of spans", opts: options{to(url + "/in/v1/traces")}, want: "/in/v1/metrics"},
		{name: "a path for spans only", opts: options{to(url + "/spans")}},
		{name: "own endpoint", key: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", value: url + "/m", want: "/m",
			opts: options{to(url + "/spans")}},
		{name: "an exporter", opts: options{own}},
		{name: "an exporter and own endpoint", key: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", value: url + "/m", want: "/m",
			opts: options{own}},
		{name: "environment", key: "OTEL_EXPORTER_OTLP_ENDPOINT", value: url, want: "/v1/metrics"},
		{name: "environment, own", key: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", value: url + "/e", want: "/e",
			opts: options{to(url)}},
		{name: "environment, spans", key: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", value: url + "/v1/traces"},
		{name: "off", opts: options{to(url), otelsetup.WithoutMetrics()}},
		{name: "off by environment", key: "OTEL_METRICS_EXPORTER", value: "none", opts: options{to(url)}},
		{name: "all off", key: "OTEL_SDK_DISABLED", value: "true", opts: options{to(url)}},
		{name: "metrics alone", key: "OTEL_TRACES_EXPORTER", value: "none", opts: options{to(url)}, want: "/v1/metrics"},
		{name: "one of several", key: "OTEL_METRICS_EXPORTER", value: "prometheus, otlp", want: "/v1/metrics",
			opts: options{to(url)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.key != "" {
				t.Setenv(tt.key, tt.value)
			}
			r.paths = nil
			p := setup(t, tt.opts...)
			oneTurn(p)
			if err := p.Shutdown(t.Context()); err != nil || p.MetricsError() != nil {
				t.Error(err, p.MetricsError())
			}
			if got := strings.Join(r.paths, " "); got != tt.want || p.HasMetrics() != (tt.want != "") {
				t.Errorf("metrics went to %q, want %q; has metrics: %t", got, tt.want, p.HasMetrics())
			}
		})
	}
}

// A value of the environment about metrics that is not known stops no spans: the error handler is called.
func TestMetricsOfTheEnvironment(t *testing.T) {
	url := new(metricsReceiver).start(t)
	for _, tt := range []struct{ key, value, says string }{
		{"OTEL_METRICS_EXPORTER", "prometheus", `OTEL_METRICS_EXPORTER="prometheus": want otlp or none`},
		{"OTEL_METRICS_EXPORTER", "console,none", `OTEL_METRICS_EXPORTER="console,none": want otlp or none`},
		{"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json", `protocol "http/json" of metrics: want grpc or http/protobuf`},
	} {
		t.Run(tt.value, func(t *testing.T) {
			t.Setenv(tt.key, tt.value)
			handled := handledErrors(t)
			p := setup(t, otelsetup.WithEndpoint(url))
			oneTurn(p)
			if err := p.Shutdown(t.Context()); err != nil || p.Stats().Exported != 2 {
				t.Errorf("%v, spans %+v", err, p.Stats())
			}
			if _, none := p.MeterProvider().(noop.MeterProvider); !none || p.HasMetrics() {
				t.Error("there are metrics")
			}
			if all := handled(); len(all) != 1 || !strings.Contains(all[0], tt.says) {
				t.Errorf("the error handler was called with %q, want %q", all, tt.says)
			}
		})
	}
}

// Without metrics of its own Setup does not touch those of the host.
func TestMetricsOfTheHostStay(t *testing.T) {
	meters, tracers, propagator := otel.GetMeterProvider(), otel.GetTracerProvider(), otel.GetTextMapPropagator()
	defer func() {
		otel.SetMeterProvider(meters)
		otel.SetTracerProvider(tracers)
		otel.SetTextMapPropagator(propagator)
	}()
	host := sdkmetric.NewMeterProvider()
	otel.SetMeterProvider(host)
	p := must.Get(otelsetup.Setup(t.Context(), otelsetup.WithExporter(otelsetup.NewFuncExporter(away))))(t)
	if otel.GetMeterProvider() != any(host) || otel.GetTracerProvider() != any(p.TracerProvider()) {
		t.Error("the global providers are others")
	}
	_ = p.Shutdown(t.Context())
}

// Spans that are not delivered are a metric.
func TestLostSpansAreMeasured(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	p := setup(t, otelsetup.WithMetricReader(reader), otelsetup.WithExporter(otelsetup.NewFuncExporter(away)))
	oneTurn(p)
	_ = p.ForceFlush(t.Context())
	var all metricdata.ResourceMetrics
	must.Do(t, reader.Collect(t.Context(), &all))
	lost := int64(0)
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name == spans.MetricDropped && s.Scope.Name == otelsetup.ScopeName {
				lost += m.Data.(metricdata.Sum[int64]).DataPoints[0].Value
			}
		}
	}
	if lost != 2 {
		t.Errorf("%d lost spans measured, want 2", lost)
	}
}
