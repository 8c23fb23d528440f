package otelagent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
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

// A request told again of the same attempt leaves no list that nobody sends, and nothing refers to one.
func TestRequestToldTwice(t *testing.T) {
	run, exp := start(t)
	var history []string
	for i := range 100 {
		history = append(history, user(fmt.Sprint(i)))
	}
	payload := payloadOf(`"s"`, history...)
	_, turn := run.StartTurn(t.Context(), otelagent.TurnInfo{Index: -1})
	for range 3 {
		turn.Request(otelagent.ParseRequest([]byte(payload)))
	}
	turn.End(otelagent.TurnResult{})
	w := readWire(t, exp.GetSpans())
	if got, err := w.payload("r", 0, 0, 0); err != nil || got != payload {
		t.Errorf("got %.100s, %v", got, err)
	}
	if n := attr(exp.GetSpans()[0], spans.RequestBytesKey).AsInt64(); n != int64(len(payload)) {
		t.Errorf("a request of %d bytes, want %d", n, len(payload))
	}
}

// What was lost is told again in each of several histories, whichever asks first.
func TestLostIsToldInEachHistory(t *testing.T) {
	d := &lossy{}
	run, exp := start(t, otelagent.WithDelivery(d))
	histories := make([][]string, 3)
	for range 40 {
		for i := range histories {
			histories[i] = append(histories[i], user(fmt.Sprint("branch ", i, " message ", len(histories[i]))))
			ask(t, run, payloadOf(`"s"`, histories[i]...))
		}
	}
	d.f("s", nil)
	exp.Reset()
	for range 3 {
		ask(t, run, payloadOf(`"s"`, histories[0]...))
	}
	for i := range histories {
		ask(t, run, payloadOf(`"s"`, histories[i]...))
	}
	for _, l := range readWire(t, exp.GetSpans()).lists {
		if l.turn > 123 && l.Name == spans.ListRequest && l.Prefix != "" {
			t.Errorf("turn %d begins behind %s, and nothing before it arrived", l.turn, l.Prefix)
		}
	}
}

// slowly is a redactor that waits.
type slowly struct{ in, out chan struct{} }

func (s slowly) Redact(p otelagent.Piece) ([]byte, int) {
	if p.Place == "rules" {
		s.in <- struct{}{}
		<-s.out
	}
	return p.Body, 0
}

// A redactor that is slow with one session keeps no other one waiting, whatever is forgotten meanwhile.
func TestSlowRedactorHoldsItsSessionOnly(t *testing.T) {
	s := slowly{make(chan struct{}), make(chan struct{})}
	p, _ := collect(t)
	d := &lossy{}
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p), otelagent.WithCapture(otelagent.CaptureContent),
		otelagent.WithRedactor(s), otelagent.WithMaxBlockIDs(1), otelagent.WithDelivery(d))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tracer.StartRun(context.Background(), otelagent.RunInfo{SessionID: "slow", Metadata: []byte(`{}`), Rules: []byte(`[]`)})
	}()
	<-s.in
	others := make(chan struct{})
	go func() {
		defer close(others)
		for i := range 3 {
			_, run := tracer.StartRun(context.Background(), otelagent.RunInfo{SessionID: fmt.Sprint(i)})
			run.Note("x", []byte(`{"a":1}`), otelagent.Moment{})
			d.f(fmt.Sprint(i), nil)
			run.End(otelagent.RunResult{})
		}
	}()
	select {
	case <-others:
	case <-time.After(10 * time.Second):
		t.Error("other sessions wait")
	}
	close(s.out)
	<-done
}

// noting is a span processor of a host that uses the handle of the turn whose children end.
type noting struct{ turn *otelagent.Turn }

func (n *noting) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (n *noting) Shutdown(context.Context) error                  { return nil }
func (n *noting) ForceFlush(context.Context) error                { return nil }
func (n *noting) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.Name() == spans.SpanPayload {
		n.turn.Note("ended", nil, otelagent.Moment{})
	}
}

// What the host hears of the children that carry content may use the handle.
func TestEndsAreToldWithoutLocks(t *testing.T) {
	n := &noting{}
	p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(n))
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p), otelagent.WithCapture(otelagent.CaptureContent), otelagent.WithMaxSpanBytes(64<<10))
	_, run := tracer.StartRun(t.Context(), otelagent.RunInfo{})
	_, turn := run.StartTurn(t.Context(), otelagent.TurnInfo{})
	n.turn = turn
	turn.Request(otelagent.ParseRequest([]byte(payloadOf(`"s"`, user(strings.Repeat("x", 100_000))))))
	done := make(chan struct{})
	go func() {
		defer close(done)
		turn.End(otelagent.TurnResult{})
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("End does not return")
	}
}
