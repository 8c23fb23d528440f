package e2e

import (
	"bytes"
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
	"syscall"
	"testing"
	"time"

	"github.com/otelagent/otelagent/internal/must"
)

// program is the built otelagent: $OTELAGENT, else bin/otelagent of the project.
func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv("OTELAGENT")
	if path == "" {
		path = filepath.Join(repository, "bin", "otelagent")
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("build it first (make bin/otelagent): %v", err)
	}
	return path
}

// run runs otelagent and returns what it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t), args...)
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("otelagent %s: %w\n%s", strings.Join(args, " "), err, tail(msg.String()))
	}
	return out.String(), nil
}

func tail(s string) string {
	const most = 2000
	return s[max(0, len(s)-most):]
}

// A collector is one real collector process. It is killed with the test.
type collector struct {
	t      *testing.T
	config string
	addr   string
	log    string

	mu  sync.Mutex
	cmd *exec.Cmd
}

// freeAddress returns a loopback address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// newCollector starts a collector that keeps sessions in dsn.
func newCollector(t *testing.T, dsn string) *collector {
	t.Helper()
	dir := t.TempDir()
	c := &collector{t: t, config: filepath.Join(dir, "collector.yaml"), addr: freeAddress(t),
		log: filepath.Join(dir, "log")}
	// The configuration that docs/scaling.md shows: no queue, no routing, retries by the sender.
	config := fmt.Sprintf(`receivers:
  otlp:
    protocols:
      http: {endpoint: %q, max_request_body_size: 67108864}
exporters:
  agent_session:
    storage: %q
    retry_on_failure: {initial_interval: 100ms, max_interval: 1s, max_elapsed_time: 5s}
service:
  telemetry:
    metrics: {level: none}
  pipelines:
    traces: {receivers: [otlp], exporters: [agent_session]}
`, c.addr, dsn)
	must.Do(t, os.WriteFile(c.config, []byte(config), 0o600))
	c.start()
	t.Cleanup(c.kill)
	return c
}

// start starts it, and returns once it listens.
func (c *collector) start() {
	c.t.Helper()
	out, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(program(c.t), "up", "--config", c.config)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.cmd = cmd
	c.mu.Unlock()
	for range 600 {
		if conn, err := net.Dial("tcp", c.addr); err == nil {
			_ = conn.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	log, _ := os.ReadFile(c.log)
	c.t.Fatalf("the collector does not listen:\n%s", tail(string(log)))
}

// end sends a signal and waits.
func (c *collector) end(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd != nil {
		_ = c.cmd.Process.Signal(s)
		_ = c.cmd.Wait()
		c.cmd = nil
	}
}

// kill ends it as a crash would.
func (c *collector) kill() { c.end(syscall.SIGKILL) }

// stop lets it finish what it does.
func (c *collector) stop() { c.end(syscall.SIGTERM) }

// post sends one OTLP request; nil means that the collector said that it has it.
func (c *collector) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.addr+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	// a partial success that says something
	if resp.StatusCode != http.StatusOK || len(answer) > 0 && answer[0] == 0x0a && len(answer) > 2 {
		return fmt.Errorf("HTTP %d: %q", resp.StatusCode, answer)
	}
	return nil
}
