package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// callLine is a call in a line: how it ended, its name, and its arguments if they are wanted.
func callLine(v *CallView, name style, args bool) string {
	line := callMark(v) + name.of(Clean(v.Name))
	if args && v.Input != nil && v.Input.State == "" {
		line += "(" + Clean(argsText(v.Input.Text)) + ")"
	}
	return line
}

// callMark returns the sign and the word of how a call ended.
func callMark(v *CallView) string {
	switch word, st := unfinished(v.State, &v.of.Span); {
	case v.State == stateMissing:
		return st.of("? " + word + " ")
	case v.of.Known == spans.KnownClosed:
		return st.of("■ " + word + " ")
	case word != "":
		return st.of("… " + word + " ")
	}
	if mark, ok := outcomeMarks[v.Outcome]; ok {
		return mark
	}
	return yellow.of("? " + Clean(string(v.Outcome)) + " ")
}

var outcomeMarks = map[spans.Outcome]string{
	spans.OutcomeOK: green.of("✓ "), spans.OutcomeError: red.of("✗ failed "), spans.OutcomeDenied: red.of("⊘ denied "),
	spans.OutcomeSkipped: yellow.of("» skipped "), spans.OutcomeCancelled: yellow.of("■ cancelled "), "": dim.of("· "),
}

func (r *renderer) call(v *CallView) *node {
	alone := r.o.Turn != nil
	n := &node{cols: r.cols(v.of.Span)}
	line := callLine(v, bold, !alone)
	switch _, ok := r.text(v.Input); {
	case ok && alone:
		r.content(n, "args", dim, r.clean(argsText(v.Input.Text)))
	case !ok && v.ID != "":
		line += dim.of(" " + Clean(v.ID))
	}
	n.head = []string{line}
	if v.Truncated {
		n.line("note", yellow, "the result was cut before the model saw it")
	}
	for i := range v.Permissions {
		q := &v.Permissions[i]
		n.wrapped(decision(q.Action), decisionStyle(q.Action), permissionText(q))
	}
	if len(v.Permissions) == 0 && alone {
		n.line("decided", dim, v.PermissionState)
	}
	r.events(n, v.Events)
	r.below(n, v)
	label, st := "result", dim
	text, ok := r.text(v.Output)
	if !ok {
		text = Clean(v.Error)
	}
	if !ok || v.Outcome == spans.OutcomeError {
		label, st = "error", red
	}
	known := slices.ContainsFunc(v.Permissions, func(q PermissionView) bool { return Clean(q.Reason) == text })
	if text != "" && !known {
		r.content(n, label, st, text)
	}
	r.findings(n, v.Findings)
	return n
}

// below draws the runs that a call spawned.
func (r *renderer) below(n *node, v *CallView) {
	for _, k := range v.kids {
		if !r.placed[k.run] {
			n.add(r.run(k))
		}
	}
}

// used says which tokens the model calls of a compaction used.
func used(u *session.Usage) string {
	if u == nil {
		return ""
	}
	return "used " + strings.Join(usageWords(*u), ", ")
}

// compactionParts is a compaction in a line.
func compactionParts(v *CompactionView) []string {
	c := v.of
	out := []string{magenta.of("◇ ") + bold.of("compaction"), Clean(string(v.Kind)),
		fromTo(v.MessagesBefore, v.MessagesAfter, "message"), fromTo(v.TokensBefore, v.TokensAfter, "token"),
		used(v.Usage)}
	if c.RemovedTokens != nil {
		out = append(out, Count(*c.RemovedTokens)+" tokens removed")
	}
	out = append(out, suffixed(some(len(c.Removed), "message"), " removed"))
	if c.Runs != nil {
		out = append(out, some(int(*c.Runs), "run"))
	}
	out = append(out, Clean(c.Category), Clean(c.Target))
	switch {
	case v.Applied != nil && !*v.Applied:
		out = append(out, "not applied")
	case c.Known == spans.KnownClosed:
		out = append(out, "no end seen")
	}
	return append(out, Clean(v.Trigger))
}

func (r *renderer) compaction(v *CompactionView) *node {
	c := v.of
	n := &node{cols: r.cols(c.Span), head: compactionParts(v)}
	if v.Reason != "" {
		n.wrapped("reason", dim, Clean(v.Reason))
	}
	if text, ok := r.text(v.Summary); ok {
		r.content(n, "summary", dim, text)
	}
	r.events(n, r.m.events(c.Events, ""))
	r.findings(n, findings(c.Defects))
	return n
}

// decisions draws those that are of no tool call.
func (r *renderer) decisions(list []PermissionView) []timed {
	var out []timed
	for i := range list {
		v := &list[i]
		st := decisionStyle(v.Action)
		n := &node{cols: r.cols(v.of.Span), head: []string{st.of(decisionMark(v.Action)) + permissionLine(v)}}
		if text := permissionText(v); text != "" {
			n.wrapped("reason", dim, text)
		}
		r.findings(n, findings(v.of.Defects))
		out = append(out, timed{v.of.Span, n})
	}
	return out
}

// permissionLine is a decision in a few words.
func permissionLine(v *PermissionView) string {
	return bold.of("permission ") + decisionStyle(v.Action).of(decision(v.Action)) + prefixed(" ", target(v.of))
}

// target names what a decision is about: a tool, or the input of a user.
func target(q *session.Permission) string {
	if q.Target == spans.PermissionTargetInput {
		return "input"
	}
	return Clean(q.Tool)
}

func decision(a spans.Action) string { return cmp.Or(Clean(string(a)), "decided") }

// decisionStyle and decisionMark are the look of a decision.
func decisionStyle(a spans.Action) style {
	return cmp.Or(map[spans.Action]style{spans.ActionDeny: red, spans.ActionAllow: green}[a], yellow)
}

func decisionMark(a spans.Action) string {
	return cmp.Or(map[spans.Action]string{spans.ActionDeny: "⊘ ", spans.ActionAllow: "✓ "}[a], "? ")
}

// permissionText says why a decision was made, by which rule, by whom, and how long it took.
func permissionText(v *PermissionView) string {
	waited, inferred := "", ""
	switch q := v.of; {
	case v.WaitNS > 0:
		waited = "waited " + Duration(time.Duration(v.WaitNS))
	case q.Known == spans.KnownLive || q.Action == spans.ActionAsk && q.Outcome == "" && q.End.IsZero():
		waited = "waiting for an answer"
	}
	if v.Inferred {
		inferred = "inferred"
	}
	return joined(separator, Clean(v.Reason), prefixed("rule ", Clean(v.Rule)), prefixed("from ", Clean(v.Source)),
		prefixed("by ", Clean(v.DecidedBy)), prefixed("answer ", Clean(v.Answer)), waited, inferred)
}
