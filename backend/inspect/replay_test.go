package inspect_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/replay"
)

// What is shown of an answer that differs, of one that does not, and of a tool that was run again: no line is wider
// than the terminal, and nothing in it acts on one.
func TestReplayText(t *testing.T) {
	recorded := &replay.Answer{
		Model: "claude-sonnet-4-5", StopReason: "tool_use",
		Text: "I read the file.\n\n    func add() {}\n" + strings.Repeat("a long line of the answer, ", 6),
		Calls: []replay.Call{{ID: "1", Name: "read_file", Args: `{"path":"src/lib.rs"}`}, {ID: "2", Name: "bash",
			Args: `{"command":"cargo test"}`}},
		Usage: &session.Usage{Input: 1115, Output: 20, Reasoning: 7, CacheRead: 100},
	}
	answered := *recorded
	answered.Text = strings.Replace(recorded.Text, "the file", "it \x1b[31mred", 1)
	answered.Calls = []replay.Call{{ID: "9", Name: "bash", Args: `{"command":"cargo test -q"}`}, {ID: "10", Name: "ls",
		Args: `{}`}}
	answered.Other = []string{"block of type server_tool_use"}
	sent := func(recorded, answered *replay.Answer) *inspect.Resent {
		return &inspect.Resent{Address: "s/@1/0", TookNS: int64(1500 * time.Millisecond),
			Comparison: replay.Compare(recorded, false, answered)}
	}
	tool := &inspect.ToolReplay{
		Address: "s/@1/0", ID: "toolu_1", Name: "bash", Outcome: "error", Input: `{"command":"cargo test"}`,
		Recorded: &inspect.ToolResult{Text: "exit 101\nno such target\n", Error: true},
		Run:      &inspect.ToolResult{Text: "exit 101\nno such package\n", Error: true},
	}
	tool.Compare()
	o := inspect.Options{Width: 80}
	got := ""
	for _, c := range []struct {
		name string
		text func(io.Writer, inspect.Options) error
	}{
		{"another answer", sent(recorded, &answered).Text},
		{"the same answer", sent(recorded, recorded).Text},
		{"nothing recorded", sent(nil, recorded).Text},
		{"a tool", tool.Text},
		{"a tool whose input is not there", (&inspect.ToolReplay{Address: "s/@1/0", ID: "x"}).Text},
	} {
		got += "== " + c.name + "\n" + drawn(t, 80, func(w io.Writer) error { return c.text(w, o) })
	}
	golden(t, "replay.txt", got)
}
