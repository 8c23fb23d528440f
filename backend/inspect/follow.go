package inspect

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Follower writes a session in progress like a log: a line for each thing that is over. Each Write takes the whole tree
// and writes the lines that are new; a written line never changes. The zero value is not usable.
type Follower struct {
	d *drawer
	o Options
	// written are the keys of lines. They have no starts, which are certain only at the end.
	written map[string]bool
	agents  map[string]int // the numbers of sub-agents by their runs, in their order of appearance

	// Of the current Write:
	*index
	placed map[*session.Run]bool
	keys   map[*session.Run]string
	now    time.Time
	m      *docs  // of the session of the current run
	lead   string // beginning of the lines of a sub-agent
	depth  int
}

// NewFollower returns one that writes to w with Width, Color and Location of o.
func NewFollower(w io.Writer, o Options) *Follower {
	o.Location = cmp.Or(o.Location, time.UTC)
	return &Follower{d: newDrawer(w, o), o: o, written: map[string]bool{}, agents: map[string]int{}}
}

// Write writes the new lines of a tree in its order: user messages, replies, tool calls, decisions, compactions, turns
// and runs that are over. Related are other sessions. Spawned runs of theirs and of the tree have numbered lines below
// their parents. Where only is not nil, it writes that run and its sub-agents. With over, for the last Write, and for a
// run whose process is gone, it also writes what never ended, as it was last seen. Write keeps no tree. The error is
// that of the writer; after the first one it writes nothing.
func (f *Follower) Write(
	t session.Tree, related []session.Tree, only *session.Run, now time.Time, over bool,
) error {
	f.index, f.placed, f.keys, f.now = newIndex(t, related), map[*session.Run]bool{}, map[*session.Run]string{}, now
	defer func() { f.index, f.placed, f.keys, f.m = nil, nil, nil, nil }()
	for _, tree := range append([]session.Tree{t}, related...) {
		runKeys(tree.Session, f.keys)
	}
	for _, first := range []bool{true, false} { // then runs that claim each other, or whose parent is left out
		for i, run := range t.Runs {
			if run == only && first || only == nil && !f.placed[run] && !(first && f.spawned(run)) {
				name := bold.of(fmt.Sprintf("run %d", i+1))
				f.run(place{t, run, i + 1}, name, []string{name}, over)
			}
		}
	}
	return f.d.err
}

// runKeys names the runs of a session by their ids. Numbers distinguish ids that a loop uses again.
func runKeys(s *session.Session, keys map[*session.Run]string) {
	nth := map[string]int{}
	for _, run := range s.Runs {
		keys[run] = fmt.Sprintf("%q %q %d", s.ID, run.ID, nth[run.ID])
		nth[run.ID]++
	}
}

// mostIndents bounds the indent of nested sub-agents.
const mostIndents = 4

// subAgent writes the lines of a spawned run, each with its number. by names the call that spawned it.
func (f *Follower) subAgent(p place, by string, over bool) {
	if f.placed[p.run] {
		return
	}
	n, ok := f.agents[f.keys[p.run]]
	if !ok {
		n = len(f.agents) + 1
		f.agents[f.keys[p.run]] = n
	}
	lead := f.lead
	defer func() { f.lead, f.depth = lead, f.depth-1 }()
	f.depth++
	f.lead = strings.Repeat("  ", min(f.depth, mostIndents)) + fmt.Sprintf("%d│ ", n)

	name, other, run := bold.of(fmt.Sprintf("sub-agent %d", n)), "", ""
	if p.tree.Session != f.main.Session {
		other = "session " + Clean(p.tree.ID)
	}
	if other == "" || len(p.tree.Runs) > 1 {
		run = fmt.Sprintf("run %d", p.n)
	}
	f.run(p, name, []string{name, run, prefixed("by ", by), other}, over)
}

