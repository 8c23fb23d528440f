package backends

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/otelagent/otelagent/agenttest/backends"
	"github.com/otelagent/otelagent/internal/writer"
	adapter "github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// sink takes spans over OTLP, to tell what was sent.
type sink struct {
	addr string

	mu     sync.Mutex
	traces map[pcommon.TraceID]ptrace.Traces
	failed error
}

func newSink(t *testing.T) *sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{addr: l.Addr().String(), traces: map[pcommon.TraceID]ptrace.Traces{}}
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	req := ptraceotlp.NewExportRequest()
	if err == nil {
		err = req.UnmarshalProto(body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed = err
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, one := range spansOf(req.Traces()) {
		td, ok := s.traces[one.span.TraceID()]
		if !ok {
			td = ptrace.NewTraces()
			s.traces[one.span.TraceID()] = td
		}
		rs := td.ResourceSpans().AppendEmpty()
		one.resource.CopyTo(rs.Resource())
		ss := rs.ScopeSpans().AppendEmpty()
		one.scope.CopyTo(ss.Scope())
		one.span.CopyTo(ss.Spans().AppendEmpty())
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// sent returns the traces that arrived.
func (s *sink) sent(t *testing.T) map[pcommon.TraceID]ptrace.Traces {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		t.Fatal(s.failed)
	}
	if len(s.traces) == 0 {
		t.Fatal("nothing was sent")
	}
	return s.traces
}

// placed is a span and where it stands.
type placed struct {
	resource pcommon.Resource
	scope    pcommon.InstrumentationScope
	span     ptrace.Span
}

func spansOf(td ptrace.Traces) []placed {
	var list []placed
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				list = append(list, placed{rs.Resource(), ss.Scope(), span})
			}
		}
	}
	return list
}

// collector starts otelagent as a collector that keeps sessions in a database and passes the same spans on to exporters, by their names
// in a configuration: without queues, so that what was taken is where it belongs. It returns its address for OTLP over HTTP, and the database.
func collector(t *testing.T, exporters map[string]string) (endpoint, db string) {
	t.Helper()
	dir, free := t.TempDir(), addresses(t, 2)
	db = filepath.Join(dir, "sessions.db")
	config, names := "", ""
	for _, name := range slices.Sorted(maps.Keys(exporters)) {
		config += fmt.Sprintf("  %s: %s\n", name, exporters[name])
		names += ", " + name
	}
	config = fmt.Sprintf(`receivers:
  otlp:
    protocols:
      http: {endpoint: %q, max_request_body_size: 10485760}
extensions:
  health_check: {endpoint: %q}
exporters:
  agent_session: {storage: %q}
%sservice:
  extensions: [health_check]
  telemetry:
    metrics: {level: none}
    logs: {level: warn}
  pipelines:
    traces: {receivers: [otlp], exporters: [agent_session%s]}
`, free[0], free[1], db, config, names)
	file := filepath.Join(dir, "collector.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	serve(t, "http://"+free[1], exec.Command(otelagent(t), "up", "--config", file))
	return "http://" + free[0], db
}

// sendLoop plays the Go loop and sends its spans.
func sendLoop(t *testing.T, endpoint string, opts ...otelsetup.Option) {
	t.Helper()
	providers, err := otelsetup.Setup(t.Context(), append(opts, otelsetup.WithProtocol(otelsetup.HTTP), otelsetup.WithEndpoint(endpoint),
		otelsetup.WithServiceName("loop"), otelsetup.WithBlocking(), otelsetup.WithoutGlobal())...)
	if err != nil {
		t.Fatal(err)
	}
	backends.Play(t.Context(), (*writer.Tracer)(adapter.NewTracer(adapter.WithTracerProvider(providers.TracerProvider()),
		writer.WithDerivedIDs, adapter.WithCapture(adapter.CaptureContent))))
	if err := providers.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := providers.Stats(); s.Failed > 0 || s.Exported == 0 {
		t.Fatalf("the spans were not delivered: %+v", s)
	}
}
