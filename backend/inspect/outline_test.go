package inspect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// asJSON returns what the API gives, with span ids, which are made by chance, taken out.
func asJSON(t *testing.T, trees []session.Tree, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	must.Do(t, enc.Encode(v))
	text := b.String()
	for _, tree := range trees {
		for i, run := range tree.Runs {
			for j, turn := range run.Turns {
				text = strings.ReplaceAll(text, turn.SpanID, fmt.Sprintf("span-%d-%d", i, j))
			}
			text = strings.ReplaceAll(text, run.TraceID, "trace")
		}
	}
	return text
}

// Outlines and turns of recordings of the real crate, whole.
func TestOutlines(t *testing.T) {
	const scenarios = "../../dialects/phi/testdata/phi-core-0.15.2/"
	for name, path := range map[string]string{
		"demo":       "../../cmd/otelagent/demo.ndjson",
		"branch":     scenarios + "continue-rerun-branch.events.ndjson",
		"compaction": scenarios + "compaction-in-turn.events.ndjson",
		"denied":     scenarios + "tool-denied-by-hook.events.ndjson",
		"retry":      scenarios + "retry-succeeds.events.ndjson",
		"killed":     scenarios + "killed.events.ndjson",
		"parallel":   scenarios + "parallel-with-judge.events.ndjson",
		"sub-agent":  scenarios + "sub-agent-host-wired.events.ndjson",
	} {
		t.Run(name, func(t *testing.T) {
			trees := recorded(t, path, otelagent.CaptureContent)
			v := inspect.NewView(trees[0], trees[1:])
			golden(t, "outline/"+name+".json", asJSON(t, trees, v.Outline(7, nil, time.Time{})))
			golden(t, "outline/"+name+"-turns.json", asJSON(t, trees, v.Turns(0, 100, 200, time.Time{})))
		})
	}
}

// documents compares documents by what they show.
var documents = cmpopts.IgnoreUnexported(inspect.TurnView{}, inspect.Body{}, inspect.MessageText{}, inspect.CallView{},
	inspect.PermissionView{}, inspect.CompactionView{}, inspect.EventView{})

// For every recording, the outline adds up to the summary, and a turn is the same alone, on a page of its own and among
// others, but for whether its requests are exact. A terminal of any width has room for it.
func TestTurnsOfPages(t *testing.T) {
	paths, err := filepath.Glob("../../dialects/phi/testdata/phi-core-*/*.events.ndjson")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	if testing.Short() {
		paths = paths[:5]
	}
	for _, path := range paths {
		trees := recorded(t, path, otelagent.CaptureContent)
		for i, tree := range trees {
			related := append(trees[:i:i], trees[i+1:]...)
			for _, width := range []int{40, 80, 200} {
				render(t, tree, inspect.Options{Width: width, Related: related})
			}
			v := inspect.NewView(tree, related)
			o, calls := v.Outline(1, nil, time.Time{}), int64(0)
			for _, c := range o.Tools {
				calls += int64(c.Calls)
			}
			want := session.Summarize(tree.Session)
			want.Title = tree.Title(tree.Blocks)
			if diff := cmp.Diff(want, o.Summary); diff != "" || calls != want.ToolCalls || v.Len() != int(want.Turns) {
				t.Errorf("%s: %d calls, %d turns: %s", path, calls, v.Len(), diff)
			}
			all := v.Turns(0, v.Len()+1, 1<<20, time.Time{})
			var turns []*session.Turn
			for _, run := range tree.Runs {
				turns = append(turns, run.Turns...)
			}
			for k := range all {
				alone, page := v.Turn(turns[k], 1<<20, time.Time{}), v.Turns(k, 1, 1<<20, time.Time{})
				for j, q := range turns[k].Requests {
					r := &alone.Requests[j]
					if exact := q.Payload(tree.Blocks).Exact; r.Exact == nil || *r.Exact != exact {
						t.Errorf("%s turn %d request %d: exact is %v, want %v", path, k, j, r.Exact, exact)
					}
					r.Exact, r.Missing, r.Bytes = nil, 0, all[k].Requests[j].Bytes
				}
				if diff := cmp.Diff([]*inspect.TurnView{all[k], all[k]}, append(page, alone), documents); diff != "" {
					t.Errorf("%s turn %d: %s", path, k, diff)
				}
				if diff := cmp.Diff(o.Turns[k], alone.OutlineTurn); diff != "" {
					t.Errorf("%s turn %d in the outline: %s", path, k, diff)
				}
			}
			if v.Turn(nil, 1, time.Time{}) != nil || v.Turn(&session.Turn{}, 1, time.Time{}) != nil ||
				len(v.Turns(len(all), 10, 1, time.Time{})) != 0 || len(v.Turns(-5, 0, 1, time.Time{})) != 0 {
				t.Errorf("%s: there are turns where none are", path)
			}
		}
	}
}

