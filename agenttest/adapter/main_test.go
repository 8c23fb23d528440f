package adapter_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
