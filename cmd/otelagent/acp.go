package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/dialects/acp"
)

const (
	// acpFlushTime bounds how long the end waits for the receiver: an editor waits for the end of its agent.
	acpFlushTime = 3 * time.Second
	// acpIdleTime is how long after the agent's end something is waited for that a child of it may still write,
	// acpRestTime how long in all.
	acpIdleTime = 200 * time.Millisecond
	acpRestTime = 5 * time.Second
	// acpRestBytes is more than what an agent can leave behind in its pipe.
	acpRestBytes = 1 << 20
)

// Exit codes for an agent that cannot be started, as shells have them.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

func (a *app) acpCommand() *cobra.Command {
	o := sendOptions{From: acp.Dialect}
	var verbose bool
	c := &cobra.Command{
		Use:   "acp [flags] -- AGENT [ARG...]",
		Short: "Trace an agent of the Agent Client Protocol",
		Long: `Start an agent of the Agent Client Protocol and trace the messages between it
and the editor. In the editor's settings it stands before the agent's command.

Every byte passes through unchanged and at once, in both directions. Neither
side waits for tracing: bytes that come faster than a missing or slow receiver
takes them are not traced, and the session counts them. Prompts become runs; a
traceparent in the _meta of a prompt is honored (dialects/README.md). The flags
are those of 'otelagent send'.

Standard output has the agent's output and nothing else. Standard error is the
agent's; the command adds errors, and with --verbose a summary.

The exit code is the agent's, 128 and the number of the signal that ended it,
127 if it is not found, 126 if it cannot be started; 2 is wrong usage. The
command passes signals on to the agent.`,
		Example: `  otelagent acp -- my-agent --stdio
  otelagent acp --db ./sessions.db --capture content -- my-agent
  otelagent acp --endpoint http://127.0.0.1:4317 --agent coder -- npx my-agent`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("acp wants the command of an agent: otelagent acp -- AGENT [ARG...]")
			}
			return nil
		},
		Annotations: refuses("output"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.Tenant = a.tenant
			if o.DB, err = a.oneDatabase(); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			return a.acp(cmd.Context(), &o, args, verbose)
		},
	}
	c.Flags().SetInterspersed(false) // the flags after the agent's name are the agent's
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "log at the end how much was traced")
	o.addFlags(c.Flags())
	return c
}

// acp runs the agent and passes bytes between it and the editor. Its error carries the agent's exit code.
func (a *app) acp(ctx context.Context, o *sendOptions, command []string, verbose bool) error {
	inR, inW, err := os.Pipe()
	if err != nil {
		return err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, inR.Close(), inW.Close())
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, a.stderr
	signals := make(chan os.Signal, 16)
	// The parent process may have had signals ignored, as nohup does: they stay so, for the agent too.
	signal.Notify(signals, slices.DeleteFunc(slices.Clone(passedOn), signal.Ignored)...)
	defer signal.Stop(signals)
	err = cmd.Start()
	_, _ = inR.Close(), outW.Close()
	if err != nil {
		_, _ = inW.Close(), outR.Close()
		code := exitCannotRun
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			code = exitNotFound
		}
		return &exitError{Code: code, Err: err}
	}

	tr := &wireTap{arrived: make(chan struct{}, 1), done: make(chan struct{})}
	go tr.trace(ctx, a, o)
	go func() { // from the editor
		_ = passOn(inW, a.stdin, func(b []byte) { tr.take(acp.ToAgent, b) })
		_ = inW.Close()
		if f, ok := a.stdin.(*os.File); ok {
			_ = f.Close() // the agent reads no more; the editor is to know
		}
	}()
	ended, stop := make(chan struct{}), make(chan struct{}) // stop: closed when the command is to end
	go func() {
		stopOnce := sync.OnceFunc(func() { close(stop) })
		for {
			select {
			case s := <-signals:
				if forwards(s) {
					_ = cmd.Process.Signal(s)
				}
				if ends(s) {
					stopOnce()
				}
			case <-ended:
				return
			}
		}
	}()
	var exited atomic.Bool
	out := make(chan struct{})
	go func() { // from the agent
		defer close(out)
		_ = passOn(a.stdout, &lastWords{f: outR, exited: &exited, rest: acpRestTime},
			func(b []byte) { tr.take(acp.ToClient, b) })
		_ = outR.Close()
	}()
	waitErr := cmd.Wait()
	exited.Store(true)
	_ = outR.SetReadDeadline(time.Now().Add(acpIdleTime))
	select {
	case <-out:
	case <-stop: // the editor may not read any more, and wait for this process to end
		select {
		case <-out:
		case <-time.After(acpRestTime):
		}
	}
	close(ended)
	signal.Stop(signals) // from now on Ctrl-C ends this process
	if f, ok := a.stdout.(*os.File); ok {
		_ = f.Close() // the editor need not wait for what we have still to send
	}
	tr.end(a, verbose)

	var exit *exec.ExitError
	switch {
	case errors.As(waitErr, &exit):
		return &exitError{Code: codeOf(exit.ProcessState)}
	case waitErr != nil:
		return waitErr
	}
	return nil
}

// passOn copies from r to w as it comes, until one of them ends, and shows every piece to tap before it is written: so
// that nothing is seen before what it answers.
func passOn(w io.Writer, r io.Reader, tap func([]byte)) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			tap(buf[:n])
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// lastWords reads the output of an agent. When that has ended, children of it may still hold its output open: it is
// read until nothing comes for a while, or they do not stop. What the agent left behind is read whole, however long the
// editor takes for it.
type lastWords struct {
	f      *os.File
	exited *atomic.Bool
	rest   time.Duration // how long children are heard

	// Since the end was noticed:
	until  time.Time
	waited time.Duration // for something to come
	bytes  int
}

func (l *lastWords) Read(p []byte) (int, error) {
	for {
		exited := l.exited.Load()
		start := time.Now()
		if exited {
			if l.until.IsZero() {
				l.until = start.Add(l.rest)
			}
			if l.waited > l.rest || l.bytes > acpRestBytes && start.After(l.until) {
				return 0, io.EOF
			}
			_ = l.f.SetReadDeadline(start.Add(acpIdleTime))
		}
		n, err := l.f.Read(p)
		if exited {
			l.waited += time.Since(start)
			l.bytes += n
		}
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if exited {
			return 0, io.EOF
		}
	}
}
