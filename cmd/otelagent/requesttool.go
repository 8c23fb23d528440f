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
	"github.com/otelagent/otelagent/spans"
)

// toolFlags are the flags of request about one tool call.
type toolFlags struct {
	call, command string
	args          []string // of command
}

// tool shows a tool call, or runs it again by the command of the user.
func (a *app) tool(ctx context.Context, f *requestFlags, t session.Tree, run *session.Run, turn *session.Turn) error {
	out, err := toolCall(t, turn, f.call)
	if err != nil {
		return err
	}
	out.Format, out.Address = session.TreeFormat, session.TurnAddress(t.ID, slices.Index(t.Runs, run)+1, turn.Index)
	if f.command != "" {
		if out.Input == "" {
			return fmt.Errorf("the input of tool call %s is missing", out.ID)
		}
		if out.Run, err = a.runTool(ctx, f, []byte(out.Input)); err != nil {
			return err
		}
		out.Compare()
	}
	if err := a.emit(out, out.Text); err != nil {
		return err
	}
	if out.Input == "" || out.Run != nil && !out.Same {
		return &exitError{Code: exitFailed} // the output has the reason
	}
	return nil
}

// toolCall returns the call of a turn with that id, or the only one of that tool.
func toolCall(t session.Tree, turn *session.Turn, name string) (*inspect.ToolReplay, error) {
	var names []string
	var found []*session.ToolCall
	for _, c := range turn.ToolCalls {
		if names = append(names, c.ID+" ("+c.Name+")"); c.ID == name {
			found = []*session.ToolCall{c}
			break
		}
		if c.Name == name {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		all := cmp.Or(strings.Join(names, ", "), "none")
		return nil, fmt.Errorf("%d tool calls match %s; the turn has: %s", len(found), name, all)
	}
	c := found[0]
	out := &inspect.ToolReplay{ID: c.ID, Name: c.Name, Outcome: string(c.Outcome)}
	out.Input = session.RawJSON(whole(t.Blocks, c.Args))
	if body := whole(t.Blocks, c.Result); body != "" {
		p := message.ReadResult([]byte(body))
		failed := p.IsError || c.Outcome != "" && c.Outcome != spans.OutcomeOK
		out.Recorded = &inspect.ToolResult{Text: message.JoinText(p.Parts, true), Error: failed}
	}
	return out, nil
}

// whole returns the first body of a list that is all there, else "".
func whole(blocks *session.BlockSet, refs *session.Refs) string {
	if c := blocks.Read(refs); c.Whole() && len(c.Bodies) > 0 {
		return c.Bodies[0]
	}
	return ""
}

// runTool runs the command of the user, with the input of a call on its standard input.
func (a *app) runTool(ctx context.Context, f *requestFlags, input []byte) (*inspect.ToolResult, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.command, f.args...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), a.stderr
	cmd.WaitDelay = 2 * time.Second // for children that keep its output open
	output, err := cmd.Output()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s took longer than %s (--timeout) and was ended", f.command, f.timeout)
	case cmd.ProcessState == nil:
		return nil, fmt.Errorf("%s could not be run: %w", f.command, err)
	}
	text := strings.ToValidUTF8(string(output), "\uFFFD")
	return &inspect.ToolResult{Text: text, Error: !cmd.ProcessState.Success()}, nil
}
