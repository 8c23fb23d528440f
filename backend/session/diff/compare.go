package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
)

// Bounds of what Compare reports. It reports that a text differs in any case.
const (
	// textBound bounds the lines of one text in bytes, totalBound those of all.
	textBound  = 64 << 10
	totalBound = 16 << 20
	// maxChanges bounds the changes reported of one value; a value with more is reported as one change.
	maxChanges = 64
	// maxValue is the length in bytes up to which a value is reported as such.
	maxValue = 1 << 10
	// longValue is the length in bytes from which a string is compared as a text.
	longValue = 60
)

// differ is one comparison.
type differ struct {
	a, b    *side
	out     *Diff
	room    int // bytes of lines that may still be reported
	ignored map[Part]bool
	// repeats holds how fields of system, tools and params differed on the turn before, by their paths.
	repeats map[string]string
	differs bool // the current field
}

// Compare compares two targets of one kind. It omits the parts to ignore. The result is symmetric: Compare(b, a)
// mirrors Compare(a, b). It is safe for concurrent use while nobody changes the targets. The error is ErrKinds.
func Compare(a, b Target, ignore ...Part) (*Diff, error) {
	if a.Kind() != b.Kind() {
		return nil, ErrKinds
	}
	d := &differ{a: newSide(a), b: newSide(b), room: totalBound, ignored: map[Part]bool{},
		repeats: map[string]string{}, out: &Diff{Format: Format, Kind: a.Kind(), Runs: []Pair{}}}
	for _, p := range Parts {
		if slices.Contains(ignore, p) {
			d.ignored[p] = true
			d.out.Ignored = append(d.out.Ignored, p)
		}
	}
	d.out.A, d.out.B = d.a.describe(), d.b.describe()
	pairs := []pair{{0, 0}}
	if d.out.Kind == OfSessions {
		pairs = alignRuns(d.a, d.b)
	}
	for _, p := range pairs {
		d.out.Runs = append(d.out.Runs, d.run(at(d.a.runs, p.a), at(d.b.runs, p.b)))
	}
	d.out.sumUp()
	return d.out, nil
}

// run compares two runs; either may be nil.
func (d *differ) run(a, b *session.Run) Pair {
	p := Pair{A: d.a.runPlace(a), B: d.b.runPlace(b)}
	if d.out.Kind == OfSessions || d.out.Kind == OfRuns {
		d.fields(&p, d.a.runFields(a), d.b.runFields(b))
		own := func(r *session.Run) []*call { return callsOf(r.ToolCalls, r.Capture) } // that belong to no turn
		d.calls(&p, own(cmp.Or(a, &session.Run{})), own(cmp.Or(b, &session.Run{})))
	}
	x, y := d.a.turns(a), d.b.turns(b)
	for _, t := range alignTurns(x, y, d.a.Turn != nil) {
		p.Turns = append(p.Turns, d.turn(a, b, at(x, t.a), at(y, t.b)))
	}
	p.finish()
	return p
}

// turn compares two turns; either may be nil. Of a turn that did not arrive only its calls can be compared.
func (d *differ) turn(runA, runB *session.Run, a, b *session.Turn) Pair {
	p := Pair{A: d.a.turnPlace(runA, a), B: d.b.turnPlace(runB, b)}
	lostA, lostB := a != nil && a.Missing, b != nil && b.Missing
	if d.unknown(&p, Reply, whyIf(lostA, Missing), whyIf(lostB, Missing)); !lostA && !lostB {
		d.fields(&p, d.turnFields(d.a, runA, a), d.turnFields(d.b, runB, b))
	}
	if d.out.Kind == OfRequests {
		d.messages(&p)
		d.compactionsBetween(&p)
	} else {
		d.calls(&p, d.a.calls(runA, a), d.b.calls(runB, b))
	}
	p.finish()
	return p
}

func whyIf(is bool, why Why) Why {
	if is {
		return why
	}
	return ""
}

