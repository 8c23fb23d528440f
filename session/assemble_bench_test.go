package session

import (
	"fmt"
	"runtime"
	"testing"
)

func BenchmarkAssemble(b *testing.B) {
	for _, turns := range []int{10, 10_000} {
		s := synth{session: Key{ID: "s"}}
		s.whole("run", 1, at(0), turns, false)
		b.Run(fmt.Sprintf("%drows", len(s.rows)-1), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := Assemble(s.rows); len(got.Runs[0].Turns) != turns || len(got.Runs[0].Defects) > 0 {
					b.Fatal("bad tree")
				}
			}
			b.StopTimer()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			tree := Assemble(s.rows)
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(s.rows)), "kept-B/row")
			runtime.KeepAlive(tree)
		})
	}
}
