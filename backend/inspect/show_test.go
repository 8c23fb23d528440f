package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/stats"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// list adds bodies to blocks and returns a list of them.
func list(blocks *session.BlockSet, bodies ...string) *session.Refs {
	var items []session.Ref
	for _, b := range bodies {
		blocks.Add(session.Block{Body: b})
		items = append(items, session.Ref{Block: spans.BlockOfString(b).Short().String()})
	}
	return session.NewRefs(items...)
}

// catalogue returns the parameters of a request with a system prompt and tools.
func catalogue(blocks *session.BlockSet, system, tools string) []*session.Request {
	refs := list(blocks, system, tools).Items()
	refs[0].Provenance, refs[1].Provenance = string(spans.ProvenanceSystem), string(spans.ProvenanceTools)
	return []*session.Request{{Params: session.NewRefs(refs...)}}
}

// live is a session that is under way: a turn whose reply comes in, a call that runs, and one for which somebody is
// asked. Its process says every second that it lives.
func live() session.Tree {
	blocks := &session.BlockSet{}
	open := func(from int) session.Span {
		return session.Span{Known: spans.KnownLive, Start: at(from), Seen: at(9000), HeartbeatNS: int64(time.Second)}
	}
	digest := strings.Repeat("0123456789abcdef", 4)
	run := &session.Run{
		Span: open(0), ID: "r1", Model: "gpt-5", Provider: "openai", Status: spans.RunStatusOpen,
		Rules: list(blocks, `[{"tool":"bash","action":"ask"}]`), RulesDigest: digest,
		Turns: []*session.Turn{
			{
				Span: span(
					10,
					4000,
				), Index: 0, Trigger: spans.TriggerUser, StopReason: "tool_use", Attempts: 2, DiscardedAttempts: 1,
				Discarded: &session.Usage{
					Input:  10,
					Output: 1,
				}, Variant: "high", Level: "medium", Temperature: p(0.0), MaxTokens: p(int64(32_000)),
				Usage:  session.Usage{Input: 1000, CacheRead: 600, CacheWrite: 300, Output: 50, Reasoning: 20},
				Output: list(blocks, `{"role":"assistant","content":"I run the tests."}`), ModelCallNS: 3e9, FirstChunkNS: 2e8,
				PromptDigest: digest, RequestMessages: 1, Cost: p(0.00004), Currency: "EUR",
				Requests: catalogue(
					blocks,
					`"Be careful."`,
					`[{"type":"function","function":{"name":"bash"}},{"type":"web_search"}]`,
				),
				ToolCalls: []*session.ToolCall{
					{Span: span(3000, 3900), ID: "c1", Name: "bash", Outcome: spans.OutcomeOK, Args: list(blocks, `{"command":"ls"}`),
						Permissions: []*session.Permission{
							{Span: span(3000, 3100), CallID: "c1", Action: spans.ActionAllow, DecidedBy: "ada", WaitNS: 1e8,
								Source: spans.PermissionSourceProject, Pattern: "ls*"},
						}},
					{Span: span(3000, 3500), ID: "c2", Name: "web_search", Outcome: spans.OutcomeOK},
				},
			},
			{
				Span: open(4000), Index: 1, Trigger: spans.TriggerContinuation, PromptDigest: "ff" + digest[2:], RequestMessages: 4,
				Output: list(blocks, `{"role":"assistant","content":"The tests fa"}`), Partial: true,
				ToolCalls: []*session.ToolCall{
					{Span: open(8000), ID: "c3", Name: "bash", Args: list(blocks, `{"command":"rm -r build"}`),
						Permissions: []*session.Permission{{Span: open(8000), CallID: "c3", Action: spans.ActionAsk, Pattern: "rm *"}}},
				},
			},
		},
	}
	s := &session.Session{
		ID:     "live",
		Status: spans.SessionStatusWaitingOnApproval,
		Agent:  "coder",
		Start:  at(0),
		Last:   at(9000),
		Runs:   []*session.Run{run},
	}
	run.Usage = run.Turns[0].Usage
	s.Usage = run.Usage
	return session.Tree{Session: s, Blocks: blocks}
}

