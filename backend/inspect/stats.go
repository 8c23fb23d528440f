package inspect

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/store/stats"
	"github.com/otelagent/otelagent/spans"
)

// Stats writes statistics: totals, a histogram of each measure, or of each group a line a measure; tools, compactions,
// permission evaluations, and models without a price. Colour adds nothing.
func Stats(w io.Writer, r *stats.Report, o Options) error {
	d := newDrawer(w, o)
	d.width = min(d.width, 120)
	d.totals(&r.Total)
	if r.By == "" {
		d.histograms(&r.Total)
	} else {
		d.groups(r)
	}
	if r.By != stats.ByTool {
		d.tools(r.Tools)
	}
	d.compactions(r.Compactions)
	d.permissions(r.Permissions)
	d.noPrice(r.NoPrice)
	return d.err
}

// A measure is one property of turns or tool calls.
type measure struct {
	name, unit string
	dist       func(*stats.Group) *stats.Dist
	show       func(int64) string
}

func showDuration(ns int64) string { return Duration(time.Duration(ns)) }

var measures = []measure{
	{"input", "tokens a turn", func(g *stats.Group) *stats.Dist { return g.Input }, Count},
	{"output", "tokens a turn", func(g *stats.Group) *stats.Dist { return g.Output }, Count},
	{"cache read", "tokens a turn", func(g *stats.Group) *stats.Dist { return g.CacheRead }, Count},
	{"cache write", "tokens a turn", func(g *stats.Group) *stats.Dist { return g.CacheWrite }, Count},
	{"reasoning", "tokens a turn", func(g *stats.Group) *stats.Dist { return g.Reasoning }, Count},
	{"turn", "duration, tools included", func(g *stats.Group) *stats.Dist { return g.Duration }, showDuration},
	{"model call", "duration", func(g *stats.Group) *stats.Dist { return g.ModelCall }, showDuration},
	{"first token", "delay", func(g *stats.Group) *stats.Dist { return g.FirstChunk }, showDuration},
	{"tool call", "duration", func(g *stats.Group) *stats.Dist { return g.ToolDuration }, showDuration},
}

// quantiles returns the median and others of a measure; empty texts where nothing was measured.
func quantiles(x *stats.Dist, show func(int64) string) []string {
	if x == nil {
		return make([]string, 4)
	}
	return []string{show(x.P50), show(x.P90), show(x.P99), show(x.Max)}
}

func (d *drawer) totals(g *stats.Group) {
	sum := func(x *stats.Dist, what string) string { return suffixed(spent(g.LowerBound, x), " "+what) }
	turns := plural(int(g.Turns), "turn") + prefixed(" in ", some(int(g.Sessions), "session"))
	d.field("turns", turns, count(g.Utility, "of them utility calls"), failures(g),
		some(int(g.Retries), "retried attempt"), count(g.WithoutUsage, "without usage"))
	d.field("tokens", sum(g.Input, "input"), sum(g.Output, "output"), sum(g.CacheRead, "cache read"),
		sum(g.CacheWrite, "cache write"), sum(g.Reasoning, "reasoning"))
	d.field("cache", cacheRate(g))
	d.field("cost", costs(g)...)
	if g.ToolCalls > 0 {
		d.field("tools", append([]string{plural(int(g.ToolCalls), "call")}, outcomes(g.ToolOutcomes)...)...)
	}
}

func failures(g *stats.Group) string {
	if g.Failed == 0 {
		return ""
	}
	return Count(g.Failed) + " failed (" + percent(float64(g.Failed)/float64(g.Turns)) + ")"
}

// percent writes a part of a whole. A small part does not become 0 %, nor a large one 100 %.
func percent(part float64) string {
	digits := 0
	switch {
	case part > 0 && part < 0.001:
		return "<0.1 %"
	case part < 0.0995:
		digits = 1
	case part < 1 && part > 0.99:
		part, digits = float64(int(1000*part))/1000, 1
	}
	return strconv.FormatFloat(100*part, 'f', digits, 64) + " %"
}

