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
	w       io.Writer
	o       Options
	written map[followKey]bool
	// agents are the numbers of sub-agents by the keys of their runs, in their order of appearance.
	agents map[followKey]int
	err    error

	// Of the current Write:
	*index
	placed map[*session.Run]bool
	nth    map[*session.Run]int // number among the runs of that id
	now    time.Time
	m      *docs  // of the session of the current run
	lead   string // beginning of the lines of a sub-agent
	depth  int
}

// followKey identifies a line. Numbers from 0 distinguish ids and indexes that a loop uses again: a start is certain
// only at the end.
type followKey struct {
	what    string
	session string
	run     string
	runNth  int
	turn    int64
	turnNth int
	call    string
	ordinal int64
}

// NewFollower returns one that writes to w with Width, Color and Location of o.
func NewFollower(w io.Writer, o Options) *Follower {
	if o.Width < 40 {
		o.Width = 80
	}
	o.Location = cmp.Or(o.Location, time.UTC)
	return &Follower{w: w, o: o, written: map[followKey]bool{}, agents: map[followKey]int{}}
}

// Write writes the new lines of a tree in its order: user messages, replies, tool calls, decisions, compactions, turns
// and runs that are over. Related are other sessions. Spawned runs of theirs and of the tree have numbered lines below
// their parents. Where only is not nil, it writes that run and its sub-agents. With over, for the last Write, and for a
// run whose process is gone, it also writes what never ended, as it was last seen. Write keeps no tree. The error is
// that of the writer; after the first one it writes nothing.
func (f *Follower) Write(
	t session.Tree, related []session.Tree, only *session.Run, now time.Time, over bool,
) error {
	f.index, f.placed, f.nth, f.now = newIndex(t, related), map[*session.Run]bool{}, map[*session.Run]int{}, now
	defer func() { f.index, f.placed, f.nth, f.m = nil, nil, nil, nil }()
	ids := map[[2]string]int{}
	for _, p := range f.runs {
		id := [2]string{p.tree.ID, p.run.ID}
		f.nth[p.run] = ids[id]
		ids[id]++
	}
	for _, first := range []bool{true, false} { // then runs that claim each other, or whose parent is left out
		for i, run := range t.Runs {
			p := place{t, run, i + 1}
			if run == only && first || only == nil && !f.placed[run] && !(first && f.spawned(run)) {
				name := fmt.Sprintf("run %d", p.n)
				f.run(p, name, []seg{{name, bold}}, over)
			}
		}
	}
	return f.err
}

func (f *Follower) key(p place) followKey {
	return followKey{session: p.tree.ID, run: p.run.ID, runNth: f.nth[p.run]}
}

// mostIndents bounds the indent of nested sub-agents.
const mostIndents = 4

// subAgent writes the lines of a spawned run, each with its number. by names the call that spawned it.
func (f *Follower) subAgent(p place, by string, over bool) {
	if f.placed[p.run] {
		return
	}
	key := f.key(p)
	n, ok := f.agents[key]
	if !ok {
		n = len(f.agents) + 1
		f.agents[key] = n
	}
	lead := f.lead
	defer func() { f.lead, f.depth = lead, f.depth-1 }()
	f.depth++
	f.lead = strings.Repeat("  ", min(f.depth, mostIndents)) + fmt.Sprintf("%d│ ", n)

	name, other, run := fmt.Sprintf("sub-agent %d", n), "", ""
	if p.tree.Session != f.main.Session {
		other = "session " + Clean(p.tree.ID)
	}
	if other == "" || len(p.tree.Runs) > 1 {
		run = fmt.Sprintf("run %d", p.n)
	}
	f.run(p, name, append([]seg{{name, bold}}, parts(plainText, run, prefixed("by ", by), other)...), over)
}

// parts returns further parts of a line.
func parts(st style, texts ...string) []seg {
	var out []seg
	for _, text := range texts {
		if text != "" {
			out = append(out, seg{separator + text, st})
		}
	}
	return out
}

