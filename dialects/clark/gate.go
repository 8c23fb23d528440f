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

// listed is an evaluation of gates that allows a list of tools: it denies when there are none.
func listed(names []string, pattern []byte) otelagent.PermissionEvaluation {
	p := otelagent.PermissionEvaluation{Action: spans.ActionAllow, Source: sourceGate, Derived: true,
		Pattern: string(pattern)}
	if len(names) == 0 {
		p.Action = spans.ActionDeny
	}
	return p
}

// allowed reads the allow list of l as that of the plugin under a key.
func (d *Decoder) allowed(r *run, m otelagent.Meta, l *line, key string) (gate, otelagent.PermissionEvaluation) {
	d.within(r, m, l)
	var names []string
	g := gate{l.String(key), map[string]bool{}}
	for _, raw := range l.List("allow") {
		if name, ok := rawjson.String(raw); ok {
			names = append(names, name)
			g.allow[name] = true
		}
	}
	r.learn(names)
	p := listed(names, l.Raw("allow"))
	p.DecidedBy = g.plugin
	return g, p
}

// gate reads one gate's allow list. One that did not constrain decided nothing.
func (d *Decoder) gate(r *run, m otelagent.Meta, l *line) {
	g, p := d.allowed(r, m, l, "plugin")
	if !l.Has("allow") {
		d.other(m, l)
		return
	}
	if len(r.gates) < maxCatalogue {
		r.gates = append(r.gates, g)
	}
	d.permission(m, p)
}

// conflict reads how disjoint allow lists were repaired.
func (d *Decoder) conflict(r *run, m otelagent.Meta, l *line) {
	g, p := d.allowed(r, m, l, "chosen_plugin")
	p.Action, p.Reason, p.Outcome = spans.ActionAllow, l.String("reason"), outcomeResolved
	p.Options, p.Option = l.Raw("plugins"), g.plugin
	r.gates = []gate{g}
	d.permission(m, p)
}

// offered compares what the gates allow with the tools that a request has, and hands out which tools it hides that the
// request before did not.
func (d *Decoder) offered(r *run, m otelagent.Meta, l *line) {
	offered, pattern := []string{}, []byte{'['}
	for _, tool := range l.List("tools") {
		name, ok := rawjson.String(tool) // of a record
		if o := object.Of("", tool); o.Has("name") {
			name, ok = o.String("name"), true
		}
		if !ok {
			continue
		}
		if len(offered) > 0 {
			pattern = append(pattern, ',')
		}
		offered, pattern = append(offered, name), rawjson.Quote(pattern, name)
	}
	r.learn(offered)
	gates, before := r.gates, r.hidden
	if r.gates, r.hidden = nil, nil; len(gates) == 0 {
		return
	}
	var missing, extra []string
	for _, name := range r.catalogue {
		in, allowed := slices.Contains(offered, name), len(refusing(gates, name)) == 0
		switch {
		case in && !allowed:
			extra = append(extra, name)
		case !in && allowed:
			missing = append(missing, name)
		}
		if !in {
			r.hidden = append(r.hidden, name)
		}
	}
	p := listed(offered, append(pattern, ']'))
	p.Outcome = outcomeOffered
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
		if by := refusing(gates, name); len(by) > 0 && !slices.Contains(before, name) {
			p := listed(nil, nil)
			p.Tool, p.DecidedBy = name, strings.Join(by, ", ")
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
