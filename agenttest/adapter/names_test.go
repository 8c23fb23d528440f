package adapter_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// TestNamesChangeNothingElse compares all that is sent with exact and with detailed names: ids, attributes and events
// are
// the same, with the attributes of OpenInference too.
func TestNamesChangeNothingElse(t *testing.T) {
	inference := func(e sdktrace.SpanExporter) sdktrace.SpanExporter { return otelsetup.OpenInference(e) }
	for _, wrap := range []func(sdktrace.SpanExporter) sdktrace.SpanExporter{unchanged, inference} {
		exact, detailed := played(t, wrap, capturing), played(t, wrap, capturing, otelagent.WithSpanNames(true))
		other := 0
		for i := range min(len(exact), len(detailed)) {
			if detailed[i].Name != exact[i].Name {
				detailed[i].Name = exact[i].Name
				other++
			}
		}
		if diff := cmp.Diff(printSpans(exact), printSpans(detailed)); diff != "" {
			t.Errorf("(-exact names +detailed names):\n%s", diff)
		}
		if other < 4 {
			t.Errorf("only %d names differ", other)
		}
	}
}
