package otelsetup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

func TestMain(m *testing.M) {
	silence()
	goleak.VerifyTestMain(m)
}

// silence is the state between tests: errors of exporters belong to the tests that look at them.
func silence() { otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) }

// hear returns what the error handler hears from now on until the test ends.
func hear(t *testing.T) func() []string {
	var mu sync.Mutex
	var heard []string
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, err.Error())
	}))
	t.Cleanup(silence)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(heard)
	}
}

// httpLimit is what a collector takes over HTTP unless told otherwise; over gRPC it is the library's default of 4 MiB,
// as here.
const httpLimit = 20 << 20

// receiver is a collector that keeps what it is sent.
type receiver struct {
	coltracepb.UnimplementedTraceServiceServer
	// answer decides about a request, nil takes it. A request that is answered with an error is not kept.
	answer func(*coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTracePartialSuccess, error)

	mu       sync.Mutex
	requests []*coltracepb.ExportTraceServiceRequest
	paths    []string
}

func (r *receiver) Export(_ context.Context, req *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	resp := &coltracepb.ExportTraceServiceResponse{}
	if r.answer != nil {
		var err error
		if resp.PartialSuccess, err = r.answer(req); err != nil {
			return nil, err
		}
	}
	r.requests = append(r.requests, req)
	return resp, nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, httpLimit))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		http.Error(w, "request body too large", http.StatusRequestEntityTooLarge)
		return
	}
	req := &coltracepb.ExportTraceServiceRequest{}
	if err != nil || proto.Unmarshal(body, req) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.paths = append(r.paths, hr.URL.Path)
	r.mu.Unlock()
	resp, err := r.Export(hr.Context(), req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	b, _ := proto.Marshal(resp)
	_, _ = w.Write(b)
}

// bodies returns how often each body arrived.
func (r *receiver) bodies() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := map[string]int{}
	for _, req := range r.requests {
		for _, b := range bodiesOf(req) {
			got[b]++
		}
	}
	return got
}

func bodiesOf(req *coltracepb.ExportTraceServiceRequest) (list []string) {
	for _, rs := range req.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				for _, e := range s.Events {
					for _, kv := range e.Attributes {
						if kv.Key == string(spans.BlockBodiesKey) {
							for _, v := range kv.Value.GetArrayValue().GetValues() {
								list = append(list, v.GetStringValue())
							}
						}
					}
				}
			}
		}
	}
	return list
}

// sum returns the number of spans, the most in one request, and the tenant of the last.
func (r *receiver) sum() (spans, most int, tenant string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range r.requests {
		n := 0
		for _, rs := range req.ResourceSpans {
			for _, kv := range rs.Resource.Attributes {
				if kv.Key == "otelagent.tenant" {
					tenant = kv.Value.GetStringValue()
				}
			}
			for _, ss := range rs.ScopeSpans {
				n += len(ss.Spans)
			}
		}
		spans, most = spans+n, max(most, n)
	}
	return spans, most, tenant
}

func startGRPC(t *testing.T) (*receiver, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, s := &receiver{}, grpc.NewServer()
	coltracepb.RegisterTraceServiceServer(s, r)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return r, l.Addr().String()
}

func startHTTP(t *testing.T) (*receiver, string) {
	t.Helper()
	r := &receiver{}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return r, s.URL
}

func record(t *testing.T, p *otelsetup.Providers, runs int) {
	t.Helper()
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()))
	for i := range runs {
		_, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: fmt.Sprint(i)})
		run.End(otelagent.RunResult{})
	}
}

func TestSetupSends(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start func(*testing.T) (*receiver, string)
		opts  func(addr string) []otelsetup.Option
		env   func(addr string) map[string]string
		path  string
	}{
		{name: "grpc by host and port", start: startGRPC, opts: func(addr string) []otelsetup.Option {
			return []otelsetup.Option{otelsetup.WithEndpoint(addr), otelsetup.WithTenant("acme"), nil}
		}},
		{name: "grpc by environment", start: startGRPC, env: func(addr string) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + addr, "OTEL_RESOURCE_ATTRIBUTES": "otelagent.tenant=acme"}
		}},
		{name: "http by URL", start: startHTTP, path: "/v1/traces", opts: func(url string) []otelsetup.Option {
			return []otelsetup.Option{otelsetup.WithProtocol(otelsetup.HTTP), otelsetup.WithEndpoint(url), otelsetup.WithTenant("acme")}
		}},
		{name: "http by URL with a path", start: startHTTP, path: "/otlp/x", opts: func(url string) []otelsetup.Option {
			return []otelsetup.Option{otelsetup.WithProtocol(otelsetup.HTTP), otelsetup.WithEndpoint(url + "/otlp/x"), otelsetup.WithTenant("acme")}
		}},
		{name: "http by environment", start: startHTTP, path: "/v1/traces", env: func(url string) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
				"OTEL_RESOURCE_ATTRIBUTES": "otelagent.tenant=acme"}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, addr := tt.start(t)
			opts := []otelsetup.Option{otelsetup.WithoutGlobal(), otelsetup.WithBlocking()}
			if tt.opts != nil {
				opts = append(opts, tt.opts(addr)...)
			}
			if tt.env != nil {
				for k, v := range tt.env(addr) {
					t.Setenv(k, v)
				}
			}
			p, err := otelsetup.Setup(t.Context(), opts...)
			if err != nil {
				t.Fatal(err)
			}
			const runs = 500
			record(t, p, runs)
			if err := p.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			n, most, tenant := r.sum()
			if n != runs || most > 64 || tenant != "acme" {
				t.Errorf("%d spans of tenant %q, %d at once", n, tenant, most)
			}
			if len(r.paths) > 0 && r.paths[0] != tt.path {
				t.Errorf("sent to %s, want %s", r.paths[0], tt.path)
			}
			if s := p.Stats(); s.Ended != runs || s.Exported != runs || s.Lost() != 0 || s.LastError != nil {
				t.Errorf("stats %+v", s)
			}
			if err := p.Shutdown(t.Context()); err != nil {
				t.Errorf("second Shutdown: %v", err)
			}
		})
	}
}

