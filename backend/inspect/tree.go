package inspect

import (
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/otelagent/otelagent/backend/session"
)

// node is a line with columns, and the items below it.
type node struct {
	head  []string          // parts of the line
	cols  map[string]string // by the name of the column; nil: the line has the whole width
	bar   string            // when it was, as wide as columns.bar; behind the numbers where there is room
	items []item
	addr  string // of a turn, what `show` shows it alone by
}

// item is either a branch or a line of text under a node.
type item struct {
	branch *node
	label  string // of a line of text
	style  style  // of the label
	text   string
	lines  int // over how many lines it may go; it is cut behind the last
}

// part adds a part to the line of the node, unless it is empty.
func (n *node) part(st style, text string) {
	if text != "" {
		n.head = append(n.head, st.of(text))
	}
}

// wrapped is line for a text that people should read whole.
func (n *node) wrapped(label string, st style, text string) {
	n.items = append(n.items, item{label: label, style: st, text: text, lines: maxWrap})
}

func (n *node) line(label string, st style, text string) {
	n.items = append(n.items, item{label: label, style: st, text: text, lines: 1})
}

func (n *node) add(kid *node) { n.items = append(n.items, item{branch: kid}) }

// columns are the numbers at the right of a line, and the bar behind them.
type columns struct {
	names []string
	each  int // width of one with its gap
	right int // column at which the last one ends
	bar   int // width of the bar, 0 without any
}

// barGap stands between the numbers of a line and its bar.
const barGap = 2

// columnsFor returns the columns that a width has room for: all counts of tokens from 100 on, a bar from 140 on.
func columnsFor(width int) columns {
	c := columns{names: []string{"at", "took", "in", "cached", "written", "out", "thought"}, each: 8, right: width}
	switch {
	case width < 60:
		c.names = []string{"took"}
	case width < 100:
		c.names = []string{"took", "in", "out"}
	case width >= 140:
		c.bar = min((width-100)/2, 50)
		c.right = min(width, 200) - c.bar - barGap
	}
	return c
}

// timelineColumns are those of Options.Timeline: the bar takes the room that a short line and its numbers leave.
func timelineColumns(width int) columns {
	c, text := columns{names: []string{"took"}, each: 7}, 14
	switch {
	case width >= 140:
		all := []string{"at", "took", "model", "tools", "in", "cached", "written", "out", "thought"}
		c, text = columns{names: all, each: 8}, 36
	case width >= 100:
		c, text = columns{names: []string{"at", "took", "model", "tools", "in", "out"}, each: 8}, 26
	case width >= 60:
		c, text = columns{names: []string{"took", "model", "tools", "in", "out"}, each: 7}, width/4
	}
	c.bar = min(width-text-c.each*len(c.names)-barGap, 100)
	c.right = width - c.bar - barGap
	return c
}

// treeDrawer draws nodes.
type treeDrawer struct {
	*drawer
	cols   columns
	addr   string // of the turn that is being drawn
	barred bool   // some bar was drawn
	cutAt  string // of the first turn of which something was cut
}

// note remembers the first turn with a cut text.
func (d *treeDrawer) note(cut bool) {
	if cut && d.cutAt == "" {
		d.cutAt = d.addr
	}
}

// heads draws the names of the columns.
func (d *treeDrawer) heads() {
	line := strings.Repeat(" ", d.cols.right-d.cols.each*len(d.cols.names))
	for _, name := range d.cols.names {
		line += padLeft(dim.of(name), d.cols.each)
	}
	d.line(line)
}

// node draws n and all below it. first is before its own line, rest before every other one.
func (d *treeDrawer) node(n *node, first, rest string) {
	if n.addr != "" {
		outer := d.addr
		d.addr = n.addr
		defer func() { d.addr = outer }()
	}
	branched := slices.ContainsFunc(n.items, func(it item) bool { return it.branch != nil })
	more := rest + "   "
	if branched {
		more = rest + "│  "
	}
	room := d.width - width(first)
	if n.cols != nil {
		room = d.cols.right - width(first) - d.cols.each*len(d.cols.names)
	}
	for i, line := range flow(n.head, room, d.width-width(more), 1) {
		d.note(strings.HasSuffix(ansi.Strip(line), "…"))
		if i > 0 {
			d.line(dim.of(more), line)
			continue
		}
		line = padRight(line, room)
		if n.cols != nil {
			line += d.numbers(n)
		}
		d.line(dim.of(first), line)
	}
	last := -1
	if branched { // text behind a branch becomes one, else it would seem to belong to that branch
		last = len(n.items) - 1
	}
	branched = false
	for i, it := range n.items {
		fork, stem := "├─ ", "│  "
		if i == last {
			fork = "└─ "
		}
		if i >= last {
			stem = "   "
		}
		branched = branched || it.branch != nil
		switch {
		case it.branch != nil:
			d.node(it.branch, rest+fork, rest+stem)
		case branched:
			d.text(it, rest+fork, rest+stem)
		default:
			d.text(it, rest+stem, rest+stem)
		}
	}
}

