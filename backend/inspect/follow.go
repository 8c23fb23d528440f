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
	for _, p := range r.runs {
		l.keys[p.run] = l.key(p.tree.ID, p.run.ID)
	}
	for _, n := range r.roots() {
		l.node(n, "", "", "")
	}
	return f.d.err
}

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
	indent, key := "  ", l.key(parent, n.id)
	if strings.HasPrefix(n.id, "turn ") {
		indent = ""
	}
	if n.run != nil {
		indent, key = "", l.keys[n.run]
		begin := []string{n.head[0], dim.of(Clean(n.run.Agent)), dim.of(Clean(n.run.Model))}
		if parent != "" {
			if l.agents[key] == 0 {
				l.agents[key] = len(l.agents) + 1
			}
			lead = fmt.Sprintf("%d│ ", l.agents[key])
			n.head[0] = bold.of(fmt.Sprintf("sub-agent %d", l.agents[key]))
			begin = append([]string{n.head[0], prefixed("by ", by)}, begin[1:]...)
		}
		l.line(key+" begin", lead, n.run.Start, begin...)
	}
	end := slices.Clone(n.head)
	end[0] = indent + end[0]
	for _, c := range [][2]string{{"took", ""}, {"in", " in"}, {"out", " out"}} {
		if text := n.cols[c[0]]; text != "-" {
			end = append(end, suffixed(text, c[1]))
		}
	}
	for _, t := range n.texts {
		switch {
		case t.end:
			end = append(end, t.style.of(t.text))
		case t.id != "":
			l.line(l.key(key, t.id), lead, t.at, "  "+padRight(t.style.of(t.label), labelWidth)+t.text)
		}
	}
	for _, k := range n.kids {
		l.node(k, key, lead, n.call)
		if k := l.agents[l.keys[k.run]]; n.call != "" && k > 0 {
			end = append(end, dim.of(fmt.Sprintf("sub-agent %d", k)))
		}
	}
	if n.over {
		l.line(key+" end", lead, n.at, end...)
	}
}

// line writes one line in parts, once.
func (l *log) line(key, lead string, at time.Time, parts ...string) {
	if l.written[key] {
		return
	}
	l.written[key] = true
	clock := strings.Repeat(" ", len("15:04:05"))
	if session.TimeKnown(at) {
		clock = at.In(l.Follower.o.Location).Format("15:04:05")
	}
	d := l.Follower.d
	d.line(dim.of(clock+" "+lead), cut(joined(separator, parts...), d.width-len(clock)-1-width(lead)))
}

// Line returns the present state of the session in one line of at most that many columns, without colour, for the foot
// of a terminal.
func (f *Follower) Line(t session.Tree, now time.Time, columns int) string {
	v := StatusOf(t.Session, now)
	out := []string{words(string(v.Status))}
	if v.Status == spans.SessionStatusAborted {
		now = t.Last // nothing of it went on after that
	}
	since := func(t time.Time) string { return Duration(max(0, now.Sub(t)).Truncate(time.Second)) }
	if turn := v.turn; turn != nil {
		what := "turn " + strings.TrimPrefix(v.Turn, t.ID+"/") + " " + since(turn.Start)
		if out = append(out, what); turn.Attempts > 1 {
			out = append(out, fmt.Sprintf("attempt %d", turn.Attempts))
		}
	}
	for _, o := range v.Open {
		what := o.Tool
		if o.Kind == "permission" {
			what += "?"
		}
		out = append(out, Clean(what)+" "+since(o.Since))
	}
	return cut(strings.Join(out, separator), columns)
}
