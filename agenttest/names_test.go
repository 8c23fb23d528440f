package agenttest_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/backends"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Detailed names are for others: what is rebuilt is the same with them and without.
func TestSpanNamesAreNotKept(t *testing.T) {
	tree := func(opts ...otelagent.Option) string {
		p := agenttest.New(t, append(opts, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)...)
		backends.Play(t.Context(), (*writer.Tracer)(p.Tracer()))
		b := must.Get(json.MarshalIndent(p.Session(), "", " "))(t)
		return string(b)
	}
	if diff := cmp.Diff(tree(), tree(otelagent.WithSpanNames(true))); diff != "" {
		t.Errorf("(-exact +detailed):\n%s", diff)
	}
}

// The keys of OpenInference that a collector adds are for others: the rows are the same with them and without.
func TestOpenInferenceIsNotKept(t *testing.T) {
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	backends.Play(t.Context(), (*writer.Tracer)(p.Tracer()))
	for _, otlp := range p.OTLP() {
		td := must.Get((&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(otlp))(t)
		without, _ := otlprow.Decode(td)
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					s.Attributes().PutStr(string(spans.OpenInferenceKindKey), "LLM")
					s.Attributes().PutStr(string(spans.OpenInferenceInputKey), "secret")
				}
			}
		}
		if with, _ := otlprow.Decode(td); !reflect.DeepEqual(without, with) {
			t.Errorf("rows without the keys: %+v\nwith them: %+v", without, with)
		}
	}
}
