package main

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/session"
)

func parseTraceID(s string) (session.TraceID, error) {
	var id session.TraceID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("trace id %q: want %d hexadecimal digits", s, 2*len(id))
	}
	return session.TraceID(b), nil
}

// address is SESSION[/RUN[/TURN]] in its parts; empty ones are not given.
type address struct{ session, run, turn string }

// parseAddress parts an address whose SESSION has no slashes in it; database.locate knows those that have.
func parseAddress(s string) (address, error) {
	parts := strings.Split(s, "/")
	if len(parts) > 3 || parts[0] == "" {
		return address{}, usagef("address %q: want SESSION[/RUN[/TURN]]", s)
	}
	parts = append(parts, "", "")
	return address{parts[0], parts[1], parts[2]}, nil
}

// pick returns the run and turn that an address names; nil where it names none.
func (a address) pick(s *session.Session) (*session.Run, *session.Turn, error) {
	if a.run == "" {
		return nil, nil, nil
	}
	var run *session.Run
	if n, ok := strings.CutPrefix(a.run, "@"); ok {
		i, err := strconv.Atoi(n)
		if err != nil || i < 1 || i > len(s.Runs) {
			return nil, nil, fmt.Errorf("no run %s: session %s has %d, @1 is the first", a.run, s.ID, len(s.Runs))
		}
		run = s.Runs[i-1]
	} else {
		var numbers []string
		for i, r := range s.Runs {
			if r.ID == a.run {
				run, numbers = r, append(numbers, "@"+strconv.Itoa(i+1))
			}
		}
		if len(numbers) > 1 {
			return nil, nil, fmt.Errorf("%d runs of session %s have the id %q: name one by its number: %s", len(numbers), s.ID, a.run, some(numbers))
		}
		if run == nil {
			return nil, nil, fmt.Errorf("no run %q in session %s; @1 is the first of its %s", a.run, s.ID, count(len(s.Runs), "run"))
		}
	}
	if a.turn == "" {
		return run, nil, nil
	}
	n, err := strconv.ParseInt(a.turn, 10, 64)
	if err != nil {
		return nil, nil, usagef("turn %q: want a number", a.turn)
	}
	for _, t := range run.Turns {
		if t.Index == n {
			return run, t, nil
		}
	}
	return nil, nil, noTurn(n, a.run, run, s)
}

// noTurn says which turns a run has.
func noTurn(n int64, name string, run *session.Run, s *session.Session) error {
	has := "it has none"
	if n := len(run.Turns); n > 0 {
		has = fmt.Sprintf("it has %s, from %d to %d", count(n, "turn"), run.Turns[0].Index, run.Turns[n-1].Index)
	}
	return fmt.Errorf("no turn %d in run %s of session %s: %s", n, name, s.ID, has)
}
