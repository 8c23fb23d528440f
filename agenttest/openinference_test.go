package agenttest_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/backends"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// The keys of OpenInference and detailed names are for others: what is rebuilt is the same with them and without.
func TestOpenInferenceIsNotKept(t *testing.T) {
	tree := func(pipeline func(testing.TB, ...otelagent.Option) *agenttest.Pipeline, opts ...otelagent.Option) string {
		p := pipeline(t, append(opts, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)...)
		backends.Play(t.Context(), (*writer.Tracer)(p.Tracer()))
		b, err := json.MarshalIndent(p.Session(), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if diff := cmp.Diff(tree(agenttest.New), tree(agenttest.NewOpenInference)); diff != "" {
		t.Errorf("(-without +with):\n%s", diff)
	}
	detailed := otelagent.WithSpanNames(true)
	for name, pipeline := range map[string]func(testing.TB, ...otelagent.Option) *agenttest.Pipeline{
		"detailed": agenttest.New, "both": agenttest.NewOpenInference,
	} {
		if diff := cmp.Diff(tree(agenttest.New), tree(pipeline, detailed)); diff != "" {
			t.Errorf("%s (-exact +%[1]s):\n%s", name, diff)
		}
	}
}
