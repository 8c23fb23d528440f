package writer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/spans"
)

// What is remembered is bounded, whatever the length of a session and however many there are.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 1000
	tracer := NewTracer(Config{Capture: spans.CaptureContent, MaxBlockIDs: limit,
		TracerProvider: sdktrace.NewTracerProvider()})
	all := func() (list []*memory) {
		for e := tracer.sessions.order.Front(); e != nil; e = e.Next() {
			list = slices.AppendSeq(list, maps.Values(e.Value.(*session).memories))
		}
		return list
	}
	var messages []string
	text := strings.Repeat("some text ", 100)
	most := int64(0)
	for i := range 150 {
		_, run := tracer.StartRun(t.Context(), RunInfo{SessionID: fmt.Sprint("s", i%3), ID: fmt.Sprint(i)})
		_, turn := run.StartTurn(t.Context(), TurnInfo{})
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":"%d %s"}`, i, text))
		turn.Request(Request{Payload: []byte(`{"messages":[` + strings.Join(messages, ",") + `]}`)})
		turn.End(TurnResult{})
		run.End(RunResult{})
		most = max(most, tracer.sessions.entries)
		for _, m := range all() {
			if len(m.histories) > maxHistories {
				t.Fatalf("turn %d: %d histories", i, len(m.histories))
			}
		}
	}
	if most > limit || most < limit/2 {
		t.Errorf("%d entries of %d", most, limit)
	}
	// What is counted is what there is.
	var total int64
	for _, m := range all() {
		n := int64(len(m.sent))
		for _, h := range m.histories {
			for _, it := range h.items {
				n += int64(len(it.raw)+itemEntry)/entryBytes + 1
			}
		}
		if d := m.entries - n; d < -8 || d > 8 {
			t.Errorf("%d entries counted, %d there", m.entries, n)
		}
		total += m.entries
	}
	if total != tracer.sessions.entries {
		t.Errorf("%d in all, %d counted", total, tracer.sessions.entries)
	}
}
