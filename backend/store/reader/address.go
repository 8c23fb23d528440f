package reader

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// ErrAddress is wrapped by errors about text that is no address, whatever the store holds.
var ErrAddress = errors.New("not an address")

// Error says what is wrong with an address, in words for the person who wrote it: ids, names and numbers, and no
// content. It wraps ErrAddress, store.ErrNotFound or store.ErrAmbiguous.
type Error struct {
	kind error
	text string
}

func (e *Error) Error() string { return e.text }
func (e *Error) Unwrap() error { return e.kind }

func wrong(kind error, format string, args ...any) error {
	return &Error{kind, fmt.Sprintf(format, args...)}
}

// Address is SESSION[/RUN[/TURN]] or, of a request, SESSION[/RUN]/TURN[/ATTEMPT] in its parts; empty ones are not
// given. RUN is an id or @n, the n-th run from 1; TURN is an index.
type Address struct{ Session, Run, Turn, Attempt string }

// ParseAddress parts an address whose SESSION has no slashes in it; Reader.Locate knows those that have.
func ParseAddress(s string) (Address, error) {
	parts := strings.Split(s, "/")
	if len(parts) > 3 || parts[0] == "" {
		return Address{}, wrong(ErrAddress, "address %q: want SESSION[/RUN[/TURN]]", s)
	}
	parts = append(parts, "", "")
	return Address{Session: parts[0], Run: parts[1], Turn: parts[2]}, nil
}

const wantRequest = "want SESSION[/RUN]/TURN[/ATTEMPT]"

// ParseRequestAddress parts the address of a request, whose SESSION has no slashes in it. SESSION alone may be the span
// id of a turn. Two parts after SESSION are in Run and Turn; PickTurn finds out whether they are TURN/ATTEMPT.
func ParseRequestAddress(s string) (Address, error) {
	parts := strings.Split(s, "/")
	if len(parts) > 4 || slices.Contains(parts, "") {
		return Address{Session: parts[0]}, wrong(ErrAddress, "request %q: %s", s, wantRequest)
	}
	var a Address
	for i, to := range map[int][]*string{
		1: {&a.Session}, 2: {&a.Session, &a.Turn}, 3: {&a.Session, &a.Run, &a.Turn},
		4: {&a.Session, &a.Run, &a.Turn, &a.Attempt},
	}[len(parts)] {
		*to = parts[i]
	}
	what := "turn"
	if a.Run != "" && a.Attempt == "" {
		what = "turn or attempt"
	}
	for _, part := range [][2]string{{what, a.Turn}, {"attempt", a.Attempt}} {
		if _, err := number(part[0], part[1]); err != nil && part[1] != "" {
			return a, err
		}
	}
	return a, nil
}

// Pick returns the run and turn that an address names; nil where it names none.
func (a Address) Pick(s *session.Session) (*session.Run, *session.Turn, error) {
	if a.Run == "" {
		return nil, nil, nil
	}
	run, err := a.run(s)
	if err != nil || a.Turn == "" {
		return run, nil, err
	}
	n, err := number("turn", a.Turn)
	if err != nil {
		return nil, nil, err
	}
	if t := turnOf(run, n); t != nil {
		return run, t, nil
	}
	return nil, nil, noTurn(n, a.Run, run, s)
}

func (a Address) run(s *session.Session) (*session.Run, error) {
	if n, ok := strings.CutPrefix(a.Run, "@"); ok {
		i, err := strconv.Atoi(n)
		if err != nil || i < 1 || i > len(s.Runs) {
			return nil, wrong(store.ErrNotFound, "no run %s: session %s has %d, @1 is the first", a.Run, s.ID, len(s.Runs))
		}
		return s.Runs[i-1], nil
	}
	var run *session.Run
	var numbers []string
	for i, r := range s.Runs {
		if r.ID == a.Run {
			run, numbers = r, append(numbers, "@"+strconv.Itoa(i+1))
		}
	}
	switch len(numbers) {
	case 0:
		return nil, wrong(store.ErrNotFound, "no run %q in session %s; @1 is the first of its %s", a.Run, s.ID,
			count(len(s.Runs), "run"))
	case 1:
		return run, nil
	}
	return nil, wrong(store.ErrAmbiguous, "%d runs of session %s have the id %q: name one by its number: %s",
		len(numbers), s.ID, a.Run, some(numbers))
}

// turnOf returns the first turn of a run with that index; nil for none.
func turnOf(run *session.Run, index int64) *session.Turn {
	i := slices.IndexFunc(run.Turns, func(t *session.Turn) bool { return t.Index == index })
	if i < 0 {
		return nil
	}
	return run.Turns[i]
}

