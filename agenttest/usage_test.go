package agenttest_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Tokens are counted once, in every dialect: docs/usage.md. Each sum is written down from the numbers in the input, one term for each reply.

// sums are what a session comes to. Discarded is what discarded attempts cost besides.
type sums struct {
	Usage, Discarded session.Usage
	Rules            string // those of its turns and of runs that report a sum alone, each once, in their order
	Cost             float64
}

type usageCase struct {
	name, dialect string
	text          string // or a file below otelagent/
	file, then    string // then is a second file, read as lines of the same input
	opts          []input.Option
	want          map[string]sums // by session
	copied        bool            // the tree also has a run that is counted nowhere
}

const (
	includes  = string(spans.UsageRuleIncludesCache)
	excludes  = string(spans.UsageRuleExcludesCache)
	excludes2 = string(spans.UsageRuleExcludesCacheAndReasoning)
)

// own is a session of otelagent's own lines with one run: its start, the given lines, and its end.
func own(lines ...string) string {
	return `{"type":"otelagent.run_started","ts":"2026-11-21T09:00:00Z","session":"s","run":"r"}` + "\n" + strings.Join(lines, "\n") + "\n" +
		`{"type":"otelagent.run_ended","ts":"2026-11-21T09:01:00Z","run":"r","status":"completed"}` + "\n"
}

// reply is a turn of our own lines.
func reply(second, usage string) string {
	return `{"type":"otelagent.turn_started","ts":"2026-11-21T09:00:` + second + `Z","run":"r"}` + "\n" +
		`{"type":"otelagent.turn_ended","ts":"2026-11-21T09:00:` + second + `.5Z","run":"r","usage":` + usage + `}`
}

// prompt is a capture of ACP whose one prompt ends with the usage.
func prompt(usage string) string {
	return `{"ts":"2026-11-21T09:00:00Z","dir":"c2a","message":{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}}
{"ts":"2026-11-21T09:00:01Z","dir":"a2c","message":{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}}
{"ts":"2026-11-21T09:00:02Z","dir":"a2c","message":{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","usage":` + usage + `}}}
`
}

// answer is a session of the guide whose one assistant message has the usage.
func answer(usage string) string {
	return `{"type":"session","data":{"id":"s","agent":"a","created_at":1000,"updated_at":1000}}
{"type":"message","data":{"id":"u","session_id":"s","role":"user","metadata_json":"{}","created_at":1001,"updated_at":1001}}
{"type":"message","data":{"id":"a","session_id":"s","role":"assistant","metadata":{"usage":` + usage + `},"created_at":1002,"updated_at":1003}}
{"type":"part","data":{"id":"p","message_id":"a","index":0,"data":{"type":"text","text":"x","state":"done"},"created_at":1002,"updated_at":1003}}
`
}

