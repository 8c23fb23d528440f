package session

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/spans"
)

// figured is a session with everything that figures treat in a way of its own.
func figured() *synth {
	s := &synth{session: Key{Tenant: "t", ID: "s1"}}
	run := func(id string, start int64, kv ...any) {
		s.add(KindRun, id, at(start), NoTurn, at(start), at(start+50), append(kv, "otelagent.run.kind", "loop",
			"gen_ai.request.model", "asked", "gen_ai.provider.name", "anthropic")...)
	}
	run("r1", 0)
	s.add(KindTurn, "r1", at(0), 0, at(1), at(9), "gen_ai.response.model", "answered", string(spans.UsageInputKey),
		100, string(spans.UsageOutputKey), 20, string(spans.UsageCacheReadKey), 90, string(spans.UsageRuleKeyKey),
		"excludes_cache",
		string(spans.TurnStopReasonKey), "tool_use", string(spans.TurnCostKey), 0.25,
		string(spans.TurnCostCurrencyKey), "USD", string(spans.TimeToFirstChunkKey), 0.002)
	s.add(KindToolCall, "r1", at(0), 0, at(3), at(5), string(spans.ToolCallIDKey), "c1", string(spans.ToolNameKey),
		"bash", string(spans.ToolOutcomeKey), "error")
	s.add(KindPermission, "r1", at(0), 0, at(2), at(3), string(spans.ToolCallIDKey), "c1", string(spans.ToolNameKey),
		"bash", string(spans.PermissionActionKey), "allow", string(spans.PermissionSourceKeyKey), "project")
	s.add(KindCompaction, "r1", at(0), 0, at(6), at(7), string(spans.CompactionKindKeyKey), "summary",
		string(spans.CompactionInputTokensKey), 900)
	// A turn whose start is a bound, one that has no end, one that was closed without an end, and one that reports
	// nothing but zeros.
	s.add(KindTurn, "r1", at(0), 1, at(10), at(12), string(spans.StartTimeKey), "bound", string(spans.UsageOutputKey),
		5)
	s.add(KindTurn, "r1", at(0), 2, at(13), at(13)).Known = spans.KnownLive
	s.add(KindTurn, "r1", at(0), 3, at(14), at(15)).Known = spans.KnownClosed
	s.add(KindTurn, "r1", at(0), 4, at(16), at(17), string(spans.UsageRuleKeyKey), "includes_cache")
	// A tool call of a turn that did not arrive, and one outside any.
	s.add(KindToolCall, "r1", at(0), 5, at(18), at(19), string(spans.ToolCallIDKey), "c2",
		string(spans.ToolOutcomeKey), "denied")
	s.add(KindToolCall, "r1", at(0), NoTurn, at(20), at(21), string(spans.ToolCallIDKey), "c3",
		string(spans.ToolOutcomeKey), "ok")
	s.add(KindPermission, "r1", at(0), NoTurn, at(22), at(23), string(spans.PermissionActionKey), "deny",
		string(spans.PermissionTargetKeyKey), "input")
	// A run that was taken over from another session, and a group.
	run("r2", 60, string(spans.RunCopiedKey), true)
	s.add(KindTurn, "r2", at(60), 0, at(61), at(62), string(spans.UsageInputKey), 7)
	s.add(KindRun, "", at(80), NoTurn, at(80), at(81), "otelagent.run.kind", "parallel")
	return s
}

func TestFiguresOf(t *testing.T) {
	s := figured()
	s.rows = append(s.rows, s.rows[:6]...) // sent twice
	rand.Shuffle(len(s.rows), func(i, j int) { s.rows[i], s.rows[j] = s.rows[j], s.rows[i] })
	num := Some[int64]
	turn := func(index, start int64) TurnFigures {
		return TurnFigures{Session: "s1", Run: "r1", RunStart: at(0), Turn: index, Start: at(start), Agent: "coder",
			Provider: "anthropic", Model: "asked"}
	}
	first, bound, live, closed, zero, missing := turn(0, 1), turn(1, 10), turn(2, 13), turn(3, 14), turn(4, 16),
		turn(5, 18)
	first.End, first.FirstChunk, first.ResponseModel, first.StopReason = num(at(9)), num(2_000_000), "answered",
		"tool_use"
	first.Input, first.Output, first.Reasoning, first.CacheRead, first.CacheWrite = num(100), num(20), num(0), num(90),
		num(0)
	first.Cost, first.Currency, first.ToolCalls = Some(0.25), "USD", 1
	bound.Input, bound.Output, bound.Reasoning, bound.CacheRead, bound.CacheWrite = num(0), num(5), num(0), num(0),
		num(0)
	zero.End = num(at(17))
	zero.Input, zero.Output, zero.Reasoning, zero.CacheRead, zero.CacheWrite = num(0), num(0), num(0), num(0), num(0)
	missing.ToolCalls = 1
	want := Figures{
		Turns: []TurnFigures{first, bound, live, closed, zero, missing},
		ToolCalls: []ToolCallFigures{
			{Session: "s1", Run: "r1", RunStart: at(0), Call: "c3", Start: at(20), End: num(at(21)), Agent: "coder",
				Model: "asked", Outcome: "ok"},
			{Session: "s1", Run: "r1", RunStart: at(0), Turn: num(0), Call: "c1", Start: at(3), End: num(at(5)),
				Agent: "coder", Model: "asked", Tool: "bash", Outcome: "error", Failed: true},
			{Session: "s1", Run: "r1", RunStart: at(0), Turn: num(5), Call: "c2", Start: at(18), End: num(at(19)),
				Agent: "coder", Model: "asked", Outcome: "denied"},
		},
		Compactions: []CompactionFigures{{Session: "s1", Run: "r1", RunStart: at(0), Turn: num(0), Start: at(6),
			End: num(at(7)), Kind: "summary", InputTokens: num(900)}},
		Permissions: []PermissionFigures{
			{Session: "s1", Run: "r1", RunStart: at(0), At: at(22), Action: "deny"},
			{Session: "s1", Run: "r1", RunStart: at(0), Turn: num(0), At: at(2), Tool: "bash", Action: "allow",
				Source: "project"},
		},
	}
	tree := Assemble(s.rows)
	got := FiguresOf(tree)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var sum Usage
	for _, f := range got.Turns {
		sum.Add(Usage{f.Input.V, f.Output.V, f.Reasoning.V, f.CacheRead.V, f.CacheWrite.V})
	}
	if sum != tree.Usage {
		t.Errorf("turns sum up to %+v, the session's usage is %+v", sum, tree.Usage)
	}
}
