package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/diff"
)

// write draws a line after the indent.
func (v *diffView) write(parts ...string) { v.line(v.indent, strings.Join(parts, "")) }

// note draws lines that belong to both sides.
func (v *diffView) note(parts ...string) {
	for _, l := range flow(parts, v.width-len(v.indent), v.width-len(v.indent), maxWrap) {
		v.write(dim.of(l))
	}
}

func (v *diffView) title(text, more string) {
	v.write(cut(cyan.of(text)+dim.of(more), v.width-len(v.indent)))
}

// run draws a run and its turns.
func (v *diffView) run(r *diff.Pair) {
	if v.Kind == diff.OfSessions {
		st, one, more := states[r.State], cmp.Or(r.A, r.B), ""
		switch {
		case v.form == DiffStat:
			more = v.parts(r.Parts)
		case r.State == diff.Same:
			more = suffixed(some(len(r.Turns), "turn"), " the same")
		}
		if v.form != DiffStat {
			v.line()
		}
		head := st.style.of(st.sign+" ") + bold.of("run "+v.where(r.Addresses()))
		more = joined(separator, st.only, Clean(one.Relation), words(one.Status), more)
		v.line(cut(head+dim.of(prefixed(separator, more)), v.width))
		if r.State == diff.Same {
			return
		}
		v.indent = "  "
	}
	v.indent += "  "
	defer func() { v.indent = "" }()
	if v.form != DiffStat {
		v.changes(r)
		v.calls(r.Calls)
	}
	for i := 0; i < len(r.Turns); {
		n, why := 1, v.quiet(&r.Turns[i])
		for why != "" && i+n < len(r.Turns) && v.quiet(&r.Turns[i+n]) == why {
			n++
		}
		v.turn(r.Turns[i:i+n], why)
		i += n
	}
}

// quiet returns the reason that there is nothing to draw of a turn; empty where there is something.
func (v *diffView) quiet(t *diff.Pair) string {
	switch {
	case t.State == diff.Same:
		return "the same"
	case t.State == diff.NotAll:
		var parts []diff.Part
		for _, u := range t.NotCompared {
			parts = append(parts, u.Part)
		}
		return "not known to differ; not compared: " + v.parts(parts)
	case t.State == diff.Changed && len(t.Repeats) == len(t.Parts):
		return "only as before: " + v.parts(t.Repeats)
	}
	return ""
}

// turn draws a turn, or one line for several of which there is nothing to draw.
func (v *diffView) turn(l []diff.Pair, quiet string) {
	t, st := &l[0], states[l[0].State]
	at := v.where(t.Addresses())
	if len(l) > 1 {
		at += " to " + v.where(l[len(l)-1].Addresses())
		quiet = plural(len(l), "turn") + ", " + quiet
	}
	head := []string{bold.of(at), dim.of(quiet)}
	if quiet == "" {
		head = append(head, dim.of(st.only))
		if t.A != nil && t.A.Hidden || t.B != nil && t.B.Hidden {
			head = append(head, dim.of("rewound"))
		}
		for _, p := range t.Parts {
			head = append(head, dim.of(v.part(p)))
		}
		head = append(head, dim.of(duration(t)))
	}
	if v.form != DiffStat {
		v.line()
	}
	lead := v.indent[2:] + st.style.of(st.sign+" ")
	for _, line := range flow(head, v.width-len(v.indent), v.width-len(v.indent), maxWrap) {
		v.line(lead, line)
		lead = v.indent
	}
	if quiet != "" || v.form == DiffStat {
		return
	}
	v.note(prefixed("as on the turn before: ", v.parts(t.Repeats)))
	v.changes(t)
	v.calls(t.Calls)
	for _, u := range t.NotCompared {
		v.note(v.unknown(u))
	}
}

// duration says how long both took, which is no difference.
func duration(t *diff.Pair) string {
	var out []string
	for _, p := range []*diff.Place{t.A, t.B} {
		if p != nil && p.TookNS != 0 {
			out = append(out, Duration(time.Duration(p.TookNS)))
		}
	}
	return strings.Join(slices.Compact(out), " → ")
}

