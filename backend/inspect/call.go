package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// callLine is the line of a call with how it ended; its name is to follow.
func (r *renderer) callLine(p place, c *session.ToolCall) *node {
	n := &node{cols: r.cols(c.Span, nil), bar: r.spanBar(barTools, c.Span)}
	mark, st := "✓", green
	word := ""
	switch c.Outcome {
	case spans.OutcomeOK:
	case spans.OutcomeError:
		mark, st, word = "✗", red, "failed"
	case spans.OutcomeDenied:
		mark, st, word = "⊘", red, "denied"
	case spans.OutcomeSkipped:
		mark, st, word = "»", yellow, "skipped"
	case spans.OutcomeCancelled:
		mark, st, word = "■", yellow, "cancelled"
	case "":
		mark, st = "·", dim
	default:
		mark, st, word = "?", yellow, Clean(string(c.Outcome))
	}
	switch {
	case c.Missing:
		mark, st, word = "?", yellow, "did not arrive"
	case c.Known == spans.KnownClosed:
		mark, st, word = "■", red, "no end seen"
	case c.Known == spans.KnownLive || c.End.IsZero():
		mark, st, word = "…", yellow, r.running(p)
	}
	n.segs = []seg{{mark + " ", st}}
	if word != "" {
		n.segs = append(n.segs, seg{word + " ", st})
	}
	return n
}

func orCall(name string) string { return cmp.Or(name, "tool call") }

func (r *renderer) call(p place, c *session.ToolCall) *node {
	n := r.callLine(p, c)
	n.segs = append(n.segs, seg{Clean(orCall(c.Name)), bold})
	if args, ok := r.only(p, c.Args); ok && r.o.Turn != nil {
		r.content(n, "args", dim, r.clean(argsText(args)))
	} else if ok {
		n.segs = append(n.segs, seg{"(" + Clean(argsText(args)) + ")", plainText})
	} else if c.ID != "" {
		n.segs = append(n.segs, seg{" " + Clean(c.ID), dim})
	}
	if c.Truncated != nil && *c.Truncated {
		n.line("note", yellow, "the result was cut before the model saw it")
	}
	for _, q := range c.Permissions {
		n.wrapped(decision(q), decisionStyle(q), permissionText(q))
	}
	if len(c.Permissions) == 0 && r.o.Turn != nil {
		n.line("decided", dim, "not recorded")
	}
	r.events(n, p, c.Events)
	for _, k := range r.kids(p, c) {
		if !r.placed[k.run] {
			n.add(r.run(k, ""))
		}
	}
	label, lst := "result", dim
	if c.Outcome == spans.OutcomeError {
		label, lst = "error", red
	}
	text := Clean(c.Error)
	if result, ok := r.only(p, c.Result); ok {
		text = r.clean(resultText(result))
	} else {
		label, lst = "error", red
	}
	known := slices.ContainsFunc(c.Permissions, func(q *session.Permission) bool { return Clean(q.Reason) == text })
	if text != "" && !known {
		r.content(n, label, lst, text)
	}
	r.defects(n, c.Defects)
	return n
}

func (r *renderer) compaction(p place, c *session.Compaction) *node {
	n := &node{cols: r.cols(c.Span, nil), bar: r.spanBar(barMark, c.Span)}
	n.segs = []seg{{"◇ ", magenta}, {"compaction", bold}, {" · " + Clean(string(c.Kind)), plainText}}
	add := func(text string) {
		if text != "" {
			n.segs = append(n.segs, seg{" · ", dim}, seg{Clean(text), plainText})
		}
	}
	add(fromTo(c.MessagesBefore, c.MessagesAfter, "message"))
	add(fromTo(c.InputTokens, c.OutputTokens, "token"))
	if c.RemovedTokens != nil {
		add(Count(*c.RemovedTokens) + " tokens removed")
	}
	if len(c.Removed) > 0 {
		add(plural(len(c.Removed), "message") + " removed")
	}
	if c.Runs != nil && *c.Runs > 0 {
		add(plural(int(*c.Runs), "run"))
	}
	add(c.Category)
	add(c.Target)
	switch {
	case c.Applied != nil && !*c.Applied:
		add("not applied")
	case c.Known == spans.KnownClosed:
		add("no end seen")
	}
	add(c.Trigger)
	if c.Reason != "" {
		n.wrapped("reason", dim, Clean(c.Reason))
	}
	if s, ok := r.only(p, c.Summary); ok {
		text := valueText([]byte(s))
		if said := sayings(s); len(said) > 0 {
			text = said[0].text
		}
		r.content(n, "summary", dim, r.clean(text))
	}
	r.events(n, p, c.Events)
	r.defects(n, c.Defects)
	return n
}

func (r *renderer) permission(q *session.Permission) *node {
	n := &node{cols: r.cols(q.Span, nil), bar: r.spanBar(barMark, q.Span)}
	st := decisionStyle(q)
	mark := "✓ "
	switch q.Action {
	case spans.ActionDeny:
		mark = "⊘ "
	case spans.ActionAllow:
	default:
		mark = "? "
	}
	what := Clean(q.Tool)
	if q.Target == spans.PermissionTargetInput {
		what = "input"
	}
	n.segs = []seg{{mark, st}, {"permission ", bold}, {decision(q), st}}
	if what != "" {
		n.segs = append(n.segs, seg{" " + what, plainText})
	}
	if t := permissionText(q); t != "" {
		n.wrapped("reason", dim, t)
	}
	r.defects(n, q.Defects)
	return n
}

func decision(q *session.Permission) string { return cmp.Or(Clean(string(q.Action)), "decided") }

func decisionStyle(q *session.Permission) style {
	switch q.Action {
	case spans.ActionDeny:
		return red
	case spans.ActionAllow:
		return green
	}
	return yellow
}

func permissionText(q *session.Permission) string {
	var out []string
	add := func(s string) {
		if s != "" {
			out = append(out, s)
		}
	}
	add(Clean(q.Reason))
	add(prefixed("rule ", Clean(q.Pattern)))
	add(prefixed("from ", Clean(string(q.Source))))
	add(prefixed("by ", Clean(q.DecidedBy)))
	if q.Outcome != "" || q.Option != "" {
		add("answer " + strings.TrimSpace(Clean(q.Outcome)+" "+Clean(q.Option)))
	}
	switch {
	case q.WaitNS > 0:
		add("waited " + Duration(time.Duration(q.WaitNS)))
	case q.Known == spans.KnownLive || q.Action == spans.ActionAsk && q.Outcome == "" && q.End.IsZero():
		add("waiting for an answer")
	}
	if q.Derived {
		add("inferred")
	}
	return strings.Join(out, " · ")
}
