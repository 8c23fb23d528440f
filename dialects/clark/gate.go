package clark

import (
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

const (
	// maxCatalogue bounds the names of tools that are remembered of a run, and the gates of an attempt.
	maxCatalogue = 1024
	// outcomeResolved is the outcome of an evaluation by which disjoint allow lists were repaired, outcomeOffered that of
	// one that says what was offered in the end, outcomeDiffers of one where that is not the intersection of the gates'
	// lists.
	outcomeResolved = "conflict_resolved"
	outcomeOffered  = "offered"
	outcomeDiffers  = "offered_differs"
)

// gate is the allow list of one gate for one attempt.
type gate struct {
	plugin string
	allow  map[string]bool
}

func gateOf(plugin string, names []string) gate {
	g := gate{plugin, make(map[string]bool, len(names))}
	for _, name := range names {
		g.allow[name] = true
	}
	return g
}

// derived is an evaluation that follows from what gates said.
func derived(action spans.Action) otelagent.PermissionEvaluation {
	return otelagent.PermissionEvaluation{Action: action, Source: sourceGate, Derived: true}
}

func (d *Decoder) permission(m otelagent.Meta, p otelagent.PermissionEvaluation) {
	d.Emit(&otelagent.PermissionEvaluated{Meta: m, PermissionEvaluation: p})
}

// gate reads one gate's allow list. One that did not constrain decided nothing.
func (d *Decoder) gate(r *run, m otelagent.Meta, l *line) {
	d.within(r, m, intOf(l.Raw("iteration"), -1))
	allow := l.Raw("allow")
	if allow == nil {
		d.other(m, l)
		return
	}
	names := stringsOf(l.List("allow"))
	g := gateOf(l.String("plugin"), names)
	if len(r.gates) < maxCatalogue {
		r.gates = append(r.gates, g)
	}
	r.learn(names)
	p := derived(spans.ActionAllow)
	if len(names) == 0 {
		p.Action = spans.ActionDeny
	}
	p.Pattern, p.DecidedBy = string(allow), g.plugin
	d.permission(m, p)
}

// conflict reads how disjoint allow lists were repaired.
func (d *Decoder) conflict(r *run, m otelagent.Meta, l *line) {
	d.within(r, m, intOf(l.Raw("iteration"), -1))
	names := stringsOf(l.List("allow"))
	r.learn(names)
	p := derived(spans.ActionAllow)
	p.Pattern, p.Reason, p.Outcome = string(l.Raw("allow")), l.String("reason"), outcomeResolved
	p.Options, p.Option = l.Raw("plugins"), l.String("chosen_plugin")
	p.DecidedBy = p.Option
	r.gates = []gate{gateOf(p.Option, names)}
	d.permission(m, p)
}

// learn adds names to the tools that the run is known to have.
func (r *run) learn(names []string) {
	for _, name := range names {
		if len(r.catalogue) < maxCatalogue && !slices.Contains(r.catalogue, name) {
			r.catalogue = append(r.catalogue, name)
		}
	}
}

// offered compares what the gates allow with the tools that a request has, and hands out which tools it hides that the
// request before did not.
func (d *Decoder) offered(r *run, m otelagent.Meta, l *line) {
	offered := []string{}
	for _, tool := range l.List("tools") {
		if s, ok := rawjson.String(tool); ok { // of a record
			offered = append(offered, s)
		} else if o := object.Of("", tool); o.Has("name") {
			offered = append(offered, o.String("name"))
		}
	}
	r.learn(offered)
	gates, before := r.gates, r.hidden
	r.gates, r.hidden = nil, nil
	if len(gates) == 0 {
		return
	}
	outside := func(name string) (by []string) {
		for _, g := range gates {
			if !g.allow[name] {
				by = append(by, g.plugin)
			}
		}
		return by
	}
	var missing, extra []string
	for _, name := range r.catalogue {
		switch in := slices.Contains(offered, name); {
		case in && len(outside(name)) > 0:
			extra = append(extra, name)
		case !in:
			r.hidden = append(r.hidden, name)
			if len(outside(name)) == 0 {
				missing = append(missing, name)
			}
		}
	}
	p := derived(spans.ActionAllow)
	p.Outcome = outcomeOffered
	if len(offered) == 0 {
		p.Action = spans.ActionDeny
	}
	p.Pattern = quoted(offered)
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
		if slices.Contains(before, name) || slices.Contains(missing, name) {
			continue
		}
		p := derived(spans.ActionDeny)
		p.Tool, p.DecidedBy = name, strings.Join(outside(name), ", ")
		d.permission(m, p)
	}
}

// quoted returns names as a JSON array.
func quoted(names []string) string {
	list := []byte{'['}
	for i, name := range names {
		if i > 0 {
			list = append(list, ',')
		}
		list = rawjson.Quote(list, name)
	}
	return string(append(list, ']'))
}

// transform reads a context transform. Those that changed nothing give no event: they run at every attempt.
func (d *Decoder) transform(r *run, m otelagent.Meta, l *line) {
	d.within(r, m, intOf(l.Raw("iteration"), -1))
	e := &otelagent.CompactionEnded{Meta: m}
	e.Compaction = otelagent.Compaction{MessagesBefore: -1, InputTokens: -1}
	e.CompactionResult = otelagent.CompactionResult{MessagesBefore: -1, MessagesAfter: -1, InputTokens: -1,
		OutputTokens:       -1,
		MessagesSummarized: -1, TokensGone: -1, Runs: -1}
	e.Kind = spans.CompactionKindPrune
	if l.record {
		before, after := intOf(l.Raw("before_count"), -1), intOf(l.Raw("after_count"), -1)
		if before == after { // whether something changed is not known
			d.other(m, l)
			return
		}
		e.CompactionResult.MessagesBefore, e.MessagesAfter = before, after
	} else {
		before, after := l.List("before"), l.List("after")
		if slices.EqualFunc(before, after, sameMessage) {
			return
		}
		e.Before, e.After = messagesOf(before), messagesOf(after)
		e.CompactionResult.MessagesBefore, e.MessagesAfter = int64(len(before)), int64(len(after))
		fresh := freshOf(before, after)
		if len(fresh) > 0 || len(after) >= len(before) {
			e.Kind = spans.CompactionKindSummary
		}
		if len(fresh) == 1 {
			e.Summary = fresh[0]
		}
	}
	e.Compaction.MessagesBefore = e.CompactionResult.MessagesBefore
	e.Trigger, e.Target = l.String("plugin"), "request"
	if e.Trigger == "context_overflow_recovery" {
		e.Target = "transcript"
	}
	d.Emit(e)
}

// messagesOf is eventsOf for a list that is never nil.
func messagesOf(list [][]byte) []otelagent.Message {
	return append([]otelagent.Message{}, eventsOf(list)...)
}

// freshOf returns the messages of after that are not in before.
func freshOf(before, after [][]byte) (fresh [][]byte) {
	known := make(map[string]bool, len(before))
	for _, raw := range before {
		known[string(canonical(raw))] = true
	}
	for _, raw := range after {
		if !known[string(canonical(raw))] {
			fresh = append(fresh, raw)
		}
	}
	return fresh
}