// run writes the lines of a run and of those that it spawned.
func (f *Follower) run(p place, name string, begin []seg, over bool) {
	run, status := p.run, p.run.StatusAt(f.now)
	f.placed[run] = true
	over = over || run.Status == spans.RunStatusOpen && status != spans.RunStatusOpen // its process is gone
	m, v := f.m, f.view(p.tree)
	defer func() { f.m = m }()
	if f.m == nil || f.m.View != v {
		f.m = &docs{View: v, text: maxScan + 8, most: unbounded, drawn: true}
	}
	key := f.key(p)
	f.line(key, "run begin", run.Start, append(begin, parts(dim, Clean(run.Agent), Clean(run.Model))...))
	f.said(key, "outside", run.Start, f.m.said(run.Outside.Items(), run.Capture, nil, nil), false)
	f.children(p, key, run.Capture, run.ToolCalls, run.Compactions, run.Permissions, over)
	strays := f.strays[run]
	indexes := map[int64]int{}
	for i, t := range run.Turns {
		for len(strays) > 0 && strays[0].run.Start.Before(t.Start) {
			f.subAgent(strays[0], "", over)
			strays = strays[1:]
		}
		key.turn, key.turnNth = t.Index, indexes[t.Index]
		indexes[t.Index]++
		f.turn(key, &viewTurn{place: p, Turn: t, first: i == 0}, over, status != spans.RunStatusOpen)
	}
	key.turn, key.turnNth = 0, 0
	for _, k := range strays {
		f.subAgent(k, "", over)
	}
	if status == spans.RunStatusOpen && !over {
		return
	}
	last, unseen := run.End, ""
	if last.IsZero() {
		last, unseen = cmp.Or(run.Seen, run.Start), "its end was not seen"
	}
	end := append([]seg{{name, bold}}, statusSeg(status, run.StatusWord)...)
	end = append(end, parts(plainText, plural(len(run.Turns), "turn"), took(toldStart(run.Span), last))...)
	end = append(append(end, parts(yellow, unseen)...), parts(red, Clean(run.Error))...)
	f.line(key, "run end", last, end)
}

func (f *Follower) turn(key followKey, t *viewTurn, over, stopped bool) {
	// The end of a missing turn is only that of its parts.
	ended := !t.End.IsZero() && (!t.Missing || stopped)
	input := slices.DeleteFunc(f.m.input(t, nil), func(s Said) bool { return s.outside })
	if t.Input.Len() == 0 && len(t.Requests) == 0 {
		input = nil // those of the run, which are written
	}
	f.said(key, "input", t.Start, input, true)
	// The loop may discard the reply of an open turn, unless its tools run.
	if ended || over || !t.Partial && len(t.ToolCalls) > 0 {
		at := cmp.Or(t.End, t.Seen)
		for _, c := range t.ToolCalls {
			if c.Start.Before(at) {
				at = c.Start // the reply asked for it
			}
		}
		label := "output"
		if t.Partial {
			label = "partial"
		}
		f.said(key, label, at, f.m.said(t.Output.Items(), t.Capture, nil, nil), false)
	}
	f.children(t.place, key, t.Capture, t.ToolCalls, t.Compactions, t.Permissions, over)
	if !ended && !over {
		return
	}
	segs := []seg{{fmt.Sprintf("turn %d", t.Index), plainText}}
	add := func(text string, st style) { segs = append(segs, parts(st, text)...) }
	switch {
	case !ended && stopped:
		add("stopped", yellow)
	case !ended:
		add("open", yellow)
	case t.Known == spans.KnownClosed:
		add("no end seen", red)
	case t.Failed:
		add("failed", red)
	}
	add(took(toldStart(t.Span), cmp.Or(t.End, t.Seen)), plainText)
	if t.Attempts > 1 {
		add(fmt.Sprintf("%d attempts", t.Attempts), yellow)
	}
	if t.UsageTold() {
		add(Count(t.Usage.Input)+" in", plainText)
		add(Count(t.Usage.Output)+" out", plainText)
	}
	add(Clean(t.StopReason), dim)
	add(Clean(t.Error), red)
	f.line(key, "end", cmp.Or(t.End, t.Seen, t.Start), segs)
}

