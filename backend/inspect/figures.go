package inspect

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/stats"
)

// computed returns the cost of a turn by the price catalogue.
func (r *renderer) computed(run *session.Run, t *session.Turn) (float64, bool) {
	if r.o.Prices == nil || !t.UsageTold() {
		return 0, false
	}
	u := &t.Usage
	return r.o.Prices.Cost(&session.TurnFigures{
		Provider: cmp.Or(t.Provider, run.Provider), Model: cmp.Or(t.Model, run.Model, t.Answered), ResponseModel: t.Answered,
		Input: session.Some(u.Input), Output: session.Some(u.Output), Reasoning: session.Some(u.Reasoning),
		CacheRead: session.Some(u.CacheRead), CacheWrite: session.Some(u.CacheWrite),
	})
}

// cost returns the cost of a turn: as its loop reported it, else as computed.
func (r *renderer) cost(run *session.Run, t *session.Turn) string {
	if t.Cost != nil {
		return money(t.Currency, *t.Cost)
	}
	if amount, ok := r.computed(run, t); ok {
		return money(stats.Currency, amount) + " computed"
	}
	return ""
}

// costs sums up the costs of the turns: as reported, by currency, and as computed.
func (r *renderer) costs() []string {
	reported, times := map[string]float64{}, map[string]int{}
	var order, missing []string
	sum, turns, without := 0.0, 0, 0
	for _, run := range r.main.Runs {
		if run.Copied {
			continue
		}
		for _, t := range run.Turns {
			if t.Cost != nil && !math.IsNaN(*t.Cost) && !math.IsInf(*t.Cost, 0) {
				if _, ok := reported[t.Currency]; !ok {
					order = append(order, t.Currency)
				}
				reported[t.Currency] += *t.Cost
				times[t.Currency]++
			}
			if amount, ok := r.computed(run, t); ok {
				sum, turns = sum+amount, turns+1
			} else if r.o.Prices != nil && t.UsageTold() {
				without++
				model := cmp.Or(t.Answered, t.Model, run.Model, "no model")
				if !slices.Contains(missing, model) && len(missing) < 3 {
					missing = append(missing, model)
				}
			}
		}
	}
	var out []string
	for _, c := range order {
		out = append(out, money(c, reported[c])+" reported for "+plural(times[c], "turn"))
	}
	if turns > 0 {
		out = append(out, money(stats.Currency, sum)+" computed for "+plural(turns, "turn"))
	}
	if without > 0 {
		out = append(out, "no price for "+plural(without, "turn")+" of "+Clean(strings.Join(missing, ", ")))
	}
	return out
}

// plainFormat is the default response format, which is not shown.
const plainFormat = "text"

// settings are the parameters of a turn's request that have a name of their own.
func settings(t *TurnView) []string {
	var out []string
	add := func(s string) {
		if s != "" {
			out = append(out, s)
		}
	}
	add(prefixed("variant ", Clean(t.Variant)))
	if t.Temperature != nil {
		add("temperature " + strconv.FormatFloat(*t.Temperature, 'g', -1, 64))
	}
	add(prefixed("reasoning ", Clean(t.Level)))
	if t.MaxTokens != nil {
		add("max output " + Count(*t.MaxTokens))
	}
	if t.of.Format != plainFormat {
		add(prefixed("format ", Clean(t.of.Format)))
	}
	return out
}

// settingsLine draws the settings where they differ from those of the turn before.
func (r *renderer) settingsLine(n *node, t *TurnView) {
	text := strings.Join(settings(t), separator)
	if text == "" && t.Messages == 0 && len(t.Requests) == 0 {
		return // its request is unknown
	}
	if text == r.settings {
		return
	}
	if r.settings = text; text == "" {
		text = "none stated"
	}
	n.wrapped("params", dim, text)
}

// figures draws the numbers of a turn that is shown alone, since a narrow screen has no columns for them.
func (r *renderer) figures(n *node, p place, v *TurnView) {
	t := v.of.Turn
	line := func(label string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		if len(parts) > 0 {
			n.wrapped(label, dim, strings.Join(parts, separator))
		}
	}
	asked, answered := Clean(cmp.Or(t.Model, p.run.Model)), Clean(t.Answered)
	if answered != "" && asked != "" && answered != asked {
		asked, answered = asked+" asked", answered+" answered"
	} else if answered == asked {
		answered = ""
	}
	line("model", append([]string{asked, answered, Clean(cmp.Or(t.Provider, p.run.Provider))}, settings(v)...)...)
	if u := &t.Usage; !t.UsageTold() {
		line("tokens", "not reported")
	} else {
		line("tokens", Count(u.Input)+" in", Count(u.CacheRead)+" cache read", Count(u.CacheWrite)+" cache write",
			Count(u.Output)+" out", Count(u.Reasoning)+" reasoning")
	}
	if t.DiscardedAttempts > 0 {
		words := []string{plural(int(t.DiscardedAttempts), "reply") + " thrown away"}
		if d := t.Discarded; d != nil {
			words = append(words, usageWords(*d)...)
		}
		line("besides", words...)
	}
	reported, computed := "", ""
	if t.Cost != nil {
		reported = money(t.Currency, *t.Cost) + " reported"
	}
	if amount, ok := r.computed(p.run, t); ok {
		computed = money(stats.Currency, amount) + " computed"
	} else if r.o.Prices != nil {
		computed = "no price of this model"
	}
	line("cost", reported, computed)
	model, first, tools := "", "", ""
	if t.ModelCallNS > 0 {
		model = "model " + Duration(time.Duration(t.ModelCallNS))
	}
	if t.FirstChunkNS > 0 {
		first = "first chunk after " + Duration(time.Duration(t.FirstChunkNS))
	}
	if d := inTools(t.ToolCalls); d > 0 {
		tools = "tools " + Duration(d)
	}
	line("time", model, first, tools)
	attempts := ""
	if t.Attempts > 0 {
		attempts = plural(int(t.Attempts), "attempt")
	}
	failure := words(string(t.ErrorType))
	if failure == Clean(t.StopReason) {
		failure = ""
	}
	line("stop", Clean(t.StopReason), attempts, failure)
}
