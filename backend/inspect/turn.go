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

func (r *renderer) turn(p place, t *session.Turn) *node {
	n := &node{cols: r.cols(t.Span, reported(t.UsageTold(), &t.Usage)), addr: turnAddress(p, t), bar: r.turnBar(t)}
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
	add(r.turnState(p, t))
	if at := r.history(p.tree).Hidden(t); !at.IsZero() && r.history(p.tree).Run(p.run).Hidden.IsZero() {
		add("rewound "+r.since(at), yellow)
	}
	add(t.StopReason, plainText)
	if t.Attempts > 1 {
		add(fmt.Sprintf("%d attempts", t.Attempts), yellow)
	}
	if t.DiscardedAttempts > 0 {
		add(fmt.Sprintf("%d discarded", t.DiscardedAttempts), yellow)
	}
	model := cmp.Or(t.Answered, t.Model)
	if model != r.lead {
		add(model, dim)
	}
	add(r.cost(p.run, t), dim)

	whole := r.o.Turn == t
	if whole {
		r.figures(n, p, t)
	} else {
		r.settingsLine(n, p, t)
	}
	r.request(n, p, t)
	if whole {
		r.promptLine(n, p, t)
		r.catalogue(n, p, t)
		r.rulesInForce(n, p)
	}
	r.systemPrompt(n, p, t)
	r.messages(n, p, t.Capture, told(p, t))

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
		put(timed{span: c.Span, node: r.compaction(p, c)})
	}
	decisions := len(before)
	for _, k := range r.decisions(t) {
		put(k)
	}
	early, late, more := r.beforeReply(t, before[decisions:])
	for i := range early {
		before = append(before, timed{span: session.Span{Start: early[i].Time, Seq: early[i].Seq}, note: &early[i]})
	}
	for _, k := range merge(nil, before) {
		if k.note != nil {
			r.events(n, p, []session.Note{*k.note})
		} else {
			n.add(k.node)
		}
	}
	r.messages(n, p, t.Capture, t.Output)
	if t.Partial && !t.Replied {
		n.line("partial", yellow, map[bool]string{true: "the reply so far", false: "the reply stops where it was last seen"}[t.End.IsZero() && r.running(p) == wordRunning])
	}
	if t.Error != "" {
		n.wrapped("error", red, Clean(t.Error))
	}
	var calls []timed
	for _, c := range t.ToolCalls {
		calls = append(calls, timed{span: c.Span, node: r.call(p, c)})
	}
	r.events(n, p, late)
	if more > 0 {
		n.line("", dim, "and "+plural(more, "more event"))
	}
	r.defects(n, t.Defects)
	for _, k := range merge(calls, after) {
		n.add(k.node)
	}
	return n
}

// told returns what was new for the model on a turn, without what stands elsewhere: replies of the turn before, and what the run was told.
func told(p place, t *session.Turn) *session.Refs {
	if t.Input.Len() > 0 || len(t.Requests) == 0 || p.tree.Blocks == nil {
		return t.Input
	}
	outside := map[string]bool{}
	for _, ref := range p.run.Outside.Items() {
		outside[p.tree.Blocks.Same(ref)] = true
	}
	return session.NewRefs(slices.DeleteFunc(slices.Clone(input(&viewTurn{place: p, Turn: t})), func(ref session.Ref) bool {
		if outside[p.tree.Blocks.Same(ref)] {
			return true
		}
		body, ok := p.tree.Blocks.Body(ref)
		return ok && slices.ContainsFunc(sayings(body), func(s saying) bool { return s.label == session.ByModel || s.label == string(session.SaidThinking) })
	})...)
}

