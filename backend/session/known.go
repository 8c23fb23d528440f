package session

import (
	"slices"
	"time"

	"github.com/otelagent/otelagent/spans"
)

// firstTime is the earliest time, in seconds since 1970, that a source may state. Recordings without times begin in
// 1970 (docs/fidelity.md), and captures that count from their own beginning stay near it; no agent ran before 2001.
const firstTime = 1e9

// TimeKnown reports whether a source stated t: it is neither the zero time nor one of the first years from 1970 on, in
// which recordings without times begin. It is for times without a source, as in sessions and summaries; see StartKnown
// and EndKnown of a Span.
func TimeKnown(t time.Time) bool { return t.Unix() >= firstTime }

// StartKnown reports whether Start is known: a source stated it, or it is a bound that follows from stated times.
func (s *Span) StartKnown() bool { return isStated(s.Start, s.StartSource) }

// EndKnown is StartKnown of End.
func (s *Span) EndKnown() bool { return isStated(s.End, s.EndSource) }

func isStated(t time.Time, source spans.TimeSource) bool {
	// A recording without times happens in the first second of 1970.
	return !t.IsZero() && (source != spans.TimeSourceBound || t.Unix() != 0)
}

// StartKnown reports whether the session's Start is known, as StartKnown of the run that began then.
func (s *Session) StartKnown() bool {
	return TimeKnown(s.Start) || slices.ContainsFunc(s.Runs, func(r *Run) bool {
		return r.Start.Equal(s.Start) && r.StartKnown()
	})
}

// How the end of a span is known.
const (
	EndOpen    = "open"    // there is none yet
	EndClosed  = "closed"  // none was seen
	EndMissing = "missing" // the span did not arrive
)

// EndState returns how the end of the span is known; empty where its source stated it.
func (s *Span) EndState() string {
	switch {
	case s.Missing:
		return EndMissing
	case s.Known == spans.KnownClosed:
		return EndClosed
	case s.Known == spans.KnownLive || s.End.IsZero():
		return EndOpen
	}
	return ""
}

// CallOf returns the one of calls that a reply asks for by an id and a name, nil if there is none: that of the id, else
// the first of the name where a source does not state the id. Calls of other programs have their name in its place.
func CallOf(calls []*ToolCall, id, name string) (found *ToolCall) {
	for _, c := range calls {
		switch {
		case id != "" && c.ID == id:
			return c
		case found == nil && c.Name == name && (id == "" || c.ID == "" || c.ID == name):
			found = c
		}
	}
	return found
}

// LastRequest returns the request of the last attempt, which was answered; nil where none is known.
func (t *Turn) LastRequest() *Request {
	if len(t.Requests) == 0 {
		return nil
	}
	return t.Requests[len(t.Requests)-1]
}

// Utility reports whether the turn is no part of the conversation.
func (t *Turn) Utility() bool { return t.Purpose == spans.PurposeUtility }

// Conversation returns the turns of the run but for utility turns.
func (r *Run) Conversation() []*Turn {
	if !slices.ContainsFunc(r.Turns, (*Turn).Utility) {
		return r.Turns
	}
	return slices.DeleteFunc(slices.Clone(r.Turns), (*Turn).Utility)
}

// UsageReported reports whether the turn's tokens were reported. Where they were not, the counts of Usage are zero and
// say nothing.
func (t *Turn) UsageReported() bool { return t.Reported != nil || t.Usage != Usage{} }

// UsageReported reports whether the tokens of any turn of the run, or of the run as a whole, were reported.
func (r *Run) UsageReported() bool {
	return r.RollUp != nil || r.Reported != nil || r.Usage != (Usage{}) ||
		slices.ContainsFunc(r.Turns, (*Turn).UsageReported)
}

// UsageReported reports whether the tokens of any run of the session were reported. Usage is the sum of what was.
func (s *Session) UsageReported() bool { return slices.ContainsFunc(s.Runs, (*Run).UsageReported) }

// UsageReported reports whether any token of the session was reported. A summary does not keep which zeros were: one
// whose turns all report zeros counts as one that reports none.
func (s *Summary) UsageReported() bool { return s.Usage != Usage{} }
