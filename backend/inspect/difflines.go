package inspect

import (
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session/diff"
)

// lines draws lines of a hunk.
func (v *diffView) lines(l []diff.Line) {
	for i := 0; i < len(l); {
		switch {
		case v.form == DiffUnified:
			v.unified(&l[i])
			i++
			continue
		case l[i].Op == diff.Equal:
			v.columns(&l[i], &l[i])
			i++
			continue
		}
		k := i
		for k < len(l) && l[k].Op == diff.Removed {
			k++
		}
		end := k
		for end < len(l) && l[end].Op == diff.Added {
			end++
		}
		v.replaced(l[i:k], l[k:end])
		i = end
	}
}

// replaced draws removed lines next to those added in their place. Lines with words belong together; of those in
// between the first stands next to the first.
func (v *diffView) replaced(removed, added []diff.Line) {
	for len(removed)+len(added) > 0 {
		like := func(l diff.Line) bool { return len(l.Words) > 0 }
		p, q := slices.IndexFunc(removed, like), slices.IndexFunc(added, like)
		if p < 0 || q < 0 {
			p, q = len(removed), len(added)
		}
		for n := range max(p, q) {
			var x, y *diff.Line
			if n < p {
				x = &removed[n]
			}
			if n < q {
				y = &added[n]
			}
			v.columns(x, y)
		}
		removed, added = removed[p:], added[q:]
		if len(removed) > 0 && len(added) > 0 {
			v.columns(&removed[0], &added[0])
			removed, added = removed[1:], added[1:]
		}
	}
}

// pieces returns a line in pieces that can be drawn. It shortens long stretches that both sides have.
func pieces(l *diff.Line, st style, w int) []seg {
	if len(l.Words) == 0 {
		return []seg{{cleanLine(l.Text), st}}
	}
	var out []seg
	for i, p := range l.Words {
		text := cleanLine(p.Text)
		const keep = 32 // columns next to what differs
		switch n := width(text); {
		case p.Op != diff.Equal && strings.TrimSpace(text) == "": // blanks have no colour
			out = append(out, seg{strings.Repeat("␣", max(1, len(text))), st})
			continue
		case p.Op != diff.Equal:
			out = append(out, seg{text, st})
			continue
		case len(l.Text) <= 2*w || n <= 3*keep:
		case i == 0:
			text = "…" + cells.TruncateLeft(text, n-keep, "")
		default:
			text = cells.Truncate(text, keep, "") + "…"
		}
		out = append(out, seg{text, plainText})
	}
	return out
}

// maxDrawn bounds over how many lines one line of a text goes.
const maxDrawn = 40

// broken breaks pieces into lines of w columns, between words where that is possible.
func broken(l []seg, w int) [][]seg {
	var lines [][]seg
	var line []seg
	used := 0
	next := func() { lines, line, used = append(lines, line), nil, 0 }
	for _, s := range l {
		for text := s.text; text != "" && len(lines) < maxDrawn; {
			head := cells.Truncate(prefix(text, 4*w+16), w-used, "")
			word, _, _ := strings.Cut(prefix(text, w), " ")
			switch {
			case used > 0 && (head == "" || len(head) < len(word) && width(word) <= w):
				next()
				continue
			case head == "": // wider than the column
				if head = prefix(text, 1); head == "" {
					head = text
				}
			}
			if i := strings.LastIndexByte(head, ' '); len(head) < len(text) && i > len(head)/2 {
				head = head[:i+1]
			}
			line, used = append(line, seg{head, s.style}), used+width(head)
			if text = text[len(head):]; text != "" {
				next()
			}
		}
	}
	return append(lines, line)
}

func (v *diffView) unified(l *diff.Line) {
	sign, st := " ", plainText
	switch l.Op {
	case diff.Removed:
		sign, st = "-", red
	case diff.Added:
		sign, st = "+", green
	}
	for i, line := range broken(pieces(l, st, v.width), v.width-len(v.indent)-1) {
		v.buf.WriteString(v.indent)
		if i > 0 {
			sign = " "
		}
		v.put(st, sign)
		for _, s := range line {
			v.put(s.style, s.text)
		}
		v.flush()
	}
}

// columns draws a line of A and a line of B next to each other; either may be nil.
func (v *diffView) columns(x, y *diff.Line) {
	column := (v.width - len(v.indent) - 3) / 2
	side := func(l *diff.Line, st style) [][]seg {
		switch {
		case l == nil:
			return nil
		case l.Op == diff.Equal:
			st = plainText
		}
		return broken(pieces(l, st, column), column)
	}
	left, right := side(x, red), side(y, green)
	between := " | "
	switch {
	case x == y:
		between = "   "
	case x == nil:
		between = " > "
	case y == nil:
		between = " < "
	}
	for i := range max(len(left), len(right)) {
		v.buf.WriteString(v.indent)
		used := 0
		if i < len(left) {
			used = v.putSegs(left[i], column)
		}
		v.buf.WriteString(strings.Repeat(" ", max(0, column-used)))
		v.put(dim, between)
		if i < len(right) {
			v.putSegs(right[i], column)
		}
		v.flush()
	}
}

// diffLine draws a line of a difference; a long one goes on below, behind its sign.
func (d *drawer) diffLine(st style, text string) {
	for lead := ""; ; lead = "  " {
		head := prefix(text, d.width) // the rest need not be measured
		if head = cells.Truncate(head, d.width-len(lead), ""); head == "" {
			head = text
		}
		d.put(st, lead+head)
		d.flush()
		if text = text[len(head):]; text == "" {
			return
		}
	}
}

// cleanLine is Clean of a whole line whose blanks matter.
func cleanLine(s string) string {
	var b strings.Builder
	for i, f := range strings.SplitAfter(strings.ReplaceAll(s, "\t", "    "), " ") {
		text, blank := strings.CutSuffix(f, " ")
		if text != "" || i == 0 {
			b.WriteString(clean(text, maxWhole))
		}
		if blank {
			b.WriteByte(' ')
		}
	}
	return b.String()
}
