package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// run draws a run and its turns.
func (v *diffView) run(r *session.RunDiff) {
	if v.Kind == session.DiffOfSessions {
		v.blank()
		m, st := mark(r.State)
		one := r.A
		if one == nil {
			one = r.B
		}
		head := []seg{{m + " ", st}, {"run " + v.where(v.address(r.A, nil), v.address(nil, r.B)), bold}}
		turns := ""
		if r.State == session.DiffSame {
			turns = suffixed(some(len(r.Turns), "turn"), " the same")
		}
		for _, part := range []string{onlyIn(r.State), turns, Clean(one.Relation), words(string(one.Status)), Clean(one.Agent), Clean(one.Model)} {
			if part != "" && part != Clean(v.A.Agent) && part != Clean(v.A.Model) {
				head = append(head, seg{separator + part, dim})
			}
		}
		v.putSegs(head, v.width)
		v.flush()
		if r.State == session.DiffSame {
			return
		}
	}
	b := diffBody{diffView: v, indent: "  "}
	if v.Kind == session.DiffOfSessions {
		b.indent = "    "
	}
	early, late := splitFields(r.Fields)
	b.values("", early)
	b.texts("", r.Input)
	b.calls(r.Calls)
	for i := 0; i < len(r.Turns); {
		k := i + 1
		if quiet := quietTurn(&r.Turns[i]); quiet != "" {
			for k < len(r.Turns) && quietTurn(&r.Turns[k]) == quiet {
				k++
			}
			b.quiet(r.Turns[i:k], quiet)
		} else {
			b.turn(&r.Turns[i])
		}
		i = k
	}
	if len(r.Turns) > 0 && len(late) > 0 {
		v.blank()
	}
	b.values("", late)
}

// splitFields parts what is told of a run before its turns from what is told of its end.
func splitFields(l []session.ValueChange) (early, late []session.ValueChange) {
	for _, f := range l {
		if slices.Contains([]string{"status", "status_word", "error", "error_type", "rejection"}, f.Path) {
			late = append(late, f)
		} else {
			early = append(early, f)
		}
	}
	return early, late
}

// quietTurn says in words why a turn has nothing to show; empty where it has.
func quietTurn(t *session.TurnDiff) string {
	switch {
	case t.State == session.DiffSame:
		return "the same"
	case t.State == session.DiffUnknownState:
		var parts []session.DiffPart
		for _, u := range t.NotCompared {
			if !slices.Contains(parts, u.Part) {
				parts = append(parts, u.Part)
			}
		}
		return "not known to differ; not compared: " + partList(parts)
	case t.State == session.DiffChanged && len(t.Repeats) == len(t.Parts):
		return "only as before: " + partList(t.Repeats)
	}
	return ""
}

// diffBody draws what differs below a heading.
type diffBody struct {
	*diffView
	indent string
	limit  int // lines of the text that is drawn; 0: all
}

// heading is the indent of turns.
func (b *diffBody) heading() string { return b.indent[2:] }

func (b *diffBody) quiet(l []session.TurnDiff, why string) {
	m, st := mark(l[0].State)
	at := b.turnWhere(&l[0])
	if len(l) > 1 {
		at += " to " + b.turnWhere(&l[len(l)-1])
		why = plural(len(l), "turn") + ", " + why
	}
	b.blank()
	head := []seg{{b.heading() + m + " ", st}, {at, bold}}
	long := width(b.heading()+m+" "+at+separator+why) > b.width
	if !long {
		head = append(head, seg{separator + why, dim})
	}
	b.putSegs(head, b.width)
	b.flush()
	if long {
		b.note(why)
	}
}

func (b *diffBody) turnWhere(t *session.TurnDiff) string {
	x, y := "", ""
	if t.A != nil {
		x = t.A.Address
	}
	if t.B != nil {
		y = t.B.Address
	}
	return b.where(x, y)
}