func usageCases() []usageCase {
	one := func(s sums) map[string]sums { return map[string]sums{"s": s} }
	rule := func(r spans.UsageRule) []input.Option { return []input.Option{input.WithUsageRule(r)} }
	const five = `"input":100,"output":40,"reasoning":10,"cache_read":30,"cache_write":5`
	const wire = `"inputTokens":100,"outputTokens":40,"thoughtTokens":10,"cachedReadTokens":30,"cachedWriteTokens":5`
	withCache := session.Usage{Input: 100, Output: 40, Reasoning: 10, CacheRead: 30, CacheWrite: 5}
	without := session.Usage{Input: 100 + 30 + 5, Output: 40, Reasoning: 10, CacheRead: 30, CacheWrite: 5}
	without2 := session.Usage{Input: 100 + 30 + 5, Output: 40 + 10, Reasoning: 10, CacheRead: 30, CacheWrite: 5}
	const phi, clark = "phi/testdata/phi-core-0.15.2/", "clark/testdata/clark-agent-0.4.0/"
	return []usageCase{
		// The rules, and how each dialect comes to one.
		{name: "rule of a line", dialect: "otelagent", text: own(reply("01", `{`+five+`,"rule":"includes_cache"}`), reply("02", `{`+five+`,"rule":"excludes_cache"}`), reply("03", `{`+five+`,"rule":"excludes_cache_and_reasoning"}`)),
			want: one(sums{Usage: session.Usage{Input: 100 + 135 + 135, Output: 40 + 40 + 50, Reasoning: 30, CacheRead: 90, CacheWrite: 15}, Rules: includes + " " + excludes + " " + excludes2})},
		{name: "reasoning apart from output", dialect: "otelagent", text: own(reply("01", `{`+five+`,"rule":"excludes_reasoning"}`)),
			want: one(sums{Usage: session.Usage{Input: 100, Output: 40 + 10, Reasoning: 10, CacheRead: 30, CacheWrite: 5}, Rules: string(spans.UsageRuleExcludesReasoning)})},
		{name: "no rule", dialect: "otelagent", text: own(reply("01", `{`+five+`}`)), want: one(sums{Usage: withCache, Rules: includes})},
		{name: "rule as set", dialect: "otelagent", text: own(reply("01", `{`+five+`}`)), opts: rule(spans.UsageRuleExcludesCache), want: one(sums{Usage: without, Rules: excludes})},
		{name: "rule of a line before that as set", dialect: "otelagent", text: own(reply("01", `{`+five+`,"rule":"includes_cache"}`)), opts: rule(spans.UsageRuleExcludesCache),
			want: one(sums{Usage: withCache, Rules: includes})},
		{name: "protocols, parallel group and judge of phi-core", dialect: "phi-core", file: phi + "parallel-with-judge.events.ndjson", // the judge's 151+96 and 9 are in evaluation_usage again
			want: map[string]sums{"c9579442-9b0f-4852-b7f5-701cff668e93": {Usage: session.Usage{Input: (151 + 96) + 151 + (151 + 96), Output: 17 + 42 + 9, Reasoning: 17, CacheWrite: 96 + 96}, Rules: excludes + " " + includes}}},
		{name: "clark-agent does not say", dialect: "clark-agent", file: clark + "child-own-sink.events.ndjson",
			want: map[string]sums{"conv-child-own-sink": {Usage: session.Usage{Input: 151 + 213, Output: 29 + 14, CacheRead: 96, CacheWrite: 96}, Rules: includes}}},
		{name: "clark-agent of anthropic", dialect: "clark-agent", file: clark + "child-own-sink.events.ndjson", opts: []input.Option{input.WithProvider("anthropic")},
			want: map[string]sums{"conv-child-own-sink": {Usage: session.Usage{Input: 151 + 96 + 213 + 96, Output: 29 + 14, CacheRead: 96, CacheWrite: 96}, Rules: excludes}}},
		{name: "total of acp includes", dialect: "acp", text: prompt(`{` + wire + `,"totalTokens":140}`), want: one(sums{Usage: withCache, Rules: includes})},
		{name: "total of acp excludes the cache", dialect: "acp", text: prompt(`{` + wire + `,"totalTokens":175}`), want: one(sums{Usage: without, Rules: excludes})},
		{name: "total of acp excludes cache and thoughts", dialect: "acp", text: prompt(`{` + wire + `,"totalTokens":185}`), want: one(sums{Usage: without2, Rules: excludes2})},
		{name: "total of acp says nothing", dialect: "acp", text: prompt(`{` + wire + `,"totalTokens":7}`), want: one(sums{Usage: withCache, Rules: includes})},
		{name: "total of acp says nothing, as set", dialect: "acp", text: prompt(`{` + wire + `,"totalTokens":7}`), opts: rule(spans.UsageRuleExcludesCache), want: one(sums{Usage: without, Rules: excludes})},
		{name: "guide", dialect: "guide", text: answer(`{` + five + `}`), want: one(sums{Usage: without, Rules: excludes})},
		{name: "guide of a host that takes reasoning out", dialect: "guide", text: answer(`{` + five + `}`), opts: rule(spans.UsageRuleExcludesCacheAndReasoning), want: one(sums{Usage: without2, Rules: excludes2})},

		// Roll-ups.
		{name: "roll-up beside turns", dialect: "otelagent", text: own(reply("01", `{"input":7,"output":2}`), reply("02", `{"input":9,"output":3}`),
			`{"type":"otelagent.run_ended","ts":"2026-11-21T09:00:30Z","run":"r","status":"completed","usage":{"input":16,"output":5}}`),
			want: one(sums{Usage: session.Usage{Input: 7 + 9, Output: 2 + 3}, Rules: includes})},
		{name: "roll-up alone", dialect: "otelagent", text: own(`{"type":"otelagent.run_ended","ts":"2026-11-21T09:00:30Z","run":"r","status":"completed","usage":{"input":16,"output":5,"cache_read":4,"rule":"excludes_cache"}}`),
			want: one(sums{Usage: session.Usage{Input: 16 + 4, Output: 5, CacheRead: 4}, Rules: excludes})},
		{name: "roll-up of every loop of phi-core", dialect: "phi-core", file: phi + "continue-rerun-branch.events.ndjson",
			want: map[string]sums{"e77e5ff5-a044-4734-b8c3-cb95e577b66f": {Usage: session.Usage{Input: (151 + 96) + (213+96)*3, Output: 16 + 16 + 18 + 18, CacheRead: 96 * 3, CacheWrite: 96}, Rules: excludes}}},

		{name: "events of clark-agent and their trajectory", dialect: "clark-agent", file: clark + "child-shared-sink.events.ndjson", then: clark + "child-shared-sink.trajectory.jsonl",
			want: map[string]sums{"conv-child-shared-sink": {Usage: session.Usage{Input: (151 + 213 + 275) + (151 + 213), Output: (39 + 22 + 16) + (25 + 17), CacheRead: 96*2 + 96, CacheWrite: 96 + 96}, Rules: includes}}},

		// Judges and parallel groups.
		{name: "evaluation of a group", dialect: "otelagent", text: own(reply("01", `{"input":7,"output":2}`),
			`{"type":"otelagent.group_started","ts":"2026-11-21T09:00:40Z","session":"s","members":["r"]}`,
			`{"type":"otelagent.group_ended","ts":"2026-11-21T09:00:41Z","session":"s","selected_id":"r","evaluation_usage":{"input":200,"output":1}}`),
			want: one(sums{Usage: session.Usage{Input: 7, Output: 2}, Rules: includes})},

		// Sub-agents: each run counts where it ran, and a parent's run holds nothing of it.
		{name: "sub-agent in a session of its own", dialect: "phi-core", file: phi + "sub-agent-host-wired.events.ndjson", want: map[string]sums{
			"1ae87749-0bf3-404e-9127-c804a7316393": {Usage: session.Usage{Input: (151 + 96) + (213 + 96), Output: 40 + 20, CacheRead: 96, CacheWrite: 96}, Rules: excludes},
			"inspector-session-3":                  {Usage: session.Usage{Input: (151 + 96) + (213 + 96), Output: 15 + 18, CacheRead: 96, CacheWrite: 96}, Rules: excludes}}},
		{name: "sub-agent in the session", dialect: "clark-agent", file: clark + "child-shared-sink.events.ndjson", // the parent's three turns, then the child's two
			want: map[string]sums{"conv-child-shared-sink": {Usage: session.Usage{Input: (151 + 213 + 275) + (151 + 213), Output: (39 + 22 + 16) + (25 + 17), CacheRead: 96*2 + 96, CacheWrite: 96 + 96}, Rules: includes}}},
		{name: "sub-agent of the guide", dialect: "guide", text: answer(`{"input":5,"output":6}`) + strings.NewReplacer(`"s"`, `"child"`, `"u"`, `"cu"`, `"a","session`, `"ca","session`, `"message_id":"a"`, `"message_id":"ca"`, `"id":"p"`, `"id":"cp"`,
			`"agent":"a",`, `"agent":"b","parent_id":"s","metadata":{"mode":"subagent"},`).Replace(answer(`{"input":2,"output":3}`)),
			want: map[string]sums{"s": {Usage: session.Usage{Input: 5, Output: 6}, Rules: excludes}, "child": {Usage: session.Usage{Input: 2, Output: 3}, Rules: excludes}}},

		// Forks, and runs that were copied. More of the guide's is in TestGuideUsageCountsOnce.
		{name: "fork of the guide", dialect: "guide", file: "guide/testdata/hosts.jsonl", copied: true, // the copied reply has 5 and 2 as well
			want: map[string]sums{"ses_parent": {Usage: session.Usage{Input: 5, Output: 2}, Rules: excludes}, "ses_child": {}, "ses_fork": {}}},
		{name: "copied run", dialect: "otelagent", copied: true, text: `{"type":"otelagent.run_started","ts":"2026-11-21T08:00:00Z","session":"s","run":"c","copied":true,"fork_parent_id":"t"}
{"type":"otelagent.turn_started","ts":"2026-11-21T08:00:01Z","run":"c"}
{"type":"otelagent.attempt_discarded","ts":"2026-11-21T08:00:02Z","run":"c","usage":{"input":5}}
{"type":"otelagent.turn_ended","ts":"2026-11-21T08:00:03Z","run":"c","usage":{"input":1000,"output":1000}}
{"type":"otelagent.run_ended","ts":"2026-11-21T08:00:04Z","run":"c","status":"completed"}
` + own(reply("01", `{"input":7,"output":2}`)), want: one(sums{Usage: session.Usage{Input: 7, Output: 2}, Rules: includes})},

		// Attempts.
		{name: "discarded attempts", dialect: "clark-agent", file: clark + "output-tokens-escalation.events.ndjson", want: map[string]sums{"conv-output-tokens-escalation": {
			Usage:     session.Usage{Input: 151 + 213, Output: 33 + 16, CacheRead: 96, CacheWrite: 96},
			Discarded: session.Usage{Input: 151 + 151 + 213, Output: 23 + 23 + 23, CacheRead: 96, CacheWrite: 96 + 96}, Rules: includes}}},
		{name: "discarded attempt of our own", dialect: "otelagent", text: own(`{"type":"otelagent.turn_started","ts":"2026-11-21T09:00:01Z","run":"r"}`,
			`{"type":"otelagent.attempt_discarded","ts":"2026-11-21T09:00:02Z","run":"r","attempt":0,"usage":{"input":40,"output":4096,"cache_read":8,"rule":"excludes_cache"}}`,
			`{"type":"otelagent.turn_ended","ts":"2026-11-21T09:00:03Z","run":"r","usage":{"input":40,"output":60}}`),
			want: one(sums{Usage: session.Usage{Input: 40, Output: 60}, Discarded: session.Usage{Input: 40 + 8, Output: 4096, CacheRead: 8}, Rules: includes})},
		{name: "retries that reported nothing", dialect: "phi-core", file: phi + "retry-succeeds.events.ndjson",
			want: map[string]sums{"47fdf353-79b5-4060-9d58-90fb1eb69cb4": {Usage: session.Usage{Input: 151 + 96, Output: 21, CacheWrite: 96}, Rules: excludes}}},
		{name: "turns asked again after an overflow", dialect: "clark-agent", file: clark + "context-overflow.events.ndjson", // the two failed replies have no usage
			want: map[string]sums{"conv-context-overflow": {Usage: session.Usage{Input: 151 + 213*3, Output: 27 + 28 + 29 + 15, CacheRead: 96 * 3, CacheWrite: 96}, Rules: includes}}},

		// Compactions say how large the context was, not what was used. The guide's marker is in TestGuideUsageCountsOnce.
		{name: "compaction of phi-core", dialect: "phi-core", file: phi + "compaction-in-turn.events.ndjson", want: map[string]sums{"098cf250-210e-4259-81d3-a298fec7cc16": {
			Usage: session.Usage{Input: (151 + 96) + (213 + 96) + (275 + 96) + (275 + 96), Output: 14 + 14 + 16 + 17, CacheRead: 96 * 3, CacheWrite: 96}, Rules: excludes}}},
		{name: "compaction of acp", dialect: "acp", file: "acp/testdata/sdk/compaction.ndjson", want: map[string]sums{"sess_compaction_1": {}}},
		{name: "compaction of our own", dialect: "otelagent", text: own(reply("01", `{"input":7,"output":2}`),
			`{"type":"otelagent.compaction_started","ts":"2026-11-21T09:00:08Z","run":"r","kind":"summary","input_tokens":1100}`,
			`{"type":"otelagent.compaction_ended","ts":"2026-11-21T09:00:09Z","run":"r","kind":"summary","input_tokens":1100,"output_tokens":80}`),
			want: one(sums{Usage: session.Usage{Input: 7, Output: 2}, Rules: includes})},

		// What was rewound was billed. The guide's hidden messages are in TestGuideUsageCountsOnce.
		{name: "reverts of phi-core", dialect: "phi-core", file: phi + "revert.events.ndjson", want: map[string]sums{"031bdb7f-05e5-4cb2-87b2-ba3d2847921d": {
			Usage: session.Usage{Input: (151 + 96) + (213 + 96) + (213 + 96) + (275 + 96) + (213 + 96), Output: 15 + 58 + 42 + 27 + 19, CacheRead: 96 * 4, CacheWrite: 96}, Rules: excludes}}},
		{name: "rewind as a fact", dialect: "otelagent", text: own(reply("01", `{"input":7,"output":2}`),
			`{"type":"otelagent.fact_stated","ts":"2026-11-21T09:00:13Z","session":"s","facts":[{"subject":"message/m1","key":"hidden_at","value":1795165213000}]}`),
			want: one(sums{Usage: session.Usage{Input: 7, Output: 2}, Rules: includes})},

		// A cost that adds up on the wire is a difference in the tree: 0.0125, then 0.02 and 0.0375 in the second prompt.
		{name: "cost of acp", dialect: "acp", file: "acp/testdata/sdk/session-state.ndjson", want: map[string]sums{"sess_session-state_1": {Cost: 0.0375}}},
	}
}

