package ring

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A process is a program that can be started again after it ended. It dies with us, however we die.
type process struct {
	name string
	args []string
	dir  string
	log  string // file that standard output and error are appended to

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
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

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return fmt.Errorf("%s runs already", p.name)
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, out, out
	// A group of its own: Ctrl-C is for us, and we stop the others in their order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	spawner() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(done)
	}()
	p.cmd, p.done = cmd, done
	return nil
}

// running reports whether it was started and has not ended.
func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// end sends a signal and waits; after a while it kills. A process that does not run is left alone.
func (p *process) end(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	select {
	case <-p.done: // its id may be somebody else's by now
	default:
		_ = p.cmd.Process.Signal(s)
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
	p.cmd = nil
}
