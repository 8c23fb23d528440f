package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/dialects/acp"
)

const (
	// acpFlushTime bounds how long the end waits for the receiver: an editor waits for the end of its agent.
	acpFlushTime = 3 * time.Second
	// acpRestTime is how long after the agent's end its output is passed on, which children of it may hold open.
	acpRestTime = 5 * time.Second
)

// Exit codes for an agent that cannot be started, as shells have them.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// passedOn are the signals that otelagent passes on to an agent. SIGPIPE is caught so that an editor that is gone ends
// the agent in order, and not otelagent before it.
var passedOn = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE}

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
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(a); err != nil {
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
	tr := newWireTap()
	cmd := exec.Command(command[0], command[1:]...)
	toAgent, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer outR.Close()
	cmd.Stdout, cmd.Stderr = outW, a.stderr
	signals := make(chan os.Signal, 16)
	// The parent process may have had signals ignored, as nohup does: they stay so, for the agent too.
	signal.Notify(signals, slices.DeleteFunc(slices.Clone(passedOn), signal.Ignored)...)
	err = cmd.Start()
	_ = outW.Close()
	if err != nil {
		signal.Stop(signals)
		code := exitCannotRun
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			code = exitNotFound
		}
		return &exitError{Code: code, Err: err}
	}
	go tr.trace(ctx, a, o)
	go func() {
		_, _ = io.Copy(&tapped{toAgent, tr, acp.ToAgent}, struct{ io.Reader }{a.stdin})
		_ = toAgent.Close()
		if f, ok := a.stdin.(*os.File); ok {
			_ = f.Close() // the agent reads no more; the editor is to know
		}
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&tapped{a.stdout, tr, acp.ToClient}, struct{ io.Reader }{outR})
		_ = outR.Close() // the editor reads no more; the agent is to know
	}()
	go func() {
		for s := range signals {
			// The keys of a terminal send theirs to all of its programs, so the agent has them already.
			if key := s == os.Interrupt || s == syscall.SIGQUIT; s != syscall.SIGPIPE && !(key && isTerminal(a.stdin)) {
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	waitErr := cmd.Wait()
	select {
	case <-read:
	case <-time.After(acpRestTime): // the editor does not read, or a child of the agent does not end
	}
	signal.Stop(signals) // from now on Ctrl-C ends this process
	close(signals)
	if f, ok := a.stdout.(*os.File); ok {
		_ = f.Close() // the editor need not wait for what we have still to send
	}
	tr.end(a, verbose)
	switch {
	case cmd.ProcessState == nil:
		return waitErr
	case cmd.ProcessState.Success():
		return nil
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &exitError{Code: 128 + int(status.Signal())}
	}
	return &exitError{Code: cmd.ProcessState.ExitCode()}
}

// tapped shows every piece to a tap before it writes it, so that the tap sees nothing before what it answers.
type tapped struct {
	w   io.Writer
	tap *wireTap
	dir acp.Direction
}

func (t *tapped) Write(p []byte) (int, error) {
	t.tap.take(t.dir, p)
	return t.w.Write(p)
}
