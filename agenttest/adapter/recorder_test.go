package adapter_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// recorded plays neutral events and returns the pipeline.
func recorded(t *testing.T, events ...event.Event) *agenttest.Pipeline {
	t.Helper()
	p := agenttest.New(t)
	rec := event.NewRecorder(p.Tracer())
	for _, ev := range events {
		rec.Record(t.Context(), ev)
	}
	rec.Close(t.Context())
	rec.Record(t.Context(), &event.RunStarted{Meta: meta(0)}) // does nothing
	return p
}

// meta addresses the run r of session s at so many milliseconds; negative: untimed.
func meta(ms int) event.Meta {
	m := event.Meta{Session: "s", Run: "r"}
	if ms >= 0 {
		m.Time = stamp(ms)
	}
	return m
}

func started(ms int) *event.RunStarted { return &event.RunStarted{Meta: meta(ms)} }
func ended(ms int) *event.RunEnded     { return &event.RunEnded{Meta: meta(ms)} }
func turnStarted(ms int, index int64) *event.TurnStarted {
	return &event.TurnStarted{Meta: meta(ms), TurnInfo: writer.TurnInfo{Index: new(index)}}
}

func TestWhatIsOpenIsClosedAtTheLastTimeSeen(t *testing.T) {
	s := recorded(t, started(0), turnStarted(10, 0),
		&event.ToolStarted{Meta: meta(20), ToolCall: writer.ToolCall{ID: "c"}},
		&event.CompactionStarted{Meta: meta(30)}).Session()
	run := s.Runs[0]
	turn := run.Turns[0]
	for name, span := range map[string]session.Span{
		"run": run.Span, "turn": turn.Span, "tool call": turn.ToolCalls[0].Span, "compaction": turn.Compactions[0].Span,
	} {
		if span.Known != spans.KnownClosed {
			t.Errorf("the %s is %s, want closed", name, span.Known)
		}
	}
	if run.Status != spans.RunStatusAborted || turn.ToolCalls[0].Outcome != "" || turn.StopReason != "" {
		t.Errorf("run %s, outcome %q, stop reason %q", run.Status, turn.ToolCalls[0].Outcome, turn.StopReason)
	}
	if !s.Last.Equal(stamp(30)) {
		t.Errorf("the session was last seen at %v, want %v", s.Last, stamp(30))
	}
}

// A question and its answer are one evaluation that lasts as long as the answer took, whether anybody looks meanwhile or not. One without an
// answer asks still.
func TestAskedAndAnswered(t *testing.T) {
	asked := func(ms int, call string) event.Event {
		return &event.PermissionAsked{Meta: meta(ms), PermissionEvaluation: writer.PermissionEvaluation{Tool: "bash", CallID: call}}
	}
	s := recorded(t, started(0), turnStarted(10, 0), asked(20, "c"), asked(25, "d"), asked(26, "e"),
		&event.PermissionEvaluated{Meta: meta(320), PermissionEvaluation: writer.PermissionEvaluation{
			Tool: "bash", CallID: "c", Action: spans.ActionDeny, Option: "n"}},
		&event.PermissionEvaluated{Meta: meta(330), PermissionEvaluation: writer.PermissionEvaluation{
			Tool: "bash", CallID: "e", Action: spans.ActionAllow, Wait: time.Second}},
		ended(400)).Session()
	var got []string
	for _, p := range s.Runs[0].Turns[0].Permissions {
		got = append(got, fmt.Sprint(p.CallID, " ", p.Action, " ", time.Duration(p.WaitNS), " ", p.Start.Sub(stamp(0)), " ", p.End.Sub(stamp(0)), " ", p.Known, " ",
			p.Option))
	}
	want := []string{
		"c deny 300ms 20ms 320ms observed n", "d ask 0s 25ms 400ms closed ", "e allow 1s 26ms 330ms observed ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("call, action, wait, start, end, known, option (-want +got):\n%s", diff)
	}
}

