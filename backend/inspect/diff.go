package inspect

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// DiffForm says how a difference is written.
type DiffForm int

// The forms.
const (
	// DiffUnified has what A says above what B says, with - and + before the lines.
	DiffUnified DiffForm = iota
	// DiffSideBySide has A at the left and B at the right, with <, > or | between them.
	DiffSideBySide
	// DiffStat has one line a turn.
	DiffStat
)

// SideBySideWidth is the width from which on two columns can be read with ease.
const SideBySideWidth = 120

// WriteDiff writes a difference for people: what is compared, where it begins, then turn by turn what differs. Turns that are the same
// take one line together. The error is the writer's.
func WriteDiff(w io.Writer, d *session.Diff, o Options, form DiffForm) error {
	v := &diffView{drawer: newDrawer(w, o), Diff: d, form: form}
	v.header()
	if form == DiffStat {
		v.stat()
		return v.err
	}
	for i := range d.Runs {
		if d.Equal {
			break // the head says all
		}
		v.run(&d.Runs[i])
	}
	if v.cut {
		v.blank()
		v.line(dim, "… cut here: the turn alone shows it whole, and so does --json")
	}
	return v.err
}

type diffView struct {
	*drawer
	*session.Diff
	form DiffForm
	cut  bool // something was left out that a turn alone would show
}

func (v *diffView) line(st style, text string) {
	for _, l := range wrap(text, v.width, maxWrap) {
		v.put(st, l)
		v.flush()
	}
}

// partWords are parts in everybody's words.
var partWords = map[session.DiffPart]string{
	session.DiffSystem: "system prompt", session.DiffTools: "tools offered", session.DiffParams: "parameters", session.DiffCalls: "tool calls",
	session.DiffResults: "tool results", session.DiffRequest: "earlier messages of the request",
}

func partWord(p session.DiffPart) string { return cmp.Or(partWords[p], Clean(string(p))) }

func partList(parts []session.DiffPart) string {
	var out []string
	for _, p := range parts {
		out = append(out, partWord(p))
	}
	return strings.Join(out, ", ")
}

// short is an address without its session.
func short(address, id string) string {
	return strings.TrimPrefix(strings.TrimPrefix(address, id), "/")
}

// where names a place on both sides in one word where it is one.
func (v *diffView) where(a, b string) string {
	a, b = Clean(short(a, v.A.Session)), Clean(short(b, v.B.Session))
	switch {
	case a == b || b == "":
		return a
	case a == "":
		return b
	}
	return a + " | " + b
}

func (v *diffView) header() {
	for _, s := range []struct {
		name string
		side *session.DiffSide
	}{{"a", &v.A}, {"b", &v.B}} {
		d := s.side
		turns := ""
		if v.Kind != session.DiffOfTurns {
			turns = plural(d.Turns, "turn")
		}
		runs := ""
		if v.Kind == session.DiffOfSessions {
			runs = plural(d.Runs, "run")
		}
		source := Clean(d.Source)
		parts := []string{Clean(d.Address), prefixed("in ", source), Clean(d.Agent), Clean(d.Model), words(d.Status), runs, turns,
			some(d.Calls, "tool call"), took(d.Start, d.Start.Add(time.Duration(d.TookNS)))}
		for _, c := range slices.Sorted(maps.Keys(d.Cost)) {
			parts = append(parts, money(c, d.Cost[c]))
		}
		v.field(s.name, parts...)
	}
	if tokens := usageDelta(v.A.Usage, v.B.Usage); len(tokens) > 0 && v.Kind != session.DiffOfTurns {
		v.field("tokens", tokens...)
	}
	if v.Kind != session.DiffOfTurns {
		c := v.Counts
		repeats := ""
		if c.Repeats > 0 {
			repeats = fmt.Sprintf(" (%d only as the one before)", c.Repeats)
		}
		v.field("turns", suffixed(some(c.Same, "turn"), " the same"), counted(c.Changed, "changed")+repeats, counted(c.OnlyA, "only in a"), counted(c.OnlyB, "only in b"),
			counted(c.Unknown, "not all compared"))
	}
	v.first()
	if len(v.Ignored) > 0 {
		v.field("ignored", partList(v.Ignored))
	}
	for i, u := range v.NotCompared {
		name := ""
		if i == 0 {
			name = "unknown"
		}
		turns := ""
		if v.Kind != session.DiffOfTurns {
			turns = some(u.Turns, "turn")
		}
		v.field(name, unknownText(u), turns)
	}
}

