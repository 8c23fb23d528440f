package stats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

var num = session.Some[int64]

// filled returns a store of two sessions of a tenant and one of another.
func filled(t *testing.T) store.Store {
	t.Helper()
	st := memstore.New()
	usage := func(f session.TurnFigures, in, out, reasoning, read, write int64) session.TurnFigures {
		f.Input, f.Output, f.Reasoning, f.CacheRead, f.CacheWrite = num(in), num(out), num(reasoning), num(read), num(write)
		return f
	}
	a := session.Figures{
		Turns: []session.TurnFigures{
			usage(session.TurnFigures{Run: "r", RunStart: 1, Turn: 0, Start: 1e9, End: num(3e9), FirstChunk: num(5e8),
				Agent: "coder", Provider: "anthropic", Model: "opus", ResponseModel: "opus-1", Attempts: num(3),
				Cost: session.Some(0.5), Currency: "USD"}, 1000, 100, 40, 800, 100),
			usage(session.TurnFigures{Run: "r", RunStart: 1, Turn: 1, Start: 4e9, Agent: "coder", Provider: "anthropic",
				Model: "opus", Failed: true, Cost: session.Some(2.0), Currency: "EUR"}, 3000, 0, 0, 0, 0),
			{Run: "r", RunStart: 1, Turn: 2, Start: 5e9, Agent: "coder", Provider: "anthropic", Model: "opus"},
		},
		ToolCalls: []session.ToolCallFigures{
			{Run: "r", RunStart: 1, Turn: num(0), Call: "1", Start: 1e9, End: num(1e9 + 1000), Agent: "coder", Model: "opus",
				Tool: "bash", Outcome: "ok"},
			{Run: "r", RunStart: 1, Turn: num(0), Call: "2", Start: 2e9, End: num(2e9 + 3000), Agent: "coder", Model: "opus",
				Tool: "bash", Outcome: "error", Failed: true},
			{Run: "r", RunStart: 1, Turn: num(1), Call: "3", Start: 2e9, Agent: "coder", Model: "opus"},
		},
		Compactions: []session.CompactionFigures{
			{Run: "r", RunStart: 1, Start: 2e9, Kind: "summary", Trigger: "limit", InputTokens: num(9000),
				OutputTokens: num(400), Cost: session.Some(0.25), Currency: "USD"},
			{Run: "r", RunStart: 1, Start: 3e9, Kind: "summary", Trigger: "limit", InputTokens: num(8000)},
			{Run: "r", RunStart: 1, Start: 3e9, Kind: "prune"},
		},
		Permissions: []session.PermissionFigures{
			{Run: "r", RunStart: 1, At: 1e9, Tool: "bash", Action: "deny", Source: "project", Wait: num(7)},
			{Run: "r", RunStart: 1, At: 1e9, Tool: "bash", Action: "allow", Source: "project"},
			{Run: "r", RunStart: 1, At: 2e9, Tool: "bash", Action: "allow", Source: "project"},
		},
	}
	b := session.Figures{
		Turns: []session.TurnFigures{
			usage(session.TurnFigures{Run: "q", RunStart: 2, Turn: 0, Start: 9e9, Agent: "reviewer", Provider: "openai",
				Model: "gpt"}, 10, 1, 0, 0, 0),
			usage(session.TurnFigures{Run: "q", RunStart: 2, Turn: 1, Start: 9e9, Agent: "reviewer", Provider: "openai",
				Model: "gpt"}, 20, 2, 0, 0, 0),
		},
		Permissions: []session.PermissionFigures{{Run: "q", RunStart: 2, At: 9e9, Action: "ask"}},
	}
	for i, s := range []struct {
		k session.Key
		f session.Figures
	}{{session.Key{ID: "a"}, a}, {session.Key{ID: "b"}, b}, {session.Key{Tenant: "t", ID: "c"}, b}} {
		row := session.Row{Session: s.k, Trace: session.TraceID{1}, Span: session.SpanID{byte(i + 1)}, Kind: session.KindRun,
			Known: spans.KnownObserved}
		must.Do(t, st.Put(t.Context(), session.Batch{Rows: []session.Row{row}}))
		m, err := st.Revision(t.Context(), s.k)
		if err == nil {
			err = st.SetSummary(t.Context(), s.k, store.SummaryUpdate{Revision: m, Figures: s.f})
		}
		must.Do(t, err)
	}
	return st
}

