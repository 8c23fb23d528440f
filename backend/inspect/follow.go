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

// Follower writes a session as it goes on, like a log: a line for each thing when it is over. It is given the whole tree whenever that
// changed and writes what it has not written; a line that was written stays, whatever arrives later. The zero value is not usable.
type Follower struct {
	w       io.Writer
	o       Options
	written map[followKey]bool
	// agents are the numbers of sub-agents, by what names their runs, in the order in which they came.
	agents map[followKey]int
	err    error

	// Of the Write that is going on: all runs, and what spawned which; what lines of the run that is being written begin with, and how
	// deep it is.
	r       *renderer
	kids    map[*session.ToolCall][]place
	strays  map[*session.Run][]place
	claimed map[*session.Run]bool
	nth     map[*session.Run]int // number among the runs of that id
	lead    string
	depth   int
}

// followKey names a thing that has a line: what it is, and its address. Ids and indexes that were used again are told apart by their number,
// from 0: a start is known for sure only when the thing is over.
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

// NewFollower returns one that writes to w. Of o it takes Width, Color and Location.
func NewFollower(w io.Writer, o Options) *Follower {
	if o.Width < 40 {
		o.Width = 80
	}
	if o.Location == nil {
		o.Location = time.UTC
	}
	return &Follower{w: w, o: o, written: map[followKey]bool{}, agents: map[followKey]int{}}
}

// Write writes what of the tree is over and was not written yet: what the user said, replies, tool calls, decisions, compactions, turns and
// runs, in the order of the tree. Related are other sessions: runs of theirs, and of the tree, that were spawned by what is written are
// written in place, as lines of a sub-agent that has a number. Where only is not nil nothing but that run of the tree and its sub-agents count.
// With over, which is for the last time, what never ended is written too, as it was last seen: the beginnings of replies, tool calls, runs;
// so is that of a run whose process is gone. The trees are kept no longer than the call. The error is the writer's; after the
// first nothing more is written.
func (f *Follower) Write(t session.Tree, related []session.Tree, only *session.Run, now time.Time, over bool) error {
	f.r = &renderer{o: Options{Related: related}, main: t, placed: map[*session.Run]bool{}, histories: map[*session.Session]*session.History{}}
	defer func() { f.r, f.kids, f.strays, f.claimed, f.nth = nil, nil, nil, nil, nil }()
	f.r.index()
	f.family()
	for i, run := range t.Runs {
		if run == only || only == nil && !f.claimed[run] {
			f.run(place{t, run, i + 1}, now, over)
		}
	}
	for i, run := range t.Runs { // whatever claims each other, or was spawned by what is not looked at
		if only == nil && !f.r.placed[run] {
			f.run(place{t, run, i + 1}, now, over)
		}
	}
	return f.err
}

func (f *Follower) key(p place) followKey {
	return followKey{session: p.tree.ID, run: p.run.ID, runNth: f.nth[p.run]}
}

func (f *Follower) run(p place, now time.Time, over bool) {
	name := fmt.Sprintf("run %d", p.n)
	f.lines(p, name, []seg{{name, bold}}, now, over)
}

// mostIndents bounds how far lines of sub-agents of sub-agents are indented.
const mostIndents = 4