// changes draws the changes of a pair, each by the path of its field.
func (v *diffView) changes(p *diff.Pair) {
	var numbers []string
	counts := map[string]int64{} // of messages
	for i := range p.Changes {
		if c := &p.Changes[i]; c.A != nil || c.B != nil {
			counts[c.Change]++
		}
	}
	if len(counts) > 0 {
		v.title("messages", "")
		v.note(count(counts["removed"], "only in a"), count(counts["added"], "only in b"),
			count(counts["changed"], "changed"), count(counts["moved"], "moved"))
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		switch {
		case c.Part == diff.Usage || c.Part == diff.Cost:
			a, _ := strconv.ParseFloat(string(c.Before), 64)
			b, _ := strconv.ParseFloat(string(c.After), 64)
			numbers = append(numbers, delta(words(strings.TrimPrefix(c.Path, "usage.")), c.Unit, a, b))
		case c.A != nil || c.B != nil:
			v.message(c)
		default:
			v.change(c)
		}
	}
	if len(numbers) > 0 {
		v.title("usage", "")
		v.note(numbers...)
	}
}

// change draws one field that differs.
func (v *diffView) change(c *diff.Change) {
	name, more := cmp.Or(Clean(c.Path), "the whole"), ""
	if c.Change != "changed" {
		more = " " + Clean(c.Change)
	}
	switch {
	case c.DigestA != "" || c.DigestB != "":
		v.title(name, more)
		was, is := cmp.Or(cut(Clean(c.DigestA), 16), "none"), cmp.Or(cut(Clean(c.DigestB), 16), "none")
		v.note("the text is not here; its digest changed: " + was + " → " + is)
	case c.Text != nil:
		v.title(name, more)
		v.text(c)
	default:
		var l []diff.Line
		for i, raw := range []session.RawJSON{c.Before, c.After} {
			if raw != "" {
				op := []string{diff.Removed, diff.Added}[i]
				l = append(l, diff.Line{Op: op, Text: name + prefixed(": ", valueText([]byte(raw)))})
			}
		}
		v.lines(l)
	}
}

// resultLines bounds the lines of a result, except where a turn alone is drawn.
const resultLines = 12

// text draws the lines of a text that differ.
func (v *diffView) text(c *diff.Change) {
	t, cutOff := c.Text, c.Text.Cut
	if t.Coarse {
		v.note("more than a hundred lines differ: compared coarsely")
	}
	left := unbounded
	if c.Part == diff.Results && !v.one() {
		left = resultLines
	}
	for i, h := range t.Hunks {
		if left > 0 && (h.A > 1 || h.B > 1 || i > 0) {
			v.write(cyan.of(fmt.Sprintf("@@ line %d | %d @@", h.A, h.B)))
		}
		cutOff = cutOff || len(h.Lines) > left
		n := min(left, len(h.Lines))
		v.lines(h.Lines[:n])
		left -= n
	}
	if cutOff {
		v.note(fmt.Sprintf("… of %s | %s", Bytes(t.Before), Bytes(t.After)))
		v.cut = v.cut || !v.one()
	}
}

// calls draws tool calls.
func (v *diffView) calls(l []diff.Pair) {
	for i := range l {
		c := &l[i]
		if c.State == diff.Same {
			v.title("call "+Clean(c.Name), " the same")
			continue
		}
		one := cmp.Or(c.A, c.B)
		ended := words(one.Status)
		switch {
		case one.Asked:
			ended = "asked for; nothing reports that it ran"
		case c.A != nil && c.B != nil && c.A.Status != c.B.Status:
			ended = ""
		}
		v.title("call "+Clean(c.Name), prefixed(separator, states[c.State].only)+prefixed(separator, ended))
		v.changes(c)
		for _, u := range c.NotCompared {
			v.note(v.unknown(u))
		}
		var children [2]string
		for n, p := range []*diff.Place{c.A, c.B} {
			if p != nil {
				children[n] = strings.Join(p.Children, ", ")
			}
		}
		v.note(prefixed("sub-agent ", v.where(children[0], children[1])))
	}
}

// message draws a message of a request that differs, in one line a side.
func (v *diffView) message(c *diff.Change) {
	line := func(st style, sign string, m *session.Message, text string) {
		v.write(st.of(cut(sign+" "+padLeft(strconv.Itoa(m.Position), 3)+"  "+text, v.width-len(v.indent))))
	}
	text := messageText
	switch {
	case c.Change == "moved":
		line(yellow, "~", c.B, fmt.Sprintf("was %d · %s", c.A.Position, messageText(c.B)))
		return
	case c.A != nil && c.B != nil && c.A.Block == c.B.Block: // what the loop says about the message changed
		text = func(m *session.Message) string { return cmp.Or(source(m), "no provenance") }
	}
	if c.A != nil {
		line(red, "-", c.A, text(c.A))
	}
	if c.B != nil {
		line(green, "+", c.B, text(c.B))
	}
}

