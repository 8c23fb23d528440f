package otelagent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
)

// recorded plays neutral events and returns the pipeline.
func recorded(t *testing.T, events ...otelagent.Event) *agenttest.Pipeline {
	t.Helper()
	p := agenttest.New(t)
	rec := otelagent.NewRecorder(p.Tracer())
	for _, ev := range events {
		rec.Record(t.Context(), ev)
	}
	rec.Close(t.Context())
	rec.Record(t.Context(), &otelagent.RunStarted{Meta: meta(0)}) // does nothing
	return p
}

// meta addresses the run r of session s at so many milliseconds; negative: untimed.
func meta(ms int) otelagent.Meta {
	m := otelagent.Meta{Session: "s", Run: "r"}
	if ms >= 0 {
		m.Time = stamp(ms)
	}
	return m
}

func started(ms int) *otelagent.RunStarted { return &otelagent.RunStarted{Meta: meta(ms)} }
func ended(ms int) *otelagent.RunEnded     { return &otelagent.RunEnded{Meta: meta(ms)} }
func turnStarted(ms int, index int64) *otelagent.TurnStarted {
	return &otelagent.TurnStarted{Meta: meta(ms), TurnInfo: otelagent.TurnInfo{Index: index}}
}

func TestWhatIsOpenIsClosedAtTheLastTimeSeen(t *testing.T) {
	s := recorded(t, started(0), turnStarted(10, 0),
		&otelagent.ToolStarted{Meta: meta(20), ToolCall: otelagent.ToolCall{ID: "c"}},
		&otelagent.CompactionStarted{Meta: meta(30)}).Session()
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

func TestRunIDUsedAgain(t *testing.T) {
	s := recorded(t, started(0), turnStarted(1, 0), started(10), turnStarted(11, 0), ended(20)).Session()
	if len(s.Runs) != 2 || s.Runs[0].Status != spans.RunStatusAborted || s.Runs[1].Status != spans.RunStatusCompleted {
		t.Errorf("runs %+v", s.Runs)
	}
}

func TestEndWithoutStart(t *testing.T) {
	usage := &otelagent.Usage{Input: 1}
	for _, tt := range []struct {
		name   string
		res    otelagent.RunResult
		status spans.RunStatus
		defect bool
	}{
		{"vetoed", otelagent.RunResult{Usage: &otelagent.Usage{}}, spans.RunStatusVetoed, false},
		{"completed", otelagent.RunResult{Usage: usage}, spans.RunStatusCompleted, true},
		{"rejected", otelagent.RunResult{Rejected: true}, spans.RunStatusRejected, true},
		{"failed", otelagent.RunResult{Status: spans.RunStatusError}, spans.RunStatusError, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := recorded(t, &otelagent.RunEnded{Meta: meta(5), RunResult: tt.res}).Session().Runs[0]
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
		&otelagent.ToolEnded{Meta: meta(5), CallID: "c", Name: "bash"},
		&otelagent.TurnEnded{Meta: meta(6), TurnResult: otelagent.TurnResult{Usage: &otelagent.Usage{Output: 3}}},
		ended(7)).Session().Runs[0]
	if !hasDefect(run.Defects, spans.DefectStartNotSeen) || len(run.ToolCalls) != 1 || len(run.Turns) != 1 {
		t.Errorf("run %+v", run)
	}
	if run.Usage.Output != 3 {
		t.Errorf("usage %+v: that of the turn is lost", run.Usage)
	}
}

func TestClockOfAReplay(t *testing.T) {
	msg := func(call string, ms int) *otelagent.MessageAdded {
		return &otelagent.MessageAdded{Meta: meta(-1), Message: otelagent.Message{
			Raw: []byte(`{}`), Role: "toolResult", ToolCallID: call, Time: stamp(ms),
		}}
	}
	tool := func(id string) *otelagent.ToolStarted {
		return &otelagent.ToolStarted{Meta: meta(-1), ToolCall: otelagent.ToolCall{ID: id}}
	}
	toolEnded := func(id string) *otelagent.ToolEnded { return &otelagent.ToolEnded{Meta: meta(-1), CallID: id} }
	turn := recorded(t, started(0), turnStarted(10, 0),
		&otelagent.ReplyReceived{Meta: meta(-1), Message: otelagent.Message{Time: stamp(20)}},
		tool("a"), tool("b"), tool("c"),
		toolEnded("b"), msg("b", 30),
		toolEnded("a"), msg("a", 25), // out of order, yet after its start
		toolEnded("c"), // its message never comes
		&otelagent.TurnEnded{Meta: meta(50)}, ended(60)).Session().Runs[0].Turns[0]
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
	live := func(ms int, after time.Duration) otelagent.Meta {
		m := meta(ms)
		m.Arrived = arrived.Add(after)
		return m
	}
	turn := recorded(t,
		&otelagent.RunStarted{Meta: live(0, 0)},
		&otelagent.TurnStarted{Meta: live(10, 10*time.Millisecond)},
		&otelagent.RequestPrepared{Meta: live(11, 11*time.Millisecond)},
		&otelagent.ReplyReceived{Meta: live(-1, 100*time.Millisecond)},
		&otelagent.ToolStarted{Meta: live(-1, 101*time.Millisecond), ToolCall: otelagent.ToolCall{ID: "c"}},
		&otelagent.ToolEnded{Meta: live(-1, 151*time.Millisecond), CallID: "c"},
		&otelagent.TurnEnded{Meta: live(160, 160*time.Millisecond)},
		&otelagent.RunEnded{Meta: live(161, 161*time.Millisecond)}).Session().Runs[0].Turns[0]
	c := turn.ToolCalls[0]
	if !c.Start.Equal(stamp(101)) || !c.End.Equal(stamp(151)) || c.StartSource != spans.TimeSourceArrival {
		t.Errorf("the call lasts from %v (%s) to %v", c.Start, c.StartSource, c.End)
	}
	if want := (89 * time.Millisecond).Nanoseconds(); turn.ModelCallNS != want {
		t.Errorf("model call %d ns, want %d", turn.ModelCallNS, want)
	}
}

func TestCallIDUsedAgain(t *testing.T) {
	start := func(ms int) *otelagent.ToolStarted {
		return &otelagent.ToolStarted{Meta: meta(ms), ToolCall: otelagent.ToolCall{ID: "c"}}
	}
	end := func(ms int) *otelagent.ToolEnded { return &otelagent.ToolEnded{Meta: meta(ms), CallID: "c"} }
	run := recorded(t, started(0), turnStarted(1, 0), start(2), end(3), start(4), end(5),
		&otelagent.TurnEnded{Meta: meta(6)}, ended(7)).Session().Runs[0]
	if l := run.Turns[0].ToolCalls; len(l) != 2 || l[0].Ordinal != 0 || l[1].Ordinal != 1 || len(run.Defects) > 0 {
		t.Errorf("calls %+v, defects %v", l, run.Defects)
	}
}

func TestSubAgentOnlyWhereCertain(t *testing.T) {
	child := &otelagent.RunStarted{Meta: otelagent.Meta{Session: "s2", Run: "sub", Time: stamp(30)},
		RunInfo: otelagent.RunInfo{ParentID: "r", ParentSessionID: "s"}}
	call := func(id string) *otelagent.ToolStarted {
		return &otelagent.ToolStarted{Meta: meta(20), ToolCall: otelagent.ToolCall{ID: id}}
	}
	spawned := func(events ...otelagent.Event) string {
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
	rec := otelagent.NewRecorder(p.Tracer())
	other := &otelagent.Other{Type: "heartbeat"}
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

func TestOpenRunsAreBounded(t *testing.T) {
	p := agenttest.New(t)
	rec := otelagent.NewRecorder(p.Tracer())
	for i := range 4096 + 10 {
		rec.Record(t.Context(), &otelagent.RunStarted{Meta: otelagent.Meta{
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
