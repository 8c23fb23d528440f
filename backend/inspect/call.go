package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// callMark returns the sign and the word of how a call ended.
func callMark(v *CallView) string {
	switch word, st := unfinished(v.State, &v.of.Span); {
	case v.State == session.EndMissing:
		return st.of("? " + word + " ")
	case v.of.Known == spans.KnownClosed:
		return st.of("■ " + word + " ")
	case word != "":
		return st.of("… " + word + " ")
	}
	return cmp.Or(outcomeMarks[v.Outcome], yellow.of("? "+Clean(string(v.Outcome))+" "))
}

var outcomeMarks = map[spans.Outcome]string{
	spans.OutcomeOK: green.of("✓ "), spans.OutcomeError: red.of("✗ failed "), spans.OutcomeDenied: red.of("⊘ denied "),
	spans.OutcomeSkipped: yellow.of("» skipped "), spans.OutcomeCancelled: yellow.of("■ cancelled "), "": dim.of("· "),
}

func (r *renderer) call(v *CallView) *node {
	alone := r.o.Turn != nil
	n := r.node(v.of.Span, fmt.Sprintf("call %q %d", v.ID, v.of.Ordinal))
	name := Clean(v.Name)
	line := callMark(v) + bold.of(name)
	n.call = name + prefixed(" ", Clean(v.ID))
	if _, ok := r.text(v.Input); ok {
		args := argsText(v.Input.Text)
		n.call = name + "(" + ellipsis(Clean(args), callTextArgs) + ")"
		if alone {
			r.content(n, "args", dim, r.clean(args))
		} else {
			line += "(" + Clean(args) + ")"
		}
	} else {
		line += dim.of(prefixed(" ", Clean(v.ID)))
	}
	n.head = []string{line}
	if v.Truncated {
		n.line("note", yellow, "the result was cut before the model saw it")
	}
	for i := range v.Permissions {
		q := &v.Permissions[i]
		it := n.wrapped(decision(q.Action), decisionStyle(q.Action), permissionText(q))
		if k := r.permission(q); k.over {
			it.id, it.at = k.id, k.at
		}
	}
	if len(v.Permissions) == 0 && alone {
		n.line("decided", dim, v.PermissionState)
	}
	r.events(n, v.Events)
	for _, k := range v.kids {
		if !r.placed[k.run] {
			n.add(r.run(k))
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
		r.content(n, label, st, text).end = true
	}
	r.findings(n, v.Findings)
	return n
}

// node begins the node of a tool call, a compaction or a permission evaluation.
func (r *renderer) node(s session.Span, id string) *node {
	return &node{
		cols: r.cols(s), span: s, id: id, over: r.over || !s.End.IsZero(), at: cmp.Or(s.End, s.Seen, s.Start),
	}
}

// callTextArgs bounds the characters of the arguments of the call that a sub-agent is by.
const callTextArgs = 40

// used says which tokens the model calls of a compaction used.
func used(u *session.Usage) string {
	if u == nil {
		return ""
	}
	return "used " + strings.Join(usageWords(*u), ", ")
}

func (r *renderer) compaction(v *CompactionView) *node {
	c := v.of
	n := r.node(c.Span, fmt.Sprint("compaction ", v.Kind, c.Start.UnixNano()))
	n.head = []string{magenta.of("◇ ") + bold.of("compaction"), Clean(string(v.Kind)),
		fromTo(v.MessagesBefore, v.MessagesAfter, "message"), fromTo(v.TokensBefore, v.TokensAfter, "token"), used(v.Usage)}
	if c.RemovedTokens != nil {
		n.part(plainText, Count(*c.RemovedTokens)+" tokens removed")
	}
	n.part(plainText, suffixed(some(len(c.Removed), "message"), " removed"))
	if c.Runs != nil {
		n.part(plainText, some(int(*c.Runs), "run"))
	}
	n.head = append(n.head, Clean(c.Category), Clean(c.Target))
	switch {
	case v.Applied != nil && !*v.Applied:
		n.part(plainText, "not applied")
	case c.Known == spans.KnownClosed:
		n.part(plainText, "no end seen")
	}
	n.part(plainText, Clean(v.Trigger))
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

// permission draws a decision that is of no tool call.
func (r *renderer) permission(v *PermissionView) *node {
	n := r.node(v.of.Span, fmt.Sprintf("permission %q %d", v.of.CallID, v.of.Ordinal))
	n.over = r.over || !v.Waiting
	st, mark := decisionStyle(v.Action), map[spans.Action]string{spans.ActionDeny: "⊘ ", spans.ActionAllow: "✓ "}[v.Action]
	n.head = []string{
		st.of(cmp.Or(mark, "? ")) + bold.of("permission ") + st.of(decision(v.Action)) + prefixed(" ", target(v.of)),
	}
	if text := permissionText(v); text != "" {
		n.wrapped("reason", dim, text).end = true
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

// decisionStyle is the look of a decision.
func decisionStyle(a spans.Action) style {
	return cmp.Or(map[spans.Action]style{spans.ActionDeny: red, spans.ActionAllow: green}[a], yellow)
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
