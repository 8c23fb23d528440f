package session

import (
	"cmp"
	"slices"

	"github.com/otelagent/otelagent/spans"
)

// turn compares two turns of two runs, either of which may be nil.
func (d *differ) turn(runA, runB *Run, a, b *Turn) TurnDiff {
	out := TurnDiff{A: d.a.turn(runA, a), B: d.b.turn(runB, b)}
	t := turnDiffer{differ: d, a: a, b: b, runA: runA, runB: runB, out: &out}
	t.said()
	t.asked()
	t.calls()
	switch {
	case a == nil:
		out.State = DiffOnlyB
	case b == nil:
		out.State = DiffOnlyA
	default:
		t.request()
		t.compaction()
		t.outcome()
		t.usage()
		slices.SortFunc(out.Parts, func(x, y DiffPart) int { return slices.Index(DiffParts, x) - slices.Index(DiffParts, y) })
		out.State = stateOf(out.Parts, out.NotCompared)
		return out
	}
	out.Parts, out.NotCompared = nil, nil
	return out
}

func (s *diffed) turn(r *Run, t *Turn) *DiffTurn {
	if t == nil {
		return nil
	}
	return &DiffTurn{
		Address: s.turnAddress(r, t), Run: s.numbers[r], Index: t.Index, Start: t.Start, TookNS: between(t.Start, t.End), Model: cmp.Or(t.Answered, t.Model),
		StopReason: t.StopReason, Failed: t.Failed, Usage: t.Usage, Cost: t.Cost, Currency: t.Currency, Messages: t.RequestMessages, Calls: len(t.ToolCalls),
		PromptDigest: t.PromptDigest, ToolsDigest: t.ToolsDigest, Capture: t.Capture, Hidden: !s.history.Hidden(t).IsZero(),
	}
}

// turnDiffer compares one pair of turns. a or b may be nil.
type turnDiffer struct {
	*differ
	a, b       *Turn
	runA, runB *Run
	out        *TurnDiff
}

func (t *turnDiffer) differs(part DiffPart) {
	if !slices.Contains(t.out.Parts, part) {
		t.out.Parts = append(t.out.Parts, part)
	}
}

func (t *turnDiffer) unknown(l ...DiffUnknown) {
	for _, u := range l {
		if !t.ignored[u.Part] && !slices.Contains(t.out.NotCompared, u) {
			t.out.NotCompared = append(t.out.NotCompared, u)
		}
	}
}

// lost says of which turns only the children arrived.
func (t *turnDiffer) lost() (DiffUnknown, bool) {
	a, b := t.a != nil && t.a.Missing, t.b != nil && t.b.Missing
	return DiffUnknown{Why: DiffMissing, Side: sides(a, b)}, a || b
}

func sides(a, b bool) string {
	switch {
	case a && b:
		return "both"
	case a:
		return "a"
	}
	return "b"
}

// once notes that a part differs, and tells how unless the turn before differed in the same way.
func (t *turnDiffer) once(part DiffPart, how string, tell func()) {
	t.differs(part)
	if t.repeats[part] == how {
		t.out.Repeats = append(t.out.Repeats, part)
		return
	}
	t.repeats[part] = how
	tell()
}

// untold says why a part of the request is not known of one side: only the kind of capture tells a loop that says nothing from one of which
// nothing was kept.
func (t *turnDiffer) untold(part DiffPart, a, b bool) {
	why := func(told bool, c spans.Capture) DiffWhy {
		switch {
		case told:
			return ""
		case c == spans.CaptureNone || c == "":
			return DiffNotCaptured
		}
		return DiffNotTold
	}
	u := unknownSides{why(a, t.a.Capture), why(b, t.b.Capture)}
	if u == (unknownSides{DiffNotTold, DiffNotTold}) {
		return
	}
	t.unknown(u.of(part)...)
}

// bodyLost says why a body is not there.
func bodyLost(blocks *BlockSet, ref Ref, capture spans.Capture) DiffWhy {
	if capture == spans.CaptureDigests {
		return DiffDigestsOnly
	}
	if _, _, cut := blocks.Cut(ref); cut {
		return DiffWithheld
	}
	return DiffMissing
}

// unknownSides says why lists could not be compared, side by side.
type unknownSides struct{ a, b DiffWhy }

