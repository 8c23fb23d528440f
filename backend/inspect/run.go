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
	if run.GroupStart.IsZero() {
		return nil
	}
	for _, g := range r.main.Groups {
		if g.Start.Equal(run.GroupStart) {
			return g
		}
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
	n := &node{segs: []seg{{"∥ parallel", bold}, {" · " + what, plainText}}}
	n.segs = append(n.segs, statusSeg(g.Status, "")...)
	n.cols = r.cols(g.Span, nil)
	if g.Missing {
		n.line("defect", yellow, "what was said of the group as a whole did not arrive")
	}
	if e := g.Evaluation; e != nil {
		n.line("judge", dim, fmt.Sprintf("%s in, %s out, as reported", Count(e.Input), Count(e.Output)))
	}
	r.findings(n, findings(g.Defects))
	for _, m := range members {
		role := ""
		switch {
		case m.run.GroupRole == spans.GroupRoleJudge:
			role = "judge"
		case g.SelectedID != "" && m.run.ID == g.SelectedID:
			role = "selected"
		}
		n.add(r.run(m, role))
	}
	return n
}

func (r *renderer) run(p place, role string) *node {
	run := p.run
	r.placed[run] = true
	lead, said, from, to, m := r.lead, r.shownLast, r.from, r.to, r.m
	r.lead = run.Model
	r.m = r.docs(p.tree)
	if p.tree.Session != r.main.Session {
		r.shownLast = shownLast{}
		defer func() { r.shownLast = said }()
	}
	defer func() { r.lead, r.from, r.to, r.m = lead, from, to, m }()
	if r.from, r.to = run.Start, run.End; r.to.IsZero() {
		r.to = lastOf(run)
	}
	if !run.StartTold() {
		r.to = r.from // no bars
	}

	n := &node{cols: r.cols(run.Span, reported(run.UsageTold(), &run.Usage)), bar: r.scale()}
	title := fmt.Sprintf("run %d", p.n)
	if p.tree.Session != r.main.Session {
		title = "sub-agent"
		if len(p.tree.Runs) > 1 {
			title += fmt.Sprintf(" run %d", p.n)
		}
	} else if r.spawned(run) && role == "" {
		title = "sub-agent " + title
	}
	n.segs = append(n.segs, seg{title, bold})
	if role != "" {
		n.segs = append(n.segs, seg{" · " + role, cyan})
	}
	n.segs = append(n.segs, statusSeg(run.StatusAt(r.asOf(p)), run.StatusWord)...)
	if run.Copied {
		n.segs = append(n.segs, seg{" · taken over by the fork, counted where it came from", dim})
	}
	if run.Recording != "" {
		n.segs = append(n.segs, seg{" · from a " + Clean(string(run.Recording)), dim})
	}
	if c := r.continues(p); c != "" {
		n.segs = append(n.segs, seg{" · " + c, plainText})
	}
	if run.Model != "" {
		n.segs = append(n.segs, seg{" · " + Clean(run.Model), dim})
	}
	if at := r.history(p.tree).Run(run).Hidden; !at.IsZero() {
		n.segs = append(n.segs, seg{" · rewound " + r.since(at), yellow})
		if !r.o.Hidden && r.o.Run == nil {
			n.line("", dim, plural(len(run.Turns), "turn")+" not shown; --hidden shows what was rewound")
			r.hid = true
			return n
		}
	}
	if r.o.Timeline {
		r.timelineRun(n, p)
		return n
	}

	if p.tree.Session != r.main.Session {
		n.line("session", dim, Clean(p.tree.ID))
	}
	if short, ok := strings.CutPrefix(run.ID, p.tree.ID); ok && strings.HasPrefix(short, ".") {
		n.line("id", dim, "…"+Clean(short))
	} else {
		n.line("id", dim, Clean(run.ID))
	}
	if agent := cmp.Or(run.Agent, run.AgentID); agent != "" && agent != cmp.Or(r.main.Agent, r.main.AgentID) {
		n.line("agent", dim, Clean(agent))
	}
	switch {
	case run.Known == spans.KnownClosed:
		n.wrapped("aborted", red, "its end was never seen; last seen "+r.clock(run.End))
	case run.Status == spans.RunStatusOpen && run.StatusAt(r.asOf(p)) != spans.RunStatusOpen:
		n.wrapped("aborted", red, "its process was not heard of any more; last seen "+r.clock(lastOf(run)))
	case run.Status == spans.RunStatusOpen:
		last := lastOf(run)
		what := "no end yet"
		if run.Missing { // it may be over, and its span lost
			what = "its end was not seen yet"
		}
		n.wrapped("open", yellow, strings.TrimSuffix(what+"; last seen "+r.clock(last)+", "+ago(last, r.o.Now), ", "))
	}
	decided := func(q *session.Permission) bool { return q.Reason == run.Rejection }
	if run.Rejection != "" && !slices.ContainsFunc(run.Permissions, decided) {
		n.wrapped("reason", red, Clean(run.Rejection))
	}
	if run.Error != "" {
		n.wrapped("error", red, Clean(run.Error))
	}
	if r.o.Turn == nil && len(slices.Collect(run.Calls())) > 0 {
		r.rulesLine(n, p)
	}
	if b := r.branches(p); b != "" {
		n.wrapped("then", dim, b)
	}
	v := r.m.run(p)
	r.messages(n, run.Capture, v.outside)

	var kids []timed
	if r.o.Run != run || r.o.Turn == nil {
		for i := range v.calls {
			kids = append(kids, timed{span: v.calls[i].of.Span, node: r.call(p, &v.calls[i])})
		}
		for i := range v.compactions {
			kids = append(kids, timed{span: v.compactions[i].of.Span, node: r.compaction(&v.compactions[i])})
		}
		for i := range v.permissions {
			kids = append(kids, timed{span: v.permissions[i].of.Span, node: r.permission(&v.permissions[i])})
		}
	}
	var turns []timed
	for _, t := range r.shown(p) {
		if t.turn == nil {
			turns = append(turns, timed{span: t.span, node: &node{segs: []seg{{t.text, yellow}}}})
			continue
		}
		turns = append(turns, timed{span: t.span, node: r.turn(p, t.turn)})
	}
	kids = append(kids, r.strayRuns(p)...)
	r.events(n, v.events)
	r.findings(n, findings(run.Defects))
	for _, k := range merge(turns, kids) {
		n.add(k.node)
	}
	return n
}

