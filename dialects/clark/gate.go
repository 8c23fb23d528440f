package clark

import (
	"bytes"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// maxCatalogue bounds the names of tools that are remembered of a run, and the gates of an attempt.
const maxCatalogue = 1024

// Outcomes of evaluations that package spans does not have.
const (
	outcomeResolved = "conflict_resolved" // disjoint allow lists were repaired
	outcomeOffered  = "offered"           // the tools of a request are those that the gates allow
	outcomeDiffers  = "offered_differs"   // they are not
)

// gate is the allow list of one gate for one attempt.
type gate struct {
	plugin string
	allow  map[string]bool
}

// refusing returns the names of those gates that do not allow a tool.
func refusing(gates []gate, tool string) (by []string) {
	for _, g := range gates {
		if !g.allow[tool] {
			by = append(by, g.plugin)
		}
	}
	return by
}

// learn adds names to the tools that the run is known to have.
func (r *run) learn(names []string) {
	for _, name := range names {
		if len(r.catalogue) < maxCatalogue && !slices.Contains(r.catalogue, name) {
			r.catalogue = append(r.catalogue, name)
		}
	}
}

func (d *Decoder) permission(m otelagent.Meta, p otelagent.PermissionEvaluation) {
	d.Emit(&otelagent.PermissionEvaluated{Meta: m, PermissionEvaluation: p})
}

// derived is an evaluation that follows from what gates said.
func derived(allow bool) otelagent.PermissionEvaluation {
	p := otelagent.PermissionEvaluation{Action: spans.ActionDeny, Source: sourceGate, Derived: true}
	if allow {
		p.Action = spans.ActionAllow
	}
	return p
}

// gate reads one gate's allow list, or how disjoint lists were repaired. A gate that did not constrain decided nothing.
func (d *Decoder) gate(r *run, m otelagent.Meta, l *line) {
	d.within(r, m, l)
	g, resolved := gate{l.String("plugin"), map[string]bool{}}, l.variant == "tool_gate_conflict_resolved"
	var names []string
	for _, raw := range l.List("allow") {
		if name, ok := rawjson.String(raw); ok {
			names = append(names, name)
			g.allow[name] = true
		}
	}
	r.learn(names)
	p := derived(resolved || len(names) > 0)
	p.Pattern = string(l.Raw("allow"))
	switch {
	case resolved:
		g.plugin = l.String("chosen_plugin")
		p.Reason, p.Outcome = l.String("reason"), outcomeResolved
		p.Options, p.Option = l.Raw("plugins"), g.plugin
		r.gates = nil
	case !l.Has("allow"):
		d.other(m, l)
		return
	}
	p.DecidedBy = g.plugin
	if len(r.gates) < maxCatalogue {
		r.gates = append(r.gates, g)
	}
	d.permission(m, p)
}

// offered compares what the gates allow with the tools that a request has, and hands out which tools it hides that the
// request before did not.
func (d *Decoder) offered(r *run, m otelagent.Meta, l *line) {
	offered, pattern := []string{}, []byte{'['}
	for _, tool := range l.List("tools") {
		name, ok := rawjson.String(tool) // of a record
		if !ok {
			name, ok = rawjson.String(object.Of("", tool).Raw("name"))
		}
		if ok {
			offered, pattern = append(offered, name), append(rawjson.Quote(pattern, name), ',')
		}
	}
	r.learn(offered)
	gates, before := r.gates, r.hidden
	if r.gates, r.hidden = nil, nil; len(gates) == 0 {
		return
	}
	var missing, extra []string
	denied := map[string]string{} // names of the gates by hidden tool
	for _, name := range r.catalogue {
		by, in := refusing(gates, name), slices.Contains(offered, name)
		switch {
		case in && len(by) > 0:
			extra = append(extra, name)
		case !in && len(by) == 0:
			missing = append(missing, name)
		}
		if !in {
			r.hidden, denied[name] = append(r.hidden, name), strings.Join(by, ", ")
		}
	}
	p := derived(len(offered) > 0)
	p.Pattern, p.Outcome = string(append(bytes.TrimSuffix(pattern, []byte{','}), ']')), outcomeOffered
	var why []string
	if len(missing) > 0 {
		why = append(why, "allowed and not offered: "+strings.Join(missing, ", "))
	}
	if len(extra) > 0 {
		why = append(why, "offered and not allowed: "+strings.Join(extra, ", "))
	}
	if len(why) > 0 {
		p.Outcome, p.Reason = outcomeDiffers, strings.Join(why, "; ")
	}
	d.permission(m, p)
	for _, name := range r.hidden {
		if !slices.Contains(before, name) && !slices.Contains(missing, name) {
			p := derived(false)
			p.Tool, p.DecidedBy = name, denied[name]
			d.permission(m, p)
		}
	}
}

// transform reads a context transform. Those that changed nothing give no event: they run at every attempt.
func (d *Decoder) transform(r *run, m otelagent.Meta, l *line) {
	d.within(r, m, l)
	e := &otelagent.CompactionEnded{Meta: m}
	e.Compaction.InputTokens = -1
	e.CompactionResult = otelagent.CompactionResult{InputTokens: -1, OutputTokens: -1, MessagesSummarized: -1,
		TokensGone: -1, Runs: -1}
	e.Kind = spans.CompactionKindPrune
	before, after := intOf(l.Raw("before_count"), -1), intOf(l.Raw("after_count"), -1)
	if l.record {
		if before == after { // whether something changed is not known
			d.other(m, l)
			return
		}
	} else {
		old, now := l.List("before"), l.List("after")
		if slices.EqualFunc(old, now, bytes.Equal) {
			return
		}
		e.Before, e.After = append([]otelagent.Message{}, eventsOf(old)...), append([]otelagent.Message{}, eventsOf(now)...)
		before, after = int64(len(old)), int64(len(now))
		fresh := slices.DeleteFunc(slices.Clone(now), func(msg []byte) bool {
			return slices.ContainsFunc(old, func(o []byte) bool { return bytes.Equal(o, msg) })
		})
		if len(fresh) > 0 || after >= before {
			e.Kind = spans.CompactionKindSummary
		}
		if len(fresh) == 1 {
			e.Summary = fresh[0]
		}
	}
	e.Compaction.MessagesBefore, e.CompactionResult.MessagesBefore, e.MessagesAfter = before, before, after
	e.Trigger, e.Target = l.String("plugin"), "request"
	if e.Trigger == "context_overflow_recovery" {
		e.Target = "transcript"
	}
	d.Emit(e)
}

// freshOf returns the messages of after that are not in before.
func freshOf(before, after [][]byte) (fresh [][]byte) {
	known := make(map[string]bool, len(before))
	for _, raw := range before {
		known[string(raw)] = true
	}
	for _, raw := range after {
		if !known[string(raw)] {
			fresh = append(fresh, raw)
		}
	}
	return fresh
}
