package backends

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/backends"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/writer"
	adapter "github.com/otelagent/otelagent/otelagent"
)

// record plays a recording with content, or the Go loop when there is no file.
func record(t *testing.T, p *agenttest.Pipeline, file string) {
	t.Helper()
	if file == "" {
		backends.Play(t.Context(), (*writer.Tracer)(p.Tracer()))
		return
	}
	text, err := os.ReadFile(filepath.Join(repository, "dialects", file))
	if err != nil {
		t.Fatal(err)
	}
	d, _, whole, err := dialects.Open(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range d.New().Events(whole) {
		var bad *input.LineError
		if err == nil {
			rec.Record(t.Context(), ev)
		} else if !errors.As(err, &bad) {
			t.Fatal(err)
		}
	}
	rec.Close(t.Context())
}

// captured are the options of every sender.
var captured = []adapter.Option{writer.WithDerivedIDs, adapter.WithCapture(adapter.CaptureContent)}

// send posts the spans of a pipeline over OTLP and returns them by trace.
func send(t *testing.T, p *agenttest.Pipeline, endpoint string) map[pcommon.TraceID]ptrace.Traces {
	t.Helper()
	traces := map[pcommon.TraceID]ptrace.Traces{}
	for _, otlp := range p.OTLP() {
		resp, err := http.Post(endpoint+"/v1/traces", "application/x-protobuf", bytes.NewReader(otlp))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(otlp)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("the spans were not delivered: %s, %v", resp.Status, err)
		}
		for _, one := range single(td) {
			trace := only(one).TraceID()
			if _, ok := traces[trace]; !ok {
				traces[trace] = ptrace.NewTraces()
			}
			one.ResourceSpans().MoveAndAppendTo(traces[trace].ResourceSpans())
		}
	}
	if len(traces) == 0 {
		t.Fatal("nothing was sent")
	}
	return traces
}

// single are the spans of traces by id, each with its resource and scope.
func single(td ptrace.Traces) map[pcommon.SpanID]ptrace.Traces {
	out := map[pcommon.SpanID]ptrace.Traces{}
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				one := ptrace.NewTraces()
				to := one.ResourceSpans().AppendEmpty()
				rs.Resource().CopyTo(to.Resource())
				scope := to.ScopeSpans().AppendEmpty()
				ss.Scope().CopyTo(scope.Scope())
				span.CopyTo(scope.Spans().AppendEmpty())
				out[span.SpanID()] = one
			}
		}
	}
	return out
}

// only is the span of traces that hold one.
func only(td ptrace.Traces) ptrace.Span {
	return td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
}

// spansOf are the spans of traces.
func spansOf(traces map[pcommon.TraceID]ptrace.Traces) (list []ptrace.Span) {
	for _, td := range traces {
		for _, one := range single(td) {
			list = append(list, only(one))
		}
	}
	return list
}

// collector starts otelagent as a collector that keeps sessions in a database and passes the same spans on to
// exporters, without queues. It returns its address for OTLP over HTTP, and the database.
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