// run writes the lines of a run and of those that it spawned.
func (f *Follower) run(p place, name string, begin []string, over bool) {
	run, outer := p.run, f.m
	f.placed[run] = true
	defer func() { f.m = outer }()
	if f.m == nil || f.m.tree.Session != p.tree.Session {
		f.m = f.view(p.tree).docs(f.now)
		f.m.drawn, f.m.text, f.m.most = true, maxScan+8, unbounded
	}
	v := f.m.run(p)
	over = over || v.Status != run.Status // its process is gone
	key := f.keys[run]
	f.line(key+" begin", run.Start, append(begin, dim.of(Clean(run.Agent)), dim.of(Clean(run.Model)))...)
	f.said(key+" outside", run.Start, v.own.Input, false)
	f.children(p, key, &v.own, over)
	strays := f.strays[run]
	indexes := map[int64]int{}
	for _, t := range run.Turns {
		for len(strays) > 0 && strays[0].run.Start.Before(t.Start) {
			f.subAgent(strays[0], "", over)
			strays = strays[1:]
		}
		f.turn(p, fmt.Sprint(key, " turn ", t.Index, " ", indexes[t.Index]), f.m.turn(f.m.at[t]), over,
			v.Status != spans.RunStatusOpen)
		indexes[t.Index]++
	}
	for _, k := range strays {
		f.subAgent(k, "", over)
	}
	if v.Status == spans.RunStatusOpen && !over {
		return
	}
	last, unseen := run.End, ""
	if last.IsZero() {
		last, unseen = cmp.Or(run.Seen, run.Start), "its end was not seen"
	}
	f.line(key+" end", last, name, runStatus(v.Status, v.Word), plural(v.Turns, "turn"),
		took(knownStart(run.Span), last), yellow.of(unseen), red.of(Clean(run.Error)))
}

func (f *Follower) turn(p place, key string, v *TurnView, over, stopped bool) {
	t := v.of
	// The end of a missing turn is only that of its parts.
	ended := !t.End.IsZero() && (!t.Missing || stopped)
	if t.Input.Len() > 0 || len(t.Requests) > 0 { // else it is that of the run, which is written
		f.said(key+" input", t.Start, slices.DeleteFunc(v.Input, func(s Said) bool { return s.outside }), true)
	}
	// The loop may discard the reply of an open turn, unless its tools run.
	if ended || over || !t.Partial && len(t.ToolCalls) > 0 {
		at := cmp.Or(t.End, t.Seen)
		for _, c := range t.ToolCalls {
			if c.Start.Before(at) {
				at = c.Start // the reply asked for it
			}
		}
		if t.Partial {
			for i := range v.Output {
				v.Output[i].Text.Text += "…"
			}
			f.said(key+" partial", at, v.Output, false)
		} else {
			f.said(key+" output", at, v.Output, false)
		}
	}
	f.children(p, key, v, over)
	if !ended && !over {
		return
	}
	state, st := turnState(v)
	if state == "" && t.Failed {
		state, st = "failed", red
	}
	parts := []string{fmt.Sprintf("turn %d", t.Index), dim.of(words(string(t.Purpose))), st.of(state), took(knownStart(t.Span), cmp.Or(t.End, t.Seen))}
	if t.Attempts > 1 {
		parts = append(parts, yellow.of(fmt.Sprintf("%d attempts", t.Attempts)))
	}
	if v.UsageTold {
		parts = append(parts, tokenCount(t.Usage.LowerBound, t.Usage.Input)+" in",
			tokenCount(t.Usage.LowerBound, t.Usage.Output)+" out")
	}
	parts = append(parts, dim.of(Clean(t.StopReason)), red.of(Clean(t.Error)))
	f.line(key+" end", cmp.Or(t.End, t.Seen, t.Start), parts...)
}

// children writes what belongs to a turn, or to a run outside its turns, by its end.
func (f *Follower) children(p place, key string, t *TurnView, over bool) {
	type dated struct {
		at    time.Time
		write func()
	}
	var list []dated
	decided := func(l []PermissionView) {
		for i := range l {
			v, at := &l[i], cmp.Or(l[i].of.End, l[i].At)
			if !over && v.Waiting {
				continue
			}
			answer := ""
			if v.of.Known != spans.KnownObserved && v.of.Unanswered() {
				answer = yellow.of("no answer")
			}
			list = append(list, dated{at, func() {
				f.line(fmt.Sprintf("%s permission %q %d", key, v.of.CallID, v.of.Ordinal), at, "  "+permissionLine(v), answer,
					dim.of(permissionText(v)))
			}})
		}
	}
	decided(t.Permissions)
	for i := range t.Compactions {
		v, end := &t.Compactions[i], t.Compactions[i].of.End
		if !end.IsZero() || over {
			list = append(list, dated{cmp.Or(end, v.At), func() {
				parts := compactionParts(v)
				parts[0] = "  " + parts[0]
				f.line(fmt.Sprintf("%s compaction %s %d", key, v.Kind, v.At.UnixNano()), cmp.Or(end, v.At), parts...)
			}})
		}
	}
	for i := range t.ToolCalls {
		v, c := &t.ToolCalls[i], t.ToolCalls[i].of
		decided(v.Permissions)
		ended, at := !c.End.IsZero() || over, cmp.Or(c.End, c.Seen, c.Start)
		if len(v.kids) == 0 && !ended {
			continue
		}
		list = append(list, dated{at, func() {
			by := Clean(v.Name) + prefixed(" ", Clean(v.ID))
			if v.Input != nil && v.Input.State == "" {
				by = Clean(v.Name) + "(" + ellipsis(Clean(argsText(v.Input.Text)), callTextArgs) + ")"
			}
			for _, k := range v.kids {
				f.subAgent(k, by, over)
			}
			if ended {
				f.call(p, fmt.Sprintf("%s call %q %d", key, c.ID, c.Ordinal), v, at)
			}
		}})
	}
	slices.SortStableFunc(list, func(a, b dated) int { return a.at.Compare(b.at) })
	for _, d := range list {
		d.write()
	}
}

