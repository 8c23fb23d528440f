package agents

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// binary is the otelagent under test.
func binary(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(cmp.Or(os.Getenv("OTELAGENT"), "../../bin/otelagent"))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: run make build first", err)
	}
	return path
}

// otelagent runs a verb and returns its output.
func otelagent(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t), args...)
	cmd.Env = append(os.Environ(), env...)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		t.Fatalf("otelagent %s: %v\n%s", strings.Join(args, " "), err, &messages)
	}
	return out.Bytes()
}

// httpURL is what `otelagent up` says about its receiver.
var httpURL = regexp.MustCompile(`OTLP over HTTP on (http://\S+)`)

// up runs a collector with a database until the test ends, and returns the address of its OTLP receiver.
func up(t *testing.T, db string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, binary(t), "up", "--db", db, "--otlp-grpc", "127.0.0.1:0",
		"--otlp-http", "127.0.0.1:0", "--viewer", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		fmt.Fprintln(&log, lines.Text())
		if strings.Contains(lines.Text(), "ready") {
			break
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() {
			fmt.Fprintln(&log, lines.Text())
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("otelagent up:\n%s", &log)
		}
	})
	address := httpURL.FindSubmatch(log.Bytes())
	if address == nil {
		t.Fatalf("otelagent up is not ready:\n%s", &log)
	}
	return string(address[1])
}

// tap passes OTLP on to a collector and keeps each request as a file of the folder, so that a failed test has a
// recording. It returns its address.
func tap(t *testing.T, folder, collector string) string {
	t.Helper()
	target, err := url.Parse(collector)
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	server := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		body, _ := io.ReadAll(r.In.Body)
		extension := "pb"
		if json.Valid(body) {
			extension = "json"
		}
		name := fmt.Sprintf("%03d-%s.%s", n.Add(1), filepath.Base(r.In.URL.Path), extension)
		_ = os.WriteFile(filepath.Join(folder, name), body, 0o644)
		r.SetURL(target)
		r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}})
	t.Cleanup(server.Close)
	return server.URL
}