func (b *diffBody) turn(t *session.TurnDiff) {
	m, st := mark(t.State)
	head := []seg{{b.heading() + m + " ", st}, {b.turnWhere(t), bold}}
	add := func(text string) {
		if text != "" {
			head = append(head, seg{separator + text, dim})
		}
	}
	add(onlyIn(t.State))
	if t.A != nil && t.A.Hidden || t.B != nil && t.B.Hidden {
		add("rewound")
	}
	for _, p := range t.Parts {
		add(partWord(p))
	}
	add(duration(t.A, t.B))
	b.blank()
	for first := true; len(head) > 0; first = false {
		line, rest := breakSegs(head, b.width-len(b.indent))
		if !first {
			b.buf.WriteString(b.indent)
			line = slices.Clone(line)
			line[0].text = strings.TrimPrefix(line[0].text, " ")
		}
		b.putSegs(line, b.width)
		b.flush()
		head = rest
	}
	if len(t.Repeats) > 0 {
		b.note("as on the turn before: " + partList(t.Repeats))
	}
	b.texts("", t.Input)
	if t.Request != nil {
		b.title("request", "")
		b.note("the same up to message " + exact(t.Request.Same) + separator + "messages that differ: " + requestCounts(t.Request))
	}
	b.texts("system prompt", t.System)
	b.texts("tool", t.Tools)
	b.values("parameters", t.Params)
	b.texts("", t.Output)
	b.calls(t.Calls)
	b.values("compaction", t.Compaction)
	b.values("outcome", t.Outcome)
	if l := append(numbers(t.Usage), numbers(t.Cost)...); len(l) > 0 {
		b.title("usage", "")
		b.note(l...)
	}
	for _, u := range t.NotCompared {
		b.note(unknownText(u))
	}
}

// duration tells how long both took, which is no difference.
func duration(a, b *session.DiffTurn) string {
	text := func(t *session.DiffTurn) string {
		if t == nil || t.TookNS == 0 {
			return ""
		}
		return Duration(time.Duration(t.TookNS))
	}
	x, y := text(a), text(b)
	if x == y || y == "" {
		return x
	}
	if x == "" {
		return y
	}
	return x + " → " + y
}

// glue is a blank at which note breaks no line.
const glue = "\u00a0"

func glued(text string) string { return strings.ReplaceAll(text, " ", glue) }

// note draws a line that belongs to both sides. It is broken between its parts, and within one that has no room on a line, but where it is
// glued.
func (b *diffBody) note(parts ...string) {
	room := b.width - len(b.indent)
	for i, part := range parts {
		if len(parts) > 1 && width(glued("· ")+part) <= room {
			parts[i] = glued(part)
		}
	}
	for _, l := range wrap(strings.Join(parts, " "+glued("· ")), room, maxWrap) {
		b.buf.WriteString(b.indent)
		b.put(dim, strings.ReplaceAll(l, glue, " "))
		b.flush()
	}
}

func (b *diffBody) title(text, more string) {
	b.putSegs([]seg{{b.indent + text, cyan}, {more, dim}}, b.width)
	b.flush()
}

// texts draws changes of texts. what stands before their names.
func (b *diffBody) texts(what string, l []session.TextDiff) {
	for i := range l {
		t := &l[i]
		b.text(strings.TrimSpace(what+" "+Clean(t.Name)), t)
	}
}

// text draws a change of one text under a title.
func (b *diffBody) text(title string, t *session.TextDiff) {
	more := ""
	if t.Change != "changed" {
		more = " " + Clean(t.Change)
	}
	if t.Digests {
		b.title(title, more)
		b.note(fmt.Sprintf("the text is not here; its digest changed: %s → %s", cmp.Or(cut(Clean(t.BlockA), 16), "none"), cmp.Or(cut(Clean(t.BlockB), 16), "none")))
		return
	}
	if t.Coarse {
		more += separator + "more than a hundred lines differ: told coarsely"
	}
	b.title(title, more)
	drawn := 0
	for i, h := range t.Hunks {
		if h.A > 1 || h.B > 1 || i > 0 {
			b.buf.WriteString(b.indent)
			b.put(cyan, fmt.Sprintf("@@ line %d | %d @@", h.A, h.B))
			b.flush()
		}
		lines := h.Lines
		if b.limit > 0 && drawn+len(lines) > b.limit {
			lines = lines[:max(0, b.limit-drawn)]
		}
		drawn += len(lines)
		b.lines(lines)
		if len(lines) < len(h.Lines) {
			b.more(t)
			return
		}
	}
	if t.Cut {
		b.more(t)
	}
}

