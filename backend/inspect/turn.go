package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/stats"
	"github.com/otelagent/otelagent/spans"
)

func (r *renderer) turn(v *TurnView) *node {
	t := v.of
	n := r.node(t.Span, fmt.Sprint("turn ", t.Index))
	n.cols = tokens(n.cols, v.UsageReported, &v.Usage)
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
	if v.Hidden && r.m.history.Run(t.run).Hidden.IsZero() {
		n.part(yellow, "rewound "+r.since(r.m.history.Hidden(t.Turn)))
	}
	n.part(plainText, Clean(v.StopReason))
	if v.Attempts > 1 {
		n.part(yellow, fmt.Sprintf("%d attempts", v.Attempts))
	}
	n.part(yellow, count(t.DiscardedAttempts, "discarded"))
	if v.Model != r.model {
		n.part(dim, Clean(v.Model))
	}
	n.part(dim, strings.TrimSuffix(append(r.costOf(t), "")[0], " reported"))

	r.asked(n, v)
	if key := "system " + t.tree.ID; v.System != nil && v.System.Block != r.shown[key] {
		r.shown[key] = v.System.Block
		if text, ok := r.text(v.System); ok {
			r.content(n, "system", dim, text)
		}
	}
	r.messages(n, v.Capture, slices.DeleteFunc(v.Input, func(s MessageText) bool { return s.outside }), "input", t.Start)
	// The loop may discard the reply of an open turn, unless its tools run.
	log, at := "", n.at
	if n.over || !t.Partial && len(v.ToolCalls) > 0 {
		log = fmt.Sprint("output ", t.Partial)
	}
	for i := range v.ToolCalls { // the reply asked for it
		if start := v.ToolCalls[i].Start; !start.IsZero() && start.Before(at) {
			at = start
		}
	}
	r.messages(n, v.Capture, v.Output, log, at)
	switch {
	case v.Partial && v.State == session.EndOpen:
		n.wrapped("partial", yellow, "the reply so far").end = true
	case v.Partial:
		n.wrapped("partial", yellow, "the reply stops where it was last seen").end = true
	}
	n.wrapped("error", red, Clean(v.Error)).end = true
	r.events(n, v.Events)
	r.findings(n, v.Findings)
	n.kids = merge(nil, r.below(v))
	return n
}

// below draws the tool calls of a turn or a run, its compactions, and its decisions.
func (r *renderer) below(v *TurnView) (out []*node) {
	for i := range v.ToolCalls {
		out = append(out, r.call(&v.ToolCalls[i]))
	}
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
	t, alone := v.of, r.o.Turn == v.of.Turn
	line := func(label string, parts ...string) { n.wrapped(label, dim, joined(separator, parts...)) }
	sent := v.Messages > 0 || len(v.Requests) > 0
	text := joined(separator, settings(t.Turn)...)
	switch {
	case alone:
		r.figures(line, v)
	case text != joined(separator, settings(t.before)...) && (text != "" || sent):
		line("params", cmp.Or(text, "none stated"))
	}
	request := []string{some(int(v.Messages), "message")}
	if v.Bytes > 0 {
		request = append(request, Bytes(v.Bytes))
	}
	if q := t.LastRequest(); q != nil && q.Messages != nil && q.Messages.Complete {
		request = append(request, fmt.Sprintf("%d new", v.Requests[len(v.Requests)-1].New))
	}
	if v.Capture == spans.CaptureDigests {
		request = append(request, "digests")
	}
	withheld, _ := t.Extra[string(spans.CaptureWithheldKey)].(int64)
	request = append(request, count(t.Redacted, "redacted"), count(withheld, "withheld"))
	offered := StateNotRecorded
	if v.Offered != nil {
		offered = cmp.Or(Clean(strings.Join(v.Offered, ", ")), "none")
	}
	if !alone {
		line("request", append(request, r.changes(v)...)...)
		return
	}
	line("request", request...)
	if sent || v.PromptDigest != "" {
		line("prompt", cmp.Or(Clean(v.PromptDigest), "digest not recorded"))
	}
	if sent || v.Offered != nil {
		n.text("offered", dim, offered, maxRules)
	}
	line("called", Clean(strings.Join(v.Called, ", ")))
	r.rules(n, t.run, t.Start, true)
}

