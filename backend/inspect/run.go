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

// group returns the parallel group that a run belongs to.
func (r *renderer) group(run *session.Run) *session.Group {
	if i := slices.IndexFunc(r.main.Groups, func(g *session.Group) bool {
		return !run.GroupStart.IsZero() && g.Start.Equal(run.GroupStart)
	}); i >= 0 {
		return r.main.Groups[i]
	}
	return nil
}

func (r *renderer) members(g *session.Group) []place {
	var out []place
	for i, run := range r.main.Runs {
		if !r.spawned(run) && r.group(run) == g {
			out = append(out, place{r.main, run, i + 1})
		}
	}
	return out
}

func (r *renderer) groupNode(g *session.Group) *node {
	members := r.members(g)
	what := plural(len(members), "run")
	if named := len(g.Members); named > 0 && len(members) == 0 {
		what = plural(named, "run") + ", of which none is here"
	}
	n := &node{head: []string{bold.of("∥ parallel"), what, runStatus(g.Status, "")}, cols: r.cols(g.Span), id: "group"}
	if g.Missing {
		n.line("defect", yellow, "what was said of the group as a whole did not arrive")
	}
	if e := g.Evaluation; e != nil {
		n.line("judge", dim, fmt.Sprintf("%s in, %s out, as reported", Count(e.Input), Count(e.Output)))
	}
	r.findings(n, findings(g.Defects))
	for _, m := range members {
		n.add(r.run(m))
	}
	return n
}

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
	run := p.run
	r.placed[run] = true
	m, model, lasted, over, stopped := r.m, r.model, r.lasted, r.over, r.stopped
	defer func() { r.m, r.model, r.lasted, r.over, r.stopped = m, model, lasted, over, stopped }()
	if p.tree.Session != r.main.Session {
		system := r.system
		defer func() { r.system = system }()
	}
	r.m, r.model = r.docs(p.tree), run.Model
	v := r.m.run(p)
	if r.lasted = 0; run.StartKnown() {
		r.lasted = cmp.Or(run.End, lastOf(run)).Sub(run.Start)
	}
	r.stopped, r.over = v.Status != spans.RunStatusOpen, over || v.Status != run.Status // its process is gone
	n := &node{cols: tokens(r.cols(run.Span), v.UsageReported, &v.Usage), span: run.Span, run: run}
	n.over, n.at = r.stopped || r.over, cmp.Or(run.End, run.Seen, run.Start)
	n.begin = []string{"", dim.of(Clean(run.Agent)), dim.of(Clean(run.Model))}
	title := fmt.Sprintf("run %d", p.n)
	if p.tree.Session != r.main.Session {
		n.begin[0] = "session " + Clean(p.tree.ID)
		if title = "sub-agent " + title; len(p.tree.Runs) == 1 {
			title = "sub-agent"
		}
	} else if r.spawned(run) && r.group(run) == nil {
		title = "sub-agent " + title
	}
	n.part(bold, title)
	if v.Group != string(spans.GroupRoleMember) {
		n.part(cyan, Clean(v.Group))
	}
	n.part(plainText, runStatus(v.Status, v.Word))
	if v.Copied {
		n.part(dim, "taken over by the fork, counted where it came from")
	}
	if !isForeign(run.Recording) { // the header says so
		n.part(dim, prefixed("from a ", Clean(string(run.Recording))))
	}
	n.part(plainText, continues(v))
	n.part(dim, Clean(v.Model))
	if at := r.m.history.Run(run).Hidden; v.Hidden {
		n.part(yellow, "rewound "+r.since(at))
		if !r.o.Hidden && r.o.Run == nil {
			n.line("", dim, plural(v.Turns, "turn")+" not shown; --hidden shows what was rewound")
			r.hid = true
			return n
		}
	}
	r.runLines(n, p, v)
	var kids []*node
	if r.o.Run != run || r.o.Turn == nil {
		kids = append(r.calls(&v.own), r.others(&v.own)...)
		for _, k := range r.strays[run] { // nothing says which turn spawned them
			if !r.placed[k.run] {
				kids = append(kids, r.run(k))
			}
		}
	}
	for _, k := range merge(r.turns(p), kids) {
		n.add(k)
	}
	return n
}

