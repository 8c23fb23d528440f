package otelsetup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
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

// handledErrors returns the errors that the error handler is called with from now on until the test ends.
func handledErrors(t *testing.T) func() []string {
	var mu sync.Mutex
	var handled []string
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		handled = append(handled, err.Error())
	}))
	t.Cleanup(silence)
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(handled)
	}
}

// receiver is a collector that keeps the requests that it accepts.
type receiver struct {
	coltracepb.UnimplementedTraceServiceServer
	// answer decides about a request; nil accepts it.
	answer func(*coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTracePartialSuccess, error)

	mu       sync.Mutex
	requests []*coltracepb.ExportTraceServiceRequest
	paths    []string
}

func (r *receiver) Export(
	_ context.Context, req *coltracepb.ExportTraceServiceRequest,
) (resp *coltracepb.ExportTraceServiceResponse, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	resp = &coltracepb.ExportTraceServiceResponse{}
	if r.answer != nil {
		resp.PartialSuccess, err = r.answer(req)
	}
	if err == nil {
		r.requests = append(r.requests, req)
	}
	return resp, err
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(hr.Body)
	req := &coltracepb.ExportTraceServiceRequest{}
	if err = errors.Join(err, proto.Unmarshal(body, req)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.paths = append(r.paths, hr.URL.Path)
	r.mu.Unlock()
	resp, _ := r.Export(hr.Context(), req)
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

func spansOf(req *coltracepb.ExportTraceServiceRequest) (list []*tracepb.Span) {
	for _, rs := range req.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			list = append(list, ss.Spans...)
		}
	}
	return list
}

func bodiesOf(req *coltracepb.ExportTraceServiceRequest) (list []string) {
	for _, s := range spansOf(req) {
		for _, e := range s.Events {
			for _, kv := range e.Attributes {
				for _, v := range kv.Value.GetArrayValue().GetValues() {
					list = append(list, v.GetStringValue())
				}
			}
		}
	}
	return list
}

func startGRPC(t *testing.T) (*receiver, string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
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
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider())))
	for i := range runs {
		_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: fmt.Sprint(i)})
		run.End(writer.RunResult{})
	}
}

// recordBodies makes n spans with a body of size bytes each, in an event.
func recordBodies(p *otelsetup.Providers, n, size int) {
	for i := range n {
		end(p.TracerProvider(), "s", []string{body(i, size)})
	}
}