func TestRunIDUsedAgain(t *testing.T) {
	s := recorded(t, started(0), turnStarted(1, 0), started(10), turnStarted(11, 0), ended(20)).Session()
	if len(s.Runs) != 2 || s.Runs[0].Status != spans.RunStatusAborted || s.Runs[1].Status != spans.RunStatusCompleted {
		t.Errorf("runs %+v", s.Runs)
	}
}

func TestEndWithoutStart(t *testing.T) {
	usage := &writer.Usage{Input: 1}
	for _, tt := range []struct {
		name   string
		res    writer.RunResult
		status spans.RunStatus
		defect bool
	}{
		{"vetoed", writer.RunResult{Status: spans.RunStatusVetoed}, spans.RunStatusVetoed, false},
		{"completed", writer.RunResult{Usage: usage}, spans.RunStatusCompleted, true},
		{"rejected", writer.RunResult{Rejected: true}, spans.RunStatusRejected, true},
		{"failed", writer.RunResult{Status: spans.RunStatusError}, spans.RunStatusError, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := recorded(t, &event.RunEnded{Meta: meta(5), RunResult: tt.res}).Session().Runs[0]
			if run.Status != tt.status || !run.Start.Equal(stamp(5)) {
				t.Errorf("status %s from %v", run.Status, run.Start)
			}
			if has := hasDefect(run.Defects, spans.DefectStartNotSeen); has != tt.defect {
				t.Errorf("start_not_seen is %t, want %t", has, tt.defect)
			}
		})
	}
}

func hasDefect(l []session.Defect, code spans.DefectCode) bool {
	for _, d := range l {
		if d.Code == code {
			return true
		}
	}
	return false
}

func TestHeadIsMissing(t *testing.T) {
	run := recorded(t,
		&event.ToolEnded{Meta: meta(5), CallID: "c", Name: "bash"},
		&event.TurnEnded{Meta: meta(6), TurnResult: writer.TurnResult{Usage: &writer.Usage{Output: 3}}},
		ended(7)).Session().Runs[0]
	if !hasDefect(run.Defects, spans.DefectStartNotSeen) || len(run.ToolCalls) != 1 || len(run.Turns) != 1 {
		t.Errorf("run %+v", run)
	}
	if run.Usage.Output != 3 {
		t.Errorf("usage %+v: that of the turn is lost", run.Usage)
	}
}

// Events of a replay without a time are not before the start of their run, which may be known from elsewhere than its
// event.
func TestUntimedBehindAKnownStart(t *testing.T) {
	begun := started(-1)
	begun.Start = writer.Moment{Time: stamp(20), Source: spans.TimeSourceMessage}
	run := recorded(t, begun, turnStarted(-1, 0), &event.TurnEnded{Meta: meta(50)}, ended(60)).Session().Runs[0]
	if turn := run.Turns[0]; !run.Start.Equal(stamp(20)) || !turn.Start.Equal(stamp(20)) || turn.StartSource != spans.TimeSourceBound {
		t.Errorf("the run starts at %v, its turn at %v (%s)", run.Start, turn.Start, turn.StartSource)
	}
}

func TestClockOfAReplay(t *testing.T) {
	msg := func(call string, ms int) *event.MessageAdded {
		return &event.MessageAdded{Meta: meta(-1), Message: writer.Message{
			Raw: []byte(`{}`), Role: "toolResult", ToolCallID: call, Time: stamp(ms),
		}}
	}
	tool := func(id string) *event.ToolStarted {
		return &event.ToolStarted{Meta: meta(-1), ToolCall: writer.ToolCall{ID: id}}
	}
	toolEnded := func(id string) *event.ToolEnded { return &event.ToolEnded{Meta: meta(-1), CallID: id} }
	turn := recorded(t, started(0), turnStarted(10, 0),
		&event.ReplyReceived{Meta: meta(-1), Message: writer.Message{Time: stamp(20)}},
		tool("a"), tool("b"), tool("c"),
		toolEnded("b"), msg("b", 30),
		toolEnded("a"), msg("a", 25), // out of order, yet after its start
		toolEnded("c"), // its message never comes
		&event.TurnEnded{Meta: meta(50)}, ended(60)).Session().Runs[0].Turns[0]
	for i, want := range []struct {
		end    int
		source spans.TimeSource
	}{{25, spans.TimeSourceMessage}, {30, spans.TimeSourceMessage}, {30, spans.TimeSourceBound}} {
		c := turn.ToolCalls[i]
		if !c.Start.Equal(stamp(20)) || c.StartSource != spans.TimeSourceBound {
			t.Errorf("%s starts at %v (%s)", c.ID, c.Start, c.StartSource)
		}
		if !c.End.Equal(stamp(want.end)) || c.EndSource != want.source {
			t.Errorf("%s ends at %v (%s), want %v (%s)", c.ID, c.End, c.EndSource, stamp(want.end), want.source)
		}
	}
	if turn.ModelCallNS != 0 {
		t.Errorf("a model call of %d ns was computed from times that allow none", turn.ModelCallNS)
	}
}