func counted(n int, what string) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + " " + what
}

// first says where the two part.
func (v *diffView) first() {
	f := v.First
	switch {
	case v.Equal:
		v.field("same", "nothing differs")
		return
	case f == nil:
		v.field("differ", "nothing is known to differ, but not all could be compared")
		return
	case v.Kind == session.DiffOfTurns:
		v.field("differ", partList(f.Parts))
		return
	}
	what := partList(f.Parts)
	switch {
	case f.A == "":
		what = "only in b"
	case f.B == "":
		what = "only in a"
	}
	if f.SameA != "" || f.SameB != "" {
		v.field("first", "same up to "+v.where(f.SameA, f.SameB), v.where(f.A, f.B)+": "+what)
		return
	}
	v.field("first", "from the beginning", v.where(f.A, f.B)+": "+what)
}

var whyWords = map[session.DiffWhy]string{
	session.DiffNotCaptured: "not captured", session.DiffDigestsOnly: "only digests are there, which times and ids within change too", session.DiffMissing: "did not arrive",
	session.DiffWithheld: "cut or withheld at the source", session.DiffNotTold: "not told by its loop", session.DiffOtherUnit: "in two currencies",
}

func unknownText(u session.DiffUnknown) string {
	side := " in " + u.Side
	switch {
	case u.Why == session.DiffDigestsOnly || u.Why == session.DiffOtherUnit:
		side = ""
	case u.Side == "both":
		side = " in both"
	}
	return partWord(u.Part) + " not compared: " + cmp.Or(whyWords[u.Why], Clean(string(u.Why))) + side
}

// usageDelta says what differs of tokens.
func usageDelta(a, b session.Usage) (out []string) {
	for _, n := range []struct {
		name string
		a, b int64
	}{{"in", a.Input, b.Input}, {"out", a.Output, b.Output}, {"reasoning", a.Reasoning, b.Reasoning}, {"cache read", a.CacheRead, b.CacheRead}, {"cache write", a.CacheWrite, b.CacheWrite}} {
		if n.a != n.b {
			out = append(out, fmt.Sprintf("%s %s → %s (%s)", n.name, exact(n.a), exact(n.b), signed(float64(n.b)-float64(n.a))))
		}
	}
	return out
}

