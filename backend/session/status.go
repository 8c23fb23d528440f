package session

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/otelagent/otelagent/spans"
)

// deadAfter is how many heartbeats a run may miss before it counts as dead: one can be late, one can be lost.
const deadAfter = 3

// Status of a tree or summary is a function of the rows alone, as of its last one. StatusAt also takes the time,
// since a process that was killed sends nothing more: only the time explains a difference between the two.

// StatusAt returns the status of the session at a time. It is Status, unless open runs send heartbeats (HeartbeatNS)
// and nothing arrived of the session for more than three of them. Then their process is gone, and the session is
// aborted, or has the status that a later run left. Without heartbeats Status stays, since nothing proves that a
// process ended. A zero now gives Status.
func (s Summary) StatusAt(now time.Time) spans.SessionStatus {
	if !dead(s.Last, s.HeartbeatNS, now) {
		return s.Status
	}
	return cmp.Or(s.Settled, spans.SessionStatusAborted)
}

// StatusAt returns the status of the session at a time, like Summary.StatusAt.
func (s *Session) StatusAt(now time.Time) spans.SessionStatus {
	sum := Summary{Status: s.Status, Last: s.Last, HeartbeatNS: s.heartbeat(), Settled: s.settled()}
	return sum.StatusAt(now)
}

// StatusAt returns the status of the run at a time: Status, but aborted if the run is open, sends heartbeats, and
// nothing arrived of it for more than three of them. A zero now gives Status.
func (r *Run) StatusAt(now time.Time) spans.RunStatus {
	if r.Status == spans.RunStatusOpen {
		if heartbeat, last := r.Alive(); dead(last, heartbeat, now) {
			return spans.RunStatusAborted
		}
	}
	return r.Status
}

func dead(last time.Time, heartbeatNS int64, now time.Time) bool {
	// A heartbeat comes from outside and may have any length.
	isValid := heartbeatNS > 0 && heartbeatNS <= math.MaxInt64/deadAfter
	return isValid && !now.IsZero() && now.Sub(last) > time.Duration(deadAfter*heartbeatNS)
}

// Alive returns the interval in ns at which the process of the run sends heartbeats, 0 if it sends none, and the latest
// time seen of the run.
func (r *Run) Alive() (heartbeatNS int64, last time.Time) {
	for n := range r.Walk() {
		s := n.Span()
		heartbeatNS = max(heartbeatNS, s.HeartbeatNS)
		for _, t := range [...]time.Time{s.Start, s.End, s.Seen} {
			last = later(last, t)
		}
	}
	return heartbeatNS, last
}

// open reports whether the run is open as of the last time seen of the session: not if it then missed three heartbeats.
func (s *Session) open(r *Run) bool { return r.StatusAt(s.Last) == spans.RunStatusOpen }

// heartbeat returns the longest interval, in ns, between heartbeats of open runs; 0 if none sends any.
func (s *Session) heartbeat() int64 {
	var longest int64
	for _, r := range s.Runs {
		if r.Status == spans.RunStatusOpen && s.open(r) {
			heartbeat, _ := r.Alive()
			longest = max(longest, heartbeat)
		}
	}
	return longest
}

// status returns the status of the session as of Last.
func (s *Session) status() spans.SessionStatus {
	open, asked := false, false
	var latest *Run // of those that are open
	for _, r := range s.Runs {
		if r.Status != spans.RunStatusOpen || !s.open(r) {
			continue
		}
		open, latest = true, r
		if len(r.Waiting()) > 0 {
			return spans.SessionStatusWaitingOnApproval
		}
		asked = asked || slices.ContainsFunc(r.Turns, func(t *Turn) bool {
			return t.Known == spans.KnownLive && t.Waiting == spans.WaitingUserInput
		})
	}
	switch {
	case !open:
		return s.after()
	case asked:
		return spans.SessionStatusWaitingOnUserInput
	case latest.retrying():
		return spans.SessionStatusRetrying
	}
	return spans.SessionStatusBusy
}

// settled is the status of the session once its open runs count as dead; empty if none is open, and if it is aborted.
func (s *Session) settled() spans.SessionStatus {
	if !slices.ContainsFunc(s.Runs, func(r *Run) bool { return r.Status == spans.RunStatusOpen }) {
		return ""
	}
	if after := s.after(); after != spans.SessionStatusAborted {
		return after
	}
	return ""
}

// after is the status that the last run left. One that is open counts as dead.
func (s *Session) after() spans.SessionStatus {
	if len(s.Runs) == 0 {
		return spans.SessionStatusIdle
	}
	switch s.Runs[len(s.Runs)-1].Status {
	case spans.RunStatusError:
		return spans.SessionStatusError
	case spans.RunStatusAborted, spans.RunStatusOpen:
		return spans.SessionStatusAborted
	}
	return spans.SessionStatusIdle
}

// retrying reports whether the run asks the model of its last turn again, or waits to do so: it discarded an attempt or
// began another one, and has no whole reply.
func (r *Run) retrying() bool {
	n := len(r.Turns)
	if n == 0 {
		return false
	}
	t := r.Turns[n-1]
	return t.Known == spans.KnownLive && (t.Attempts > 1 || t.DiscardedAttempts > 0) && !t.Replied
}

// isUnanswered reports whether the evaluation asked for a decision and has no answer. The answer to a question that is
// over may be elsewhere; see [Run.Waiting].
func (p *Permission) isUnanswered() bool {
	hasAnswer := p.Outcome != "" || p.Option != "" || p.DecidedBy != "" || p.WaitNS != 0
	return p.Known == spans.KnownLive || p.Action == spans.ActionAsk && !hasAnswer
}

// Waiting returns the permission evaluations of the run that wait for an answer, as far as the rows show, in no
// particular order; nil if there are none. A question ends with its tool call, turn and run, except for a call
// without an outcome in the last turn: that ended blocked. One that was recorded as a moment, and not as open, also
// ends with the next evaluation of the same call.
func (r *Run) Waiting() []*Permission {
	if r.Status != spans.RunStatusOpen {
		return nil
	}
	var waiting []*Permission
	from := func(calls []*ToolCall, permissions []*Permission) {
		waiting = appendWaiting(waiting, permissions)
		for _, c := range calls {
			if c.End.IsZero() {
				waiting = appendWaiting(waiting, c.Permissions)
			}
		}
	}
	from(r.ToolCalls, r.Permissions)
	for i, t := range r.Turns {
		last := i == len(r.Turns)-1
		switch {
		case t.End.IsZero() && (!t.Missing || last): // one whose span did not come is over when the next one is there
			from(t.ToolCalls, t.Permissions)
		case last && !t.Failed: // turns of the guide end blocked, and the run waits
			for _, c := range t.ToolCalls {
				if c.Outcome == "" && c.Known != spans.KnownLive {
					waiting = appendWaiting(waiting, slices.DeleteFunc(slices.Clone(c.Permissions), func(p *Permission) bool {
						return p.Known == spans.KnownLive
					}))
				}
			}
		}
	}
	return waiting
}

// appendWaiting appends those of one turn or call, which are in the order of their starts, that wait.
func appendWaiting(waiting, l []*Permission) []*Permission {
	later := map[string]bool{} // calls that are evaluated again
	for _, p := range slices.Backward(l) {
		if p.isUnanswered() && (p.Known == spans.KnownLive || p.Known == spans.KnownObserved && !later[p.CallID]) {
			waiting = append(waiting, p)
		}
		later[p.CallID] = p.CallID != ""
	}
	return waiting
}