func TestClockOfALiveStream(t *testing.T) {
	arrived := time.Now() // with a monotonic reading, on a clock unlike the producer's
	live := func(ms int, after time.Duration) event.Meta {
		m := meta(ms)
		m.Arrived = arrived.Add(after)
		return m
	}
	turn := recorded(t,
		&event.RunStarted{Meta: live(0, 0)},
		&event.TurnStarted{Meta: live(10, 10*time.Millisecond)},
		&event.RequestPrepared{Meta: live(11, 11*time.Millisecond)},
		&event.ReplyReceived{Meta: live(-1, 100*time.Millisecond)},
		&event.ToolStarted{Meta: live(-1, 101*time.Millisecond), ToolCall: writer.ToolCall{ID: "c"}},
		&event.ToolEnded{Meta: live(-1, 151*time.Millisecond), CallID: "c"},
		&event.TurnEnded{Meta: live(160, 160*time.Millisecond)},
		&event.RunEnded{Meta: live(161, 161*time.Millisecond)}).Session().Runs[0].Turns[0]
	c := turn.ToolCalls[0]
	if !c.Start.Equal(stamp(101)) || !c.End.Equal(stamp(151)) || c.StartSource != spans.TimeSourceArrival {
		t.Errorf("the call lasts from %v (%s) to %v", c.Start, c.StartSource, c.End)
	}
	if want := (89 * time.Millisecond).Nanoseconds(); turn.ModelCallNS != want {
		t.Errorf("model call %d ns, want %d", turn.ModelCallNS, want)
	}
}

func TestCallIDUsedAgain(t *testing.T) {
	start := func(ms int) *event.ToolStarted {
		return &event.ToolStarted{Meta: meta(ms), ToolCall: writer.ToolCall{ID: "c"}}
	}
	end := func(ms int) *event.ToolEnded { return &event.ToolEnded{Meta: meta(ms), CallID: "c"} }
	run := recorded(t, started(0), turnStarted(1, 0), start(2), end(3), start(4), end(5),
		&event.TurnEnded{Meta: meta(6)}, ended(7)).Session().Runs[0]
	if l := run.Turns[0].ToolCalls; len(l) != 2 || l[0].Ordinal != 0 || l[1].Ordinal != 1 || len(run.Defects) > 0 {
		t.Errorf("calls %+v, defects %v", l, run.Defects)
	}
}

func TestSubAgentOnlyWhereCertain(t *testing.T) {
	child := &event.RunStarted{Meta: event.Meta{Session: "s2", Run: "sub", Time: stamp(30)},
		RunInfo: writer.RunInfo{ParentID: "r", ParentSessionID: "s"}}
	call := func(id string) *event.ToolStarted {
		return &event.ToolStarted{Meta: meta(20), ToolCall: writer.ToolCall{ID: id}}
	}
	spawned := func(events ...event.Event) string {
		for _, s := range recorded(t, append(events, child)...).Sessions() {
			if s.ID == "s2" {
				return s.Runs[0].ParentToolCallID
			}
		}
		return "no such run"
	}
	if got := spawned(started(0), turnStarted(1, 0), call("c1")); got != "c1" {
		t.Errorf("one open call: %q", got)
	}
	if got := spawned(started(0), turnStarted(1, 0), call("c1"), call("c2")); got != "" {
		t.Errorf("two open calls: %q", got)
	}
	if got := spawned(started(0), turnStarted(1, 0)); got != "" {
		t.Errorf("no open call: %q", got)
	}
}