// Bodies are cut at a character, and say so.
func TestViewCutsBodies(t *testing.T) {
	trees := recorded(t, "../../cmd/otelagent/demo.ndjson", otelagent.CaptureContent)
	v := inspect.NewView(trees[0], nil)
	cut := 0
	for n := range 60 {
		for _, turn := range v.Turns(0, 100, n, time.Time{}) {
			for _, s := range append(turn.Input, turn.Output...) {
				if len(s.Text.Text) > n || s.Text.Cut != (s.Text.Bytes > int64(len(s.Text.Text))) ||
					strings.ToValidUTF8(s.Text.Text, "") != s.Text.Text {
					t.Fatalf("%d: %+v", n, s.Text)
				}
				if s.Text.Cut {
					cut++
				}
			}
		}
	}
	if cut == 0 {
		t.Error("nothing was cut")
	}
}

// Without content nothing is invented, and what is not there has a word.
func TestViewWithoutContent(t *testing.T) {
	for _, capture := range []otelagent.Capture{otelagent.CaptureNone, otelagent.CaptureDigests} {
		trees := recorded(t, "../../cmd/otelagent/demo.ndjson", capture)
		v := inspect.NewView(trees[0], trees[1:])
		o := v.Outline(1, nil, time.Time{})
		if o.Captured {
			t.Errorf("%v: captured", capture)
		}
		for i, turn := range v.Turns(0, 100, 1000, time.Time{}) {
			if turn.Text != "" && turn.Error == "" {
				t.Errorf("%v: turn %d says %q", capture, i, turn.Text)
			}
			for _, s := range append(turn.Input, turn.Output...) {
				if s.Text.Text != "" || s.Text.State != inspect.StateNotCaptured && s.Text.State != inspect.StateWithheld {
					t.Errorf("%v: turn %d: %+v", capture, i, s)
				}
			}
			for _, c := range turn.ToolCalls {
				if c.Input != nil && (c.Input.Text != "" || c.Input.State == "") {
					t.Errorf("%v: turn %d: %+v", capture, i, c.Input)
				}
			}
		}
	}
}

// An open session whose process is silent for too long is aborted in the outline, and so is its run.
func TestOutlineStatus(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	s := &session.Session{ID: "s", Status: spans.SessionStatusBusy, Start: at, Last: at, Runs: []*session.Run{{
		ID: "r", Status: spans.RunStatusOpen, Span: session.Span{Start: at, Known: spans.KnownLive,
			HeartbeatNS: int64(time.Second)},
		Turns: []*session.Turn{{
			Span: session.Span{
				Start: at,
				Known: spans.KnownLive,
			}, ToolCalls: []*session.ToolCall{{ID: "c", Span: session.Span{Start: at, Known: spans.KnownLive}}},
		}},
	}}}
	v := inspect.NewView(session.Tree{Session: s}, nil)
	for after, want := range map[time.Duration][3]string{time.Second: {"busy", "open", "open"},
		time.Minute: {"aborted", "aborted", "closed"}} {
		o := v.Outline(1, nil, at.Add(after))
		if string(o.Status) != want[0] || string(o.Runs[0].Status) != want[1] {
			t.Errorf("after %s: %s, %s, want %v", after, o.Status, o.Runs[0].Status, want)
		}
		turn := v.Turns(0, 1, 1, at.Add(after))[0] // what is open of a run that is gone is frozen
		if got := []string{o.Turns[0].State, o.Turns[0].Calls[0].State, turn.State, turn.Calls[0].State,
			turn.ToolCalls[0].State}; slices.ContainsFunc(
			got,
			func(s string) bool { return s != want[2] },
		) {
			t.Errorf("after %s: %v, want %s", after, got, want[2])
		}
	}
}

