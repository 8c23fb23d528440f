package session

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/spans"
)

// Several recordings may describe one run: two tracers, or the events of a loop and the session that it saved. The row
// that knows the end best decides; see comparePreferred. Lists and names of relatives that it lacks come from the other
// rows: a saved session has no requests, and events do not always name the call that started a run.

// comparePreferred orders rows of one address, the row first that decides: the one that Supersedes prefers, but of two
// that know their ends equally well the one from events.
func comparePreferred(x, y *Row) int {
	saved := cmp.Compare(boolByte(isSaved(x)), boolByte(isSaved(y)))
	switch {
	case KnownRank(x.Known) == KnownRank(y.Known) && saved != 0:
		return saved
	case Supersedes(x, y):
		return -1
	case Supersedes(y, x):
		return 1
	}
	return 0
}

// isSaved reports whether the row comes from what a loop or host saved, and not from events.
func isSaved(r *Row) bool { return !r.Attr(spans.RecordingKindKey).IsZero() }

// isOneTurn reports whether rows of one index describe one turn. Those from events and those from a saved session may
// have different starts.
func isOneTurn(own []entry) bool {
	var first [2]*Row // from events, and saved
	for i := range own {
		r := own[i].row
		kind := boolByte(isSaved(r))
		if first[kind] != nil && first[kind].Start != r.Start {
			return false
		}
		first[kind] = r
	}
	return true
}

// mergeAll returns one entry for each address in l, which is sorted.
func (a *assembler) mergeAll(l []entry) []entry {
	out := l[:0]
	for same := range sections(l, func(x, y *entry) bool { return compareSiblings(x, y) == 0 }) {
		out = append(out, a.merge(same))
	}
	return out
}

// merge returns the entry of one address from all of its rows, the preferred one first. Of rows that are equally good
// the one from the trace of the run's row decides: two recordings have two clocks, and parts from both would be in the
// order of neither.
func (a *assembler) merge(same []entry) entry {
	if len(same) == 1 {
		return same[0]
	}
	first, best := same[0].row, 0
	for i := range same {
		r := same[i].row
		if KnownRank(r.Known) != KnownRank(first.Known) || isSaved(r) != isSaved(first) {
			break
		}
		if r.Trace == a.trace {
			best = i
			break
		}
	}
	e := same[best]
	for i := range same {
		if i != best {
			e.others = append(append(e.others, same[i].row), same[i].payloads...)
		}
	}
	a.twice += len(same) - 1
	return e
}

// twice adds a defect for n rows beyond the first of their addresses.
func (s *Remarks) twice(n int) {
	if n > 0 {
		s.defect(spans.DefectRecordedTwice, strconv.Itoa(n)+" spans tell what others tell too")
	}
}

// mergeGroups removes each group of a saved session that events describe too. A saved session does not say when a group
// began, so the two have different addresses, but the same members and the same selected one.
func (a *assembler) mergeGroups() {
	content := func(g *Group) string { return fmt.Sprintf("%q %q", g.SelectedID, g.Members) }
	fromEvents := map[string]*Group{}
	for _, g := range slices.Backward(a.s.Groups) {
		if g.Recording == "" && !g.Missing {
			fromEvents[content(g)] = g
		}
	}
	moved := map[int64]*Group{} // by the start in the saved session
	a.s.Groups = slices.DeleteFunc(a.s.Groups, func(g *Group) bool {
		twin := fromEvents[content(g)]
		if g.Recording == "" || twin == nil {
			return false
		}
		moved[g.Start.UnixNano()] = twin
		if !slices.ContainsFunc(twin.Defects, func(d Defect) bool { return d.Code == spans.DefectRecordedTwice }) {
			twin.twice(1)
		}
		return true
	})
	for _, r := range a.s.Runs {
		if twin := moved[r.GroupStart.UnixNano()]; twin != nil {
			r.GroupStart = twin.Start
		}
	}
}
