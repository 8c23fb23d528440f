// Package must ends a test whose set-up fails. Only tests import it.
package must

import (
	"iter"
	"testing"
)

// Do ends the test with an error, if it is one.
func Do(tb testing.TB, err error) {
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}

// Get returns a value that comes without an error, else it ends the test: must.Get(os.ReadFile(path))(t).
func Get[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		Do(tb, err)
		return value
	}
}

// All returns what a sequence yields, and ends the test with its first error: must.All(s.Rows(ctx, key))(t).
func All[T any](all iter.Seq2[T, error]) func(testing.TB) []T {
	return func(tb testing.TB) (list []T) {
		tb.Helper()
		for value, err := range all {
			Do(tb, err)
			list = append(list, value)
		}
		return list
	}
}