// callTextArgs bounds the characters of the arguments of the call that a sub-agent is by.
const callTextArgs = 40

func (f *Follower) call(p place, key string, v *CallView, at time.Time) {
	parts := []string{"  " + callLine(v, bold, true), dim.of(took(knownStart(v.of.Span), cmp.Or(v.End, v.of.Seen)))}
	for _, k := range v.kids {
		if n, ok := f.agents[f.keys[k.run]]; ok {
			parts = append(parts, dim.of(fmt.Sprintf("sub-agent %d", n)))
		}
	}
	if child := v.of.ChildSessionID; child != p.tree.ID {
		parts = append(parts, dim.of(prefixed("session ", Clean(child))))
	}
	text := Clean(v.Error)
	if v.Output != nil && v.Output.State == "" {
		text = Clean(v.Output.Text)
	}
	f.line(key, at, append(parts, dim.of(text))...)
}

// said writes texts of messages; with user only those of the user.
func (f *Follower) said(key string, at time.Time, list []Said, user bool) {
	for i := range list {
		s := &list[i]
		if s.Text.State != "" || user && s.Label != session.ByUser { // what is missing may still arrive
			continue
		}
		label := saidStyle(s.Label).of(shortLabel(s.Label))
		f.line(fmt.Sprint(key, " ", s.message, " ", s.part), at, "  "+padRight(label, labelWidth)+Clean(s.Text.Text))
	}
}

// line writes one line in parts, once.
func (f *Follower) line(key string, at time.Time, parts ...string) {
	if f.d.err != nil || f.written[key] {
		return
	}
	f.written[key] = true
	clock := strings.Repeat(" ", len("15:04:05"))
	if session.TimeTold(at) {
		clock = at.In(f.o.Location).Format("15:04:05")
	}
	text := joined(separator, parts...)
	f.d.line(dim.of(clock+" "+f.lead), cut(text, f.d.width-len(clock)-1-width(f.lead)))
}

// Line returns the present state of the session in one line of at most that many columns, without colour, for the foot
// of a terminal.
func (f *Follower) Line(t session.Tree, now time.Time, columns int) string {
	v := StatusOf(t.Session, now)
	out := []string{words(string(v.Status))}
	since := func(t, until time.Time) string { return Duration(max(0, until.Sub(t)).Truncate(time.Second)) }
	if turn := v.turn; turn != nil {
		until := now
		if v.Status == spans.SessionStatusAborted {
			until = turn.Seen
		}
		keys := map[*session.Run]string{}
		runKeys(t.Session, keys)
		what := fmt.Sprintf("turn %d %s", turn.Index, since(turn.Start, until))
		if n := f.agents[keys[v.run]]; n > 0 {
			what = fmt.Sprintf("sub-agent %d ", n) + what
		}
		if out = append(out, what); turn.Attempts > 1 {
			out = append(out, fmt.Sprintf("attempt %d", turn.Attempts))
		}
	}
	for _, o := range v.Open {
		what := o.Tool
		if o.Kind == "permission" {
			what += "?"
		}
		out = append(out, Clean(what)+" "+since(o.Since, now))
	}
	line := strings.Join(out, separator)
	if turn := v.turn; turn != nil && turn.Partial && turn.Output.Len() > 0 {
		body, _ := t.Blocks.Body(turn.Output.Items()[0])
		if tail := columns - width(line) - width(separator) - 1; tail > 8 {
			line += prefixed(separator+"…", lastWords(body, tail))
		}
	}
	return cut(line, columns)
}

// lastWords returns the last words of a message that have room in so many columns.
func lastWords(body string, columns int) string {
	var all []string
	for _, s := range sayings(body) {
		all = append(all, s.text)
	}
	said := strings.Join(all, " ")
	said = Clean(said[max(0, len(said)-maxScan/2):])
	for width(said) > columns {
		_, said, _ = strings.Cut(said, " ")
	}
	return said
}
