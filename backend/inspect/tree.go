package inspect

import (
	"io"
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

// columnWidth is the width of a number at the right of a line, with its gap.
const columnWidth = 8

// treeDrawer draws nodes.
type treeDrawer struct {
	*drawer
	cols  []string // names of the numbers at the right of a line
	right int      // column at which the last one ends
	addr  string   // of the turn that is being drawn
	cutAt string   // of the first turn of which something was cut
}

// note remembers the first turn with a cut text.
func (d *treeDrawer) note(cut bool) {
	if cut && d.cutAt == "" {
		d.cutAt = d.addr
	}
}

// newTreeDrawer has the columns that there is room for: all counts of tokens from a width of 100 on.
func newTreeDrawer(w io.Writer, o Options) *treeDrawer {
	d := &treeDrawer{drawer: newDrawer(w, o), cols: []string{"at", "took", "in", "cached", "written", "out", "thought"}}
	d.right = min(d.width, 200)
	switch {
	case d.width < 60:
		d.cols = []string{"took"}
	case d.width < 100:
		d.cols = []string{"took", "in", "out"}
	}
	return d
}

// numbers are the columns of a line.
func (d *treeDrawer) numbers(of func(name string) string) (line string) {
	for _, name := range d.cols {
		line += padLeft(of(name), columnWidth)
	}
	return line
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
		room = d.right - width(first) - columnWidth*len(d.cols)
	}
	for i, line := range flow(n.head, room, d.width-width(more), 1) {
		d.note(strings.HasSuffix(ansi.Strip(line), "…"))
		if i > 0 {
			d.line(dim.of(more), line)
			continue
		}
		line = padRight(line, room)
		if n.cols != nil {
			line += d.numbers(func(name string) string {
				if slices.Contains([]string{"at", "cached", "written", "thought"}, name) {
					return dim.of(n.cols[name])
				}
				return n.cols[name]
			})
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
