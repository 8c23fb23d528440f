package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// repo is the root of the repository.
var repo = func() string {
	dir, err := filepath.Abs("../../..")
	if err != nil {
		panic(err)
	}
	return dir
}()

// manifest returns the builder manifest that users copy.
func manifest(t *testing.T) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(repo, "collector-exporter", "manifest.yaml")))(t)
	return string(text)
}

// step logs how long a part of the test took.
func step(t *testing.T, name string) func() {
	start := time.Now()
	return func() { t.Logf("%-34s %6.1fs", name, time.Since(start).Seconds()) }
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// ocb builds the Collector builder at the version that internal/tools/ocb pins.
var ocb = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ocb")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "ocb")
	cmd := exec.Command("go", "build", "-o", bin, "go.opentelemetry.io/collector/cmd/builder")
	cmd.Dir = filepath.Join(repo, "internal", "tools", "ocb")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ocb: %w\n%s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := ocb(); err == nil {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

func build(t *testing.T, dir, config string) {
	t.Helper()
	done := step(t, "the builder itself")
	bin := must.Get(ocb())(t)
	done()
	done = step(t, "generate, resolve and compile")
	run(t, dir, bin, "--config", config)
	done()
}

// TestManifestOfTheReadme builds the manifest that users copy and uses it: a stock collector with our exporter.
func TestManifestOfTheReadme(t *testing.T) {
	dir := t.TempDir()
	text := manifest(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "manifest.yaml"), []byte(text), 0o600))
	// The manifest expects a clone next to it.
	must.Do(t, os.Symlink(repo, filepath.Join(dir, "otelagent")))
	build(t, dir, "manifest.yaml")
	bin := filepath.Join(dir, "build", "otelcol-agent")
	if out := run(t, dir, bin, "components"); !strings.Contains(out, "name: agent_session") {
		t.Fatalf("the collector does not know agent_session:\n%s", out)
	}

	t.Run("acknowledged is stored", func(t *testing.T) { testAcknowledged(t, bin, false) })
	t.Run("acknowledged survives kill -9", func(t *testing.T) { testAcknowledged(t, bin, true) })
}

// distribution builds the whole distribution.
var distribution = sync.OnceValues(func() (string, error) {
	bin, err := ocb()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(repo, "collector-exporter", "distribution")
	cmd := exec.Command(bin, "--config", "builder.yaml")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the distribution: %w\n%s", err, out)
	}
	return filepath.Join(dir, "_build", "otelcol-agent"), nil
})

// TestDistribution lets the distribution check the configurations in its directory, and runs those of the examples.
func TestDistribution(t *testing.T) {
	done := step(t, "build the distribution")
	bin := must.Get(distribution())(t)
	done()
	dir := filepath.Join(repo, "collector-exporter", "distribution")
	run(t, dir, bin, "validate", "--config", "config.yaml")
	run(t, dir, bin, "validate", "--config", "config.container.yaml")
	run(
		t,
		dir,
		bin,
		"validate",
		"--config",
		"config.container.yaml",
		"--config",
		"../../compose/collector.yaml",
	) // as docker-compose.yaml does
	t.Run("pipelines", func(t *testing.T) { testPipelines(t, bin) })
	t.Run("examples", func(t *testing.T) { testExamples(t, bin) })
}

const configText = `
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "${env:OTLP_GRPC}"}
      http: {endpoint: "${env:OTLP_HTTP}"}
exporters:
  agent_session: {storage: "${env:OTELAGENT_DB}"}
  debug:
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [agent_session, debug]}
  telemetry:
    metrics: {level: none}
`

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// collector is a running one.
type collector struct {
	cmd        *exec.Cmd
	grpc, http string
	log        *lockedBuffer
	done       chan error
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// freePort returns a loopback address that was free a moment ago.
func freePort(t testing.TB) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// send posts the spans as OTLP; it returns after the collector has said that it has them.
func (c *collector) send(t *testing.T, td ptrace.Traces) {
	t.Helper()
	c.post(t, "", td)
}

func (c *collector) post(t *testing.T, packed string, td ptrace.Traces) {
	t.Helper()
	body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	must.Do(t, err)
	var b bytes.Buffer
	z := io.WriteCloser(struct {
		io.Writer
		io.Closer
	}{&b, io.NopCloser(nil)})
	switch packed {
	case "gzip":
		z = gzip.NewWriter(&b)
	case "zstd":
		if z, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = z.Write(body)
	_ = z.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.http+"/v1/traces", &b))(t)
	req.Header.Set("Content-Type", "application/x-protobuf")
	if packed != "" {
		req.Header.Set("Content-Encoding", packed)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("send: %v\n%s", err, c.log)
	}
	defer func() { _ = resp.Body.Close() }()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("send: %s: %s\n%s", resp.Status, answer, c.log)
	}
}

// stop ends the collector, with or without a chance to say goodbye.
func (c *collector) stop(t *testing.T, kill bool) {
	t.Helper()
	sig := os.Interrupt
	if kill {
		sig = os.Kill
	}
	must.Do(t, c.cmd.Process.Signal(sig))
	select {
	case err := <-c.done:
		if err != nil && !kill {
			t.Fatalf("the collector did not end well: %v\n%s", err, c.log)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("the collector does not end\n%s", c.log)
	}
}

var epoch = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// sessionSpans makes a run with two turns, and one span of somebody else.
func sessionSpans(id string) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "e2e")
	ss := rs.ScopeSpans().AppendEmpty()
	add := func(n byte, name string, from, to time.Duration) ptrace.Span {
		s := ss.Spans().AppendEmpty()
		s.SetName(name)
		trace := pcommon.TraceID{0: 1}
		copy(trace[1:], id)
		s.SetTraceID(trace)
		s.SetSpanID(pcommon.SpanID{7: n})
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(epoch.Add(from)))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(epoch.Add(to)))
		return s
	}
	own := func(n byte, name string, from, to time.Duration) pcommon.Map {
		a := add(n, name, from, to).Attributes()
		a.PutInt(string(spans.SchemaKey), spans.SchemaVersion)
		a.PutStr(string(spans.SessionIDKey), id)
		a.PutStr(string(spans.ConversationIDKey), id)
		a.PutStr(string(spans.RunIDKey), "run-1")
		a.PutInt(string(spans.RunStartKey), epoch.UnixNano())
		return a
	}
	own(1, spans.SpanRun, 0, 3*time.Second)
	own(2, spans.SpanTurn, 0, time.Second).PutInt(string(spans.TurnIndexKey), 0)
	own(3, spans.SpanTurn, time.Second, 3*time.Second).PutInt(string(spans.TurnIndexKey), 1)
	add(4, "GET /", 0, time.Second)
	return td
}

func testAcknowledged(t *testing.T, bin string, kill bool) {
	defer step(t, "start, send, stop, read")()
	db := filepath.Join(t.TempDir(), "sessions.db")
	c := startConfig(t, bin, []string{writeConfig(t, configText)}, "OTELAGENT_DB="+db)
	check := func(id string) {
		t.Helper()
		got, ok := readAll(t, db)[id]
		if !ok || len(got.tree.Runs) != 1 || len(got.tree.Runs[0].Turns) != 2 {
			t.Fatalf("session %s is %s, want one run and two turns\n%s", id, got.json, c.log)
		}
	}
	c.send(t, sessionSpans("one"))
	check("one") // no waiting: it was acknowledged
	c.send(t, sessionSpans("one"))
	check("one") // again is not twice
	c.send(t, sessionSpans("two"))
	c.stop(t, kill)
	check("one")
	check("two")
}
