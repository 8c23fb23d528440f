package diff

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Bounds of what Compare reports. It reports that a text differs in any case.
const (
	// textBound bounds the lines of one text in bytes, totalBound those of all.
	textBound  = 64 << 10
	totalBound = 16 << 20
)

// differ is one comparison.
type differ struct {
	a, b    *side
	out     *Diff
	room    int // bytes of lines that may still be reported
	ignored map[Part]bool
	// repeats holds how system, tools and params differed last.
	repeats map[Part]string
}

// Compare compares two targets of one kind. It omits the parts to ignore. The result is symmetric: Compare(b, a)
// mirrors Compare(a, b). It is safe for concurrent use while nobody changes the targets. The error is ErrKinds.
func Compare(a, b Target, ignore ...Part) (*Diff, error) {
	if a.Kind() != b.Kind() {
		return nil, ErrKinds
	}
	d := newDiffer(a, b)
	for _, p := range Parts {
		if slices.Contains(ignore, p) {
			d.ignored[p] = true
			d.out.Ignored = append(d.out.Ignored, p)
		}
	}
	d.compare()
	return d.out, nil
}

func newDiffer(a, b Target) *differ {
	return &differ{a: newSide(a), b: newSide(b), room: totalBound, ignored: map[Part]bool{}, repeats: map[Part]string{},
		out: &Diff{Format: Format, Kind: a.Kind(), Runs: []Pair{}}}
}

func (d *differ) compare() {
	d.out.A, d.out.B = d.a.describe(), d.b.describe()
	pairs := []pair{{0, 0}}
	if d.out.Kind == OfSessions {
		pairs = alignRuns(d.a, d.b)
	}
	for _, p := range pairs {
		d.out.Runs = append(d.out.Runs, d.run(at(d.a.runs, p.a), at(d.b.runs, p.b)))
	}
	d.sumUp()
}

