package session

import (
	"testing"

	"github.com/otelagent/otelagent/spans"
)

func TestSummaryParent(t *testing.T) {
	type run struct {
		start  int64
		parent string
	}
	for _, c := range []struct {
		name string
		runs []run
		want string
	}{
		{"none", []run{{0, ""}}, ""},
		{"another session", []run{{0, "p"}}, "p"},
		{"a run of its own", []run{{0, "s1"}}, ""},
		{"a later run", []run{{0, ""}, {5, "s1"}, {9, "p"}}, "p"},
		{"the first of two", []run{{0, ""}, {5, "p"}, {9, "q"}}, "p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &synth{session: Key{Tenant: "t", ID: "s1"}}
			for i, r := range c.runs {
				kv := []any{"otelagent.run.kind", "loop"}
				if r.parent != "" {
					kv = append(kv, string(spans.RunParentSessionIDKey), r.parent)
				}
				s.add(KindRun, string(rune('a'+i)), at(r.start), NoTurn, at(r.start), at(r.start+1), kv...)
			}
			for range len(s.rows) {
				if got := Summarize(Assemble(s.rows)).Parent; got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
				s.rows = append(s.rows[1:], s.rows[0]) // the order in which they came does not matter
			}
		})
	}
}

// TestSummaryModel names the model of the turn that began last, though the run of a sub-agent stands behind it.
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
