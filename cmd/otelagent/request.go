package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/otelagent/otelagent/inspect"
	"github.com/otelagent/otelagent/session"
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
	c.Flags().BoolVar(&f.pretty, "pretty", false, "indent it: the same JSON, keys in their order, numbers as they are spelled")
	c.Flags().BoolVar(&f.provenance, "provenance", false, "one line a message: where it came from, size, block, whether it is new")
	c.Flags().StringVar(&f.diff, "diff", "", "what changed from the request `OTHER` of the session to this one")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON (docs/requests.md); with --diff what changed")
	c.Flags().StringVar(&f.run, "run", "", "the `RUN`: an id, or @n, the n-th")
	c.Flags().StringVar(&f.turn, "turn", "", "`index` of the turn")
	c.Flags().StringVar(&f.attempt, "attempt", "", "`number` of the attempt, from 0 (default the last)")
	f.db.add(c)
	return c
}

// check names everything that is wrong with the flags, and reads the addresses.
func (f *requestFlags) check(arg string) (addr, other requestAddress, err error) {
	var wrong []string
	note := func(err error) {
		if err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if f.some {
		if f.turn == "" {
			note(errors.New("--run and --attempt want --turn beside them"))
		}
		addr = requestAddress{session: arg, run: f.run, turn: f.turn, attempt: f.attempt}
		note(addr.numbers())
	} else {
		addr, err = parseRequestAddress(arg)
		note(err)
	}
	if f.diff != "" {
		other, err = parseRequestAddress(f.diff)
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

func (a *app) request(ctx context.Context, f *requestFlags, addr, other requestAddress) error {
	db, err := f.db.open(ctx, a)
	if err != nil {
		return err
	}
	defer db.close()
	key, err := db.find(ctx, addr.session)
	if err != nil {
		return err
	}
	t, err := db.read(ctx, key)
	if err != nil {
		return err
	}
	r, err := pickRequest(t, addr)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(a.stdout)
	switch {
	case f.diff != "":
		otherKey, err := db.find(ctx, other.session)
		if err != nil {
			return err
		}
		if otherKey != key {
			return fmt.Errorf("--diff compares requests of one session: %s is of session %s, not of %s", f.diff, otherKey.ID, key.ID)
		}
		before, err := pickRequest(t, other)
		if err != nil {
			return err
		}
		changes := inspect.CompareRequests(t, before, r)
		if f.asJSON {
			return firstError(writeJSON(w, changes), w.Flush())
		}
		return firstError(changes.Text(w, look(a.stdout)), w.Flush())
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
		return fmt.Errorf("%s was captured as digests: sizes and hashes are all there is of it; --provenance shows them", r.Address)
	}
	const most = 20 // pieces named
	lines := []string{fmt.Sprintf("%s is not whole, so nothing of it is printed; --provenance shows what is there", r.Address)}
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

// requestAddress is SESSION[/RUN]/TURN[/ATTEMPT] in its parts; empty ones are not given. first and second are two words behind
// SESSION that are RUN/TURN or TURN/ATTEMPT: that depends on the runs there are.
type requestAddress struct {
	session, run, turn, attempt string
	first, second               string
}

const wantRequest = "want SESSION[/RUN]/TURN[/ATTEMPT]"

// parseRequestAddress parts an address.
func parseRequestAddress(s string) (requestAddress, error) {
	parts := strings.Split(s, "/")
	a := requestAddress{session: parts[0]}
	switch len(parts) {
	case 1: // the span id of a turn
	case 2:
		a.turn = parts[1]
	case 3:
		a.first, a.second = parts[1], parts[2]
	case 4:
		a.run, a.turn, a.attempt = parts[1], parts[2], parts[3]
	}
	for _, p := range parts {
		if p == "" || len(parts) > 4 {
			return a, usagef("request %q: %s", s, wantRequest)
		}
	}
	if a.second != "" {
		_, err := number("turn or attempt", a.second)
		return a, err
	}
	return a, a.numbers()
}

// numbers checks the parts that are numbers.
func (a *requestAddress) numbers() error {
	if a.turn != "" {
		if _, err := number("turn", a.turn); err != nil {
			return err
		}
	}
	if a.attempt != "" {
		if _, err := number("attempt", a.attempt); err != nil {
			return err
		}
	}
	return nil
}

func number(what, s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, usagef("%s %q: want a number", what, s)
	}
	return n, nil
}

// place is a turn and its run.
type place struct {
	run  *session.Run
	turn *session.Turn
}

// pickRequest returns the request that an address names.
func pickRequest(t inspect.Tree, a requestAddress) (*inspect.Request, error) {
	at, err := a.pick(t.Session)
	if err != nil {
		return nil, err
	}
	if len(at.turn.Requests) == 0 {
		why := "its loop told none (docs/requests.md)"
		if at.turn.Capture != spans.CaptureContent && at.turn.Capture != spans.CaptureDigests {
			why = "content was not captured: send it with --capture content"
		}
		return nil, fmt.Errorf("turn %d of run %s has no request: %s", at.turn.Index, at.run.ID, why)
	}
	q := at.turn.Requests[len(at.turn.Requests)-1]
	if a.attempt != "" {
		n, err := number("attempt", a.attempt)
		if err != nil {
			return nil, err
		}
		var has []string
		q = nil
		for _, o := range at.turn.Requests {
			has = append(has, strconv.FormatInt(o.Attempt, 10))
			if o.Attempt == n {
				q = o
			}
		}
		if q == nil {
			return nil, fmt.Errorf("no request of attempt %d in turn %d of run %s: it has %s", n, at.turn.Index, at.run.ID, strings.Join(has, ", "))
		}
	}
	return inspect.NewRequest(t, at.run, at.turn, q), nil
}

// pick returns the turn that an address names.
func (a *requestAddress) pick(s *session.Session) (place, error) {
	if a.first != "" {
		a.run, a.turn = a.first, a.second
		_, err := strconv.ParseInt(a.first, 10, 64)
		if err == nil && !hasRun(s, a.first) {
			a.run, a.turn, a.attempt = "", a.first, a.second
		}
	}
	if a.turn == "" {
		for _, run := range s.Runs {
			for _, t := range run.Turns {
				if t.SpanID == a.session {
					return place{run, t}, nil
				}
			}
		}
		return place{}, usagef("which turn of session %s? %s", s.ID, wantRequest)
	}
	n, err := number("turn", a.turn)
	if err != nil {
		return place{}, err
	}
	var found []place
	var names []string // of the runs that have the turn, and of turns of one index by their span ids
	var spanIDs []string
	search := func(run *session.Run, name string) {
		for _, t := range run.Turns {
			if t.Index != n {
				continue
			}
			if len(found) == 0 || found[len(found)-1].run != run {
				names = append(names, name)
			}
			found = append(found, place{run, t})
			spanIDs = append(spanIDs, t.SpanID)
		}
	}
	if a.run != "" {
		run, _, err := address{session: a.session, run: a.run}.pick(s)
		if err != nil {
			return place{}, err
		}
		search(run, a.run)
		if len(found) == 0 {
			return place{}, noTurn(n, a.run, run, s)
		}
	} else {
		for i, run := range s.Runs {
			search(run, "@"+strconv.Itoa(i+1))
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return place{}, fmt.Errorf("no turn %d in any of the %s of session %s", n, count(len(s.Runs), "run"), s.ID)
	case len(names) > 1:
		return place{}, fmt.Errorf("%d runs of session %s have a turn %d: name one of %s, such as %s/%s/%d", len(names), s.ID, n, some(names), a.session, names[0], n)
	}
	return place{}, fmt.Errorf("run %s of session %s has %d turns of index %d: name one by its span id, %s", names[0], s.ID, len(found), n, some(spanIDs))
}

func hasRun(s *session.Session, id string) bool {
	for _, r := range s.Runs {
		if r.ID == id {
			return true
		}
	}
	return false
}

// some lists names, not too many of them.
func some(names []string) string {
	const most = 20
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}
