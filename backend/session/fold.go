package session

import (
	"cmp"
	"slices"

	"github.com/otelagent/otelagent/spans"
)

// fold moves what payload rows carry onto the rows of the tool calls, compactions, permission evaluations and groups that they
// serve, where those are there. A payload of a run or turn, or of a span that was lost, stays a row of its own. Both name the same
// address; only the parent says which of the things there it is.
func (a *assembler) fold(seen map[spanKey]int32) {
	var payloads []*Row
	for i := range a.entries {
		if a.entries[i].row.Kind == KindPayload {
			payloads = append(payloads, a.entries[i].row)
		}
	}
	if len(payloads) == 0 {
		return
	}
	slices.SortFunc(payloads, func(x, y *Row) int { return compareEntries(entry{row: x}, entry{row: y}) })
	folded := map[*Row]bool{}
	own := map[int32]bool{} // rows of which a copy was made
	for _, p := range payloads {
		at, ok := seen[spanKey{p.Trace, p.Parent}]
		if !ok {
			continue
		}
		r := a.entries[at].row
		switch {
		case r.Run != p.Run || r.RunStart != p.RunStart:
			continue
		case r.Kind == KindToolCall, r.Kind == KindCompaction, r.Kind == KindPermission,
			r.Kind == KindRun && r.Attr(spans.RunKindKeyKey).Text() == string(spans.RunKindParallel):
		default:
			continue
		}
		if !own[at] {
			own[at] = true
			whole := *r
			whole.Lists, whole.Events = slices.Clone(r.Lists), slices.Clone(r.Events)
			r = &whole
			a.entries[at].row = r
		}
		r.Lists = append(r.Lists, p.Lists...)
		r.Events = append(r.Events, p.Events...)
		folded[p] = true
	}
	for at := range own {
		slices.SortStableFunc(a.entries[at].row.Events, func(x, y Event) int {
			return cmp.Or(cmp.Compare(x.Time, y.Time), cmp.Compare(x.Seq, y.Seq))
		})
	}
	if len(folded) > 0 {
		a.entries = slices.DeleteFunc(a.entries, func(e entry) bool { return folded[e.row] })
	}
}
