package oteleino

import (
	"context"
	"testing"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
	"go.opentelemetry.io/otel"

	"github.com/otelagent/otelagent/otelagent"
)

type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("a value of the program") }

// A panic in the handler is reported and does not reach the framework.
func TestPanicStaysHere(t *testing.T) {
	reported := 0
	before := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { reported++ }))
	defer otel.SetErrorHandler(before)

	h := New(otelagent.NewTracer())
	info := &callbacks.RunInfo{Component: components.ComponentOfChatModel}
	m := schema.AssistantMessage("", []schema.ToolCall{{ID: "c1", Extra: map[string]any{"bomb": bomb{}}}})
	in, out := &model.CallbackInput{Messages: []*schema.Message{m}}, &model.CallbackOutput{Message: m}

	ctx := h.OnStart(t.Context(), info, in)
	if h.OnEnd(ctx, info, out) == nil || reported != 1 {
		t.Errorf("%d reports", reported)
	}
	ctx = h.OnStart(t.Context(), info, in)
	h.OnEndWithStreamOutput(ctx, info, schema.StreamReaderFromArray([]callbacks.CallbackOutput{out}))
	h.Wait()
	if reported < 2 {
		t.Error("no report of a stream")
	}
	if h.OnStart(context.Background(), nil, nil) == nil {
		t.Error("no context")
	}
}

type base struct{ Approved bool }

func TestDecision(t *testing.T) {
	yes := true
	for _, x := range []struct {
		data            any
		approved, known bool
	}{
		{true, true, true},
		{&yes, true, true},
		{base{true}, true, true},
		{struct{ *base }{&base{true}}, true, true},
		{struct{ *base }{}, false, false},
		{struct{ Other bool }{true}, false, false},
		{map[string]any{"approved": false}, false, true},
		{map[string]any{"approved": nil}, false, false},
		{map[int]bool{1: true}, false, false},
		{"yes", false, false},
		{nil, false, false},
	} {
		if approved, known := decision(x.data); approved != x.approved || known != x.known {
			t.Errorf("%#v: %v, %v", x.data, approved, known)
		}
	}
}
