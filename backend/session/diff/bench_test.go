package diff

import (
	"fmt"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// talk is a session of turns, each with a question, a reply of some hundred words and two tool calls. word is in
// replies and inputs.
func talk(turns int, word string) (t Target, size int) {
	r := &session.Run{ID: "r", Capture: spans.CaptureContent}
	for i := range int64(turns) {
		text := strings.Repeat(fmt.Sprintf("reply %d says %s.\\n", i, word), 50)
		reply := fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"%s"}]}`, text)
		size += len(reply)
		turn := &session.Turn{Index: i, Capture: spans.CaptureContent, Model: "m-1", StopReason: "stop",
			Usage: session.Usage{Input: 100 + i, Output: 10},
			Input: store(&t, fmt.Sprintf(`{"role":"user","content":"question %d"}`, i), ""), Output: store(&t, reply,
				"")}
		for j := range 2 {
			turn.ToolCalls = append(turn.ToolCalls, &session.ToolCall{ID: fmt.Sprint(i, " ", j), Name: "bash",
				Outcome: "ok",
				Args:    store(&t, fmt.Sprintf(`{"command":"do %d %d %s","timeout":60}`, i, j, word), ""),
				Result:  store(&t, fmt.Sprintf(`"done %d %d"`, i, j), "")})
		}
		r.Turns = append(r.Turns, turn)
	}
	t.Session = &session.Session{ID: "s", Runs: []*session.Run{r}}
	return t, size
}

// BenchmarkCompare compares sessions of 10,000 turns of which every reply and every input differs, against reading the
// messages alone.
func BenchmarkCompare(b *testing.B) {
	const turns = 10_000
	x, size := talk(turns, "one thing")
	y, _ := talk(turns, "another thing")
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(2 * size))
		b.ReportAllocs()
		for b.Loop() {
			for _, t := range []Target{x, y} {
				for _, turn := range t.Session.Runs[0].Turns {
					for _, refs := range []*session.Refs{turn.Input, turn.Output} {
						body, _ := t.Blocks.Body(refs.Items()[0])
						read(body)
					}
				}
			}
		}
	})
	for name, c := range map[string]struct {
		other   Target
		changed int
	}{"10000turns": {y, turns}, "itself": {x, 0}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(2 * size))
			b.ReportAllocs()
			for b.Loop() {
				d, err := Compare(x, c.other)
				if err != nil || d.Counts.Changed != c.changed || d.Counts.Same != turns-c.changed {
					b.Fatal(d.Counts, err)
				}
			}
		})
	}
}
