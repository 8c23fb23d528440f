//go:build linux

package soak

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/otelagent/otelagent/internal/must"
)

// addresses are where a collector listens. They stay when it is started again.
type addresses struct{ grpc, http, health, metrics string }

func freeAddresses(t *testing.T) addresses {
	t.Helper()
	var a addresses
	for _, p := range []*string{&a.grpc, &a.http, &a.health, &a.metrics} {
		l := freePort(t)
		*p = l.Addr().String()
		defer l.Close()
	}
	return a
}

// freePort listens on a port that the system gives to nobody who does not ask for it: a collector that was killed finds
// it free again, where of those that it gives away somebody's connection may have it by then. No port is given out
// twice.
func freePort(t *testing.T) net.Listener {
	t.Helper()
	var err error
	for range 1000 {
		port := 12000 + rand.IntN(20000)
		if _, given := givenPorts.LoadOrStore(port, true); given {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			return l
		}
	}
	t.Fatal(err)
	return nil
}

var givenPorts sync.Map

// process is a running otelagent.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	args []string
	done chan struct{}
	err  error // of Wait, once done

	mu   sync.Mutex
	said bytes.Buffer // standard error
	news chan struct{}
}

// launch is how to start one: what is added to its environment, and as whom it runs.
type launch struct {
	env   []string
	as    *syscall.Credential
	dir   string
	stdin *os.File
}

// run starts otelagent with arguments. It is killed at the end of the test, if it still runs then.
func (l launch) run(t *testing.T, args ...string) *process {
	t.Helper()
	return l.start(t, exec.Command(bin, args...), args...)
}

func (l launch) start(t *testing.T, cmd *exec.Cmd, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, args: args, done: make(chan struct{}), news: make(chan struct{}, 1)}
	cmd.Env = append(os.Environ(), l.env...)
	cmd.Dir = l.dir
	if l.stdin != nil {
		cmd.Stdin = l.stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: l.as}
	errs := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	go func() {
		for s := bufio.NewScanner(errs); s.Scan(); {
			p.mu.Lock()
			if p.said.Len() < 1<<20 { // of what it says for hours, the beginning
				p.said.WriteString(s.Text() + "\n")
			}
			p.mu.Unlock()
			select {
			case p.news <- struct{}{}:
			default:
			}
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

// log returns what the process wrote to standard error.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// await waits until the process has said text.
func (p *process) await(text string) {
	p.t.Helper()
	timeout := time.After(60 * time.Second)
	for !strings.Contains(p.log(), text) {
		select {
		case <-p.news:
		case <-p.done:
			if !strings.Contains(p.log(), text) {
				p.t.Fatalf("otelagent %s ended (%v) without saying %q:\n%s", strings.Join(p.args, " "), p.err, text, p.log())
			}
		case <-timeout:
			p.t.Fatalf("otelagent %s does not say %q:\n%s", strings.Join(p.args, " "), text, p.log())
		}
	}
}

// ready waits until a collector listens, or has ended instead.
func (p *process) ready() bool {
	p.t.Helper()
	for !strings.Contains(p.log(), "otelagent: ready") {
		select {
		case <-p.news:
		case <-p.done:
			return false
		case <-time.After(60 * time.Second):
			p.t.Fatalf("the collector neither starts nor ends:\n%s", p.log())
		}
	}
	return true
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// stop ends the process as Ctrl-C does. It must end by itself, and well.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatalf("otelagent %s ended by itself: %v\n%s", strings.Join(p.args, " "), err, p.log())
	}
	select {
	case <-p.done:
	case <-time.After(60 * time.Second):
		p.t.Fatalf("otelagent %s does not stop:\n%s", strings.Join(p.args, " "), p.log())
	}
	if p.err != nil {
		p.t.Errorf("otelagent %s: %v\n%s", strings.Join(p.args, " "), p.err, p.log())
	}
}

// alive fails the test if the process ended by itself.
func (p *process) alive() {
	p.t.Helper()
	select {
	case <-p.done:
		p.t.Fatalf("otelagent %s ended by itself: %v\n%s", strings.Join(p.args, " "), p.err, p.log())
	default:
	}
}

// exit waits until the process ends and returns its exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(60 * time.Second):
		p.t.Fatalf("otelagent %s does not end:\n%s", strings.Join(p.args, " "), p.log())
	}
	return p.cmd.ProcessState.ExitCode()
}

// memory returns the resident memory now and at its peak, in MiB.
func (p *process) memory() (now, peak int) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.Atoi(f[1])
		switch f[0] {
		case "VmRSS:":
			now = n >> 10
		case "VmHWM:":
			peak = n >> 10
		}
	}
	if peak == 0 {
		p.t.Fatal("the kernel does not report the peak of memory")
	}
	return now, peak
}

// collector says how to start a collector: the built-in one, or that of a configuration.
type collector struct {
	t      *testing.T
	addr   addresses
	db     string
	config string   // a file as the documents show it; empty: the built-in configuration
	edits  []string // of the configuration, old and new in turn, for what cannot be measured as it is shown
	flags  []string
	launch launch
}

// up starts the collector and waits until it listens.
func (c *collector) up() *process {
	c.t.Helper()
	p := c.run()
	p.await("otelagent: ready")
	return p
}

func (c *collector) run() *process {
	c.t.Helper()
	l := c.launch
	if c.config == "" {
		return l.run(c.t, append([]string{"up", "--db", c.db, "--otlp-grpc", c.addr.grpc, "--otlp-http", c.addr.http},
			c.flags...)...)
	}
	l.env = append(l.env, "OTELAGENT_DB="+c.db, "OTELAGENT_QUEUE="+c.queue())
	return l.run(c.t, append([]string{"up", "--config", c.placed()}, c.flags...)...)
}

// queue is the folder of a persistent queue.
func (c *collector) queue() string { return filepath.Join(filepath.Dir(c.db), "queue") }

// metricsPage matches the exporter and the pipeline of metrics that the configuration of the distribution has and
// this binary cannot run.
var metricsPage = regexp.MustCompile(
	`(?m)^  prometheus:\n(    .*\n)+|^    metrics:\n(      .*\n)*      exporters: \[prometheus\]\n`,
)

// placed writes the configuration with the addresses of this collector in place of those it has, and nothing else
// changed but edits and the metrics page.
func (c *collector) placed() string {
	c.t.Helper()
	text, err := os.ReadFile(c.config)
	if err != nil {
		c.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(c.addr.metrics)
	for i := 0; i < len(c.edits); i += 2 {
		if !strings.Contains(string(text), c.edits[i]) {
			c.t.Fatalf("%s does not say %q", c.config, c.edits[i])
		}
	}
	out := strings.NewReplacer(append(c.edits, "127.0.0.1:4317", c.addr.grpc, "127.0.0.1:4318", c.addr.http,
		"127.0.0.1:13133", c.addr.health,
		"port: 8888", "port: "+port)...).Replace(metricsPage.ReplaceAllString(string(text), ""))
	path := filepath.Join(c.t.TempDir(), filepath.Base(c.config))
	if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func newCollector(t *testing.T, config string, flags ...string) *collector {
	t.Helper()
	return &collector{t: t, addr: freeAddresses(t), db: filepath.Join(t.TempDir(), "sessions.db"), config: config,
		flags: flags}
}