// run compares two runs; either may be nil.
func (d *differ) run(a, b *session.Run) Pair {
	p := Pair{A: d.a.runPlace(a), B: d.b.runPlace(b)}
	if d.out.Kind == OfSessions || d.out.Kind == OfRuns {
		d.fields(&p, d.a.runFields(a), d.b.runFields(b))
		d.calls(&p, d.a.callsOfRun(a), d.b.callsOfRun(b))
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
		d.asked(&p, runA, runB, a, b)
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
			text, there, _ := l[0].text()
			if !there {
				text = l[0].name()
			} else if len(a)+len(b) > 2 { // else it says nothing
				text = canonical(text)
			}
			fields[n], inputs[n] = append(fields[n], l), append(inputs[n], text)
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
	add := func(why Why, side string) {
		u := Unknown{Part: part, Why: why, Side: side}
		if why != "" && !d.ignored[part] && !slices.Contains(p.NotCompared, u) {
			p.NotCompared = append(p.NotCompared, u)
		}
	}
	if a == b {
		add(a, "both")
		return
	}
	add(a, "a")
	add(b, "b")
}

// fields compares the fields of a and b by path. Where the pair has one side only, it reports what that side says.
func (d *differ) fields(p *Pair, a, b []field) {
	byPath := make(map[string]*[2]*field, len(a))
	list := make([]*[2]*field, 0, len(a))
	for n, l := range [2][]field{a, b} {
		for i := range l {
			both := byPath[l[i].path]
			if both == nil {
				both = &[2]*field{}
				byPath[l[i].path] = both
				list = append(list, both)
			}
			both[n] = &l[i]
		}
	}
	how := map[Part]string{} // in which way a part differs that may differ so on many turns
	for n, f := range list {
		x, y, one := f[0], f[1], cmp.Or(f[0], f[1])
		switch {
		case d.ignored[one.part], one.optional && (x == nil || y == nil), (p.A == nil || p.B == nil) && !one.shown:
			list[n] = nil
			continue
		case x == nil:
			f[0] = &field{part: y.part, path: y.path, kind: y.kind, of: d.a}
		case y == nil:
			f[1] = &field{part: x.part, path: x.path, kind: x.kind, of: d.b}
		}
		if one.repeats && f[0].why+f[1].why == "" && !f[0].same(f[1]) {
			how[one.part] += one.path + "\x00" + f[0].key() + "\x00" + f[1].key() + "\x00"
		}
	}
	for _, f := range list {
		switch {
		case f == nil:
		case f[0].repeats && f[0].why+f[1].why == "" && how[f[0].part] != "" && how[f[0].part] == d.repeats[f[0].part]:
			p.Repeats = append(p.Repeats, f[0].part)
		default:
			d.field(p, f[0], f[1])
		}
	}
	p.Repeats = slices.Compact(p.Repeats)
	for _, c := range p.Changes {
		d.repeats[c.Part] = cmp.Or(how[c.Part], d.repeats[c.Part])
	}
}

// field compares two fields of one path.
func (d *differ) field(p *Pair, x, y *field) {
	before, isA, whyA := x.json, x.json != "", x.why
	after, isB, whyB := y.json, y.json != "", y.why
	switch {
	case whyA == "" && whyB == "" && x.same(y):
		return
	case whyA == NotReported && whyB == NotReported && (x.digest == "" || y.digest == ""):
		return
	case x.kind == ofMessages && whyA == "" && whyB == "":
		d.saidBy(p, x, y)
		return
	case x.refs != nil || y.refs != nil:
		before, isA, whyA = x.text()
		after, isB, whyB = y.text()
	}
	switch nameA, nameB := x.name(), y.name(); {
	case whyA == "" && whyB == "":
	case whyA != "" && nameA == "" || whyB != "" && nameB == "":
		d.unknown(p, x.part, whyIf(nameA == "", whyA), whyIf(nameB == "", whyB))
		return
	case nameA != nameB && p.A != nil && p.B != nil:
		d.change(p, x, Change{DigestA: nameA, DigestB: nameB})
		if whyA == Missing || whyA == Withheld || whyB == Missing || whyB == Withheld { // it differs, and how was lost
			d.unknown(p, x.part, whyA, whyB)
		}
		return
	default:
		return
	}
	if x.unit != y.unit {
		d.unknown(p, x.part, OtherUnit, OtherUnit)
		return
	}
	a, okA := decode(before, isA)
	b, okB := decode(after, isB)
	if x.kind == ofResult {
		a, b = result(a), result(b)
	}
	if okA && okB {
		d.values(p, x, a, b)
	} else if before != after {
		d.change(p, x, Change{Text: d.text(before, after)})
	}
}

// change adds a change of a field. It completes what the change does not say.
func (d *differ) change(p *Pair, f *field, c Change) {
	c.Part, c.Path, c.Change = cmp.Or(c.Part, f.part), cmp.Or(c.Path, f.path), changed
	same := func(o Change) bool { return o.Path == c.Path }
	if d.ignored[c.Part] || f.kind != ofMessages && slices.ContainsFunc(p.Changes, same) {
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

// text is a text with a name.
type text struct{ name, text string }

// read returns the texts that a message holds, by who says them, and its tool calls and results.
func read(body string) (texts []text, tools []session.Saying) {
	for _, s := range session.Sayings(body) {
		switch {
		case s.Kind == session.SaidCall || s.Kind == session.SaidResult:
			tools = append(tools, s)
		case s.Kind == session.SaidThinking && s.Text == "":
		case s.Kind == session.SaidFile && s.Data != "":
			name := spans.BlockOfString(s.Data).Short().String()
			texts = append(texts, text{"file", fmt.Sprintf("[%d characters of base64, %s]", len(s.Data), name)})
		case s.Kind == session.SaidFile:
			texts = append(texts, text{"file", s.Text})
		case s.Kind == session.SaidOther:
			texts = append(texts, text{cmp.Or(s.Type, s.By), canonical(s.JSON)})
		default:
			texts = append(texts, text{s.Label(), s.Text})
		}
	}
	return texts, tools
}

// saidBy compares two lists of messages by what they say: ids and times in them do not count.
func (d *differ) saidBy(p *Pair, x, y *field) {
	a, b := *x, *y
	for len(a.refs) > 0 && len(b.refs) > 0 && a.refs[0].Block == b.refs[0].Block {
		a.refs, b.refs = a.refs[1:], b.refs[1:]
	}
	for i, j := len(a.refs), len(b.refs); i > 0 && j > 0 && a.refs[i-1].Block == b.refs[j-1].Block; i, j = i-1, j-1 {
		a.refs, b.refs = a.refs[:i-1], b.refs[:j-1]
	}
	was, whyA := a.texts()
	is, whyB := b.texts()
	if whyA != "" || whyB != "" {
		d.unknown(p, x.part, whyA, whyB)
		return
	}
	lists := [2][]text{was, is}
	name := func(n, i int) string { return lists[n][i].name }
	whole := func(n, i int) string { return name(n, i) + "\x00" + lists[n][i].text }
	for _, m := range ordered(match(nil, len(was), len(is), whole, name), len(was), len(is)) {
		before, after := at(was, m.a), at(is, m.b)
		if before.text == after.text && m.a >= 0 && m.b >= 0 {
			continue
		}
		name := cmp.Or(before.name, after.name)
		part := x.part
		if x.path == "output" {
			if part = Reply; name == string(session.SaidThinking) {
				part = Thinking
			}
		}
		if !d.ignored[part] {
			d.change(p, x, Change{Part: part, Path: x.path + "." + name, Text: d.text(before.text, after.text)})
		}
	}
}

// texts returns what the messages of a field say, or why that is not known.
func (f *field) texts() (out []text, why Why) {
	bodies, why := f.read()
	for _, body := range bodies {
		texts, _ := read(body)
		for _, t := range texts {
			if f.noReply && (t.name == session.ByModel || t.name == string(session.SaidThinking)) {
				continue
			}
			if n := len(out); n > 0 && out[n-1].name == t.name && t.name != session.ByUser {
				out[n-1].text += "\n" + t.text // a reply in several blocks
				continue
			}
			out = append(out, t)
		}
	}
	return out, why
}
