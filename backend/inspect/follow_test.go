package inspect

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// TestFollowKilled follows a session until its process is gone: what was over is written once and when it is, the rest
// as it was last seen.
func TestFollowKilled(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	const said = `{"role":"assistant","content":"I will look at the file first, bec"}`
	blocks := &session.BlockSet{}
	blocks.Add(session.Block{Body: said})
	blocks.Add(session.Block{Body: `{"path":"a.txt"}`})
	refs := func(body string) *session.Refs {
		return session.NewRefs(session.Ref{Block: spans.BlockOfString(body).Short().String()})
	}
	live := func(from, seen int) session.Span {
		return session.Span{Known: spans.KnownLive, Start: at(from), Seen: at(seen), HeartbeatNS: 1e9}
	}
	over := &session.ToolCall{Span: session.Span{Start: at(1), End: at(2)}, ID: "c0", Name: "ls", Outcome: spans.OutcomeOK}
	frozen := &session.ToolCall{Span: live(2, 4), ID: "c1", Name: "edit", Args: refs(`{"path":"a.txt"}`)}
	turn := &session.Turn{
		Span:      live(0, 4),
		Attempts:  2,
		Partial:   true,
		Output:    refs(said),
		ToolCalls: []*session.ToolCall{over, frozen},
	}
	s := &session.Session{
		ID: "s1", Start: start, Last: at(4), Status: spans.SessionStatusBusy,
		Runs: []*session.Run{{Span: live(0, 4), ID: "r1", Status: spans.RunStatusOpen, Turns: []*session.Turn{turn}}},
	}
	tree := session.Tree{Session: s, Blocks: blocks}
	var b bytes.Buffer
	f := NewFollower(&b, Options{})
	for range 2 { // what was written is not written again
		must.Do(t, f.Write(tree, nil, nil, at(5), false))
	}
	const first = "03:04:05 run 1\n03:04:07   ✓ ls c0 · 1.0s\n"
	if diff := cmp.Diff(first, b.String()); diff != "" {
		t.Error(diff)
	}
	line := f.Line(tree, at(5), 80)
	if want := "busy · turn @1/0 5.0s · attempt 2 · edit 3.0s"; line != want {
		t.Errorf("foot %q, want %q", line, want)
	}
	for _, w := range []int{10, 40, 60} {
		if got := f.Line(tree, at(5), w); width(got) > w {
			t.Errorf("%d columns: %q", w, got)
		}
	}
	if got := s.StatusAt(at(8)); got != spans.SessionStatusAborted {
		t.Fatalf("status %s", got)
	}
	if got, want := f.Line(tree, at(8), 80), "aborted · turn @1/0 4.0s · attempt 2 · edit 2.0s"; got != want {
		t.Errorf("foot %q, want %q", got, want)
	}
	must.Do(t, f.Write(tree, nil, nil, at(8), true))
	const rest = "03:04:06   reply   I will look at the file first, bec\n" +
		"03:04:09   … stopped edit(path: a.txt)\n" +
		"03:04:09 turn 0 · stopped · 2 attempts · the reply stops where it was last seen\n" +
		"03:04:09 run 1 · aborted · its process sends no heartbeat; last seen 03:04:09.0…\n"
	if diff := cmp.Diff(first+rest, b.String()); diff != "" {
		t.Error(diff)
	}
	if v := StatusOf(s, at(8)); v.Status != spans.SessionStatusAborted || v.Turn != "s1/@1/0" || len(v.Open) != 1 ||
		v.Open[0].Tool != "edit" ||
		!strings.HasPrefix(line, "busy") {
		t.Errorf("%+v", v)
	}
}

// An address in JSON is that of the turn, whatever the id of its session: nobody types it.
func TestStatusOfASessionWithASlash(t *testing.T) {
	call := &session.ToolCall{Name: "edit", ID: "c1", Span: session.Span{Known: spans.KnownLive}}
	turn := &session.Turn{Index: 3, Span: session.Span{Known: spans.KnownLive}, ToolCalls: []*session.ToolCall{call}}
	s := &session.Session{
		ID:   "agent:main/a b",
		Runs: []*session.Run{{Status: spans.RunStatusOpen, Turns: []*session.Turn{turn}}},
	}
	const want = "agent:main/a b/@1/3"
	if v := StatusOf(s, s.Last); v.Turn != want || len(v.Open) != 1 || v.Open[0].Turn != want {
		t.Errorf("%+v", v)
	}
}
