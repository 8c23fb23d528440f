package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// docs returns what makes the documents of a session that is drawn.
func (r *renderer) docs(t session.Tree) *docs {
	m := r.view(t).docs(cmp.Or(r.o.AsOf, t.Last))
	m.drawn, m.text, m.most = true, maxScan+8, maxLines // enough for Clean to see that it cuts
	switch {
	case r.o.Turn != nil:
		m.alone, m.text, m.most = true, maxWhole+8, unbounded
	case r.log:
		m.most = unbounded
	}
	return m
}

// run draws a run and all below it.
func (r *renderer) run(p place) *node {
	run, main := p.run, p.tree.Session == r.main.Session
	r.placed[run] = true
	inner := *r
	r = &inner
	r.m, r.model = r.docs(p.tree), run.Model
	v := r.m.run(p)
	r.stopped, r.over = v.Status != spans.RunStatusOpen, r.over || v.Status != run.Status // its process is gone
	n := &node{cols: tokens(r.cols(run.Span), v.UsageReported, &v.Usage), span: run.Span, run: run}
	n.over, n.at = r.stopped || r.over, cmp.Or(run.End, run.Seen, run.Start)
	title := fmt.Sprintf("run %d", p.n)
	switch {
	case !main && len(p.tree.Runs) == 1:
		title = "sub-agent"
	case !main || r.spawned(run) && v.Group == "":
		title = "sub-agent " + title
	}
	n.part(bold, title)
	n.part(cyan, prefixed("parallel ", Clean(v.Group)))
	n.part(plainText, runStatus(v.Status, v.Word))
	if v.Copied {
		n.part(dim, "taken over by the fork, counted where it came from")
	}
	if !run.Foreign() { // the header says so
		n.part(dim, prefixed("from a ", Clean(string(run.Recording))))
	}
	n.part(plainText, continues(v))
	n.part(dim, Clean(v.Model))
	if v.Hidden {
		n.part(yellow, "rewound "+r.since(r.m.history.Run(run).Hidden))
	}
	shown := r.shownTurns(n, p)
	if v.Hidden && len(shown) == 0 {
		return n
	}
	r.runLines(n, p, v)
	var turns, kids []*node
	for _, t := range shown {
		turns = append(turns, r.turn(r.m.turn(r.m.at[t])))
	}
	if r.o.Run != run || r.o.Turn == nil {
		kids = r.below(&v.own)
		for _, k := range r.strays[run] { // nothing says which turn spawned them
			if !r.placed[k.run] {
				kids = append(kids, r.run(k))
			}
		}
	}
	n.kids = merge(turns, kids)
	return n
}

// runLines draws properties and messages of a run.
func (r *renderer) runLines(n *node, p place, v *runView) {
	run := p.run
	if p.tree.Session != r.main.Session {
		n.line("session", dim, Clean(p.tree.ID))
	}
	id := Clean(run.ID)
	if short, ok := strings.CutPrefix(run.ID, p.tree.ID+"."); ok {
		id = "…." + Clean(short)
	}
	n.line("id", dim, id)
	if v.Agent != "" && v.Agent != cmp.Or(r.main.Agent, r.main.AgentID) {
		n.line("agent", dim, Clean(v.Agent))
	}
	switch _, last := run.Alive(); {
	case run.Known == spans.KnownClosed:
		n.wrapped("aborted", red, "its end was never seen; last seen "+r.clock(run.End)).end = true
	case v.Status != run.Status:
		n.wrapped("aborted", red, "its process sends no heartbeat; last seen "+r.clock(last)).end = true
	case run.Status == spans.RunStatusOpen:
		n.wrapped("open", yellow, joined(", ", "no end yet; last seen "+r.clock(last), ago(last, r.o.Now)))
	}
	if !slices.ContainsFunc(run.Permissions, func(q *session.Permission) bool { return q.Reason == run.Rejection }) {
		n.wrapped("reason", red, Clean(run.Rejection)).end = true
	}
	n.wrapped("error", red, Clean(run.Error)).end = true
	if r.o.Turn == nil && len(slices.Collect(run.Calls())) > 0 {
		r.rules(n, run, run.Start, false)
	}
	r.messages(n, run.Capture, v.own.Input, "outside", run.Start)
	r.events(n, v.own.Events)
	r.findings(n, v.Defects)
}

// shownTurns returns the turns of a run that are drawn, those that are no part of the conversation last. It only counts
// rewound ones, unless Options.Hidden is set.
func (r *renderer) shownTurns(n *node, p place) (out []*session.Turn) {
	hidden, other := 0, func(t *session.Turn) bool { return !t.Utility() }
	for _, t := range slices.Concat(p.run.Conversation(), slices.DeleteFunc(slices.Clone(p.run.Turns), other)) {
		switch {
		case r.o.Run == p.run && r.o.Turn != nil && r.o.Turn != t:
		case !r.m.history.Hidden(t).IsZero() && !r.o.Hidden && r.o.Run == nil:
			hidden++
		default:
			out = append(out, t)
		}
	}
	if hidden > 0 {
		n.line("rewound", yellow, plural(hidden, "turn")+" not shown; --hidden shows what was rewound")
	}
	return out
}

// continues returns how a run relates to an earlier one of its session.
func continues(v *runView) string {
	word := Clean(v.Relation) + " of"
	switch session.Relation(v.Relation) {
	case "", session.RelationSubAgent:
		return ""
	case session.RelationContinues:
		word = "continues"
	}
	if v.Parent == 0 {
		return word + " another run"
	}
	return fmt.Sprintf("%s run %d", word, v.Parent)
}

// runStatus is the status of a run in words, with the word of its loop where that is another one.
func runStatus(s spans.RunStatus, word string) string {
	st := cmp.Or(map[spans.RunStatus]style{spans.RunStatusCompleted: green, spans.RunStatusOpen: yellow}[s], red)
	text := st.of(Clean(string(s)))
	if text != "" && word != "" && !strings.EqualFold(word, string(s)) {
		text += dim.of(" (" + Clean(word) + ")")
	}
	return text
}
