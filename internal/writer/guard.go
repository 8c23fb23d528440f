package writer

import (
	"fmt"

	"go.opentelemetry.io/otel"
)

// Guard, deferred in a function that a framework calls, ends a panic there and reports it to the error handler of
// OpenTelemetry: a defect of the tracing does not end the program. Scope names who failed. A value that is no error of
// the Go runtime may hold content, and only its type is reported.
func Guard(scope string) {
	switch p := recover().(type) {
	case nil:
	case interface {
		error
		RuntimeError()
	}:
		otel.Handle(fmt.Errorf("%s: internal error: %w", scope, p))
	default:
		otel.Handle(fmt.Errorf("%s: internal error: a panic with a value of type %T", scope, p))
	}
}
