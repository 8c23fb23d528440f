// Package test has the tests of oteleino: Eino's agents and graphs on a fake model API. It is a module of its own so
// that oteleino requires no SDK of OpenTelemetry.
package test

import (
	"testing"

	"github.com/cloudwego/eino/callbacks"
	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/instrumentation/github.com/cloudwego/eino/oteleino"
)

// process stands for the handlers of the process: it is that of the test that runs.
type process struct{ *oteleino.Handler }

var global = &process{oteleino.New(nil)}

func TestMain(m *testing.M) {
	callbacks.AppendGlobalHandlers(global)
	goleak.VerifyTestMain(m)
}