func TestEventsWithoutARun(t *testing.T) {
	p := agenttest.New(t)
	rec := event.NewRecorder(p.Tracer())
	other := &event.Other{Type: "heartbeat"}
	rec.Record(t.Context(), other)
	if rec.Lost() != 1 {
		t.Errorf("%d events lost, want 1", rec.Lost())
	}
	rec.Record(t.Context(), started(0))
	rec.Record(t.Context(), other)
	rec.Record(t.Context(), ended(1))
	rec.Close(t.Context())
	if e := p.Session().Runs[0].Events; len(e) != 1 || e[0].Type != "heartbeat" || rec.Lost() != 1 {
		t.Errorf("events %+v, %d lost", e, rec.Lost())
	}
}

// Counts beyond all bounds do not become negative ones.
func TestUsageBeyondAllBounds(t *testing.T) {
	much := writer.Usage{Input: math.MaxInt64, Output: math.MaxInt64, Reasoning: 5, CacheRead: math.MaxInt64, CacheWrite: 2, Rule: spans.UsageRuleExcludesCacheAndReasoning}
	discarded := &event.AttemptDiscarded{Meta: meta(2), DiscardedAttempt: writer.DiscardedAttempt{Usage: &much}}
	turn := recorded(t, started(0), turnStarted(1, 0), discarded, discarded,
		&event.TurnEnded{Meta: meta(3), TurnResult: writer.TurnResult{Usage: &much}}, ended(4)).Session().Runs[0].Turns[0]
	if want := (session.Usage{Input: math.MaxInt64, Output: math.MaxInt64, Reasoning: 5, CacheRead: math.MaxInt64, CacheWrite: 2}); turn.Usage != want {
		t.Errorf("%+v", turn.Usage)
	}
	if want := (session.Usage{Input: math.MaxInt64, Output: math.MaxInt64, Reasoning: 10, CacheRead: math.MaxInt64, CacheWrite: 4}); *turn.Discarded != want {
		t.Errorf("%+v", *turn.Discarded)
	}
}

// An event that names no run belongs to the innermost one, where that is certain.
func TestInnermostRun(t *testing.T) {
	start := func(session, id, parentSession, parent string) event.Event {
		return &event.RunStarted{Meta: event.Meta{Session: session, Run: id, Time: stamp(0)}, RunInfo: writer.RunInfo{
			ParentSessionID: parentSession, ParentID: parent, Continuation: spans.ContinuationDefault,
		}}
	}
	call := func(session, run, id string) event.Event {
		return &event.ToolStarted{Meta: event.Meta{Session: session, Run: run, Time: stamp(1)}, ToolCall: writer.ToolCall{ID: id}}
	}
	for _, test := range []struct {
		name   string
		before []event.Event
		call   string
		want   string // the run; empty: the event is lost
	}{
		{"the only one", []event.Event{start("s", "a", "", "")}, "", "a"},
		{"a chain", []event.Event{start("s", "a", "", ""), start("s", "b", "", "a"), start("s", "c", "", "b")}, "", "c"},
		{"one that is no part of it", []event.Event{start("s", "a", "", ""), start("s", "b", "", ""), start("s", "c", "", "b")}, "", ""},
		{"a parent in another session is none of these", []event.Event{start("t", "p", "", ""), start("s", "a", "", ""), start("s", "b", "t", "p")}, "", ""},
		{"a chain through another session", []event.Event{start("s", "a", "", ""), start("t", "p", "s", "a"), start("s", "b", "t", "p")}, "", "b"},
		{"a run without an id is nobody's parent", []event.Event{start("s", "", "", ""), start("s", "b", "", "")}, "", ""},
		{"a ring next to another", []event.Event{start("s", "x", "", ""), start("s", "a", "", "b"), start("s", "b", "", "a")}, "", ""},
		{"a ring", []event.Event{start("s", "a", "", "b"), start("s", "b", "", "a")}, "", ""},
		{"by its call", []event.Event{start("s", "a", "", ""), start("s", "b", "", ""), call("s", "a", "c1")}, "c1", "a"},
		{"a call of two that have nothing in common", []event.Event{start("s", "a", "", ""), start("s", "b", "", ""), call("s", "a", "c1"), call("s", "b", "c1")}, "c1", ""},
		{"a call of two in a chain", []event.Event{
			start("s", "a", "", ""), start("s", "b", "", "a"), start("s", "c", "", "b"), call("s", "a", "c1"), call("s", "b", "c1"),
		}, "c1", "b"},
	} {
		p := agenttest.New(t)
		rec := event.NewRecorder(p.Tracer())
		for _, ev := range test.before {
			rec.Record(t.Context(), ev)
		}
		evaluated := &event.PermissionEvaluated{
			Meta: event.Meta{Session: "s", Time: stamp(2)}, PermissionEvaluation: writer.PermissionEvaluation{CallID: test.call, Action: spans.ActionAllow},
		}
		rec.Record(t.Context(), evaluated)
		rec.Close(t.Context())
		var got []string
		for _, s := range p.Sessions() {
			for _, r := range s.Runs {
				n := len(r.Permissions)
				for _, c := range r.ToolCalls {
					n += len(c.Permissions)
				}
				for range n {
					got = append(got, r.ID)
				}
			}
		}
		want := []string{test.want}
		if test.want == "" {
			want = nil
		}
		if !slices.Equal(got, want) || rec.Lost() != int64(1-len(want)) {
			t.Errorf("%s: it is in %q, %d lost, want %q", test.name, got, rec.Lost(), want)
		}
	}
}