func signed(n float64) string {
	text := strconv.FormatFloat(n, 'f', -1, 64)
	if n == float64(int64(n)) {
		text = exact(int64(n))
	} else if f, err := strconv.ParseFloat(fmt.Sprintf("%.6g", n), 64); err == nil {
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	if n > 0 {
		return "+" + text
	}
	return text
}

// numbers says what differs of numbers, amounts glued to their units.
func numbers(l []session.NumberChange) (out []string) {
	for _, n := range l {
		name := words(n.Name)
		was, is := exact(int64(n.Before)), exact(int64(n.After))
		if n.Unit != "" {
			was, is = glued(money(n.Unit, n.Before)), glued(money(n.Unit, n.After))
		}
		out = append(out, fmt.Sprintf("%s %s → %s (%s)", name, was, is, signed(n.By)))
	}
	return out
}

// mark is what stands before a turn.
func mark(s session.DiffState) (string, style) {
	switch s {
	case session.DiffSame:
		return "=", dim
	case session.DiffOnlyA:
		return "-", red
	case session.DiffOnlyB:
		return "+", green
	case session.DiffUnknownState:
		return "?", yellow
	}
	return "≠", yellow
}

// stat writes one line a turn.
func (v *diffView) stat() {
	type row struct {
		mark, a, b, what string
		style            style
	}
	var rows []row
	for i := range v.Runs {
		r := &v.Runs[i]
		if len(r.Parts) > 0 || len(r.Turns) == 0 {
			m, st := mark(r.State)
			rows = append(rows, row{m, v.address(r.A, nil), v.address(nil, r.B), cmp.Or(partList(r.Parts), onlyIn(r.State)), st})
		}
		for j := range r.Turns {
			t := &r.Turns[j]
			m, st := mark(t.State)
			a, b := "", ""
			if t.A != nil {
				a = Clean(short(t.A.Address, v.A.Session))
			}
			if t.B != nil {
				b = Clean(short(t.B.Address, v.B.Session))
			}
			rows = append(rows, row{m, a, b, statText(t), st})
		}
	}
	v.blank()
	wa, wb := 1, 1
	for _, r := range rows {
		wa, wb = max(wa, min(width(r.a), v.width/4)), max(wb, min(width(r.b), v.width/4))
	}
	v.put(dim, "   "+padRight("A", wa)+"  "+padRight("B", wb)+"  WHAT")
	v.flush()
	for _, r := range rows {
		v.put(r.style, r.mark)
		v.buf.WriteString("  " + padRight(cut(r.a, wa), wa) + "  " + padRight(cut(r.b, wb), wb) + "  ")
		v.buf.WriteString(cut(r.what, v.width-wa-wb-7))
		v.flush()
	}
}

func (v *diffView) address(a, b *session.DiffRun) string {
	switch {
	case a != nil:
		return Clean(short(a.Address, v.A.Session))
	case b != nil:
		return Clean(short(b.Address, v.B.Session))
	}
	return ""
}

func onlyIn(s session.DiffState) string {
	switch s {
	case session.DiffOnlyA:
		return "only in a"
	case session.DiffOnlyB:
		return "only in b"
	}
	return ""
}

// statText is a turn in a few words.
func statText(t *session.TurnDiff) string {
	if only := onlyIn(t.State); only != "" {
		return only
	}
	var out []string
	for _, p := range t.Parts {
		text := partWord(p)
		switch p {
		case session.DiffInput:
			text += lineCounts(t.Input, "")
		case session.DiffReply:
			text += lineCounts(t.Output, "reply")
		case session.DiffThinking:
			text += lineCounts(t.Output, "thinking")
		case session.DiffSystem:
			text += lineCounts(t.System, "")
		case session.DiffCalls:
			text += callCounts(t.Calls)
		case session.DiffRequest:
			text += fmt.Sprintf(" (%s)", requestCounts(t.Request))
		case session.DiffCompaction:
			text += valueCounts(t.Compaction)
		case session.DiffUsage:
			text = shortNumbers(t.Usage)
		case session.DiffCost:
			text = shortNumbers(t.Cost)
		}
		if slices.Contains(t.Repeats, p) {
			text += " as before"
		}
		out = append(out, text)
	}
	if n := len(t.NotCompared); n > 0 {
		var parts []session.DiffPart
		for _, u := range t.NotCompared {
			if !slices.Contains(parts, u.Part) {
				parts = append(parts, u.Part)
			}
		}
		out = append(out, "not compared: "+partList(parts))
	}
	return strings.Join(out, separator)
}

// requestCounts says how the requests differ.
func requestCounts(r *session.RequestCompared) string {
	out := []string{counted(r.OnlyA, "only in a"), counted(r.OnlyB, "only in b")}
	return strings.Join(slices.DeleteFunc(out, func(s string) bool { return s == "" }), ", ")
}

// valueCounts are the lines added and removed of values that are texts.
func valueCounts(l []session.ValueChange) string {
	var texts []session.TextDiff
	for i := range l {
		if l[i].Text != nil {
			texts = append(texts, *l[i].Text)
		}
	}
	return lineCounts(texts, "")
}

func shortNumbers(l []session.NumberChange) string {
	var out []string
	for _, n := range l {
		out = append(out, map[string]string{"input": "in", "output": "out"}[n.Name])
		if out[len(out)-1] == "" {
			out[len(out)-1] = words(n.Name)
		}
		out[len(out)-1] += " " + signed(n.By)
	}
	return strings.Join(out, separator)
}

// lineCounts are the lines added and removed of texts of a name.
func lineCounts(l []session.TextDiff, name string) string {
	added, removed := 0, 0
	for _, t := range l {
		if name != "" && t.Name != name {
			continue
		}
		for _, h := range t.Hunks {
			for _, line := range h.Lines {
				switch line.Op {
				case session.DiffAdded:
					added++
				case session.DiffRemoved:
					removed++
				}
			}
		}
	}
	switch {
	case added > 0 && removed > 0:
		return fmt.Sprintf(" +%d −%d", added, removed)
	case added > 0:
		return fmt.Sprintf(" +%d", added)
	case removed > 0:
		return fmt.Sprintf(" −%d", removed)
	}
	return ""
}

func callCounts(l []session.CallDiff) string {
	counts := map[session.DiffState]int{}
	for _, c := range l {
		counts[c.State]++
	}
	out := []string{counted(counts[session.DiffChanged], "changed"), counted(counts[session.DiffOnlyA], "only in a"), counted(counts[session.DiffOnlyB], "only in b")}
	out = slices.DeleteFunc(out, func(s string) bool { return s == "" })
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}
