package inspect_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// The user message is shown where the loop states only its request; the reply before it in the request is not.
func TestStatedByRequest(t *testing.T) {
	blocks := &session.BlockSet{}
	messages := list(
		blocks,
		`{"role":"assistant","content":"an earlier reply"}`,
		`{"role":"user","content":"what is in the file?"}`,
	)
	messages.Complete, messages.Count = true, 2
	turn := &session.Turn{Span: span(0, 1), Requests: []*session.Request{{Messages: messages}}}
	run := &session.Run{Span: span(0, 1), ID: "r", Turns: []*session.Turn{turn}}
	tree := session.Tree{
		Blocks:  blocks,
		Session: &session.Session{ID: "s", Start: at(0), Last: at(1), Runs: []*session.Run{run}},
	}
	var followed bytes.Buffer
	must.Do(t, inspect.NewFollower(&followed, inspect.Options{}).Write(tree, nil, nil, at(1), true))
	for _, got := range []string{render(t, tree, inspect.Options{Width: 80}), followed.String()} {
		if !strings.Contains(got, "user    what is in the file?\n") || strings.Contains(got, "earlier") {
			t.Errorf("the user's message alone must be there:\n%s", got)
		}
	}
}

// untold is a span of a recording without times.
func untold(ns int64) session.Span {
	return session.Span{
		Known: spans.KnownObserved, Start: time.Unix(0, ns).UTC(), End: time.Unix(0, ns+1).UTC(),
		StartSource: spans.TimeSourceBound, EndSource: spans.TimeSourceBound,
	}
}

