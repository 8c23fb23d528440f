//go:build linux

package compose

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/otelagent/otelagent/internal/must"
)

// The programs that run.sh has built or found. In CI each must be there; elsewhere what needs one that is not there is
// skipped.
const (
	otelcol      = "OTELCOL"     // the distribution, built by the Collector builder
	otelagentBin = "OTELAGENT"   // cmd/otelagent
	healthcheck  = "HEALTHCHECK" // collector-exporter/distribution/healthcheck
	jaeger       = "JAEGER"      // the real Jaeger, built by interop/backends
	prometheus   = "PROMETHEUS"  // Debian's
	promtool     = "PROMTOOL"
	clickhouse   = "CLICKHOUSE_SERVER" // Debian's
	wget         = "WGET"
	tempo        = "TEMPO" // by hand only: no registry has it (compose/README.md)
)

func program(t *testing.T, name string) string {
	t.Helper()
	if path := os.Getenv(name); path != "" {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s names no program; run this by run.sh", name)
	}
	t.Skipf("%s names no program; run.sh does", name)
	return ""
}

// rootOnly skips what only root can do; in CI, which is root, it fails.
func rootOnly(t *testing.T, what string) {
	t.Helper()
	switch {
	case os.Getuid() == 0:
	case os.Getenv("CI") != "":
		t.Fatalf("only root can %s", what)
	default:
		t.Skipf("only root can %s", what)
	}
}

// A process runs until the test ends.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // once done
	// lingers: this program may run for minutes after SIGTERM.
	lingers bool

	mu  sync.Mutex
	log bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// spawner is the thread that starts processes. They die with this thread, so it must not end.
var spawner = sync.OnceValue(func() chan func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// start starts a program with nothing in its environment but PATH and env, as the user or, when that is nil, as us. Its
// log is printed when the test fails.
func start(t *testing.T, name string, user *syscall.Credential, env []string, path string, args ...string) *process {
	t.Helper()
	return startIn(
		t,
		name,
		"",
		user,
		append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...),
		path,
		args...)
}

// startIn starts a program that sees a folder as all there is, unless that is empty, and env as all of its environment.
func startIn(
	t *testing.T,
	name, chroot string,
	user *syscall.Credential,
	env []string,
	path string,
	args ...string,
) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.Dir = "/"
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: user, Chroot: chroot}
	started := make(chan error)
	spawner() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("--- log of %s\n%s", name, last(p.output(), 8<<10))
		}
	})
	return p
}

// stop ends the process as compose does: SIGTERM, and SIGKILL when it takes too long.
func (p *process) stop(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
		return
	default:
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	bound := 30 * time.Second
	if p.lingers {
		bound = time.Second
	}
	select {
	case <-p.done:
	case <-time.After(bound):
		if !p.lingers {
			t.Errorf("%s does not end", p.name)
		}
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// run runs a program to its end and returns what it printed on standard output.
func run(t *testing.T, env []string, path string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(err, errors.New(last(stderr.String(), 4<<10)))
	}
	return string(out), err
}

func last(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}

// free returns n loopback addresses that were free a moment ago, all different.
func free(t *testing.T, n int) []string {
	t.Helper()
	addrs := make([]string, n)
	for i := range addrs {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		addrs[i] = l.Addr().String()
	}
	return addrs
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// get returns the body of a page, or an error when that is not 200 OK.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status + ": " + last(string(body), 500))
	}
	return string(body), err
}

// eventually asks until there is no error any more, for at most a minute.
func eventually(t *testing.T, what string, f func() error, ps ...*process) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := f()
		if err == nil {
			return
		}
		for _, p := range ps {
			select {
			case <-p.done:
				t.Fatalf("%s: %s has ended: %v\n%s", what, p.name, p.err, last(p.output(), 4<<10))
			default:
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// replace replaces each old by its new text in s, in order, and fails when one is not there: what is not in a file
// cannot be what a test changes in it.
func replace(t *testing.T, s string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(s, pairs[i]) {
			t.Fatalf("%q is not there", pairs[i])
		}
		s = strings.ReplaceAll(s, pairs[i], pairs[i+1])
	}
	return s
}
