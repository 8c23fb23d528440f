package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

func (r *renderer) turn(p place, t *session.Turn) *node {
	v := r.m.turn(r.m.at[t])
	n := &node{cols: r.cols(t.Span, reported(v.UsageTold, &t.Usage)), addr: turnAddress(p, t), bar: r.turnBar(t)}
	if v.Failed {
		n.segs = append(n.segs, seg{"✗ ", red})
	}
	n.segs = append(n.segs, seg{fmt.Sprintf("turn %d", v.Index), plainText})
	add := func(text string, st style) {
		if text != "" {
			n.segs = append(n.segs, seg{separator, dim}, seg{Clean(text), st})
		}
	}
	add(words(string(v.Trigger)), plainText)
	add(r.turnState(p, t))
	if at := r.m.history.Hidden(t); !at.IsZero() && r.m.history.Run(p.run).Hidden.IsZero() {
		add("rewound "+r.since(at), yellow)
	}
	add(v.StopReason, plainText)
	if v.Attempts > 1 {
		add(fmt.Sprintf("%d attempts", v.Attempts), yellow)
	}
	if t.DiscardedAttempts > 0 {
		add(fmt.Sprintf("%d discarded", t.DiscardedAttempts), yellow)
	}
	if v.Model != r.lead {
		add(v.Model, dim)
	}
	add(r.cost(p.run, t), dim)

	whole := r.o.Turn == t
	if whole {
		r.figures(n, p, v)
	} else {
		r.settingsLine(n, v)
	}
	r.request(n, v, whole)
	if whole {
		r.promptLine(n, p, t)
		r.catalogue(n, v)
		r.rulesInForce(n, p, v.Rules, v.RulesState)
	}
	if v.System != nil && v.System.Block != r.system {
		r.system = v.System.Block
		if text, ok := r.text(v.System); ok {
			r.content(n, "system", dim, text)
		}
	}
	r.messages(n, v.Capture, slices.DeleteFunc(v.Input, func(s Said) bool { return s.outside }))
	r.answer(n, p, v)
	return n
}

// answer draws the reply of a turn, its calls, and what else happened, by time.
func (r *renderer) answer(n *node, p place, v *TurnView) {
	t := v.of.Turn
	var before, after, calls []timed
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
	for i := range v.Compactions {
		put(timed{span: v.Compactions[i].of.Span, node: r.compaction(&v.Compactions[i])})
	}
	decided := len(before)
	for _, k := range r.decisions(v) {
		put(k)
	}
	early, late := beforeReply(v.Events, before[decided:])
	for i := range early {
		before = append(before, timed{span: session.Span{Start: early[i].At, Seq: early[i].of.Seq}, event: &early[i]})
	}
	for _, k := range merge(nil, before) {
		if k.event != nil {
			r.events(n, []EventView{*k.event})
		} else {
			n.add(k.node)
		}
	}
	r.messages(n, v.Capture, v.Output)
	if v.Partial {
		text := "the reply stops where it was last seen"
		if t.End.IsZero() && r.running(p) == wordRunning {
			text = "the reply so far"
		}
		n.line("partial", yellow, text)
	}
	if v.Error != "" {
		n.wrapped("error", red, Clean(v.Error))
	}
	for i := range v.ToolCalls {
		calls = append(calls, timed{span: v.ToolCalls[i].of.Span, node: r.call(p, &v.ToolCalls[i])})
	}
	r.events(n, late)
	r.findings(n, v.Findings)
	for _, k := range merge(calls, after) {
		n.add(k.node)
	}
}

// request draws in one line how large the request was, how much of it was new, whether prompt and tools changed, and
// what was kept back.
func (r *renderer) request(n *node, v *TurnView, whole bool) {
	var out []string
	add := func(text string) {
		if text != "" {
			out = append(out, text)
		}
	}
	if v.Messages > 0 {
		add(plural(int(v.Messages), "message"))
	}
	if v.Bytes > 0 {
		add(Bytes(v.Bytes))
	}
	if k := len(v.Requests); k > 0 {
		if m := v.of.Requests[k-1].Messages; m != nil && m.Complete {
			add(fmt.Sprintf("%d new", v.Requests[k-1].New))
		}
	}
	if v.Capture == spans.CaptureDigests {
		add("digests")
	}
	if v.of.Redacted > 0 {
		add(fmt.Sprintf("%d redacted", v.of.Redacted))
	}
	if withheld, ok := v.of.Extra[string(spans.CaptureWithheldKey)].(int64); ok && withheld > 0 {
		add(fmt.Sprintf("%d withheld", withheld))
	}
	if prompt, change := digestNews(v.PromptDigest, &r.prompt); change != "" && !whole {
		add("prompt " + strings.TrimSuffix(prompt+change, " "))
	}
	if tools, change := digestNews(v.of.ToolsDigest(), &r.tools); change != "" && !whole {
		switch {
		case v.Offered == nil:
			tools = "tools " + tools
		case len(v.Offered) == 0:
			tools = "no tools"
		default:
			tools = plural(len(v.Offered), "tool")
		}
		add(strings.TrimSuffix(tools+change, " "))
	}
	if len(out) > 0 {
		n.wrapped("request", dim, strings.Join(out, separator))
	}
}

// turnState says why a turn is not whole; empty for one that ended as its loop says.
func (r *renderer) turnState(p place, t *session.Turn) (string, style) {
	switch {
	case t.Missing:
		return "did not arrive", yellow
	case t.Known == spans.KnownClosed:
		return "no end seen", red
	case t.Known == spans.KnownLive || t.End.IsZero():
		if word := r.running(p); t.Waiting == "" || word != wordRunning {
			return word, yellow
		}
		return "waiting for " + words(string(t.Waiting)), yellow
	}
	return "", plainText
}

// digestNews returns the beginning of a digest, and how it differs from the last one: a blank for the first one,
// empty for the same one.
func digestNews(digest string, last *string) (short, change string) {
	switch {
	case digest == "", digest == *last:
		return "", ""
	case *last != "":
		change = " (changed)"
	default:
		change = " "
	}
	*last = digest
	return Clean(prefix(digest, 8)), change
}

// running says whether what has no end still runs.
func (r *renderer) running(p place) string {
	if p.run.StatusAt(r.asOf(p)) == spans.RunStatusOpen {
		return wordRunning
	}
	return "stopped"
}

const wordRunning = "running"

// asOf is the time of the statuses of a run.
func (r *renderer) asOf(p place) time.Time {
	if r.o.AsOf.IsZero() {
		return p.tree.Last
	}
	return r.o.AsOf
}

// turnAddress returns the argument of `show` for one turn, with SESSION in place of an id that cannot be typed.
func turnAddress(p place, t *session.Turn) string {
	id := p.tree.ID
	if id == "" || id != Clean(id) {
		id = "SESSION"
	}
	return session.TurnAddress(id, p.n, t.Index)
}