// numbers returns the columns and the bar of a node.
func (d *treeDrawer) numbers(n *node) (line string) {
	for _, name := range d.cols.names {
		st := plainText
		if name == "at" || name == "cached" || name == "written" || name == "thought" {
			st = dim
		}
		line += padLeft(st.of(n.cols[name]), d.cols.each)
	}
	if n.bar != "" {
		line += strings.Repeat(" ", barGap) + n.bar
		d.barred = true
	}
	return line
}

// text draws a line of text, or a few. Line feeds in it are kept.
func (d *treeDrawer) text(it item, first, rest string) {
	room := d.width - width(first) - labelWidth
	for line := range strings.SplitSeq(it.text, "\n") {
		text := strings.TrimLeft(line, " ")
		indent := strings.Repeat(" ", min(len(line)-len(text), max(0, room/2)))
		lines := wrap(text, room-len(indent), it.lines)
		d.note(!strings.HasSuffix(text, lines[len(lines)-1]) || len(text) > maxScan) // here, or by Clean
		for _, l := range lines {
			d.line(dim.of(first), padRight(it.style.of(it.label), labelWidth), indent, l)
			first, it.label = rest, ""
		}
	}
}

// barLegend explains the bars.
const barLegend = "█ model ▒ tools ━ the rest of the turn, of its run from left to right"

// What a cell of a bar shows. Of several in one cell the last of these is shown.
const (
	barNothing = iota
	barRest
	barModel
	barTools
	barMark
)

var barGlyphs = [...]string{
	barNothing: " ", barRest: dim.of("━"), barModel: cyan.of("█"), barTools: yellow.of("▒"), barMark: magenta.of("◆"),
}

// stretch is a time in which something was done.
type stretch struct {
	what     int
	from, to time.Time
}

// bar draws stretches of the current run onto a bar, one cell each at least, but none without a start. It is empty
// where there is no room, and where the duration of the run is unknown.
func (r *renderer) bar(list ...stretch) string {
	n := r.d.cols.bar
	if n <= 0 || !r.to.After(r.from) {
		return ""
	}
	cells := make([]int, n)
	cell := func(t time.Time) int {
		at := float64(t.Sub(r.from)) / float64(r.to.Sub(r.from)) * float64(n)
		return max(0, min(int(at), n-1))
	}
	for _, s := range list {
		if s.from.IsZero() {
			continue
		}
		first := cell(s.from)
		last := first
		if s.to.After(s.from) {
			last = max(first, cell(s.to.Add(-1)))
		}
		for i := first; i <= last; i++ {
			cells[i] = max(cells[i], s.what)
		}
	}
	line := ""
	for _, c := range cells {
		line += barGlyphs[c]
	}
	return line
}

// stretch is the time of a span. One that has no end goes on.
func (r *renderer) stretch(what int, s session.Span) stretch {
	if s.End.IsZero() {
		s.End = r.to
	}
	return stretch{what, knownStart(s), s.End}
}

// turnBar shows when in its run a turn was, and the time of its model call and tools. Where the time of the model
// call is unknown, it is part of the rest.
func (r *renderer) turnBar(t *session.Turn) string {
	list := []stretch{r.stretch(barRest, t.Span)}
	if t.ModelCallNS > 0 {
		list = append(list, stretch{barModel, knownStart(t.Span), t.Start.Add(time.Duration(t.ModelCallNS))})
	}
	for _, c := range t.ToolCalls {
		list = append(list, r.stretch(barTools, c.Span))
	}
	return r.bar(list...)
}

// spanBar shows when in its run a span was.
func (r *renderer) spanBar(what int, s session.Span) string {
	return r.bar(stretch{what, knownStart(s), s.End})
}

// scale is the head of the bars of a run: its duration, from left to right.
func (r *renderer) scale() string {
	took := Duration(r.to.Sub(r.from))
	room := r.d.cols.bar - width(took) - 2
	if room < 0 || !r.to.After(r.from) {
		return ""
	}
	return dim.of("├" + strings.Repeat("┈", room) + took + "┤")
}

// inTools returns the time in tools, concurrent calls counted once; 0 where no call has times.
func inTools(calls []*session.ToolCall) time.Duration {
	unknown := func(c *session.ToolCall) bool { return !c.StartTold() || !c.EndTold() }
	calls = slices.DeleteFunc(slices.Clone(calls), unknown)
	slices.SortFunc(calls, func(a, b *session.ToolCall) int { return a.Start.Compare(b.Start) })
	var sum time.Duration
	var until time.Time
	for _, c := range calls {
		from := c.Start
		if from.Before(until) {
			from = until
		}
		if c.End.After(from) {
			sum, until = sum+c.End.Sub(from), c.End
		}
	}
	return sum
}