// messageText is a message in one line: where it came from, who speaks, and what is said.
func messageText(m *session.Message) string {
	out := []string{source(m)}
	switch said := shownParts(m.Body); {
	case m.Withheld:
		out = append(out, exact(m.Bytes)+" bytes, not here", Clean(m.Block))
	case m.Missing:
		out = append(out, "did not arrive", Clean(m.Block))
	case len(said) == 0: // such as a reply of nothing but tool calls
		text := cmp.Or(saidText([]byte(m.Body)), valueText([]byte(m.Body)))
		out = append(out, suffixed(Clean(session.Speaker(m.Role)), ": ")+Clean(text))
	default:
		for _, s := range said {
			out = append(out, shortLabel(s.label)+": "+Clean(s.text))
		}
	}
	return joined(separator, out...)
}

// lines draws lines of a hunk. Side by side, a removed line is next to the one that was added in its place: lines
// with words belong together, and so do those without.
func (v *diffView) lines(l []diff.Line) {
	for i := 0; i < len(l); {
		if v.form == DiffUnified {
			sign := strings.Replace(l[i].Op, diff.Equal, " ", 1)
			for _, line := range broken(&l[i], v.width-len(v.indent)-1) {
				v.write(lineStyles[l[i].Op].of(sign), line)
				sign = " "
			}
			i++
			continue
		}
		if l[i].Op == diff.Equal {
			v.columns(&l[i], &l[i])
			i++
		}
		from := i
		for i < len(l) && l[i].Op == diff.Removed {
			i++
		}
		to := i
		for i < len(l) && l[i].Op == diff.Added {
			i++
		}
		removed, added := l[from:to], l[to:i]
		for len(removed)+len(added) > 0 {
			var x, y *diff.Line
			a, b := removed, added
			if len(a) > 0 && (len(b) == 0 || len(b[0].Words) > 0 || len(a[0].Words) == 0) {
				x, removed = &a[0], a[1:]
			}
			if len(b) > 0 && (len(a) == 0 || len(a[0].Words) > 0 || len(b[0].Words) == 0) {
				y, added = &b[0], b[1:]
			}
			v.columns(x, y)
		}
	}
}

var lineStyles = map[string]style{diff.Removed: red, diff.Added: green}

// maxDrawn bounds over how many lines one line of a text goes.
const maxDrawn = 40

// broken breaks a line, if there is one, into lines of w columns. It shortens long stretches that both sides have.
func broken(l *diff.Line, w int) []string {
	if l == nil {
		return nil
	}
	st := lineStyles[l.Op]
	if len(l.Words) == 0 {
		return wrap(st.of(cleanLine(l.Text)), w, maxDrawn)
	}
	line := ""
	for i, p := range l.Words {
		text := cleanLine(p.Text)
		const keep = 32 // columns next to what differs
		switch n := width(text); {
		case p.Op != diff.Equal && strings.TrimSpace(text) == "": // blanks have no colour
			text = st.of(strings.Repeat("␣", max(1, len(text))))
		case p.Op != diff.Equal:
			text = st.of(text)
		case len(l.Text) <= 2*w || n <= 3*keep:
		case i == 0:
			text = ansi.TruncateLeft(text, n-keep, "…")
		default:
			text = ansi.Truncate(text, keep+1, "…")
		}
		line += text
	}
	return wrap(line, w, maxDrawn)
}

// columns draws a line of A and a line of B next to each other; either may be nil.
func (v *diffView) columns(x, y *diff.Line) {
	between := " | "
	switch {
	case x == y:
		between = "   "
	case x == nil:
		between = " > "
	case y == nil:
		between = " < "
	}
	column := (v.width - len(v.indent) - 3) / 2
	left, right := broken(x, column), broken(y, column)
	n := max(len(left), len(right))
	left, right = append(left, make([]string, n-len(left))...), append(right, make([]string, n-len(right))...)
	for i := range n {
		v.write(padRight(left[i], column), dim.of(between), right[i])
	}
}

// cleanLine is Clean of a whole line whose blanks matter.
func cleanLine(s string) string {
	fields := strings.Split(strings.ReplaceAll(s, "\t", "    "), " ")
	for i, f := range fields {
		fields[i] = clean(f, maxWhole)
	}
	return strings.Join(fields, " ")
}
