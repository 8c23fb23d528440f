package session

import "testing"

// must returns a value that comes without an error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		noError(tb, err)
		return value
	}
}

// noError ends the test with an error.
func noError(tb testing.TB, err error) {
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}

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
