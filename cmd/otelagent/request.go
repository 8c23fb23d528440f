package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/diff"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/spans"
)

// requestFlags say which request, and how it is shown or asked again.
type requestFlags struct {
	addr, other       reader.Address
	diff              string // address of other
	provenance, check bool
	timeout           time.Duration
	replayFlags
	toolFlags
}

func (a *app) requestCommand() *cobra.Command {
	var f requestFlags
	c := &cobra.Command{
		Use:   "request SESSION[/RUN]/TURN[/ATTEMPT] [-- ARGUMENT...]",
		Short: "Print what the model was sent on a turn, or ask it again",
		Long: `Print the request of a turn, byte for byte as the loop emitted it.

SESSION and RUN are as in 'otelagent show'. Without RUN it is the run that has
the TURN; where several have, it must be named. Without ATTEMPT it is the last
one. SESSION alone may be the span id of a turn.

Standard output is the payload and nothing else; a terminal gets a line feed at
the end. Standard error names known differences from the bytes that the loop
emitted. When a part is missing, nothing is printed, and standard error names
the part and the reason.

--check prints whether the inputs of the turn are recorded. --as, --model and
--system write the request as the body of a provider's API (docs/replay.md);
standard error names the differences. --send sends it and compares the answers.
--tool shows a tool call of the turn; --run runs a command with its input.

Exit codes: 0 printed, also when requests differ, eligible, answered, or the
same tool result, 1 not found, not whole, not eligible, not answered, or another
tool result, 2 wrong usage. --provenance, --output json and --diff show what is
there, and exit 0.`,
		Example: `  otelagent request last/3 | jq .
  otelagent request last/@2/0 --provenance
  otelagent request last/3 --diff last/2
  otelagent request last/3 --as openai-chat > request.json
  otelagent request last/3 --send https://api.anthropic.com --system new.txt
  otelagent request last/3 --tool toolu_01B --run ./bash-tool -- --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if before := cmd.ArgsLenAtDash(); len(args) == 0 || before != 1 && len(args) > 1 {
				return fmt.Errorf("request wants one SESSION[/RUN]/TURN[/ATTEMPT]; %d given", len(args))
			}
			return nil
		},
		ValidArgsFunction: a.completeSession,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			f.newSystem, f.args = cmd.Flags().Changed("system"), args[1:]
			return f.read(args[0], a.json())
		},
		RunE: a.reads(func(ctx context.Context, db *database, _ []string) error { return a.request(ctx, db, &f) }),
	}
	flags := c.Flags()
	flags.BoolVar(&f.provenance, "provenance", false,
		"one line a message: where it came from, size, block, whether it is new")
	flags.StringVar(&f.diff, "diff", "", "print what changed from the request `OTHER` of the session to this one")
	flags.BoolVar(&f.check, "check", false, "print whether the turn can be asked again, and which inputs are missing")
	f.replayFlags.add(flags)
	flags.StringVar(&f.call, "tool", "", "show the tool call `CALL` of the turn: its id, or the name of its tool")
	flags.StringVar(&f.command, "run", "",
		"with --tool, run `COMMAND` with the input on standard input; its arguments follow --")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "bound --send and --run by this `TIME`")
	return c
}

// read names everything that is wrong with the flags, and reads the addresses.
func (f *requestFlags) read(arg string, asJSON bool) (err error) {
	var wrong wrongs
	f.addr, err = reader.ParseRequestAddress(arg)
	wrong.note(err)
	if f.diff != "" {
		f.other, err = reader.ParseRequestAddress(f.diff)
		wrong.note(err)
	}
	modes := 0
	for _, on := range []bool{f.provenance, f.diff != "", f.check, f.on(), f.call != ""} {
		if on {
			modes++
		}
	}
	wrong.when(modes > 1 || asJSON && f.provenance,
		"--provenance, --diff, --check, --as and its kin, and --tool exclude each other; "+
			"--output json goes with all but the first")
	wrong.when(f.call == "" && f.command != "", "--run needs --tool")
	wrong.when(f.command == "" && len(f.args) > 0, "arguments after -- need --run")
	f.replayFlags.check(&wrong)
	wrong.when(f.timeout <= 0, "--timeout is not positive")
	return wrong.err()
}

func (a *app) request(ctx context.Context, db *database, f *requestFlags) error {
	key, err := db.Resolve(ctx, f.addr.Session)
	if err != nil {
		return err
	}
	t, err := db.Read(ctx, key)
	if err != nil {
		return err
	}
	run, turn, err := f.addr.PickTurn(t.Session)
	if err != nil {
		return err
	}
	if f.call != "" {
		return a.tool(ctx, f, t, run, turn)
	}
	var q *session.Request
	if f.check || f.on() { // the turn may have none
		q, err = reader.PickAttempt(run, turn, f.addr.Attempt)
	} else {
		_, _, q, err = reader.PickRequest(t.Session, f.addr)
	}
	if err != nil {
		return err
	}
	switch {
	case f.check || f.on():
		return a.replay(ctx, f, t, run, turn, q)
	case f.diff != "":
		return a.diffRequests(ctx, db, f, diff.Target{Session: t.Session, Blocks: t.Blocks, Run: run, Turn: turn,
			Request: q})
	}
	r := inspect.NewRequest(t, run, turn, q)
	if a.json() || f.provenance {
		return a.emit(r, r.Provenance)
	}
	if r.Payload.Bytes == nil {
		return incomplete(r)
	}
	if note := r.Note(); note != "" {
		a.say("%s", note)
	}
	return a.emit(nil, func(w io.Writer, _ inspect.Options) error {
		_, err := w.Write(r.Payload.Bytes)
		if isTerminal(a.stdout) {
			fmt.Fprintln(w)
		}
		return err
	})
}

func (a *app) diffRequests(ctx context.Context, db *database, f *requestFlags, now diff.Target) error {
	key, err := db.Resolve(ctx, f.other.Session)
	if err != nil {
		return err
	}
	if key.ID != now.Session.ID {
		return fmt.Errorf("--diff compares requests of one session: %s is of session %s, not of %s", f.diff, key.ID,
			now.Session.ID)
	}
	before := now
	if before.Run, before.Turn, before.Request, err = reader.PickRequest(now.Session, f.other); err != nil {
		return err
	}
	changes, err := diff.Compare(before, now)
	if err != nil {
		return err
	}
	return a.emit(changes, func(w io.Writer, look inspect.Options) error {
		return inspect.WriteDiff(w, changes, look, inspect.DiffUnified)
	})
}

// incomplete is the error about a request with missing parts.
func incomplete(r *inspect.Request) error {
	if r.Capture == spans.CaptureDigests {
		return fmt.Errorf("%s was captured as digests: sizes and hashes are all there is of it; --provenance shows them",
			r.Address)
	}
	const most = 20 // parts named
	lines := []string{fmt.Sprintf("%s is not whole, so nothing of it is printed; --provenance shows what is there",
		r.Address)}
	for i, m := range r.Missing {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %s; --output json names them all", count(len(r.Missing)-most, "more piece")))
			break
		}
		lines = append(lines, m.String())
	}
	for _, d := range r.Defects {
		lines = append(lines, inspect.Defect(d))
	}
	return errors.New(strings.Join(lines, "\n"))
}
