package inspect

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// style is the look of a piece of a line on a terminal with colour. Without colour every style is plain, so a style
// alone carries no information.
type style uint8

const (
	plainText style = iota
	bold
	dim
	red
	green
	yellow
	cyan
	magenta
)

var sgr = [...]string{bold: "1", dim: "2", red: "31", green: "32", yellow: "33", cyan: "36", magenta: "35"}

// seg is a piece of a line. Its text is clean.
type seg struct {
	text  string
	style style
}

// node is a line with columns, and the items below it.
type node struct {
	segs  []seg
	cols  []string // from left to right as in columns.names; nil: the line has the whole width
	bar   []seg    // when it was, as wide as columns.bar; drawn behind the numbers where there is room
	items []item
	addr  string // of a turn, what `show` shows it alone by
}

// item is either a branch or a line of text under a node.
type item struct {
	branch *node
	label  string // of a line of text, padded to one column
	style  style  // of the label
	text   string
	lines  int // over how many lines it may go; it is cut behind the last
}

// maxWrap bounds the lines of a text that people should read whole.
const maxWrap = 4

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

// columnsFor returns the columns that a width has room for: all counts of tokens from 100 on, a bar from 140 on.
func columnsFor(width int) columns {
	all := []string{"at", "took", "in", "cached", "written", "out", "thought"}
	switch {
	case width < 60:
		return columns{names: []string{"took"}, each: 8, right: width}
	case width < 100:
		return columns{names: []string{"took", "in", "out"}, each: 8, right: width}
	case width < 140:
		return columns{names: all, each: 8, right: width}
	}
	bar := min((width-100)/2, 50)
	return columns{names: all, each: 8, right: min(width, 200) - bar - barGap, bar: bar}
}

// labelWidth is what a line's label is padded to.
const labelWidth = 8

type drawer struct {
	w      io.Writer
	width  int
	color  bool
	cols   columns
	buf    strings.Builder
	addr   string // of the turn that is being drawn
	barred bool   // some bar was drawn
	cutAt  string // of the first turn of which something was cut
	err    error
}

func (d *drawer) flush() {
	line := strings.TrimRight(d.buf.String(), " ") + "\n"
	d.buf.Reset()
	if d.err == nil {
		_, d.err = io.WriteString(d.w, line)
	}
}

func (d *drawer) put(st style, text string) {
	if d.color && st != plainText && strings.TrimSpace(text) != "" {
		d.buf.WriteString("\x1b[" + sgr[st] + "m" + text + "\x1b[0m")
		return
	}
	d.buf.WriteString(text)
}

func (d *drawer) blank() { d.flush() }

// separator is before every further part of a line; a full line breaks there.
const separator = " · "

// breakSegs returns the segs of a line of w columns, and those of further lines.
func breakSegs(segs []seg, w int) (line, rest []seg) {
	used, at := 0, 0
	for i, s := range segs {
		if i > 0 && strings.HasPrefix(s.text, separator) {
			at = i
		}
		if used += width(s.text); used > w && at > 0 {
			return segs[:at], segs[at:]
		}
	}
	return segs, nil
}

// putSegs writes segs into w columns and returns how many they took.
func (d *drawer) putSegs(segs []seg, w int) int {
	used := 0
	for _, s := range segs {
		room := w - used
		if room <= 0 {
			break
		}
		t := cut(s.text, room)
		d.note(t != s.text)
		d.put(s.style, t)
		used += width(t)
	}
	return used
}

// note remembers the first turn with a cut text.
func (d *drawer) note(cut bool) {
	if cut && d.cutAt == "" {
		d.cutAt = d.addr
	}
}

