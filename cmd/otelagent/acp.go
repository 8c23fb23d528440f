package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/dialects/acp"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/spans"
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
		return &exitError{Code: code, Err: fmt.Errorf("the agent does not start: %w", err)}
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

const (
	// tapQueue is how many bytes of the wire wait at most to be traced; lines that do not fit are not traced.
	tapQueue = 32 << 20
	// tapCost is the cost of a line in addition to its bytes.
	tapCost = 1 << 10
	// tapLine is the longest line that is traced.
	tapLine = 16 << 20
)

// wireLine is a line that went one way at one time.
type wireLine struct {
	input.Line
	dir acp.Direction
}

// wireTap takes what goes over a wire, without ever letting it wait, and traces it.
type wireTap struct {
	begun  [3]wireLine     // by direction: the line that has not ended
	lines  chan *wireLine  // those that wait to be traced; nil ends them
	queued atomic.Int64    // their bytes
	lost   [3]atomic.Int64 // by direction: bytes that did not fit
	done   chan struct{}   // closed when everything was traced

	// Of trace, to be read when done is closed.
	pump    *pump
	to      *delivery
	err     error
	dropped int64 // bytes
}

func newWireTap() *wireTap {
	return &wireTap{lines: make(chan *wireLine, tapQueue/tapCost+1), done: make(chan struct{})}
}

// take copies the lines of b into the queue. Each direction has one caller. It blocks for no longer than that takes.
func (t *wireTap) take(dir acp.Direction, b []byte) {
	line := &t.begun[dir]
	for len(b) > 0 {
		text, more, ends := bytes.Cut(b, []byte{'\n'})
		if len(line.Text)+len(text) > tapLine {
			line.Text, line.TooLong = nil, true
		}
		if !line.TooLong {
			line.Text = append(line.Text, text...)
		}
		if !ends {
			return
		}
		line.Text = bytes.TrimSpace(line.Text)
		cost := int64(len(line.Text) + tapCost)
		switch {
		case len(line.Text) == 0 && !line.TooLong:
		case t.queued.Add(cost) > tapQueue:
			t.queued.Add(-cost)
			t.lost[dir].Add(cost - tapCost)
		default:
			t.lines <- &wireLine{input.Line{Text: line.Text, TooLong: line.TooLong, Arrived: time.Now()}, dir}
		}
		*line, b = wireLine{}, more
	}
}

// trace traces what is taken until end.
func (t *wireTap) trace(ctx context.Context, a *app, o *sendOptions) {
	defer close(t.done)
	defer func() { // whatever becomes of tracing, the agent goes on
		if p := recover(); p != nil {
			t.err = fmt.Errorf("internal error: %v", p)
		}
	}()
	if t.to, t.err = o.delivery(context.WithoutCancel(ctx), cmp.Or(o.Agent, acp.Dialect), true); t.err != nil {
		a.say("the agent is not traced: %v", t.err)
		t.queued.Add(tapQueue) // no line fits
		return
	}
	dec := acp.NewDecoder(o.inputSettings(true))
	wire := source{name: "the wire"}
	t.pump = &pump{app: &app{stderr: io.Discard}, o: o, in: &sources{live: true, list: []source{wire}},
		decoders: map[string]input.Decoder{acp.Dialect: dec}}
	t.err = t.pump.record(t.to, t.to.rec, wire, t.events(dec))
}

// events are those of the lines that are taken, and a defect where some were dropped.
func (t *wireTap) events(dec *acp.Decoder) events {
	return func(yield func(event.Event, error) bool) {
		more := true
		each := func(ev event.Event, err error) bool {
			more = more && yield(ev, err)
			return more
		}
		number := int64(0)
		for l := range t.lines {
			for dir := range t.lost {
				if n := t.lost[dir].Swap(0); n > 0 {
					t.dropped += n
					each(dropped(acp.Direction(dir), n), nil)
				}
			}
			if l == nil || !more {
				break
			}
			t.queued.Add(-int64(len(l.Text) + tapCost))
			number++
			l.Number = number
			dec.Message(l.Line, l.dir)(each)
		}
		dec.Rest()(each) // the agent has ended
	}
}

// dropped records in the session what was not traced.
func dropped(dir acp.Direction, n int64) event.Event {
	from := "agent"
	if dir == acp.ToAgent {
		from = "client"
	}
	return &event.DefectFound{Meta: event.Meta{Arrived: time.Now()}, Code: spans.DefectEventLost,
		Detail: strconv.FormatInt(n, 10) + " bytes from the " + from + " came faster than they were traced"}
}

// end waits for what was taken to be delivered, for a short time, and says what was not.
func (t *wireTap) end(a *app, verbose bool) {
	ctx, cancel := context.WithTimeout(context.Background(), acpFlushTime)
	defer cancel()
	select {
	case t.lines <- nil:
	case <-ctx.Done():
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		a.say("not all was traced in time")
		return
	}
	if t.to == nil {
		return
	}
	if err := errors.Join(t.err, t.to.end(ctx)); err != nil {
		a.say("not delivered: %v", plainly(err, t.to.target.name))
	}
	if t.dropped > 0 {
		a.say("%d bytes came faster than they were traced", t.dropped)
	}
	if verbose {
		s := t.pump.sum(t.to)
		a.say("traced %s as %s of %s to %s", count(int(s.Events), "message"), count(int(s.Spans), "span"),
			count(len(s.Sessions), "session"), s.Target)
		if s.Rejected > 0 {
			a.say("%s could not be read", count(int(s.Rejected), "line"))
		}
	}
}