func cacheRate(g *stats.Group) string {
	switch {
	case g.CacheIdle:
		return red.of("0 % of input read from a cache, though the provider has one")
	case g.CacheRate != nil:
		return percent(*g.CacheRate) + " of input read from a cache"
	}
	return ""
}

func costs(g *stats.Group) []string {
	var out []string
	for _, c := range g.Cost {
		of := slices.DeleteFunc([]string{some(int(c.Turns), "turn"), some(int(c.Compactions), "compaction")},
			func(s string) bool { return s == "" })
		out = append(out, money(c.Currency, c.Amount)+" reported for "+strings.Join(of, " and "))
	}
	if g.Computed != nil && g.Computed.Turns > 0 {
		out = append(out, money(g.Computed.Currency, g.Computed.Amount)+" by the price list for "+
			plural(int(g.Computed.Turns), "turn"))
	}
	return out
}

// outcomes lists the number of calls by outcome: ok first, then by name.
func outcomes(m map[string]int64) []string {
	ok := string(spans.OutcomeOK)
	out := []string{count(m[ok], ok)}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if name != ok {
			out = append(out, Count(m[name])+" "+words(name))
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// measured reports whether a measure says anything.
func measured(x *stats.Dist) bool { return x != nil && (x.Max != 0 || x.Min != 0) }

func (d *drawer) histograms(g *stats.Group) {
	for _, m := range measures {
		x := m.dist(g)
		if !measured(x) {
			continue
		}
		d.line()
		q := quantiles(x, m.show)
		parts := []string{bold.of(m.name) + dim.of(" "+m.unit), "p50 " + q[0], "p90 " + q[1], "p99 " + q[2], "max " + q[3]}
		for _, line := range flow(parts, d.width, d.width, 1) {
			d.line(line)
		}
		d.bars(x, m.show)
	}
}

// maxBuckets bounds the bars of a histogram. Its first one has all smaller values, but for zeros.
const maxBuckets = 10

// bars draws a histogram, a bar a bucket, and of empty buckets that follow each other the first.
func (d *drawer) bars(x *stats.Dist, show func(int64) string) {
	list := slices.Clone(x.Buckets)
	low := 0
	if len(list) > 0 && list[0].Le == 0 {
		low = 1
	}
	for len(list) > maxBuckets {
		list[low+1].N += list[low].N
		list = slices.Delete(list, low, low+1)
	}
	most, digits := int64(1), 0
	for _, b := range list {
		most, digits = max(most, b.N), max(digits, width(Count(b.N)))
	}
	const label = 11
	room := float64(d.width - label - digits - 3)
	for i, b := range list {
		name, bar := dim.of(padLeft("≤ "+show(b.Le), label)), ""
		if b.N > 0 {
			bar = strings.Repeat("█", max(1, int(float64(b.N)/float64(most)*room))) + " "
		} else if i > 0 && list[i-1].N == 0 {
			continue
		}
		d.line(name, "  ", cyan.of(bar), Count(b.N))
	}
}

// Bounds of the groups, the tools and the models without a price that are drawn.
const (
	maxGroups = 20
	maxTools  = 20
	maxModels = 8
)

// groups draws each group with a line a measure.
func (d *drawer) groups(r *stats.Report) {
	for i := range r.Groups[:min(len(r.Groups), maxGroups)] {
		g := &r.Groups[i]
		d.line()
		parts := []string{dim.of(string(r.By)+" ") + bold.of(cmp.Or(Clean(g.Name), "(unknown)")), some(int(g.Turns), "turn"),
			red.of(failures(g)), some(int(g.Retries), "retried attempt"), some(int(g.ToolCalls), "tool call")}
		if r.By == stats.ByTool {
			parts = append(parts, outcomes(g.ToolOutcomes)...)
		}
		for _, line := range flow(append(append(parts, cacheRate(g)), costs(g)...), d.width, d.width, 1) {
			d.line(line)
		}
		var rows [][]string
		for _, m := range measures {
			if x := m.dist(g); measured(x) {
				rows = append(rows, append([]string{padRight(m.name, 12), Count(x.N)}, quantiles(x, m.show)...))
			}
		}
		if len(rows) > 0 {
			d.table(append([]column{{}}, numbers("n", "p50", "p90", "p99", "max")...), rows, "p90", "p99")
		}
	}
	d.more(len(r.Groups)-maxGroups, "group")
}

// numbers are columns of numbers.
func numbers(names ...string) []column {
	return each(names, func(name string) column { return column{name: name, right: true} })
}

func (d *drawer) tools(l []stats.Tool) {
	rows := each(l[:min(len(l), maxTools)], func(t stats.Tool) []string {
		st := plainText
		if t.Outcomes[string(spans.OutcomeError)] > 0 {
			st = red
		}
		row := append([]string{bold.of(cmp.Or(Clean(t.Name), "(unknown)")), Count(t.Calls)},
			quantiles(t.Duration, showDuration)...)
		return append(row, st.of(strings.Join(outcomes(t.Outcomes), ", ")))
	})
	cols := append([]column{{name: "TOOL", most: min(28, d.width/3)}}, numbers("CALLS", "P50", "P90", "P99", "MAX")...)
	d.section(append(cols, column{name: "OUTCOMES", flex: true}), rows, "P90", "MAX", "P50", "P99")
	d.more(len(l)-maxTools, "tool")
}

// section draws a table after a blank line; nothing where it has no rows.
func (d *drawer) section(cols []column, rows [][]string, giveWay ...string) {
	if len(rows) > 0 {
		d.line()
		d.table(cols, rows, giveWay...)
	}
}

// more says how many further groups or tools there are.
func (d *drawer) more(n int, what string) {
	if n > 0 {
		d.line(dim.of("and " + plural(n, what) + " more (in --output json)"))
	}
}

// spent is the sum of tokens, "" where none were counted.
func spent(lowerBound bool, x *stats.Dist) string {
	if x == nil {
		return ""
	}
	return tokenCount(lowerBound, x.Sum)
}

func (d *drawer) compactions(l []stats.Compaction) {
	cols := append([]column{{name: "COMPACTION", most: 10}}, numbers("N", "TOKENS BEFORE", "AFTER", "USED IN", "OUT")...)
	d.section(append(cols, column{name: "TRIGGER", flex: true}), each(l, func(c stats.Compaction) []string {
		return []string{bold.of(cmp.Or(words(c.Kind), "(unknown)")), Count(c.N), quantiles(c.Before, Count)[0],
			quantiles(c.After, Count)[0], spent(c.LowerBound, c.UsedInput), spent(c.LowerBound, c.UsedOutput),
			words(c.Trigger)}
	}), "OUT", "USED IN", "AFTER", "TOKENS BEFORE")
}

func (d *drawer) permissions(l []stats.Permission) {
	cols := append([]column{{name: "PERMISSION", most: 10}}, numbers("N", "WAITED P50", "MAX")...)
	d.section(append(cols, column{name: "SOURCE", flex: true}), each(l, func(q stats.Permission) []string {
		waited := quantiles(q.Wait, showDuration)
		return []string{decisionStyle(spans.Action(q.Action)).of(cmp.Or(words(q.Action), "(unknown)")),
			Count(q.N), waited[0], waited[3], words(q.Source)}
	}), "MAX", "WAITED P50")
}

func (d *drawer) noPrice(l []stats.NoPrice) {
	parts := each(l[:min(len(l), maxModels)], func(m stats.NoPrice) string {
		name := suffixed(Clean(m.Provider), "/") + Clean(cmp.Or(m.Model, "(unknown)"))
		return name + among(plural(int(m.Turns), "turn"))
	})
	if more := len(l) - maxModels; more > 0 {
		parts = append(parts, plural(more, "model")+" more")
	}
	if len(parts) > 0 {
		d.line()
		d.field("no price", parts...)
	}
}
