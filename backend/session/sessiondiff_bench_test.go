package session

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// talk is a session of turns, each with a request of a system prompt and parameters, a question of the user, a reply of some hundred words and
// two tool calls. word stands in the replies.
func talk(turns int, word string) (DiffTarget, int) {
	s := synth{session: Key{ID: "s"}}
	size := 0
	for i := range int64(turns) {
		from := at(i * 10)
		reply := fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"%s"}]}`, strings.Repeat(fmt.Sprintf("reply %d says %s.\\n", i, word), 50))
		size += len(reply)
		for j := range 2 {
			call := s.add(KindToolCall, "r", at(0), i, from+1e6, from+2e6, "gen_ai.tool.call.id", fmt.Sprint(i, " ", j), "gen_ai.tool.name", "bash", "otelagent.tool.outcome", "ok")
			call.Lists = []List{s.list("args", fmt.Sprintf(`{"command":"do %d %d %s","timeout":60}`, i, j, word)), s.list("result", fmt.Sprintf(`"done %d %d"`, i, j))}
		}
		turn := s.add(KindTurn, "r", at(0), i, from, from+9e6, "otelagent.capture", "content", "gen_ai.request.model", "m-1", "otelagent.turn.stop_reason", "stop",
			"otelagent.usage.input_tokens", 100+i, "otelagent.usage.output_tokens", 10, "otelagent.count.tool_calls", 2)
		turn.Lists = []List{s.list("input", fmt.Sprintf(`{"role":"user","content":"question %d"}`, i)), s.list("output", reply)}
	}
	s.add(KindRun, "r", at(0), NoTurn, at(0), at(int64(turns)*10), "otelagent.capture", "content", "otelagent.run.status", "completed", "otelagent.count.turns", turns)
	t := DiffTarget{Session: Assemble(s.rows), Blocks: &BlockSet{}}
	for _, b := range s.blocks {
		t.Blocks.Add(b)
	}
	return t, size
}

// BenchmarkDiff compares sessions of 10,000 turns of which every reply and every input differs, against reading the messages of both alone.
func BenchmarkDiff(b *testing.B) {
	const turns = 10_000
	x, size := talk(turns, "one thing")
	y, _ := talk(turns, "another thing")
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(2 * size))
		b.ReportAllocs()
		for b.Loop() {
			for _, t := range []DiffTarget{x, y} {
				for _, turn := range t.Session.Runs[0].Turns {
					for _, refs := range []*Refs{turn.Input, turn.Output} {
						for _, ref := range refs.Items() {
							body, _ := t.Blocks.Body(ref)
							readSaid(body)
						}
					}
				}
			}
		}
	})
	compare := func(a, c DiffTarget, o DiffOptions, changed int) func(*testing.B) {
		return func(b *testing.B) {
			b.SetBytes(int64(2 * size))
			b.ReportAllocs()
			for b.Loop() {
				d, err := DiffSessions(a, c, o)
				if err != nil || d.Counts.Changed != changed || d.Counts.Same != turns-changed {
					b.Fatal(d.Counts, err)
				}
			}
		}
	}
	b.Run("10000turns", compare(x, y, DiffOptions{}, turns))
	b.Run("itself", compare(x, x, DiffOptions{}, 0))
	b.Run("1MB-reply", func(b *testing.B) {
		var one, other strings.Builder
		for i := 0; one.Len() < 1<<20; i++ {
			fmt.Fprintf(&one, "line %d of the one\n", i)
			fmt.Fprintf(&other, "row %d of another\n", i)
		}
		b.SetBytes(int64(one.Len() + other.Len()))
		for b.Loop() {
			if d := diffText("", one.String(), other.String(), 64<<10); !d.Coarse || !d.Cut {
				b.Fatal("nothing differs")
			}
		}
	})
}

// What a comparison of long sessions holds is bounded by DiffOptions.Total and the number of turns.
func TestDiffMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: two sessions of 5,000 turns")
	}
	const turns, total = 5_000, 1 << 20
	x, _ := talk(turns, "one thing")
	y, _ := talk(turns, "another thing")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d, err := DiffSessions(x, y, DiffOptions{Total: total})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 2*total+turns*6<<10 {
		t.Errorf("%d bytes kept for %d turns", kept, turns)
	}
	told, cut := 0, 0
	for _, turn := range d.Runs[0].Turns {
		if turn.State != DiffChanged {
			t.Fatalf("turn %d is %s", turn.A.Index, turn.State)
		}
		for _, text := range turn.Output {
			if text.Cut {
				cut++
			}
			for _, h := range text.Hunks {
				for _, l := range h.Lines {
					told += len(l.Text)
				}
			}
		}
	}
	if told > total || cut == 0 || cut == turns {
		t.Errorf("%d bytes are told, %d texts are cut", told, cut)
	}
	runtime.KeepAlive(d)
}
