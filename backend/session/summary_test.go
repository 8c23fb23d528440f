package session

import (
	"testing"

	"github.com/otelagent/otelagent/spans"
)

func TestSummaryParent(t *testing.T) {
	for want, parents := range map[string][]string{"": {"", "s1"}, "p": {"", "s1", "p", "q"}} {
		s := &synth{session: Key{Tenant: "t", ID: "s1"}}
		for i, parent := range parents {
			start := at(int64(i))
			r := s.add(KindRun, string(rune('a'+i)), start, NoTurn, start, start+1, "otelagent.run.kind", "loop")
			if parent != "" {
				r.Attrs = attrs(string(spans.RunParentSessionIDKey), parent)
			}
		}
		if got := Summarize(Assemble(s.rows)).Parent; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestSummaryModel names the model of the turn that began last, though the run of a sub-agent is after it.
func TestSummaryModel(t *testing.T) {
	model := func(name string) []any { return []any{string(spans.RequestModelKey), name} }
	s := &synth{session: Key{ID: "s1"}}
	s.add(KindRun, "main", at(0), NoTurn, at(0), at(9))
	s.add(KindTurn, "main", at(0), 0, at(1), at(2), model("large")...)
	s.add(KindRun, "sub", at(3), NoTurn, at(3), at(5), "otelagent.run.parent.id", "main")
	s.add(KindTurn, "sub", at(3), 0, at(4), at(5), model("small")...)
	s.add(KindTurn, "main", at(0), 1, at(6), at(7), model("largest")...)
	if got := Summarize(Assemble(s.rows)).Model; got != "largest" {
		t.Errorf("%q, want largest", got)
	}
	s.add(KindTurn, "main", at(0), 2, at(8), at(9)) // without a model
	if got := Summarize(Assemble(s.rows)).Model; got != "largest" {
		t.Errorf("%q after a turn without a model, want largest", got)
	}
}

// TestRunsOfOneStart orders runs of a ledger that start at once by their records, as a resumed session of an old
// version has them, and others by their ids.
func TestRunsOfOneStart(t *testing.T) {
	for recording, want := range map[spans.Recording]string{spans.RecordingLedger: "cba", "": "abc"} {
		s := &synth{session: Key{ID: "s1"}}
		for i, id := range []string{"c", "b", "a"} {
			r := s.add(KindRun, id, at(0), NoTurn, at(0), at(1), string(spans.RecordingKindKey), string(recording))
			r.Seq = int64(i + 1)
		}
		got := ""
		for _, r := range Assemble(s.rows).Runs {
			got += r.ID
		}
		if got != want {
			t.Errorf("%q: %s, want %s", recording, got, want)
		}
	}
}