// Unknown times, tokens and agents are not zeros; reported zeros are.
func TestNotStated(t *testing.T) {
	turn := &session.Turn{
		Span:      untold(1),
		Index:     0,
		ToolCalls: []*session.ToolCall{{Span: untold(2), ID: "c", Name: "bash", Outcome: spans.OutcomeOK}},
	}
	zero := &session.Turn{Span: untold(3), Index: 1, Reported: &session.ReportedUsage{}}
	run := &session.Run{Span: untold(0), ID: "r", Status: spans.RunStatusCompleted, Turns: []*session.Turn{turn}}
	s := &session.Session{
		ID:      "s",
		Dialect: "clark-agent",
		Status:  spans.SessionStatusIdle,
		Start:   run.Start,
		Last:    zero.End,
		Runs:    []*session.Run{run},
	}
	now := at(0)
	want := `session  s
status   idle · 1 run · 1 turn · 1 tool call
agent    not named · clark-agent
time     not stated
tokens   not reported

                                                            took      in     out
run 1 · completed                                                      -       -
│  id      r
│  rules   not recorded
└─ turn 0                                                              -       -
   └─ ✓ bash c
`
	if diff := cmp.Diff(want, render(t, session.Tree{Session: s}, inspect.Options{Width: 80, Now: now})); diff != "" {
		t.Error(diff)
	}
	if wide := render(t, session.Tree{Session: s}, inspect.Options{Width: 200, Now: now}); strings.Contains(wide, "┈") ||
		strings.Contains(wide, "+") {
		t.Errorf("bars and times of what has none:\n%s", wide)
	}
	run.Turns = append(run.Turns, zero)
	got := render(t, session.Tree{Session: s}, inspect.Options{Width: 80, Now: now})
	for _, line := range []string{"tokens   0 in · 0 out\n",
		"turn 0                                                              -       -\n",
		"turn 1                                                              0       0\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
	var log bytes.Buffer
	must.Do(t, inspect.NewFollower(&log, inspect.Options{}).Write(session.Tree{Session: s}, nil, nil, now,
		true))
	if got := log.String(); !strings.Contains(got, "         turn 0\n") ||
		!strings.Contains(got, "         turn 1 · 0 in · 0 out\n") {
		t.Errorf("followed:\n%s", got)
	}
}

// That the session was archived is at its status.
func TestFactsInTheHead(t *testing.T) {
	blocks := &session.BlockSet{}
	fact := func(subject, key, value string) session.Fact {
		blocks.Add(session.Block{Body: value})
		return session.Fact{
			Subject: subject,
			Key:     key,
			At:      at(0),
			Value:   &session.Ref{Block: spans.BlockOfString(value).Short().String()},
		}
	}
	s := &session.Session{
		ID:     "s",
		Agent:  "code",
		Status: spans.SessionStatusIdle,
		Start:  at(0),
		Last:   at(1),
		Facts: []session.Fact{
			fact(
				"message/m",
				"system_prompt_digest",
				`"0075"`,
			), fact("session", "acp.initialize", `{"params":{"protocolVersion":1}}`),
			fact(
				"session",
				"archived_at",
				`"2026-11-21T02:15:53Z"`,
			), fact("session", "mode", `"ask"`), fact("session", "model", "null"),
			fact("session", "updated_at", `"2026-11-21T02:15:53Z"`),
		},
	}
	head := func() string {
		head, _, _ := strings.Cut(render(t, session.Tree{Session: s, Blocks: blocks}, inspect.Options{Width: 80}), "\n\n")
		return head
	}
	want := "status   idle · archived at 02:15:53.000 UTC · 0 runs · 0 turns · 0 tool calls"
	if got := head(); !strings.Contains(got, want) || strings.Contains(got, "null") {
		t.Errorf("%s", got)
	}
	s.Facts = append(s.Facts[:2], fact("session", "archived_at", "null"))
	if got := head(); strings.Contains(got, "archived") {
		t.Errorf("%s", got)
	}
}

// Where no word is shown it is said why.
func TestNothingSaid(t *testing.T) {
	blocks := &session.BlockSet{}
	turn := &session.Turn{Span: span(1, 2), Capture: spans.CaptureNone}
	run := &session.Run{
		Span:    span(0, 3),
		ID:      "r",
		Status:  spans.RunStatusCompleted,
		Capture: spans.CaptureNone,
		Turns:   []*session.Turn{turn},
	}
	tree := session.Tree{
		Session: &session.Session{ID: "s", Start: at(0), Last: at(3), Runs: []*session.Run{run}},
		Blocks:  blocks,
	}
	last := func() string {
		got := render(t, tree, inspect.Options{Width: 80})
		return got[strings.LastIndex(strings.TrimSuffix(got, "\n"), "\n")+1:]
	}
	if got := last(); !strings.Contains(got, "WithCapture do.") {
		t.Errorf("not captured: %q", got)
	}
	run.Capture, turn.Capture = spans.CaptureContent, spans.CaptureContent
	if got := last(); !strings.HasPrefix(got, "└─ turn 0") {
		t.Errorf("captured, and nothing said: %q", got)
	}
}

// What need not be wrong is a note, and a run known from its children only is open in plain words.
func TestObservationsAreNotes(t *testing.T) {
	run := &session.Run{ID: "r", Status: spans.RunStatusOpen, Turns: []*session.Turn{}}
	run.Missing, run.Start = true, at(0)
	run.Defects = []session.Defect{{Code: spans.DefectChildNotSeen}}
	s := &session.Session{ID: "s", Runs: []*session.Run{run}, Defects: []session.Defect{{Code: spans.DefectChildNotSeen}}}
	out := render(t, session.Tree{Session: s}, inspect.Options{Width: 80})
	if strings.Contains(out, "defect") || strings.Count(out, "note") != 2 ||
		!strings.Contains(out, "no end yet") {
		t.Error(out)
	}
}

// The header counts what was denied as the summary does: tool calls and inputs.
func TestDeniedInputsAreCounted(t *testing.T) {
	run := &session.Run{ID: "r", Status: spans.RunStatusRejected, Turns: []*session.Turn{},
		Permissions: []*session.Permission{{Action: spans.ActionDeny, Target: spans.PermissionTargetInput}}}
	out := render(
		t,
		session.Tree{Session: &session.Session{ID: "s", Runs: []*session.Run{run}}},
		inspect.Options{Width: 80},
	)
	if !strings.Contains(out, "1 input denied") {
		t.Error(out)
	}
}
