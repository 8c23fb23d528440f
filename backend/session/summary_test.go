package session

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		{"bytes that are no text", []run{{0, "\xff\x00p"}}, "\xff\x00p"},
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

// TestSummaryParentOfTurns finds the parent of a session of which only turns came, or only what is still going on,
// and none in a group.
func TestSummaryParentOfTurns(t *testing.T) {
	parent := string(spans.RunParentSessionIDKey)
	s := &synth{session: Key{ID: "s1"}}
	s.add(KindTurn, "r", at(0), 0, at(1), at(2), parent, "p")
	if got := Summarize(Assemble(s.rows)).Parent; got != "p" {
		t.Errorf("by the header of a turn: %q, want p", got)
	}
	s = &synth{session: Key{ID: "s1"}}
	s.add(KindRun, "r", at(0), NoTurn, at(0), at(0), parent, "p").Known = spans.KnownLive
	if got := Summarize(Assemble(s.rows)).Parent; got != "p" {
		t.Errorf("of a run that is going on: %q, want p", got)
	}
	s = &synth{session: Key{ID: "s1"}}
	s.add(KindToolCall, "r", at(0), 0, at(1), at(2), "otelagent.tool.child.session.id", "child")
	if got := Summarize(Assemble(s.rows)).Parent; got != "" {
		t.Errorf("of one that spawns others: %q, want none", got)
	}
	if got := Summarize(Assemble(nil)); got.Parent != "" || got.Status == "" || !got.Last.IsZero() {
		// For package retention a session without a status was never projected.
		t.Errorf("of nothing: %+v, want a status and no more", got)
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

func TestSummaryJSON(t *testing.T) {
	sum := Summary{
		Key: Key{Tenant: "t", ID: "s1"}, Parent: "p", Status: spans.SessionStatusIdle, Agent: "coder", AgentID: "a1",
		Model: "m", Dialect: "phi-core",
		Start: time.Unix(0, 1).UTC(), Last: time.Unix(1, 0).UTC(), Runs: 1, Turns: 2, ToolCalls: 3, Errors: 4,
		Denied: 5, Defects: 6,
		Usage: Usage{Input: 7, Output: 8, Reasoning: 9, CacheRead: 10, CacheWrite: 11},
	}
	const full = `{"tenant":"t","id":"s1","parent":"p","status":"idle","agent":"coder","agent_id":"a1","model":"m",` +
		`"dialect":"phi-core",` +
		`"start":"1970-01-01T00:00:00.000000001Z","last":"1970-01-01T00:00:01Z","runs":1,"turns":2,"tool_calls":3,` +
		`"errors":4,"denied":5,"defects":6,` +
		`"usage":{"input":7,"output":8,"reasoning":9,"cache_read":10,"cache_write":11}}`
	const least = `{"id":"s1","status":"","start":"0001-01-01T00:00:00Z","last":"0001-01-01T00:00:00Z","runs":0,` +
		`"turns":0,"tool_calls":0,"errors":0,"denied":0,"defects":0,` +
		`"usage":{"input":0,"output":0,"reasoning":0,"cache_read":0,"cache_write":0}}`
	for want, sum := range map[string]Summary{full: sum, least: {Key: Key{ID: "s1"}}} {
		got, err := json.Marshal(sum)
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
		var back Summary
		if err := json.Unmarshal(got, &back); err != nil || back != sum {
			t.Errorf("%v: read back as %+v", err, back)
		}
	}
}
