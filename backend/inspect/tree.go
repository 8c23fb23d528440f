package inspect

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/otelagent/otelagent/backend/session"
)

// node is a line with columns, the texts that belong to it, and the nodes below it.
type node struct {
	head  []string          // parts of the line
	cols  map[string]string // by the name of the column
	texts []*text
	kids  []*node
	span  session.Span

	// For the log of a Follower: the run of a node, else a name among the nodes of its parent.
	run  *session.Run
	id   string
	call string    // a tool call in a few words
	over bool      // and at is when it was over
	at   time.Time // zero: unknown
}

// text is a text with a label.
type text struct {
	label string
	style style // of the label
	text  string
	lines int // over how many lines it may go; it is cut after the last

	// For the log: the name of a line that it has, and its time; or that it is in the line at the end of the node.
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

// wrapped is line for a text that people should read whole. It adds no empty text.
func (n *node) wrapped(label string, st style, s string) *text {
	if s == "" {
		return &text{}
	}
	return n.text(label, st, s, maxWrap)
}

func (n *node) line(label string, st style, s string) { n.text(label, st, s, 1) }

func (n *node) text(label string, st style, s string, lines int) *text {
	t := &text{label: label, style: st, text: s, lines: lines}
	n.texts = append(n.texts, t)
	return t
}

// columnWidth is the width of a number at the right of a line, with its gap.
const columnWidth = 8

// treeDrawer draws nodes.
type treeDrawer struct {
	*drawer
	cols  []string // names of the numbers at the right of a line
	right int      // column at which the last one ends
	cut   bool     // something was cut
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
	room, stem := d.right-width(first)-columnWidth*len(d.cols), "   "
	if len(n.kids) > 0 {
		stem = "│  "
	}
	for i, line := range flow(n.head, room, d.width-width(rest+stem), 1) {
		d.cut = d.cut || strings.HasSuffix(ansi.Strip(line), "…")
		if i == 0 {
			d.line(dim.of(first), padRight(line, room), d.numbers(func(name string) string { return n.cols[name] }))
			continue
		}
		d.line(dim.of(rest+stem), line)
	}
	for _, t := range n.texts {
		d.text(t, rest+stem)
	}
	for i, k := range n.kids {
		if i < len(n.kids)-1 {
			d.node(k, rest+"├─ ", rest+"│  ")
		} else {
			d.node(k, rest+"└─ ", rest+"   ")
		}
	}
}

// text draws a text after a stem. Line feeds in it are kept.
func (d *treeDrawer) text(t *text, stem string) {
	room, label := d.width-width(stem)-labelWidth, t.style.of(t.label)
	for line := range strings.SplitSeq(t.text, "\n") {
		text := strings.TrimLeft(line, " ")
		indent := strings.Repeat(" ", min(len(line)-len(text), max(0, room/2)))
		lines := wrap(text, room-len(indent), t.lines)
		d.cut = d.cut || !strings.HasSuffix(text, lines[len(lines)-1]) || len(text) > maxScan // here, or by Clean
		for _, l := range lines {
			d.line(dim.of(stem), padRight(label, labelWidth), indent, l)
			label = ""
		}
	}
}

// merge puts others, by start, between what is ordered already.
func merge(ordered, others []*node) []*node {
	slices.SortStableFunc(others, func(a, b *node) int {
		return cmp.Or(a.span.Start.Compare(b.span.Start), cmp.Compare(a.span.Seq, b.span.Seq))
	})
	var out []*node
	for _, n := range ordered {
		for len(others) > 0 && others[0].span.Start.Before(n.span.Start) {
			out, others = append(out, others[0]), others[1:]
		}
		out = append(out, n)
	}
	return append(out, others...)
}
