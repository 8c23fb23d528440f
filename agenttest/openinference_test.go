package agenttest_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/backends"
	"github.com/otelagent/otelagent/otelagent"
)

// The keys of OpenInference are for others: what is rebuilt is the same with them and without.
func TestOpenInferenceIsNotKept(t *testing.T) {
	tree := func(opts ...otelagent.Option) string {
		p := agenttest.New(t, append(opts, otelagent.WithCapture(otelagent.CaptureContent), otelagent.WithDerivedIDs())...)
		backends.Play(t.Context(), p.Tracer())
		b, err := json.MarshalIndent(p.Session(), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if diff := cmp.Diff(tree(), tree(otelagent.WithOpenInference())); diff != "" {
		t.Errorf("(-without +with):\n%s", diff)
	}
}
