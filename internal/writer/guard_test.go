package writer

import (
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
)

func TestGuardReportsWithoutContent(t *testing.T) {
	var got []string
	before := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { got = append(got, err.Error()) }))
	defer otel.SetErrorHandler(before)

	fails := func(f func()) {
		defer Guard("example.com/scope")
		f()
	}
	fails(func() {})
	fails(func() { panic(errors.New("secret")) })
	fails(func() {
		var m map[string]int
		m["a"] = 1 //nolint:govet,staticcheck // it panics
	})
	want := "example.com/scope: internal error: a panic with a value of type *errors.errorString\n" +
		"example.com/scope: internal error: assignment to entry in nil map"
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
