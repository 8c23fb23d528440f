package inspect_test

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	if got != string(want) {
		t.Errorf("%s differs; go -C backend test ./inspect -update, then look at the change\n--- got\n%s", path, got)
	}
}

// render draws a tree, as drawn does.
func render(t *testing.T, tree session.Tree, o inspect.Options) string {
	t.Helper()
	return drawn(t, o.Width, func(w io.Writer) error { return inspect.Text(w, tree, o) })
}

func at(ms int) time.Time {
	return time.Date(2026, 11, 21, 2, 15, 53, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

func span(from, to int) session.Span {
	s := session.Span{Known: spans.KnownObserved, Start: at(from)}
	if to > 0 {
		s.End = at(to)
	}
	return s
}

func p[T any](v T) *T { return &v }

// odd is a session of everything that a recorded one seldom has.
func odd() (session.Tree, []session.Tree) {
	evil := "rm -rf / \x1b[2J\x1b]0;pwned\x07\nsecond line \u202egnp.exe"
	bodies := map[string]string{
		"user": `{"role":"user","content":[{"type":"text","text":"日本語の質問です。とても長いので、この行は端末の幅で切られるはずです。そうでなければ困ります。"}]}`,
		"ext":  `{"role":"extension","kind":"operator_notice","data":{"banner":"storm warning","severity":3}}`,
		"reply": `{"role":"assistant","content":[{"type":"thinking","thinking":"hm\nhm"},` +
			`{"type":"text","text":"` + strings.Repeat(
			"long ",
			60,
		) + `"}]}`,
		"args":   `{"command":"rm -rf / \u001b[2J","depth":2}`,
		"result": `{"content":[{"type":"text","text":"no\r\n\tsuch\u0007 thing"}]}`,
		"prog":   `{"text":"50 %"}`,
		"system": `"You are careful."`,
	}
	blocks := &session.BlockSet{}
	for _, b := range bodies {
		blocks.Add(session.Block{Body: b})
	}
	ref := func(name string) session.Ref { // one that has no body names a block that is not there
		return session.Ref{Block: spans.BlockOfString(bodies[name]).Short().String()}
	}
	refs := func(names ...string) *session.Refs {
		var items []session.Ref
		for _, n := range names {
			items = append(items, ref(n))
		}
		return session.NewRefs(items...)
	}
	system, progress := ref("system"), ref("prog")
	system.Provenance = "system"
	s := &session.Session{
		Tenant: "acme", ID: "sess-\x1b[31m1", MadeUp: true, Status: spans.SessionStatusWaitingOnApproval,
		Agent: "coder", Dialect: "phi-core", Service: "shop", Start: at(0), Last: at(3_900_000),
		Usage:   session.Usage{Input: 1_234_567, Output: 45_678, Reasoning: 12_000, CacheRead: 900_000, CacheWrite: 1234},
		Defects: []session.Defect{{Code: spans.DefectRunMissing, Detail: "run 3"}},
	}
	call := &session.ToolCall{
		Span: span(
			300,
			1500,
		), ID: "c1", Name: "bash", Outcome: spans.OutcomeError, Args: refs("args"), Result: refs("result"),
		Truncated: p(true), Remarks: session.Remarks{Events: []session.Note{{Type: "ProgressMessage", Body: &progress}}},
		Permissions: []*session.Permission{{Span: span(300, 310), Tool: "bash", CallID: "c1", Action: spans.ActionAllow,
			Source: spans.PermissionSourceProject, Pattern: evil, DecidedBy: "ada", WaitNS: 12e9}},
	}
	first := &session.Run{
		Span: span(0, 5000), ID: "loop-1", Model: "gpt-5", Status: spans.RunStatusCompleted, StatusWord: "done",
		Usage: session.Usage{Input: 1_200_000, Output: 45_000, Reasoning: 12_000},
		Turns: []*session.Turn{
			{
				Span: span(10, 1600), Index: 0, Trigger: spans.TriggerSubAgent, Model: "gpt-5", Answered: "gpt-5-mini",
				StopReason: "tool_use", Attempts: 3, Cost: p(0.0123), Currency: "USD",
				Usage:    session.Usage{Input: 12_345, Output: 678, CacheRead: 9000},
				Requests: []*session.Request{{Params: session.NewRefs(system)}},
				Input:    refs("user", "ext", "gone"), Output: refs("reply"),
				ToolCalls: []*session.ToolCall{call,
					{Span: span(300, 300), ID: "c2", Name: "write_file", Outcome: spans.OutcomeSkipped},
					{Span: span(300, 400), ID: "c3", Name: "web", Outcome: spans.OutcomeCancelled},
					{Span: span(300, 400), ID: "c4", Name: "odd", Outcome: "exploded"},
					{Span: session.Span{Missing: true}, ID: "c5"},
					{Span: span(310, 900), ID: "c6", Name: "ask_sub", Outcome: spans.OutcomeOK, ChildRunID: "loop-2"},
				},
				Remarks: session.Remarks{Defects: []session.Defect{{Code: spans.DefectToolCallMissing, Detail: "call c5"}}},
			},
			{Span: session.Span{Missing: true, Start: at(2000)}, Index: 1},
			{
				Span: span(3000, 4000), Index: 2, Trigger: spans.TriggerContinuation, Failed: true, StopReason: "error",
				Error: "overloaded:\n" + evil,
			},
		},
		Compactions: []*session.Compaction{
			{
				Span:          span(2500, 2600),
				Kind:          spans.CompactionKindPrune,
				Removed:       []string{"a", "b"},
				RemovedTokens: p(int64(900)),
				Applied:       p(false),
			},
		},
		Remarks: session.Remarks{Events: []session.Note{{Type: "NewThing"}}},
	}
	child := &session.Run{
		Span: span(320, 890), ID: "loop-2", ParentID: "loop-1", ParentToolCallID: "c6", Status: spans.RunStatusVetoed,
		Agent: "helper", Permissions: []*session.Permission{{Span: span(321, 321), Target: spans.PermissionTargetInput,
			Action: spans.ActionAsk, Reason: "PII"}},
	}
	open := &session.Run{
		Span: session.Span{Known: spans.KnownLive, Start: at(3_890_000)}, ID: "loop-3", ParentID: "loop-1",
		Continuation: spans.ContinuationRerun, Status: spans.RunStatusOpen,
		Turns: []*session.Turn{{Span: session.Span{Known: spans.KnownLive, Start: at(3_890_001)}, Trigger: spans.TriggerUser,
			ToolCalls: []*session.ToolCall{
				{Span: session.Span{Known: spans.KnownLive, Start: at(3_900_000)}, ID: "c9", Name: "bash"},
			}}},
	}
	member := func(id string, from int, role spans.GroupRole) *session.Run {
		return &session.Run{
			Span:       span(from, from+500),
			ID:         id,
			GroupStart: at(6000),
			GroupRole:  role,
			Status:     spans.RunStatusCompleted,
		}
	}
	s.Runs = []*session.Run{
		first,
		child,
		member("m1", 6001, spans.GroupRoleMember),
		member("m2", 6002, spans.GroupRoleMember),
		member("j", 6600, spans.GroupRoleJudge),
		open,
	}
	s.Groups = []*session.Group{
		{Span: span(6000, 7200), Members: []string{"m1", "m2"}, SelectedID: "m2", Status: spans.RunStatusCompleted,
			Evaluation: &session.ReportedUsage{Input: 100, Output: 5}},
	}

	// A sub-agent that names its parent run only, and claims to be its own parent besides.
	other := &session.Session{ID: "sub", Runs: []*session.Run{{Span: span(3100, 3200), ID: "sub.1", ParentID: "loop-1",
		ParentSessionID: s.ID, Status: spans.RunStatusError, Error: "boom", Usage: session.Usage{Input: 5}}}}
	return session.Tree{Session: s, Blocks: blocks}, []session.Tree{{Session: other}}
}

func TestOdd(t *testing.T) {
	tree, related := odd()
	o := inspect.Options{Width: 80, Now: at(4_000_000), Related: related}
	golden(t, "odd-80.txt", render(t, tree, o))
	o.Width = 160
	golden(t, "odd-160.txt", render(t, tree, o))
	o.Width = 40
	golden(t, "odd-40.txt", render(t, tree, o))
	for _, w := range []int{40, 57, 99, 100, 133, 300} {
		o.Width = w
		render(t, tree, o)
	}
}

// A turn alone is shown with the whole of what was said.
func TestTurnWhole(t *testing.T) {
	body := func(text string) string { return `{"role":"user","content":"` + text + `"}` }
	blocks, items := &session.BlockSet{}, []session.Ref{}
	for i := range 20 {
		b := body(fmt.Sprint(i) + strings.Repeat(" word", 2000) + " last" + fmt.Sprint(i) + "!")
		blocks.Add(session.Block{Body: b})
		items = append(items, session.Ref{Block: spans.BlockOfString(b).Short().String()})
	}
	turn := &session.Turn{Span: span(0, 1), Input: session.NewRefs(items...)}
	run := &session.Run{Span: span(0, 1), ID: "r", Turns: []*session.Turn{turn}}
	tree := session.Tree{Session: &session.Session{ID: "s", Start: at(0), Runs: []*session.Run{run}}, Blocks: blocks}
	all := render(t, tree, inspect.Options{Width: 80})
	if strings.Contains(all, "last0!") || !strings.Contains(all, "and 12 more messages") ||
		!strings.Contains(all, "a turn alone is whole, such as\ns/@1/0") {
		t.Errorf("a session shows what fits:\n%s", all)
	}
	whole := render(t, tree, inspect.Options{Width: 80, Run: run, Turn: turn})
	for i := range 20 {
		if !strings.Contains(whole, fmt.Sprintf(" last%d!", i)) {
			t.Errorf("the end of message %d is not shown", i)
		}
	}
	if strings.Contains(whole, "…") {
		t.Error("something was cut")
	}
}

// Events of one type that follow each other share a line, unless one turn is drawn alone.
func TestEventsInARow(t *testing.T) {
	note := func(typ string) session.Note { return session.Note{Type: typ} }
	turn := &session.Turn{ToolCalls: []*session.ToolCall{{Name: "ls", Remarks: session.Remarks{Events: []session.Note{
		note("hook"), note("hook"), note("hook"), note("other"), note("hook"),
	}}}}}
	s := &session.Session{ID: "s", Runs: []*session.Run{{ID: "r", Turns: []*session.Turn{turn}}}}
	events := func(o inspect.Options) (lines []string) {
		for line := range strings.Lines(render(t, session.Tree{Session: s}, o)) {
			if _, event, ok := strings.Cut(line, "event"); ok {
				lines = append(lines, strings.TrimSpace(event))
			}
		}
		return lines
	}
	if got := events(inspect.Options{Width: 80}); !slices.Equal(got, []string{"hook ×3", "other", "hook"}) {
		t.Errorf("of a session: %q", got)
	}
	if got := events(inspect.Options{Width: 80, Run: s.Runs[0], Turn: turn}); len(got) != 5 {
		t.Errorf("of one turn: %q", got)
	}
}

// Nothing may hang on runs that name each other.
func TestCycle(t *testing.T) {
	call := func(child string) []*session.ToolCall {
		return []*session.ToolCall{{Span: span(1, 2), ID: "c", ChildRunID: child}}
	}
	s := &session.Session{ID: "s", Start: at(0), Runs: []*session.Run{
		{Span: span(0, 1), ID: "a", ToolCalls: call("b")}, {Span: span(0, 1), ID: "b", ToolCalls: call("a")}}}
	got := render(t, session.Tree{Session: s}, inspect.Options{Width: 80})
	if strings.Count(got, "run 1") != 1 || strings.Count(got, "run 2") != 1 {
		t.Errorf("each run must stand there once:\n%s", got)
	}
}

// Loops reuse run ids: each call gets the run of its own time.
func TestReusedChildID(t *testing.T) {
	run := &session.Run{Span: span(0, 100), ID: "main"}
	for i := range 2 {
		run.ToolCalls = append(
			run.ToolCalls,
			&session.ToolCall{Span: span(10+20*i, 20+20*i), ID: "c", Name: "sub", ChildRunID: "sub.1"},
		)
	}
	main := &session.Session{ID: "s", Start: at(0), Runs: []*session.Run{run}}
	sub := &session.Session{
		ID:   "sub",
		Runs: []*session.Run{{Span: span(11, 12), ID: "sub.1"}, {Span: span(31, 33), ID: "sub.1"}},
	}
	got := render(t, session.Tree{Session: main}, inspect.Options{Width: 80, Related: []session.Tree{{Session: sub}}})
	first, second := strings.Index(got, "sub-agent run 1"), strings.Index(got, "sub-agent run 2")
	calls := strings.LastIndex(got, "· sub c")
	if first < 0 || second < 0 || first > calls || second < calls {
		t.Errorf("each call must have its own run:\n%s", got)
	}
}

func TestColor(t *testing.T) {
	tree, related := odd()
	var plain, colored strings.Builder
	o := inspect.Options{Width: 100, Related: related}
	must.Do(t, inspect.Text(&plain, tree, o))
	o.Color = true
	must.Do(t, inspect.Text(&colored, tree, o))
	stripped := colored.String()
	for _, code := range []string{"0", "1", "2", "31", "32", "33", "35", "36"} {
		stripped = strings.ReplaceAll(stripped, "\x1b["+code+"m", "")
	}
	if stripped != plain.String() {
		t.Error("colour must change nothing but colour")
	}
	if colored.Len() == plain.Len() {
		t.Error("no colour")
	}
}
