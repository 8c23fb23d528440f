package inspect

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// style is an SGR parameter. A drawer without colour strips it, so a style alone carries no information.
type style string

const (
	plainText style = ""
	bold      style = "1"
	dim       style = "2"
	red       style = "31"
	green     style = "32"
	yellow    style = "33"
	magenta   style = "35"
	cyan      style = "36"
)

// of returns text in the style. Text is clean.
func (s style) of(text string) string {
	if s == plainText || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// separator is before every further part of a line; a full line breaks there.
const separator = " · "

const (
	// labelWidth is the width to which a label is padded.
	labelWidth = 8
	// maxWrap bounds the lines of a text that people should read whole.
	maxWrap = 4
)

func width(s string) int { return ansi.StringWidth(s) }

// cut shortens s to w columns, and marks that with an ellipsis.
func cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	return ansi.Truncate(s, w, "…")
}

func padRight(s string, w int) string { return s + strings.Repeat(" ", max(0, w-width(s))) }
func padLeft(s string, w int) string  { return strings.Repeat(" ", max(0, w-width(s))) + s }

// wrap breaks text into at most most lines of w columns and cuts the last one. A style goes on over several lines.
func wrap(s string, w, most int) []string {
	if w = max(w, 1); most == 1 || width(s) <= w {
		return []string{cut(s, w)}
	}
	lines := strings.Split(ansi.Wrap(s, w, ""), "\n")
	if len(lines) > most {
		lines = append(lines[:most-1], cut(lines[most-1]+"…", w))
	}
	open := ""
	for i, line := range lines {
		line = open + line
		if at := strings.LastIndex(line, "\x1b["); at >= 0 {
			open, _, _ = strings.Cut(line[at:], "m")
			if open += "m"; open == "\x1b[0m" {
				open = ""
			} else {
				line += "\x1b[0m"
			}
		}
		lines[i] = line
	}
	return lines
}

// flow joins the parts that are not empty into lines: one of w columns, and others of rest columns. A longer part takes
// at most most lines.
func flow(parts []string, w, rest, most int) []string {
	var lines []string
	line := ""
	for _, part := range parts {
		switch {
		case part == "":
			continue
		case line != "" && width(line)+width(separator)+width(part) <= w:
			line += dim.of(separator) + part
			continue
		case line != "":
			lines, w = append(lines, line), rest
		}
		all := wrap(part, w, most)
		lines, line = append(lines, all[:len(all)-1]...), all[len(all)-1]
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// drawer writes lines. It keeps the first error of its writer.
type drawer struct {
	w     io.Writer
	width int
	color bool
	err   error
}

// newDrawer returns what draws lines on w.
func newDrawer(w io.Writer, o Options) *drawer {
	if o.Width < 40 {
		o.Width = 80
	}
	return &drawer{w: w, width: o.Width, color: o.Color}
}

func (d *drawer) line(parts ...string) {
	text := strings.Join(parts, "")
	if !d.color {
		text = ansi.Strip(text)
	}
	if d.err == nil {
		_, d.err = io.WriteString(d.w, strings.TrimRight(text, " ")+"\n")
	}
}

// field draws a named value in parts.
func (d *drawer) field(name string, parts ...string) {
	for _, line := range flow(parts, d.width-labelWidth-1, d.width-labelWidth-1, maxWrap) {
		d.line(dim.of(name), strings.Repeat(" ", max(0, labelWidth+1-width(name))), line)
		name = ""
	}
}

// column is a column of a table.
type column struct {
	name  string
	right bool // aligned to the right
	most  int  // width at most; 0: any
	flex  bool // it is cut where there is no room for all
}

// leastFlex is the width of a flexible column for which others give way, leastShown one below which it is empty.
const leastFlex, leastShown = 16, 8

// table draws a head and rows of styled cells. It omits columns whose cells are all empty, and those of giveWay, in
// that order, until the others have room.
func (d *drawer) table(cols []column, rows [][]string, giveWay ...string) {
	widths, head, flex := make([]int, len(cols)), make([]string, len(cols)), 0
	for c, col := range cols {
		head[c] = dim.of(col.name)
		for _, row := range rows {
			if col.most > 0 {
				row[c] = cut(row[c], max(col.most, width(col.name)))
			}
			widths[c] = max(widths[c], width(row[c]))
		}
		if widths[c] > 0 {
			widths[c] = max(widths[c], width(col.name))
		}
		if col.flex {
			flex = c
		}
	}
	over := func() int { // columns that there is no room for
		n := -2 - d.width
		for _, w := range widths {
			n += w + min(2*w, 2)
		}
		return n
	}
	for _, name := range giveWay {
		for c := range cols {
			if cols[c].name == name && over() > max(0, widths[flex]-leastFlex) {
				widths[c] = 0
			}
		}
	}
	if n := over(); n > 0 && cols[flex].flex {
		if widths[flex] -= n; widths[flex] < leastShown {
			widths[flex] = 0
		}
	}
	for _, row := range append([][]string{head}, rows...) {
		line, left := "", d.width
		for c, col := range cols {
			w := min(widths[c], left)
			if w <= 0 {
				continue
			}
			text := cut(row[c], w)
			if col.right {
				text = padLeft(text, w)
			}
			line, left = line+padRight(text, w)+"  ", left-w-2
		}
		d.line(line)
	}
}
