package session

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/spans"
)

const heartbeat = 15 * time.Second

// sketch adds rows that a text describes, with semicolons between them: KIND RUN START END, and attributes KEY=VALUE
// without the prefix otelagent. A row without an end has the time after "…" as its last sign; "live" gives heartbeats.
// The turn is 0.
func (s *synth) sketch(text string) {
	kinds := map[string]Kind{"run": KindRun, "turn": KindTurn, "call": KindToolCall, "permission": KindPermission}
	starts := map[string]int64{}
	for _, row := range strings.Split(text, "; ") {
		f := strings.Fields(row)
		start, _ := strconv.ParseInt(f[2], 10, 64)
		end, isOpen := strings.CutPrefix(f[3], "…")
		last, _ := strconv.ParseInt(end, 10, 64)
		turn := int64(0)
		if f[0] == "run" {
			turn, starts[f[1]] = NoTurn, start
		}
		var kv []any
		for _, attr := range f[4:] {
			key, value, _ := strings.Cut(attr, "=")
			switch n, err := strconv.Atoi(value); {
			case key == "live":
				kv = append(kv, "otelagent.live.heartbeat", heartbeat.Nanoseconds())
			case key == "call":
				kv = append(kv, "gen_ai.tool.call.id", value)
			case err == nil:
				kv = append(kv, "otelagent."+key, n)
			default:
				kv = append(kv, "otelagent."+key, value)
			}
		}
		r := s.add(kinds[f[0]], f[1], at(starts[f[1]]), turn, at(start), at(last), kv...)
		if isOpen {
			r.Known = spans.KnownLive
		}
	}
}

func TestStatusAt(t *testing.T) {
	const (
		idle, busy, retrying = spans.SessionStatusIdle, spans.SessionStatusBusy, spans.SessionStatusRetrying
		waiting, aborted     = spans.SessionStatusWaitingOnApproval, spans.SessionStatusAborted
		killed               = "run a 0 …10 live; "
	)
	for _, c := range []struct {
		name, rows string
		// then is the status as of the last row, after that of three heartbeats and 1 ns later.
		then, after spans.SessionStatus
	}{
		{"gives no heartbeats", "run a 0 …10", busy, busy},
		{"killed", "run a 0 …10 live", busy, aborted},
		{"in its second attempt", killed + "turn a 1 …5 live turn.attempts=2", retrying, aborted},
		{"waits", killed + "permission a 1 …5 live permission.action=ask", waiting, aborted},
		{"the copy of a question outlived its turn",
			killed + "turn a 1 5; permission a 2 …4 live permission.action=ask", busy, aborted},
		{"asked, and no more", killed + "turn a 1 …5; permission a 2 2 permission.action=ask call=c", waiting, aborted},
		{"asked, then allowed", killed + "turn a 1 …5; permission a 2 2 permission.action=ask call=c; " +
			"permission a 3 3 permission.action=allow call=c ordinal=1", busy, aborted},
		{"asked, in a turn that is over", killed + "turn a 1 5; permission a 2 2 permission.action=ask", busy, aborted},
		{"an attempt was discarded, and the next has not begun", killed + "turn a 1 …5 live attempts.discarded=1",
			retrying, aborted},
		{"the second attempt was answered with a tool call",
			killed + "turn a 1 …5 live turn.attempts=2 replied=true; call a 4 …5 call=c", busy, aborted},
		{"waits for its user", killed + "turn a 1 …5 live waiting=user_input turn.attempts=2",
			spans.SessionStatusWaitingOnUserInput, aborted},
		{"another run soon after", killed + "run b 20 30 run.status=completed", busy, idle},
		{"another run much later", killed + "run b 20 60000 run.status=completed", idle, idle},
		{"waited, and one at work much later",
			killed + "permission a 1 …5 live permission.action=ask; run b 60000 …60010 live", busy, aborted},
		{"a sub-agent tries again while its parent waits for it",
			killed + "run b 5 …10 live; turn b 6 …9 live turn.attempts=3", retrying, aborted},
		{"heartbeats of what is over mean nothing", "run a 0 …10; turn a 1 5 live", busy, busy},
		{"a heartbeat beyond all bounds", "run a 0 …10 live.heartbeat=4611686018427387904", busy, busy},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &synth{session: Key{ID: "s1"}}
			s.sketch(c.rows)
			tree := Assemble(s.rows)
			sum := Summarize(tree)
			const bound = deadAfter * heartbeat
			for now, want := range map[time.Time]spans.SessionStatus{
				{}: c.then, tree.Last: c.then, tree.Last.Add(-time.Hour): c.then, tree.Last.Add(bound): c.then,
				tree.Last.Add(bound + 1): c.after, tree.Last.AddDate(90, 0, 0): c.after,
			} {
				if got, of := tree.StatusAt(now), sum.StatusAt(now); got != want || of != want {
					t.Errorf("%v: %s, of the summary %s, want %s: %+v", now, got, of, want, sum)
				}
			}
			if tree.Status != c.then || sum.Status != c.then {
				t.Errorf("status %s, summary %s, want %s", tree.Status, sum.Status, c.then)
			}
		})
	}
}

func TestRunStatusAt(t *testing.T) {
	s := &synth{session: Key{ID: "s1"}}
	s.sketch("run a 0 …10 live; call a 5 20") // a call that ended after the last copy of the run left
	run := Assemble(s.rows).Runs[0]
	for after, want := range map[int64]spans.RunStatus{0: spans.RunStatusOpen, 1: spans.RunStatusAborted} {
		if got := run.StatusAt(nsTime(at(20) + 3*heartbeat.Nanoseconds() + after)); got != want {
			t.Errorf("%d ns after three heartbeats: %s, want %s", after, got, want)
		}
	}
}
