package clark

import (
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

const (
	// maxCatalogue bounds the names of tools that are remembered of a run, and the gates of an attempt.
	maxCatalogue = 1024
	// outcomeResolved is the outcome of an evaluation by which disjoint allow lists were repaired, outcomeOffered that of one that says
	// what was offered in the end, outcomeDiffers of one where that is not what the gates' lists come to.
	outcomeResolved = "conflict_resolved"
	outcomeOffered  = "offered"
	outcomeDiffers  = "offered_differs"
)

// derived is an evaluation that follows from what gates said.
func derived(action spans.Action) otelagent.PermissionEvaluation {
	return otelagent.PermissionEvaluation{Action: action, Source: sourceGate, Derived: true}
}

func (d *Decoder) permission(m otelagent.Meta, p otelagent.PermissionEvaluation) {
	d.emit(&otelagent.PermissionEvaluated{Meta: m, PermissionEvaluation: p})
}

// gate tells of one gate's allow list. One that did not constrain decided nothing.
func (d *Decoder) gate(r *run, m otelagent.Meta, l *line) {
	d.within(r, m, intOf(l.get(kIteration), -1))
	allow := l.get(kAllow)
	if allow == nil {
		d.other(m, l)
		return
	}
	names := stringsOf(allow)
	g := gate{stringOf(l.get(kPlugin)), setOfNames(names)}
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

// conflict tells how disjoint allow lists were repaired.
func (d *Decoder) conflict(r *run, m otelagent.Meta, l *line) {
	d.within(r, m, intOf(l.get(kIteration), -1))
	allow := stringsOf(l.get(kAllow))
	r.learn(allow)
	r.gates = append(r.gates[:0], gate{stringOf(l.get(kChosenPlugin)), setOfNames(allow)})
	p := derived(spans.ActionAllow)
	p.Pattern, p.Reason, p.Outcome = string(l.get(kAllow)), stringOf(l.get(kReason)), outcomeResolved
	p.Options, p.Option = l.get(kPlugins), stringOf(l.get(kChosenPlugin))
	p.DecidedBy = p.Option
	d.permission(m, p)
}

func setOfNames(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// learn adds names to the tools that the run is known to have.
func (r *run) learn(names []string) {
	for _, name := range names {
		if len(r.catalogue) < maxCatalogue && !slices.Contains(r.catalogue, name) {
			r.catalogue = append(r.catalogue, name)
		}
	}
}

// offered compares what the gates allow with the tools that a request advertises, and tells which tools it hides that the request
// before did not.
func (d *Decoder) offered(r *run, m otelagent.Meta, l *line) {
	offered := []string{}
	eachOf(l.get(kTools), func(tool []byte) {
		if s, ok := rawjson.String(tool); ok { // of a record
			offered = append(offered, s)
			return
		}
		membersOf(tool, func(key string, value []byte) {
			if key == "name" {
				offered = append(offered, stringOf(value))
			}
		})
	})
	r.learn(offered)
	gates := r.gates
	r.gates = r.gates[:0]
	before := r.hidden
	r.hidden = nil
	if len(gates) == 0 {
		return
	}
	outside := func(name string) bool {
		return slices.ContainsFunc(gates, func(g gate) bool { return !g.allow[name] })
	}
	p := derived(spans.ActionAllow)
	p.Outcome = outcomeOffered
	if len(offered) == 0 {
		p.Action = spans.ActionDeny
	}
	var missing, extra []string
	for _, name := range r.catalogue {
		switch in := slices.Contains(offered, name); {
		case in && outside(name):
			extra = append(extra, name)
		case !in:
			r.hidden = append(r.hidden, name)
			if !outside(name) {
				missing = append(missing, name)
			}
		}
	}
	list := []byte{'['}
	for i, name := range offered {
		if i > 0 {
			list = append(list, ',')
		}
		list = rawjson.Quote(list, name)
	}
	p.Pattern = string(append(list, ']'))
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
		p.Tool = name
		var by []string
		for _, g := range gates {
			if !g.allow[name] {
				by = append(by, g.plugin)
			}
		}
		p.DecidedBy = strings.Join(by, ", ")
		d.permission(m, p)
	}
}

// transform tells of a context transform that changed the messages. Those that changed nothing are passed over: they run at every attempt.
func (d *Decoder) transform(r *run, m otelagent.Meta, l *line) {
	d.within(r, m, intOf(l.get(kIteration), -1))
	e := &otelagent.CompactionEnded{Meta: m}
	e.Compaction = otelagent.Compaction{MessagesBefore: -1, InputTokens: -1}
	e.CompactionResult = otelagent.CompactionResult{MessagesBefore: -1, MessagesAfter: -1, InputTokens: -1, OutputTokens: -1,
		MessagesSummarized: -1, TokensGone: -1, Runs: -1}
	if l.record {
		before, after := intOf(l.get(kBeforeCount), -1), intOf(l.get(kAfterCount), -1)
		if before == after { // whether something changed is not told
			d.other(m, l)
			return
		}
		e.CompactionResult.MessagesBefore, e.MessagesAfter = before, after
		e.Kind = spans.CompactionKindPrune
	} else {
		b, a := messagesOf(l.get(kBefore)), messagesOf(l.get(kAfter))
		if slices.EqualFunc(b, a, sameMessage) {
			return
		}
		e.Before, e.After = eventsOf(b, true), eventsOf(a, true)
		e.CompactionResult.MessagesBefore, e.MessagesAfter = int64(len(b)), int64(len(a))
		fresh := freshOf(b, a)
		switch {
		case len(fresh) == 0 && len(a) < len(b):
			e.Kind = spans.CompactionKindPrune
		default:
			e.Kind = spans.CompactionKindSummary
		}
		if len(fresh) == 1 {
			e.Summary = fresh[0].raw
		}
	}
	e.Compaction.MessagesBefore = e.CompactionResult.MessagesBefore
	e.Trigger, e.Target = stringOf(l.get(kPlugin)), "request"
	if e.Trigger == "context_overflow_recovery" {
		e.Target = "transcript"
	}
	d.emit(e)
}

// freshOf returns the messages of after that are not in before.
func freshOf(before, after []message) (fresh []message) {
	spelled := make(map[uint64]bool, len(before))
	for i := range before {
		spelled[hashOf(before[i].raw)] = true
	}
	var canonical map[uint64]bool // made when a message is spelled in a new way
	for i := range after {
		if spelled[hashOf(after[i].raw)] {
			continue
		}
		if canonical == nil {
			canonical = make(map[uint64]bool, len(before))
			for j := range before {
				canonical[canonicalHash(before[j].raw)] = true
			}
		}
		if !canonical[canonicalHash(after[i].raw)] {
			fresh = append(fresh, after[i])
		}
	}
	return fresh
}

func canonicalHash(raw []byte) uint64 {
	if body, _, err := rawjson.AppendCanonical(nil, raw, nil); err == nil {
		return hashOf(body)
	}
	return hashOf(raw)
}