// calls compares tool calls: those of one tool with the same input first, then those of one tool in their order.
func (d *differ) calls(p *Pair, a, b []*call) {
	if d.ignored[Calls] && d.ignored[Results] || len(a)+len(b) == 0 {
		return
	}
	sides := [2][]*call{a, b}
	var fields [2][][]field
	var inputs [2][]string
	for n, s := range []*side{d.a, d.b} {
		for _, c := range sides[n] {
			l := s.callFields(c)
			input, there, _ := l[0].text()
			if !there {
				input = l[0].name()
			} else if len(a)+len(b) > 2 { // else it says nothing
				input = canonical(input)
			}
			fields[n], inputs[n] = append(fields[n], l), append(inputs[n], input)
		}
	}
	name := func(n, i int) string { return sides[n][i].Name + "\x00" }
	input := func(n, i int) string { return name(n, i) + inputs[n][i] }
	outcome := func(n, i int) string { return input(n, i) + "\x00" + string(sides[n][i].Outcome) }
	differs := false
	var list []Pair
	for _, m := range ordered(match(nil, len(a), len(b), outcome, input, name), len(a), len(b)) {
		x, y := at(a, m.a), at(b, m.b)
		if (x == nil || y == nil) && d.ignored[Calls] {
			continue
		}
		c := Pair{A: d.a.callPlace(x), B: d.b.callPlace(y), Name: cmp.Or(x, y).Name}
		d.fields(&c, at(fields[0], m.a), at(fields[1], m.b))
		c.finish()
		for _, u := range c.NotCompared {
			d.unknown(p, u.Part, whyIf(u.Side != "b", u.Why), whyIf(u.Side != "a", u.Why))
		}
		differs = differs || c.State != Same && c.State != NotAll
		list = append(list, c)
	}
	if differs {
		p.Calls = list
	}
}

// unknown notes that a part could not be compared, once where both sides have one reason.
func (d *differ) unknown(p *Pair, part Part, a, b Why) {
	sides := []Unknown{{part, a, "a", 0}, {part, b, "b", 0}}
	if a == b {
		sides = []Unknown{{part, a, "both", 0}}
	}
	for _, u := range sides {
		if u.Why != "" && !d.ignored[part] && !slices.Contains(p.NotCompared, u) {
			p.NotCompared = append(p.NotCompared, u)
		}
	}
}

// fields compares the fields of a and b by path. Where the pair has one side only, it reports what that side says.
func (d *differ) fields(p *Pair, a, b []field) {
	only := make(map[string]*field, len(b))
	for i := range b {
		only[b[i].path] = &b[i]
	}
	for i := range a {
		d.field(p, &a[i], only[a[i].path])
		delete(only, a[i].path)
	}
	for i := range b {
		if f := only[b[i].path]; f != nil {
			d.field(p, nil, f)
		}
	}
	said := func(part Part) bool {
		return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Part == part })
	}
	slices.SortFunc(p.Repeats, byPart)
	p.Repeats = slices.DeleteFunc(slices.Compact(p.Repeats), said)
}

