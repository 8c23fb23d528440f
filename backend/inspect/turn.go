package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

func (r *renderer) turn(v *TurnView) *node {
	t := v.of
	n := &node{cols: tokens(r.cols(t.Span), v.UsageReported, &v.Usage), span: t.Span, addr: v.Address}
	if t.tree.ID == "" || t.tree.ID != Clean(t.tree.ID) { // an id that nobody can type
		n.addr = session.TurnAddress("SESSION", t.n, t.Index)
	}
	n.id, n.at = fmt.Sprint("turn ", t.Index), cmp.Or(t.End, t.Seen, t.Start)
	n.over = r.over || !t.End.IsZero() && (!t.Missing || r.stopped) // the end of a missing turn is only that of its parts
	title := fmt.Sprintf("turn %d", v.Index)
	if v.Failed {
		title = red.of("✗ ") + title
	}
	state, st := unfinished(v.State, &t.Span)
	if v.State == session.EndOpen && t.Waiting != "" {
		state = "waiting for " + words(string(t.Waiting))
	}
	n.part(plainText, title)
	n.part(plainText, words(string(v.Trigger)))
	n.part(dim, words(string(v.Purpose)))
	n.part(st, state)
	if at := r.m.history.Hidden(t.Turn); v.Hidden && r.m.history.Run(t.run).Hidden.IsZero() {
		n.part(yellow, "rewound "+r.since(at))
	}
	n.part(plainText, Clean(v.StopReason))
	if v.Attempts > 1 {
		n.part(yellow, fmt.Sprintf("%d attempts", v.Attempts))
	}
	n.part(yellow, count(t.DiscardedAttempts, "discarded"))
	if v.Model != r.model {
		n.part(dim, Clean(v.Model))
	}
	n.part(dim, r.cost(t.run, t.Turn))

	r.asked(n, v)
	if v.System != nil && v.System.Block != r.system {
		r.system = v.System.Block
		if text, ok := r.text(v.System); ok {
			r.content(n, "system", dim, text)
		}
	}
	r.messages(n, v.Capture, slices.DeleteFunc(v.Input, func(s MessageText) bool { return s.outside }), "input", t.Start)
	r.answer(n, v)
	return n
}

// calls draws the tool calls of a turn or a run.
func (r *renderer) calls(v *TurnView) (out []*node) {
	for i := range v.ToolCalls {
		out = append(out, r.call(&v.ToolCalls[i]))
	}
	return out
}

// others draws the compactions of a turn or a run, then its decisions.
func (r *renderer) others(v *TurnView) (out []*node) {
	for i := range v.Compactions {
		out = append(out, r.compaction(&v.Compactions[i]))
	}
	for i := range v.Permissions {
		out = append(out, r.permission(&v.Permissions[i]))
	}
	return out
}

// asked draws what the model was asked: in a few lines, or with all numbers where the turn is shown alone.
func (r *renderer) asked(n *node, v *TurnView) {
	t := v.of
	alone := r.o.Turn == t.Turn
	sent := v.Messages > 0 || len(v.Requests) > 0
	if alone {
		r.figures(n, v)
	} else if text := joined(separator, settings(t.Turn)...); text != joined(separator, settings(t.before)...) {
		if text != "" || sent {
			n.wrapped("params", dim, cmp.Or(text, "none stated"))
		}
	}
	r.request(n, v, alone)
	if !alone {
		return
	}
	if v.PromptDigest != "" {
		n.wrapped("prompt", dim, Clean(v.PromptDigest))
	} else if sent {
		n.line("prompt", dim, "digest not recorded")
	}
	if v.Offered != nil {
		text := cmp.Or(Clean(strings.Join(v.Offered, ", ")), "none")
		n.items = append(n.items, item{label: "offered", style: dim, text: text, lines: maxRules})
	} else if sent {
		n.line("offered", dim, StateNotRecorded)
	}
	if len(v.Called) > 0 {
		n.wrapped("called", dim, Clean(strings.Join(v.Called, ", ")))
	}
	r.rules(n, t.run, t.Start, true)
}

// request draws in one line how large the request was, how much of it was new, whether prompt and tools changed, and
// what was kept back.
func (r *renderer) request(n *node, v *TurnView, alone bool) {
	t := v.of
	out := []string{some(int(v.Messages), "message")}
	if v.Bytes > 0 {
		out = append(out, Bytes(v.Bytes))
	}
	if q := t.LastRequest(); q != nil && q.Messages != nil && q.Messages.Complete {
		out = append(out, fmt.Sprintf("%d new", v.Requests[len(v.Requests)-1].New))
	}
	if v.Capture == spans.CaptureDigests {
		out = append(out, "digests")
	}
	out = append(out, count(t.Redacted, "redacted"))
	if withheld, ok := t.Extra[string(spans.CaptureWithheldKey)].(int64); ok {
		out = append(out, count(withheld, "withheld"))
	}
	change := map[bool]string{true: " (changed)"}
	if v.PromptDigest != "" && v.PromptDigest != t.before.PromptDigest && !alone {
		out = append(out, "prompt "+Clean(prefix(v.PromptDigest, 8))+change[v.PromptChanged])
	}
	if digest := t.ToolsDigest(); digest != "" && digest != t.before.ToolsDigest() && !alone {
		tools := "tools " + Clean(prefix(digest, 8))
		switch {
		case len(v.Offered) > 0:
			tools = plural(len(v.Offered), "tool")
		case v.Offered != nil:
			tools = "no tools"
		}
		out = append(out, tools+change[v.ToolsChanged])
	}
	if text := joined(separator, out...); text != "" {
		n.wrapped("request", dim, text)
	}
}