func TestLive(t *testing.T) {
	tree := live()
	prices := must.Get(stats.ReadPrices(
		strings.NewReader(`{"gpt-5": {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-5}}`),
	))(t)
	o := inspect.Options{Width: 80, AsOf: at(10_000), Now: at(10_000), Prices: prices,
		Forks: []session.Summary{{Key: session.Key{ID: "live-fork"}, Turns: 3, Status: spans.SessionStatusIdle}}}
	golden(t, "live-80.txt", render(t, tree, o))
	o.Width = 200
	golden(t, "live-200.txt", render(t, tree, o))
	for _, o.Width = range []int{40, 59, 60, 80, 99, 100, 139, 140, 300} {
		render(t, tree, o)
	}
	o.Width = 80
	o.Run, o.Turn = tree.Runs[0], tree.Runs[0].Turns[0]
	golden(t, "live-turn.txt", render(t, tree, o))

	tree.Runs[0].Rules = list(tree.Blocks, `[]`)
	if got := render(t, tree, inspect.Options{Width: 80}); !strings.Contains(got, "rules   none in force · digest") {
		t.Errorf("no rules:\n%s", got)
	}

	// A run whose process sends no heartbeat has stopped, as of now and not as of what was seen last.
	dead := render(t, tree, inspect.Options{Width: 80, AsOf: at(60_000)})
	for _, want := range []string{"status   aborted · 1 run (1 aborted) ·", "run 1 · aborted · gpt-5",
		"its process sends no heartbeat", "turn 1 · continuation · stopped", "… stopped bash"} {
		if !strings.Contains(dead, want) {
			t.Errorf("no %q in\n%s", want, dead)
		}
	}
	tree.Runs[0].Turns[1].Waiting = "user_input"
	if got := render(t, tree, inspect.Options{Width: 80}); !strings.Contains(
		got,
		"turn 1 · continuation · waiting for user input",
	) {
		t.Errorf("its wait is not shown:\n%s", got)
	}
}

// rewound is a run of which turns in the middle were rewound, and one that was rewound as a whole.
func rewound() session.Tree {
	blocks := &session.BlockSet{}
	s := &session.Session{ID: "s", Start: at(0), Last: at(9000)}
	said := func(id, text string) *session.Refs {
		return list(blocks, `{"id":"`+id+`","role":"user","content":"`+text+`"}`)
	}
	turn := func(i int, id, text string) *session.Turn {
		return &session.Turn{Span: span(i*1000, i*1000+900), Index: int64(i), Input: said(id, text)}
	}
	s.Runs = []*session.Run{
		{Span: span(0, 5000), ID: "a", Status: spans.RunStatusCompleted, Turns: []*session.Turn{
			turn(0, "m0", "keep"), turn(1, "m1", "gone one"), turn(2, "m2", "gone two"), turn(3, "m3", "stays")}},
		{
			Span:   span(6000, 7000),
			ID:     "b",
			Status: spans.RunStatusCompleted,
			Turns:  []*session.Turn{turn(0, "m4", "gone three")},
		},
	}
	for _, id := range []string{"m1", "m2", "m4"} {
		value := list(blocks, "true").Items()[0]
		s.Facts = append(
			s.Facts,
			session.Fact{Subject: session.SubjectMessage + id, Key: session.FactHidden, At: at(8000), Value: &value},
		)
	}
	return session.Tree{Session: s, Blocks: blocks}
}

