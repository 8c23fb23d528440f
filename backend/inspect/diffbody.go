package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/diff"
)

// run draws a run and its turns.
func (v *diffView) run(r *diff.Pair) {
	if v.Kind == diff.OfSessions {
		v.blank()
		st := states[r.State]
		one := cmp.Or(r.A, r.B)
		turns := ""
		if r.State == diff.Same {
			turns = suffixed(some(len(r.Turns), "turn"), " the same")
		}
		head := []seg{{st.sign + " ", st.style}, {"run " + v.where(r.Addresses()), bold}}
		more := []string{st.only, turns, Clean(one.Relation), words(one.Status), Clean(one.Agent), Clean(one.Model)}
		for _, text := range more {
			if text != "" && text != Clean(v.A.Agent) && text != Clean(v.A.Model) {
				head = append(head, seg{separator + text, dim})
			}
		}
		v.putSegs(head, v.width)
		v.flush()
		if r.State == diff.Same {
			return
		}
		v.indent = "  "
	}
	v.indent += "  "
	defer func() { v.indent = "" }()
	late := func(c *diff.Change) bool { return c.Part == diff.Outcome } // a run ends after its turns
	v.changes(r, func(c *diff.Change) bool { return !late(c) })
	v.calls(r.Calls)
	for i := 0; i < len(r.Turns); {
		n := 1
		why := v.quiet(&r.Turns[i])
		for why != "" && i+n < len(r.Turns) && v.quiet(&r.Turns[i+n]) == why {
			n++
		}
		v.turn(r.Turns[i:i+n], why)
		i += n
	}
	if slices.Contains(r.Parts, diff.Outcome) {
		v.blank()
	}
	v.changes(r, late)
}

// quiet returns the reason that there is nothing to draw of a turn; empty where there is something.
func (v *diffView) quiet(t *diff.Pair) string {
	switch {
	case t.State == diff.Same:
		return "the same"
	case t.State == diff.NotAll:
		return "not known to differ; not compared: " + v.parts(unknownParts(t))
	case t.State == diff.Changed && len(t.Repeats) == len(t.Parts):
		return "only as before: " + v.parts(t.Repeats)
	}
	return ""
}

