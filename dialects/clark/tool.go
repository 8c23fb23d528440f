package clark

import (
	"bytes"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Sources of refusals, which package spans does not have.
const (
	sourceGate       = "tool_gate"
	sourceBeforeCall = "before_tool_call"
)

// clark-agent writes these in the details of a result, or begins its text with one.
const (
	kindNotExecuted  = "tool_call_not_executed"
	kindBadArguments = "tool_argument_validation"
	textBlockedBy    = "blocked by "
	argumentsNoJSON  = `"__clark_arg_parse_error"`
)

// call is a tool call of the open turn.
type call struct {
	id, name       string
	args           []byte // a copy; nil when not known
	started, ended bool
}

// call returns the call of that id and name that has not ended: one that has started, or has not, as wanted, before any
// other; a new one where there is none.
func (r *run) call(id, name string, started bool) (found *call) {
	for _, c := range r.calls {
		if c.id != id || c.name != name || c.ended {
			continue
		}
		if c.started == started {
			return c
		}
		if found == nil && started {
			found = c
		}
	}
	if found == nil {
		found = &call{id: id, name: name}
		r.addCall(found)
	}
	return found
}

// addCall remembers a call of the turn, up to the bound.
func (r *run) addCall(c *call) {
	if len(r.calls) < maxCalls {
		r.calls = append(r.calls, c)
	}
}

// openCalls returns the calls that run.
func (r *run) openCalls() (open []*call) {
	for _, c := range r.calls {
		if c.started && !c.ended {
			open = append(open, c)
		}
	}
	return open
}

func (d *Decoder) toolEnd(r *run, m event.Meta, l *line) {
	id, name := l.String("tool_call_id"), l.String("tool_name")
	failed := l.True("is_error")
	c := r.call(id, name, true)
	result := l.Object.Object("result")
	details, text := object.Of("", result.Raw("details")), input.Texts(result.Raw("content"))
	e := &event.ToolEnded{Meta: m, CallID: id, Name: name}
	e.Result, e.ChildRunID = l.Raw("result"), details.Text("child_run_id")
	if now := when(m); r.batch && c.started && !now.IsZero() { // ends are written when the last of the calls is over
		e.End = event.Bound(now.Round(0))
	}
	if child := d.runs[e.ChildRunID]; child != nil && child.SessionID != r.SessionID {
		e.ChildSessionID = child.SessionID
	}
	if !c.started {
		call := event.ToolCall{ID: id, Name: name, Args: c.args}
		if !failed { // its start was not seen
			call.Start = event.Bound(m.Time)
		}
		d.Emit(&event.ToolStarted{Meta: m, ToolCall: call})
	}
	e.Outcome = spans.OutcomeOK
	if failed {
		e.Outcome, e.Error = spans.OutcomeError, text
		refusal, by := r.refusal(c, details, text)
		switch {
		case details.String("kind") == kindNotExecuted:
			e.Outcome = spans.OutcomeSkipped
		case refusal != "":
			e.Outcome = spans.OutcomeDenied
			p := derived(false)
			p.Tool, p.CallID, p.Source, p.Reason, p.DecidedBy = name, id, refusal, text, by
			p.Pattern = string(details.Raw("allowed_tools"))
			d.Emit(&event.PermissionEvaluated{Meta: m, PermissionEvaluation: p})
		}
	}
	c.started, c.ended = true, true
	d.Emit(e)
}

// refusal returns who refused a call that failed, as far as the wire has it; empty when nobody did. Until 0.2.0 refused
// calls had a start as well, and a refusal that is no more than a text looks like a failure then.
func (r *run) refusal(c *call, details *object.Object, text string) (source spans.PermissionSource, by string) {
	by, blocked := strings.CutPrefix(text, textBlockedBy)
	kind := details.String("kind")
	switch {
	case details.True("runtime_block"):
		return sourceGate, details.String("gate")
	case blocked && !strings.Contains(text, "\n"):
		return sourceBeforeCall, by
	case c.started, kind == kindBadArguments, kind == kindNotExecuted, text == "Tool `"+c.name+"` not found",
		bytes.HasPrefix(c.args, []byte("{")) && bytes.Contains(c.args, []byte(argumentsNoJSON)):
		return "", ""
	case slices.Contains(r.hidden, c.name):
		return sourceGate, ""
	}
	return sourceBeforeCall, ""
}

// maxCatalogue bounds the names of tools that are remembered of a run, and the gates of an attempt.
const maxCatalogue = 1024

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

// derived is an evaluation that follows from what gates said.
func derived(allow bool) event.PermissionEvaluation {
	p := event.PermissionEvaluation{Action: spans.ActionDeny, Source: sourceGate, Derived: true}
	if allow {
		p.Action = spans.ActionAllow
	}
	return p
}

// gate reads one gate's allow list, or how disjoint lists were repaired. A gate that did not constrain decided nothing.
func (d *Decoder) gate(r *run, m event.Meta, l *line) {
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
		p.Reason, p.Outcome = l.String("reason"), "conflict_resolved" // disjoint allow lists were repaired
		p.Options, p.Option = l.Raw("plugins"), g.plugin
		r.gates = nil
	case !l.Has("allow"):
		d.Other(m, l.name, l.raw)
		return
	}
	p.DecidedBy = g.plugin
	if len(r.gates) < maxCatalogue {
		r.gates = append(r.gates, g)
	}
	d.Emit(&event.PermissionEvaluated{Meta: m, PermissionEvaluation: p})
}

