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
	name, behind := Clean(v.Name), dim.of(prefixed(" ", Clean(v.ID)))
	n.call = name + prefixed(" ", Clean(v.ID))
	if _, ok := r.text(v.Input); ok {
		args := argsText(v.Input.Text)
		n.call = name + "(" + ellipsis(Clean(args), callTextArgs) + ")"
		if behind = "(" + Clean(args) + ")"; alone {
			behind = ""
			r.content(n, "args", dim, r.clean(args))
		}
	}
	n.head = []string{callMark(v) + bold.of(name) + behind}
	if v.Truncated {
		n.line("note", yellow, "the result was cut before the model saw it")
	}
	for i := range v.Permissions {
		q := &v.Permissions[i]
		t := n.wrapped(decision(q.Action), decisionStyle(q.Action), permissionText(q))
		if k := r.permission(q); k.over {
			t.id, t.at = k.id, k.at
		}
	}
	if len(v.Permissions) == 0 && alone {
		n.line("decided", dim, v.PermissionState)
	}
	r.events(n, v.Events)
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
	for _, k := range v.kids {
		if !r.placed[k.run] {
			n.kids = append(n.kids, r.run(k))
		}
	}
	return n
}

// node begins the node of a turn, a tool call, a compaction or a permission evaluation.
func (r *renderer) node(s session.Span, id string) *node {
	return &node{
		cols: r.cols(s), span: s, id: id, over: r.over || !s.End.IsZero(), at: cmp.Or(s.End, s.Seen, s.Start),
	}
}

// callTextArgs bounds the characters of the arguments of the call that a sub-agent is by.
const callTextArgs = 40

// compactionWords says what a compaction did: the kind, how much there was before and after, what its own model calls
// used, what began it, and that it had no effect.
func compactionWords(c *session.Compaction) []string {
	used, applied := "", ""
	if c.Usage != nil {
		used = "used " + strings.Join(usageWords(*c.Usage), ", ")
	}
	if c.Applied != nil && !*c.Applied {
		applied = "not applied"
	}
	return []string{Clean(string(c.Kind)), fromTo(c.MessagesBefore, c.MessagesAfter, "message"),
		fromTo(c.InputTokens, c.OutputTokens, "token"), used, Clean(c.Trigger), applied}
}

func (r *renderer) compaction(v *CompactionView) *node {
	c := v.of
	n := r.node(c.Span, fmt.Sprint("compaction ", v.Kind, c.Start.UnixNano()))
	n.head = append([]string{magenta.of("◇ ") + bold.of("compaction")}, compactionWords(c)...)
	if c.RemovedTokens != nil {
		n.part(plainText, Count(*c.RemovedTokens)+" tokens removed")
	}
	n.part(plainText, suffixed(some(len(c.Removed), "message"), " removed"))
	if c.Runs != nil {
		n.part(plainText, some(int(*c.Runs), "run"))
	}
	n.head = append(n.head, Clean(c.Category), Clean(c.Target))
	if c.Known == spans.KnownClosed {
		n.part(plainText, "no end seen")
	}
	n.wrapped("reason", dim, Clean(v.Reason))
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
	n.wrapped("reason", dim, permissionText(v)).end = true
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
	switch {
	case v.WaitNS > 0:
		waited = "waited " + Duration(time.Duration(v.WaitNS))
	case v.Waiting:
		waited = "waiting for an answer"
	}
	if v.Inferred {
		inferred = "inferred"
	}
	return joined(separator, Clean(v.Reason), prefixed("rule ", Clean(v.Rule)), prefixed("from ", Clean(v.Source)),
		prefixed("by ", Clean(v.DecidedBy)), prefixed("answer ", Clean(v.Answer)), waited, inferred)
}
