package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session/diff"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/spans"
)

// requestFlags say which request, and how it is shown.
type requestFlags struct {
	db                               dbFlags
	run, turn, attempt, diff         string
	pretty, provenance, asJSON, some bool // some: run, turn or attempt was given
}

func (a *app) requestCommand() *cobra.Command {
	var f requestFlags
	c := &cobra.Command{
		Use:   "request SESSION[/RUN]/TURN[/ATTEMPT]",
		Short: "Print what the model was sent on a turn",
		Long: `Print what the model was sent on a turn, byte for byte as the loop emitted it.

SESSION and RUN are as in 'otelagent show'. Without RUN it is the run that has
the TURN; where several have, it must be named. Of two words behind SESSION a
number that is no run's id is the TURN, and what follows the ATTEMPT. Without
ATTEMPT it is the last one. SESSION alone may be the span id of a turn. With
--turn the argument is SESSION alone, which may then have slashes in it.

Standard output is the payload and nothing else; a terminal gets a line feed at
the end. What is known to differ from the bytes that the loop emitted is said on
standard error. When anything is missing nothing is printed, and what it is and
why it is not there is said on standard error.

Exit codes: 0 printed, also when requests differ, 1 not found or not whole,
2 wrong usage. --provenance, --json and --diff show what is there, and exit 0.`,
		Example: `  otelagent request last/3 | jq .
  otelagent request last/@2/0 --provenance
  otelagent request last/3 --diff last/2
  otelagent request 0b5c --run @1 --turn 3 --attempt 0 --pretty`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("request wants one SESSION[/RUN]/TURN[/ATTEMPT]; %d given", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.some = cmd.Flags().Changed("run") || cmd.Flags().Changed("turn") || cmd.Flags().Changed("attempt")
			addr, other, err := f.check(args[0])
			if err != nil {
				return err
			}
			return a.request(cmd.Context(), &f, addr, other)
		},
	}
	c.Flags().BoolVar(&f.pretty, "pretty", false,
		"indent it: the same JSON, keys in their order, numbers as they are spelled")
	c.Flags().BoolVar(&f.provenance, "provenance", false,
		"one line a message: where it came from, size, block, whether it is new")
	c.Flags().StringVar(&f.diff, "diff", "", "what changed from the request `OTHER` of the session to this one")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON (docs/requests.md); with --diff what changed")
	c.Flags().StringVar(&f.run, "run", "", "the `RUN`: an id, or @n, the n-th")
	c.Flags().StringVar(&f.turn, "turn", "", "`index` of the turn")
	c.Flags().StringVar(&f.attempt, "attempt", "", "`number` of the attempt, from 0 (default the last)")
	f.db.add(c)
	return c
}

// requestAddress is what arg names alone, or the SESSION arg with what flags say of the rest. What is wrong with it is
// noted.
func requestAddress(arg string, byFlags bool, runFlag string, flags reader.RequestAddress,
	note func(error)) reader.RequestAddress {
	if !byFlags {
		addr, err := reader.ParseRequestAddress(arg)
		note(err)
		return addr
	}
	if flags.Turn == "" {
		note(errors.New(runFlag + " and --attempt want --turn beside them"))
	}
	flags.Session = arg
	note(flags.Numbers())
	return flags
}

// check names everything that is wrong with the flags, and reads the addresses.
func (f *requestFlags) check(arg string) (addr, other reader.RequestAddress, err error) {
	var wrong []string
	note := func(err error) {
		if err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	addr = requestAddress(arg, f.some, "--run", reader.RequestAddress{Run: f.run, Turn: f.turn, Attempt: f.attempt}, note)
	if f.diff != "" {
		other, err = reader.ParseRequestAddress(f.diff)
		note(err)
	}
	switch {
	case f.pretty && (f.provenance || f.asJSON || f.diff != ""), f.provenance && (f.asJSON || f.diff != ""):
		note(errors.New("--pretty and --provenance stand alone; --json and --diff may be given together"))
	}
	if len(wrong) > 0 {
		return addr, other, usagef("%s", strings.Join(wrong, "\n"))
	}
	return addr, other, nil
}

func (a *app) request(ctx context.Context, f *requestFlags, addr, other reader.RequestAddress) error {
	db, err := f.db.open(ctx, a)
	if err != nil {
		return err
	}
	defer db.close()
	key, err := db.find(ctx, addr.Session)
	if err != nil {
		return err
	}
	t, err := db.read(ctx, key)
	if err != nil {
		return err
	}
	run, turn, q, err := reader.PickRequest(t.Session, addr)
	if err != nil {
		return err
	}
	r := inspect.NewRequest(t, run, turn, q)
	w := bufio.NewWriter(a.stdout)
	switch {
	case f.diff != "":
		otherKey, err := db.find(ctx, other.Session)
		if err != nil {
			return err
		}
		if otherKey != key {
			return fmt.Errorf("--diff compares requests of one session: %s is of session %s, not of %s", f.diff, otherKey.ID,
				key.ID)
		}
		run2, turn2, q2, err := reader.PickRequest(t.Session, other)
		if err != nil {
			return err
		}
		changes, err := diff.Compare(diff.Target{Session: t.Session, Blocks: t.Blocks, Run: run2, Turn: turn2, Request: q2},
			diff.Target{Session: t.Session, Blocks: t.Blocks, Run: run, Turn: turn, Request: q})
		if err != nil {
			return err
		}
		if f.asJSON {
			return firstError(writeJSON(w, changes), w.Flush())
		}
		return firstError(inspect.WriteDiff(w, changes, look(a.stdout), inspect.DiffUnified), w.Flush())
	case f.asJSON:
		return firstError(writeJSON(w, r), w.Flush())
	case f.provenance:
		return firstError(r.Provenance(w, look(a.stdout)), w.Flush())
	}
	if r.Payload.Bytes == nil {
		return incomplete(r)
	}
	if note := r.Note(); note != "" {
		a.say("%s", note)
	}
	if f.pretty {
		return firstError(r.Pretty(w), w.Flush())
	}
	_, err = w.Write(r.Payload.Bytes)
	if err == nil && isTerminal(a.stdout) {
		err = w.WriteByte('\n')
	}
	return firstError(err, w.Flush())
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// incomplete says what is missing of a request that cannot be given back.
func incomplete(r *inspect.Request) error {
	if r.Capture == spans.CaptureDigests {
		return fmt.Errorf("%s was captured as digests: sizes and hashes are all there is of it; --provenance shows them",
			r.Address)
	}
	const most = 20 // pieces named
	lines := []string{fmt.Sprintf("%s is not whole, so nothing of it is printed; --provenance shows what is there",
		r.Address)}
	for i, m := range r.Missing {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %s; --json names them all", count(len(r.Missing)-most, "more piece")))
			break
		}
		lines = append(lines, m.String())
	}
	for _, d := range r.Defects {
		lines = append(lines, inspect.Defect(d))
	}
	return errors.New(strings.Join(lines, "\n"))
}
