package session

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchRows returns the rows of one run: 5 of each turn, and that of the run.
func benchRows(turns int, content bool) []Row {
	s := synth{session: Key{ID: "s"}}
	s.whole("run", 1, at(0), turns, content)
	return s.rows
}

func benchAssemble(b *testing.B, rows []Row) *Session {
	s := Assemble(rows)
	if len(s.Runs) != 1 || len(s.Runs[0].Turns) != len(rows)/5 || len(s.Runs[0].Defects) > 0 {
		b.Fatal("bad tree")
	}
	return s
}

func BenchmarkAssemble(b *testing.B) {
	for _, turns := range []int{10, 10_000} {
		rows := benchRows(turns, false)
		b.Run(fmt.Sprintf("%drows", len(rows)-1), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchAssemble(b, rows)
			}
		})
	}
	rows := benchRows(10_000, true)
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	b.Run("50000rows-shuffled-with-lists", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			benchAssemble(b, rows)
		}
	})
	long, blocks := longSession(10_000)
	b.Run("10000turns-to-20000-messages", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Assemble(long)
		}
	})
	b.Run("10000turns-to-20000-messages-checked", func(b *testing.B) {
		tree := Assemble(long)
		b.ReportAllocs()
		for b.Loop() {
			tree.CheckContent(blocks)
		}
	})
	stored := make([][]byte, len(rows))
	for i := range rows {
		stored[i] = rows[i].AppendCanonical(nil)
	}
	b.Run("50000rows-from-canonical-bytes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			parsed := make([]Row, len(stored))
			for i := range stored {
				var err error
				if parsed[i], err = ParseRow(stored[i]); err != nil {
					b.Fatal(err)
				}
			}
			benchAssemble(b, parsed)
		}
	})
}