// field compares two fields of one path; either may be nil.
func (d *differ) field(p *Pair, x, y *field) {
	one := cmp.Or(x, y)
	isShown := slices.Contains([]string{"input", "output", "args"}, one.path) // also where only one side has the pair
	switch {
	case d.ignored[one.part], one.optional && (x == nil || y == nil), (p.A == nil || p.B == nil) && !isShown:
		return
	case x == nil:
		x = &field{part: y.part, path: y.path, kind: y.kind, of: d.a}
	case y == nil:
		y = &field{part: x.part, path: x.path, kind: x.kind, of: d.b}
	}
	isThere := x.why+y.why == ""
	if one.part == System || one.part == Tools || one.part == Params {
		how := fmt.Sprint(x.json, x.digest, x.refs, y.json, y.digest, y.refs)
		if isThere && how == d.repeats[one.path] {
			p.Repeats = append(p.Repeats, one.part)
			return
		}
		delete(d.repeats, one.path)
		d.differs = false
		defer func() {
			if isThere && d.differs {
				d.repeats[one.path] = how
			}
		}()
	}
	switch {
	case isThere && x.same(y), x.why == NotReported && y.why == NotReported && (x.digest == "" || y.digest == ""):
		return
	case isThere && x.kind == ofMessages:
		x, y = x.unlike(y)
	}
	before, a, whyA := x.values()
	after, b, whyB := y.values()
	if whyA+whyB == "" && x.unit != y.unit {
		whyA, whyB = OtherUnit, OtherUnit
	}
	switch nameA, nameB := x.name(), y.name(); {
	case whyA+whyB == "":
		d.values(p, x, before, after, a, b)
	case x.kind == ofMessages, whyA != "" && nameA == "" || whyB != "" && nameB == "":
		d.unknown(p, x.part, whyIf(nameA == "" || isThere, whyA), whyIf(nameB == "" || isThere, whyB))
	case nameA != nameB && p.A != nil && p.B != nil:
		d.change(p, x, Change{DigestA: nameA, DigestB: nameB})
		if whyA == Missing || whyA == Withheld || whyB == Missing || whyB == Withheld { // it differs, and how was lost
			d.unknown(p, x.part, whyA, whyB)
		}
	}
}

// values compares what two fields hold: messages by what they say, and values by their paths. a and b are the values.
func (d *differ) values(p *Pair, f *field, before, after []leaf, a, b any) {
	lists := [2][]leaf{before, after}
	path := func(n, i int) string { return lists[n][i].path }
	whole := func(n, i int) string { return path(n, i) + "\x00" + lists[n][i].raw }
	pairs := ordered(match(nil, len(before), len(after), whole, path), len(before), len(after))
	pairs = slices.DeleteFunc(pairs, func(m pair) bool {
		return m.a >= 0 && m.b >= 0 && before[m.a].raw == after[m.b].raw
	})
	if f.kind != ofMessages && (len(pairs) > maxChanges || len(pairs) == 0 && marshal(a) != marshal(b)) {
		d.change(p, f, Change{Path: f.path, Text: d.text(indented(a), indented(b))})
		return
	}
	for _, m := range pairs {
		x, y := at(before, m.a), at(after, m.b)
		c := Change{Path: cmp.Or(x.path, y.path), Part: f.part}
		if f.path == "output" {
			if c.Part = Reply; c.Path == "output."+string(session.PartThinking) {
				c.Part = Thinking
			}
		}
		if d.ignored[c.Part] {
			continue
		}
		isText := (x.isText || m.a < 0) && (y.isText || m.b < 0)
		n := max(len(x.raw), len(y.raw))
		if isText && (n >= longValue || f.kind != ofJSON || strings.Contains(x.text+y.text, "\n")) || n > maxValue ||
			x.isText && x.raw == x.text || y.isText && y.raw == y.text { // which is no JSON
			c.Text = d.text(x.text, y.text)
		} else {
			c.Before, c.After, c.Unit = session.RawJSON(x.raw), session.RawJSON(y.raw), f.unit
		}
		d.change(p, f, c)
	}
}

// change adds a change of a field. It completes what the change does not say.
func (d *differ) change(p *Pair, f *field, c Change) {
	c.Part, c.Path, c.Change = cmp.Or(c.Part, f.part), cmp.Or(c.Path, f.path), changed
	same := func(o Change) bool { return o.Path == c.Path }
	d.differs = true
	if f.kind != ofMessages && slices.ContainsFunc(p.Changes, same) {
		return // a member of the request may say what the turn says
	}
	switch {
	case c.Before == "" && c.DigestA == "" && (c.Text == nil || c.Text.Before == 0):
		c.Change = added
	case c.After == "" && c.DigestB == "" && (c.Text == nil || c.Text.After == 0):
		c.Change = removed
	}
	p.Changes = append(p.Changes, c)
}
