package otelcopilot

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/instrumentation/github.com/github/copilot-sdk/go/otelcopilot/copilottest"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// A session that is no longer watched is not kept, nor is one that ended.
func TestNothingStays(t *testing.T) {
	runtime, err := copilottest.Start(func(p *copilottest.Prompt) {
		p.Says("", "user.message", copilottest.Data{"content": p.Text})
		p.Says("", "assistant.turn_start", copilottest.Data{"turnId": "0"})
		p.Says("", "session.idle", copilottest.Data{})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Close()
	client := copilot.NewClient(&copilot.ClientOptions{Connection: copilot.URIConnection{URL: runtime.URL}})
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := client.CreateSession(t.Context(), &copilot.SessionConfig{SessionID: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	tracing := New(otelagent.NewTracer())
	stop := tracing.Watch(t.Context(), s)
	again := tracing.Watch(t.Context(), s)
	if _, err := s.SendAndWait(t.Context(), copilot.MessageOptions{Prompt: "?"}); err != nil {
		t.Error(err)
	}
	stop()
	if len(tracing.sessions) != 1 {
		t.Error("the first stop ended the second watch")
	}
	again()
	if n := len(tracing.sessions); n > 0 {
		t.Errorf("%d sessions are kept", n)
	}
	if err := s.Disconnect(); err != nil {
		t.Error(err)
	}
}

// Events in any order harm nothing, and nothing is open afterwards.
func TestAnyOrder(t *testing.T) {
	var events []copilot.SessionEvent
	name, id := "x", "a1"
	for _, agent := range []*string{nil, &id} {
		for _, data := range []copilot.SessionEventData{
			&copilot.SessionStartData{}, &copilot.UserMessageData{}, &copilot.AssistantTurnStartData{TurnID: "0"},
			&copilot.AssistantTurnEndData{TurnID: "0"}, &copilot.AssistantMessageData{}, &copilot.AssistantUsageData{},
			&copilot.AssistantMessageDeltaData{}, &copilot.ModelCallFailureData{}, &copilot.ToolExecutionStartData{
				ToolCallID: "c", Arguments: make(chan int)}, &copilot.ToolExecutionCompleteData{ToolCallID: "c"},
			&copilot.PermissionRequestedData{RequestID: "p",
				PermissionRequest: &copilot.PermissionRequestShell{ToolCallID: &name}},
			&copilot.PermissionCompletedData{RequestID: "p"}, &copilot.PermissionRequestedData{},
			&copilot.SessionCompactionStartData{}, &copilot.SessionCompactionCompleteData{}, &copilot.SubagentStartedData{},
			&copilot.SubagentCompletedData{}, &copilot.SubagentFailedData{}, &copilot.AbortData{},
			&copilot.SessionErrorData{}, &copilot.SessionIdleData{}, &copilot.SessionShutdownData{}, nil,
		} {
			events = append(events, copilot.SessionEvent{AgentID: agent, Data: data, Timestamp: time.Now()})
		}
	}
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(trace.NewTracerProvider()))
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		s := newSession(t.Context(), tracer, "s")
		for range 60 {
			s.event(events[random.IntN(len(events))])
			if random.IntN(5) == 0 {
				x := &exchange{s: s, payload: []byte(`{}`)}
				if s.ask(x, []string{"", "a1"}[random.IntN(2)], []string{"", "x"}[random.IntN(2)]) && random.IntN(2) == 0 {
					s.answer(x, otelagent.TurnResult{}, random.IntN(2) == 0)
				}
			}
		}
		s.end()
		open := len(s.calls) + len(s.asked) + len(s.begun)
		for _, a := range s.agents {
			open += len(a.turns) + len(a.waiting)
			if a.run != nil || a.compaction != nil {
				open++
			}
		}
		if open > 0 {
			t.Fatalf("%d entries are left", open)
		}
	}
}

type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("a value of the program") }

// A panic in the reading of an event is reported and does not reach the SDK.
func TestPanicStaysHere(t *testing.T) {
	reported := 0
	before := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { reported++ }))
	defer otel.SetErrorHandler(before)
	s := newSession(t.Context(), otelagent.NewTracer(), "s")
	s.event(copilot.SessionEvent{Data: &copilot.ToolExecutionStartData{ToolCallID: "c", Arguments: bomb{}}})
	s.end()
	if reported != 1 {
		t.Errorf("%d reports", reported)
	}
}

// More requests, agents and turns than may wait or be open do not add up.
func TestWaitingIsBounded(t *testing.T) {
	s := newSession(context.Background(), otelagent.NewTracer(), "s")
	defer s.end()
	for i := range 3 * maxWaiting {
		s.event(copilot.SessionEvent{Data: &copilot.AssistantTurnStartData{TurnID: strconv.Itoa(i)}})
	}
	if n := len(s.agents[""].turns); n != maxWaiting {
		t.Errorf("%d turns are open", n)
	}
	s.event(copilot.SessionEvent{Data: &copilot.SessionIdleData{}})
	for range 3 * maxWaiting {
		s.ask(&exchange{s: s, payload: []byte(strings.Repeat("x", 100))}, "", "")
	}
	for i := range 3 * maxOpen {
		s.agent(strings.Repeat("a", i))
	}
	if n := len(s.agents[""].waiting); n != maxWaiting || len(s.agents) != maxOpen {
		t.Errorf("%d requests wait, %d agents", n, len(s.agents))
	}
	only := newSession(context.Background(), otelagent.NewTracer(), "s") // sub-agents, as of a session that goes on
	for i := range 3 * maxOpen {
		only.agent(strconv.Itoa(i))
	}
	if n := len(only.agents); n != maxOpen+1 {
		t.Errorf("%d agents without the main one", n)
	}
}

// A reply may be closed while it is read. It is recorded once.
func TestClosedWhileRead(t *testing.T) {
	s := newSession(t.Context(), otelagent.NewTracer(), "s")
	defer s.end()
	x := &exchange{s: s, payload: []byte(`{}`)}
	s.ask(x, "", "")
	from, to := io.Pipe()
	body := &reply{ReadCloser: from, x: x, status: http.StatusOK}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.ReadAll(body)
	}()
	if _, err := io.WriteString(to, "data: "); err != nil {
		t.Error(err)
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
	<-read
	if !x.done || !errors.Is(x.res.Err, context.Canceled) {
		t.Errorf("done %v, %v", x.done, x.res.Err)
	}
}

// The reply to a request that the runtime repeated before it came is not that of the turn.
func TestLateReply(t *testing.T) {
	seen := tracetest.NewSpanRecorder()
	p := trace.NewTracerProvider(trace.WithSpanProcessor(seen))
	s := newSession(t.Context(), otelagent.NewTracer(otelagent.WithTracerProvider(p)), "s")
	s.event(copilot.SessionEvent{Data: &copilot.AssistantTurnStartData{TurnID: "0"}})
	first, second := &exchange{s: s, payload: []byte(`{}`)}, &exchange{s: s, payload: []byte(`{}`)}
	for _, x := range []*exchange{first, second} {
		s.ask(x, "", "")
	}
	s.answer(second, otelagent.TurnResult{ResponseID: "second"}, true)
	s.answer(first, otelagent.TurnResult{ResponseID: "first", StopReason: "length"}, true)
	s.end()
	for _, a := range seen.Ended()[0].Attributes() {
		if a.Key == spans.TurnStopReasonKey {
			t.Errorf("the turn stops for %s", a.Value.AsString())
		}
	}
}