// turn draws a turn, or one line for several of which there is nothing to draw.
func (v *diffView) turn(l []diff.Pair, quiet string) {
	t := &l[0]
	st := states[t.State]
	at := v.where(t.Addresses())
	if len(l) > 1 {
		at += " to " + v.where(l[len(l)-1].Addresses())
		quiet = plural(len(l), "turn") + ", " + quiet
	}
	lead := v.indent[2:] + st.sign + " "
	head := []seg{{lead, st.style}, {at, bold}}
	add := func(text string) {
		if text != "" {
			head = append(head, seg{separator + text, dim})
		}
	}
	long := quiet != "" && width(lead+at+separator+quiet) > v.width
	switch {
	case quiet == "":
		add(st.only)
		if t.A != nil && t.A.Hidden || t.B != nil && t.B.Hidden {
			add("rewound")
		}
		for _, p := range t.Parts {
			add(v.part(p))
		}
		add(duration(t))
	case !long:
		add(quiet)
	}
	v.blank()
	for first := true; len(head) > 0; first = false {
		line, rest := breakSegs(head, v.width-len(v.indent))
		if !first {
			v.buf.WriteString(v.indent)
			line = slices.Clone(line)
			line[0].text = strings.TrimPrefix(line[0].text, " ")
		}
		v.putSegs(line, v.width)
		v.flush()
		head = rest
	}
	if long {
		v.note(quiet)
	}
	if quiet != "" {
		return
	}
	if len(t.Repeats) > 0 {
		v.note("as on the turn before: " + v.parts(t.Repeats))
	}
	v.changes(t, func(c *diff.Change) bool {
		return slices.Index(diff.Parts, c.Part) <= slices.Index(diff.Parts, diff.Reply)
	})
	v.calls(t.Calls)
	v.changes(t, func(c *diff.Change) bool {
		return slices.Index(diff.Parts, c.Part) > slices.Index(diff.Parts, diff.Reply)
	})
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

// glue is a blank at which note breaks no line.
const glue = "\u00a0"

func glued(text string) string { return strings.ReplaceAll(text, " ", glue) }

// note draws a line that belongs to both sides. It breaks the line between its parts, and within a part that has no
// room on a line.
func (v *diffView) note(parts ...string) {
	room := v.width - len(v.indent)
	for i, part := range parts {
		if len(parts) > 1 && width(glued("· ")+part) <= room {
			parts[i] = glued(part)
		}
	}
	for _, l := range wrap(strings.Join(parts, " "+glued("· ")), room, maxWrap) {
		v.buf.WriteString(v.indent)
		v.put(dim, strings.ReplaceAll(l, glue, " "))
		v.flush()
	}
}

func (v *diffView) title(text, more string) {
	v.putSegs([]seg{{v.indent + text, cyan}, {more, dim}}, v.width)
	v.flush()
}

// titled are the parts that have one title for all their changes, roots the first names of paths that titles say.
var titled = []diff.Part{diff.Tools, diff.Params, diff.Outcome, diff.Compaction, diff.Request}
var roots = []string{"params", "outcome", "compaction", "args", "result", "input", "output", "usage", "tools", "system"}

// changes draws the changes of a pair that are wanted.
func (v *diffView) changes(p *diff.Pair, wanted func(*diff.Change) bool) {
	var numbers []string
	last := diff.Part("")
	for i := range p.Changes {
		c := &p.Changes[i]
		if !wanted(c) {
			continue
		}
		name := Clean(c.Path)
		for _, root := range roots {
			if rest, ok := strings.CutPrefix(name, root); ok {
				name = strings.TrimPrefix(rest, ".")
				break
			}
		}
		if c.Part == diff.Compaction {
			name = compactionName(name)
		}
		first := c.Part != last
		last = c.Part
		switch {
		case c.Part == diff.Usage || c.Part == diff.Cost:
			numbers = append(numbers, delta(words(name), c.Unit, before(c), after(c)))
			continue
		case c.A != nil || c.B != nil:
			if first {
				v.title("messages", "")
				v.note(slices.DeleteFunc(messageCounts(p), func(s string) bool { return s == "" })...)
			}
			v.message(c)
			continue
		case c.Part == diff.System:
			name = v.part(c.Part)
		case c.Path == "args":
			name = "input"
		case c.Part == diff.Results:
			name = strings.TrimSuffix(strings.TrimSpace("result "+name), " content")
		case first && slices.Contains(titled, c.Part):
			v.title(v.part(c.Part), "")
		}
		v.change(name, c)
	}
	if len(numbers) > 0 {
		v.title("usage", "")
		v.note(numbers...)
	}
}

// compactionName says a path such as [0].summary.user as people read it: "1: summary user".
func compactionName(path string) string {
	index, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
	n, err := strconv.Atoi(index)
	if !ok || err != nil {
		return path
	}
	rest = words(strings.TrimSpace(strings.ReplaceAll(rest, ".", " ")))
	return strconv.Itoa(n+1) + prefixed(": ", rest)
}

// change draws one field that differs.
func (v *diffView) change(name string, c *diff.Change) {
	more := ""
	if c.Change != "changed" {
		more = " " + Clean(c.Change)
	}
	switch {
	case c.DigestA != "" || c.DigestB != "":
		if name != "" {
			v.title(name, more)
		}
		was, is := cmp.Or(cut(Clean(c.DigestA), 16), "none"), cmp.Or(cut(Clean(c.DigestB), 16), "none")
		v.note("the text is not here; its digest changed: " + was + " → " + is)
	case c.Text != nil:
		v.title(cmp.Or(name, "the whole"), more)
		v.text(c)
	default:
		var l []diff.Line
		for op, raw := range map[string]session.RawJSON{diff.Removed: c.Before, diff.Added: c.After} {
			if raw != "" {
				l = append(l, diff.Line{Op: op, Text: prefixed(name, prefixed(": ", valueText([]byte(raw))))})
			}
		}
		slices.SortFunc(l, func(x, y diff.Line) int { return strings.Compare(y.Op, x.Op) })
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
	left := len(t.Hunks) * (1 << 20)
	if c.Part == diff.Results && !v.one() {
		left = resultLines
	}
	for i, h := range t.Hunks {
		if left <= 0 {
			cutOff = true
			break
		}
		if h.A > 1 || h.B > 1 || i > 0 {
			v.buf.WriteString(v.indent)
			v.put(cyan, fmt.Sprintf("@@ line %d | %d @@", h.A, h.B))
			v.flush()
		}
		cutOff = cutOff || len(h.Lines) > left
		v.lines(h.Lines[:min(left, len(h.Lines))])
		left -= len(h.Lines)
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
		v.changes(c, func(*diff.Change) bool { return true })
		for _, u := range c.NotCompared {
			v.note(v.unknown(u))
		}
		var children [2]string
		for n, p := range []*diff.Place{c.A, c.B} {
			if p != nil {
				children[n] = Clean(strings.Join(p.Children, ", "))
			}
		}
		if children[0]+children[1] != "" {
			v.note("sub-agent " + cmp.Or(children[0], "none") + " | " + cmp.Or(children[1], "none"))
		}
	}
}

// message draws a message of a request that differs, in one line a side.
func (v *diffView) message(c *diff.Change) {
	line := func(sign string, st style, m *session.Message, text string) {
		v.put(st, cut(v.indent+sign+" "+padLeft(strconv.Itoa(m.Position), 3)+"  "+text, v.width))
		v.flush()
	}
	switch {
	case c.Change == "moved":
		line("~", yellow, c.B, fmt.Sprintf("was %d · %s", c.A.Position, messageText(c.B)))
		return
	case c.A != nil && c.B != nil && c.A.Block == c.B.Block: // what the loop says about the message changed
		line("-", red, c.A, cmp.Or(source(c.A), "no provenance"))
		line("+", green, c.B, cmp.Or(source(c.B), "no provenance"))
		return
	}
	if c.A != nil {
		line("-", red, c.A, messageText(c.A))
	}
	if c.B != nil {
		line("+", green, c.B, messageText(c.B))
	}
}

// messageText is a message in one line: where it came from, who speaks, and what is said.
func messageText(m *session.Message) string {
	var out []string
	if s := source(m); s != "" {
		out = append(out, s)
	}
	switch said := sayings(m.Body); {
	case m.Withheld:
		out = append(out, exact(m.Bytes)+" bytes, not here", Clean(m.Block))
	case m.Missing:
		out = append(out, "did not arrive", Clean(m.Block))
	case len(said) == 0: // such as a reply of nothing but tool calls
		text := saidText([]byte(m.Body))
		if text == "" {
			text = valueText([]byte(m.Body))
		}
		out = append(out, suffixed(Clean(session.SaidBy(m.Role)), ": ")+Clean(text))
	default:
		for _, s := range said {
			out = append(out, shortLabel(s.label)+": "+Clean(s.text))
		}
	}
	return strings.Join(out, separator)
}
