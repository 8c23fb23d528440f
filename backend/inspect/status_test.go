package inspect

import (
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// An address in JSON is that of the turn, whatever the id of its session: nobody types it.
func TestStatusOfASessionWithASlash(t *testing.T) {
	call := &session.ToolCall{Name: "edit", ID: "c1", Span: session.Span{Known: spans.KnownLive}}
	turn := &session.Turn{Index: 3, Span: session.Span{Known: spans.KnownLive}, ToolCalls: []*session.ToolCall{call}}
	s := &session.Session{ID: "agent:main/a b", Runs: []*session.Run{{Status: spans.RunStatusOpen, Turns: []*session.Turn{turn}}}}
	const want = "agent:main/a b/@1/3"
	if v := StatusOf(s, s.Last); v.Turn != want || len(v.Open) != 1 || v.Open[0].Turn != want {
		t.Errorf("%+v", v)
	}
}