func TestOpenRunsAreBounded(t *testing.T) {
	p := agenttest.New(t)
	rec := event.NewRecorder(p.Tracer())
	for i := range 4096 + 10 {
		rec.Record(t.Context(), &event.RunStarted{Meta: event.Meta{
			Session: "s", Run: "r" + strings.Repeat("x", i%7) + time.Duration(i).String(), Time: stamp(i),
		}})
	}
	if n := len(p.Batch().Rows); n != 10 {
		t.Errorf("%d runs were ended to make room, want 10", n)
	}
	rec.Close(t.Context())
	if n := len(p.Batch().Rows); n != 4096+10 {
		t.Errorf("%d runs in all", n)
	}
}

// in addresses a run at so many milliseconds; negative: untimed.
func in(session, run string, ms int) event.Meta {
	m := meta(ms)
	m.Session, m.Run = session, run
	return m
}

func TestLateEventsMakeNoRun(t *testing.T) {
	usage := &writer.Usage{Input: 1}
	p := agenttest.New(t)
	rec := event.NewRecorder(p.Tracer())
	late := []event.Event{
		&event.ToolProgressed{Meta: meta(-1), CallID: "c", Type: "progress"},
		&event.Other{Meta: meta(30), Type: "heartbeat"},
		&event.ToolEnded{Meta: meta(31), CallID: "c"},
		&event.TurnEnded{Meta: meta(32)},
		&event.RunEnded{Meta: meta(33), RunResult: writer.RunResult{Usage: usage}},
	}
	for _, ev := range append([]event.Event{started(0), turnStarted(1, 0),
		&event.RunEnded{Meta: meta(20), RunResult: writer.RunResult{Usage: usage}}}, late...) {
		rec.Record(t.Context(), ev)
	}
	if rec.Lost() != int64(len(late)) {
		t.Errorf("%d events lost, want %d", rec.Lost(), len(late))
	}
	rec.Close(t.Context())
	s := p.Session()
	if len(s.Runs) != 1 || s.Runs[0].Status != spans.RunStatusCompleted || !s.Runs[0].End.Equal(stamp(20)) {
		t.Errorf("runs %+v", s.Runs)
	}
}

func TestLateEventsAreNotABeginning(t *testing.T) {
	s := recorded(t, started(0), ended(20), turnStarted(30, 0), ended(40),
		&event.RunEnded{Meta: meta(50), RunResult: writer.RunResult{Status: spans.RunStatusVetoed}}).Session()
	if len(s.Runs) != 3 || !hasDefect(s.Runs[1].Defects, spans.DefectStartNotSeen) || s.Runs[2].Status != spans.RunStatusVetoed {
		t.Errorf("runs %+v: want one, one of which the start was not seen, and one that never began", s.Runs)
	}
}