// request says in one line what the model was sent, how much of it is new, whether prompt and tools changed, and what was kept back.
func (r *renderer) request(n *node, p place, t *session.Turn) {
	var out []string
	add := func(text string) {
		if text != "" {
			out = append(out, text)
		}
	}
	if t.RequestMessages > 0 {
		add(plural(int(t.RequestMessages), "message"))
	}
	if t.RequestBytes > 0 {
		add(Bytes(t.RequestBytes))
	}
	if k := len(t.Requests); k > 0 {
		if m := t.Requests[k-1].Messages; m != nil && m.Complete {
			add(fmt.Sprintf("%d new", r.news(t, t.Requests[k-1])))
		}
	}
	if t.Capture == spans.CaptureDigests {
		add("digests")
	}
	if t.Redacted > 0 {
		add(fmt.Sprintf("%d redacted", t.Redacted))
	}
	if withheld, ok := t.Extra[string(spans.CaptureWithheldKey)].(int64); ok && withheld > 0 {
		add(fmt.Sprintf("%d withheld", withheld))
	}
	if prompt, told := digestNews(t.PromptDigest, &r.prompt); told != "" && r.o.Turn != t {
		add("prompt " + strings.TrimSuffix(prompt+told, " "))
	}
	if tools, told := digestNews(t.ToolsDigest(), &r.tools); told != "" && r.o.Turn != t {
		names, ok := offered(p.tree, t)
		switch {
		case ok && len(names) == 0:
			tools = "no tools"
		case ok:
			tools = plural(len(names), "tool")
		default:
			tools = "tools " + tools
		}
		add(strings.TrimSuffix(tools+told, " "))
	}
	if len(out) > 0 {
		n.wrapped("request", dim, strings.Join(out, separator))
	}
}

// turnState says in a few words what keeps a turn from being whole; nothing of one that ended as its loop says.
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

// digestNews returns the beginning of a digest, and what is to be told of it: a blank when it is the first one, that it changed when it is
// another than the last one, else nothing.
func digestNews(digest string, last *string) (short, told string) {
	switch {
	case digest == "", digest == *last:
		return "", ""
	case *last != "":
		told = " (changed)"
	default:
		told = " "
	}
	*last = digest
	return Clean(prefix(digest, 8)), told
}

// running says of a thing without an end whether anybody still works on it.
func (r *renderer) running(p place) string {
	if p.run.StatusAt(r.asOf(p)) == spans.RunStatusOpen {
		return wordRunning
	}
	return "stopped"
}

const wordRunning = "running"

// asOf is the time as of which the status of a run is told.
func (r *renderer) asOf(p place) time.Time {
	if r.o.AsOf.IsZero() {
		return p.tree.Last
	}
	return r.o.AsOf
}

// earlier returns the last complete request before q that is of another turn than t, which is the turn of q: what an attempt that was thrown away
// asked is no less new on the turn. It is nil where there is none. same is how many first messages both are known to have in common.
func earlier(t *session.Turn, q *session.Request) (before *session.Request, same int64) {
	if q.Messages != nil {
		same = q.Messages.Same
	}
	for before = q.Before(); before != nil && slices.Contains(t.Requests, before); before = before.Before() {
		same = min(same, before.Messages.Same)
	}
	return before, same
}

// news returns how many messages of a request of a turn stand nowhere in the last request of another turn before it.
func (r *renderer) news(t *session.Turn, q *session.Request) int {
	before, same := earlier(t, q)
	if before == nil || r.seenIn != before {
		r.seen = map[string]bool{}
		if before != nil {
			for _, ref := range before.Messages.Items() {
				r.seen[ref.Block] = true
			}
		}
	}
	fresh, news := q.Messages.From(same), 0
	for _, ref := range fresh {
		if !r.seen[ref.Block] {
			news++
		}
	}
	if r.seenIn = nil; before == nil || int64(before.Messages.Len()) == same { // nothing left it: a long session costs what is new
		for _, ref := range fresh {
			r.seen[ref.Block] = true
		}
		r.seenIn = q
	}
	return news
}

// turnAddress returns what `show` shows a turn alone by. An id that nobody can type is left to whoever tries.
func turnAddress(p place, t *session.Turn) string {
	id := p.tree.ID
	if id == "" || id != Clean(id) {
		id = "SESSION"
	}
	return session.TurnAddress(id, p.n, t.Index)
}
