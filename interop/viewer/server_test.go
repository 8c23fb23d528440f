package viewer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the otelagent that is looked at.
func binary(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("OTELAGENT")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin", "otelagent")
	}
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("%v: make build makes it", err)
	}
	return bin
}

// send reads files into a database.
func send(t *testing.T, db string, args ...string) {
	t.Helper()
	all := append([]string{"send", "--db", db, "--capture", "content"}, args...)
	out, err := exec.Command(binary(t), all...).CombinedOutput()
	if err != nil {
		t.Fatalf("send %v: %v\n%s", args, err, out)
	}
}

// lines writes events, one a line, into a file, and sends it.
func lines(t *testing.T, db string, events []map[string]any, flags ...string) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, e := range events {
		if err := enc.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "events.ndjson")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	send(t, db, append(flags, name)...)
}

var (
	viewerURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	grpcURL   = regexp.MustCompile(`gRPC on (\S+)`)
)

// start runs a verb of otelagent that listens, until it says something that matches want; it returns that.
func start(t *testing.T, want *regexp.Regexp, args ...string) (said string, process *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(binary(t), args...)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all strings.Builder
	ready := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		seen := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			mu.Lock()
			all.WriteString(lines.Text() + "\n")
			text := all.String()
			mu.Unlock()
			if !seen && want.MatchString(text) && strings.Contains(text, "Ctrl-C") {
				seen = true
				close(ready)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if err := cmd.Wait(); err != nil && t.Failed() {
			mu.Lock()
			t.Logf("otelagent %v: %v\n%s", args, err, &all)
			mu.Unlock()
		}
	})
	select {
	case <-ready:
	case <-ended:
		t.Fatalf("otelagent %v ended:\n%s", args, &all)
	case <-time.After(patience):
		mu.Lock()
		defer mu.Unlock()
		t.Fatalf("otelagent %v does not say %s:\n%s", args, want, &all)
	}
	mu.Lock()
	defer mu.Unlock()
	return all.String(), cmd
}

// serve shows a database and returns the address of the viewer.
func serve(t *testing.T, db string, args ...string) string {
	t.Helper()
	args = append([]string{"up", "--read-only", "--db", db, "--viewer", "127.0.0.1:0"}, args...)
	said, _ := start(t, viewerURL, args...)
	return viewerURL.FindString(said)
}

// free returns a loopback address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// collect runs a collector with a viewer, and returns the addresses of both.
func collect(t *testing.T, db string) (otlp, viewer string) {
	t.Helper()
	viewer = free(t)
	said, _ := start(t, grpcURL, "up", "--db", db, "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0",
		"--viewer", viewer)
	return "http://" + grpcURL.FindStringSubmatch(said)[1], "http://" + viewer
}

// story plays examples/debugging into a collector.
func story(t *testing.T, otlp string, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join("bin", "debugging"), args...)
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+otlp, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("debugging %v: %v\n%s", args, err, out)
	}
}

// agent is `otelagent send --live` with a pipe into it: an agent at work.
type agent struct {
	t    *testing.T
	in   io.WriteCloser
	cmd  *exec.Cmd
	logs bytes.Buffer
}

// heartbeats writes a file for --config: heartbeats each second.
func heartbeats(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "send.yaml")
	if err := os.WriteFile(path, []byte("heartbeat: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func work(t *testing.T, otlp string, args ...string) *agent {
	t.Helper()
	args = append([]string{"send", "--live", "--from", "otelagent", "--capture", "content", "--endpoint", otlp}, args...)
	a := &agent{t: t, cmd: exec.Command(binary(t), args...)}
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	a.cmd.Stderr = &a.logs
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.cmd.Process.Kill(); _ = a.cmd.Wait() })
	return a
}

// write sends events into the pipe.
func (a *agent) write(text string) {
	a.t.Helper()
	for _, e := range events(text) {
		b, err := json.Marshal(e)
		if err != nil {
			a.t.Fatal(err)
		}
		if _, err := fmt.Fprintf(a.in, "%s\n", b); err != nil {
			a.t.Fatalf("%v\n%s", err, &a.logs)
		}
	}
}

// end closes the pipe and waits until everything is delivered.
func (a *agent) end() {
	a.t.Helper()
	_ = a.in.Close()
	if err := a.cmd.Wait(); err != nil {
		a.t.Fatalf("send: %v\n%s", err, &a.logs)
	}
}
