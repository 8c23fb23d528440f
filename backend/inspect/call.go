package inspect

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// callMark returns the sign and the word of how a call ended. running is the word of one that has no end.
func callMark(c *session.ToolCall, running string) seg {
	switch {
	case c.Missing:
		return seg{"? did not arrive ", yellow}
	case c.Known == spans.KnownClosed:
		return seg{"■ no end seen ", red}
	case c.Known == spans.KnownLive || c.End.IsZero():
		return seg{"… " + running + " ", yellow}
	}
	switch c.Outcome {
	case spans.OutcomeOK:
		return seg{"✓ ", green}
	case spans.OutcomeError:
		return seg{"✗ failed ", red}
	case spans.OutcomeDenied:
		return seg{"⊘ denied ", red}
	case spans.OutcomeSkipped:
		return seg{"» skipped ", yellow}
	case spans.OutcomeCancelled:
		return seg{"■ cancelled ", yellow}
	case "":
		return seg{"· ", dim}
	}
	return seg{"? " + Clean(string(c.Outcome)) + " ", yellow}
}

// callLine is the line of a call with how it ended and its name.
func (r *renderer) callLine(p place, c *session.ToolCall, st style) *node {
	name := seg{Clean(cmp.Or(c.Name, "tool call")), st}
	return &node{
		cols: r.cols(c.Span, nil), bar: r.spanBar(barTools, c.Span), segs: []seg{callMark(c, r.running(p)), name},
	}
}

func (r *renderer) call(p place, v *CallView) *node {
	n := r.callLine(p, v.of, bold)
	switch _, ok := r.text(v.Input); {
	case ok && r.o.Turn != nil:
		r.content(n, "args", dim, r.clean(v.args))
	case ok:
		n.segs = append(n.segs, seg{"(" + Clean(v.args) + ")", plainText})
	case v.ID != "":
		n.segs = append(n.segs, seg{" " + Clean(v.ID), dim})
	}
	if v.Truncated {
		n.line("note", yellow, "the result was cut before the model saw it")
	}
	for i := range v.Permissions {
		q := &v.Permissions[i]
		n.wrapped(decision(q.Action), decisionStyle(q.Action), permissionText(q))
	}
	if len(v.Permissions) == 0 && r.o.Turn != nil {
		n.line("decided", dim, v.PermissionState)
	}
	r.events(n, v.Events)
	for _, k := range v.kids {
		if !r.placed[k.run] {
			n.add(r.run(k, ""))
		}
	}
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

func (r *renderer) compaction(v *CompactionView) *node {
	c := v.of
	n := &node{cols: r.cols(c.Span, nil), bar: r.spanBar(barMark, c.Span)}
	n.segs = []seg{{"◇ ", magenta}, {"compaction", bold}, {separator + Clean(string(v.Kind)), plainText}}
	add := func(text string) {
		if text != "" {
			n.segs = append(n.segs, seg{separator, dim}, seg{Clean(text), plainText})
		}
	}
	add(fromTo(v.MessagesBefore, v.MessagesAfter, "message"))
	add(fromTo(v.TokensBefore, v.TokensAfter, "token"))
	if c.RemovedTokens != nil {
		add(Count(*c.RemovedTokens) + " tokens removed")
	}
	add(suffixed(some(len(c.Removed), "message"), " removed"))
	if c.Runs != nil {
		add(some(int(*c.Runs), "run"))
	}
	add(c.Category)
	add(c.Target)
	switch {
	case v.Applied != nil && !*v.Applied:
		add("not applied")
	case c.Known == spans.KnownClosed:
		add("no end seen")
	}
	add(v.Trigger)
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

func (r *renderer) permission(v *PermissionView) *node {
	n := &node{cols: r.cols(v.of.Span, nil), bar: r.spanBar(barMark, v.of.Span)}
	st := decisionStyle(v.Action)
	n.segs = []seg{{decisionMark(v.Action), st}, {"permission ", bold}, {decision(v.Action), st}}
	n.segs = append(n.segs, seg{prefixed(" ", target(v.of)), plainText})
	if t := permissionText(v); t != "" {
		n.wrapped("reason", dim, t)
	}
	r.findings(n, findings(v.of.Defects))
	return n
}

// target names what a decision is about: a tool, or the input of a user.
func target(q *session.Permission) string {
	if q.Target == spans.PermissionTargetInput {
		return "input"
	}
	return Clean(q.Tool)
}

func decision(a spans.Action) string { return cmp.Or(Clean(string(a)), "decided") }

func decisionStyle(a spans.Action) style {
	switch a {
	case spans.ActionDeny:
		return red
	case spans.ActionAllow:
		return green
	}
	return yellow
}

func decisionMark(a spans.Action) string {
	switch a {
	case spans.ActionDeny:
		return "⊘ "
	case spans.ActionAllow:
		return "✓ "
	}
	return "? "
}

// permissionText says why a decision was made, by which rule, by whom, and how long it took.
func permissionText(v *PermissionView) string {
	waited := ""
	switch q := v.of; {
	case v.WaitNS > 0:
		waited = "waited " + Duration(time.Duration(v.WaitNS))
	case q.Known == spans.KnownLive || q.Action == spans.ActionAsk && q.Outcome == "" && q.End.IsZero():
		waited = "waiting for an answer"
	}
	inferred := ""
	if v.Inferred {
		inferred = "inferred"
	}
	return joined(Clean(v.Reason), prefixed("rule ", Clean(v.Rule)), prefixed("from ", Clean(v.Source)),
		prefixed("by ", Clean(v.DecidedBy)), prefixed("answer ", Clean(v.Answer)), waited, inferred)
}