// TestUsageIsCountedOnce holds every case of docs/usage.md, once, sent again under the same ids, and recorded a second time under others.
func TestUsageIsCountedOnce(t *testing.T) {
	for _, c := range usageCases() {
		t.Run(c.name, func(t *testing.T) {
			text := []byte(c.text)
			if c.file != "" {
				var err error
				if text, err = os.ReadFile(filepath.Join(repository, "dialects", filepath.FromSlash(c.file))); err != nil {
					t.Fatal(err)
				}
			}
			if c.then != "" {
				more, err := os.ReadFile(filepath.Join(repository, "dialects", filepath.FromSlash(c.then)))
				if err != nil {
					t.Fatal(err)
				}
				text = append(text, more...)
			}
			once := playAs(t, c, string(text), writer.WithDerivedIDs)
			if diff := cmp.Diff(c.want, sumsOf(once)); diff != "" {
				t.Fatalf("(-by hand +tree):\n%s", diff)
			}
			again := join(once, playAs(t, c, string(text), writer.WithDerivedIDs))
			if diff := cmp.Diff(c.want, sumsOf(again)); diff != "" {
				t.Errorf("sent again (-by hand +tree):\n%s", diff)
			}
			twice := join(playAs(t, c, string(text)), once)
			if diff := cmp.Diff(c.want, sumsOf(twice)); diff != "" {
				t.Errorf("recorded twice (-by hand +tree):\n%s", diff)
			}
			copied := 0
			for _, s := range session.AssembleAll(twice.Rows) {
				for _, r := range s.Runs {
					if r.Copied && r.Usage.Input > 0 {
						copied++
					}
					if n := countDefects(r.Defects, spans.DefectRecordedTwice); n != 1 {
						t.Errorf("run %s: %d defects, want 1", r.ID, n)
					}
				}
			}
			if want := map[bool]int{true: 1}[c.copied]; copied != want {
				t.Errorf("%d copied runs with usage of their own, want %d", copied, want)
			}
		})
	}
}