// Sessions that name this one, and are not among the related ones, are its children.
func TestOutlineChildren(t *testing.T) {
	trees := recorded(t, "../../cmd/otelagent/demo.ndjson", otelagent.CaptureNone)
	v := inspect.NewView(trees[0], trees[1:])
	fork := session.Summary{Key: session.Key{ID: "fork"}, ForkedFrom: trees[0].ID, Status: spans.SessionStatusIdle}
	o := v.Outline(1, []session.Summary{session.Summarize(trees[1].Session), fork}, time.Time{})
	if len(o.Children) != 2 || o.Children[0].Kind != "sub-agent" || o.Children[0].From == "" ||
		o.Children[1] != (inspect.OutlineChild{Session: "fork", Kind: "fork", Status: "idle"}) {
		t.Errorf("%+v", o.Children)
	}
}

// A defect within a turn is counted where the summary counts it, and led to.
func TestOutlineDefects(t *testing.T) {
	defect := func(detail string) []session.Defect {
		return []session.Defect{{Code: spans.DefectToolCallMissing, Detail: detail}}
	}
	turn := &session.Turn{
		Remarks: session.Remarks{Defects: defect("a")},
		ToolCalls: []*session.ToolCall{{Remarks: session.Remarks{Defects: defect("b")},
			Permissions: []*session.Permission{{Remarks: session.Remarks{Defects: defect("c")}}}}},
		Compactions: []*session.Compaction{{Remarks: session.Remarks{Defects: defect("d")}}},
		Permissions: []*session.Permission{{Remarks: session.Remarks{Defects: defect("e")}}},
	}
	s := &session.Session{ID: "s", Runs: []*session.Run{{ID: "r", Turns: []*session.Turn{{}, turn}}}}
	o := inspect.NewView(session.Tree{Session: s}, nil).Outline(1, nil, time.Time{})
	var got []string
	for _, d := range o.TurnDefects {
		got = append(got, fmt.Sprint(d.Turn, d.Text[len(d.Text)-1:]))
	}
	if diff := cmp.Diff([]string{"1a", "1b", "1c", "1d", "1e"}, got); diff != "" || o.Turns[1].Defects != len(got) ||
		o.Summary.Defects != int64(len(got)) {
		t.Errorf("%d of the turn, %d of the session: %s", o.Turns[1].Defects, o.Summary.Defects, diff)
	}
}

// The turn that a turn follows is never that of a sub-agent, also where no tool call claims its run.
func TestOutlineFollowsNoSubAgent(t *testing.T) {
	run := func(id, call, prompt string) *session.Run {
		return &session.Run{ID: id, ParentToolCallID: call, Turns: []*session.Turn{{PromptDigest: prompt}}}
	}
	runs := []*session.Run{run("a", "", "lead"), run("b", "lost", "help"), run("c", "", "lead")}
	s := &session.Session{ID: "s", Runs: runs}
	for i, turn := range inspect.NewView(session.Tree{Session: s, Blocks: &session.BlockSet{}}, nil).Outline(
		1, nil, time.Time{}).Turns {
		if turn.PromptChanged {
			t.Errorf("run %d: the prompt is that of the turn before", i+1)
		}
	}
}
