package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/otelagent/otelagent/internal/must"
)

// home is interop/clickhouse, repository the whole project.
const (
	home       = ".."
	repository = "../../.."
)

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cmd != nil {
		shared.kill()
		if code == 0 {
			_ = os.RemoveAll(shared.dir)
		} else {
			println("logs are in", shared.dir)
		}
	}
	os.Exit(code)
}

// engine is libchdb behind the program in ../chdb, on a loopback port and in a folder of its own.
type engine struct {
	dir, addr string
	cmd       *exec.Cmd
}

var (
	shared  engine
	sharing sync.Mutex
)

// start returns the engine, which the tests share one after the other: each takes databases of its own and keeps it
// running.
func start(t *testing.T) *engine {
	t.Helper()
	sharing.Lock()
	defer sharing.Unlock()
	if shared.cmd == nil {
		var err error
		if shared.dir, err = os.MkdirTemp("", "clickhouse-chdb-"); err != nil {
			t.Fatal(err)
		}
		// Below the ports that the system gives out by itself, so that it stays free while the engine is down.
		shared.addr = fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		shared.start(t)
	}
	return &shared
}

// start starts the process and returns once it answers.
func (e *engine) start(t *testing.T) {
	t.Helper()
	log := must.Get(os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	defer log.Close()
	program := must.Get(filepath.Abs(filepath.Join(home, "bin", "chdb")))(t)
	e.cmd = exec.Command(program, "-listen", e.addr, "-library",
		filepath.Join(filepath.Dir(program), "..", "node_modules", "@chdb", "lib-linux-x64-gnu", "libchdb.so"),
		filepath.Join(e.dir, "data"))
	e.cmd.Stdout, e.cmd.Stderr = log, log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	must.Do(t, e.cmd.Start())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		answer, err := http.Post("http://"+e.addr+"/?query=SELECT+1", "text/plain", nil)
		if err == nil {
			_ = answer.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the engine does not answer: %v; logs are in %s", err, e.dir)
		}
	}
}

// kill ends the process as a crash would.
func (e *engine) kill() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
}

// database is the DSN of a database of that name.
func database(e *engine, name string) string { return "clickhouse://" + e.addr + "/" + name }
