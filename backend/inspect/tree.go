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
	items []item
	addr  string // of a turn, what `show` shows it alone by
	span  session.Span

	// For the log of a Follower: the run of a node and the parts of the line at its beginning, else a name among the
	// nodes of its parent.
	run   *session.Run
	begin []string
	id    string
	call  string    // a tool call in a few words
	over  bool      // and at is when it was over
	at    time.Time // zero: unknown
}

// item is either a branch or a line of text under a node.
type item struct {
	branch *node
	label  string // of a line of text
	style  style  // of the label
	text   string
	lines  int // over how many lines it may go; it is cut behind the last

	// For the log: the name of a line that it has, and its time; or that it stands in the line at the end of the node.
	id  string
	at  time.Time
	end bool
}

// part adds a part to the line of the node, unless it is empty.
func (n *node) part(st style, text string) {
	if text != "" {
		n.head = append(n.head, st.of(text))
	}
}

// wrapped is line for a text that people should read whole.
func (n *node) wrapped(label string, st style, text string) *item {
	return n.text(label, st, text, maxWrap)
}

func (n *node) line(label string, st style, text string) *item { return n.text(label, st, text, 1) }

func (n *node) text(label string, st style, text string, lines int) *item {
	n.items = append(n.items, item{label: label, style: st, text: text, lines: lines})
	return &n.items[len(n.items)-1]
}

func (n *node) add(kid *node) { n.items = append(n.items, item{branch: kid}) }

// columns are the numbers at the right of a line.
type columns struct {
	names []string
	each  int // width of one with its gap
	right int // column at which the last one ends
}

// columnsFor returns the columns that a width has room for: all counts of tokens from 100 on.
func columnsFor(width int) columns {
	c := columns{names: []string{"at", "took", "in", "cached", "written", "out", "thought"}, each: 8,
		right: min(width, 200)}
	switch {
	case width < 60:
		c.names = []string{"took"}
	case width < 100:
		c.names = []string{"took", "in", "out"}
	}
	return c
}

// treeDrawer draws nodes.
type treeDrawer struct {
	*drawer
	cols  columns
	addr  string // of the turn that is being drawn
	cutAt string // of the first turn of which something was cut
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

// numbers returns the columns of a node.
func (d *treeDrawer) numbers(n *node) (line string) {
	for _, name := range d.cols.names {
		st := plainText
		if name == "at" || name == "cached" || name == "written" || name == "thought" {
			st = dim
		}
		line += padLeft(st.of(n.cols[name]), d.cols.each)
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

// inTools returns the time in tools, concurrent calls counted once; 0 where no call has times.
func inTools(calls []*session.ToolCall) time.Duration {
	unknown := func(c *session.ToolCall) bool { return !c.StartKnown() || !c.EndKnown() }
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