// subAgent writes the lines of a run that was spawned, by what that says, each with its number in front.
func (f *Follower) subAgent(p place, by string, now time.Time, over bool) {
	if f.r.placed[p.run] {
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

	name := fmt.Sprintf("sub-agent %d", n)
	begin := []seg{{name, bold}}
	add := func(text string) {
		if text != "" {
			begin = append(begin, seg{separator + text, plainText})
		}
	}
	other := p.tree.Session != f.r.main.Session
	if !other || len(p.tree.Runs) > 1 {
		add(fmt.Sprintf("run %d", p.n))
	}
	add(prefixed("by ", by))
	if other {
		add("session " + Clean(p.tree.ID))
	}
	f.lines(p, name, begin, now, over)
}

// lines writes the lines of a run and of what it spawned.
func (f *Follower) lines(p place, name string, begin []seg, now time.Time, over bool) {
	run, status := p.run, p.run.StatusAt(now)
	f.r.placed[run] = true
	over = over || run.Status == spans.RunStatusOpen && status != spans.RunStatusOpen // its process is gone
	key := f.key(p)
	for _, s := range []string{run.Agent, run.Model} {
		if s != "" {
			begin = append(begin, seg{separator + Clean(s), dim})
		}
	}
	f.line(key, "run begin", run.Start, begin)
	f.said(p, key, "outside", run.Start, run.Outside, false)
	f.children(p, key, run.ToolCalls, run.Compactions, run.Permissions, now, over)
	strays := f.strays[run]
	indexes := map[int64]int{}
	for _, t := range run.Turns {
		for len(strays) > 0 && strays[0].run.Start.Before(t.Start) {
			f.subAgent(strays[0], "", now, over)
			strays = strays[1:]
		}
		key.turn, key.turnNth = t.Index, indexes[t.Index]
		indexes[t.Index]++
		f.turn(p, key, t, now, over, status != spans.RunStatusOpen)
	}
	key.turn, key.turnNth = 0, 0
	for _, k := range strays {
		f.subAgent(k, "", now, over)
	}

	last := run.End
	if status == spans.RunStatusOpen && !over {
		return
	}
	if run.End.IsZero() {
		last = cmp.Or(run.Seen, run.Start)
	}
	end := append([]seg{{name, bold}}, statusSeg(status, run.StatusWord)...)
	end = append(end, seg{separator + plural(len(run.Turns), "turn") + prefixed(separator, took(toldStart(run.Span), last)), plainText})
	if run.End.IsZero() {
		end = append(end, seg{separator + "its end was not seen", yellow})
	}
	if run.Error != "" {
		end = append(end, seg{separator + Clean(run.Error), red})
	}
	f.line(key, "run end", last, end)
}

// family says which runs were spawned by which call, and which by a run of which no call claims them, or not yet, by start.
func (f *Follower) family() {
	f.kids, f.strays = map[*session.ToolCall][]place{}, map[*session.Run][]place{}
	claimed := map[*session.Run]bool{}
	f.nth = map[*session.Run]int{}
	ids := map[[2]string]int{}
	for _, p := range f.r.runs {
		id := [2]string{p.tree.ID, p.run.ID}
		f.nth[p.run] = ids[id]
		ids[id]++
		for c := range p.run.Calls() {
			if kids := f.r.kids(p, c); len(kids) > 0 {
				f.kids[c] = kids
				for _, k := range kids {
					claimed[k.run] = true
				}
			}
		}
	}
	for _, k := range f.r.runs {
		if claimed[k.run] {
			continue
		}
		h := f.r.history(k.tree).Run(k.run)
		parent := h.Parent
		if parent == nil && k.run.ParentID != "" {
			for _, q := range f.r.byID[k.run.ParentID] { // loops reuse ids: the last one that began before is meant
				if q.tree.Session != k.tree.Session && (k.run.ParentSessionID == "" || k.run.ParentSessionID == q.tree.ID) &&
					(parent == nil || !q.run.Start.After(k.run.Start)) {
					parent = q.run
				}
			}
		} else if h.Relation != session.RelationSubAgent {
			parent = nil
		}
		if parent != nil {
			f.strays[parent] = append(f.strays[parent], k)
			claimed[k.run] = true
		}
	}
	for _, l := range f.strays {
		slices.SortStableFunc(l, func(a, b place) int { return a.run.Start.Compare(b.run.Start) })
	}
	f.claimed = claimed
}

func (f *Follower) turn(p place, key followKey, t *session.Turn, now time.Time, over, stopped bool) {
	ended := !t.End.IsZero() && (!t.Missing || stopped) // the end of one that did not come is only that of what came of it
	f.said(p, key, "input", t.Start, told(p, t), true)
	// Of an open turn the loop may throw the reply away and ask again, unless its tools run.
	if ended || over || !t.Partial && len(t.ToolCalls) > 0 {
		at := cmp.Or(t.End, t.Seen)
		for _, c := range t.ToolCalls {
			if c.Start.Before(at) {
				at = c.Start // which the reply asked for
			}
		}
		label := "output"
		if t.Partial {
			label = "partial"
		}
		f.said(p, key, label, at, t.Output, false)
	}
	f.children(p, key, t.ToolCalls, t.Compactions, t.Permissions, now, over)
	if !ended && !over {
		return
	}
	segs := []seg{{fmt.Sprintf("turn %d", t.Index), plainText}}
	add := func(text string, st style) {
		if text != "" {
			segs = append(segs, seg{separator + text, st})
		}
	}
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

// children writes what hangs in a turn, or in a run outside any turn.
func (f *Follower) children(p place, key followKey, calls []*session.ToolCall, compactions []*session.Compaction, permissions []*session.Permission, now time.Time, over bool) {
	type dated struct {
		at    time.Time
		write func()
	}
	var list []dated
	decided := func(q *session.Permission) {
		if over || !q.Unanswered() || !slices.Contains(p.run.Waiting(), q) {
			list = append(list, dated{cmp.Or(q.End, q.Start), func() { f.permission(key, q) }})
		}
	}
	for _, q := range permissions {
		decided(q)
	}
	for _, c := range compactions {
		if !c.End.IsZero() || over {
			list = append(list, dated{cmp.Or(c.End, c.Start), func() { f.compaction(key, c) }})
		}
	}
	for _, c := range calls {
		for _, q := range c.Permissions {
			decided(q)
		}
		kids, ended := f.kids[c], !c.End.IsZero() || over
		if len(kids) > 0 || ended {
			list = append(list, dated{cmp.Or(c.End, c.Seen, c.Start), func() {
				for _, k := range kids {
					f.subAgent(k, f.callText(p, c), now, over)
				}
				if ended {
					f.call(p, key, c)
				}
			}})
		}
	}
	slices.SortStableFunc(list, func(a, b dated) int { return a.at.Compare(b.at) })
	for _, d := range list {
		d.write()
	}
}

func (f *Follower) call(p place, key followKey, c *session.ToolCall) {
	key.call, key.ordinal = c.ID, c.Ordinal
	mark, st, word := "✓ ", green, ""
	switch {
	case c.End.IsZero():
		mark, st, word = "… ", yellow, "running "
	case c.Known == spans.KnownClosed:
		mark, st, word = "■ ", red, "no end seen "
	case c.Outcome == spans.OutcomeOK || c.Outcome == "":
	case c.Outcome == spans.OutcomeError:
		mark, st, word = "✗ ", red, "failed "
	default:
		mark, st, word = "⊘ ", yellow, Clean(string(c.Outcome))+" "
	}
	segs := []seg{{"  " + mark + word, st}, {Clean(cmp.Or(c.Name, "tool call")), bold}}
	if args, ok := f.first(p, c.Args); ok {
		segs = append(segs, seg{"(" + Clean(argsText(args)) + ")", plainText})
	}
	segs = append(segs, seg{prefixed(separator, took(toldStart(c.Span), cmp.Or(c.End, c.Seen))), dim})
	for _, k := range f.kids[c] {
		if n, ok := f.agents[f.key(k)]; ok {
			segs = append(segs, seg{fmt.Sprintf("%ssub-agent %d", separator, n), dim})
		}
	}
	if c.ChildSessionID != "" && c.ChildSessionID != p.tree.ID {
		segs = append(segs, seg{separator + "session " + Clean(c.ChildSessionID), dim})
	}
	text := Clean(c.Error)
	if result, ok := f.first(p, c.Result); ok {
		text = Clean(resultText(result))
	}
	if text != "" {
		segs = append(segs, seg{separator + text, dim})
	}
	f.line(key, "call", cmp.Or(c.End, c.Seen, c.Start), segs)
}

// callText names a call in a few words.
func (f *Follower) callText(p place, c *session.ToolCall) string {
	text := Clean(orCall(c.Name))
	if args, ok := f.first(p, c.Args); ok {
		return text + "(" + ellipsis(Clean(argsText(args)), callTextArgs) + ")"
	}
	return text + prefixed(" ", Clean(c.ID))
}

// callTextArgs bounds how much of the arguments callText gives, in characters.
const callTextArgs = 40

func (f *Follower) permission(key followKey, q *session.Permission) {
	key.call, key.ordinal = q.CallID, q.Ordinal
	segs := []seg{{"  permission ", plainText}, {decision(q), decisionStyle(q)}}
	if q.Tool != "" {
		segs = append(segs, seg{" " + Clean(q.Tool), bold})
	}
	if q.Known != spans.KnownObserved && q.Unanswered() {
		segs = append(segs, seg{separator + "no answer", yellow})
	}
	if text := permissionText(q); text != "" {
		segs = append(segs, seg{separator + text, dim})
	}
	f.line(key, "permission", cmp.Or(q.End, q.Start), segs)
}

func (f *Follower) compaction(key followKey, c *session.Compaction) {
	key.call, key.ordinal = string(c.Kind), c.Start.UnixNano()
	segs := []seg{{"  ◇ compaction", magenta}, {separator + Clean(string(c.Kind)), plainText}}
	for _, text := range []string{fromTo(c.MessagesBefore, c.MessagesAfter, "message"), fromTo(c.InputTokens, c.OutputTokens, "token")} {
		if text != "" {
			segs = append(segs, seg{separator + text, plainText})
		}
	}
	f.line(key, "compaction", cmp.Or(c.End, c.Start), segs)
}

// said writes the messages of a list, tool results left out: those stand at their calls. With user only what the user said.
func (f *Follower) said(p place, key followKey, what string, at time.Time, refs *session.Refs, user bool) {
	if refs == nil || p.tree.Blocks == nil {
		return
	}
	for i, ref := range refs.Items() {
		body, ok := p.tree.Blocks.Body(ref)
		if !ok {
			continue // it may come yet
		}
		for j, s := range sayings(body) {
			if s.label == session.ByTool || user && s.label != session.ByUser {
				continue
			}
			st := dim
			switch s.label {
			case session.ByUser:
				st = cyan
			case session.ByModel:
				st = green
			case string(session.SaidError):
				st = red
			}
			key.call, key.ordinal = fmt.Sprint(i), int64(j)
			text := Clean(s.text)
			if what == "partial" {
				text += "…"
			}
			f.line(key, what, at, []seg{{"  " + padRight(s.short(), labelWidth), st}, {text, plainText}})
		}
	}
}

func (f *Follower) first(p place, refs *session.Refs) (string, bool) {
	if refs.Len() == 0 || p.tree.Blocks == nil {
		return "", false
	}
	return p.tree.Blocks.Body(refs.Items()[0])
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
	room := f.o.Width - len(clock) - 1
	if f.lead != "" {
		d.put(dim, f.lead)
		room -= width(f.lead)
	}
	d.putSegs(segs, room)
	d.flush()
	f.err = d.err
}

// Line returns what the session is doing now in one line of at most that many columns, without colour: for the foot of a terminal.
func (f *Follower) Line(t session.Tree, now time.Time, columns int) string {
	v := StatusOf(t.Session, now)
	out := []string{words(string(v.Status))}
	var turn *session.Turn
	agent := "" // whose that turn is
	nth := map[string]int{}
	for _, run := range t.Runs {
		key := followKey{session: t.ID, run: run.ID, runNth: nth[run.ID]}
		nth[run.ID]++
		for _, q := range run.Turns {
			if q.Known == spans.KnownLive && run.Status == spans.RunStatusOpen && (turn == nil || q.Start.After(turn.Start)) {
				turn, agent = q, ""
				if n := f.agents[key]; n > 0 {
					agent = fmt.Sprintf("sub-agent %d ", n)
				}
			}
		}
	}
	if turn != nil {
		until := now
		if v.Status == spans.SessionStatusAborted {
			until = turn.Seen
		}
		out = append(out, fmt.Sprintf("%sturn %d %s", agent, turn.Index, Duration(max(0, until.Sub(turn.Start)).Truncate(time.Second))))
		if turn.Attempts > 1 {
			out = append(out, fmt.Sprintf("attempt %d", turn.Attempts))
		}
	}
	for _, o := range v.Open {
		what := o.Tool
		if o.Kind == "permission" {
			what += "?"
		}
		out = append(out, Clean(what)+" "+Duration(max(0, now.Sub(o.Since)).Truncate(time.Second)))
	}
	line := strings.Join(out, separator)
	if turn != nil && turn.Partial && t.Blocks != nil {
		if text, ok := f.first(place{tree: t}, turn.Output); ok {
			var all []string
			for _, s := range sayings(text) {
				all = append(all, s.text)
			}
			said := strings.Join(all, " ")
			if tail := columns - width(line) - width(separator) - 1; tail > 8 { // what came last
				said = Clean(said[max(0, len(said)-maxScan/2):])
				for width(said) > tail {
					_, rest, found := strings.Cut(said, " ")
					if !found {
						rest = ""
					}
					said = rest
				}
				if said != "" {
					line += separator + "…" + said
				}
			}
		}
	}
	return cut(line, columns)
}
