package inspect

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/stats"
)

// computed returns the cost of a turn by the price catalogue.
func (r *renderer) computed(run *session.Run, t *session.Turn) (float64, bool) {
	if r.o.Prices == nil || !t.UsageReported() {
		return 0, false
	}
	u := &t.Usage
	return r.o.Prices.Cost(&session.TurnFigures{
		Provider: cmp.Or(t.Provider, run.Provider), Model: cmp.Or(t.Model, run.Model, t.Answered), ResponseModel: t.Answered,
		Input: session.Some(u.Input), Output: session.Some(u.Output), Reasoning: session.Some(u.Reasoning),
		CacheRead: session.Some(u.CacheRead), CacheWrite: session.Some(u.CacheWrite),
	})
}

// costOf returns the costs of a turn: as its loop reported it, and as computed.
func (r *renderer) costOf(run *session.Run, t *session.Turn) (out []string) {
	if t.Cost != nil {
		out = append(out, money(t.Currency, *t.Cost)+" reported")
	}
	if amount, ok := r.computed(run, t); ok {
		out = append(out, money(stats.Currency, amount)+" computed")
	} else if r.o.Prices != nil {
		out = append(out, noPrice)
	}
	return out
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
	for _, run := range r.main.Runs {
		if run.Copied {
			continue
		}
		for n := range run.Walk() {
			if c := n.Compaction; c != nil && c.Cost != nil {
				add(kind{"reported", c.Currency, "compaction"}, *c.Cost)
			}
		}
		for _, t := range run.Turns {
			if t.Cost != nil && !math.IsNaN(*t.Cost) && !math.IsInf(*t.Cost, 0) {
				add(kind{"reported", t.Currency, "turn"}, *t.Cost)
			}
			if amount, ok := r.computed(run, t); ok {
				add(kind{"computed", stats.Currency, "turn"}, amount)
			} else if r.o.Prices != nil && t.UsageReported() {
				without++
				model := cmp.Or(t.Answered, t.Model, run.Model, "no model")
				if !slices.Contains(missing, model) && len(missing) < 3 {
					missing = append(missing, model)
				}
			}
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
