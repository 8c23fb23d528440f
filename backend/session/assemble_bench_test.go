package session

import "testing"

func BenchmarkAssemble(b *testing.B) {
	s := synth{session: Key{ID: "s"}}
	s.whole("run", 1, at(0), 10_000, false)
	b.Run("50000rows", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if t := Assemble(s.rows); len(t.Runs) != 1 || len(t.Runs[0].Turns) != 10_000 || len(t.Runs[0].Defects) > 0 {
				b.Fatal("bad tree")
			}
		}
	})
}
