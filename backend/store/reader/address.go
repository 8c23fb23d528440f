package reader

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
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

// Address is SESSION[/RUN[/TURN]] in its parts; empty ones are not given. RUN is an id or @n, the n-th run from 1; TURN
// is an index.
type Address struct{ Session, Run, Turn string }

// ParseAddress parts an address whose SESSION has no slashes in it; Reader.Locate knows those that have.
func ParseAddress(s string) (Address, error) {
	parts := strings.Split(s, "/")
	if len(parts) > 3 || parts[0] == "" {
		return Address{}, wrong(ErrAddress, "address %q: want SESSION[/RUN[/TURN]]", s)
	}
	parts = append(parts, "", "")
	return Address{parts[0], parts[1], parts[2]}, nil
}

// Pick returns the run and turn that an address names; nil where it names none.
func (a Address) Pick(s *session.Session) (*session.Run, *session.Turn, error) {
	if a.Run == "" {
		return nil, nil, nil
	}
	var run *session.Run
	if n, ok := strings.CutPrefix(a.Run, "@"); ok {
		i, err := strconv.Atoi(n)
		if err != nil || i < 1 || i > len(s.Runs) {
			return nil, nil, wrong(store.ErrNotFound, "no run %s: session %s has %d, @1 is the first", a.Run, s.ID, len(s.Runs))
		}
		run = s.Runs[i-1]
	} else {
		var numbers []string
		for i, r := range s.Runs {
			if r.ID == a.Run {
				run, numbers = r, append(numbers, "@"+strconv.Itoa(i+1))
			}
		}
		if len(numbers) > 1 {
			return nil, nil, wrong(store.ErrAmbiguous, "%d runs of session %s have the id %q: name one by its number: %s",
				len(numbers), s.ID, a.Run, some(numbers))
		}
		if run == nil {
			return nil, nil, wrong(store.ErrNotFound, "no run %q in session %s; @1 is the first of its %s", a.Run, s.ID,
				count(len(s.Runs), "run"))
		}
	}
	if a.Turn == "" {
		return run, nil, nil
	}
	n, err := number("turn", a.Turn)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range run.Turns {
		if t.Index == n {
			return run, t, nil
		}
	}
	return nil, nil, noTurn(n, a.Run, run, s)
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
// status that it has at that moment. It is what `otelagent show --output json` and the API give; the copy shares everything
// below with s, which stays as it is.
func Narrow(s *session.Session, run *session.Run, turn *session.Turn, now time.Time) *session.Session {
	out := *s
	out.Status = s.StatusAt(now)
	if run == nil {
		return &out
	}
	r := *run
	if turn != nil {
		r.Turns = []*session.Turn{turn}
		r.ToolCalls, r.Compactions, r.Permissions = nil, nil, nil
	}
	out.Runs = []*session.Run{&r}
	return &out
}