func TestHidden(t *testing.T) {
	tree := rewound()
	o := inspect.Options{Width: 80}
	got := render(t, tree, o)
	for _, want := range []string{"rewound 2 turns not shown; --hidden shows what was rewound",
		"run 2 · completed · rewound at 02:16:01.000 UTC", "1 turn not shown", "keep", "stays"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "gone") || strings.Contains(got, "hidden_at") {
		t.Errorf("what was rewound is shown unasked:\n%s", got)
	}
	o.Hidden = true
	got = render(t, tree, o)
	for _, want := range []string{"gone one", "gone two", "gone three", "turn 1 · rewound at 02:16:01.000 UTC",
		"run 2 · completed · rewound"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	// What is asked for by its address is shown.
	o = inspect.Options{Width: 80, Run: tree.Runs[0], Turn: tree.Runs[0].Turns[1]}
	if got := render(t, tree, o); !strings.Contains(got, "gone one") || !strings.Contains(got, "rewound at") {
		t.Errorf("a turn that was rewound and is asked for:\n%s", got)
	}
}

// Of the rules of a session those count that were in force at the time, from the time of their fact on.
func TestRulesInForce(t *testing.T) {
	blocks := &session.BlockSet{}
	fact := func(ms int, rules string) session.Fact {
		return session.Fact{Subject: "session", Key: "rules", At: at(ms), Value: &list(blocks, rules).Items()[0]}
	}
	turn := func(i int64, ms int) *session.Turn {
		call := &session.ToolCall{Span: span(ms, ms+5), ID: "c", Name: "bash", Outcome: spans.OutcomeOK}
		return &session.Turn{Span: span(ms, ms+10), Index: i, ToolCalls: []*session.ToolCall{call}}
	}
	run := &session.Run{Span: span(0, 5000), ID: "r", Turns: []*session.Turn{turn(0, 1000), turn(1, 2000), turn(2, 4000)}}
	tree := session.Tree{Blocks: blocks, Session: &session.Session{ID: "s", Start: at(0), Runs: []*session.Run{run},
		Facts: []session.Fact{
			fact(2000, `["first"]`),
			fact(3000, `[{"tool":"bash","action":"deny"},{"tool":"*","action":"ask"}]`),
		}}}
	v := inspect.NewView(tree, nil)
	for i, want := range []string{"rules   not recorded\n", "rules   first\n", "rules   tool: bash, action: deny\n"} {
		got := render(t, tree, inspect.Options{Width: 80, Run: run, Turn: run.Turns[i]})
		if !strings.Contains(got, want) || !strings.Contains(got, "decided not recorded") {
			t.Errorf("turn %d: no %q in\n%s", i, want, got)
		}
		if got := v.Turn(run.Turns[i], 100, at(5000)); (got.RulesState == inspect.StateNotRecorded) != (i == 0) {
			t.Errorf("turn %d: %+v, %q", i, got.Rules, got.RulesState)
		}
	}
	tree.Facts, run.RulesDigest = nil, "feed"
	if got := render(t, tree, inspect.Options{Width: 80}); !strings.Contains(got, "rules   not captured · digest feed\n") {
		t.Errorf("rules of which only the digest is there:\n%s", got)
	}
}

// Catalogues are read as every provider spells them.
func TestOffered(t *testing.T) {
	for tools, want := range map[string]string{
		`[{"name":"a"},{"name":"b"}]`:                            "offered a, b\n",
		`[{"type":"function","function":{"name":"a"}}]`:          "offered a\n",
		`[{"functionDeclarations":[{"name":"a"},{"name":"b"}]}]`: "offered a, b\n",
		`[{"toolSpec":{"name":"a"}}]`:                            "offered a\n",
		`[{"type":"web_search_preview"}]`:                        "offered web_search_preview\n",
		`{"a":{"description":"x"},"b\u001b[2J":{}}`:              `offered a, b\x1b[2J` + "\n",
		`["a","b"]`: "offered a, b\n",
		`[]`:        "offered none\n",
		`[1]`:       "offered not recorded\n",
		`{"a":`:     "offered not recorded\n",
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000):       "offered not recorded\n",
		`[{"name":7},{"name":"a"}]`:                                     "offered not recorded\n",
		`[{"name":"a","functionDeclarations":[{"name":"b"}],"type":1}]`: "offered b\n",
	} {
		blocks := &session.BlockSet{}
		turn := &session.Turn{Span: span(0, 1), Requests: catalogue(blocks, `"s"`, tools)}
		run := &session.Run{Span: span(0, 1), ID: "r", Turns: []*session.Turn{turn}}
		tree := session.Tree{Blocks: blocks, Session: &session.Session{ID: "s", Start: at(0), Runs: []*session.Run{run}}}
		if got := render(t, tree, inspect.Options{Width: 80, Run: run, Turn: turn}); !strings.Contains(got, want) {
			t.Errorf("%.60s: no %q in\n%s", tools, want, got)
		}
	}
}
