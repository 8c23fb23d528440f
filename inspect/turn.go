package inspect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
)

func (r *renderer) turn(p place, t *session.Turn) *node {
	n := &node{cols: r.cols(t.Span, &t.Usage), addr: turnAddress(p, t)}
	if t.Failed {
		n.segs = append(n.segs, seg{"✗ ", red})
	}
	n.segs = append(n.segs, seg{fmt.Sprintf("turn %d", t.Index), plainText})
	add := func(text string, st style) {
		if text != "" {
			n.segs = append(n.segs, seg{" · ", dim}, seg{Clean(text), st})
		}
	}
	add(words(string(t.Trigger)), plainText)
	switch {
	case t.Missing:
		add("did not arrive", yellow)
	case t.Known == spans.KnownClosed:
		add("no end seen", red)
	case t.Known == spans.KnownLive || t.End.IsZero():
		add("open", yellow)
	}
	add(t.StopReason, plainText)
	if t.Attempts > 1 {
		add(fmt.Sprintf("%d attempts", t.Attempts), yellow)
	}
	model := cmp.Or(t.Answered, t.Model)
	if model != r.lead {
		add(model, dim)
	}
	if t.Cost != nil {
		add(fmt.Sprintf("%.4g %s", *t.Cost, t.Currency), dim)
	}

	r.systemPrompt(n, p, t)
	r.messages(n, p, t.Input)

	var before, after []timed
	var firstCall time.Time
	for _, c := range t.ToolCalls {
		if firstCall.IsZero() || c.Start.Before(firstCall) {
			firstCall = c.Start
		}
	}
	put := func(k timed) {
		if firstCall.IsZero() || k.span.Start.Before(firstCall) {
			before = append(before, k)
		} else {
			after = append(after, k)
		}
	}
	for _, c := range t.Compactions {
		put(timed{c.Span, r.compaction(p, c)})
	}
	for _, q := range t.Permissions {
		put(timed{q.Span, r.permission(q)})
	}
	for _, k := range merge(nil, before) {
		n.add(k.node)
	}
	r.messages(n, p, t.Output)
	if t.Error != "" {
		n.wrapped("error", red, Clean(t.Error))
	}
	var calls []timed
	for _, c := range t.ToolCalls {
		calls = append(calls, timed{c.Span, r.call(p, c)})
	}
	r.events(n, p, t.Events)
	r.defects(n, t.Defects)
	for _, k := range merge(calls, after) {
		n.add(k.node)
	}
	return n
}

// turnAddress returns what `show` shows a turn alone by.
func turnAddress(p place, t *session.Turn) string {
	id := p.tree.ID
	if id == "" || id != Clean(id) || strings.ContainsAny(id, "/ ") {
		id = "SESSION"
	}
	return fmt.Sprintf("%s/@%d/%d", id, p.n, t.Index)
}
