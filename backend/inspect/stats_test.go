package inspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store/stats"
	"github.com/otelagent/otelagent/internal/must"
)

// Statistics fit every width, hold nothing that a terminal acts on, and say how much of a long list is left out.
func TestStats(t *testing.T) {
	evil := "evil\x1b[2J\u202e" + strings.Repeat("name ", 30)
	dist := &stats.Dist{N: 3, Sum: 9_000_000_000_000, P50: 1, P90: 123_456_789_012, P99: 1 << 62, Max: 1<<63 - 1}
	for le := int64(1); le < 1e18; le *= 10 {
		dist.Buckets = append(dist.Buckets, stats.Bucket{Le: le, N: le % 7})
	}
	g := stats.Group{
		Name: evil, Sessions: 2, Turns: 3, Failed: 1, Retries: 4, WithoutUsage: 5, Input: dist, Output: dist,
		CacheRead: dist, CacheWrite: dist, Reasoning: dist,
		Duration: dist, ModelCall: dist, FirstChunk: dist, CacheIdle: true,
		Cost: []stats.Cost{{Currency: evil, Amount: -1e300, Turns: 1}},
		Computed: &stats.Cost{
			Currency: "USD",
			Amount:   12.345,
			Turns:    2,
		}, ToolCalls: 3, ToolOutcomes: map[string]int64{evil: 1, "ok": 2}, ToolDuration: dist,
	}
	r := &stats.Report{
		Total: g, Compactions: []stats.Compaction{{Kind: evil, Trigger: evil, N: 1, Before: dist}},
		Permissions: []stats.Permission{{Action: evil, Source: evil, N: 1, Wait: dist}},
		NoPrice:     []stats.NoPrice{{Provider: evil, Model: evil, Turns: 1}},
	}
	for i := range 30 {
		r.Groups = append(r.Groups, g)
		r.Tools = append(r.Tools, stats.Tool{Name: fmt.Sprint(evil, i), Calls: 1, Outcomes: g.ToolOutcomes, Duration: dist})
	}
	for _, by := range []stats.By{"", stats.ByModel, stats.ByTool} {
		r.By = by
		for _, width := range []int{0, 40, 56, 80, 200} {
			var b strings.Builder
			must.Do(t, inspect.Stats(&b, r, inspect.Options{Width: width}))
			most := max(width, 40)
			if width == 0 {
				most = 80
			}
			if strings.ContainsAny(b.String(), "\x1b\u202e") {
				t.Errorf("by %q, %d columns: a terminal would act on %q", by, width, b.String())
			}
			for line := range strings.SplitSeq(b.String(), "\n") {
				if n := ansi.StringWidth(line); n > most {
					t.Errorf("by %q: a line of %d columns on %d: %s", by, n, width, line)
				}
			}
			if (by != "") != strings.Contains(b.String(), "and 10 groups more") ||
				(by != stats.ByTool) != strings.Contains(b.String(), "and 10 tools more") {
				t.Errorf("by %q, %d columns: it does not say what is left out:\n%s", by, width, b.String())
			}
		}
	}
	var b strings.Builder
	if err := inspect.Stats(&b, &stats.Report{}, inspect.Options{}); err != nil || b.String() != "turns    0 turns\n" {
		t.Errorf("of nothing: %q, %v", b.String(), err)
	}
}

// Where low buckets are together, zeros are apart.
func TestStatsZeros(t *testing.T) {
	dist := &stats.Dist{N: 14, Max: 5000, Buckets: []stats.Bucket{{Le: 0, N: 7}}}
	for _, le := range []int64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000} {
		dist.Buckets = append(dist.Buckets, stats.Bucket{Le: le, N: 1})
	}
	var b strings.Builder
	must.Do(t, inspect.Stats(&b, &stats.Report{Total: stats.Group{Turns: 14, Input: dist}},
		inspect.Options{Width: 60}))
	var bars []string
	for line := range strings.SplitSeq(b.String(), "\n") {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "≤" {
			bars = append(bars, f[1]+": "+f[3])
		}
	}
	if got, want := strings.Join(bars,
		", "), "0: 7, 10: 4, 20: 1, 50: 1, 100: 1, 200: 1, 500: 1, 1000: 1, 2000: 1, 5000: 1"; got != want {
		t.Errorf("%s, want %s, in\n%s", got, want, b.String())
	}
}

// A cost says of what it is: of turns, of compactions, or of both.
func TestStatsCost(t *testing.T) {
	for want, cost := range map[string]stats.Cost{
		"USD 0.1076 reported for 12 turns and 2 compactions\n": {Currency: "USD", Amount: 0.1076, Turns: 12, Compactions: 2},
		"USD 0.1076 reported for 1 compaction\n":               {Currency: "USD", Amount: 0.1076, Compactions: 1},
		"USD 0.1076 reported for 1 turn\n":                     {Currency: "USD", Amount: 0.1076, Turns: 1},
	} {
		var b strings.Builder
		err := inspect.Stats(&b, &stats.Report{Total: stats.Group{Cost: []stats.Cost{cost}}}, inspect.Options{})
		if err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("want %q, got %q, %v", want, b.String(), err)
		}
	}
}
