package inspect

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
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
	if o.Width < 40 {
		o.Width = 80
	}
	d := &statsDrawer{drawer: drawer{w: w, width: min(o.Width, 120), color: o.Color}, total: &r.Total}
	d.totals(r)
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
	d.noPrice(r)
	return d.err
}

type statsDrawer struct {
	drawer
	total *stats.Group
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
	{"first token", "time to it", func(g *stats.Group) *stats.Dist { return g.FirstChunk }, showDuration},
	{"tool call", "duration", func(g *stats.Group) *stats.Dist { return g.ToolDuration }, showDuration},
}

func (d *statsDrawer) totals(r *stats.Report) {
	g := &r.Total
	sum := func(x *stats.Dist, what string) string {
		if x == nil {
			return ""
		}
		return Count(x.Sum) + " " + what
	}
	turns := plural(int(g.Turns), "turn")
	if g.Sessions > 0 {
		turns += " in " + plural(int(g.Sessions), "session")
	}
	d.field("turns", turns, failures(g), count(g.Retries, "retried attempts"), count(g.WithoutUsage, "without usage"))
	d.field("tokens", sum(g.Input, "input"), sum(g.Output, "output"), sum(g.CacheRead, "cache read"),
		sum(g.CacheWrite, "cache write"), sum(g.Reasoning, "reasoning"))
	if text, st := cacheRate(g); text != "" {
		d.put(dim, padRight("cache", labelWidth+1))
		d.put(st, cut(text, d.width-labelWidth-1))
		d.flush()
	}
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
	switch {
	case part > 0 && part < 0.001:
		return "<0.1 %"
	case part < 0.0995:
		return strconv.FormatFloat(100*part, 'f', 1, 64) + " %"
	case part < 1 && part > 0.99:
		return strconv.FormatFloat(float64(int(1000*part))/10, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(100*part, 'f', 0, 64) + " %"
}

func cacheRate(g *stats.Group) (string, style) {
	switch {
	case g.CacheIdle:
		return "0 % of input read from a cache, though the provider has one", red
	case g.CacheRate != nil:
		return percent(*g.CacheRate) + " of input read from a cache", plainText
	}
	return "", plainText
}

func costs(g *stats.Group) []string {
	var out []string
	for _, c := range g.Cost {
		out = append(out, money(c.Currency, c.Amount)+" reported for "+plural(int(c.Turns), "turn"))
	}
	if g.Computed != nil && g.Computed.Turns > 0 {
		out = append(out, money(g.Computed.Currency, g.Computed.Amount)+" by the price list for "+
			plural(int(g.Computed.Turns), "turn"))
	}
	return out
}

// money writes an amount, with more digits the smaller it is: a turn may cost little.
func money(currency string, amount float64) string {
	digits := 2
	switch size := math.Abs(amount); {
	case size < 0.01 && size > 0:
		digits = 6
	case size < 1:
		digits = 4
	}
	return strings.TrimSpace(Clean(currency) + " " + strconv.FormatFloat(amount, 'f', digits, 64))
}

// outcomes lists the number of calls by outcome: ok first, then by name.
func outcomes(m map[string]int64) []string {
	var out []string
	ok := string(spans.OutcomeOK)
	if m[ok] > 0 {
		out = append(out, Count(m[ok])+" "+ok)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if name != ok {
			out = append(out, Count(m[name])+" "+words(name))
		}
	}
	return out
}

// maxBuckets bounds the bars of a histogram. Its first one has all smaller values, but for zeros.
const maxBuckets = 10

func (d *statsDrawer) histograms(g *stats.Group) {
	for _, m := range measures {
		x := m.dist(g)
		if x == nil || x.Max == 0 && x.Min == 0 {
			continue
		}
		d.blank()
		d.put(bold, padRight(m.name, 13))
		d.put(dim, m.unit)
		used := 13 + width(m.unit)
		quantiles := quantilesOf(x, m.show)
		if used+2+width(quantiles) > d.width { // on a line of its own
			d.flush()
			used = 0
		}
		d.buf.WriteString(strings.Repeat(" ", max(0, d.width-used-width(quantiles))) + cut(quantiles, d.width))
		d.flush()
		d.bars(x, m.show)
	}
}

func quantilesOf(x *stats.Dist, show func(int64) string) string {
	var parts []string
	for _, q := range allQuantiles {
		parts = append(parts, q.name+" "+show(q.of(x)))
	}
	return strings.Join(parts, "  ")
}

// bars draws a histogram, a bar a bucket.
func (d *statsDrawer) bars(x *stats.Dist, show func(int64) string) {
	list := x.Buckets
	if over := len(list) - maxBuckets; over > 0 {
		low := 0
		if list[0].Le == 0 {
			low = 1
		}
		first := stats.Bucket{Le: list[low+over].Le}
		for _, b := range list[low : low+over+1] {
			first.N += b.N
		}
		list = slices.Concat(list[:low], []stats.Bucket{first}, list[low+over+1:])
	}
	most, digits := int64(1), 0
	for _, b := range list {
		most, digits = max(most, b.N), max(digits, width(Count(b.N)))
	}
	const label = 11
	room := d.width - label - digits - 3
	for i, b := range list {
		if b.N == 0 && i > 0 && list[i-1].N == 0 {
			continue // shown already
		}
		if b.N == 0 && i+1 < len(list) && list[i+1].N == 0 {
			d.put(dim, padLeft("⋮", label))
			d.flush()
			continue
		}
		d.put(dim, padLeft("≤ "+show(b.Le), label))
		bar := barOf(b.N, most, room)
		d.buf.WriteString("  ")
		d.put(cyan, bar)
		if bar != "" {
			d.buf.WriteString(" ")
		}
		d.buf.WriteString(Count(b.N))
		d.flush()
	}
}

var eighths = []rune("▏▎▍▌▋▊▉█")

// barOf returns a bar of n of most, which fills w columns. Any n above 0 has a bar.
func barOf(n, most int64, w int) string {
	if n <= 0 || w <= 0 {
		return ""
	}
	parts := max(1, int(float64(n)/float64(most)*float64(8*w)))
	bar := strings.Repeat("█", parts/8)
	if parts%8 > 0 {
		bar += string(eighths[parts%8-1])
	}
	return bar
}

// maxGroups is how many groups are drawn.
const maxGroups = 20

// groups draws each group with a line a measure. Their small histograms have the buckets of the total, so that they can
// be compared.
func (d *statsDrawer) groups(r *stats.Report) {
	shown := r.Groups[:min(len(r.Groups), maxGroups)]
	for i := range shown {
		g := &r.Groups[i]
		d.blank()
		name := Clean(g.Name)
		if name == "" {
			name = "(unknown)"
		}
		segs := []seg{{string(r.By) + " ", dim}, {name, bold}}
		add := func(st style, texts ...string) { segs = append(segs, parts(st, texts...)...) }
		add(plainText, some(int(g.Turns), "turn"))
		add(red, failures(g))
		add(plainText, count(g.Retries, "retried attempts"), some(int(g.ToolCalls), "tool call"))
		if r.By == stats.ByTool {
			add(plainText, outcomes(g.ToolOutcomes)...)
		}
		rate, st := cacheRate(g)
		add(st, rate)
		add(plainText, costs(g)...)
		for len(segs) > 0 {
			var line []seg
			line, segs = breakSegs(segs, d.width)
			d.putSegs(line, d.width)
			d.flush()
			if len(segs) > 0 {
				segs = slices.Clone(segs)
				segs[0].text = " " + segs[0].text
			}
		}
		d.lines(g)
	}
	if n := len(r.Groups) - len(shown); n > 0 {
		d.blank()
		d.more(n, "group")
	}
}

// allQuantiles are the columns of a group's lines; where there is no room, the first two.
var allQuantiles = []struct {
	name string
	of   func(*stats.Dist) int64
}{{"p50", p50}, {"p90", p90}, {"p99", p99}, {"max", most}}

// lines draws the measures of a group, one a line.
func (d *statsDrawer) lines(g *stats.Group) {
	head := true
	quantiles := allQuantiles
	if d.width < 56 {
		quantiles = quantiles[:2]
	}
	for _, m := range measures {
		x, all := m.dist(g), m.dist(d.total)
		if x == nil || x.Max == 0 && x.Min == 0 {
			continue
		}
		if head {
			head = false
			d.put(dim, padLeft("n", 21))
			for _, q := range quantiles {
				d.put(dim, padLeft(q.name, 8))
			}
			d.flush()
		}
		d.buf.WriteString("  " + padRight(m.name, 12) + padLeft(Count(x.N), 7))
		for _, q := range quantiles {
			d.buf.WriteString(padLeft(m.show(q.of(x)), 8))
		}
		if spark := sparkline(x, all, d.width-55); spark != "" {
			d.buf.WriteString("  ")
			d.put(cyan, spark)
		}
		d.flush()
	}
}

var levels = []rune("▁▂▃▄▅▆▇█")

// sparkline draws x in the last w buckets of all, one a column; empty where there is no room.
func sparkline(x, all *stats.Dist, w int) string {
	if all == nil || w < 4 {
		return ""
	}
	in := map[int64]int64{}
	most := int64(1)
	list := all.Buckets
	if over := len(list) - w; over > 0 {
		list = list[over:]
	}
	for _, b := range x.Buckets {
		at := max(b.Le, list[0].Le)
		in[at] += b.N
		most = max(most, in[at])
	}
	var out []rune
	for _, b := range list {
		switch n := in[b.Le]; {
		case n == 0:
			out = append(out, ' ')
		default:
			out = append(out, levels[int((n*int64(len(levels)-1)+most-1)/most)])
		}
	}
	return strings.TrimRight(string(out), " ")
}

// maxTools is how many tools are listed.
const maxTools = 20

// textCell is a cell of plain text.
func textCell(text string) seg { return seg{text, plainText} }

// measured is a cell of a measure; empty where nothing was measured.
func measured(x *stats.Dist, of func(*stats.Dist) int64, show func(int64) string) seg {
	if x == nil {
		return textCell("")
	}
	return textCell(show(of(x)))
}

func p50(x *stats.Dist) int64  { return x.P50 }
func p90(x *stats.Dist) int64  { return x.P90 }
func p99(x *stats.Dist) int64  { return x.P99 }
func most(x *stats.Dist) int64 { return x.Max }

func (d *statsDrawer) tools(l []stats.Tool) {
	if len(l) == 0 {
		return
	}
	d.blank()
	took := func(of func(*stats.Dist) int64) func(*stats.Tool) seg {
		return func(t *stats.Tool) seg { return measured(t.Duration, of, showDuration) }
	}
	shown := l[:min(len(l), maxTools)]
	table(&d.drawer, []column[stats.Tool]{
		{name: "TOOL", most: min(28, d.width/3), cell: func(t *stats.Tool) seg {
			return seg{cmp.Or(Clean(t.Name), "(unknown)"), bold}
		}},
		{name: "CALLS", right: true, cell: func(t *stats.Tool) seg { return textCell(Count(t.Calls)) }},
		{name: "P50", right: true, cell: took(p50)},
		{name: "P90", right: true, cell: took(p90)},
		{name: "P99", right: true, cell: took(p99)},
		{name: "MAX", right: true, cell: took(most)},
		{name: "OUTCOMES", flex: true, cell: func(t *stats.Tool) seg {
			st := plainText
			if t.Outcomes[string(spans.OutcomeError)] > 0 {
				st = red
			}
			return seg{strings.Join(outcomes(t.Outcomes), ", "), st}
		}},
	}, shown, "P90", "MAX", "P50", "P99")
	d.more(len(l)-len(shown), "tool")
}

// more says how many further groups or tools there are.
func (d *statsDrawer) more(n int, what string) {
	if n > 0 {
		d.put(dim, fmt.Sprintf("and %s more (in --output json)", plural(n, what)))
		d.flush()
	}
}

func (d *statsDrawer) compactions(l []stats.Compaction) {
	if len(l) == 0 {
		return
	}
	d.blank()
	table(&d.drawer, []column[stats.Compaction]{
		{name: "COMPACTION", most: 10, cell: func(c *stats.Compaction) seg {
			return seg{cmp.Or(words(c.Kind), "(unknown)"), bold}
		}},
		{name: "N", right: true, cell: func(c *stats.Compaction) seg { return textCell(Count(c.N)) }},
		{name: "TOKENS BEFORE", right: true, cell: func(c *stats.Compaction) seg { return measured(c.Before, p50, Count) }},
		{name: "AFTER", right: true, cell: func(c *stats.Compaction) seg { return measured(c.After, p50, Count) }},
		{name: "TRIGGER", flex: true, cell: func(c *stats.Compaction) seg { return textCell(words(c.Trigger)) }},
	}, l, "AFTER", "TOKENS BEFORE")
}

func (d *statsDrawer) permissions(l []stats.Permission) {
	if len(l) == 0 {
		return
	}
	d.blank()
	table(&d.drawer, []column[stats.Permission]{
		{name: "PERMISSION", most: 10, cell: func(q *stats.Permission) seg {
			st := bold
			if q.Action == string(spans.ActionDeny) {
				st = red
			}
			return seg{cmp.Or(words(q.Action), "(unknown)"), st}
		}},
		{name: "N", right: true, cell: func(q *stats.Permission) seg { return textCell(Count(q.N)) }},
		{name: "WAITED P50", right: true, cell: func(q *stats.Permission) seg { return measured(q.Wait, p50, showDuration) }},
		{name: "MAX", right: true, cell: func(q *stats.Permission) seg { return measured(q.Wait, most, showDuration) }},
		{name: "SOURCE", flex: true, cell: func(q *stats.Permission) seg { return textCell(words(q.Source)) }},
	}, l, "MAX", "WAITED P50")
}

func (d *statsDrawer) noPrice(r *stats.Report) {
	if len(r.NoPrice) == 0 {
		return
	}
	d.blank()
	var parts []string
	for i, m := range r.NoPrice {
		if i == 8 {
			parts = append(parts, plural(len(r.NoPrice)-i, "model")+" more")
			break
		}
		name := Clean(cmp.Or(m.Model, "(unknown)"))
		if m.Provider != "" {
			name = Clean(m.Provider) + "/" + name
		}
		parts = append(parts, name+" ("+plural(int(m.Turns), "turn")+")")
	}
	d.field("no price", parts...)
}