// runLines draws properties and messages of a run.
func (r *renderer) runLines(n *node, p place, v *runView) {
	run := p.run
	if p.tree.Session != r.main.Session {
		n.line("session", dim, Clean(p.tree.ID))
	}
	id := Clean(run.ID)
	if short, ok := strings.CutPrefix(run.ID, p.tree.ID); ok && strings.HasPrefix(short, ".") {
		id = "…" + Clean(short)
	}
	n.line("id", dim, id)
	if v.Agent != "" && v.Agent != cmp.Or(r.main.Agent, r.main.AgentID) {
		n.line("agent", dim, Clean(v.Agent))
	}
	switch {
	case run.Known == spans.KnownClosed:
		n.wrapped("aborted", red, "its end was never seen; last seen "+r.clock(run.End)).end = true
	case v.Status != run.Status:
		n.wrapped("aborted", red, "its process sends no heartbeat; last seen "+r.clock(lastOf(run))).end = true
	case run.Status == spans.RunStatusOpen:
		last := lastOf(run)
		what := "no end yet"
		if run.Missing { // it may be over, and its span lost
			what = "its end was not seen yet"
		}
		n.wrapped("open", yellow, joined(", ", what+"; last seen "+r.clock(last), ago(last, r.o.Now)))
	}
	decided := func(q *session.Permission) bool { return q.Reason == run.Rejection }
	if run.Rejection != "" && !slices.ContainsFunc(run.Permissions, decided) {
		n.wrapped("reason", red, Clean(run.Rejection)).end = true
	}
	if run.Error != "" {
		n.wrapped("error", red, Clean(run.Error)).end = true
	}
	if r.o.Turn == nil && len(slices.Collect(run.Calls())) > 0 {
		r.rules(n, run, run.Start, false)
	}
	r.messages(n, run.Capture, v.own.Input, "outside", run.Start)
	r.events(n, v.own.Events)
	r.findings(n, v.Defects)
}

// turns draws the turns of a run, those that are no part of the conversation last. Rewound ones are one line, unless
// Options.Hidden is set.
func (r *renderer) turns(p place) (out []*node) {
	var since time.Time
	var first, last *session.Turn
	flush := func() {
		if first == nil {
			return
		}
		what := fmt.Sprintf("turn %d", first.Index)
		if first != last {
			what = fmt.Sprintf("turns %d to %d", first.Index, last.Index)
		}
		text := "↶ " + what + ": rewound " + r.since(since) + ", shown with --hidden"
		out = append(out, &node{head: []string{yellow.of(text)}, span: first.Span})
		r.hid, first = true, nil
	}
	other := func(t *session.Turn) bool { return !t.Utility() }
	for _, t := range append(slices.Clone(p.run.Conversation()), slices.DeleteFunc(slices.Clone(p.run.Turns), other)...) {
		at := r.m.history.Hidden(t)
		switch {
		case r.o.Run == p.run && r.o.Turn != nil && r.o.Turn != t:
		case !at.IsZero() && !r.o.Hidden && r.o.Run == nil:
			if first == nil {
				first, since = t, at
			}
			last = t
		default:
			flush()
			out = append(out, r.turn(r.m.turn(r.m.at[t])))
		}
	}
	flush()
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

// lastOf is the time of the last span of a run.
func lastOf(run *session.Run) time.Time {
	last := run.Start
	for n := range run.Walk() {
		for _, t := range []time.Time{n.Span().Start, n.Span().End, n.Span().Seen} {
			if n.Kind() != session.KindRun && t.After(last) {
				last = t
			}
		}
	}
	return last
}

// merge puts others, by start, between what is ordered already.
func merge(ordered, others []*node) []*node {
	slices.SortStableFunc(others, func(a, b *node) int {
		return cmp.Or(a.span.Start.Compare(b.span.Start), cmp.Compare(a.span.Seq, b.span.Seq))
	})
	var out []*node
	for _, n := range ordered {
		for len(others) > 0 && others[0].span.Start.Before(n.span.Start) {
			out, others = append(out, others[0]), others[1:]
		}
		out = append(out, n)
	}
	return append(out, others...)
}

// runStatus is the status of a run in words, with the word of its loop where that is another one.
func runStatus(s spans.RunStatus, word string) string {
	st := red
	switch s {
	case spans.RunStatusCompleted:
		st = green
	case spans.RunStatusOpen:
		st = yellow
	}
	text := st.of(Clean(string(s)))
	if text != "" && word != "" && !strings.EqualFold(word, string(s)) {
		text += dim.of(" (" + Clean(word) + ")")
	}
	return text
}
