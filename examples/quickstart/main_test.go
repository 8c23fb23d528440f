package main

import (
	"context"
	"errors"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// The whole way of the spans in one process: what is compared is what a store would hold.
func TestChat(t *testing.T) {
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	if err := chat(t.Context(), p.Tracer(), scriptedModel(), "Which day is it?"); err != nil {
		t.Fatal(err)
	}
	s := p.Session()
	if s.Agent != "quickstart" || s.Status != spans.SessionStatusIdle || len(s.Defects) != 0 {
		t.Errorf("agent %q, status %q, defects %v", s.Agent, s.Status, s.Defects)
	}
	if want := (session.Usage{Input: 59, Output: 14, CacheRead: 21}); s.Usage != want {
		t.Errorf("usage %+v, want %+v", s.Usage, want)
	}
	if len(s.Runs) != 1 || len(s.Runs[0].Turns) != 2 || len(s.Runs[0].Defects) != 0 {
		t.Fatalf("want one run of two turns without defects, got %+v", s.Runs)
	}
	first := s.Runs[0].Turns[0]
	if first.Trigger != spans.TriggerUser || first.StopReason != "tool_use" || len(first.ToolCalls) != 1 {
		t.Fatalf("first turn: %+v", first)
	}
	call := first.ToolCalls[0]
	if call.Name != "calendar" || call.Outcome != spans.OutcomeOK || len(call.Permissions) != 1 {
		t.Errorf("tool call: %+v", call)
	}
	if n := s.Runs[0].Turns[1].Requests[0].Messages.Count; n != 3 {
		t.Errorf("the second request has %d messages, want 3", n)
	}
	var blocks session.BlockSet
	for _, b := range p.Batch().Blocks {
		blocks.Add(b)
	}
	const want = `{"model":"scripted-1","system":"Answer in one sentence.","messages":[{"role":"user","content":"Which day is it?"}]}`
	if got := first.Requests[0].Payload(&blocks); string(got.Bytes) != want || !got.Exact {
		t.Errorf("the first request is %s, %+v", got.Bytes, got)
	}
}

func TestChatFails(t *testing.T) {
	p := agenttest.New(t)
	down := func([]otelagent.Message) (reply, error) { return reply{}, errors.New("overloaded") }
	if err := chat(context.Background(), p.Tracer(), down, "Which day is it?"); err == nil {
		t.Fatal("no error")
	}
	if run := p.Session().Runs[0]; run.Status != spans.RunStatusError || !run.Turns[0].Failed {
		t.Errorf("run %q, turn failed %v", run.Status, run.Turns[0].Failed)
	}
}
