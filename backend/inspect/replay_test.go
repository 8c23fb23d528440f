package inspect_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/replay"
)

// What is shown of an answer that differs, of one that does not, and of a tool that was run again: no line is wider than the terminal, and
// nothing in it acts on one.
func TestReplayText(t *testing.T) {
	recorded := &replay.Answer{
		Model: "claude-sonnet-4-5", Text: "I read the file.\n\n    func add() {}\n" + strings.Repeat("a long line of the answer, ", 6), StopReason: "tool_use",
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
	var got bytes.Buffer
	for _, tt := range []struct {
		name string
		text func(*bytes.Buffer) error
	}{
		{"another answer", func(b *bytes.Buffer) error {
			return sent(recorded, &answered).Text(b,
				inspect.Options{Width: 80})
		}},
		{"the same answer", func(b *bytes.Buffer) error {
			return sent(recorded, recorded).Text(b,
				inspect.Options{Width: 80})
		}},
		{"nothing recorded", func(b *bytes.Buffer) error { return sent(nil, recorded).Text(b, inspect.Options{Width: 80}) }},
		{"a tool", func(b *bytes.Buffer) error { return tool.Text(b, inspect.Options{Width: 80}) }},
		{"a tool whose input is not there", func(b *bytes.Buffer) error {
			return (&inspect.ToolReplay{Address: "s/@1/0", ID: "x"}).Text(b, inspect.Options{Width: 80})
		}},
	} {
		got.WriteString("== " + tt.name + "\n")
		if err := tt.text(&got); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(got.String()) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 || strings.Contains(line, "\x1b") {
			t.Errorf("a line that is too wide, or acts: %q", line)
		}
	}
	file := filepath.Join("testdata", "replay.txt")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