// changes names the system prompt and the tools of a turn that are not those of the turn before.
func (r *renderer) changes(v *TurnView) (out []string) {
	t, change := v.of, map[bool]string{true: " (changed)"}
	if v.PromptDigest != "" && v.PromptDigest != t.before.PromptDigest {
		out = append(out, "prompt "+Clean(prefix(v.PromptDigest, 8))+change[v.PromptChanged])
	}
	if digest := t.ToolsDigest(); digest != "" && digest != t.before.ToolsDigest() {
		tools := "tools " + Clean(prefix(digest, 8))
		if v.Offered != nil {
			tools = cmp.Or(some(len(v.Offered), "tool"), "no tools")
		}
		out = append(out, tools+change[v.ToolsChanged])
	}
	return out
}

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
	temperature, most, format := "", "", Clean(t.Format)
	if t.Temperature != nil {
		temperature = strconv.FormatFloat(*t.Temperature, 'g', -1, 64)
	}
	if t.MaxTokens != nil {
		most = Count(*t.MaxTokens)
	}
	if format == plainFormat {
		format = ""
	}
	return []string{prefixed("variant ", Clean(t.Variant)), prefixed("temperature ", temperature),
		prefixed("reasoning ", Clean(t.Level)), prefixed("max output ", most), prefixed("format ", format)}
}

// figures draws the numbers of a turn that is shown alone, since a narrow screen has no columns for them.
func (r *renderer) figures(line func(label string, parts ...string), v *TurnView) {
	t, run := v.of.Turn, v.of.run
	asked, answered := Clean(cmp.Or(t.Model, run.Model)), Clean(t.Answered)
	switch {
	case answered == asked:
		answered = ""
	case answered != "" && asked != "":
		asked, answered = asked+" asked", answered+" answered"
	}
	line("model", append([]string{asked, answered, Clean(cmp.Or(t.Provider, run.Provider))}, settings(t)...)...)
	u := &t.Usage
	if n := func(n int64) string { return tokenCount(u.LowerBound, n) }; v.UsageReported {
		line("tokens", n(u.Input)+" in", n(u.CacheRead)+" cache read", n(u.CacheWrite)+" cache write",
			n(u.Output)+" out", n(u.Reasoning)+" reasoning")
	} else {
		line("tokens", "not reported")
	}
	if t.DiscardedAttempts > 0 {
		discarded := []string{plural(int(t.DiscardedAttempts), "reply") + " thrown away"}
		if d := t.Discarded; d != nil {
			discarded = append(discarded, usageWords(*d)...)
		}
		line("besides", discarded...)
	}
	line("cost", r.costOf(v.of)...)
	measured := func(what string, ns int64) string {
		if ns <= 0 {
			return ""
		}
		return what + Duration(time.Duration(ns))
	}
	line("time", measured("model ", t.ModelCallNS), measured("first chunk after ", t.FirstChunkNS))
	failure := words(v.ErrorType)
	if failure == Clean(t.StopReason) {
		failure = ""
	}
	line("stop", Clean(t.StopReason), some(int(t.Attempts), "attempt"), failure)
}

// costOf returns the costs of a turn: as its loop reported it, and as computed by the price catalogue.
func (r *renderer) costOf(t *viewTurn) (out []string) {
	if t.Cost != nil {
		out = append(out, money(t.Currency, *t.Cost)+" reported")
	}
	if r.o.Prices != nil {
		x := session.FiguresOfTurn("", t.run, t.Turn)
		if amount, ok := r.o.Prices.Cost(&x); ok {
			out = append(out, money(stats.Currency, amount)+" computed")
		}
	}
	return out
}
