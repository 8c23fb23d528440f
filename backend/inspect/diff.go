package inspect

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session/diff"
)

// DiffForm selects the layout of a difference.
type DiffForm int

// The forms.
const (
	DiffUnified    DiffForm = iota // - and + before the lines
	DiffSideBySide                 // A at the left and B at the right, with <, > or | between them
	DiffStat                       // one line a turn, or for several that are the same
)

// SideBySideWidth is the width from which on two columns are easy to read.
const SideBySideWidth = 120

// WriteDiff writes a difference for people: what is compared, where it begins, then turn by turn what differs. It
// returns the error of the writer.
func WriteDiff(w io.Writer, d *diff.Diff, o Options, form DiffForm) error {
	v := &diffView{drawer: newDrawer(w, o), Diff: d, form: form}
	v.header()
	if form == DiffStat {
		v.line()
	}
	for i := range d.Runs {
		if !d.Equal || form == DiffStat { // else the head says all
			v.run(&d.Runs[i])
		}
	}
	if v.cut {
		v.line()
		v.line(dim.of("… cut here: the turn alone shows it whole, and so does --output json"))
	}
	return v.err
}

type diffView struct {
	*drawer
	*diff.Diff
	form   DiffForm
	indent string
	cut    bool // a text is cut that a turn alone shows whole
}

// one reports whether A and B are one turn or request each.
func (v *diffView) one() bool { return v.Kind == diff.OfTurns || v.Kind == diff.OfRequests }

// partNames are those of parts whose identifier is no plain English.
var partNames = map[diff.Part]string{
	diff.System: "system prompt", diff.Tools: "tools offered", diff.Params: "parameters", diff.Calls: "tool calls",
	diff.Results: "tool results", diff.Request: "earlier messages of the request",
}

func (v *diffView) part(p diff.Part) string {
	if p == diff.Request && v.Kind == diff.OfRequests {
		return "messages"
	}
	return cmp.Or(partNames[p], Clean(string(p)))
}

func (v *diffView) parts(parts []diff.Part) string {
	var out []string
	for _, p := range parts {
		out = append(out, v.part(p))
	}
	return strings.Join(slices.Compact(out), ", ")
}

// where names a place on both sides, once where both have one name. Addresses are without their session.
func (v *diffView) where(a, b string) string {
	a = Clean(strings.TrimPrefix(strings.TrimPrefix(a, v.A.Session), "/"))
	b = Clean(strings.TrimPrefix(strings.TrimPrefix(b, v.B.Session), "/"))
	switch {
	case a == b || b == "":
		return a
	case a == "":
		return b
	}
	return a + " | " + b
}

func (v *diffView) header() {
	for i, d := range []*diff.Side{&v.A, &v.B} {
		parts := []string{Clean(d.Address), prefixed("in ", Clean(d.Source))}
		if v.Kind == diff.OfRequests {
			v.field(string("ab"[i]), append(parts, plural(int(d.Messages), "message"), exact(d.Bytes)+" bytes")...)
			continue
		}
		parts = append(parts, Clean(d.Agent), Clean(d.Model), words(d.Status))
		if v.Kind == diff.OfSessions {
			parts = append(parts, plural(d.Runs, "run"))
		}
		if !v.one() {
			parts = append(parts, plural(d.Turns, "turn"))
		}
		parts = append(parts, some(d.Calls, "tool call"), took(d.Start, d.Start.Add(time.Duration(d.TookNS))))
		for _, c := range slices.Sorted(maps.Keys(d.Cost)) {
			parts = append(parts, money(c, d.Cost[c]))
		}
		v.field(string("ab"[i]), parts...)
	}
	if a, b, c := v.A.Usage, v.B.Usage, v.Counts; !v.one() {
		v.field("tokens", delta("in", "", a.Input, b.Input), delta("out", "", a.Output, b.Output),
			delta("reasoning", "", a.Reasoning, b.Reasoning), delta("cache read", "", a.CacheRead, b.CacheRead),
			delta("cache write", "", a.CacheWrite, b.CacheWrite))
		v.field("turns", suffixed(some(c.Same, "turn"), " the same"),
			count(int64(c.Changed), "changed")+among(count(int64(c.Repeats), "only as the one before")),
			count(int64(c.OnlyA), "only in a"), count(int64(c.OnlyB), "only in b"), count(int64(c.Unknown), "not all compared"))
	}
	v.first()
	v.field("ignored", v.parts(v.Ignored))
	for _, k := range v.Compactions {
		v.field("between", "compaction", Clean(string(k.Kind)), fromTo(k.MessagesBefore, k.MessagesAfter, "message"),
			fromTo(k.InputTokens, k.OutputTokens, "token"))
	}
	for i, u := range v.NotCompared {
		turns := some(u.Turns, "turn")
		if v.one() {
			turns = ""
		}
		v.field([]string{"unknown", ""}[min(i, 1)], v.unknown(u), turns)
	}
}

// first says where the two part.
func (v *diffView) first() {
	f := v.First
	switch {
	case v.Equal:
		v.field("same", "nothing differs")
	case f == nil:
		v.field("differ", "nothing is known to differ, but not all could be compared")
	case v.one():
		v.field("differ", v.parts(f.Parts))
	default:
		what, before := v.parts(f.Parts), cmp.Or(prefixed("same up to ", v.where(f.SameA, f.SameB)), "from the beginning")
		if f.A == "" || f.B == "" {
			what = "only in " + map[bool]string{true: "b", false: "a"}[f.A == ""]
		}
		v.field("first", before, v.where(f.A, f.B)+": "+what)
	}
}

var whyText = map[diff.Why]string{
	diff.NotCaptured: "not captured", diff.DigestsOnly: "only digests are there, which times and ids within change too",
	diff.Missing: "did not arrive", diff.Withheld: "cut or withheld at the source",
	diff.NotReported: "not reported by its loop", diff.OtherUnit: "in two currencies",
}

func (v *diffView) unknown(u diff.Unknown) string {
	text := v.part(u.Part) + " not compared: " + cmp.Or(whyText[u.Why], Clean(string(u.Why)))
	if u.Why == diff.DigestsOnly || u.Why == diff.OtherUnit {
		return text
	}
	return text + " in " + u.Side
}

// delta says how a number differs; empty where it does not.
func delta[N int64 | float64](name, unit string, a, b N) string {
	was, is, more := exact(int64(a)), exact(int64(b)), exact(int64(b-a))
	if unit != "" {
		was, is = money(unit, float64(a)), money(unit, float64(b))
		more = strconv.FormatFloat(math.Round(float64(b-a)*1e6)/1e6, 'f', -1, 64)
	}
	switch {
	case a == b:
		return ""
	case b > a:
		more = "+" + more
	}
	return fmt.Sprintf("%s %s → %s (%s)", name, was, is, more)
}

// state is how the state of a pair is shown.
type state struct {
	sign  string
	style style
	only  string
}

var states = map[diff.State]state{
	diff.Same: {"=", dim, ""}, diff.Changed: {"≠", yellow, ""}, diff.OnlyA: {"-", red, "only in a"},
	diff.OnlyB: {"+", green, "only in b"}, diff.NotAll: {"?", yellow, ""},
}