// node draws n and all below it. first is before its own line, rest before every other one.
func (d *drawer) node(n *node, first, rest string) {
	if n.addr != "" {
		outer := d.addr
		d.addr = n.addr
		defer func() { d.addr = outer }()
	}
	d.put(dim, first)
	room := d.width - width(first)
	if n.cols != nil {
		room = d.cols.right - width(first) - d.cols.each*len(n.cols)
	}
	segs, more := breakSegs(n.segs, room)
	used := d.putSegs(segs, room)
	if n.cols != nil {
		d.buf.WriteString(strings.Repeat(" ", room-used))
		for i, c := range n.cols {
			st := plainText
			if name := d.cols.names[i]; name == "at" || name == "cached" || name == "written" || name == "thought" {
				st = dim
			}
			d.put(st, padLeft(c, d.cols.each))
		}
	}
	if len(n.bar) > 0 && d.cols.bar > 0 {
		d.buf.WriteString(strings.Repeat(" ", barGap))
		for _, s := range n.bar {
			d.put(s.style, s.text)
		}
		d.barred = true
	}
	d.flush()

	last, branched := -1, false
	for i, it := range n.items {
		branched = branched || it.branch != nil
		if branched { // text behind a branch becomes one, else it would seem to belong to that branch
			last = i
		}
	}
	for len(more) > 0 {
		lead := rest + "   "
		if branched {
			lead = rest + "│  "
		}
		d.put(dim, lead)
		room := d.width - width(lead)
		more = slices.Clone(more)
		more[0].text = strings.TrimPrefix(more[0].text, " ") // what goes on begins with the dot
		segs, more = breakSegs(more, room)
		d.putSegs(segs, room)
		d.flush()
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
func (d *drawer) text(it item, first, rest string) {
	room := d.width - width(first) - labelWidth
	lead, label := first, it.label
	for line := range strings.SplitSeq(it.text, "\n") {
		text := strings.TrimLeft(line, " ")
		indent := strings.Repeat(" ", min(len(line)-len(text), max(0, room/2)))
		lines := wrap(text, room-len(indent), it.lines)
		d.note(!strings.HasSuffix(text, lines[len(lines)-1]) || len(text) > maxScan) // here, or by Clean
		for _, l := range lines {
			d.put(dim, lead)
			d.put(it.style, padRight(label, labelWidth))
			d.buf.WriteString(indent + l)
			d.flush()
			lead, label = rest, ""
		}
	}
}

// wrap breaks clean text at blanks into at most most lines of w columns. The last one is cut.
func wrap(s string, w, most int) []string {
	var lines []string
	line := ""
	for more := true; more; {
		if len(lines) >= most-1 { // all that is left would go here
			if line != "" {
				s = line + " " + s
			}
			return append(lines, cut(strings.TrimLeft(s, " "), w))
		}
		var word string
		word, s, more = strings.Cut(s, " ")
		if near := beginning(word, w); line != "" && (len(near) < len(word) || width(line)+1+width(word) > w) {
			lines, line = append(lines, cut(line, w)), ""
		}
		for len(lines) < most-1 && line == "" { // a path, or base64
			near := beginning(word, w)
			if len(near) == len(word) && width(word) <= w {
				break
			}
			head := cells.Truncate(near, w, "")
			if head == "" {
				break
			}
			lines, word = append(lines, head), word[len(head):]
		}
		if line == "" {
			line = word
		} else {
			line += " " + word
		}
	}
	return append(lines, cut(line, w))
}

// beginning returns as much of a word as w columns may need: 8 bytes a column, of which only combining characters
// take more. So wrap takes time in proportion to a long word.
func beginning(word string, w int) string {
	n := 8 * max(w, 1)
	if n >= len(word) {
		return word
	}
	for n > 0 && !utf8.RuneStart(word[n]) {
		n--
	}
	return word[:n]
}

// heads draws the names of the columns.
func (d *drawer) heads() {
	d.buf.WriteString(strings.Repeat(" ", d.cols.right-d.cols.each*len(d.cols.names)))
	for _, name := range d.cols.names {
		d.put(dim, padLeft(name, d.cols.each))
	}
	d.flush()
}

// field draws a named value. It breaks a line between parts, and within a part that is longer than a line.
func (d *drawer) field(name string, parts ...string) {
	const lead = labelWidth + 1
	room, used := d.width-lead, 0
	for _, part := range parts {
		if part == "" {
			continue
		}
		for i, line := range wrap(part, room, maxWrap) {
			switch {
			case used == 0:
				d.put(dim, padRight(name, lead))
			case i == 0 && used+width(separator)+width(line) <= room:
				d.put(dim, separator)
				used += width(separator)
			default:
				d.flush()
				d.buf.WriteString(strings.Repeat(" ", lead))
				used = 0
			}
			d.buf.WriteString(line)
			used += width(line)
		}
	}
	if used > 0 {
		d.flush()
	}
}