// playAs plays an input as `otelagent send` does with a file.
func playAs(t *testing.T, c usageCase, text string, opts ...otelagent.Option) session.Batch {
	t.Helper()
	d, ok := dialects.Named(c.dialect)
	if !ok {
		t.Fatalf("no dialect %s", c.dialect)
	}
	p := agenttest.New(t, opts...)
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range d.New(c.opts...).Events(strings.NewReader(text)) {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(context.Background(), ev)
	}
	rec.Close(context.Background())
	return p.Batch()
}

func sumsOf(b session.Batch) map[string]sums {
	all := map[string]sums{}
	for _, s := range session.AssembleAll(b.Rows) {
		v := sums{Usage: s.Usage}
		if s.Discarded != nil {
			v.Discarded = *s.Discarded
		}
		var rules []string
		seen := map[spans.UsageRule]bool{"": true}
		add := func(r spans.UsageRule) {
			if !seen[r] {
				seen[r] = true
				rules = append(rules, string(r))
			}
		}
		for _, r := range s.Runs {
			for _, turn := range r.Turns {
				if turn.Cost != nil {
					v.Cost += *turn.Cost
				}
				if r.Copied {
					continue
				}
				add(turn.Rule)
			}
			if len(rules) == 0 && !r.Copied {
				add(r.Rule)
			}
		}
		v.Cost = math.Round(v.Cost*1e9) / 1e9
		v.Rules = strings.Join(rules, " ")
		all[s.ID] = v
	}
	return all
}
