package session

import (
	"testing"
	"time"

	"github.com/otelagent/otelagent/spans"
)

const heartbeat = 15 * time.Second

func TestStatusAt(t *testing.T) {
	beat := func(kv ...any) []any { return append(kv, "otelagent.live.heartbeat", heartbeat.Nanoseconds()) }
	open := func(s *synth, run string, start, seen int64, kv ...any) *Row {
		r := s.add(KindRun, run, at(start), NoTurn, at(start), at(seen), kv...)
		r.Known = spans.KnownLive
		return r
	}
	over := func(s *synth, run string, start, end int64, status string) {
		s.add(KindRun, run, at(start), NoTurn, at(start), at(end), "otelagent.run.status", status)
	}
	const (
		idle, busy, retrying, waiting, failed, aborted = spans.SessionStatusIdle, spans.SessionStatusBusy,
			spans.SessionStatusRetrying,
			spans.SessionStatusWaitingOnApproval, spans.SessionStatusError, spans.SessionStatusAborted
	)
	for _, c := range []struct {
		name string
		add  func(*synth)
		// then is the status as of the last row, after that of three heartbeats and 1 ns later.
		then, after spans.SessionStatus
	}{
		{"gives no heartbeats", func(s *synth) { open(s, "a", 0, 10) }, busy, busy},
		{"killed", func(s *synth) { open(s, "a", 0, 10, beat()...) }, busy, aborted},
		{"killed in its second attempt", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			s.add(KindTurn, "a", at(0), 0, at(1), at(5), beat("otelagent.turn.attempts", 2)...).Known = spans.KnownLive
		}, retrying, aborted},
		{"killed while it waited", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			s.add(KindPermission, "a", at(0), 0, at(1), at(5), beat("otelagent.permission.action",
				"ask")...).Known = spans.KnownLive
		}, waiting, aborted},
		{"the copy of a question outlived its turn", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			s.add(KindTurn, "a", at(0), 0, at(1), at(5))
			s.add(KindPermission, "a", at(0), 0, at(2), at(4), beat("otelagent.permission.action",
				"ask")...).Known = spans.KnownLive
		}, busy, aborted},
		{"asked, and no more", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			s.add(KindTurn, "a", at(0), 0, at(1), at(5)).Known = spans.KnownLive
			s.add(KindPermission, "a", at(0), 0, at(2), at(2), "otelagent.permission.action", "ask",
				"gen_ai.tool.call.id", "c")
		}, waiting, aborted},
		{"asked, then allowed", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			s.add(KindTurn, "a", at(0), 0, at(1), at(5)).Known = spans.KnownLive
			s.add(KindPermission, "a", at(0), 0, at(2), at(2), "otelagent.permission.action", "ask",
				"gen_ai.tool.call.id", "c")
			s.add(KindPermission, "a", at(0), 0, at(3), at(3), "otelagent.permission.action", "allow",
				"gen_ai.tool.call.id", "c", "otelagent.ordinal", 1)
		}, busy, aborted},
		{"asked, in a turn that is over", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			s.add(KindTurn, "a", at(0), 0, at(1), at(5))
			s.add(KindPermission, "a", at(0), 0, at(2), at(2), "otelagent.permission.action", "ask")
		}, busy, aborted},
		{"an attempt was discarded, and the next has not begun", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			s.add(KindTurn, "a", at(0), 0, at(1), at(5), beat("otelagent.attempts.discarded",
				1)...).Known = spans.KnownLive
		}, retrying, aborted},
		{"the second attempt was answered with a tool call", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			s.add(KindTurn, "a", at(0), 0, at(1), at(5), beat("otelagent.turn.attempts", 2, "otelagent.replied",
				true)...).Known = spans.KnownLive
			s.add(KindToolCall, "a", at(0), 0, at(4), at(5), "gen_ai.tool.call.id", "c").Known = spans.KnownLive
		}, busy, aborted},
		{"killed while it waited for its user", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			s.add(KindTurn, "a", at(0), 0, at(1), at(5), beat("otelagent.waiting", "user_input",
				"otelagent.turn.attempts", 2)...).Known = spans.KnownLive
		}, spans.SessionStatusWaitingOnUserInput, aborted},
		{"killed, and another run soon after", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			over(s, "b", 20, 30, "completed")
		}, busy, idle},
		{"killed, and another run much later", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			over(s, "b", 20, 60_000, "completed")
		}, idle, idle},
		{"killed while it waited, and one at work much later", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			s.add(KindPermission, "a", at(0), 0, at(1), at(5), beat("otelagent.permission.action",
				"ask")...).Known = spans.KnownLive
			open(s, "b", 60_000, 60_010, beat()...)
		}, busy, aborted},
		{"a sub-agent tries again while its parent waits for it", func(s *synth) {
			open(s, "a", 0, 10, beat()...)
			open(s, "b", 5, 10, beat()...)
			s.add(KindTurn, "b", at(5), 0, at(6), at(9), beat("otelagent.turn.attempts", 3)...).Known = spans.KnownLive
		}, retrying, aborted},
		{"heartbeats of what is over mean nothing", func(s *synth) {
			open(s, "a", 0, 10)
			s.add(KindTurn, "a", at(0), 0, at(1), at(5), beat()...)
		}, busy, busy},
		{"a heartbeat beyond all bounds", func(s *synth) {
			open(s, "a", 0, 10, "otelagent.live.heartbeat", int64(1)<<62)
		}, busy, busy},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &synth{session: Key{ID: "s1"}}
			c.add(s)
			tree := Assemble(s.rows)
			sum := Summarize(tree)
			const bound = deadAfter * heartbeat
			for _, x := range []struct {
				name string
				now  time.Time
				want spans.SessionStatus
			}{
				{"no time", time.Time{}, c.then},
				{"the last row", tree.Last, c.then},
				{"before it", tree.Last.Add(-time.Hour), c.then},
				{"the bound", tree.Last.Add(bound), c.then},
				{"beyond the bound", tree.Last.Add(bound + 1), c.after},
				{"years later", tree.Last.AddDate(90, 0, 0), c.after},
			} {
				if got := tree.StatusAt(x.now); got != x.want {
					t.Errorf("%s: %s, want %s", x.name, got, x.want)
				}
				if got := sum.StatusAt(x.now); got != x.want {
					t.Errorf("%s: the summary says %s, want %s: %+v", x.name, got, x.want, sum)
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
	s.add(KindRun, "a", at(0), NoTurn, at(0), at(10), "otelagent.live.heartbeat",
		heartbeat.Nanoseconds()).Known = spans.KnownLive
	s.add(KindToolCall, "a", at(0), 0, at(5), at(20)) // ended after the last copy of the run left
	run := Assemble(s.rows).Runs[0]
	for after, want := range map[int64]spans.RunStatus{0: spans.RunStatusOpen, 1: spans.RunStatusAborted} {
		if got := run.StatusAt(nsTime(at(20) + 3*heartbeat.Nanoseconds() + after)); got != want {
			t.Errorf("%d ns after three heartbeats: %s, want %s", after, got, want)
		}
	}
}