// strayRuns draws the spawned runs of a run of which no tool call is known. For one turn there are none: nothing says
// which turn spawned them.
func (r *renderer) strayRuns(p place) []timed {
	if r.o.Turn != nil && r.o.Run == p.run {
		return nil
	}
	var out []timed
	for _, k := range r.strays[p.run] {
		if !r.placed[k.run] {
			out = append(out, timed{span: k.run.Span, node: r.run(k, "")})
		}
	}
	return out
}

// branches returns the runs of the session that branch off from this one, or do its work again.
func (r *renderer) branches(p place) string {
	var out []string
	h := r.history(p.tree)
	for _, b := range h.Branches(p.run) {
		what := "run %d runs it again"
		if h.Run(b).Relation == session.RelationBranch {
			what = "run %d branches off"
		}
		for i, other := range p.tree.Runs {
			if other == b {
				out = append(out, fmt.Sprintf(what, i+1))
			}
		}
	}
	return strings.Join(out, separator)
}

// continues returns how a run relates to an earlier one of its session.
func (r *renderer) continues(p place) string {
	word := ""
	switch p.run.Continuation {
	case "", spans.ContinuationInitial:
		return ""
	case spans.ContinuationDefault:
		word = "continues"
	case spans.ContinuationRerun:
		word = "rerun of"
	case spans.ContinuationBranch:
		word = "branch of"
	case spans.ContinuationCompaction:
		word = "compaction of"
	default:
		word = Clean(string(p.run.Continuation)) + " of"
	}
	n := 0
	for i, other := range p.tree.Runs {
		if other != p.run && other.ID == p.run.ParentID && !other.Start.After(p.run.Start) {
			n = i + 1 // the last one of that id before
		}
	}
	if n == 0 {
		return word + " another run"
	}
	return fmt.Sprintf("%s run %d", word, n)
}

// lastOf is the time of the last span of a run.
func lastOf(run *session.Run) time.Time {
	last := run.Start
	see := func(s session.Span) {
		for _, t := range []time.Time{s.Start, s.End, s.Seen} {
			if t.After(last) {
				last = t
			}
		}
	}
	for _, t := range run.Turns {
		see(t.Span)
	}
	for c := range run.Calls() {
		see(c.Span)
	}
	return last
}

// timed is a node or an event with its times.
type timed struct {
	span  session.Span
	node  *node
	event *EventView
}

// merge puts others, by start, between what is ordered already.
func merge(ordered, others []timed) []timed {
	others = slices.Clone(others)
	slices.SortStableFunc(others, func(a, b timed) int {
		return cmp.Or(a.span.Start.Compare(b.span.Start), cmp.Compare(a.span.Seq, b.span.Seq))
	})
	var out []timed
	for _, t := range ordered {
		for len(others) > 0 && others[0].span.Start.Before(t.span.Start) {
			out, others = append(out, others[0]), others[1:]
		}
		out = append(out, t)
	}
	return append(out, others...)
}

func statusSeg(s spans.RunStatus, word string) []seg {
	if s == "" {
		return nil
	}
	st := red
	switch s {
	case spans.RunStatusCompleted:
		st = green
	case spans.RunStatusOpen:
		st = yellow
	}
	segs := []seg{{" · ", dim}, {Clean(string(s)), st}}
	if word != "" && !strings.EqualFold(word, string(s)) {
		segs = append(segs, seg{" (" + Clean(word) + ")", dim})
	}
	return segs
}