func TestFailedDeliveryIsCounted(t *testing.T) {
	away := errors.New("away")
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithBlocking(),
		otelsetup.WithExporter(otelsetup.NewFuncExporter(func(context.Context, []byte) error { return away })))
	if err != nil {
		t.Fatal(err)
	}
	record(t, p, 3)
	_ = p.Shutdown(t.Context())
	if s := p.Stats(); s.Ended != 3 || s.Failed != 3 || s.Lost() != 3 || !errors.Is(s.LastError, away) {
		t.Errorf("stats %+v", s)
	}
}

func TestCollectorAway(t *testing.T) {
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithEndpoint("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	record(t, p, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_ = p.Shutdown(ctx)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Shutdown took %v, its context allows 100ms", took)
	}
	if s := p.Stats(); s.Lost() != 3 {
		t.Errorf("stats %+v", s)
	}
}

func TestSetupRefuses(t *testing.T) {
	if _, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithProtocol("http/json")); err == nil ||
		!strings.Contains(err.Error(), "http/json") {
		t.Errorf("protocol http/json: %v", err)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	if _, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal()); err == nil || !strings.Contains(err.Error(), "zipkin") {
		t.Errorf("exporter zipkin: %v", err)
	}
}

func TestDisabled(t *testing.T) {
	for k, v := range map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none"} {
		t.Run(k, func(t *testing.T) {
			t.Setenv(k, v)
			p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal())
			if err != nil {
				t.Fatal(err)
			}
			record(t, p, 2)
			if err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if s := p.Stats(); s != (otelsetup.Stats{}) {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

func TestGlobalProviderIsInstalled(t *testing.T) {
	before := otel.GetTracerProvider()
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(otelsetup.NewFuncExporter(
		func(context.Context, []byte) error { return nil })))
	if err != nil {
		t.Fatal(err)
	}
	defer otel.SetTracerProvider(before)
	if otel.GetTracerProvider() != any(p.TracerProvider()) {
		t.Error("Setup left the global provider alone")
	}
	_, run := otelagent.NewTracer().StartRun(t.Context(), otelagent.RunInfo{})
	run.End(otelagent.RunResult{})
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if s := p.Stats(); s.Exported != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestLargeBodiesStayWhole(t *testing.T) {
	t.Setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "10")
	t.Setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "2")
	var got sdktrace.ReadOnlySpan
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithExporter(keep(func(s sdktrace.ReadOnlySpan) { got = s })))
	if err != nil {
		t.Fatal(err)
	}
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()), otelagent.WithCapture(otelagent.CaptureContent))
	_, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", Metadata: []byte(strings.Repeat("m", 5000))})
	for range 10 {
		run.Note("n", nil, otelagent.Moment{})
	}
	run.End(otelagent.RunResult{})
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(got.Events()); n != 11 {
		t.Fatalf("%d events, want 11", n)
	}
	if n := len(got.Events()[10].Attributes[0].Value.AsStringSlice()[0]); n != 5000 {
		t.Errorf("the body was cut to %d bytes", n)
	}
}

// keep is an exporter that hands over each span.
type keep func(sdktrace.ReadOnlySpan)

func (k keep) ExportSpans(_ context.Context, l []sdktrace.ReadOnlySpan) error {
	for _, s := range l {
		k(s)
	}
	return nil
}
func (keep) Shutdown(context.Context) error { return nil }

func TestNamesThatAreNotUTF8(t *testing.T) {
	for name, o := range map[string]otelsetup.Option{"service": otelsetup.WithServiceName("a\xff"), "tenant": otelsetup.WithTenant("a\xff")} {
		if p, err := otelsetup.Setup(t.Context(), o, otelsetup.WithoutGlobal()); err == nil {
			_ = p.Shutdown(t.Context())
			t.Errorf("a %s that is not UTF-8 is taken: no batch could be sent", name)
		}
	}
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=a%ff")
	if p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal()); err == nil {
		_ = p.Shutdown(t.Context())
		t.Error("a resource attribute that is not UTF-8 is taken")
	}
}

// given is an exporter that says whether it was shut down.
type given struct{ down bool }

func (*given) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (g *given) Shutdown(context.Context) error                           { g.down = true; return nil }

func TestGivenExporterIsShutDownAlsoWhenUnused(t *testing.T) {
	t.Setenv("OTEL_SDK_DISABLED", "true")
	g := new(given)
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithExporter(g), otelsetup.WithoutGlobal())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Shutdown(t.Context()); err != nil || !g.down {
		t.Errorf("shut down: %t, %v", g.down, err)
	}
}