// PickTurn returns the turn that the address of a request names, and its run. A RUN that is a number and the id of no
// run is a TURN, and what follows it an ATTEMPT: a then says so.
func (a *Address) PickTurn(s *session.Session) (run *session.Run, turn *session.Turn, err error) {
	if _, err := strconv.ParseInt(a.Run, 10, 64); err == nil && a.Attempt == "" &&
		!slices.ContainsFunc(s.Runs, func(r *session.Run) bool { return r.ID == a.Run }) {
		a.Run, a.Turn, a.Attempt = "", a.Run, a.Turn
	}
	if a.Turn == "" {
		for _, run := range s.Runs {
			for _, t := range run.Turns {
				if t.SpanID == a.Session {
					return run, t, nil
				}
			}
		}
		return nil, nil, wrong(ErrAddress, "which turn of session %s? %s", s.ID, wantRequest)
	}
	n, err := number("turn", a.Turn)
	if err != nil {
		return nil, nil, err
	}
	if a.Run != "" {
		return a.Pick(s)
	}
	var names []string // of the runs that have the turn
	for i, r := range s.Runs {
		if t := turnOf(r, n); t != nil {
			run, turn, names = r, t, append(names, "@"+strconv.Itoa(i+1))
		}
	}
	switch len(names) {
	case 0:
		return nil, nil, wrong(store.ErrNotFound, "no turn %d in any of the %s of session %s", n, count(len(s.Runs), "run"),
			s.ID)
	case 1:
		return run, turn, nil
	}
	return nil, nil, wrong(store.ErrAmbiguous, "%d runs of session %s have a turn %d: name one of %s, such as %s/%s/%d",
		len(names), s.ID, n, some(names), a.Session, names[0], n)
}

// PickRequest returns the request of s that an address names, with its run and turn; without an attempt the last one of
// its turn.
func PickRequest(s *session.Session, a Address) (*session.Run, *session.Turn, *session.Request, error) {
	run, turn, err := a.PickTurn(s)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(turn.Requests) == 0 {
		why := "its loop reported none (docs/requests.md)"
		if c := cmp.Or(turn.Capture, run.Capture); c != spans.CaptureContent && c != spans.CaptureDigests {
			why = "content was not captured: send it with --capture content"
		} else if turn.RequestMessages > 0 || turn.RequestBytes > 0 {
			why = "its loop reported one, which did not arrive (docs/requests.md)"
		}
		return nil, nil, nil, wrong(store.ErrNotFound, "turn %d of run %s has no request: %s", turn.Index, run.ID, why)
	}
	q, err := PickAttempt(run, turn, a.Attempt)
	return run, turn, q, err
}

// PickAttempt returns the request of that attempt of a turn of run; the last one without an attempt, and nil where the
// turn has none then. It fails with ErrAddress where the attempt is no number, and with store.ErrNotFound where the
// turn has none of it.
func PickAttempt(run *session.Run, turn *session.Turn, attempt string) (*session.Request, error) {
	if attempt == "" {
		if n := len(turn.Requests); n > 0 {
			return turn.Requests[n-1], nil
		}
		return nil, nil
	}
	n, err := number("attempt", attempt)
	if err != nil {
		return nil, err
	}
	var has []string
	for _, q := range turn.Requests {
		if q.Attempt == n {
			return q, nil
		}
		has = append(has, strconv.FormatInt(q.Attempt, 10))
	}
	if len(has) == 0 {
		has = []string{"none"}
	}
	return nil, wrong(store.ErrNotFound, "no request of attempt %d in turn %d of run %s: it has %s", n, turn.Index, run.ID,
		strings.Join(has, ", "))
}

// noTurn says which turns a run has.
func noTurn(n int64, name string, run *session.Run, s *session.Session) error {
	has := "it has none"
	if n := len(run.Turns); n > 0 {
		has = fmt.Sprintf("it has %s, from %d to %d", count(n, "turn"), run.Turns[0].Index, run.Turns[n-1].Index)
	}
	return wrong(store.ErrNotFound, "no turn %d in run %s of session %s: %s", n, name, s.ID, has)
}

func number(what, s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, wrong(ErrAddress, "%s %q: want a number", what, s)
	}
	return n, nil
}

func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// some lists names, not too many of them.
func some(names []string) string {
	const most = 20
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// Narrow returns a copy of s with nothing but the run and turn asked for, all of it where run is nil, and with the
// statuses that it and its runs have at that moment. It is what `otelagent show --output json` and the API give; the
// copy shares everything else below with s, which stays as it is.
func Narrow(s *session.Session, run *session.Run, turn *session.Turn, now time.Time) *session.Session {
	out := *s
	out.Status, out.Runs = s.StatusAt(now), slices.Clone(s.Runs)
	if run != nil {
		out.Runs = []*session.Run{run}
	}
	for i, run := range out.Runs {
		r := *run
		if out.Runs[i], r.Status = &r, run.StatusAt(now); turn != nil {
			r.Turns = []*session.Turn{turn}
			r.ToolCalls, r.Compactions, r.Permissions = nil, nil, nil
		}
	}
	return &out
}