// Options and the environment say where spans go. Large spans arrive too, although stock receivers over gRPC refuse
// requests over 4 MiB.
func TestSetupSends(t *testing.T) {
	to := otelsetup.WithEndpoint
	for _, tt := range []struct {
		name  string
		start func(*testing.T) (*receiver, string)
		opts  func(addr string) []otelsetup.Option
		env   string // of OTEL_EXPORTER_OTLP_, between blanks; ADDR is the endpoint
		path  string
	}{
		{name: "grpc by host and port", start: startGRPC, opts: func(addr string) []otelsetup.Option {
			return []otelsetup.Option{to(addr), otelsetup.WithTenant("acme"), nil}
		}},
		{name: "grpc by environment", start: startGRPC, env: "ENDPOINT=http://ADDR"},
		{name: "http by URL", start: startHTTP, path: "/v1/traces", opts: func(url string) []otelsetup.Option {
			return []otelsetup.Option{otelsetup.WithProtocol(otelsetup.HTTP), to(url), otelsetup.WithTenant("acme")}
		}},
		{name: "http by URL with a path", start: startHTTP, path: "/otlp/x", opts: func(url string) []otelsetup.Option {
			return []otelsetup.Option{otelsetup.WithProtocol(otelsetup.HTTP), to(url + "/otlp/x"), otelsetup.WithTenant("acme")}
		}},
		{name: "http by environment", start: startHTTP, path: "/v1/traces", env: "ENDPOINT=ADDR PROTOCOL=http/protobuf"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, addr := tt.start(t)
			opts := []otelsetup.Option{otelsetup.WithBlocking()}
			if tt.opts != nil {
				opts = append(opts, tt.opts(addr)...)
			} else {
				t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "otelagent.tenant=acme")
			}
			for variable := range strings.FieldsSeq(tt.env) {
				key, value, _ := strings.Cut(variable, "=")
				t.Setenv("OTEL_EXPORTER_OTLP_"+key, strings.ReplaceAll(value, "ADDR", addr))
			}
			p := setup(t, opts...)
			const runs, large = 500, 3
			record(t, p, runs)
			recordBodies(p, large, 3_600_000)
			for range 2 { // the second time it does nothing
				must.Do(t, p.Shutdown(t.Context()))
			}
			n := 0
			for _, req := range r.requests {
				list := spansOf(req)
				n += len(list)
				attributes := fmt.Sprint(req.ResourceSpans[0].Resource.Attributes)
				if len(list) > 64 || !strings.Contains(attributes, "otelagent.tenant") || !strings.Contains(attributes, "acme") {
					t.Errorf("a request with %d spans of %s", len(list), attributes)
				}
			}
			if n != runs+large {
				t.Errorf("%d spans arrived", n)
			}
			if len(r.paths) > 0 && r.paths[0] != tt.path {
				t.Errorf("sent to %s, want %s", r.paths[0], tt.path)
			}
			if s := p.Stats(); s != (otelsetup.Stats{Ended: runs + large, Exported: runs + large}) || s.Lost() != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

func TestSetupErrors(t *testing.T) {
	for _, tt := range []struct {
		key, value string
		opt        otelsetup.Option
		says       string
	}{
		{opt: otelsetup.WithProtocol("http/json"), says: `protocol "http/json" of traces`},
		{opt: otelsetup.WithEndpoint("http://[::1:4317"), says: `endpoint "http://[::1:4317"`},
		{opt: otelsetup.WithEndpoint("a host:4317"), says: `endpoint "http://a host:4317"`},
		{opt: otelsetup.WithEndpoint("unix:///run/otel.sock"), says: "want http://HOST:PORT"},
		{key: "OTEL_TRACES_EXPORTER", value: "zipkin", says: "zipkin"},
		{opt: otelsetup.WithServiceName("a\xff"), says: "service.name is not UTF-8"}, // no batch could be sent
		{opt: otelsetup.WithTenant("a\xff"), says: "otelagent.tenant is not UTF-8"},
		{key: "OTEL_RESOURCE_ATTRIBUTES", value: "team=a%ff", says: "team is not UTF-8"},
	} {
		t.Run(tt.says, func(t *testing.T) {
			if tt.key != "" {
				t.Setenv(tt.key, tt.value)
			}
			_, err := otelsetup.Setup(t.Context(), tt.opt, otelsetup.WithoutGlobal())
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %s", err, tt.says)
			}
		})
	}
}

// A queue without a bound in spans is possible, bounded by its bytes.
func TestLongQueue(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", fmt.Sprint(math.MaxInt))
	for _, n := range []int{0, math.MaxInt} {
		p := must.Get(otelsetup.Setup(t.Context(), otelsetup.WithMaxQueue(n, 0), otelsetup.WithoutGlobal(),
			otelsetup.WithExporter(otelsetup.NewFuncExporter(func(context.Context, []byte) error { return nil }))))(t)
		record(t, p, 1)
		if err := p.Shutdown(t.Context()); err != nil || p.Stats().Lost() != 0 {
			t.Errorf("%v, %+v", err, p.Stats())
		}
	}
}

// The environment switches everything off. An exporter that was given is shut down nevertheless.
func TestDisabled(t *testing.T) {
	for k, v := range map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none"} {
		t.Run(k, func(t *testing.T) {
			t.Setenv(k, v)
			p := setup(t)
			record(t, p, 2)
			if err := p.Shutdown(t.Context()); err != nil || p.Stats() != (otelsetup.Stats{}) {
				t.Errorf("%v, stats %+v", err, p.Stats())
			}
			w := newWatched()
			if err := setup(t, otelsetup.WithExporter(w)).Shutdown(t.Context()); err != nil || !w.down {
				t.Errorf("%v, shut down: %t", err, w.down)
			}
		})
	}
}

// A Shutdown without any time releases everything too: the batcher, the senders of copies and metrics, connections.
func TestShutdownWithoutTime(t *testing.T) {
	before := goleak.IgnoreCurrent()
	p := must.Get(otelsetup.Setup(t.Context(), otelsetup.WithEndpoint("http://127.0.0.1:1"),
		otelsetup.WithProtocol(otelsetup.GRPC), otelsetup.WithoutGlobal(), otelsetup.WithLive(0)))(t)
	_, span := p.TracerProvider().Tracer("t").Start(t.Context(), "s")
	span.End()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Shutdown(over); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Errorf("a second Shutdown: %v", err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// Content is never cut, whatever the environment says of the limits of spans.
func TestLargeBodiesStayWhole(t *testing.T) {
	t.Setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "10")
	t.Setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "2")
	w := newWatched()
	p := setup(t, otelsetup.WithExporter(w))
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()),
		otelagent.WithCapture(otelagent.CaptureContent)))
	_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", Metadata: []byte(strings.Repeat("m", 5000))})
	for range 10 {
		writer.Note(run, "n", nil, writer.Moment{})
	}
	run.End(writer.RunResult{})
	must.Do(t, p.Shutdown(t.Context()))
	events := w.spans[0].Events()
	if n := len(events); n != 11 {
		t.Fatalf("%d events, want 11", n)
	}
	for _, kv := range events[10].Attributes {
		if kv.Key == spans.BlockBodiesKey {
			if n := len(kv.Value.AsStringSlice()[0]); n != 5000 {
				t.Errorf("the body was cut to %d bytes", n)
			}
			return
		}
	}
	t.Error("the event has no bodies")
}