// answer draws the reply of a turn, its calls, and what else happened, by time.
func (r *renderer) answer(n *node, v *TurnView) {
	var firstCall, decided time.Time
	for i := range v.ToolCalls {
		if at := v.ToolCalls[i].Start; firstCall.IsZero() || at.Before(firstCall) {
			firstCall = at
		}
	}
	var before, after []*node
	for i, k := range r.others(v) {
		if !firstCall.IsZero() && !k.span.Start.Before(firstCall) {
			after = append(after, k)
			continue
		}
		if before = append(before, k); len(after) == 0 && i >= len(v.Compactions) {
			decided = k.span.Start
		}
	}
	// Events until the last decision and the last discarded reply happened before the reply.
	early := len(v.Events)
	for early > 0 {
		e := &v.Events[early-1]
		if e.Type == noteDiscarded || e.of.Type != "" && !e.At.After(decided) {
			break
		}
		early--
	}
	for i := range v.Events[:early] {
		k := &node{span: session.Span{Start: v.Events[i].At, Seq: v.Events[i].of.Seq}}
		r.events(k, v.Events[i:i+1])
		before = append(before, k)
	}
	for _, k := range merge(nil, before) {
		if k.head == nil { // an event
			n.items = append(n.items, k.items...)
		} else {
			n.add(k)
		}
	}
	// The loop may discard the reply of an open turn, unless its tools run.
	log, at := "", n.at
	if n.over || !v.of.Partial && len(v.ToolCalls) > 0 {
		log = fmt.Sprint("output ", v.Partial)
	}
	if !firstCall.IsZero() && firstCall.Before(at) {
		at = firstCall // the reply asked for it
	}
	r.messages(n, v.Capture, v.Output, log, at)
	if v.Partial {
		text := "the reply stops where it was last seen"
		if v.State == session.EndOpen {
			text = "the reply so far"
		}
		n.line("partial", yellow, text).end = true
	}
	if v.Error != "" {
		n.wrapped("error", red, Clean(v.Error)).end = true
	}
	calls := r.calls(v)
	r.events(n, v.Events[early:])
	r.findings(n, v.Findings)
	for _, k := range merge(calls, after) {
		n.add(k)
	}
}

// noteDiscarded is the type of the event of a discarded reply, as the adapter writes it.
const noteDiscarded = "attempt.discarded"

// unfinished says why a turn or a call is not whole; empty for one that ended as its loop says.
func unfinished(state string, s *session.Span) (string, style) {
	switch {
	case state == session.EndMissing:
		return "did not arrive", yellow
	case state == session.EndOpen:
		return "running", yellow
	case s.Known == spans.KnownClosed:
		return "no end seen", red
	case state == session.EndClosed: // its process is gone
		return "stopped", yellow
	}
	return "", plainText
}

// plainFormat is the default response format, which is not shown.
const plainFormat = "text"

// settings are the parameters of a turn's request that have a name of their own.
func settings(t *session.Turn) []string {
	out := []string{prefixed("variant ", Clean(t.Variant))}
	if t.Temperature != nil {
		out = append(out, "temperature "+strconv.FormatFloat(*t.Temperature, 'g', -1, 64))
	}
	out = append(out, prefixed("reasoning ", Clean(t.Level)))
	if t.MaxTokens != nil {
		out = append(out, "max output "+Count(*t.MaxTokens))
	}
	if t.Format != plainFormat {
		out = append(out, prefixed("format ", Clean(t.Format)))
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// figures draws the numbers of a turn that is shown alone, since a narrow screen has no columns for them.
func (r *renderer) figures(n *node, v *TurnView) {
	t, run := v.of.Turn, v.of.run
	line := func(label string, parts ...string) {
		if text := joined(separator, parts...); text != "" {
			n.wrapped(label, dim, text)
		}
	}
	asked, answered := Clean(cmp.Or(t.Model, run.Model)), Clean(t.Answered)
	switch {
	case answered == asked:
		answered = ""
	case answered != "" && asked != "":
		asked, answered = asked+" asked", answered+" answered"
	}
	line("model", append([]string{asked, answered, Clean(cmp.Or(t.Provider, run.Provider))}, settings(t)...)...)
	u := &t.Usage
	if !v.UsageReported {
		line("tokens", "not reported")
	} else {
		n := func(n int64) string { return tokenCount(u.LowerBound, n) }
		line("tokens", n(u.Input)+" in", n(u.CacheRead)+" cache read", n(u.CacheWrite)+" cache write",
			n(u.Output)+" out", n(u.Reasoning)+" reasoning")
	}
	if t.DiscardedAttempts > 0 {
		words := []string{plural(int(t.DiscardedAttempts), "reply") + " thrown away"}
		if d := t.Discarded; d != nil {
			words = append(words, usageWords(*d)...)
		}
		line("besides", words...)
	}
	line("cost", r.costOf(run, t)...)
	var times []string
	for _, d := range []struct {
		what string
		took time.Duration
	}{
		{"model ", time.Duration(t.ModelCallNS)}, {"first chunk after ", time.Duration(t.FirstChunkNS)},
		{"tools ", inTools(t.ToolCalls)},
	} {
		if d.took > 0 {
			times = append(times, d.what+Duration(d.took))
		}
	}
	line("time", times...)
	failure := words(v.ErrorType)
	if failure == Clean(t.StopReason) {
		failure = ""
	}
	line("stop", Clean(t.StopReason), some(int(t.Attempts), "attempt"), failure)
}