func TestOneRunIDInTwoSessions(t *testing.T) {
	all := recorded(t,
		&event.RunStarted{Meta: in("a", "1", 0)}, &event.RunStarted{Meta: in("b", "1", 1)},
		&event.TurnStarted{Meta: in("a", "1", 2)}, &event.TurnStarted{Meta: in("b", "1", 3)},
		&event.TurnEnded{Meta: in("b", "1", 4)}, &event.RunEnded{Meta: in("b", "1", 5)},
		&event.TurnEnded{Meta: in("", "1", 6)}, &event.RunEnded{Meta: in("a", "1", 7)}).Sessions()
	if len(all) != 2 {
		t.Fatalf("%d sessions, want 2", len(all))
	}
	for i, end := range []int{7, 5} {
		s := all[i]
		if len(s.Runs) != 1 || s.Runs[0].Status != spans.RunStatusCompleted || len(s.Runs[0].Turns) != 1 || !s.Runs[0].End.Equal(stamp(end)) {
			t.Errorf("session %s: runs %+v", s.ID, s.Runs)
		}
	}
}

func TestJudgeIsWhoComesAfterTheMembers(t *testing.T) {
	group := &event.GroupStarted{Meta: in("s", "", 0), GroupInfo: writer.GroupInfo{Members: []string{"m1", "m2"}}}
	start := func(run string, ms int) event.Event { return &event.RunStarted{Meta: in("s", run, ms)} }
	end := func(run string, ms int) event.Event { return &event.RunEnded{Meta: in("s", run, ms)} }
	s := recorded(t, start("before", 0), group, start("early", 1), end("early", 2), start("m1", 2), start("m2", 3), end("m1", 4),
		start("sub", 5), end("sub", 6), end("m2", 7), start("judge", 8), end("judge", 9), start("after", 10),
		&event.GroupEnded{Meta: in("s", "", 20), GroupResult: writer.GroupResult{SelectedID: "m2"}}).Session()
	want := map[string]spans.GroupRole{"m1": spans.GroupRoleMember, "m2": spans.GroupRoleMember, "judge": spans.GroupRoleJudge}
	for _, r := range s.Runs {
		if r.GroupRole != want[r.ID] {
			t.Errorf("%s is %q to the group, want %q", r.ID, r.GroupRole, want[r.ID])
		}
	}
}

func TestGroupIsClosedAtTheLastTimeOfItsRuns(t *testing.T) {
	s := recorded(t, &event.GroupStarted{Meta: in("s", "", 0), GroupInfo: writer.GroupInfo{Members: []string{"m"}}},
		&event.RunStarted{Meta: in("s", "m", 1)}, &event.TurnStarted{Meta: in("s", "m", 50)}).Session()
	if g := s.Groups[0]; g.Known != spans.KnownClosed || !g.End.Equal(stamp(50)) {
		t.Errorf("the group ends at %v (%s), want %v", g.End, g.Known, stamp(50))
	}
}

