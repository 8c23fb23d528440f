package session

import (
	"time"

	"github.com/otelagent/otelagent/spans"
)

// firstTime is the time, in seconds since 1970, from which on a time can be one that somebody told. Recordings that tell none begin in 1970 (docs/fidelity.md),
// and captures that count from their own beginning stay near it; no agent ran before 2001.
const firstTime = 1e9

// TimeTold reports whether t is a date that somebody told: it is neither the zero time nor one of the first years from 1970 on, at which
// recordings begin that tell no times. It is for what has no source beside its time, as sessions and summaries; of a Span ask StartTold and EndTold.
func TimeTold(t time.Time) bool { return t.Unix() >= firstTime }

// StartTold reports whether Start is known at all: it was told, or is a bound that follows from times that were told.
func (s *Span) StartTold() bool { return told(s.Start, s.StartSource) }

// EndTold is StartTold of End.
func (s *Span) EndTold() bool { return told(s.End, s.EndSource) }

func told(t time.Time, source spans.TimeSource) bool {
	return !t.IsZero() && (source != spans.TimeSourceBound || t.Unix() != 0) // the second in which a recording that tells no time happens
}

// StartTold reports whether the session's Start is known at all, as StartTold of the run that began then.
func (s *Session) StartTold() bool {
	if TimeTold(s.Start) {
		return true
	}
	for _, r := range s.Runs {
		if r.Start.Equal(s.Start) && r.StartTold() {
			return true
		}
	}
	return false
}

// UsageTold reports whether the turn's tokens were reported. Where they were not, the counts of Usage are zero and say nothing.
func (t *Turn) UsageTold() bool { return t.Reported != nil || t.Usage != Usage{} }

// UsageTold reports whether the tokens of any turn of the run, or of the run as a whole, were reported.
func (r *Run) UsageTold() bool {
	if r.RollUp != nil || r.Reported != nil || r.Usage != (Usage{}) {
		return true
	}
	for _, t := range r.Turns {
		if t.UsageTold() {
			return true
		}
	}
	return false
}

// UsageTold reports whether the tokens of any run of the session were reported. Usage is the sum of what was.
func (s *Session) UsageTold() bool {
	for _, r := range s.Runs {
		if r.UsageTold() {
			return true
		}
	}
	return false
}

// UsageTold reports whether any token of the session was reported. A summary does not keep which zeros were: one whose turns all report zeros
// counts as one that reports none.
func (s *Summary) UsageTold() bool { return s.Usage != Usage{} }
