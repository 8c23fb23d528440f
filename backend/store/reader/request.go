package reader

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// RequestAddress is SESSION[/RUN]/TURN[/ATTEMPT] in its parts; empty ones are not given. First and Second are two words
// after SESSION that are RUN/TURN or TURN/ATTEMPT: that depends on the runs there are.
type RequestAddress struct {
	Session, Run, Turn, Attempt string
	First, Second               string
}

const wantRequest = "want SESSION[/RUN]/TURN[/ATTEMPT]"

// ParseRequestAddress parts an address whose SESSION has no slashes in it.
func ParseRequestAddress(s string) (RequestAddress, error) {
	parts := strings.Split(s, "/")
	a := RequestAddress{Session: parts[0]}
	switch len(parts) {
	case 1: // the span id of a turn
	case 2:
		a.Turn = parts[1]
	case 3:
		a.First, a.Second = parts[1], parts[2]
	case 4:
		a.Run, a.Turn, a.Attempt = parts[1], parts[2], parts[3]
	}
	for _, p := range parts {
		if p == "" || len(parts) > 4 {
			return a, wrong(ErrAddress, "request %q: %s", s, wantRequest)
		}
	}
	if a.Second != "" {
		_, err := number("turn or attempt", a.Second)
		return a, err
	}
	return a, a.Numbers()
}

// Numbers checks the parts that are numbers.
func (a *RequestAddress) Numbers() error {
	if a.Turn != "" {
		if _, err := number("turn", a.Turn); err != nil {
			return err
		}
	}
	if a.Attempt != "" {
		if _, err := number("attempt", a.Attempt); err != nil {
			return err
		}
	}
	return nil
}

// PickRequest returns the request of s that an address names, with its run and turn; without an attempt the last one of
// its turn.
func PickRequest(s *session.Session, a RequestAddress) (*session.Run, *session.Turn, *session.Request, error) {
	run, turn, err := a.Pick(s)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(turn.Requests) == 0 {
		why := "its loop told none (docs/requests.md)"
		if c := cmp.Or(turn.Capture, run.Capture); c != spans.CaptureContent && c != spans.CaptureDigests {
			why = "content was not captured: send it with --capture content"
		} else if turn.RequestMessages > 0 || turn.RequestBytes > 0 {
			why = "its loop told one, which did not arrive (docs/requests.md)"
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

// place is a turn and its run.
type place struct {
	run  *session.Run
	turn *session.Turn
}

// Pick returns the turn that an address names, and its run. Which of First and Second is what it settles in a.
func (a *RequestAddress) Pick(s *session.Session) (*session.Run, *session.Turn, error) {
	if a.First != "" {
		a.Run, a.Turn = a.First, a.Second
		_, err := strconv.ParseInt(a.First, 10, 64)
		if err == nil && !hasRun(s, a.First) {
			a.Run, a.Turn, a.Attempt = "", a.First, a.Second
		}
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
	if a.Run != "" {
		run, _, err := Address{Session: a.Session, Run: a.Run}.Pick(s)
		if err != nil {
			return nil, nil, err
		}
		search(run, a.Run)
		if len(found) == 0 {
			return nil, nil, noTurn(n, a.Run, run, s)
		}
	} else {
		for i, run := range s.Runs {
			search(run, "@"+strconv.Itoa(i+1))
		}
	}
	switch {
	case len(found) == 1:
		return found[0].run, found[0].turn, nil
	case len(found) == 0:
		return nil, nil, wrong(store.ErrNotFound, "no turn %d in any of the %s of session %s", n, count(len(s.Runs), "run"),
			s.ID)
	case len(names) > 1:
		return nil, nil, wrong(store.ErrAmbiguous, "%d runs of session %s have a turn %d: name one of %s, such as %s/%s/%d",
			len(names), s.ID, n, some(names), a.Session, names[0], n)
	}
	return nil, nil,
		wrong(store.ErrAmbiguous, "run %s of session %s has %d turns of index %d: name one by its span id, %s", names[0],
			s.ID, len(found), n, some(spanIDs))
}

func hasRun(s *session.Session, id string) bool {
	for _, r := range s.Runs {
		if r.ID == id {
			return true
		}
	}
	return false
}