// more says that a text goes on.
func (b *diffBody) more(t *session.TextDiff) {
	b.note(fmt.Sprintf("… of %s | %s", Bytes(t.Before), Bytes(t.After)))
	b.cut = b.cut || b.Kind != session.DiffOfTurns
}

// lines draws lines of a hunk.
func (b *diffBody) lines(l []session.DiffLine) {
	if b.form == DiffUnified {
		for i := range l {
			b.unified(&l[i])
		}
		return
	}
	for i := 0; i < len(l); {
		if l[i].Op == session.DiffEqual {
			b.beside(&l[i], &l[i])
			i++
			continue
		}
		k := i
		for k < len(l) && l[k].Op == session.DiffRemoved {
			k++
		}
		end := k
		for end < len(l) && l[end].Op == session.DiffAdded {
			end++
		}
		b.replaced(l[i:k], l[k:end])
		i = end
	}
}

// replaced draws lines beside those in their places: those whose words are told belong together, and between them one beside the other.
func (b *diffBody) replaced(removed, added []session.DiffLine) {
	next := func(l []session.DiffLine) int {
		if i := slices.IndexFunc(l, func(l session.DiffLine) bool { return len(l.Words) > 0 }); i >= 0 {
			return i
		}
		return len(l)
	}
	for len(removed)+len(added) > 0 {
		p, q := next(removed), next(added)
		if p == len(removed) || q == len(added) { // one was cut off
			p, q = len(removed), len(added)
		}
		for n := range max(p, q) {
			var x, y *session.DiffLine
			if n < p {
				x = &removed[n]
			}
			if n < q {
				y = &added[n]
			}
			b.beside(x, y)
		}
		removed, added = removed[p:], added[q:]
		if len(removed) > 0 && len(added) > 0 {
			b.beside(&removed[0], &added[0])
			removed, added = removed[1:], added[1:]
		}
	}
}

// pieces returns a line in pieces that can be drawn. Long stretches that both sides have are left out of a line of which words differ.
func pieces(l *session.DiffLine, st style, w int) []seg {
	if len(l.Words) == 0 {
		return []seg{{cleanLine(l.Text), st}}
	}
	long := len(l.Text) > 2*w
	var out []seg
	for i, p := range l.Words {
		text := cleanLine(p.Text)
		if p.Op != session.DiffEqual {
			if strings.TrimSpace(text) == "" { // blanks have no colour
				text = strings.Repeat("␣", max(1, len(text)))
			}
			out = append(out, seg{text, st})
			continue
		}
		const keep = 32 // columns beside what differs
		if n := width(text); long && n > 3*keep {
			head, tail := cells.Truncate(text, keep, ""), cells.TruncateLeft(text, n-keep, "")
			switch i {
			case 0:
				text = "…" + tail
			case len(l.Words) - 1:
				text = head + "…"
			default:
				text = head + "…" + tail
			}
		}
		out = append(out, seg{text, plainText})
	}
	return out
}

// maxDrawn bounds over how many lines one line of a text goes.
const maxDrawn = 40

// broken breaks pieces into lines of w columns.
func broken(l []seg, w int) [][]seg {
	var lines [][]seg
	var line []seg
	used := 0
	for _, s := range l {
		for text := s.text; text != ""; {
			if len(lines) == maxDrawn {
				return lines
			}
			head := prefix(text, 4*w+16)
			head = cells.Truncate(head, w-used, "")
			if word, _, _ := strings.Cut(prefix(text, w), " "); used > 0 && len(head) < len(word) && width(word) <= w {
				lines, line, used = append(lines, line), nil, 0 // no word is torn apart that fits on a line
				continue
			}
			if head == "" {
				if used == 0 { // wider than the column
					head = prefix(text, 1)
					if head == "" {
						head = text
					}
				} else {
					lines, line, used = append(lines, line), nil, 0
					continue
				}
			}
			if i := strings.LastIndexByte(head, ' '); len(head) < len(text) && i > len(head)/2 {
				head = head[:i+1] // between words
			}
			line = append(line, seg{head, s.style})
			used += width(head)
			if text = text[len(head):]; text != "" {
				lines, line, used = append(lines, line), nil, 0
			}
		}
	}
	return append(lines, line)
}

