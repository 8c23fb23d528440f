package inspect

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/stats"
)

// costOf returns the costs of a turn: as its loop reported it, and as computed by the price catalogue.
func (r *renderer) costOf(run *session.Run, t *session.Turn) (out []string) {
	if t.Cost != nil {
		out = append(out, money(t.Currency, *t.Cost)+" reported")
	}
	if r.o.Prices == nil {
		return out
	}
	x := session.FiguresOfTurn("", run, t)
	if amount, ok := r.o.Prices.Cost(&x); ok {
		return append(out, money(stats.Currency, amount)+" computed")
	}
	return append(out, noPrice)
}

// cost returns the cost of a turn: as its loop reported it, else as computed.
func (r *renderer) cost(run *session.Run, t *session.Turn) string {
	if all := r.costOf(run, t); len(all) > 0 && all[0] != noPrice {
		return strings.TrimSuffix(all[0], " reported")
	}
	return ""
}

const noPrice = "no price of this model"

// costs sums up the costs of turns and compactions: as reported, then as computed, by currency.
func (r *renderer) costs() []string {
	type kind struct{ of, currency, what string }
	sums, parts := map[kind]float64{}, map[kind]int{}
	add := func(k kind, amount float64) { sums[k], parts[k] = sums[k]+amount, parts[k]+1 }
	var missing []string
	without := 0
	for n := range r.main.Walk() {
		if c := n.Compaction; c != nil && c.Cost != nil && !n.Run.Copied {
			add(kind{"reported", c.Currency, "compaction"}, *c.Cost)
		}
	}
	for _, t := range session.FiguresOf(r.main.Session).Turns {
		if t.Cost.OK {
			add(kind{"reported", t.Currency, "turn"}, t.Cost.V)
		}
		if r.o.Prices == nil || !t.Input.OK {
			continue
		}
		if amount, ok := r.o.Prices.Cost(&t); ok {
			add(kind{"computed", stats.Currency, "turn"}, amount)
			continue
		}
		without++
		if model := cmp.Or(t.ResponseModel, t.Model, "no model"); !slices.Contains(missing, model) && len(missing) < 3 {
			missing = append(missing, model)
		}
	}
	var out []string
	for _, k := range slices.SortedFunc(maps.Keys(sums), func(a, b kind) int {
		return cmp.Or(cmp.Compare(b.of, a.of), cmp.Compare(a.currency, b.currency), cmp.Compare(b.what, a.what))
	}) {
		out = append(out, money(k.currency, sums[k])+" "+k.of+" for "+plural(parts[k], k.what))
	}
	if without > 0 {
		out = append(out, "no price for "+plural(without, "turn")+" of "+Clean(strings.Join(missing, ", ")))
	}
	return out
}