func TestOneCallIDOpenTwice(t *testing.T) {
	start := func(name string, ms int) event.Event {
		return &event.ToolStarted{Meta: meta(ms), ToolCall: writer.ToolCall{ID: "c", Name: name}}
	}
	end := func(name string, ms int) event.Event {
		return &event.ToolEnded{Meta: meta(ms), CallID: "c", Name: name}
	}
	for _, tt := range []struct {
		name   string
		events []event.Event
		ends   []int // of the calls by start; negative: closed
	}{
		{"by name", []event.Event{start("read", 2), start("write", 3), end("read", 4), end("write", 5)}, []int{4, 5}},
		{"by name, other order", []event.Event{start("read", 2), start("write", 3), end("write", 4), end("read", 5)}, []int{5, 4}},
		{"of one name", []event.Event{start("read", 2), start("read", 3), end("read", 4), end("read", 5)}, []int{5, 4}},
		{"of which one has no end", []event.Event{start("read", 2), start("read", 3), end("read", 4)}, []int{-6, 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events := append([]event.Event{started(0), turnStarted(1, 0)}, tt.events...)
			run := recorded(t, append(events, &event.TurnEnded{Meta: meta(6)}, ended(7))...).Session().Runs[0]
			calls := run.Turns[0].ToolCalls
			if len(calls) != len(tt.ends) || len(run.Defects) > 0 {
				t.Fatalf("calls %+v, defects %v", calls, run.Defects)
			}
			for i, end := range tt.ends {
				known := spans.KnownObserved
				if end < 0 {
					end, known = -end, spans.KnownClosed
				}
				if c := calls[i]; !c.End.Equal(stamp(end)) || c.Known != known {
					t.Errorf("call %d ends at %v (%s), want %v (%s)", i, c.End, c.Known, stamp(end), known)
				}
			}
		})
	}
}

func TestCompactionEndsThatOfItsKind(t *testing.T) {
	turn := recorded(t, started(0), turnStarted(1, 0),
		&event.CompactionStarted{Meta: meta(2), Compaction: writer.Compaction{Kind: spans.CompactionKindSummary}},
		&event.CompactionEnded{Meta: meta(3), Compaction: writer.Compaction{Kind: spans.CompactionKindPrune},
			CompactionResult: writer.CompactionResult{TokensGone: new(int64(5))}},
		&event.CompactionEnded{Meta: meta(4), CompactionResult: writer.CompactionResult{OutputTokens: new(int64(7))}},
		&event.TurnEnded{Meta: meta(5)}, ended(6)).Session().Runs[0].Turns[0]
	c := turn.Compactions
	if len(c) != 2 || c[0].Kind != spans.CompactionKindSummary || !c[0].End.Equal(stamp(4)) ||
		c[1].Kind != spans.CompactionKindPrune || !c[1].Start.Equal(stamp(3)) {
		t.Errorf("compactions %+v", c)
	}
}

func TestRunOfTwoFilesLeavesNoGap(t *testing.T) {
	run := func(id string, ms int) []event.Event {
		return []event.Event{&event.RunStarted{Meta: in("s", id, ms)}, &event.RunEnded{Meta: in("s", id, ms+1)}}
	}
	var events []event.Event
	for range 2 {
		events = append(append(events, run("a", 0)...), run("a", 2)...)
	}
	s := recorded(t, events...).Session()
	if len(s.Runs) != 2 || s.Runs[0].Ordinal != 1 || s.Runs[1].Ordinal != 2 {
		t.Errorf("runs %+v", s.Runs)
	}
}

func TestRecorderKeepsNoFlag(t *testing.T) {
	p := agenttest.New(t)
	rec := event.NewRecorder(p.Tracer())
	truncated := true
	rec.Record(t.Context(), started(0))
	rec.Record(t.Context(), &event.ToolEnded{Meta: meta(-1), CallID: "c", ToolResult: writer.ToolResult{Truncated: &truncated}})
	truncated = false
	rec.Record(t.Context(), ended(1))
	if c := p.Session().Runs[0].ToolCalls[0]; c.Truncated == nil || !*c.Truncated {
		t.Errorf("truncated is %v, want true", c.Truncated)
	}
}

func TestMemberWhoseStartWasNotSeen(t *testing.T) {
	s := recorded(t, &event.GroupStarted{Meta: in("s", "", 0), GroupInfo: writer.GroupInfo{Members: []string{"m"}}},
		&event.TurnStarted{Meta: in("s", "m", 2)}, &event.RunStarted{Meta: in("s", "early", 3)},
		&event.RunEnded{Meta: in("s", "m", 4)}, &event.RunStarted{Meta: in("s", "judge", 5)}).Session()
	want := map[string]spans.GroupRole{"m": spans.GroupRoleMember, "judge": spans.GroupRoleJudge}
	for _, r := range s.Runs {
		if r.GroupRole != want[r.ID] {
			t.Errorf("%s is %q to the group, want %q", r.ID, r.GroupRole, want[r.ID])
		}
	}
}
