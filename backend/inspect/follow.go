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

// Follower writes a session in progress like a log: a line for each item of its tree that is over. Each Write takes the
// whole tree and writes the lines that are new; a written line never changes. The zero value is not usable.
type Follower struct {
	d *drawer
	o Options
	// written are the keys of lines. They have no starts, which are certain only at the end.
	written map[string]bool
	agents  map[string]int // the numbers of sub-agents by their runs, in their order of appearance
}

// NewFollower returns one that writes to w with Width, Color and Location of o.
func NewFollower(w io.Writer, o Options) *Follower {
	o.Location, o.Hidden, o.Now = cmp.Or(o.Location, time.UTC), true, time.Time{}
	return &Follower{d: newDrawer(w, o), o: o, written: map[string]bool{}, agents: map[string]int{}}
}

// Write writes the new lines of a tree in its order: messages, tool calls, decisions, compactions, turns and runs that
// are over. Related are other sessions. Spawned runs of theirs and of the tree have numbered lines below their parents.
// Where only is not nil, it writes that run and its sub-agents. With over, for the last Write, and for a run whose
// process is gone, it also writes what never ended, as it was last seen. Write keeps no tree. The error is that of the
// writer; after the first one it writes nothing.
func (f *Follower) Write(
	t session.Tree, related []session.Tree, only *session.Run, now time.Time, over bool,
) error {
	o := f.o
	o.AsOf, o.Related, o.Run = now, related, only
	r := newRenderer(t, o)
	r.log, r.over = true, over
	l := &log{Follower: f, renderer: r, keys: map[*session.Run]string{}, nth: map[string]int{}}
	for _, tree := range append([]session.Tree{t}, related...) {
		runKeys(tree.Session, l.keys)
	}
	for _, n := range r.roots() {
		l.node(n, "", "", "")
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

// mostIndents bounds the indent of nested sub-agents, in columns.
const mostIndents = 8

// log is one Write.
type log struct {
	*Follower
	*renderer
	keys map[*session.Run]string
	nth  map[string]int
}

// key names an item of a parent. Numbers distinguish items of one name.
func (l *log) key(parent, id string) string {
	key := parent + " " + id
	l.nth[key]++
	return fmt.Sprint(key, " ", l.nth[key])
}

// node writes the lines of n and of all below it. The key of its parent, the beginning of the lines and the call that
// spawned a run come from above.
func (l *log) node(n *node, parent, lead, by string) {
	indent, key := "  ", l.keys[n.run]
	switch {
	case n.run == nil:
		key = l.key(parent, n.id)
	case parent != "" && (l.spawned(n.run) || n.begin[0] != ""):
		if l.agents[key] == 0 {
			l.agents[key] = len(l.agents) + 1
		}
		outer := lead[:len(lead)-len(strings.TrimLeft(lead, " "))]
		lead = outer[:min(len(outer), mostIndents-2)] + fmt.Sprintf("  %d│ ", l.agents[key])
		n.head[0] = bold.of(fmt.Sprintf("sub-agent %d", l.agents[key]))
	}
	if n.run != nil {
		l.line(key+" begin", lead, n.run.Start, append([]string{n.head[0], prefixed("by ", by)}, n.begin...)...)
	}
	if n.run != nil || n.addr != "" {
		indent = ""
	}
	end := slices.Clone(n.head)
	end[0] = indent + end[0]
	for _, c := range [][2]string{{"took", ""}, {"in", " in"}, {"out", " out"}} {
		if text := n.cols[c[0]]; text != "-" {
			end = append(end, suffixed(text, c[1]))
		}
	}
	for _, it := range n.items {
		switch {
		case it.branch != nil:
			l.node(it.branch, key, lead, n.call)
			if k := l.agents[l.keys[it.branch.run]]; n.call != "" && k > 0 {
				end = append(end, dim.of(fmt.Sprintf("sub-agent %d", k)))
			}
		case it.end:
			end = append(end, it.style.of(it.text))
		case it.id != "":
			l.line(l.key(key, it.id), lead, it.at, "  "+padRight(it.style.of(it.label), labelWidth)+it.text)
		}
	}
	if n.over {
		l.line(key+" end", lead, n.at, end...)
	}
}

// line writes one line in parts, once.
func (l *log) line(key, lead string, at time.Time, parts ...string) {
	if l.Follower.d.err != nil || l.written[key] {
		return
	}
	l.written[key] = true
	clock := strings.Repeat(" ", len("15:04:05"))
	if session.TimeKnown(at) {
		clock = at.In(l.renderer.o.Location).Format("15:04:05")
	}
	text := joined(separator, parts...)
	d := l.Follower.d
	d.line(dim.of(clock+" "+lead), cut(text, d.width-len(clock)-1-width(lead)))
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
	said := joinedParts(body)
	said = Clean(said[max(0, len(said)-maxScan/2):])
	for width(said) > columns {
		_, said, _ = strings.Cut(said, " ")
	}
	return said
}
