package otelanthropic

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/otelagent/otelagent/otelagent"
)

type panics struct{ anthropic.BetaTool }

func (panics) Name() string { return "panics" }

func (panics) Execute(context.Context, json.RawMessage) ([]anthropic.BetaToolResultBlockParamContentUnion, error) {
	panic("on purpose")
}

// The nil Tracer, nil options and nil tools do nothing, and a tool without an open call runs as without us.
func TestNothing(t *testing.T) {
	a := New((*otelagent.Tracer)(nil), nil)
	defer a.Close()
	tools := a.Tools(nil, panics{})
	if tools[0] != nil || tools[1].Name() != "panics" || len(Options(nil, WithOwnSpans())) != 1 || len(a.Options()) != 2 {
		t.Error(tools)
	}
	defer func() {
		if recover() != "on purpose" {
			t.Error("the panic did not pass")
		}
	}()
	_, _ = tools[1].Execute(t.Context(), nil)
}
