package otelagent_test

import (
	"testing"

	"github.com/otelagent/otelagent/otelagent"
)

// What an agent with digests referred to is sent in full by one with content in the same session.
func TestLevelsShareNoMemory(t *testing.T) {
	p, exp := collect(t)
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p), otelagent.WithCaptureFor(func(r otelagent.RunInfo) otelagent.Capture {
		if r.Agent == "coder" {
			return otelagent.CaptureContent
		}
		return otelagent.CaptureDigests
	}))
	payload := payloadOf(`"Be brief."`, user("hi"))
	for _, agent := range []string{"other", "coder"} {
		_, run := tracer.StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: agent, Agent: agent})
		ask(t, run, payload)
		run.End(otelagent.RunResult{})
	}
	if got, err := readWire(t, exp.GetSpans()).payload("coder", 0, 0, 0); err != nil || got != payload {
		t.Errorf("got %s, %v", got, err)
	}
}
