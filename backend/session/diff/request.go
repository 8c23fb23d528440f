package diff

import (
	"fmt"
	"slices"

	"github.com/aymanbagabas/go-udiff/lcs"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// messages compares the messages of two requests one by one: by block, then by their place in the history, which their
// provenance names.
func (d *differ) messages(p *Pair) {
	lost := func(s *side) Why { return whyIf(s.Request.Messages == nil || !s.Request.Messages.Complete, Missing) }
	if lost(d.a)+lost(d.b) != "" {
		d.unknown(p, Request, lost(d.a), lost(d.b))
		return
	}
	lists := [2][]session.Message{d.a.Request.ReadMessages(d.a.Blocks), d.b.Request.ReadMessages(d.b.Blocks)}
	var blocks [2][]string
	for n, l := range lists {
		for _, m := range l {
			blocks[n] = append(blocks[n], m.Block)
		}
	}
	block := func(n, i int) string { return blocks[n][i] }
	place := func(n, i int) string { // others than these name no place
		m, kinds := &lists[n][i], []spans.ProvenanceKind{spans.ProvenanceLoopTurn, spans.ProvenanceIdentityBlock,
			spans.ProvenanceMemoryTier, spans.ProvenanceSystemPrompt}
		if slices.Contains(kinds, m.Source.Kind) {
			return m.Provenance
		}
		return ""
	}
	var pairs []pair
	i, j := 0, 0
	for _, e := range append(edits(blocks[0], blocks[1]), lcs.Diff{Start: len(blocks[0])}) {
		for ; i < e.Start; i, j = i+1, j+1 {
			pairs = append(pairs, pair{i, j})
		}
		i, j = e.End, e.ReplEnd
	}
	inOrder := len(pairs)
	pairs = match(pairs, len(blocks[0]), len(blocks[1]), block, place)
	for _, m := range ordered(pairs, len(blocks[0]), len(blocks[1])) {
		c := Change{Part: Request}
		position := m.b
		if m.a >= 0 {
			c.A, c.Change, position = &lists[0][m.a], removed, m.a
		}
		if m.b >= 0 {
			c.B, c.Change, position = &lists[1][m.b], added, m.b
		}
		switch {
		case m.a < 0 || m.b < 0:
		case c.A.Block != c.B.Block || c.A.Provenance != c.B.Provenance:
			c.Change = changed
		case slices.Contains(pairs[inOrder:], m):
			c.Change = moved
		default:
			continue
		}
		c.Path = fmt.Sprintf("messages[%d]", position)
		p.Changes = append(p.Changes, c)
	}
}

// compactionsBetween finds the compactions that were applied between two turns of one session, where the later request
// lacks messages of the earlier one.
func (d *differ) compactionsBetween(p *Pair) {
	gone := func(c Change) bool { return c.Part == Request && c.Change != added }
	s, from, to := d.a.Session, d.a.Turn.Start, d.b.Turn.End
	first, last := d.a.numbers[d.a.Run]-1, d.b.numbers[d.b.Run]-1
	earlier := first < last || first == last && !d.b.Turn.Start.Before(from)
	if s != d.b.Session || !earlier || !slices.ContainsFunc(p.Changes, gone) {
		return
	}
	for _, r := range s.Runs[first : last+1] {
		for n := range r.Walk() {
			c := n.Compaction
			if c == nil || c.Applied != nil && !*c.Applied {
				continue
			}
			if !c.Start.Before(from) && (to.IsZero() || !c.Start.After(to)) {
				d.out.Compactions = append(d.out.Compactions, c)
			}
		}
	}
	slices.SortStableFunc(d.out.Compactions, func(x, y *session.Compaction) int { return x.Start.Compare(y.Start) })
}
