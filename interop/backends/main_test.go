package backends

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// repository is the whole project.
const repository = "../.."

// otelagent is the built program.
func otelagent(t *testing.T) string {
	return built(t, "OTELAGENT", repository+"/bin/otelagent", "make bin/otelagent")
}

// distribution is the built collector.
func distribution(t *testing.T) string {
	return built(t, "OTELCOL", repository+"/collector-exporter/distribution/_build/otelcol-agent", "make ocb-build")
}

// built is the absolute path of a program that was built before the tests: that of the variable, else of the project.
func built(t *testing.T, variable, otherwise, how string) string {
	t.Helper()
	path, err := filepath.Abs(cmp.Or(os.Getenv(variable), otherwise))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("run %s first: %v", how, err)
	}
	return path
}

// run runs otelagent and returns what it prints.
func run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, otelagent(t), args...)
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	if err := cmd.Run(); err != nil {
		t.Fatalf("otelagent %s: %v\n%s", strings.Join(args, " "), err, tail(msg.Bytes()))
	}
	return out.String()
}

func tail(b []byte) string {
	const most = 4000
	return string(b[max(0, len(b)-most):])
}

// addresses returns n addresses of this machine that are free now.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	list := make([]string, n)
	for i := range list {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		list[i] = l.Addr().String()
	}
	return list
}

// serve starts a server and returns once url answers with 200. The server ends with the test; when that fails, its log
// is shown.
func serve(t *testing.T, url string, cmd *exec.Cmd) {
	t.Helper()
	start(t, cmd, func() bool {
		status, _, err := ask(t, http.MethodGet, url, nil)
		return err == nil && status == http.StatusOK
	})
}

// serveAt starts a server and returns once something listens at the address.
func serveAt(t *testing.T, cmd *exec.Cmd, address string) {
	t.Helper()
	start(t, cmd, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// start starts a program that ends with the test, and waits until it is up.
func start(t *testing.T, cmd *exec.Cmd, up func() bool) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			b, _ := os.ReadFile(log.Name())
			t.Logf("log of %s:\n%s", filepath.Base(cmd.Path), tail(b))
		}
	})
	begin := time.Now()
	for time.Since(begin) < 4*time.Minute {
		select {
		case <-ended:
			t.Fatalf("%s ended", filepath.Base(cmd.Path))
		default:
		}
		if up() {
			t.Logf("%s answers after %.1f s", filepath.Base(cmd.Path), time.Since(begin).Seconds())
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s does not answer", filepath.Base(cmd.Path))
}

// ask makes one request, with a body of JSON unless it is nil.
func ask(t *testing.T, method, url string, body any) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, sent)
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// read asks for url and reads the JSON that it answers into v.
func read(t *testing.T, method, url string, body, v any) error {
	status, answer, err := ask(t, method, url, body)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s: HTTP %d: %s", url, status, tail(answer))
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}

// eventually repeats f until it gives no error.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
