package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/replay"
	"github.com/otelagent/otelagent/spans"
)

// replayTool shows a tool call, or runs it again.
func (a *app) replayTool(ctx context.Context, f *replayFlags, t session.Tree, run *session.Run, turn *session.Turn) error {
	out, err := toolCall(t, run, turn, f.tool)
	if err != nil {
		return err
	}
	if out.InputState != "" && (f.command != "" || f.output != "") {
		return fmt.Errorf("the input of tool call %s is %s", out.ID, out.InputState)
	}
	if f.output != "" {
		write := func(w io.Writer) error {
			_, err := io.WriteString(w, string(out.Input))
			return err
		}
		if f.output == "-" {
			return write(a.stdout)
		}
		return writeFile(f.output, write)
	}
	if f.command != "" {
		if out.Run, err = a.runTool(ctx, f, []byte(out.Input)); err != nil {
			return err
		}
		out.Compare()
	}
	w := bufio.NewWriter(a.stdout)
	if f.asJSON {
		err = writeJSON(w, out)
	} else {
		err = out.Text(w, look(a.stdout))
	}
	err = firstError(err, w.Flush())
	switch {
	case err != nil:
		return err
	case out.Run != nil && !out.Run.Same, out.Run == nil && out.InputState != "":
		return &exitError{Code: exitFailed} // what was printed says why
	}
	return nil
}

// toolCall returns the call of a turn that name names: an id, @n, or a tool of which the turn has one call.
func toolCall(t session.Tree, run *session.Run, turn *session.Turn, name string) (*inspect.ToolReplay, error) {
	view := inspect.ReplayAddress(t, run, turn)
	out := &inspect.ToolReplay{Format: session.TreeFormat, Address: view}
	recorded, _ := replay.Recorded(turn, t.Blocks)
	var asked []replay.Call // by the reply; not all of them need have been run
	if recorded != nil {
		for _, c := range recorded.Calls {
			if !slices.ContainsFunc(turn.ToolCalls, func(call *session.ToolCall) bool { return call.ID == c.ID }) {
				asked = append(asked, c)
			}
		}
	}
	var names []string
	found := -1
	total := len(turn.ToolCalls) + len(asked)
	at := func(i int) (id, tool string) {
		if i < len(turn.ToolCalls) {
			return turn.ToolCalls[i].ID, turn.ToolCalls[i].Name
		}
		c := asked[i-len(turn.ToolCalls)]
		return c.ID, c.Name
	}
	var called []int
	for i := range total {
		id, tool := at(i)
		names = append(names, fmt.Sprintf("%s (%s)", id, tool))
		if id == name && found < 0 {
			found = i
		}
		if tool == name {
			called = append(called, i)
		}
	}
	if n, ok := strings.CutPrefix(name, "@"); ok && found < 0 {
		if i, err := strconv.Atoi(n); err == nil && i >= 1 && i <= total {
			found = i - 1
		}
	}
	if found < 0 && len(called) == 1 {
		found = called[0]
	}
	switch {
	case total == 0:
		return nil, fmt.Errorf("turn %s has no tool calls", view)
	case found < 0 && len(called) > 1:
		return nil, fmt.Errorf("turn %s has %s of %s: name one by its id or @n: %s", view, count(len(called), "call"), name, named(names))
	case found < 0:
		return nil, fmt.Errorf("no tool call %s in turn %s: it has %s", name, view, named(names))
	}
	if found >= len(turn.ToolCalls) {
		c := asked[found-len(turn.ToolCalls)]
		out.ID, out.Name, out.Input, out.Outcome = c.ID, c.Name, c.Args, "asked for, not run"
		return out, nil
	}
	call := turn.ToolCalls[found]
	out.ID, out.Name, out.Outcome = call.ID, call.Name, string(call.Outcome)
	var input []string
	if input, out.InputState = bodies(t.Blocks, call.Args); out.InputState == "" {
		out.Input = session.RawJSON(input[0])
	} else if recorded != nil { // the reply has it too
		for _, c := range recorded.Calls {
			if c.ID == call.ID {
				out.Input, out.InputState = c.Args, ""
			}
		}
	}
	if result, state := bodies(t.Blocks, call.Result); state == "" {
		text, isError, ok := replay.ResultText([]byte(result[0]))
		if !ok {
			text = result[0]
		}
		out.Recorded = &inspect.ToolResult{Text: text, Error: isError || call.Outcome != "" && call.Outcome != spans.OutcomeOK}
	}
	return out, nil
}

// named lists calls, not too many of them.
func named(calls []string) string {
	const most = 20
	if len(calls) > most {
		return strings.Join(calls[:most], ", ") + ", ..."
	}
	return strings.Join(calls, ", ")
}

// bodies returns what a list refers to, one body at least, or why it is not there.
func bodies(blocks *session.BlockSet, refs *session.Refs) ([]string, string) {
	if refs.Len() == 0 {
		return nil, string(replay.Missing)
	}
	switch c := blocks.Read(refs); {
	case len(c.Withheld) > 0:
		return nil, string(replay.Withheld)
	case !c.Whole():
		return nil, string(replay.Missing)
	default:
		return c.Bodies, ""
	}
}

// maxToolOutput bounds what a command may print.
const maxToolOutput = 16 << 20

// runTool runs the command that the user named, with the input of a call on its standard input.
func (a *app) runTool(ctx context.Context, f *replayFlags, input []byte) (*inspect.ToolRun, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	argv := append([]string{f.command}, f.args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out := &bounded{most: maxToolOutput, full: cancel}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), out, a.stderr
	cmd.WaitDelay = 2 * time.Second // for children that keep its output open
	started := time.Now()
	err := cmd.Run()
	took := time.Since(started)
	var exit *exec.ExitError
	switch {
	case out.over:
		return nil, fmt.Errorf("%s printed more than 16 MiB, and was ended", f.command)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s took longer than %s (--timeout), and was ended", f.command, f.timeout)
	case errors.As(err, &exit):
	case err != nil && cmd.ProcessState == nil:
		return nil, fmt.Errorf("%s could not be run: %w", f.command, err)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay) && !cmd.ProcessState.Success():
		return nil, fmt.Errorf("%s: %w", f.command, err)
	}
	code := cmd.ProcessState.ExitCode()
	return &inspect.ToolRun{Command: argv, Exit: code, TookNS: int64(took),
		ToolResult: inspect.ToolResult{Text: strings.ToValidUTF8(out.buf.String(), "\uFFFD"), Error: code != 0}}, nil
}

// bounded keeps what is written to it, and calls full when it is too much.
type bounded struct {
	buf  bytes.Buffer
	most int
	over bool
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > b.most {
		b.over = true
		b.full()
		return 0, errors.New("too much")
	}
	return b.buf.Write(p)
}
