package inspect_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/inspect"
	"github.com/otelagent/otelagent/session"
)

// What the user said is shown where the loop tells only its request; the reply before it, which the request repeats, is not.
func TestToldByRequest(t *testing.T) {
	blocks := &session.BlockSet{}
	messages := list(blocks, `{"role":"assistant","content":"an earlier reply"}`, `{"role":"user","content":"what is in the file?"}`)
	messages.Complete, messages.Count = true, 2
	turn := &session.Turn{Span: span(0, 1), Requests: []*session.Request{{Messages: messages}}}
	run := &session.Run{Span: span(0, 1), ID: "r", Turns: []*session.Turn{turn}}
	tree := session.Tree{Blocks: blocks, Session: &session.Session{ID: "s", Start: at(0), Last: at(1), Runs: []*session.Run{run}}}
	var followed bytes.Buffer
	if err := inspect.NewFollower(&followed, inspect.Options{}).Write(tree, nil, at(1), true); err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{render(t, tree, inspect.Options{Width: 80}), followed.String()} {
		if !strings.Contains(got, "user    what is in the file?\n") || strings.Contains(got, "earlier") {
			t.Errorf("the user's message alone must be there:\n%s", got)
		}
	}
}
