package diff

import (
	"cmp"
	"slices"
)

func byPart(x, y Part) int { return cmp.Compare(slices.Index(Parts, x), slices.Index(Parts, y)) }

// finish sorts what was found of a pair, and fills in its parts and state.
func (p *Pair) finish() {
	slices.SortStableFunc(p.Changes, func(x, y Change) int { return byPart(x.Part, y.Part) })
	slices.SortStableFunc(p.NotCompared, func(x, y Unknown) int { return byPart(x.Part, y.Part) })
	if p.State = Same; p.A == nil || p.B == nil {
		p.NotCompared, p.State = nil, map[bool]State{true: OnlyB, false: OnlyA}[p.A == nil]
		return
	}
	p.Parts = slices.Clone(p.Repeats)
	for _, c := range p.Changes {
		p.Parts = append(p.Parts, c.Part)
	}
	for _, c := range p.Calls {
		if p.Parts = append(p.Parts, c.Parts...); c.A == nil || c.B == nil {
			p.Parts = append(p.Parts, Calls)
		}
	}
	slices.SortFunc(p.Parts, byPart)
	p.Parts = slices.Compact(p.Parts)
	has := func(states ...State) bool {
		return slices.ContainsFunc(p.Turns, func(t Pair) bool { return slices.Contains(states, t.State) })
	}
	switch {
	case len(p.Parts) > 0 || has(Changed, OnlyA, OnlyB):
		p.State = Changed
	case len(p.NotCompared) > 0 || has(NotAll):
		p.State = NotAll
	}
}

// Addresses returns the addresses of both sides; empty on a side that has none.
func (p *Pair) Addresses() (a, b string) {
	if p.A != nil {
		a = p.A.Address
	}
	if p.B != nil {
		b = p.B.Address
	}
	return a, b
}

// sumUp fills in what Diff says of the whole.
func (out *Diff) sumUp() {
	unknown := map[Unknown]int{}
	sameA, sameB, unbroken := "", "", true
	found := func(p *Pair, parts []Part) {
		if out.First == nil {
			a, b := p.Addresses()
			out.First = &First{SameA: sameA, SameB: sameB, A: a, B: b, Parts: parts}
		}
	}
	counts := map[State]*int{Same: &out.Counts.Same, Changed: &out.Counts.Changed, OnlyA: &out.Counts.OnlyA,
		OnlyB: &out.Counts.OnlyB, NotAll: &out.Counts.Unknown}
	for i := range out.Runs {
		r := &out.Runs[i]
		for _, u := range r.NotCompared {
			unknown[u] += 0
		}
		before := slices.DeleteFunc(slices.Clone(r.Parts), func(p Part) bool { return p == Outcome })
		if len(before) > 0 || (r.A == nil || r.B == nil) && len(r.Turns) == 0 {
			found(r, before)
		}
		for j := range r.Turns {
			t := &r.Turns[j]
			for _, u := range t.NotCompared {
				unknown[u]++
			}
			if *counts[t.State]++; t.State == Changed && len(t.Repeats) == len(t.Parts) {
				out.Counts.Repeats++
			}
			switch {
			case t.State == NotAll:
				unbroken = false
			case t.State != Same:
				found(t, t.Parts)
			case unbroken && out.First == nil:
				sameA, sameB = t.Addresses()
			}
		}
		if len(before) < len(r.Parts) { // how a run ended differs after its turns
			found(r, []Part{Outcome})
		}
	}
	for u, n := range unknown {
		u.Turns = n
		out.NotCompared = append(out.NotCompared, u)
	}
	slices.SortFunc(out.NotCompared, func(x, y Unknown) int {
		return cmp.Or(byPart(x.Part, y.Part), cmp.Compare(x.Why, y.Why), cmp.Compare(x.Side, y.Side))
	})
	out.Equal = out.First == nil && len(out.NotCompared) == 0
}
