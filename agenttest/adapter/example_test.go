package adapter_test

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/otelagent"
)

// The events of another loop go through a Recorder.
func ExampleRecorder() {
	exporter := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	ctx := context.Background()

	events := `{"type":"AgentStart","agent_id":"a","session_id":"s","loop_id":"s.1","parent_loop_id":null,"timestamp":"2026-05-25T10:00:00Z","metadata":null}
{"type":"TurnStart","loop_id":"s.1","turn_index":0,"timestamp":"2026-05-25T10:00:01Z","triggered_by":"User"}
`
	rec := event.NewRecorder(otelagent.NewTracer(otelagent.WithTracerProvider(provider)))
	for ev, err := range phi.Events(strings.NewReader(events)) {
		if err != nil {
			fmt.Println(err) // a line that is no event; the rest goes on
			continue
		}
		rec.Record(ctx, ev)
	}
	rec.Close(ctx) // ends what is still open, at the last time seen

	for _, s := range exporter.GetSpans() {
		fmt.Println(s.Name, s.EndTime.UTC().Format("15:04:05"))
	}
	// Output:
	// session.turn 10:00:01
	// session.run 10:00:01
}