// of tells them of a part: once where the reason is the same.
func (u *unknownSides) of(part DiffPart) (l []DiffUnknown) {
	if u.a != "" {
		l = append(l, DiffUnknown{Part: part, Why: u.a, Side: sides(true, u.a == u.b)})
	}
	if u.b != "" && u.a != u.b {
		l = append(l, DiffUnknown{Part: part, Why: u.b, Side: sides(false, true)})
	}
	return l
}

// digestDiff is the difference of two texts of which one is not here; an empty block is none.
func digestDiff(a, b string) TextDiff {
	d := TextDiff{Change: changeChanged, Digests: true, BlockA: a, BlockB: b}
	switch {
	case a == "":
		d.Change = changeAdded
	case b == "":
		d.Change = changeRemoved
	}
	return d
}

// outcome compares how the turns ended.
func (t *turnDiffer) outcome() {
	if _, lost := t.lost(); lost || t.ignored[DiffOutcome] {
		return
	}
	a, b := t.a, t.b
	c := changes{}
	c.text("trigger", string(a.Trigger), string(b.Trigger))
	c.text("state", endState(a.Span), endState(b.Span))
	c.text("stop_reason", a.StopReason, b.StopReason)
	c.flag("failed", a.Failed, b.Failed)
	c.text("error_type", string(a.ErrorType), string(b.ErrorType))
	if a.Capture == spans.CaptureContent && b.Capture == spans.CaptureContent {
		c.text("error", a.Error, b.Error)
	}
	c.number("attempts", max(1, a.Attempts), max(1, b.Attempts))
	c.number("discarded_attempts", a.DiscardedAttempts, b.DiscardedAttempts)
	if t.out.Outcome = c.list; len(c.list) > 0 {
		t.differs(DiffOutcome)
	}
}

// endState is how the end of a thing is known, in one word.
func endState(s Span) string {
	switch {
	case s.Missing:
		return "missing"
	case s.Known == spans.KnownClosed:
		return "closed"
	case s.Known == spans.KnownLive || s.End.IsZero():
		return "open"
	}
	return "ended"
}

// usage compares tokens and cost.
func (t *turnDiffer) usage() {
	if _, lost := t.lost(); lost {
		return
	}
	a, b := t.a, t.b
	if knownA, knownB := a.usageTold(), b.usageTold(); !t.ignored[DiffUsage] && (knownA || knownB) {
		if knownA && knownB {
			t.out.Usage = usageChanges(a.Usage, b.Usage)
		} else {
			t.unknown(DiffUnknown{Part: DiffUsage, Why: DiffNotTold, Side: sides(!knownA, !knownB)})
		}
		if len(t.out.Usage) > 0 {
			t.differs(DiffUsage)
		}
	}
	if t.ignored[DiffCost] || a.Cost == nil && b.Cost == nil {
		return
	}
	switch {
	case a.Cost == nil || b.Cost == nil:
		t.unknown(DiffUnknown{Part: DiffCost, Why: DiffNotTold, Side: sides(a.Cost == nil, b.Cost == nil)})
	case a.Currency != b.Currency:
		t.unknown(DiffUnknown{Part: DiffCost, Why: DiffOtherUnit, Side: "both"})
	case *a.Cost != *b.Cost:
		t.out.Cost = []NumberChange{{Name: "cost", Before: *a.Cost, After: *b.Cost, By: *b.Cost - *a.Cost, Unit: a.Currency}}
		t.differs(DiffCost)
	}
}

// usageTold says whether the turn reports its tokens.
func (t *Turn) usageTold() bool { return t.Reported != nil || t.Usage != (Usage{}) }

func usageChanges(a, b Usage) (l []NumberChange) {
	for _, n := range []struct {
		name string
		a, b int64
	}{
		{"input", a.Input, b.Input}, {"output", a.Output, b.Output}, {"reasoning", a.Reasoning, b.Reasoning},
		{"cache_read", a.CacheRead, b.CacheRead}, {"cache_write", a.CacheWrite, b.CacheWrite},
	} {
		if n.a != n.b {
			l = append(l, NumberChange{Name: n.name, Before: float64(n.a), After: float64(n.b), By: float64(n.b) - float64(n.a)})
		}
	}
	return l
}