// offered compares what the gates allow with the tools that a request has, and emits which tools it hides that the
// request before did not.
func (d *Decoder) offered(r *run, m event.Meta, l *line) {
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
	var extra []string
	for _, name := range r.catalogue {
		if !slices.Contains(offered, name) {
			r.hidden = append(r.hidden, name)
		} else if len(refusing(gates, name)) > 0 {
			extra = append(extra, name)
		}
	}
	p := derived(len(offered) > 0)
	p.Pattern, p.Outcome = string(append(bytes.TrimSuffix(pattern, []byte{','}), ']')), "offered"
	if len(extra) > 0 {
		p.Outcome, p.Reason = "offered_differs", "offered and not allowed: "+strings.Join(extra, ", ")
	}
	d.Emit(&event.PermissionEvaluated{Meta: m, PermissionEvaluation: p})
	for _, name := range r.hidden {
		if by := refusing(gates, name); len(by) > 0 && !slices.Contains(before, name) {
			p := derived(false)
			p.Tool, p.DecidedBy = name, strings.Join(by, ", ")
			d.Emit(&event.PermissionEvaluated{Meta: m, PermissionEvaluation: p})
		}
	}
}

// transform reads a context transform. Those that changed nothing give no event: they run at every attempt.
func (d *Decoder) transform(r *run, m event.Meta, l *line) {
	d.within(r, m, l)
	e := &event.CompactionEnded{Meta: m}
	e.Kind = spans.CompactionKindPrune
	var before, after *int64
	if l.record {
		before, after = l.Count("before_count"), l.Count("after_count")
		if before == nil || after == nil || *before == *after { // whether something changed is not known
			d.Other(m, l.name, l.raw)
			return
		}
	} else {
		old, now := l.List("before"), l.List("after")
		if slices.EqualFunc(old, now, bytes.Equal) {
			return
		}
		e.Before = append([]event.Message{}, input.Messages(old)...)
		e.After = append([]event.Message{}, input.Messages(now)...)
		before, after = new(int64(len(old))), new(int64(len(now)))
		known := make(map[string]bool, len(old))
		for _, raw := range old {
			known[string(raw)] = true
		}
		fresh := slices.DeleteFunc(slices.Clone(now), func(raw []byte) bool { return known[string(raw)] })
		if len(fresh) > 0 || *after >= *before {
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