func (b *diffBody) unified(l *session.DiffLine) {
	sign, st := " ", plainText
	switch l.Op {
	case session.DiffRemoved:
		sign, st = "-", red
	case session.DiffAdded:
		sign, st = "+", green
	}
	for i, line := range broken(pieces(l, st, b.width), b.width-len(b.indent)-1) {
		b.buf.WriteString(b.indent)
		if i > 0 {
			sign = " "
		}
		b.put(st, sign)
		for _, s := range line {
			b.put(s.style, s.text)
		}
		b.flush()
	}
}

// beside draws two lines beside each other, either of which may be nil.
func (b *diffBody) beside(x, y *session.DiffLine) {
	column := (b.width - len(b.indent) - 3) / 2
	side := func(l *session.DiffLine, st style) [][]seg {
		if l == nil {
			return nil
		}
		if l.Op == session.DiffEqual {
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
		b.buf.WriteString(b.indent)
		used := 0
		if i < len(left) {
			for _, s := range left[i] {
				b.put(s.style, s.text)
				used += width(s.text)
			}
		}
		b.buf.WriteString(strings.Repeat(" ", max(0, column-used)))
		b.put(dim, between)
		if i < len(right) {
			for _, s := range right[i] {
				b.put(s.style, s.text)
			}
		}
		b.flush()
	}
}

// values draws values that differ.
func (b *diffBody) values(title string, l []session.ValueChange) {
	if len(l) > 0 && title != "" {
		b.title(title, "")
	}
	for i := range l {
		c := &l[i]
		if c.Text != nil {
			b.text(cmp.Or(Clean(c.Path), "the whole"), c.Text)
			continue
		}
		var lines []session.DiffLine
		name := c.Path
		if name != "" {
			name += ": "
		}
		if c.Before != "" {
			lines = append(lines, session.DiffLine{Op: session.DiffRemoved, Text: name + valueText([]byte(c.Before))})
		}
		if c.After != "" {
			lines = append(lines, session.DiffLine{Op: session.DiffAdded, Text: name + valueText([]byte(c.After))})
		}
		b.lines(lines)
	}
}

// resultLines bounds how much of a result is drawn, but where a turn alone is looked at.
const resultLines = 12

// calls draws tool calls that differ.
func (b *diffBody) calls(l []session.CallDiff) {
	for i := range l {
		c := &l[i]
		if c.State == session.DiffSame {
			b.title("call "+Clean(c.Name), " the same")
			continue
		}
		b.title("call "+Clean(c.Name), prefixed(separator, onlyIn(c.State))+prefixed(separator, callEnds(c)))
		b.values("", c.Args)
		if c.ArgsText != nil {
			if c.State == session.DiffChanged {
				b.text("input", c.ArgsText)
			} else {
				b.hunks(c.ArgsText)
			}
		}
		b.values("", c.Fields)
		if b.Kind != session.DiffOfTurns {
			b.limit = resultLines
		}
		if c.Result != nil {
			b.text("result", c.Result)
		}
		if len(c.ResultFields) > 0 {
			b.values("result, beside its text", c.ResultFields)
		}
		b.limit = 0
		for _, u := range c.NotCompared {
			b.note(unknownText(u))
		}
		b.children(c)
	}
}

// hunks draws a text that has no title of its own.
func (b *diffBody) hunks(t *session.TextDiff) {
	for _, h := range t.Hunks {
		b.lines(h.Lines)
	}
	if t.Cut {
		b.more(t)
	}
}

// callEnds says how the calls ended, where it is one and the same word.
func callEnds(c *session.CallDiff) string {
	one := c.A
	if one == nil {
		one = c.B
	}
	switch {
	case one.Asked:
		return "asked for, nothing is known of what came of it"
	case c.A != nil && c.B != nil && c.A.Outcome != c.B.Outcome:
		return ""
	}
	return words(string(one.Outcome))
}

// children names the runs that the calls spawned, which are compared on their own.
func (b *diffBody) children(c *session.CallDiff) {
	names := func(d *session.DiffCall) string {
		if d == nil {
			return ""
		}
		var out []string
		for _, k := range d.Children {
			out = append(out, Clean(k))
		}
		return strings.Join(out, ", ")
	}
	x, y := names(c.A), names(c.B)
	if x != "" || y != "" {
		b.note("sub-agent " + cmp.Or(x, "none") + " | " + cmp.Or(y, "none"))
	}
}
