package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// timelineColumns are those of Options.Timeline: the bar takes the room that a short line and its numbers leave.
func timelineColumns(width int) columns {
	c, text := columns{names: []string{"took"}, each: 7}, 14
	switch {
	case width >= 140:
		all := []string{"at", "took", "model", "tools", "in", "cached", "written", "out", "thought"}
		c, text = columns{names: all, each: 8}, 36
	case width >= 100:
		c, text = columns{names: []string{"at", "took", "model", "tools", "in", "out"}, each: 8}, 26
	case width >= 60:
		c, text = columns{names: []string{"took", "model", "tools", "in", "out"}, each: 7}, width/4
	}
	c.bar = min(width-text-c.each*len(c.names)-barGap, 100)
	c.right = width - c.bar - barGap
	return c
}

// timelineRun adds the turns of a run to its node, one line each, and what happened between them.
func (r *renderer) timelineRun(n *node, p place) {
	var turns, others []timed
	for _, t := range r.shown(p) {
		if t.turn == nil {
			turns = append(turns, timed{span: t.span, node: &node{segs: []seg{{t.text, dim}}}})
			continue
		}
		turns = append(turns, timed{span: t.turn.Span, node: r.timelineTurn(p, t.turn)})
	}
	for _, c := range p.run.ToolCalls {
		others = append(others, timed{span: c.Span, node: r.timelineCall(p, c)})
	}
	for _, c := range p.run.Compactions {
		others = append(others, timed{span: c.Span, node: r.timelineCompaction(c)})
	}
	for _, q := range p.run.Permissions {
		if q.Action != spans.ActionAllow {
			others = append(others, timed{span: q.Span, node: r.timelinePermission(q)})
		}
	}
	others = append(others, r.strayRuns(p)...)
	for _, k := range merge(turns, others) {
		n.add(k.node)
	}
}

func (r *renderer) timelineTurn(p place, t *session.Turn) *node {
	values := r.values(t.Span, reported(t.UsageTold(), &t.Usage))
	if t.ModelCallNS > 0 {
		values["model"] = Duration(time.Duration(t.ModelCallNS))
	}
	if d := inTools(t.ToolCalls); d > 0 {
		values["tools"] = Duration(d)
	}
	n := &node{cols: r.fill(values), bar: r.turnBar(t), addr: turnAddress(p, t)}
	if t.Failed {
		n.segs = append(n.segs, seg{"✗ ", red})
	}
	n.segs = append(n.segs, seg{fmt.Sprintf("turn %d", t.Index), bold})
	if word, st := r.turnState(p, t); word != "" {
		n.segs = append(n.segs, seg{" " + word, st})
	}
	if t.Attempts > 1 {
		n.segs = append(n.segs, seg{fmt.Sprintf(" ×%d", t.Attempts), yellow})
	}
	if names := called(t); len(names) > 0 {
		n.segs = append(n.segs, seg{" " + Clean(strings.Join(names, ", ")), dim})
	}
	for _, c := range t.Compactions {
		n.add(r.timelineCompaction(c))
	}
	for _, q := range t.Permissions {
		if q.Action != spans.ActionAllow {
			n.add(r.timelinePermission(q))
		}
	}
	for _, c := range t.ToolCalls {
		kids := r.kids[c]
		if c.Outcome != spans.OutcomeOK || len(kids) > 0 || c.End.IsZero() {
			n.add(r.timelineCall(p, c))
		}
	}
	return n
}

// timelineCall draws a call that is alone, failed, or spawned a run.
func (r *renderer) timelineCall(p place, c *session.ToolCall) *node {
	n := r.callLine(p, c, plainText)
	for _, k := range r.kids[c] {
		if !r.placed[k.run] {
			n.add(r.run(k, ""))
		}
	}
	return n
}

func (r *renderer) timelineCompaction(c *session.Compaction) *node {
	n := &node{cols: r.cols(c.Span, nil), bar: r.spanBar(barMark, c.Span)}
	n.segs = []seg{{"◇ ", magenta}, {Clean(string(c.Kind)), plainText}}
	return n
}

func (r *renderer) timelinePermission(q *session.Permission) *node {
	n := &node{cols: r.cols(q.Span, nil), bar: r.spanBar(barMark, q.Span)}
	n.segs = []seg{{decisionMark(q.Action), decisionStyle(q.Action)}, {decision(q.Action), decisionStyle(q.Action)}}
	return n
}
