package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/replay"
	"github.com/otelagent/otelagent/spans"
)

// replayTool shows a tool call, or runs it again.
func (a *app) replayTool(ctx context.Context, f *replayFlags, t session.Tree, run *session.Run, turn *session.Turn) error {
	out, err := toolCall(t, turn, f.tool)
	if err != nil {
		return err
	}
	out.Format, out.Address = session.TreeFormat, inspect.ReplayAddress(t, run, turn)
	if f.command != "" {
		if out.Input == "" {
			return fmt.Errorf("the input of tool call %s is missing", out.ID)
		}
		if out.Run, err = a.runTool(ctx, f, []byte(out.Input)); err != nil {
			return err
		}
		out.Compare()
	}
	if err := a.print(f, out, out.Text); err != nil {
		return err
	}
	if out.Input == "" || out.Run != nil && !out.Run.Same {
		return &exitError{Code: exitFailed} // the output says why
	}
	return nil
}

// toolCall returns the call of a turn with that id, or the only one of that tool. The model may have asked for calls that
// the loop did not run.
func toolCall(t session.Tree, turn *session.Turn, name string) (*inspect.ToolReplay, error) {
	var calls []*inspect.ToolReplay
	for _, c := range turn.ToolCalls {
		call := &inspect.ToolReplay{ID: c.ID, Name: c.Name, Outcome: string(c.Outcome), Input: session.RawJSON(whole(t.Blocks, c.Args))}
		if body := whole(t.Blocks, c.Result); body != "" {
			p := message.ReadResult([]byte(body))
			failed := p.IsError || c.Outcome != "" && c.Outcome != spans.OutcomeOK
			call.Recorded = &inspect.ToolResult{Text: message.JoinText(p.Parts, true), Error: failed}
		}
		calls = append(calls, call)
	}
	if answer, _ := replay.Recorded(turn, t.Blocks); answer != nil {
		for _, c := range answer.Calls {
			i := slices.IndexFunc(calls, func(call *inspect.ToolReplay) bool { return call.ID == c.ID })
			if i < 0 {
				calls = append(calls, &inspect.ToolReplay{ID: c.ID, Name: c.Name, Outcome: "not run", Input: c.Args})
			} else if calls[i].Input == "" {
				calls[i].Input = c.Args
			}
		}
	}
	var names []string
	var named *inspect.ToolReplay
	n := 0
	for _, c := range calls {
		if c.ID == name {
			return c, nil
		}
		if c.Name == name {
			named, n = c, n+1
		}
		names = append(names, c.ID+" ("+c.Name+")")
	}
	if n == 1 {
		return named, nil
	}
	return nil, fmt.Errorf("%d tool calls match %s; the turn has: %s", n, name, cmp.Or(strings.Join(names, ", "), "none"))
}

// whole returns the first body of a list that is all there, else "".
func whole(blocks *session.BlockSet, refs *session.Refs) string {
	if c := blocks.Read(refs); c.Whole() && len(c.Bodies) > 0 {
		return c.Bodies[0]
	}
	return ""
}

// maxToolOutput bounds what a command may print.
const maxToolOutput = 16 << 20

// runTool runs the command that the user named, with the input of a call on its standard input.
func (a *app) runTool(ctx context.Context, f *replayFlags, input []byte) (*inspect.ToolRun, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	argv := append([]string{f.command}, f.args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out := &bounded{full: cancel}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), out, a.stderr
	cmd.WaitDelay = 2 * time.Second // for children that keep its output open
	started := time.Now()
	err := cmd.Run()
	switch {
	case out.over:
		return nil, fmt.Errorf("%s printed more than 16 MiB and was ended", f.command)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s took longer than %s (--timeout) and was ended", f.command, f.timeout)
	case cmd.ProcessState == nil:
		return nil, fmt.Errorf("%s could not be run: %w", f.command, err)
	}
	code := cmd.ProcessState.ExitCode()
	result := inspect.ToolResult{Text: strings.ToValidUTF8(out.String(), "\uFFFD"), Error: code != 0}
	return &inspect.ToolRun{Command: argv, Exit: code, TookNS: int64(time.Since(started)), ToolResult: result}, nil
}

// bounded keeps output, and calls full when it is too much.
type bounded struct {
	bytes.Buffer
	over bool
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxToolOutput {
		b.over = true
		b.full()
		return 0, errors.New("too much output")
	}
	return b.Buffer.Write(p)
}
