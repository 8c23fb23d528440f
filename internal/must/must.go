// Package must ends a test whose set-up fails. Only tests import it.
package must

import "testing"

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