// children writes what belongs to a turn, or to a run outside its turns, by its end.
func (f *Follower) children(
	p place, key followKey, capture spans.Capture,
	calls []*session.ToolCall, compactions []*session.Compaction, permissions []*session.Permission, over bool,
) {
	type dated struct {
		at    time.Time
		write func()
	}
	var list []dated
	decided := func(l []*session.Permission) {
		for _, q := range l {
			if over || !q.Unanswered() || !slices.Contains(p.run.Waiting(), q) {
				list = append(list, dated{cmp.Or(q.End, q.Start), func() { f.permission(p, key, q) }})
			}
		}
	}
	decided(permissions)
	for _, c := range compactions {
		if !c.End.IsZero() || over {
			list = append(list, dated{cmp.Or(c.End, c.Start), func() { f.compaction(key, c) }})
		}
	}
	for _, c := range calls {
		decided(c.Permissions)
		kids, ended := f.kids[c], !c.End.IsZero() || over
		if len(kids) == 0 && !ended {
			continue
		}
		list = append(list, dated{cmp.Or(c.End, c.Seen, c.Start), func() {
			v := f.m.call(p, "", capture, c)
			by := Clean(v.Name) + prefixed(" ", Clean(v.ID))
			if v.args != "" {
				by = Clean(v.Name) + "(" + ellipsis(Clean(v.args), callTextArgs) + ")"
			}
			for _, k := range kids {
				f.subAgent(k, by, over)
			}
			if ended {
				f.call(p, key, &v)
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

func (f *Follower) call(p place, key followKey, v *CallView) {
	c := v.of
	key.call, key.ordinal = c.ID, c.Ordinal
	mark := callMark(c, wordRunning)
	segs := []seg{{"  " + mark.text, mark.style}, {Clean(v.Name), bold}}
	if v.Input != nil && v.Input.State == "" {
		segs = append(segs, seg{"(" + Clean(v.args) + ")", plainText})
	}
	segs = append(segs, parts(dim, took(toldStart(c.Span), cmp.Or(c.End, c.Seen)))...)
	for _, k := range v.kids {
		if n, ok := f.agents[f.key(k)]; ok {
			segs = append(segs, parts(dim, fmt.Sprintf("sub-agent %d", n))...)
		}
	}
	if c.ChildSessionID != "" && c.ChildSessionID != p.tree.ID {
		segs = append(segs, parts(dim, "session "+Clean(c.ChildSessionID))...)
	}
	text := Clean(v.Error)
	if v.Output != nil && v.Output.State == "" {
		text = Clean(v.Output.Text)
	}
	f.line(key, "call", cmp.Or(c.End, c.Seen, c.Start), append(segs, parts(dim, text)...))
}

func (f *Follower) permission(p place, key followKey, q *session.Permission) {
	v := &f.m.permissions(p.run, []*session.Permission{q})[0]
	key.call, key.ordinal = q.CallID, q.Ordinal
	segs := []seg{{"  permission ", plainText}, {decision(q.Action), decisionStyle(q.Action)}}
	segs = append(segs, seg{prefixed(" ", Clean(q.Tool)), bold})
	if q.Known != spans.KnownObserved && q.Unanswered() {
		segs = append(segs, parts(yellow, "no answer")...)
	}
	f.line(key, "permission", cmp.Or(q.End, q.Start), append(segs, parts(dim, permissionText(v))...))
}

func (f *Follower) compaction(key followKey, c *session.Compaction) {
	key.call, key.ordinal = string(c.Kind), c.Start.UnixNano()
	segs := append([]seg{{"  ◇ compaction", magenta}}, parts(plainText, Clean(string(c.Kind)),
		fromTo(c.MessagesBefore, c.MessagesAfter, "message"), fromTo(c.InputTokens, c.OutputTokens, "token"))...)
	f.line(key, "compaction", cmp.Or(c.End, c.Start), segs)
}

// said writes texts of messages; with user only those of the user.
func (f *Follower) said(key followKey, what string, at time.Time, list []Said, user bool) {
	for i := range list {
		s := &list[i]
		if s.Text.State != "" || user && s.Label != session.ByUser { // what is missing may still arrive
			continue
		}
		key.call, key.ordinal = fmt.Sprint(s.message), int64(s.part)
		text := Clean(s.Text.Text)
		if what == "partial" {
			text += "…"
		}
		label := padRight(shortLabel(s.Label), labelWidth)
		f.line(key, what, at, []seg{{"  " + label, saidStyle(s.Label)}, {text, plainText}})
	}
}

// line writes one line, once.
func (f *Follower) line(key followKey, what string, at time.Time, segs []seg) {
	key.what = what
	if f.err != nil || f.written[key] {
		return
	}
	f.written[key] = true
	d := drawer{w: f.w, width: f.o.Width, color: f.o.Color}
	clock := strings.Repeat(" ", len("15:04:05"))
	if session.TimeTold(at) {
		clock = at.In(f.o.Location).Format("15:04:05")
	}
	d.put(dim, clock+" ")
	d.put(dim, f.lead)
	d.putSegs(segs, f.o.Width-len(clock)-1-width(f.lead))
	d.flush()
	f.err = d.err
}

// Line returns the present state of the session in one line of at most that many columns, without colour, for the foot
// of a terminal.
func (f *Follower) Line(t session.Tree, now time.Time, columns int) string {
	v := StatusOf(t.Session, now)
	out := []string{words(string(v.Status))}
	var turn *session.Turn
	agent := "" // of that turn
	nth := map[string]int{}
	for _, run := range t.Runs {
		key := followKey{session: t.ID, run: run.ID, runNth: nth[run.ID]}
		nth[run.ID]++
		for _, q := range run.Turns {
			live := q.Known == spans.KnownLive && run.Status == spans.RunStatusOpen
			if live && (turn == nil || q.Start.After(turn.Start)) {
				turn, agent = q, ""
				if n := f.agents[key]; n > 0 {
					agent = fmt.Sprintf("sub-agent %d ", n)
				}
			}
		}
	}
	since := func(t, until time.Time) string { return Duration(max(0, until.Sub(t)).Truncate(time.Second)) }
	if turn != nil {
		until := now
		if v.Status == spans.SessionStatusAborted {
			until = turn.Seen
		}
		out = append(out, fmt.Sprintf("%sturn %d %s", agent, turn.Index, since(turn.Start, until)))
		if turn.Attempts > 1 {
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
	if turn != nil && turn.Partial && turn.Output.Len() > 0 {
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