const catalogue = `{"sample_spec": {"input_cost_per_token": 9, "output_cost_per_token": 9, "mode":
	"one of: chat, embedding"},
	"anthropic/OPUS-1": {"input_cost_per_token": 1e-2, "output_cost_per_token": 0.1, "cache_read_input_token_cost": 0.001,
		"cache_creation_input_token_cost": 0.0125, "output_cost_per_reasoning_token": 0.2, "x": [{}]},
	"opus": {"input_cost_per_token": 0.02, "output_cost_per_token": 0.1},
	"gpt": {"input_cost_per_token": "a lot", "output_cost_per_token": 0.1}, "image":
		{"output_cost_per_image": 1}, "odd": []}`

func collect(t *testing.T, st store.Store, o Options) *Report {
	t.Helper()
	r := must.Get(Collect(t.Context(), st, o))(t)
	return r
}

func TestCollect(t *testing.T) {
	prices := must.Get(ReadPrices(strings.NewReader(catalogue)))(t)
	got := collect(t, filled(t), Options{By: ByModel, Prices: prices})
	dist := func(l ...int64) *Dist { return newDist(l) }
	rate := func(f float64) *float64 { return &f }
	want := &Report{
		Format: 1, By: ByModel,
		Total: Group{
			Sessions: 2, Turns: 5, Failed: 1, Retries: 2, WithoutUsage: 1,
			Input: dist(1000, 3000, 10, 20), Output: dist(100, 0, 1, 2), CacheRead: dist(800, 0, 0, 0),
			CacheWrite: dist(100, 0, 0, 0), Reasoning: dist(40, 0, 0, 0),
			Duration: dist(2e9), FirstChunk: dist(5e8), CacheRate: rate(800.0 / 4030),
			Cost:      []Cost{{"EUR", 2, 1, 0}, {"USD", 0.75, 1, 1}}, // as of the two sessions in a list
			Computed:  &Cost{"USD", 100*0.01 + 800*0.001 + 100*0.0125 + 60*0.1 + 40*0.2 + 3000*0.02, 2, 0},
			ToolCalls: 3, ToolOutcomes: map[string]int64{"ok": 1, "error": 1, "open": 1}, ToolDuration: dist(1000, 3000),
		},
		Groups: []Group{
			{
				Name: "opus", Sessions: 1, Turns: 3, Failed: 1, Retries: 2, WithoutUsage: 1,
				Input: dist(1000, 3000), Output: dist(100, 0), CacheRead: dist(800, 0), CacheWrite: dist(100, 0),
				Reasoning: dist(40, 0),
				Duration:  dist(2e9), FirstChunk: dist(5e8), CacheRate: rate(0.2),
				Cost:      []Cost{{"EUR", 2, 1, 0}, {"USD", 0.5, 1, 0}},
				Computed:  &Cost{"USD", 77.05, 2, 0},
				ToolCalls: 3, ToolOutcomes: map[string]int64{"ok": 1, "error": 1, "open": 1}, ToolDuration: dist(1000, 3000),
			},
			{
				Name: "gpt", Sessions: 1, Turns: 2, Input: dist(10, 20), Output: dist(1, 2), CacheRead: dist(0, 0),
				CacheWrite: dist(0, 0), Reasoning: dist(0, 0),
				CacheRate: rate(0), CacheIdle: true, Computed: &Cost{Currency: "USD"},
			},
		},
		Tools: []Tool{
			{Name: "bash", Calls: 2, Outcomes: map[string]int64{"ok": 1, "error": 1}, Duration: dist(1000, 3000)},
			{Name: "", Calls: 1, Outcomes: map[string]int64{"open": 1}},
		},
		Compactions: []Compaction{{Kind: "summary", Trigger: "limit", N: 2, Before: dist(8000, 9000), After: dist(400)},
			{Kind: "prune", N: 1}},
		Permissions: []Permission{{Action: "allow", Source: "project", N: 2}, {Action: "ask", N: 1},
			{Action: "deny", Source: "project", N: 1, Wait: dist(7)}},
		NoPrice: []NoPrice{{"openai", "gpt", 2}},
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGroups(t *testing.T) {
	st := filled(t)
	for by, want := range map[By]string{
		"": "", ByModel: "opus 3/3 gpt 2/0", ByAgent: "coder 3/3 reviewer 2/0", BySession: "a 3/3 b 2/0",
		ByProvider: "anthropic 3/0 openai 2/0", ByTool: "bash 0/2  0/1",
	} {
		r := collect(t, st, Options{By: by})
		var got []string
		for _, g := range r.Groups {
			got = append(got, g.Name+" "+itoa(g.Turns)+"/"+itoa(g.ToolCalls))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("by %s: %q, want %q", by, s, want)
		}
		if i := slices.IndexFunc(r.Groups, func(g Group) bool { return by == BySession && g.Name == "a" }); i >= 0 {
			if diff := cmp.Diff(r.Total.Cost, r.Groups[i].Cost); diff != "" {
				t.Errorf("the only session with a cost: (-total +group)\n%s", diff)
			}
		}
		if r.Total.Turns != 5 || r.Total.ToolCalls != 3 || r.Total.Sessions != 2 || r.Total.Input.N != 4 {
			t.Errorf("by %s: total %+v", by, r.Total)
		}
	}
	if _, err := Collect(t.Context(), st, Options{By: "colour"}); err == nil ||
		!strings.Contains(err.Error(), "want model, agent") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Collect(ctx, st, Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func itoa(n int64) string { return string(rune('0' + n)) }

func TestFilters(t *testing.T) {
	st := filled(t)
	for _, c := range []struct {
		q                                      store.FigureQuery
		turns, tools, compactions, permissions int64
	}{
		{store.FigureQuery{}, 5, 3, 3, 4},
		{store.FigureQuery{Tenant: "t"}, 2, 0, 0, 1},
		{store.FigureQuery{Session: "b"}, 2, 0, 0, 1},
		{store.FigureQuery{Agent: "coder"}, 3, 3, 3, 3},
		{store.FigureQuery{Model: "gpt"}, 2, 0, 0, 1},
		{store.FigureQuery{Provider: "openai"}, 2, 0, 0, 1},
		{store.FigureQuery{Provider: "anthropic"}, 3, 3, 3, 3},
		{store.FigureQuery{Agent: "nobody"}, 0, 0, 0, 0},
		{store.FigureQuery{Since: time.Unix(4, 0)}, 4, 0, 0, 1},
		{store.FigureQuery{Tool: "is not looked at"}, 5, 3, 3, 4},
	} {
		r := collect(t, st, Options{Query: c.q})
		var compactions, permissions int64
		for _, x := range r.Compactions {
			compactions += x.N
		}
		for _, x := range r.Permissions {
			permissions += x.N
		}
		if r.Total.Turns != c.turns || r.Total.ToolCalls != c.tools || compactions != c.compactions ||
			permissions != c.permissions {
			t.Errorf("%+v: %d turns, %d tool calls, %d compactions, %d permission evaluations", c.q, r.Total.Turns,
				r.Total.ToolCalls, compactions, permissions)
		}
	}
}

// Distributions are those of a plain, slow computation.
func TestDist(t *testing.T) {
	if newDist(nil) != nil {
		t.Error("a distribution of nothing")
	}
	for range 300 {
		l := make([]int64, 1+rand.IntN(300))
		for i := range l {
			l[i] = int64(rand.ExpFloat64()*math.Pow(10, float64(rand.IntN(12)))) - 3
		}
		d := newDist(slices.Clone(l))
		sorted := slices.Sorted(slices.Values(l))
		for p, got := range map[float64]int64{50: d.P50, 90: d.P90, 99: d.P99, 100: d.Max} {
			if want := sorted[int(math.Ceil(p/100*float64(len(l))))-1]; got != want {
				t.Errorf("p%v of %v: %d, want %d", p, sorted, got, want)
			}
		}
		sum, n := int64(0), int64(0)
		for _, v := range l {
			sum += v
		}
		before := int64(math.MinInt64)
		for i, b := range d.Buckets {
			in := int64(0)
			for _, v := range l {
				if v > before && v <= b.Le {
					in++
				}
			}
			if in != b.N || b.Le <= before && i > 0 {
				t.Errorf("bucket %+v behind %d: %d are in it", b, before, in)
			}
			before, n = b.Le, n+b.N
		}
		if d.Sum != sum || d.N != n || d.N != int64(len(l)) || d.Min != sorted[0] || d.Buckets[0].N == 0 ||
			d.Buckets[len(d.Buckets)-1].N == 0 {
			t.Errorf("%+v of %v", d, l)
		}
	}
	far := newDist([]int64{math.MaxInt64, math.MaxInt64, math.MinInt64, 0, 1})
	if far.Sum < 0 || far.Max != math.MaxInt64 || far.Min != math.MinInt64 {
		t.Errorf("%+v", far)
	}
	if d := newDist([]int64{math.MaxInt64, 1}); d.Sum != math.MaxInt64 ||
		d.Buckets[len(d.Buckets)-1] != (Bucket{math.MaxInt64, 1}) {
		t.Errorf("%+v", d)
	}
}

func TestReadPrices(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "no JSON, at byte 0",
		"{":                    "no JSON, at byte 1",
		"[]":                   "want a JSON object",
		`{"a": {"secret": 1}}`: "no model has",
		`{"a": {"input_cost_per_token": -1, "output_cost_per_token": 1}}`: "no model has",
		strings.Repeat(" ", maxPrices+1):                                  "more than",
	} {
		if _, err := ReadPrices(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	p := must.Get(ReadPrices(strings.NewReader(catalogue)))(t)
	for _, c := range []struct {
		turn session.TurnFigures
		want float64
		ok   bool
	}{
		{session.TurnFigures{Model: "opus", Input: num(10), Output: num(1)}, 0.3, true},
		// no prices of their own
		{session.TurnFigures{Model: "Opus", Input: num(10), Output: num(1), CacheRead: num(4), Reasoning: num(1)}, 0.3, true},
		{session.TurnFigures{Provider: "anthropic", Model: "opus", ResponseModel: "opus-1", Input: num(10)}, 0.1, true},
		{session.TurnFigures{Provider: "other", Model: "opus", ResponseModel: "unknown", Input: num(10)}, 0.2, true},
		{session.TurnFigures{Model: "opus", Input: num(-5), Output: num(-7)}, 0, true},
		{session.TurnFigures{Model: "gpt", Input: num(1)}, 0, false},
		{session.TurnFigures{Model: "sample_spec", Input: num(1)}, 0, false},
		{session.TurnFigures{Input: num(1)}, 0, false},
	} {
		x, got := p.of(&c.turn), 0.0
		if x != nil {
			got = x.cost(&c.turn)
		}
		if x != nil != c.ok || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %v, %v, want %v", c.turn, got, x != nil, c.want)
		}
	}
}

// Providers have the names of OpenTelemetry in figures, and LiteLLM's in catalogues.
func TestPriceProviders(t *testing.T) {
	var entries []string
	for i, name := range []string{
		"m", "xai/m", "azure/m", "gemini/m", "vertex_ai/m", "mistral/m", "bedrock/m", "gcp.vertex_ai/v", "vertex_ai/v",
		"only",
	} {
		entries = append(entries, fmt.Sprintf(`"%s": {"input_cost_per_token": %d, "output_cost_per_token": 1}`, name, i))
	}
	p := must.Get(ReadPrices(strings.NewReader("{" + strings.Join(entries, ",") + "}")))(t)
	for turn, want := range map[[2]string]float64{
		{"x_ai", "m"}: 1, {"X_AI", "M"}: 1, {"xai", "m"}: 1, {"azure.ai.openai", "m"}: 2, {"azure", "m"}: 2,
		{"gcp.gemini", "m"}: 3, {"gcp.vertex_ai", "m"}: 4,
		{"mistral_ai", "m"}: 5, {"aws.bedrock", "m"}: 6, {"gcp.vertex_ai", "v"}: 7, {"openai", "m"}: 0, {"", "m"}: 0,
		{"aws.bedrock", "only"}: 9, {"azure.ai.openai", "only"}: -1, {"Azure", "only"}: -1,
	} {
		got := -1.0
		if x := p.of(&session.TurnFigures{Provider: turn[0], Model: turn[1]}); x != nil {
			got = x.Input
		}
		if got != want {
			t.Errorf("%v: %v, want %v", turn, got, want)
		}
	}
}

func FuzzReadPrices(f *testing.F) {
	f.Add(catalogue)
	f.Add(`{"a":{"input_cost_per_token":1e999,"output_cost_per_token":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ReadPrices(strings.NewReader(text))
		if err != nil {
			return
		}
		for name := range p.models {
			turn := session.TurnFigures{Model: name, Input: num(1000), Output: num(10)}
			if x := p.of(&turn); name != "" && (x == nil || x.cost(&turn) < 0 || math.IsNaN(x.cost(&turn))) {
				t.Errorf("%q costs %+v", name, x)
			}
		}
	})
}
